package fuzz

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	localFiles = 1 << 7

	// Flags of the status that ends a result.
	moreResults  = 0x0008
	cursorExists = 0x0040
	lastRowSent  = 0x0080

	fullPacket = 1<<24 - 1
)

// dialogue is a client that speaks the protocol by hand, and well.
type dialogue struct {
	*wire
	id uint32
}

// refused is an error that the server has answered.
type refused struct {
	number  uint16
	message string
}

func (e *refused) Error() string { return fmt.Sprintf("%d: %s", e.number, e.message) }

// result is what the server has answered to a command.
type result struct {
	columns  int
	rows     [][]byte
	status   uint16
	affected uint64
	// file is what the server asks for.
	file string
}

func newDialogue(addr string) (*dialogue, error) {
	conn, err := dialWire(addr)
	if err != nil {
		return nil, err
	}
	d := &dialogue{wire: conn}
	hello := handshake("root", database, nil)
	hello[0] |= localFiles
	if err := d.write(hello); err != nil {
		return nil, err
	}
	if err := d.authenticated(); err != nil {
		return nil, err
	}
	r, err := d.query("SELECT CAST(CONNECTION_ID() AS CHAR)")
	if err != nil {
		return nil, err
	}
	_, err = fmt.Sscan(string(r.rows[0][1:]), &d.id)
	return d, err
}

// authenticated ends a login of a user without a password.
func (d *dialogue) authenticated() error {
	for {
		answer, err := d.receive()
		switch {
		case err != nil:
			return err
		case answer[0] == 0x00:
			return nil
		case answer[0] == 0xfe: // another plugin
			if err := d.write(nil); err != nil {
				return err
			}
		}
	}
}

// send begins an exchange with a payload of any length.
func (d *dialogue) send(payload []byte) error {
	if err := d.SetDeadline(time.Now().Add(hangTimeout)); err != nil {
		return err
	}
	d.sequence = 0
	return d.sendMore(payload)
}

func (d *dialogue) sendMore(payload []byte) error {
	for len(payload) >= fullPacket {
		if err := d.write(payload[:fullPacket]); err != nil {
			return err
		}
		payload = payload[fullPacket:]
	}
	return d.write(payload)
}

// receive returns a payload of any length, or the error that it is.
func (d *dialogue) receive() ([]byte, error) {
	var whole []byte
	for {
		part, err := d.read()
		if err != nil {
			return nil, err
		}
		whole = append(whole, part...)
		if len(part) < fullPacket {
			break
		}
	}
	if len(whole) == 0 {
		return nil, errors.New("an empty packet")
	}
	if whole[0] == 0xff && len(whole) >= 9 {
		return nil, &refused{binary.LittleEndian.Uint16(whole[1:]), string(whole[9:])}
	}
	return whole, nil
}

func isEOF(p []byte) bool { return p[0] == 0xfe && len(p) == 5 }

// answer reads one result.
func (d *dialogue) answer() (*result, error) {
	first, err := d.receive()
	if err != nil {
		return nil, err
	}
	switch first[0] {
	case 0x00:
		affected, n := lengthEncoded(first[1:])
		_, m := lengthEncoded(first[1+n:])
		return &result{affected: affected, status: binary.LittleEndian.Uint16(first[1+n+m:])}, nil
	case 0xfb:
		return &result{file: string(first[1:])}, nil
	}
	if isEOF(first) {
		return &result{status: binary.LittleEndian.Uint16(first[3:])}, nil
	}
	n, _ := lengthEncoded(first)
	r := &result{columns: int(n)}
	for range n {
		if _, err := d.receive(); err != nil {
			return nil, err
		}
	}
	end, err := d.receive()
	if err != nil {
		return nil, err
	}
	if !isEOF(end) {
		return nil, fmt.Errorf("%q instead of the end of the columns", end)
	}
	if r.status = binary.LittleEndian.Uint16(end[3:]); r.status&cursorExists != 0 {
		return r, nil
	}
	return r, d.rows(r)
}

// rows reads rows until their end.
func (d *dialogue) rows(r *result) error {
	for {
		row, err := d.receive()
		if err != nil {
			return err
		}
		if isEOF(row) {
			r.status = binary.LittleEndian.Uint16(row[3:])
			return nil
		}
		r.rows = append(r.rows, row)
	}
}

func (d *dialogue) query(text string) (*result, error) {
	if err := d.send(append([]byte{comQuery}, text...)); err != nil {
		return nil, err
	}
	return d.answer()
}

// simple does a command whose answer is OK or an error.
func (d *dialogue) simple(payload ...byte) error {
	if err := d.send(payload); err != nil {
		return err
	}
	_, err := d.answer()
	return err
}

// prepare prepares a statement and returns its ID.
func (d *dialogue) prepare(text string) (uint32, error) {
	if err := d.send(append([]byte{comStmtPrepare}, text...)); err != nil {
		return 0, err
	}
	head, err := d.receive()
	if err != nil {
		return 0, err
	}
	if head[0] != 0 || len(head) < 12 {
		return 0, fmt.Errorf("%q instead of a prepared statement", head)
	}
	for _, n := range []uint16{binary.LittleEndian.Uint16(head[5:]), binary.LittleEndian.Uint16(head[7:])} {
		for i := 0; n > 0 && i <= int(n); i++ { // with the end
			if _, err := d.receive(); err != nil {
				return 0, err
			}
		}
	}
	return binary.LittleEndian.Uint32(head[1:]), nil
}

// parameter is a value for a prepared statement, nil for one that was sent before.
type parameter struct {
	kind     byte
	unsigned bool
	value    []byte
	null     bool
}

// execute executes a prepared statement, with a cursor or without.
func (d *dialogue) execute(id uint32, cursor bool, parameters ...parameter) (*result, error) {
	b := statementCommand(comStmtExecute, id)
	if cursor {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = append(b, 1, 0, 0, 0)
	if len(parameters) > 0 {
		nulls := make([]byte, (len(parameters)+7)/8)
		var kinds, values []byte
		for i, p := range parameters {
			if p.null {
				nulls[i/8] |= 1 << (i % 8)
			}
			var sign byte
			if p.unsigned {
				sign = 0x80
			}
			kinds, values = append(kinds, p.kind, sign), append(values, p.value...)
		}
		b = append(append(b, nulls...), 1)
		b = append(append(b, kinds...), values...)
	}
	if err := d.send(b); err != nil {
		return nil, err
	}
	return d.answer()
}

// fetch asks a cursor for n rows.
func (d *dialogue) fetch(id uint32, n int) (*result, error) {
	if err := d.send(binary.LittleEndian.AppendUint32(statementCommand(comStmtFetch, id), uint32(n))); err != nil {
		return nil, err
	}
	r := &result{}
	return r, d.rows(r)
}

// longData sends a part of a parameter, to which there is no answer.
func (d *dialogue) longData(id uint32, parameter int, data []byte) error {
	return d.send(append(binary.LittleEndian.AppendUint16(statementCommand(comStmtLongData, id), uint16(parameter)), data...))
}

// close closes a statement, to which there is no answer.
func (d *dialogue) close(id uint32) error { return d.send(statementCommand(comStmtClose, id)) }

func (d *dialogue) resetStatement(id uint32) error {
	return d.simple(statementCommand(comStmtReset, id)...)
}

func (d *dialogue) changeUser(user string) error {
	if err := d.send(append([]byte{comChangeUser}, user+"\x00\x00"+database+"\x00\x2d\x00mysql_native_password\x00"...)); err != nil {
		return err
	}
	return d.authenticated()
}

// load answers a request for a file.
func (d *dialogue) load(lines []string) (*result, error) {
	for _, line := range lines {
		if err := d.sendMore([]byte(line)); err != nil {
			return nil, err
		}
	}
	if err := d.write(nil); err != nil {
		return nil, err
	}
	return d.answer()
}

func statementCommand(command byte, id uint32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{command}, id)
}

// lengthEncoded returns an integer and how many bytes it has.
func lengthEncoded(b []byte) (uint64, int) {
	switch b[0] {
	case 0xfc:
		return uint64(binary.LittleEndian.Uint16(b[1:])), 3
	case 0xfd:
		return uint64(b[1]) | uint64(b[2])<<8 | uint64(b[3])<<16, 4
	case 0xfe:
		return binary.LittleEndian.Uint64(b[1:]), 9
	}
	return uint64(b[0]), 1
}

// lost says that an error is none of the server's: the connection is gone.
func lost(err error) bool {
	var r *refused
	return err != nil && !errors.As(err, &r) || errors.Is(err, io.EOF)
}

package fuzz

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Commands of the protocol.
const (
	comQuit         = 0x01
	comInitDB       = 0x02
	comQuery        = 0x03
	comFieldList    = 0x04
	comShutdown     = 0x08
	comStatistics   = 0x09
	comPing         = 0x0e
	comChangeUser   = 0x11
	comStmtPrepare  = 0x16
	comStmtExecute  = 0x17
	comStmtLongData = 0x18
	comStmtClose    = 0x19
	comStmtReset    = 0x1a
	comSetOption    = 0x1b
	comStmtFetch    = 0x1c
	comResetConn    = 0x1f
)

// Capabilities that a client asks for.
const (
	longPassword    = 1 << 0
	connectWithDB   = 1 << 3
	protocol41      = 1 << 9
	transactions    = 1 << 13
	secureConn      = 1 << 15
	multiStatements = 1 << 16
	multiResults    = 1 << 17
	pluginAuth      = 1 << 19
	usual           = longPassword | connectWithDB | protocol41 | transactions | secureConn | multiStatements | multiResults | pluginAuth
)

// wire is a client that speaks the protocol by hand, with any mistake that a test asks for.
type wire struct {
	net.Conn
	sequence byte
}

// dialWire connects and reads the greeting.
func dialWire(addr string) (*wire, error) {
	conn, err := net.DialTimeout("tcp", addr, hangTimeout)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn}
	if err := w.SetDeadline(time.Now().Add(hangTimeout)); err != nil {
		return nil, err
	}
	if _, err := w.read(); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("the greeting: %w", err)
	}
	return w, nil
}

// login connects and logs in as root.
func login(addr string) (*wire, error) {
	w, err := dialWire(addr)
	if err != nil {
		return nil, err
	}
	if err := w.write(handshake("root", "fuzz", nil)); err != nil {
		return nil, err
	}
	for {
		answer, err := w.read()
		switch {
		case err != nil:
			return nil, err
		case len(answer) == 0:
			return nil, errors.New("an empty packet")
		case answer[0] == 0x00:
			return w, nil
		case answer[0] == 0xff:
			return nil, fmt.Errorf("refused: %q", answer[1:])
		case answer[0] == 0xfe: // another plugin: root has no password
			if err := w.write(nil); err != nil {
				return nil, err
			}
		}
	}
}

// handshake is the response to the greeting.
func handshake(user, db string, password []byte) []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, uint32(usual)) // a buffer takes everything
	_ = binary.Write(&b, binary.LittleEndian, uint32(64<<20))
	b.WriteByte(45)
	b.Write(make([]byte, 23))
	b.WriteString(user + "\x00")
	b.WriteByte(byte(len(password)))
	b.Write(password)
	b.WriteString(db + "\x00mysql_native_password\x00")
	return b.Bytes()
}

// write sends a packet with the next sequence number.
func (w *wire) write(payload []byte) error {
	_, err := w.Write(packet(w.sequence, payload))
	w.sequence++
	return err
}

// command starts a new exchange.
func (w *wire) command(payload []byte) error {
	w.sequence = 0
	return w.write(payload)
}

// packet adds the header.
func packet(sequence byte, payload []byte) []byte {
	n := len(payload)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), sequence}, payload...)
}

// read returns the payload of the next packet.
func (w *wire) read() ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(w, header[:]); err != nil {
		return nil, err
	}
	w.sequence = header[3] + 1
	payload := make([]byte, int(header[0])|int(header[1])<<8|int(header[2])<<16)
	_, err := io.ReadFull(w, payload)
	return payload, err
}

// drain reads what the server has to say, until it falls silent for a moment or
// ends the connection.
func (w *wire) drain(silence time.Duration) {
	buffer := make([]byte, 64<<10)
	for range 1000 {
		if w.SetReadDeadline(time.Now().Add(silence)) != nil {
			return
		}
		if _, err := w.Read(buffer); err != nil {
			return
		}
	}
}

// reset closes the connection without saying so: the other side gets RST.
func (w *wire) reset() {
	if tcp, ok := w.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // closing is what matters
	}
	_ = w.Close()
}

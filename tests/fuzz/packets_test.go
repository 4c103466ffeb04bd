package fuzz

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// attackers is the number of connections at a time that send garbage.
const attackers = 8

// TestMalformedPackets sends what is not the protocol, at each point of it.
func TestMalformedPackets(t *testing.T) {
	randtest.SkipShort(t)
	rng := randtest.Rand(t)
	tg := startTarget(t, memoryLimit)
	setUp := tg.connect("")
	execAll(t, setUp,
		"CREATE DATABASE "+database, "CREATE TABLE fuzz.p (id INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(100), d DATETIME(6), n DECIMAL(20,5), b BLOB)",
		"INSERT INTO fuzz.p (s) VALUES ('a'), ('b')",
	)
	require.NoError(t, setUp.Close())
	attacks := []func(*attacker){
		(*attacker).beforeLogin, (*attacker).badHandshake, (*attacker).headers, (*attacker).commands,
		(*attacker).statements, (*attacker).sequence, (*attacker).truncated, (*attacker).changeUser,
	}
	until := time.Now().Add(runTime(t))
	var wg sync.WaitGroup
	for range attackers {
		a := &attacker{tg: tg, rng: rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))}
		wg.Go(func() {
			for time.Now().Before(until) && !t.Failed() {
				pick(a.rng, attacks)(a)
			}
		})
	}
	wg.Wait()
	tg.stop()
}

// known are commands of which only the contents are wrong.
var known = []byte{
	comInitDB, comFieldList, comStatistics, comPing, comSetOption, comResetConn, comStmtFetch, comStmtReset, comStmtClose, comStmtLongData, comStmtExecute,
}

// attacker sends garbage, one connection after the other.
type attacker struct {
	tg  *target
	rng *rand.Rand
}

// connect logs in; a server that does not let in is a failure.
func (a *attacker) connect() *wire {
	w, err := login(a.tg.Addr)
	if err != nil {
		a.tg.t.Errorf("log in: %v", err)
		return nil
	}
	return w
}

func (a *attacker) bytes(most int) []byte {
	b := make([]byte, a.rng.IntN(most+1))
	for i := range b {
		b[i] = byte(a.rng.IntN(256))
	}
	return b
}

// mutate changes some bytes, cuts some off or adds some.
func (a *attacker) mutate(b []byte) []byte {
	b = append([]byte(nil), b...)
	for range 1 + a.rng.IntN(4) {
		if len(b) == 0 {
			return a.bytes(20)
		}
		i := a.rng.IntN(len(b))
		switch a.rng.IntN(6) {
		case 0:
			b = b[:i]
		case 1:
			b = append(b[:i:i], append(a.bytes(8), b[i:]...)...)
		case 2:
			b = append(b, a.bytes(30)...)
		case 3:
			b[i] = pick(a.rng, []byte{0, 1, 0x7f, 0x80, 0xfb, 0xfc, 0xfd, 0xfe, 0xff})
		default:
			b[i] = byte(a.rng.IntN(256))
		}
	}
	return b
}

// end closes a connection in one of the ways that there are, after reading or
// without.
func (a *attacker) end(w *wire) {
	if a.rng.IntN(2) == 0 {
		w.drain(time.Duration(a.rng.IntN(5)) * time.Millisecond)
	}
	if a.rng.IntN(2) == 0 {
		w.reset()
	} else {
		_ = w.Close()
	}
}

// beforeLogin sends bytes before or instead of the handshake.
func (a *attacker) beforeLogin() {
	w, err := dialWire(a.tg.Addr)
	if err != nil {
		a.tg.t.Errorf("connect: %v", err)
		return
	}
	switch a.rng.IntN(4) {
	case 0: // closed at once
	case 1:
		_, _ = w.Write(a.bytes(300)) // the server may have closed it
	case 2:
		_, _ = w.Write([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	default:
		_, _ = w.Write([]byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01}) // TLS, which was not agreed on
	}
	a.end(w)
}

// badHandshake sends a handshake that is wrong somewhere, or a wrong password.
func (a *attacker) badHandshake() {
	w, err := dialWire(a.tg.Addr)
	if err != nil {
		a.tg.t.Errorf("connect: %v", err)
		return
	}
	payload := handshake("root", database, a.bytes(20))
	switch a.rng.IntN(3) {
	case 0:
		payload = a.mutate(handshake("root", database, nil))
	case 1:
		payload = handshake(string(a.bytes(300)), string(a.bytes(300)), a.bytes(250))
	}
	_ = w.write(payload)
	a.end(w)
}

// headers sends packets whose headers lie about what follows.
func (a *attacker) headers() {
	w := a.connect()
	if w == nil {
		return
	}
	query := append([]byte{comQuery}, "SELECT 1"...)
	switch a.rng.IntN(5) {
	case 0: // longer than announced
		_, _ = w.Write(append([]byte{3, 0, 0, 0}, query...))
	case 1: // shorter
		_, _ = w.Write(append([]byte{0xff, 0xff, 0xff, 0}, query...))
	case 2: // nothing
		_, _ = w.Write([]byte{0, 0, 0, 0})
	case 3: // packets of the full size that never end
		full := packet(0, append(query, make([]byte, 1<<24-1-len(query))...))
		for i := range 2 + a.rng.IntN(4) {
			full[3] = byte(i)
			if _, err := w.Write(full); err != nil {
				break
			}
		}
	default: // several at once
		_, _ = w.Write(append(packet(0, query), packet(byte(a.rng.IntN(2)), query)...))
	}
	a.end(w)
}

// commands sends each command with random or mutated contents.
func (a *attacker) commands() {
	w := a.connect()
	if w == nil {
		return
	}
	for range 1 + a.rng.IntN(20) {
		var payload []byte
		switch a.rng.IntN(4) {
		case 0:
			payload = append([]byte{byte(a.rng.IntN(256))}, a.bytes(100)...)
		case 1:
			payload = append([]byte{pick(a.rng, known)}, a.bytes(40)...)
		case 2:
			payload = append([]byte{comQuery}, a.mutate([]byte("SELECT s, d, n FROM p WHERE id = 1; SET @a = 5"))...)
		default:
			payload = append([]byte{comStmtPrepare}, a.mutate([]byte("SELECT ?, s FROM p WHERE id IN (?, ?) AND d < ?"))...)
		}
		if payload[0] == comQuit || payload[0] == comShutdown || w.command(payload) != nil {
			break
		}
		w.drain(time.Millisecond)
	}
	a.end(w)
}

// statements mutates executions of a prepared statement.
func (a *attacker) statements() {
	w := a.connect()
	if w == nil {
		return
	}
	defer a.end(w)
	if w.command(append([]byte{comStmtPrepare}, "INSERT INTO p (s, d, n, b) VALUES (?, ?, ?, ?)"...)) != nil {
		return
	}
	answer, err := w.read()
	if err != nil || len(answer) < 9 || answer[0] != 0 {
		a.tg.t.Errorf("prepare: %v, %q", err, answer)
		return
	}
	id := binary.LittleEndian.Uint32(answer[1:])
	w.drain(2 * time.Millisecond)
	for range 1 + a.rng.IntN(30) {
		payload := execution(id, 4, a.rng)
		if a.rng.IntN(4) > 0 {
			payload = append(payload[:5:5], a.mutate(payload[5:])...) // the statement stays the same
		}
		if a.rng.IntN(6) == 0 {
			long := binary.LittleEndian.AppendUint32([]byte{comStmtLongData}, id)
			_ = w.command(append(binary.LittleEndian.AppendUint16(long, uint16(a.rng.IntN(6))), a.bytes(1000)...))
		}
		if w.command(payload) != nil {
			return
		}
		w.drain(time.Millisecond)
	}
}

// execution is a COM_STMT_EXECUTE with values of random types that are encoded
// as they should be.
func execution(id uint32, parameters int, rng *rand.Rand) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{comStmtExecute}, id)
	b = append(b, 0, 1, 0, 0, 0)
	nulls := make([]byte, (parameters+7)/8)
	var kinds, values []byte
	for i := range parameters {
		kind := pick(rng, []byte{0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x0a, 0x0b, 0x0c, 0x0f, 0xf5, 0xf6, 0xfc, 0xfd, 0xfe, 0xff, 0x10, 0x42})
		kinds = append(kinds, kind, byte(rng.IntN(2)<<7))
		switch kind {
		case 0x01:
			values = append(values, 1)
		case 0x02:
			values = append(values, 1, 2)
		case 0x03, 0x04:
			values = append(values, 1, 2, 3, 0x40)
		case 0x05, 0x08:
			values = append(values, 1, 2, 3, 4, 5, 6, 7, 0x40)
		case 0x06:
			nulls[i/8] |= 1 << (i % 8)
		case 0x07, 0x0a, 0x0c: // timestamp, date, datetime
			values = append(values, 11, 0xe8, 7, 2, 29, 23, 59, 58, 0x40, 0xb2, 0, 0)
		case 0x0b:
			values = append(values, 12, 1, 3, 0, 0, 0, 23, 59, 58, 0x40, 0xb2, 0, 0)
		default:
			text := fmt.Sprintf("%d.%05d", rng.IntN(1000), rng.IntN(100000))
			values = append(append(values, byte(len(text))), text...)
		}
	}
	b = append(append(b, nulls...), 1)
	return append(append(b, kinds...), values...)
}

// sequence sends packets with wrong numbers.
func (a *attacker) sequence() {
	w := a.connect()
	if w == nil {
		return
	}
	for range 1 + a.rng.IntN(5) {
		if _, err := w.Write(packet(byte(a.rng.IntN(256)), append([]byte{comQuery}, "SELECT 1"...))); err != nil {
			break
		}
	}
	a.end(w)
}

// truncated ends in the middle of a packet.
func (a *attacker) truncated() {
	w := a.connect()
	if w == nil {
		return
	}
	whole := packet(0, append([]byte{comQuery}, "INSERT INTO p (s) VALUES ('never')"...))
	_, _ = w.Write(whole[:a.rng.IntN(len(whole))])
	a.end(w)
}

// changeUser mutates COM_CHANGE_USER, which runs the handshake once more.
func (a *attacker) changeUser() {
	w := a.connect()
	if w == nil {
		return
	}
	payload := append([]byte{comChangeUser}, "root\x00\x00fuzz\x00\x2d\x00mysql_native_password\x00"...)
	for range 1 + a.rng.IntN(4) {
		if w.command(append(payload[:1:1], a.mutate(payload[1:])...)) != nil {
			break
		}
		w.drain(time.Millisecond)
	}
	a.end(w)
}

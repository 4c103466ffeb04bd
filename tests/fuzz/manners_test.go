package fuzz

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// bigResult is more than what the buffers between server and client hold.
const bigResult = "WITH RECURSIVE d (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM d WHERE i < 999) " +
	"SELECT a.i, b.i, REPEAT('y', 1000) FROM d a JOIN d b WHERE b.i < 50"

// TestClientsThatGoAway are clients that end, or stop, at the worst moment; the
// server must neither end with them (a write to a closed socket raises SIGPIPE)
// nor wait for them.
func TestClientsThatGoAway(t *testing.T) {
	randtest.SkipShort(t)
	rng := randtest.Rand(t)
	tg := startTarget(t, memoryLimit)
	setUp := tg.connect("")
	_, err := setUp.ExecContext(context.Background(), "CREATE DATABASE "+database)
	require.NoError(t, err)
	require.NoError(t, setUp.Close())
	kinds := []func(*attacker){
		(*attacker).resetInResult, (*attacker).resetInStatement, (*attacker).wrongPassword, (*attacker).stopReading, (*attacker).abandonTransaction,
	}
	until := time.Now().Add(runTime(t))
	var wg sync.WaitGroup
	for range attackers {
		a := &attacker{tg: tg, rng: rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))}
		wg.Go(func() {
			for time.Now().Before(until) && !t.Failed() {
				pick(a.rng, kinds)(a)
			}
		})
	}
	wg.Wait()
	tg.stop()
}

// TestHalfOpenConnections leaves many connections in the middle of the login.
func TestHalfOpenConnections(t *testing.T) {
	const many = 500
	tg := startTarget(t, memoryLimit)
	conns := make([]net.Conn, 0, many)
	for i := range many {
		conn, err := net.DialTimeout("tcp", tg.Addr, hangTimeout)
		require.NoError(t, err)
		conns = append(conns, conn)
		if i%2 == 0 {
			_, err = conn.Write([]byte{40, 0, 0, 1}) // a header, and no packet
			require.NoError(t, err)
		}
	}
	before := tg.rounds.Load()
	require.Eventually(t, func() bool { return tg.rounds.Load() > before+20 }, hangTimeout, 10*time.Millisecond, "others cannot work")
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	tg.stop()
}

// resetInResult closes the connection while the server sends a large result.
func (a *attacker) resetInResult() {
	w := a.connect()
	if w == nil {
		return
	}
	_ = w.command(append([]byte{comQuery}, bigResult...))
	buffer := make([]byte, 1+a.rng.IntN(1<<20))
	_, _ = w.Read(buffer)
	a.end(w)
}

// resetInStatement closes the connection before the answer.
func (a *attacker) resetInStatement() {
	w := a.connect()
	if w == nil {
		return
	}
	_ = w.command(append([]byte{comQuery}, "SELECT SLEEP(0.05), REPEAT('x', 1000000)"...))
	time.Sleep(time.Duration(a.rng.IntN(80)) * time.Millisecond)
	w.reset()
}

// wrongPassword logs in with a wrong password and does not wait for the answer.
func (a *attacker) wrongPassword() {
	w, err := dialWire(a.tg.Addr)
	if err != nil {
		a.tg.t.Errorf("connect: %v", err)
		return
	}
	_ = w.write(handshake("root", "", []byte("01234567890123456789")))
	if a.rng.IntN(2) == 0 {
		w.reset()
	} else {
		_ = w.Close()
	}
}

// stopReading asks for large results and reads nothing of them for a while.
func (a *attacker) stopReading() {
	w := a.connect()
	if w == nil {
		return
	}
	for range 1 + a.rng.IntN(3) {
		_ = w.command(append([]byte{comQuery}, bigResult...))
	}
	time.Sleep(time.Duration(a.rng.IntN(1000)) * time.Millisecond)
	a.end(w)
}

// abandonTransaction goes away with a lock that others want.
func (a *attacker) abandonTransaction() {
	w := a.connect()
	if w == nil {
		return
	}
	for _, query := range []string{
		"CREATE TABLE IF NOT EXISTS locked (id INT PRIMARY KEY, v INT)", "INSERT IGNORE INTO locked VALUES (1, 1)",
		"BEGIN", fmt.Sprintf("UPDATE locked SET v = %d", a.rng.IntN(1000)),
	} {
		if w.command(append([]byte{comQuery}, query...)) != nil {
			break
		}
		if _, err := w.read(); err != nil {
			break
		}
	}
	w.reset()
}

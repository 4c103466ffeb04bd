package server

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/stretchr/testify/require"
)

// pipeConn is a connection whose other end the test holds.
func pipeConn(t *testing.T, id uint32) (*mysql.Conn, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return &mysql.Conn{Conn: ours, ConnectionID: id}, theirs
}

func reading(c *mysql.Conn) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := c.Conn.Read(make([]byte, 1))
		done <- err
	}()
	return done
}

func TestDrainEndsIdleConnectionsAtOnce(t *testing.T) {
	conns := newConnections()
	idle, _ := pipeConn(t, 1)
	conns.add(idle)
	done := reading(idle)
	conns.drain()
	require.ErrorIs(t, <-done, os.ErrDeadlineExceeded)
	late, _ := pipeConn(t, 2)
	conns.add(late)
	require.ErrorIs(t, <-reading(late), os.ErrDeadlineExceeded, "one that comes during the drain ends too")
}

func TestDrainLetsARunningStatementAnswer(t *testing.T) {
	conns := newConnections()
	busy, client := pipeConn(t, 1)
	conns.add(busy)
	require.NoError(t, conns.begin(busy, "select"))
	conns.drain()

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, conns.wait(ctx, exceptDDL), context.DeadlineExceeded)

	// The statement ends; its answer is written after that, and still arrives.
	conns.end(busy)
	answer := []byte("OK")
	go func() { _, _ = busy.Conn.Write(answer) }()
	got := make([]byte, len(answer))
	_, err := io.ReadFull(client, got)
	require.NoError(t, err)
	require.Equal(t, answer, got)
	require.ErrorIs(t, <-reading(busy), os.ErrDeadlineExceeded)

	require.ErrorIs(t, conns.begin(busy, "select"), errShutdown)
	conns.remove(busy)
	require.NoError(t, conns.wait(context.Background(), anyConnection))
}

func TestDrainDoesNotWaitForDDL(t *testing.T) {
	conns := newConnections()
	alter, _ := pipeConn(t, 1)
	conns.add(alter)
	require.NoError(t, conns.begin(alter, statementKind("ALTER TABLE t ADD INDEX (a)")))
	conns.drain()
	require.NoError(t, conns.wait(context.Background(), exceptDDL))
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	require.Error(t, conns.wait(ctx, anyConnection))
}

func TestWaitWakesUpWhenAConnectionGoes(t *testing.T) {
	conns := newConnections()
	c, _ := pipeConn(t, 1)
	conns.add(c)
	conns.drain()
	done := make(chan error, 1)
	go func() { done <- conns.wait(context.Background(), anyConnection) }()
	time.Sleep(time.Millisecond)
	conns.remove(c)
	require.NoError(t, <-done)
	require.Zero(t, conns.len())
}

func TestErrShutdownIsMySQLs(t *testing.T) {
	var coded *mysql.SQLError
	require.True(t, errors.As(errShutdown, &coded))
	require.Equal(t, 1053, coded.Num)
	require.Equal(t, "08S01", coded.State)
}

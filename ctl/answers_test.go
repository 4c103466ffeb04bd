package ctl

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"io"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/stretchr/testify/require"
)

// scriptedServer answers each query by a function.
type scriptedServer struct {
	driver.Conn
	answer func(ctx context.Context, query string) (driver.Rows, error)
}

func (s scriptedServer) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s scriptedServer) Driver() driver.Driver                        { return nil }
func (s scriptedServer) Close() error                                 { return nil }

func (s scriptedServer) QueryContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	return s.answer(ctx, query)
}

func (s scriptedServer) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	_, err := s.answer(ctx, query)
	return driver.ResultNoRows, err
}

func clientOf(t *testing.T, out io.Writer, answer func(ctx context.Context, query string) (driver.Rows, error)) *Client {
	db := sql.OpenDB(scriptedServer{answer: answer})
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &Client{Output: Output{Out: out, Err: out, Width: func() int { return 0 }}, Every: time.Millisecond, PlainEvery: time.Millisecond, db: db}
}

// TestWatchInJSONIsJSON: each line is a document, also while the server does not answer.
func TestWatchInJSONIsJSON(t *testing.T) {
	var out bytes.Buffer
	signals := make(chan os.Signal, 1)
	asked := 0
	c := clientOf(t, &out, func(context.Context, string) (driver.Rows, error) {
		if asked++; asked == 2 {
			return nil, io.ErrUnexpectedEOF
		}
		if asked == 4 {
			signals <- os.Interrupt
		}
		return &oneValue{read: true}, nil
	})
	c.JSON, c.Signals = true, signals
	require.NoError(t, c.WatchAll(t.Context()))
	var lines []any
	for in := json.NewDecoder(&out); in.More(); {
		var line any
		require.NoError(t, in.Decode(&line))
		lines = append(lines, line)
	}
	require.GreaterOrEqual(t, len(lines), 3)
	require.Equal(t, []any{
		[]any{}, map[string]any{"event": "note", "text": "the server does not answer (read " + jobsTable + ": unexpected EOF): trying again"}, []any{},
	}, lines[:3])
}

// TestBackupThatCannotBeEnded: the command ends at once, with why the server has not ended the backup.
func TestBackupThatCannotBeEnded(t *testing.T) {
	var out bytes.Buffer
	signals := make(chan os.Signal, 1)
	signals <- os.Interrupt
	c := clientOf(t, &out, func(ctx context.Context, query string) (driver.Rows, error) {
		switch query {
		case "SELECT CONNECTION_ID()":
			return &oneValue{value: "7"}, nil
		case "KILL QUERY 7":
			return nil, &mysql.MySQLError{Number: errno.ErrNoSuchThread, Message: "Unknown thread id: 7"}
		}
		<-ctx.Done() // the backup
		return nil, ctx.Err()
	})
	c.Signals = signals
	err := c.Backup(t.Context(), BackupOptions{Folder: "/backups"})
	require.ErrorContains(t, err, "the backup cannot be ended, and may go on: ")
	require.Equal(t, Failed, CodeOf(err))
}

// TestBackupIsCancelledByTheServersWord: another error behind Ctrl-C is what it is.
func TestBackupIsCancelledByTheServersWord(t *testing.T) {
	for number, code := range map[uint16]ExitCode{errno.ErrQueryInterrupted: Cancelled, errno.ErrDiskFull: Failed} {
		var out bytes.Buffer
		signals, killed := make(chan os.Signal, 1), make(chan struct{})
		signals <- os.Interrupt
		c := clientOf(t, &out, func(_ context.Context, query string) (driver.Rows, error) {
			switch query {
			case "SELECT CONNECTION_ID()":
				return &oneValue{value: "7"}, nil
			case "KILL QUERY 7":
				close(killed)
				return nil, nil
			}
			<-killed
			return nil, &mysql.MySQLError{Number: number, Message: "why"}
		})
		c.Signals = signals
		require.Equal(t, code, CodeOf(c.Backup(t.Context(), BackupOptions{Folder: "/backups"})), number)
	}
}

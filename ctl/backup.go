package ctl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/errno"

	"fastddl/internal/errs"
	"fastddl/internal/terminal"
)

// BackupOptions say what to take a backup to.
type BackupOptions struct {
	// Folder is a folder of the server, or a URL.
	Folder string
	// RateLimit bounds the speed in MB/s; 0 does not.
	RateLimit uint
}

// Backup takes a backup of all databases, and shows how long it runs. A signal ends it, and nothing is left.
func (c *Client) Backup(ctx context.Context, opts BackupOptions) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeConn(conn)) }()
	var id int64
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		return err
	}
	query := "BACKUP DATABASE * TO ?"
	if opts.RateLimit > 0 {
		query += fmt.Sprintf(" RATE_LIMIT = %d MB/SECOND", opts.RateLimit)
	}
	type answer struct {
		result *result
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		done <- func() (a answer) {
			defer errs.Contain(&a.err)
			a.result, a.err = ask(ctx, conn, query, opts.Folder)
			return a
		}()
	}()
	began := time.Now()
	bar := terminal.NewBar(c.Out)
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	killed := false
	for {
		select {
		case a := <-done:
			if c.Moves {
				bar.Clear()
			}
			switch {
			case killed && isNumber(a.err, errno.ErrQueryInterrupted):
				return &Error{Code: Cancelled, Err: errors.New("the backup is cancelled: nothing is left of it")}
			case a.err != nil:
				return a.err
			}
			return c.backupTaken(ctx, conn, a.result, time.Since(began))
		case <-tick.C:
			if c.Moves {
				bar.Say(fmt.Sprintf("backup to %s: %s", opts.Folder, span(time.Since(began).Seconds())))
			}
		case <-c.Signals:
			killed = true
			if _, err := c.db.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", id)); err != nil {
				cancel() // the connection is not given back before its statement has ended
				return fmt.Errorf("the backup cannot be ended, and may go on: %w", err)
			}
		}
	}
}

func (c *Client) backupTaken(ctx context.Context, conn queryer, r *result, took time.Duration) error {
	if err := c.showWarnings(ctx, conn); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(c.Out, r.objects())
	}
	for _, row := range r.rows {
		var reader cellReader
		bytes := reader.float(row[1])
		if reader.err != nil {
			return reader.err
		}
		c.say("backup of %s in %s, as of timestamp %s, taken in %s", size(bytes), row[0].String, row[2].String, span(took.Seconds()))
	}
	return nil
}

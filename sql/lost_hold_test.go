package sql_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/event"
	"fastddl/sql"
)

// A job whose snapshot was collected does not go on before that is recorded: nobody
// would notice again.
func TestLostHoldIsRecorded(t *testing.T) {
	const snapshot = "SELECT JSON_EXTRACT(CAST(CONVERT(record USING utf8mb4) AS JSON), '$.snapshot_ts') FROM mysql.fastddl_ddl_record"
	dir := t.TempDir()
	e := open(t, dir)
	c := e.client()
	table(c, 50)
	died := errors.New("died")
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if p.When == "after" && p.Action == "take-snapshot" {
			return died
		}
		return nil
	})
	require.ErrorIs(t, wait(t, e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")), died)
	first := c.one(snapshot)
	// Without this column the loss cannot be written down.
	c.run("ALTER TABLE mysql.fastddl_ddl_record RENAME COLUMN checkpoint TO gone")
	e.close()

	var attempts atomic.Int64
	e = open(t, dir, func(o *sql.Options) {
		s := &lostHold{Store: o.Builds}
		s.lose.Store(true)
		o.Builds = s
		o.Bus.Subscribe(func(ev event.Event) {
			if r, ok := ev.(event.Retry); ok && r.Op == "snapshot" {
				attempts.Add(1)
			}
		})
	})
	defer e.close()
	c = e.client()
	require.Eventually(t, func() bool { return attempts.Load() > 1 }, patience, time.Millisecond,
		"the job has gone on with a snapshot it has lost")
	c.run("ALTER TABLE mysql.fastddl_ddl_record RENAME COLUMN gone TO checkpoint")
	c.awaitNoJob()
	require.Equal(t, "synced", c.lastJob("state"))
	require.NotEqual(t, first, c.lastJob("snapshot_ts"))
	c.check("t")
}

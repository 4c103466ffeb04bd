package sql_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/event"
	"fastddl/sql"
)

// A job whose snapshot was collected does not go on before that is recorded: it would
// not be noticed again.
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

	var attempts, others atomic.Int64
	e = open(t, dir, func(o *sql.Options) {
		s := &lostHold{Store: o.Builds}
		s.lose.Store(true)
		o.Builds = s
		o.Bus.Subscribe(func(ev event.Event) {
			r, ok := ev.(event.Retry)
			switch {
			case !ok:
			case r.Op == "snapshot":
				attempts.Add(1)
			default:
				others.Add(1)
			}
		})
	})
	defer e.close()
	c = e.client()
	require.Eventually(t, func() bool { return attempts.Load() > 1 || others.Load() > 0 }, hangTimeout, time.Millisecond)
	require.Zero(t, others.Load(), "the job has gone on with a snapshot it has lost")
	c.run("ALTER TABLE mysql.fastddl_ddl_record RENAME COLUMN gone TO checkpoint")
	c.awaitNoJob()
	require.Equal(t, "synced", c.lastJob("state"))
	require.NotEqual(t, first, c.lastJob("snapshot_ts"))
	c.check("t")
}

// passingStore says once that garbage collection has gone on as far as it can.
type passingStore struct {
	*fences
	passed atomic.Bool
}

func (s *passingStore) GCSafePoint(ctx context.Context) (uint64, error) {
	if s.passed.Swap(false) {
		return s.CurrentTS(ctx)
	}
	return s.fences.GCSafePoint(ctx)
}

// On TiKV garbage collection removes LOCK records, regardless of what they hide. If it has passed S before the
// comparison is over, the comparison does not see what a transaction hides that has read one of them (a finding of
// the simulation): the job takes another S. It notices that without a message that its hold is lost.
func TestHoldLostBeforeTheComparison(t *testing.T) {
	t.Run("during it", func(t *testing.T) {
		var s *passingStore
		f := &faulty{}
		n := newNodes(t, func(o *sql.Options) {
			s = &passingStore{fences: o.Builds.(*fences)}
			o.Builds = s
		}, withFaults(f))
		c := n.client()
		table(c, 50)
		var first uint64
		f.compare = func() error {
			if first == 0 {
				first = n.DDL().Unfinished()[0].Snapshot
				s.passed.Store(true)
			}
			return nil
		}
		c.run(addUnique)
		require.NotZero(t, first)
		require.NotEqual(t, fmt.Sprint(first), c.lastJob("snapshot_ts"))
		c.check("t")
	})
	for _, at := range []ddl.HookPoint{
		{When: "before", Action: "change-schema", Step: "drained"}, {When: "before", Action: "compare", Step: "compared"},
	} {
		t.Run("before "+at.Step, func(t *testing.T) {
			var s *lostHold
			n := newNodes(t, func(o *sql.Options) {
				held := o.Builds.(*fences)
				s = &lostHold{Store: held.Store}
				held.Store = s
			})
			c := n.client()
			table(c, 50)
			arrived, leave := n.blockAt(at)
			result := n.start(addUnique)
			reach(t, arrived)
			first := n.DDL().Unfinished()[0].Snapshot
			s.lose.Store(true)
			letIn := n.first.shutOut()
			defer letIn()
			n.first.forget().notice() // the other node takes it over
			close(leave)
			require.NoError(t, wait(t, result))
			require.NotEqual(t, fmt.Sprint(first), c.lastJob("snapshot_ts"))
			c.check("t")
		})
	}
}

package sql_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/compare"
	"fastddl/ddl"
	"fastddl/kv"
	"fastddl/sql"
)

// holes makes the next build of a unique index on t (a, b) lack the entries of rows
// whose b is given, and calls before before the comparison and after after it.
func (e *env) holes(before, after func(), values ...int) {
	writer := e.client()
	var hole, first sync.Once
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		switch {
		case p.When == "before" && p.Action == "backfill":
			hole.Do(func() {
				for _, b := range values {
					writer.run("INSERT INTO t VALUES (%d, %d)", 1000+b, b)
				}
				writer.run("DELETE FROM t WHERE a >= 1000")
			})
		case p.When == "before" && p.Action == "compare":
			first.Do(before)
		case p.When == "after" && (p.Action == "compare" || p.Step == "public"):
			after()
		}
		return nil
	})
}

// The index is compared until nothing is found: a key that could not be repaired
// because it was locked is not forgotten.
func TestComparisonRepeatsUntilClean(t *testing.T) {
	f := &faulty{}
	e := newEnv(t, withFaults(f))
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	c.run("INSERT INTO t VALUES (1,1),(2,2),(3,3)")
	again := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(again) })
	var compared atomic.Int64
	f.compare = func() error {
		if compared.Add(1) == 2 {
			goOn()
		}
		return nil
	}
	holder := e.client()
	e.holes(func() { holder.run("BEGIN PESSIMISTIC; INSERT INTO t VALUES (10, 1)") }, goOn, 1, 2)
	result := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	reach(t, again)
	holder.run("ROLLBACK")
	require.NoError(t, wait(t, result))
	c.check("t")
	require.Equal(t, "2", c.lastJob("repaired_keys"))
}

// A key is repaired under the locks of its rows.
func TestRepairLocksRows(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	c.run("INSERT INTO t VALUES (1,1),(2,2)")
	var repaired atomic.Bool
	holder := e.client()
	e.holes(func() { holder.run("BEGIN PESSIMISTIC; SELECT * FROM t WHERE a = 1 FOR UPDATE") }, func() { repaired.Store(true) }, 1)
	result := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	require.Eventually(t, func() bool {
		return repaired.Load() || c.one("SELECT COUNT(*) FROM information_schema.data_lock_waits") != "0"
	}, hangTimeout, time.Millisecond)
	require.False(t, repaired.Load(), "a key was repaired while somebody has its row locked")
	holder.run("COMMIT")
	require.NoError(t, wait(t, result))
	c.check("t")
	require.Equal(t, "1", c.lastJob("repaired_keys"))
}

// Nothing is repaired for a job whose row in TiDB's queue was taken.
func TestRepairIsFenced(t *testing.T) {
	f := &faulty{}
	e := newEnv(t, withFaults(f))
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	c.run("INSERT INTO t VALUES (1,1),(2,2)")
	thief := e.client()
	f.compare = func() error {
		thief.run("DELETE FROM mysql.tidb_ddl_job")
		return nil
	}
	e.holes(func() {}, func() {}, 1)
	c.fails(8214, "ALTER TABLE t ADD UNIQUE INDEX u (b)")
	e.setHook(nil)
	e.leavesNothing(c, "t")
	require.Len(t, e.entries(c, "t"), 1, "the entry of the other row only")
}

// entries are the keys of all indexes of a table in the store, also of those that
// are not in the schema any more.
func (e *env) entries(c *client, table string) (keys []string) {
	e.t.Helper()
	var id int64
	_, err := fmt.Sscan(c.one("SELECT tidb_table_id FROM information_schema.tables WHERE table_name = '%s'", table), &id)
	require.NoError(e.t, err)
	ctx := context.Background()
	ts, err := e.store.Builds().CurrentTS(ctx)
	require.NoError(e.t, err)
	snapshot, err := e.store.Builds().Snapshot(ctx, ts)
	require.NoError(e.t, err)
	it, err := snapshot.Iter(kv.PrefixRange(tablecodec.GenTableIndexPrefix(id)))
	require.NoError(e.t, err)
	for ; it.Valid(); require.NoError(e.t, it.Next()) {
		keys = append(keys, string(it.Key()))
	}
	require.NoError(e.t, it.Close())
	require.NoError(e.t, snapshot.Close())
	return keys
}

// oneByOne is a backfiller whose comparisons list one difference each.
type oneByOne struct{ ddl.Backfiller }

func (o *oneByOne) Compare(ctx context.Context, t ddl.CompareTask) (compare.Result, error) {
	result, err := o.Backfiller.Compare(ctx, t)
	if len(result.Differences) > 1 {
		result.Differences, result.More = result.Differences[:1], true
	}
	return result, err
}

// TestRepairOfManyDifferences: an index in which more keys differ than so many comparisons list, as
// after an UPDATE of all values of a large table, is repaired nevertheless.
func TestRepairOfManyDifferences(t *testing.T) {
	e := newEnv(t, func(opts *sql.Options) {
		opts.Backfiller = &oneByOne{ddl.NewBackfiller(backfill.Options{Store: opts.Builds, Globals: opts.Globals, Bus: opts.Bus})}
	})
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	var holes []int
	for i := 1; i <= 130; i++ {
		c.run("INSERT INTO t VALUES (%d, %d)", i, i)
		holes = append(holes, i)
	}
	e.holes(func() {}, func() {}, holes...)
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	c.check("t")
	require.Equal(t, "130", c.lastJob("repaired_keys"))
}

// mistaken is a backfiller whose comparisons list a difference that is none, and say that there are
// more, for a thousand times.
type mistaken struct {
	ddl.Backfiller
	compared int
}

func (m *mistaken) Compare(ctx context.Context, t ddl.CompareTask) (compare.Result, error) {
	result, err := m.Backfiller.Compare(ctx, t)
	if m.compared++; m.compared <= 1000 {
		key := tablecodec.EncodeIndexSeekKey(t.Table.ID, t.Indexes[0].ID, []byte("none"))
		result.Differences, result.More = []compare.Difference{{Index: t.Indexes[0].ID, Key: key, Rows: 1}}, true
	}
	return result, err
}

// TestUnconfirmedDifferencesEndTheComparison: a comparison whose differences the repair does not find is not
// repeated for ever.
func TestUnconfirmedDifferencesEndTheComparison(t *testing.T) {
	m := &mistaken{}
	e := newEnv(t, func(opts *sql.Options) {
		m.Backfiller = ddl.NewBackfiller(backfill.Options{Store: opts.Builds, Globals: opts.Globals, Bus: opts.Bus})
		opts.Backfiller = m
	})
	c := e.client()
	table(c, 10)
	_, err := c.try(addUnique)
	require.ErrorContains(t, err, "the index was not equal to the rows after 100 comparisons")
	e.leavesNothing(c, "t")
}

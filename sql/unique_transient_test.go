package sql_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/internal/randtest"
)

// A duplicate that the rows have at S and not any more when the index is compared with
// them does not fail the job: the rows may have changed since S (docs/correctness.md,
// I6, step 1).
func TestUniqueDuplicatesGoneSinceS(t *testing.T) {
	randtest.SkipShort(t)
	insert := func(at place) act { return inTxn(at, "INSERT INTO t (a, b) VALUES ('100', [=1])") }
	remove := func(at place) act { return inTxn(at, "DELETE FROM t WHERE a = '100'") }
	cases := []uniqueCase{
		{name: "before S, gone after S", acts: []act{insert(beforeS), remove(afterS)}},
		{name: "before S, gone before the import", acts: []act{insert(beforeS), remove(beforeImport)}},
		{name: "in delete-only, gone before the import", acts: []act{insert(inDeleteOnly), remove(beforeImport)}},
		{name: "before S, other row gone before the import", acts: []act{insert(beforeS), inTxn(beforeImport, "DELETE FROM t WHERE a = '1'")}},
		{name: "swap by two statements around S", acts: []act{
			inTxn(beforeS, "UPDATE t SET b = [2] WHERE a = '1'"), inTxn(afterS, "UPDATE t SET b = [1] WHERE a = '2'")},
		},
	}
	grounds(t, func(t *testing.T, g *ground) {
		g.matrix(t, mainModes, func(mode) []uniqueCase { return cases })
	})
}

// A job does not take another S for ever: rows that have equal values at each S fail it,
// although they have them no more.
func TestUniqueDuplicatesAtEachS(t *testing.T) {
	e := newEnv(t)
	c, w := e.client(), e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	c.run("INSERT INTO t VALUES (1, 1), (2, 2)")
	const enough = 10 // or the job would never end
	snapshots := 0
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		switch {
		case matches(p, hooks[beforeS]) && snapshots < enough:
			snapshots++
			_, err := w.try("INSERT INTO t VALUES (100, 1)")
			return err
		case matches(p, hooks[beforeImport]):
			_, err := w.try("DELETE FROM t WHERE a = 100")
			return err
		}
		return nil
	})
	c.fails(1062, "ALTER TABLE t ADD UNIQUE INDEX u (b)")
	require.Equal(t, 4, snapshots, "the first, and three more")
	require.Equal(t, "rollback done", c.lastJob("state"))
	c.check("t")
}

package sql_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/compare"
	"fastddl/ddl"
	"fastddl/internal/randtest"
	"fastddl/sql"
)

// one is the value 1, of two rows.
var one = []duplicate{{1, 2}}

// duplicatesBeforeImport are the ways to write a duplicate that no check refuses,
// because the index has no entry of the other row yet.
var duplicatesBeforeImport = []uniqueCase{
	{name: "insertion", duplicates: one, acts: []act{inTxn(beforeImport, insert(100, "[1]"))}},
	{name: "insertion in another spelling", duplicates: one, acts: []act{inTxn(beforeImport, insert(100, "[=1]"))}},
	{name: "update", duplicates: one, acts: []act{inTxn(beforeImport, update(2, "[=1]"))}},
	{name: "update to and fro", duplicates: one, acts: []act{inTxn(beforeImport,
		update(2, "[=1]"), update(2, "[20]"), update(2, "[1]"))},
	},
	{name: "IGNORE", duplicates: one, acts: []act{inTxn(beforeImport, "INSERT IGNORE INTO t (a, b) VALUES ('100', [1])")}},
	{name: "UPDATE IGNORE", duplicates: one, acts: []act{inTxn(beforeImport, "UPDATE IGNORE t SET b = [1] WHERE a = '2'")}},
	{name: "REPLACE", duplicates: one, acts: []act{inTxn(beforeImport, "REPLACE INTO t (a, b) VALUES ('100', [1])")}},
	{name: "ON DUPLICATE KEY", duplicates: one,
		acts: []act{inTxn(beforeImport, "INSERT INTO t (a, b) VALUES ('100', [1]) ON DUPLICATE KEY UPDATE b = [20]")}},
	{name: "ON DUPLICATE KEY that makes one", duplicates: one, needsKey: true,
		acts: []act{inTxn(beforeImport, "INSERT INTO t (a, b) VALUES ('2', [9]) ON DUPLICATE KEY UPDATE b = [1]")}},
	{name: "row moved away and its value taken by two", duplicates: []duplicate{{2, 2}}, acts: []act{inTxn(beforeImport,
		update(1, "[20]"), insert(100, "[1]"), insert(101, "[2]"))},
	},
	{name: "key of the duplicate changed", duplicates: one, acts: []act{
		inTxn(beforeImport, insert(100, "[1]")), inTxn(beforeImport, "UPDATE t SET a = '101' WHERE a = '100'")},
	},
	{name: "all are listed", duplicates: []duplicate{{1, 2}, {2, 2}, {4, 2}}, acts: []act{inTxn(beforeImport,
		"INSERT INTO t (a, b) VALUES ('100', [1]), ('101', [4])", update(3, "[2]"))},
	},
	{name: "duplicates and moves", duplicates: []duplicate{{3, 2}}, acts: []act{inTxn(beforeImport,
		remove(1), insert(100, "[1]"), update(2, "[30]"),
		"UPDATE t SET a = '102' WHERE a = '4'", insert(103, "[3]"))},
	},
	{name: "savepoint keeps the duplicate", duplicates: one, acts: []act{inTxn(beforeImport,
		insert(100, "[1]"), "SAVEPOINT s", remove(100), "ROLLBACK TO s")},
	},
}

// A duplicate fails the job wherever it comes from, and all are listed.
func TestUniqueDuplicatesPastTheIndex(t *testing.T) {
	randtest.SkipShort(t)
	bothGrounds(t, func(t *testing.T, g *ground) {
		g.matrix(t, allModes, func(m mode) (cases []uniqueCase) {
			for _, c := range duplicatesBeforeImport {
				if c.name == "savepoint keeps the duplicate" && (m.begin == "" || m.name == pessimisticLazy.name) {
					continue
				}
				cases = append(cases, c)
			}
			return cases
		})
	})
}

// A duplicate that was there before, or is written in any state before the import, and
// one that is refused since.
func TestUniqueDuplicatesAtEveryPlace(t *testing.T) {
	randtest.SkipShort(t)
	double := func(at place) act { return inTxn(at, insert(100, "[=1]")) }
	gone := func(at place) act { return inTxn(at, remove(100)) }
	refused := func(at place) act { return do(at, insert(100, "[=1]")).fails(1062) }
	three := []duplicate{{1, 3}}
	cases := []uniqueCase{
		{name: "in delete-only", duplicates: one, acts: []act{double(inDeleteOnly)}},
		{name: "in write-only", duplicates: one, acts: []act{double(inWriteOnly)}},
		{name: "before S", duplicates: one, acts: []act{double(beforeS)}},
		{name: "after S", duplicates: one, acts: []act{double(afterS)}},
		{name: "three rows", duplicates: three, acts: []act{inTxn(inDeleteOnly, "INSERT INTO t (a, b) VALUES ('100', [=1]), ('101', [1])")}},
		{name: "third row after S", duplicates: one, acts: []act{
			double(inDeleteOnly), inTxn(beforeImport, insert(101, "[1]"))},
		},
		{name: "after S, gone after the import", acts: []act{double(afterS), gone(afterImport)}},
		{name: "before the import, gone after the drain", acts: []act{double(beforeImport), gone(drained)}},
		{name: "before the import, other row gone after the drain", acts: []act{double(beforeImport), inTxn(drained, remove(1))}},
		{name: "second of two new rows is refused", acts: []act{
			inTxn(beforeImport, insert(100, "[20]")), do(beforeImport, insert(101, "[=20]")).fails(1062)},
		},
		{name: "refused after the import", acts: []act{refused(afterImport)}},
		{name: "refused after the drain", acts: []act{refused(drained)}},
		{name: "refused after the comparison", acts: []act{refused(compared)}},
		{name: "ignored after the import", acts: []act{do(afterImport, "INSERT IGNORE INTO t (a, b) VALUES ('100', [=1])")}},
		{name: "replaced after the import", acts: []act{do(afterImport, "REPLACE INTO t (a, b) VALUES ('100', [=1])")}},
		{name: "updated after the import", acts: []act{do(afterImport, "INSERT INTO t (a, b) VALUES ('100', [=1]) ON DUPLICATE KEY UPDATE b = [20]")}},
	}
	grounds(t, func(t *testing.T, g *ground) {
		g.matrix(t, allModes, func(mode) []uniqueCase { return cases })
	})
}

// afterComparing does something after a comparison has read and before what it found is
// repaired.
type afterComparing struct {
	ddl.Backfiller
	then func()
}

func (b *afterComparing) Compare(ctx context.Context, t ddl.CompareTask) (compare.Result, error) {
	result, err := b.Backfiller.Compare(ctx, t)
	if then := b.then; then != nil && !result.Clean() {
		b.then = nil
		then()
	}
	return result, err
}

// A duplicate at T is looked at again under locks: one that has gone meanwhile does
// not fail the job, one that has moved does.
func TestUniqueDuplicateGoneBeforeItsRepair(t *testing.T) {
	randtest.SkipShort(t)
	b := &afterComparing{}
	e := newEnv(t, func(o *sql.Options) {
		withFaults(&faulty{})(o)
		b.Backfiller, o.Backfiller = o.Backfiller, b
	})
	g := &ground{env: e, name: "embedded"}
	g.connect()
	double := inTxn(beforeImport, insert(100, "[=1]"))
	for _, test := range []struct {
		uniqueCase
		then []string
	}{
		{uniqueCase{name: "gone", acts: []act{double}}, []string{remove(100)}},
		{uniqueCase{name: "other row gone", acts: []act{double}}, []string{remove(1)}},
		{uniqueCase{name: "changed", acts: []act{double}}, []string{update(1, "[20]")}},
		{uniqueCase{name: "both gone", acts: []act{double}}, []string{"DELETE FROM t WHERE a IN ('1', '100')"}},
		{uniqueCase{name: "handed on", acts: []act{double}}, []string{remove(1), "UPDATE t SET a = '102' WHERE a = '100'"}},
		{uniqueCase{name: "still there", acts: []act{double}, duplicates: one}, []string{update(3, "[30]")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, s := range shapes {
				t.Run(s.name, func(t *testing.T) {
					var problems []string
					b.then = func() { problems = g.perform(s, autocommit, do(drained, test.then...)) }
					g.play(t, s, autocommit, test.uniqueCase)
					require.Nil(t, b.then, "nothing was compared")
					require.Empty(t, problems)
				})
			}
		})
	}
}

// With several indexes in a statement, one that has duplicates fails all.
func TestUniqueDuplicateInOneOfSeveral(t *testing.T) {
	bothGrounds(t, func(t *testing.T, g *ground) {
		c := g.admin
		c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT)")
		c.run("INSERT INTO t VALUES (1,1,1),(2,2,2),(3,3,3)")
		g.before("backfill", "", func() { _, _ = g.writers[0].try("INSERT INTO t VALUES (4,4,3),(5,5,2)") })
		message := c.fails(1062, "ALTER TABLE t ADD UNIQUE INDEX u (b), ADD UNIQUE INDEX u2 (c), ADD INDEX i (c)")
		require.Contains(t, message, "Duplicate entry '2' for key 't.u2'")
		require.Equal(t, []string{"u2 2 2 2, 5", "u2 3 2 3, 4"},
			c.run("SELECT index_name, entry, row_count, row_handles FROM mysql.fastddl_ddl_duplicates ORDER BY number"))
		g.setHook(nil)
		g.leavesNothingOf(t)
		require.NotContains(t, c.one("SHOW CREATE TABLE t"), "`i`")
	})
}

// TestDuplicatesOfAGlobalIndex: the rows of a global index are named by their clustered keys,
// which lie in partitions.
func TestDuplicatesOfAGlobalIndex(t *testing.T) {
	c := newEnv(t).client()
	c.run("CREATE TABLE t (p VARCHAR(20) COLLATE utf8mb4_general_ci, a INT, b INT, PRIMARY KEY (p, b) CLUSTERED) PARTITION BY HASH (b) PARTITIONS 3")
	c.run("INSERT INTO t VALUES ('Äbc', 1, 1), ('xyz', 1, 2)")
	c.fails(1062, "ALTER TABLE t ADD UNIQUE INDEX u (a) GLOBAL")
	require.Equal(t, "Äbc-1 in partition p1, xyz-2 in partition p2", c.one("SELECT row_handles FROM mysql.fastddl_ddl_duplicates"))
}

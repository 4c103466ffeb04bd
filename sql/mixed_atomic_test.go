package sql_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/ddl/schema"
	"fastddl/internal/randtest"
)

// mixedSteps are the places of a job that drops something, too.
var mixedSteps = append(append([]ddl.HookPoint{}, steps[:len(steps)-1]...),
	ddl.HookPoint{When: "before", Action: "change-schema", Step: "drop-delete-only"},
	ddl.HookPoint{When: "before", Action: "await-version", Step: "drop-delete-only"},
	ddl.HookPoint{When: "before", Action: "change-schema", Step: "drop-delete-reorg"},
	ddl.HookPoint{When: "before", Action: "change-schema", Step: "dropped"},
	ddl.HookPoint{When: "after", Action: "change-schema", Step: "dropped"},
	ddl.HookPoint{When: "before", Action: "finish"},
)

// everything is a statement that adds, changes and drops columns and indexes.
const everything = `ALTER TABLE t ADD UNIQUE INDEX u (d, a), ADD INDEX nb ((d + 1)), DROP INDEX ud, DROP COLUMN e, ADD COLUMN n INT NOT NULL DEFAULT 5 AFTER a,
	RENAME INDEX ib TO jb, ALTER INDEX two INVISIBLE, ALTER COLUMN f SET DEFAULT '2020-02-02', COMMENT = 'new'`

// mixed makes the table anew and returns its definition.
func (c *client) mixed() string {
	c.t.Helper()
	c.run("DROP TABLE IF EXISTS t")
	c.run("CREATE TABLE t %s", mixedTable)
	c.run("INSERT INTO t %s", mixedRows)
	return c.one("SHOW CREATE TABLE t")
}

// A statement that does more than adding indexes can be cancelled until it is
// visible, and then nothing of it has happened.
func TestMixedCancel(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	for _, at := range mixedSteps {
		t.Run(at.String(), func(t *testing.T) {
			c := c.of(t)
			was := c.mixed()
			arrived, leave := e.blockAt(at)
			result := e.start(everything)
			reach(t, arrived)
			id := c.one("SELECT MAX(job_id) FROM mysql.fastddl_ddl_record")
			require.Contains(t, c.one("ADMIN SHOW DDL JOBS 1 WHERE job_id = "+id), " t alter table multi-schema change ")
			if at.When != "after" { // what was changed is visible when servers know of it
				visible := strings.HasPrefix(at.Step, "drop") || at.Action == "finish"
				require.Equal(t, visible, was != c.one("SHOW CREATE TABLE t"), at)
			}
			cancelled := e.answer("ADMIN CANCEL DDL JOBS " + id)
			asked(t, has(cancelled))
			close(leave)
			err := wait(t, result)
			said := <-cancelled
			if err == nil {
				require.Contains(t, said, "error", "at %s", at)
				require.NotEqual(t, was, c.one("SHOW CREATE TABLE t"))
				require.Empty(t, c.run("SELECT * FROM mysql.tidb_ddl_job"))
				c.check("t")
				return
			}
			require.Contains(t, said, "successful")
			require.Equal(t, 8214, errorCode(err), err.Error())
			require.Equal(t, was, c.one("SHOW CREATE TABLE t"))
			e.leavesNothing(c, "t")
			require.Regexp(t, " alter table multi-schema change .* (cancelled|rollback done) ", c.run("ADMIN SHOW DDL JOBS 1")[0])
			c.run(everything) // and it can be done again
			c.check("t")
		})
	}
}

// Each change has TiDB's schema states, one after the other, in the schema versions
// of the indexes.
func TestMixedStates(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.mixed()
	var got []string
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if p.When != "before" || p.Action != "change-schema" && p.Action != "finish" {
			return nil
		}
		info := e.meta("t")
		state := func(column, index string) string {
			if col := model.FindColumnInfo(info.Columns, column); col != nil {
				return col.State.String()
			}
			idx := info.FindIndexByName(index)
			if idx == nil {
				idx = schema.BeingBuilt(info, index)
			}
			if idx != nil {
				return idx.State.String()
			}
			return "none"
		}
		got = append(got, fmt.Sprintf("%s: new index %s, new column %s, old index %s, old column %s, its index %s, comment %s", p.Step,
			state("", "u"), state("n", ""), state("", "ud"), state("e", ""), state("", "oe"), info.Comment))
		return nil
	})
	c.run("ALTER TABLE t ADD INDEX oe (e)")
	got = nil
	c.run(everything)
	const building = "new index write reorganization, new column write reorganization, old index public, old column public, its index public, comment old"
	require.Equal(t, []string{
		"delete-only: new index none, new column none, old index public, old column public, its index public, comment old",
		"write-only: new index delete only, new column delete only, old index public, old column public, its index public, comment old",
		"write-reorg: new index write only, new column write only, old index public, old column public, its index public, comment old",
		"drained: " + building, "public: " + building,
		"drop-delete-only: new index public, new column public, old index write only, old column write only, its index write only, comment new",
		"drop-delete-reorg: new index public, new column public, old index delete only, old column delete only, its index none, comment new",
		"dropped: new index public, new column public, old index delete reorganization, old column delete reorganization, its index none, comment new",
		"finished: new index public, new column public, old index none, old column none, its index none, comment new",
	}, got)
}

// answer runs a statement in a session of its own and sends what it says.
func (e *env) answer(query string) <-chan string {
	c := e.client()
	said := make(chan string, 1)
	go func() {
		rows, err := c.try(query)
		said <- fmt.Sprint(rows, err)
	}()
	return said
}

// A process that dies at any place of it goes on after a restart: until then all or
// nothing of the statement is visible, and in the end all is.
func TestMixedRestart(t *testing.T) {
	randtest.SkipShort(t)
	dir := t.TempDir()
	e := open(t, dir)
	c := e.client()
	c.mixed()
	c.run(everything)
	want := c.one("SHOW CREATE TABLE t")
	for _, at := range mixedSteps {
		c := e.client()
		was := c.mixed()
		ranges := c.one("SELECT COUNT(*) FROM mysql.gc_delete_range")
		e.dieAt(t, everything, at)
		require.Contains(t, []string{was, want}, c.one("SHOW CREATE TABLE t"))
		c.run("INSERT IGNORE INTO t (a, b, c, d) VALUES (-1, -7, '', -1)")
		c.run("DELETE FROM t WHERE a BETWEEN 10 AND 20")
		e.close()

		e = open(t, dir)
		c = e.client()
		c.awaitNoJob(at)
		require.Equal(t, "synced", c.lastJob("state"), at)
		require.Equal(t, want, c.one("SHOW CREATE TABLE t"))
		c.check("t")
		require.Equal(t, "20", c.one("SELECT COUNT(*) FROM t USE INDEX (u) WHERE d > -100"))
		// One range for ud; it is written once.
		require.Equal(t, "1", c.one("SELECT COUNT(*) - %s FROM mysql.gc_delete_range", ranges), at)
	}
	e.close()
}

// What was dropped is deleted, every index of it and in every partition.
func TestMixedDeletesWhatItDropped(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run(`CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT, d INT, INDEX ib (b), INDEX ic (c), UNIQUE INDEX uda (d, a))
		PARTITION BY HASH (a) PARTITIONS 3`)
	c.run("INSERT INTO t VALUES (1,1,1,1),(2,2,2,2),(3,3,3,3)")
	c.run("ALTER TABLE t DROP INDEX ib, DROP COLUMN c, DROP INDEX uda, ADD INDEX nb (b, d)")
	c.check("t")
	id := c.one("SELECT MAX(job_id) FROM mysql.fastddl_ddl_jobs")
	require.Equal(t, "9", c.one("SELECT COUNT(DISTINCT start_key) FROM mysql.gc_delete_range WHERE job_id = "+id))
	require.NotContains(t, c.one("SHOW CREATE TABLE t"), "`c`")
}

// A job that is public cannot be undone. A statement that takes its row in TiDB's queue then
// does not keep it from going on.
func TestMixedQueueRow(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	for _, at := range []string{"drop-delete-only", "drop-delete-reorg", "dropped"} {
		c.mixed()
		arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "change-schema", Step: at})
		result := e.start(everything)
		reach(t, arrived)
		row := c.one("SELECT job_id, type FROM mysql.tidb_ddl_job")
		require.True(t, strings.HasSuffix(row, " 251"), row)
		c.cancelAsTiDB(strings.Fields(row)[0])
		require.Eventually(t, func() bool { return len(c.run("SELECT * FROM mysql.tidb_ddl_job")) == 0 }, hangTimeout, 10*time.Millisecond)
		close(leave)
		require.NoError(t, wait(t, result))
		require.Empty(t, c.run("SELECT * FROM mysql.tidb_ddl_job"))
		require.NotContains(t, c.one("SHOW CREATE TABLE t"), "`e`")
		c.check("t")
	}
}

// A reader sees all of a statement or nothing, and rows that are written
// meanwhile are right in all indexes.
func TestMixedUnderWriters(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	seen := make(map[string]bool)
	want := map[string]bool{c.mixed(): true}
	c.run(everything)
	want[c.one("SHOW CREATE TABLE t")] = true
	for range 3 {
		c.mixed()
		var stop atomic.Bool
		var workers sync.WaitGroup
		for w := range 4 {
			writer := e.client()
			workers.Go(func() {
				for n := 0; !stop.Load(); n++ {
					id := 100 + w*1000 + n%50
					_, err := writer.try(`INSERT INTO t (a, b, c, d) VALUES (%[1]d, %[2]d, 'w', %[1]d) ON DUPLICATE KEY UPDATE b = b + 1;
						UPDATE t SET c = CONCAT('x', %[2]d), d = d + 100000 WHERE a = %[1]d; DELETE FROM t WHERE a = %[3]d`, id, n, id-7)
					if err != nil && !strings.Contains(err.Error(), "1364") { // e has no default
						if code := errorCode(err); !usual[code] && code != 8028 {
							t.Errorf("a writer failed with %d: %s", code, err.Error())
						}
					}
				}
			})
		}
		reader := e.client()
		look := func() { seen[reader.one("SHOW CREATE TABLE t")] = true }
		look()
		workers.Go(func() {
			for !stop.Load() {
				look()
			}
			look()
		})
		c.run(everything)
		stop.Store(true)
		workers.Wait()
		c.check("t")
	}
	require.Equal(t, want, seen)
}

// Rows can be written at every place of a statement that drops columns which must
// not be NULL: servers that do not see them give them a value.
func TestMixedWritesWhileColumnsGo(t *testing.T) {
	e := newEnv(t)
	c, writer := e.client(), e.client()
	c.run(`CREATE TABLE t (a INT PRIMARY KEY, b INT, i INT NOT NULL, s VARCHAR(10) NOT NULL, x ENUM('p', 'q') NOT NULL, st SET('p', 'q') NOT NULL,
		ts TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, dt DATETIME NOT NULL, now DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, j JSON NOT NULL,
		bi BIT(3) NOT NULL, de DECIMAL(5,2) NOT NULL DEFAULT 1.5, u VARCHAR(40) NOT NULL DEFAULT (UUID()), INDEX (i), INDEX (u))`)
	n, gone := 0, 0
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		for range 3 {
			n++
			_, err := writer.try("INSERT INTO t (a, b, i, s, x, st, dt, j, bi) VALUES (%d, 1, 2, 's', 'q', 'p', NOW(), '{}', 3)", n)
			if err != nil && errorCode(err) == 1054 { // the columns are not visible any more
				gone++
				_, err = writer.try("INSERT INTO t (a, b) VALUES (%d, 1)", n)
			}
			if err != nil {
				return fmt.Errorf("at %s: %w", p, err)
			}
		}
		_, err := writer.try("UPDATE t SET b = b + 1 WHERE a >= %d - 3; DELETE FROM t WHERE a = %d - 4", n, n)
		return err
	})
	c.run(`ALTER TABLE t DROP COLUMN i, DROP COLUMN s, DROP COLUMN x, DROP COLUMN st, DROP COLUMN ts, DROP COLUMN dt, DROP COLUMN now, DROP COLUMN j,
		DROP COLUMN bi, DROP COLUMN de, DROP COLUMN u, ADD UNIQUE INDEX nb (b, a)`)
	c.check("t")
	require.Greater(t, gone, 3*3, "when they were going")
	require.Equal(t, []string{"a", "b"}, c.run("SELECT column_name FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position"))
	require.Equal(t, c.one("SELECT COUNT(*) FROM t IGNORE INDEX (nb)"), c.one("SELECT COUNT(*) FROM t USE INDEX (nb) WHERE b > 0"))
}

// A foreign key that was added by an earlier job in the queue keeps the indexes that
// it needs, one at least.
func TestMixedForeignKeyInTurn(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT, d INT, INDEX ib (b), INDEX ibc (b, c))")
	c.run("CREATE TABLE child (id INT PRIMARY KEY, p INT, INDEX ip (p))")
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	first := e.start("ALTER TABLE t ADD INDEX i1 (d)")
	reach(t, arrived)
	queued := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return c.one("SELECT COUNT(*) FROM mysql.tidb_ddl_job") == fmt.Sprint(n) }, hangTimeout, time.Millisecond)
	}
	key := e.start("ALTER TABLE child ADD CONSTRAINT fk FOREIGN KEY (p) REFERENCES t (b)")
	queued(2)
	both := e.start("ALTER TABLE t DROP INDEX ib, DROP INDEX ibc, ADD INDEX i2 (d)")
	queued(3)
	column := e.start("ALTER TABLE t DROP COLUMN c, ADD INDEX i3 (d)")
	require.Equal(t, 8200, errorCode(wait(t, column)), "it is in a composite index")
	one := e.start("ALTER TABLE t DROP INDEX ibc, ADD INDEX i4 (d)")
	queued(4)
	parent := e.start("ALTER TABLE t RENAME COLUMN b TO bb, ADD INDEX i5 (d)")
	queued(5)
	referring := e.start("ALTER TABLE child CHANGE COLUMN p pp INT, ADD INDEX i6 (id)")
	queued(6)
	close(leave)
	require.NoError(t, wait(t, first))
	require.NoError(t, wait(t, key))
	require.Equal(t, 8028, errorCode(wait(t, parent)))
	require.Equal(t, 8028, errorCode(wait(t, referring)))
	require.Equal(t, 1553, errorCode(wait(t, both)))
	require.NoError(t, wait(t, one))
	c.check("t")
	c.fails(1452, "INSERT INTO child VALUES (1, 1)")
	c.run("INSERT INTO t (a, b) VALUES (1, 1)")
	c.run("INSERT INTO child VALUES (1, 1)")
}

// A column that is given another type, while an index or a generated column that uses it was
// added by a job before: what the statement was checked with does not hold any more.
func TestMixedIsCheckedAgainInItsTurn(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	for _, test := range []struct {
		second, change string
		code           int
	}{
		{"ADD INDEX xa (x, a)", "MODIFY COLUMN a VARCHAR(20) COLLATE utf8mb4_bin", 8028},
		{"ADD INDEX xa (x, a)", "MODIFY COLUMN a TEXT", 8028},
		{"ADD INDEX xg (x, g)", "MODIFY COLUMN g INT AS (b * 3)", 8028},
		{"ADD COLUMN h INT AS (a = 'AB'), ADD INDEX xx (x)", "MODIFY COLUMN a VARCHAR(20) COLLATE utf8mb4_bin", 8028},
		{"ADD INDEX xh ((LOWER(a)))", "MODIFY COLUMN a VARCHAR(40)", 8028},
		{"ADD INDEX xa (x, a)", "MODIFY COLUMN a VARCHAR(20) COLLATE utf8mb4_general_ci NOT NULL DEFAULT 'x' COMMENT 'y'", 0},
		{"ADD INDEX xa (x, a)", "RENAME COLUMN a TO aa", 0},
		{"ADD INDEX xx (x)", "MODIFY COLUMN a VARCHAR(40) COLLATE utf8mb4_general_ci", 0},
	} {
		c.run("DROP TABLE IF EXISTS t")
		c.run("CREATE TABLE t (id INT PRIMARY KEY, x INT, a VARCHAR(20) COLLATE utf8mb4_general_ci NOT NULL, b INT, d INT, g INT AS (b * 2), INDEX old (a, d))")
		if test.code != 0 {
			c.run("DROP INDEX old ON t") // some of them would be refused for it at once
		}
		c.run("INSERT INTO t (id, x, a, b, d) VALUES (1, 1, 'aB', 1, 1), (2, 1, 'Ab', 2, 2), (3, 1, 'zz', 3, 3)")
		arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
		queued := func(n int) {
			t.Helper()
			require.Eventually(t, func() bool { return len(e.DDL().Unfinished()) == n }, hangTimeout, time.Millisecond, test.change)
		}
		first := e.start("ALTER TABLE t ADD INDEX i1 (d)")
		reach(t, arrived)
		second := e.start("ALTER TABLE t " + test.second)
		queued(2)
		third := e.start("ALTER TABLE t ADD INDEX ib (b), " + test.change)
		queued(3)
		close(leave)
		require.NoError(t, wait(t, first))
		require.NoError(t, wait(t, second))
		after := wait(t, third)
		if test.code == 0 {
			require.NoError(t, after, test.change)
		} else {
			require.Equal(t, test.code, errorCode(after), "%s, %s: %v", test.second, test.change, after)
		}
		e.setHook(nil)
		c.check("t")
	}
}

// Two statements on one table are executed in turn. The later one is checked again
// when it begins.
func TestMixedStatementsRunInTurn(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	for _, test := range []struct {
		first, second string
		code          int
	}{
		{"ADD COLUMN n INT, ADD INDEX i1 (d)", "ADD COLUMN n INT, ADD INDEX i2 (d)", 1060},
		{"ADD COLUMN n INT, ADD INDEX i1 (d)", "ADD COLUMN IF NOT EXISTS n INT, ADD INDEX i2 (d)", 0},
		{"DROP INDEX ib, ADD INDEX i1 (d)", "DROP INDEX ib, ADD INDEX i2 (d)", 1091},
		{"DROP INDEX ib, ADD INDEX i1 (d)", "DROP INDEX IF EXISTS ib, ADD INDEX i2 (d)", 0},
		{"DROP COLUMN e, ADD INDEX i1 (d)", "ADD COLUMN n INT AFTER e, ADD INDEX i2 (d)", 1054},
		{"DROP COLUMN e, ADD INDEX i1 (d)", "DROP COLUMN IF EXISTS e, ADD INDEX i2 (d)", 0},
		{"RENAME INDEX ib TO jb, ADD INDEX i1 (d)", "RENAME INDEX ib TO kb, ADD INDEX i2 (d)", 1176},
		{"RENAME INDEX ib TO jb, ADD INDEX i1 (d)", "ALTER INDEX ib INVISIBLE, ADD INDEX i2 (d)", 1176},
		{"RENAME INDEX ib TO jb, ADD INDEX i1 (d)", "RENAME INDEX ud TO jb, ADD INDEX i2 (d)", 1061},
		{"MODIFY COLUMN c VARCHAR(50) NOT NULL, ADD INDEX i1 (d)", "MODIFY COLUMN c VARCHAR(30) NOT NULL, ADD INDEX i2 (d)", 8028},
		{"RENAME COLUMN c TO cc, ADD INDEX i1 (d)", "ALTER COLUMN c SET DEFAULT 'x', ADD INDEX i2 (d)", 8028},
		{"ADD INDEX i1 (d), COMMENT = 'new'", "DROP COLUMN f, ADD INDEX i2 (d), ADD INDEX i3 (c)", 0},
	} {
		c.mixed()
		arrived, leave := make(chan struct{}), make(chan struct{})
		var built atomic.Int64
		e.setHook(func(_ context.Context, p ddl.HookPoint) error {
			if p.When == "before" && p.Action == "backfill" && built.Add(1) == 1 {
				close(arrived)
				<-leave
			}
			return nil
		})
		first := e.start("ALTER TABLE t " + test.first)
		reach(t, arrived)
		second := e.start("ALTER TABLE t " + test.second)
		require.Eventually(t, func() bool { return len(e.DDL().Unfinished()) == 2 }, hangTimeout, time.Millisecond, test.second)
		close(leave)
		require.NoError(t, wait(t, first))
		after := wait(t, second)
		if test.code == 0 {
			require.NoError(t, after, test.second)
		} else {
			require.Error(t, after, test.second)
			require.Equal(t, test.code, errorCode(after), "%s: %v", test.second, after)
			require.EqualValues(t, 1, built.Load(), "%s was built before it was refused", test.second)
			require.NotContains(t, c.one("SHOW CREATE TABLE t"), "i2")
		}
		e.setHook(nil)
		c.check("t")
	}
}

package sql_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/ddl"
	"fastddl/sql"
)

// The tests in this file are failures that users of other systems have reported, made
// into what must not happen here. The list of all of them, with the tests elsewhere, is
// in docs/failures-elsewhere.md.

// script has statements run at places of the next job.
func (e *env) script(t *testing.T, c *client, at map[place][]string) {
	t.Helper()
	var mu sync.Mutex
	done := make(map[place]bool)
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		mu.Lock()
		defer mu.Unlock()
		for where, statements := range at {
			if done[where] || !matches(p, hooks[where]) {
				continue
			}
			done[where] = true
			for _, s := range statements {
				if _, err := c.try("%s", s); err != nil {
					t.Errorf("%s: %s: %s", where, s, err.Error())
				}
			}
		}
		return nil
	})
}

// A value wanders through rows before S, before the import and after it; each row is
// deleted when the next one has it (pingcap/tidb#60339: data inconsistent).
func TestUniqueValueMovesBetweenRows(t *testing.T) {
	e := newEnv(t)
	c, w := e.client(), e.client()
	c.run("CREATE TABLE t (id INT PRIMARY KEY, b INT NOT NULL DEFAULT 0)")
	c.run("INSERT INTO t VALUES (1, 0)")
	pass := func(from, to int) []string {
		return []string{fmt.Sprintf("DELETE FROM t WHERE id = %d", from), fmt.Sprintf("INSERT INTO t (id) VALUES (%d)", to)}
	}
	e.script(t, w, map[place][]string{
		inDeleteOnly: pass(1, 2), inWriteOnly: pass(2, 3), beforeS: pass(3, 4), afterS: pass(4, 5), beforeImport: append(pass(5, 6), pass(6, 7)...),
		afterImport: append(pass(7, 8), pass(8, 9)...), drained: pass(9, 10), compared: pass(10, 1),
	})
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	c.check("t")
	require.Equal(t, "1 0", c.one("SELECT * FROM t FORCE INDEX (u)"))
}

// A value is inserted, inserted again past the index and deleted, and then inserted
// once more when the index is complete: the last must be refused (pingcap/tidb#40730:
// the mark of the deletion hides the entry from the check).
func TestDeletedDuplicateDoesNotHideItsRow(t *testing.T) {
	e := newEnv(t)
	c, w := e.client(), e.client()
	c.run("CREATE TABLE t (a INT, b INT)")
	var code int
	var failures error
	try := func(statement string) {
		_, err := w.try(statement)
		failures = errors.Join(failures, err)
	}
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		switch {
		case matches(p, hooks[inDeleteOnly]):
			try("INSERT INTO t VALUES (5, 5)")
		case matches(p, hooks[beforeImport]):
			try("INSERT INTO t VALUES (5, 7)")
			try("DELETE FROM t WHERE b = 7")
		case matches(p, hooks[compared]):
			_, err := w.try("INSERT INTO t VALUES (5, 9)")
			code = errorCode(err)
		}
		return nil
	})
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (a)")
	require.NoError(t, failures)
	require.Equal(t, 1062, code)
	require.Equal(t, "1", c.lastJob("repaired_keys"), "the duplicate has left a tombstone")
	c.check("t")
	require.Equal(t, "5 5", c.one("SELECT * FROM t FORCE INDEX (u)"))
}

// Elements are added to an array that is indexed, and others stay (cockroachdb/cockroach#76959:
// the entry of an element that stays is lost).
func TestArrayGrowsDuringTheBuild(t *testing.T) {
	e := newEnv(t)
	c, w := e.client(), e.client()
	c.run("CREATE TABLE t (k INT PRIMARY KEY, v JSON)")
	c.run("INSERT INTO t VALUES (1, '[1]'), (2, '[1, 2]'), (3, '[3]')")
	e.script(t, w, map[place][]string{
		inDeleteOnly: {"UPDATE t SET v = '[3, 4]' WHERE k = 3"},
		beforeImport: {"UPDATE t SET v = '[1, 2]' WHERE k = 1", "UPDATE t SET v = '[2]' WHERE k = 2"},
		compared:     {"UPDATE t SET v = '[1, 2, 3]' WHERE k = 1", "UPDATE t SET v = '[3, 4, 4]' WHERE k = 3"},
	})
	c.run("ALTER TABLE t ADD INDEX i ((CAST(v AS SIGNED ARRAY)))")
	c.check("t")
	for element, rows := range map[int]string{1: "1", 2: "1 2", 3: "1 3", 4: "3"} {
		require.Equal(t, rows, strings.Join(c.run("SELECT k FROM t USE INDEX (i) WHERE %d MEMBER OF (v) ORDER BY k", element), " "))
	}
}

// The process dies again and again, at another place each time, before the job has
// ended (pingcap/tidb#44619 and #43997: half of the entries are missing after the owner
// has changed twice).
func TestBuildSurvivesRepeatedCrashes(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT) PARTITION BY HASH (a) PARTITIONS 3")
	for i := range 300 {
		c.run("INSERT INTO t VALUES (%d, %d)", i, i)
	}
	died := errors.New("died")
	for round, at := range []place{afterS, beforeImport, beforeImport, afterImport, afterImport, drained, compared} {
		arrived := make(chan struct{})
		die := func(o *sql.Options) {
			var once sync.Once
			o.Hook = func(_ context.Context, p ddl.HookPoint) error {
				if !matches(p, hooks[at]) {
					return nil
				}
				once.Do(func() { close(arrived) })
				return died
			}
		}
		e.close()
		e = open(t, dir, die)
		c = e.client()
		if round == 0 {
			require.ErrorIs(t, wait(t, e.start("ALTER TABLE t ADD INDEX i (b), ADD UNIQUE INDEX u (b) GLOBAL")), died)
		}
		reach(t, arrived)
		c.run("UPDATE t SET b = b + 10000 WHERE a = %d", round)
		c.run("DELETE FROM t WHERE a = %d", 100+round)
		c.run("INSERT INTO t VALUES (%d, %d)", 1000+round, 100+round)
	}
	e.close()
	e = open(t, dir)
	defer func() { e.close() }()
	c = e.client()
	c.awaitNoJob()
	require.Equal(t, "synced", c.lastJob("state"))
	c.check("t")
}

// Progress counts the rows of all partitions, once, regardless of the number of indexes
// (pingcap/tidb#43586: only the last partition's; #44682: 0 for the second index).
func TestProgressCountsRowsOfAllPartitionsOnce(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT) PARTITION BY RANGE (a) " +
		"(PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN (101), PARTITION p2 VALUES LESS THAN (1000))")
	for i := range 150 {
		c.run("INSERT INTO t VALUES (%d, %d)", i, i)
	}
	c.run("ALTER TABLE t ADD INDEX i (b), ADD INDEX j (b, a)")
	require.Equal(t, "150 100", c.lastJob("row_count, percent"))
	id := c.lastJob("job_id")
	require.Contains(t, c.one("ADMIN SHOW DDL JOBS 1 WHERE job_id = "+id), " 150 ")
	require.Equal(t, "150", c.one("SELECT row_count FROM information_schema.ddl_jobs WHERE job_id = "+id))
}

// A job is cancelled while it writes slowly, or waits for a transaction, and is gone at
// once (pingcap/tidb#57325 and #53539: it takes as long as what it does).
func TestCancelDoesNotWaitForSlowWork(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(200) CHARACTER SET ascii)")
	c.run("INSERT INTO t WITH RECURSIVE n (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 1000) SELECT a, REPEAT(MD5(a), 6) FROM n")
	c.run("SET GLOBAL %s = 1024", config.ReorgMaxWriteSpeed)
	defer c.run("SET GLOBAL %s = DEFAULT", config.ReorgMaxWriteSpeed)
	result := e.start("ALTER TABLE t ADD INDEX u (b)")
	require.Eventually(t, func() bool {
		jobs := e.DDL().Unfinished()
		return len(jobs) == 1 && jobs[0].Step == "snapshot"
	}, hangTimeout, time.Millisecond)
	// At its speed it would take minutes more.
	c.run("ADMIN CANCEL DDL JOBS %s", c.one("SELECT MAX(job_id) FROM mysql.fastddl_ddl_record"))
	require.Equal(t, 8214, errorCode(wait(t, result)))
	e.leavesNothing(c, "t")

	c.run("SET GLOBAL %s = DEFAULT", config.ReorgMaxWriteSpeed)
	open := e.client()
	open.run("BEGIN; SELECT * FROM t WHERE a = 1")
	result = e.start("ALTER TABLE t ADD INDEX u (b)")
	require.Eventually(t, func() bool {
		jobs := e.DDL().Unfinished()
		return len(jobs) == 1 && strings.Contains(jobs[0].WaitReason, "held by 1 transaction")
	}, hangTimeout, time.Millisecond)
	id := c.one("SELECT MAX(job_id) FROM mysql.fastddl_ddl_record")
	require.Equal(t, id+" successful", c.one("ADMIN CANCEL DDL JOBS "+id))
	require.Eventually(t, func() bool {
		return strings.Contains(c.one("ADMIN SHOW DDL JOBS 1 WHERE job_id = "+id), "held by 1 transaction") || len(result) > 0
	}, hangTimeout, time.Millisecond, "the job does not say what it waits for")
	open.run("COMMIT")
	require.Equal(t, 8214, errorCode(wait(t, result)))
	e.leavesNothing(c, "t")
}

// The temp folder is gone when a job begins, or goes away while it works
// (pingcap/tidb#45456 and #45624: the job hangs, and all DDL behind it).
func TestJobFailsWhenItsTempFolderIsGone(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	require.NoError(t, os.RemoveAll(e.dir+"/tmp"))
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	c.check("t")
	c.run("ALTER TABLE t DROP INDEX u")
	e.before("backfill", "", func() { _ = os.RemoveAll(e.dir + "/tmp") })
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	c.check("t")
}

// After a build was cancelled another one begins at once, of the same index and on
// other tables (pingcap/tidb#61692, #44205: "already in use by another DDL job").
func TestBuildBeginsAfterACancelledOne(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	c.run("CREATE TABLE other (a INT PRIMARY KEY, b INT)")
	c.run("INSERT INTO other SELECT a, b FROM t")
	for _, at := range []place{inDeleteOnly, beforeImport, afterImport, compared} {
		arrived, leave := e.blockAt(hooks[at])
		result := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")
		reach(t, arrived)
		asked(t, has(e.start("ADMIN CANCEL DDL JOBS "+c.one("SELECT MAX(job_id) FROM mysql.fastddl_ddl_record"))))
		close(leave)
		err := wait(t, result)
		e.setHook(nil)
		c.run("ALTER TABLE other ADD UNIQUE INDEX u (b)")
		if err != nil {
			require.Equal(t, 8214, errorCode(err))
			c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
		}
		c.check("t")
		c.check("other")
		c.run("ALTER TABLE t DROP INDEX u")
		c.run("ALTER TABLE other DROP INDEX u")
	}
}

// Transactions at READ COMMITTED read with the schema that they began with
// (pingcap/tidb#21498: through an index that lacks what was written since).
func TestReadCommittedReadsWithItsSchema(t *testing.T) {
	e := newEnv(t)
	c, w := e.client(), e.client()
	c.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	c.run("CREATE TABLE elsewhere (a INT)")
	c.run("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
	reader := e.client()
	reader.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
	reader.run("BEGIN; SELECT * FROM elsewhere")
	c.run("ALTER TABLE t ADD INDEX iv (v)")
	w.run("UPDATE t SET v = 11 WHERE id = 1")
	require.Equal(t, []string{"1"}, reader.run("SELECT id FROM t WHERE v = 11"))
	require.Empty(t, reader.run("SELECT id FROM t WHERE v = 10"))
	require.Equal(t, []string{"1 11"}, reader.run("SELECT * FROM t WHERE v = 11 FOR UPDATE"))
	reader.run("COMMIT")
}

// The same index is added and dropped again and again (pingcap/tidb#58344: after some
// hundred times it hangs).
func TestIndexIsAddedAndDroppedRepeatedly(t *testing.T) {
	times := 15
	if os.Getenv("FASTDDL_LONG") != "" {
		times = 1000
	}
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	for range times {
		c.run("ALTER TABLE t ADD INDEX i (b)")
		c.run("ALTER TABLE t DROP INDEX i")
	}
	c.check("t")
	require.Equal(t, fmt.Sprint(times), c.one("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs"))
}

// A unique index on an array and one on columns are built by one statement while a row
// is written again and again (pingcap/tidb#69660: a false 1062, or a job that never ends,
// because an element was taken for a handle).
func TestUniqueOverArrayAndColumnsTogether(t *testing.T) {
	e := newEnv(t)
	c, w := e.client(), e.client()
	c.run("CREATE TABLE t (id VARCHAR(10) PRIMARY KEY CLUSTERED, a INT, b INT, j JSON)")
	c.run("INSERT INTO t VALUES ('1', 1, 1, '[1, 2]'), ('2', 2, 2, '[3]'), ('3', 3, 3, NULL), ('4', 4, 4, '[]')")
	at := make(map[place][]string)
	for i, where := range []place{inDeleteOnly, inWriteOnly, beforeS, afterS, beforeImport, afterImport, drained, compared} {
		at[where] = []string{
			fmt.Sprintf("UPDATE t SET a = a + 10, j = JSON_ARRAY(%d, %d, 2) WHERE id = '1'", 100+i, 200+i),
			fmt.Sprintf("UPDATE t SET j = JSON_ARRAY(3, 4, %d) WHERE id = '2'", 300+i),
			fmt.Sprintf("DELETE FROM t WHERE id = '3%d'", i),
			fmt.Sprintf("INSERT INTO t VALUES ('3%d', 30, 30, '[30]')", i+1),
		}
	}
	e.script(t, w, at)
	c.run("ALTER TABLE t ADD UNIQUE INDEX u ((CAST(j AS SIGNED ARRAY))), ADD UNIQUE INDEX v (a, b)")
	c.check("t")
	require.Equal(t, []string{"1"}, c.run("SELECT id FROM t USE INDEX (u) WHERE 2 MEMBER OF (j)"))
	require.Equal(t, []string{"38"}, c.run("SELECT id FROM t USE INDEX (u) WHERE 30 MEMBER OF (j)"))
}

// What the scan hands out of the rows, and what the process has imported before it died,
// are imported once more after a restart: an entry that is there already is none of
// another row (pingcap/tidb#62285 and #41630: a false 1062 after a restart).
func TestEntryImportedTwiceIsNoDuplicate(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	c := e.client()
	table(c, 500)
	died := errors.New("died")
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if matches(p, hooks[afterImport]) {
			return died
		}
		return nil
	})
	require.ErrorIs(t, wait(t, e.start("ALTER TABLE t ADD UNIQUE INDEX u (b), ADD UNIQUE INDEX v (c)")), died)
	// As if it had died before the end of the import was recorded.
	c.run(`UPDATE mysql.fastddl_ddl_record SET checkpoint = NULL, record = JSON_SET(CAST(CONVERT(record USING utf8mb4) AS JSON), '$.step', 'snapshot')`)
	c.run("UPDATE t SET b = b + 7 ORDER BY b DESC")
	c.run("UPDATE t SET a = a + 1000 WHERE a < 100")
	e.close()
	e = open(t, dir)
	defer e.close()
	c = e.client()
	c.awaitNoJob()
	require.Equal(t, "synced", c.lastJob("state"))
	c.check("t")
}

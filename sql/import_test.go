package sql_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/load"
	"fastddl/load/jobs"
	"fastddl/sql"
)

// importEnv is a SQL layer with imports, which a hook may stop or hold.
type importEnv struct {
	*env
	files string

	mu       sync.Mutex
	onImport func(p jobs.HookPoint) error
}

// openImports opens the store in dir.
func openImports(t *testing.T, dir string, tune ...func(o *sql.Options, opts load.Options)) *importEnv {
	t.Helper()
	e := &importEnv{files: dir}
	e.env = open(t, dir, func(o *sql.Options) {
		opts := load.Options{Store: o.Builds, Globals: o.Globals, Bus: o.Bus, TempDir: o.TempDir}
		o.Loader = jobs.NewLoader(opts)
		for _, t := range tune {
			t(o, opts)
		}
		o.ImportHook = func(_ context.Context, p jobs.HookPoint) error {
			e.mu.Lock()
			hook := e.onImport
			e.mu.Unlock()
			if hook == nil {
				return nil
			}
			return hook(p)
		}
	})
	return e
}

func newImports(t *testing.T) *importEnv {
	t.Helper()
	e := openImports(t, t.TempDir())
	t.Cleanup(e.close)
	return e
}

// hookImports calls hook at each point of an import.
func (e *importEnv) hookImports(hook func(p jobs.HookPoint) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.onImport = hook
}

// holdAt stops the next import before a step, until release is called.
func (e *importEnv) holdAt(step jobs.Step) (reached chan struct{}, release func()) {
	reached, released := make(chan struct{}), make(chan struct{})
	var once, end sync.Once
	e.hookImports(func(p jobs.HookPoint) error {
		if p.When == "before" && p.Step == step {
			once.Do(func() { close(reached) })
			<-released
		}
		return nil
	})
	return reached, func() { end.Do(func() { close(released) }) }
}

// file writes a file of rows "n,text n,n/3" for n in [from, to), and returns its path.
func (e *importEnv) file(name string, from, to int) string {
	e.t.Helper()
	var b strings.Builder
	for n := from; n < to; n++ {
		fmt.Fprintf(&b, "%d,text %d,%d\n", n, n, n/3)
	}
	path := filepath.Join(e.files, name)
	require.NoError(e.t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// start executes a statement in another goroutine and session, and returns its error.
func (e *importEnv) start(query string, args ...any) chan error {
	c, done := e.client(), make(chan error, 1)
	go func() {
		_, err := c.try(query, args...)
		done <- err
	}()
	return done
}

// An import has its times in the zone of the session that asks for them, as mysql.tidb_import_jobs has: TiDB shows those of its own sessions.
func TestImportsAreShownInTheZoneOfTheSession(t *testing.T) {
	e := newImports(t)
	c := e.client()
	c.run(importTable)
	for _, zone := range []string{"+09:00", "-03:30", "+00:00"} {
		c.run("SET time_zone = '%s'; TRUNCATE TABLE t", zone)
		id, _, _ := strings.Cut(c.one("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 10)), " ")
		times := c.one("SELECT CONCAT_WS(' ', create_time, start_time, end_time) FROM mysql.tidb_import_jobs WHERE id = %s", id)
		for _, statement := range []string{"SHOW IMPORT JOB " + id, "SHOW IMPORT JOBS WHERE job_id = " + id} {
			require.Contains(t, c.one(statement), times, "%s: %s", zone, statement)
		}
	}
}

const importTable = `CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(40), n INT, KEY n (n), UNIQUE KEY s (s))`

// nothingLeft fails if anything of an import is left but what garbage collection is to delete.
func (e *importEnv) nothingLeft(c *client) {
	e.t.Helper()
	require.Equal(e.t, "0", c.one("SELECT COUNT(*) FROM mysql.fastddl_import_job"))
	require.Equal(e.t, "0", c.one("SELECT COUNT(*) FROM mysql.tidb_ddl_job"))
	require.Equal(e.t, "0", c.one("SELECT COUNT(*) FROM mysql.tidb_mdl_info"))
	require.Equal(e.t, "0", c.one("SELECT COUNT(*) FROM mysql.tidb_import_jobs WHERE status IN ('pending', 'running')"))
	left, err := filepath.Glob(filepath.Join(e.dir, "tmp", "job-*"))
	require.NoError(e.t, err)
	require.Empty(e.t, left)
}

// IMPORT INTO returns TiDB's row of the job. The rows and their index entries are there then, with statistics; the table takes writes and DDL.
func TestImportInto(t *testing.T) {
	e := newImports(t)
	c := e.client()
	c.run(importTable)
	row := c.one("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 1000))
	require.Contains(t, row, "`test`.`t`")
	require.Contains(t, row, "finished")
	require.Contains(t, row, " 1000 ")
	require.Equal(t, "1000 499500 334", c.one("SELECT COUNT(*), SUM(id), COUNT(DISTINCT n) FROM t"))
	require.Equal(t, "7", c.one("SELECT id FROM t USE INDEX (s) WHERE s = 'text 7'"))
	c.check("t")
	require.Equal(t, "1000", c.one("SELECT count FROM mysql.stats_meta m JOIN information_schema.tables t ON t.tidb_table_id = m.table_id WHERE table_name = 't' AND table_schema = 'test'"))
	require.Contains(t, c.one("SHOW IMPORT JOBS"), "finished")
	e.nothingLeft(c)
	c.run("INSERT INTO t VALUES (5000, 'x', 1)")
	c.run("ALTER TABLE t ADD INDEX (n, s), ADD COLUMN z INT")
	c.check("t")
	c.fails(8173, "IMPORT INTO t FROM '%s'", e.file("b.csv", 0, 10))
	c.run("TRUNCATE TABLE t")
	require.Equal(t, "1", c.one("IMPORT INTO t (id, s) FROM '%s'; SELECT COUNT(*) FROM t WHERE id = 5", e.file("b.csv", 5, 6)))
	c.check("t")
}

// What the table gives out continues behind the largest loaded value, and behind what it gave out before.
func TestImportContinuesAutomaticValues(t *testing.T) {
	e := newImports(t)
	c := e.client()
	path := filepath.Join(e.files, "auto.csv")
	require.NoError(t, os.WriteFile(path, []byte("1000,a\n\\N,b\n7,c\n"), 0o600))
	for _, test := range []struct{ name, create string }{
		{"one counter", "CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(10))"},
		{"nonclustered", "CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY NONCLUSTERED, s VARCHAR(10))"},
		{"own counter", "CREATE TABLE t (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY NONCLUSTERED, s VARCHAR(10)) AUTO_ID_CACHE 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := c.of(t)
			c.run("DROP TABLE IF EXISTS t")
			c.run(test.create)
			c.run("IMPORT INTO t FROM '%s'", path)
			require.Equal(t, "3", c.one("SELECT COUNT(DISTINCT id) FROM t WHERE id > 0"))
			c.run("INSERT INTO t (s) VALUES ('d')")
			require.Equal(t, "1", c.one("SELECT id > 1000 FROM t WHERE s = 'd'"))
			c.check("t")
		})
	}
	t.Run("used before", func(t *testing.T) {
		c := c.of(t)
		c.run("DROP TABLE t; CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(10)) AUTO_INCREMENT = 500000")
		c.run("INSERT INTO t (s) VALUES ('gone'); DELETE FROM t")
		c.run("IMPORT INTO t FROM '%s'", path)
		c.run("INSERT INTO t (s) VALUES ('d')")
		require.Equal(t, "1", c.one("SELECT id > 500000 FROM t WHERE s = 'd'"))
	})
}

// While a table is being imported, a statement that would add rows to it fails with TiDB's number for a locked table, and readers see none of
// its rows. Other tables do not notice.
func TestWritersAreRefusedDuringAnImport(t *testing.T) {
	e := newImports(t)
	c, earlier, prepared := e.client(), e.client(), e.client()
	c.run(importTable + "; CREATE TABLE other (id INT PRIMARY KEY); CREATE TABLE source LIKE t; INSERT INTO source VALUES (1, 'a', 1)")
	prepared.run("PREPARE ins FROM 'INSERT INTO t VALUES (?, ?, ?)'; SET @a = 7")
	earlier.run("BEGIN; SELECT * FROM other")
	for _, step := range []jobs.Step{jobs.StepLoading, jobs.StepSwapped} {
		reached, release := e.holdAt(step)
		defer release()
		c.run("TRUNCATE TABLE t")
		done := e.start("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 100))
		<-reached
		text := c.fails(8020, "INSERT INTO t VALUES (1, 'a', 1)")
		require.Contains(t, text, "is being imported by job")
		for _, query := range []string{
			"REPLACE INTO test.T VALUES (1, 'a', 1)", "INSERT INTO t SELECT * FROM source", "INSERT IGNORE INTO t VALUES (1, 'a', 1)",
			"INSERT INTO t VALUES (1, 'a', 1) ON DUPLICATE KEY UPDATE n = 2", "EXPLAIN ANALYZE INSERT INTO t VALUES (1, 'a', 1)",
			"TRACE INSERT INTO t VALUES (1, 'a', 1)", "BATCH ON test.source.id LIMIT 1 INSERT INTO t SELECT * FROM source",
		} {
			_, err := c.try(query)
			require.ErrorContains(t, err, "is being imported by job", query)
		}
		prepared.fails(8020, "EXECUTE ins USING @a, @a, @a")
		earlier.fails(8020, "INSERT INTO t VALUES (1, 'a', 1)")
		if step == jobs.StepLoading {
			require.Empty(t, c.run("SELECT * FROM t"))
			c.run("UPDATE t SET n = 1; DELETE FROM t") // it is empty
		}
		c.run("INSERT INTO other VALUES (1); DELETE FROM other")
		c.run("CREATE TEMPORARY TABLE source (id INT)")
		c.run("DROP TEMPORARY TABLE source")
		release()
		require.NoError(t, <-done)
		require.Equal(t, "100", c.one("SELECT COUNT(*) FROM t"))
		c.run("INSERT INTO t VALUES (1000, 'a', 1)")
		prepared.run("SET @b = 1001; EXECUTE ins USING @b, @b, @b")
		c.check("t")
	}
	earlier.run("ROLLBACK")
	e.nothingLeft(c)
}

// An import waits for transactions that have used its table, and then looks whether that is empty.
func TestImportWaitsForEarlierWriters(t *testing.T) {
	e := newImports(t)
	c := e.client()
	c.run(importTable)
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		writer := e.client()
		writer.run("BEGIN; INSERT INTO t VALUES (5, 'a', 1)")
		reached := make(chan struct{})
		var once sync.Once
		e.hookImports(func(p jobs.HookPoint) error {
			if p.When == "before" && p.Step == jobs.StepDraining {
				once.Do(func() { close(reached) })
			}
			return nil
		})
		done := e.start("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 100))
		select {
		case <-reached:
		case err := <-done:
			require.NoError(t, err)
			t.Fatal("the import did not wait")
		}
		writer.run("SELECT * FROM t")
		writer.fails(8020, "INSERT INTO t VALUES (6, 'b', 1)")
		writer.run(end)
		err := <-done
		if end == "COMMIT" {
			require.ErrorContains(t, err, "target table is not empty")
			require.Equal(t, "5", c.one("SELECT id FROM t"))
			c.run("DELETE FROM t")
		} else {
			require.NoError(t, err)
			require.Equal(t, "100", c.one("SELECT COUNT(*) FROM t"))
		}
		c.check("t")
	}
	e.nothingLeft(c)
}

// An import whose process dies anywhere goes on after the next start, or has left nothing; its table is closed to writers from the start.
func TestImportSurvivesCrashes(t *testing.T) {
	for _, when := range []string{"before", "within", "after"} {
		for _, step := range []jobs.Step{jobs.StepQueued, jobs.StepDraining, jobs.StepLoading, jobs.StepSwapped} {
			t.Run(when+" "+string(step), func(t *testing.T) {
				dir := t.TempDir()
				e := openImports(t, dir)
				c := e.client()
				c.run("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(40), n INT, KEY n (n), UNIQUE KEY s (s, id)) PARTITION BY HASH (id) PARTITIONS 3")
				died := make(chan struct{})
				var once sync.Once
				e.hookImports(func(p jobs.HookPoint) error {
					if p.When == when && p.Step == step {
						once.Do(func() { close(died) })
						return errors.New("died")
					}
					return nil
				})
				done := e.start("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 500))
				<-died
				if err := <-done; step != jobs.StepSwapped || when != "after" { // then it has ended
					require.Error(t, err)
				}
				c.Close()
				e.close()

				e = openImports(t, dir)
				t.Cleanup(e.close)
				c = e.client()
				require.Eventually(t, func() bool { return c.one("SELECT COUNT(*) FROM mysql.fastddl_import_job") == "0" }, hangTimeout, 10*time.Millisecond)
				require.Equal(t, "500", c.one("SELECT COUNT(*) FROM t"))
				require.Contains(t, c.one("SHOW IMPORT JOBS"), "finished")
				c.check("t")
				e.nothingLeft(c)
				c.run("INSERT INTO t VALUES (1000, 'x', 1)")
			})
		}
	}
}

// A cancelled import leaves nothing, wherever it is cancelled; past the swap it cannot be.
func TestImportIsCancelled(t *testing.T) {
	e := newImports(t)
	c := e.client()
	c.run(importTable)
	for _, step := range []jobs.Step{jobs.StepQueued, jobs.StepDraining, jobs.StepLoading, jobs.StepSwapped} {
		reached, release := e.holdAt(step)
		defer release()
		ranges := c.one("SELECT COUNT(*) FROM mysql.gc_delete_range")
		require.Contains(t, c.one("IMPORT INTO t FROM '%s' WITH detached", e.file("a.csv", 0, 100)), "`test`.`t`")
		<-reached
		id := c.one("SELECT MAX(id) FROM mysql.tidb_import_jobs")
		cancelled := e.start("CANCEL IMPORT JOB %s", id)
		if step == jobs.StepSwapped {
			require.ErrorContains(t, <-cancelled, "cannot")
			release()
			require.Eventually(t, func() bool { return strings.Contains(c.one("SHOW IMPORT JOB %s", id), "finished") }, hangTimeout, time.Millisecond)
			require.Equal(t, "100", c.one("SELECT COUNT(*) FROM t"))
			break
		}
		require.Eventually(t, func() bool {
			return strings.Contains(c.one("SELECT record FROM mysql.fastddl_import_job"), `"undoing"`)
		}, hangTimeout, time.Millisecond)
		release()
		require.NoError(t, <-cancelled)
		require.Contains(t, c.one("SHOW IMPORT JOB %s", id), "cancelled")
		require.Equal(t, "0", c.one("SELECT COUNT(*) FROM t"))
		e.nothingLeft(c)
		deleted := c.one("SELECT COUNT(*) > %s FROM mysql.gc_delete_range", ranges)
		require.Equal(t, step != jobs.StepQueued, deleted == "1", "nothing deletes what was written")
		c.run("INSERT INTO t VALUES (1, 'a', 1); DELETE FROM t")
	}
}

// Statements that would have TiDB's executor import are refused; a plan is shown.
func TestNestedImportIsRefused(t *testing.T) {
	e := newImports(t)
	c := e.client()
	c.run(importTable + "; CREATE TABLE source LIKE t")
	path := e.file("a.csv", 0, 10)
	for _, query := range []string{"IMPORT INTO t FROM '" + path + "'", "IMPORT INTO t FROM SELECT * FROM source"} {
		c.fails(1235, "EXPLAIN ANALYZE "+query)
		c.run("EXPLAIN " + query)
	}
	require.Empty(t, c.run("SELECT * FROM t"))
}

// A statement that is killed cancels its import.
func TestKillCancelsAnImport(t *testing.T) {
	e := newImports(t)
	c, importer := e.client(), e.client()
	c.run(importTable)
	reached, release := e.holdAt(jobs.StepLoading)
	defer release()
	done := make(chan error, 1)
	go func() {
		_, err := importer.try("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 100))
		done <- err
	}()
	<-reached
	e.Domain().InfoSyncer().GetSessionManager().Kill(importer.GetSessionVars().ConnectionID, true, false, false)
	require.Eventually(t, func() bool {
		return strings.Contains(c.one("SELECT record FROM mysql.fastddl_import_job"), `"undoing"`)
	}, hangTimeout, time.Millisecond)
	release()
	require.Equal(t, 1317, errorCode(<-done))
	require.Equal(t, "0", c.one("SELECT COUNT(*) FROM t"))
	e.nothingLeft(c)
}

// A bad row ends the import with its place; duplicates are named with both places. They are listed, and nothing is left.
func TestImportNamesBadRows(t *testing.T) {
	e := newImports(t)
	c := e.client()
	c.run(importTable)
	path := filepath.Join(e.files, "bad.csv")
	require.NoError(t, os.WriteFile(path, []byte("1,a,1\n2,b,many\n"), 0o600))
	text := c.fails(1366, "IMPORT INTO t FROM '%s'", path)
	require.Contains(t, text, "bad.csv")
	require.Contains(t, text, "line 2")
	require.Equal(t, "bad.csv 2 n 1366", c.one("SELECT file, line, column_name, code FROM mysql.fastddl_import_errors"))
	require.NoError(t, os.WriteFile(path, []byte("1,a,1\n2,b,1\n1,c,1\n"), 0o600))
	text = c.fails(1062, "IMPORT INTO t FROM '%s'", path)
	require.Contains(t, text, "line 1")
	require.Contains(t, text, "line 3")
	require.Contains(t, c.run("SHOW IMPORT JOBS")[1], "failed")
	require.Equal(t, "0", c.one("SELECT COUNT(*) FROM t"))
	e.nothingLeft(c)
}

// The rows of a query are imported; an error of the query fails the import, and leaves nothing.
func TestImportFromQuery(t *testing.T) {
	e := newImports(t)
	c := e.client()
	c.run("CREATE TABLE limited (a INT); INSERT INTO limited VALUES (1), (2), (3); CREATE TABLE whole (a INT)")
	c.run("SET sql_select_limit = 1")
	c.run("IMPORT INTO whole FROM SELECT a FROM limited")
	c.run("SET sql_select_limit = DEFAULT")
	require.Equal(t, "3", c.one("SELECT COUNT(*) FROM whole"), "the limit is for what a client reads")
	c.run(importTable + "; CREATE TABLE source LIKE t; INSERT INTO source VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, NULL)")
	c.fails(1242, "IMPORT INTO t FROM SELECT id, s, (SELECT n FROM source) FROM source")
	require.Empty(t, c.run("SELECT * FROM t"))
	e.nothingLeft(c)
	for _, autocommit := range []int{1, 0} {
		c.run("SET autocommit = %d", autocommit)
		c.run("IMPORT INTO t FROM SELECT * FROM source UNION ALL SELECT id, s, n FROM t")
		require.Equal(t, 3, int(c.GetSessionVars().StmtCtx.AffectedRows()))
		require.Equal(t, []string{"1 a 1", "2 b 2", "3 NULL NULL"}, c.run("SELECT * FROM t ORDER BY id; COMMIT"))
		c.check("t")
		e.nothingLeft(c)
		c.run("TRUNCATE TABLE t")
	}
	c.fails(1105, "SET autocommit = 1; BEGIN; SELECT * FROM t; IMPORT INTO t FROM SELECT * FROM source")
}

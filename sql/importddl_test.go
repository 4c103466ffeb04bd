package sql_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/load/jobs"
	"fastddl/sql"
	"fastddl/sql/sqltest"
)

// A statement that adds rows and has begun before an import closed its table is waited for, although TiDB does not know yet which tables it
// uses. One that begins later is refused.
func TestImportWaitsForStatementsThatHaveNotSeenIt(t *testing.T) {
	e := newImports(t)
	c, writer, later := e.client(), e.client(), e.client()
	c.run(importTable)
	stmt, err := parser.New().ParseOneStmt("INSERT INTO test.t VALUES (1, 'a', 1)", "", "")
	require.NoError(t, err)
	end, err := sql.BeginAdding(writer.Session.(*sqltest.Session).Session, stmt)
	require.NoError(t, err)
	reached, release := e.holdAt(jobs.StepDraining)
	defer release()
	done := e.start("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 10))
	<-reached
	_, err = sql.BeginAdding(later.Session.(*sqltest.Session).Session, stmt)
	require.Equal(t, 8020, errorCode(err))
	reported := func() bool {
		job, version, ids := c.mdl()
		versions := map[int64]int64{job: version}
		e.Domain().InfoSyncer().GetSessionManager().CheckOldRunningTxn(versions, map[int64]string{job: ids})
		return len(versions) == 1
	}
	require.False(t, reported(), "the import would not wait for the statement")
	end()
	require.True(t, reported())
	release()
	require.NoError(t, <-done)
}

// mdl returns the only row by which a job waits for a version.
func (c *client) mdl() (job, version int64, ids string) {
	fields := strings.Fields(c.one("SELECT job_id, version, table_ids FROM mysql.tidb_mdl_info"))
	job, err := strconv.ParseInt(fields[0], 10, 64)
	require.NoError(c.t, err)
	version, err = strconv.ParseInt(fields[1], 10, 64)
	require.NoError(c.t, err)
	return job, version, fields[2]
}

// DDL on a table waits for its import, and is done on what was imported.
func TestDDLWaitsForAnImport(t *testing.T) {
	e := newImports(t)
	c := e.client()
	for _, test := range []struct{ statement, then, want string }{
		{"ALTER TABLE t ADD INDEX z (n, s)", "SELECT COUNT(*) FROM t USE INDEX (z) WHERE n >= 0", "100"},
		{"ALTER TABLE t ADD COLUMN z INT DEFAULT 7", "SELECT SUM(z) FROM t", "700"},
		{"CREATE INDEX z ON t (s)", "SELECT COUNT(*) FROM t USE INDEX (z) WHERE s > ''", "100"},
		{"DROP INDEX n ON t", "SELECT COUNT(*) FROM t", "100"},
		{"RENAME TABLE t TO z; RENAME TABLE z TO t", "SELECT COUNT(*) FROM t", "100"},
		{"ALTER TABLE part EXCHANGE PARTITION p0 WITH TABLE t WITHOUT VALIDATION", "SELECT COUNT(*) FROM part", "100"},
		{"TRUNCATE TABLE t", "SELECT COUNT(*) FROM t", "0"},
		{"DROP TABLE t", "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'test' AND table_name = 't'", "0"},
	} {
		t.Run(test.statement, func(t *testing.T) {
			c := c.of(t)
			c.run("DROP TABLE IF EXISTS t, part")
			c.run("CREATE TABLE part (id INT PRIMARY KEY, s VARCHAR(40), n INT, KEY n (n)) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (1000))")
			c.run("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(40), n INT, KEY n (n))")
			reached, release := e.holdAt(jobs.StepLoading)
			defer release()
			done := e.start("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 100))
			<-reached
			ddl := e.start(test.statement)
			require.Contains(t, strings.Join(c.run("ADMIN SHOW DDL JOBS"), "\n"), "import into")
			c.fails(8173, "IMPORT INTO t FROM '%s'", e.file("b.csv", 0, 10))
			release()
			require.NoError(t, <-done)
			require.NoError(t, <-ddl)
			require.Equal(t, test.want, c.one(test.then))
			if test.then != "" && !strings.HasPrefix(test.statement, "DROP TABLE") {
				c.check("t")
			}
		})
	}
	e.nothingLeft(c)
}

// A database is dropped behind the import into its table.
func TestDatabaseIsDroppedBehindAnImport(t *testing.T) {
	e := newImports(t)
	c := e.client()
	c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, s VARCHAR(40), n INT)")
	reached, release := e.holdAt(jobs.StepLoading)
	defer release()
	done := e.start("IMPORT INTO d.t FROM '%s'", e.file("a.csv", 0, 100))
	<-reached
	dropped := e.start("DROP DATABASE d")
	require.Eventually(t, func() bool { return c.one("SELECT COUNT(*) FROM mysql.tidb_ddl_job") == "2" }, hangTimeout, time.Millisecond)
	release()
	require.NoError(t, <-done)
	require.NoError(t, <-dropped)
	e.nothingLeft(c)
}

// An import waits for the index build of its table, which does not wait for the import.
func TestImportWaitsForAnIndexBuild(t *testing.T) {
	e := newImports(t)
	c := e.client()
	c.run(importTable)
	building, released := make(chan struct{}), make(chan struct{})
	var once sync.Once
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if p.When == "before" && p.Action == "change-schema" && p.Step == "write-only" {
			once.Do(func() {
				close(building)
				<-released
			})
		}
		return nil
	})
	built := e.start("ALTER TABLE t ADD INDEX z (n, s)")
	<-building
	importer := e.client()
	imported := make(chan error, 1)
	go func() {
		importer.SetProcessInfo("IMPORT INTO t FROM 'a.csv'", time.Now(), mysql.ComQuery, 0) // as a server does
		_, err := importer.try("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 100))
		imported <- err
	}()
	require.Eventually(t, func() bool { return importer.ShowProcess().Info != "" }, hangTimeout, time.Millisecond)
	close(released)
	require.Eventually(t, func() bool {
		for _, j := range e.DDL().Unfinished() {
			require.NotContains(t, j.WaitReason, "IMPORT INTO", "the build waits for the import")
		}
		return len(built) > 0
	}, hangTimeout, time.Millisecond)
	require.NoError(t, <-built)
	require.NoError(t, <-imported)
	require.Equal(t, "100", c.one("SELECT COUNT(*) FROM t USE INDEX (z) WHERE n >= 0"))
	c.check("t")
	e.nothingLeft(c)
}

// ADMIN CANCEL DDL JOBS cancels an import by the number that ADMIN SHOW DDL JOBS shows.
func TestAdminCancelsAnImport(t *testing.T) {
	e := newImports(t)
	c := e.client()
	c.run(importTable)
	reached, release := e.holdAt(jobs.StepLoading)
	defer release()
	done := e.start("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 100))
	<-reached
	id := c.one("SELECT job_id FROM mysql.tidb_ddl_job")
	require.Contains(t, c.one("ADMIN PAUSE DDL JOBS %s", id), "can be cancelled only")
	answer := e.start("ADMIN CANCEL DDL JOBS %s", id)
	require.Eventually(t, func() bool {
		return strings.Contains(c.one("SELECT record FROM mysql.fastddl_import_job"), `"undoing"`)
	}, hangTimeout, time.Millisecond)
	release()
	require.NoError(t, <-answer)
	require.ErrorContains(t, <-done, "cancelled by user")
	require.Equal(t, "0", c.one("SELECT COUNT(*) FROM t"))
	e.nothingLeft(c)
}

// A table that is changed between the planning of an import and its turn is not filled by the old definition.
func TestImportOfAChangedTableFails(t *testing.T) {
	e := newImports(t)
	c := e.client()
	c.run(importTable)
	reached, release := e.holdAt(jobs.StepQueued)
	defer release()
	done := e.start("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 100))
	<-reached
	// As if the DDL had been queued before: the row of the import keeps it off otherwise.
	c.run("DELETE FROM mysql.tidb_ddl_job; ALTER TABLE t COMMENT 'changed'")
	release()
	require.Error(t, <-done)
	require.Equal(t, "0", c.one("SELECT COUNT(*) FROM t"))
	e.nothingLeft(c)
	c.run("INSERT INTO t VALUES (1, 'a', 1)")
}

// A record that cannot be read does not keep the server from starting; its table stays closed.
func TestUnreadableImportIsSetAside(t *testing.T) {
	dir := t.TempDir()
	e := openImports(t, dir)
	c := e.client()
	c.run(importTable + "; CREATE TABLE other (id INT PRIMARY KEY, s VARCHAR(40), n INT)")
	e.hookImports(func(p jobs.HookPoint) error {
		if p.When == "before" && p.Step == jobs.StepLoading {
			return errDies
		}
		return nil
	})
	require.Error(t, <-e.start("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 100)))
	c.run(`UPDATE mysql.fastddl_import_job SET record = '{"format": 99}'`)
	c.Close()
	e.close()
	e = openImports(t, dir)
	t.Cleanup(e.close)
	c = e.client()
	c.fails(8020, "INSERT INTO t VALUES (1, 'a', 1)")
	c.fails(8173, "IMPORT INTO t FROM '%s'", e.file("b.csv", 0, 10))
	var err error
	done := e.start("IMPORT INTO t FROM SELECT * FROM other")
	require.Eventually(t, func() bool {
		select {
		case err = <-done:
			return true
		default:
			return c.one("SELECT COUNT(*) FROM mysql.fastddl_import_job") != "1"
		}
	}, hangTimeout, time.Millisecond)
	require.Equal(t, 8020, errorCode(err), "it waits for the import that was set aside")
	c.run("IMPORT INTO other FROM '%s'", e.file("b.csv", 0, 10))
	require.Equal(t, "10", c.one("SELECT COUNT(*) FROM other"))
}

// The attributes of a table and of its partitions name the keys of the table that an import has made, as behind a TRUNCATE.
func TestAttributesFollowAnImport(t *testing.T) {
	e := newImports(t)
	c := e.client()
	c.run("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(40), n INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (50), PARTITION p1 VALUES LESS THAN (100))")
	set := "ALTER TABLE t ATTRIBUTES 'merge_option=deny'; ALTER TABLE t PARTITION p1 ATTRIBUTES 'merge_option=allow'"
	const ranges = "SELECT id, ranges FROM information_schema.attributes ORDER BY id"
	c.run(set)
	before := c.run(ranges)
	require.Len(t, before, 2)
	c.run("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 100))
	after := c.run(ranges)
	require.NotEqual(t, before, after)
	c.run(set)
	require.Equal(t, c.run(ranges), after)
}

// They name the table's own keys again if the swap is not committed.
func TestAttributesStayIfAnImportIsUndone(t *testing.T) {
	e := newImports(t)
	c := e.client()
	c.run("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(40), n INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (50), PARTITION p1 VALUES LESS THAN (100))")
	c.run("ALTER TABLE t ATTRIBUTES 'merge_option=deny'; ALTER TABLE t PARTITION p1 ATTRIBUTES 'merge_option=allow'")
	const ranges = "SELECT id, ranges FROM information_schema.attributes ORDER BY id"
	before, other := c.run(ranges), e.client()
	var cancelled chan error
	var once sync.Once
	e.hookImports(func(p jobs.HookPoint) error {
		if p.When == "within" && p.Step == jobs.StepLoading {
			once.Do(func() {
				require.NotEqual(t, before, other.run(ranges))
				cancelled = e.start("CANCEL IMPORT JOB %s", other.one("SELECT MAX(id) FROM mysql.tidb_import_jobs"))
				require.Eventually(t, func() bool {
					return other.one("SELECT record LIKE '%%undoing%%' FROM mysql.fastddl_import_job") == "1"
				}, hangTimeout, time.Millisecond)
			})
		}
		return nil
	})
	require.Error(t, <-e.start("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 100)))
	require.NoError(t, <-cancelled)
	require.Equal(t, before, c.run(ranges))
	e.nothingLeft(c)
}

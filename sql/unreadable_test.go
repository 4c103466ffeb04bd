package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl"
)

const damageRecord = "UPDATE mysql.fastddl_ddl_record SET record = 'garbage'"

// reopenDamaged executes a statement whose job stops at a place, damages what is stored of the job, and opens the layer in dir again.
func (e *env) reopenDamaged(t *testing.T, dir, statement string, at ddl.HookPoint, damage string) (*env, *client) {
	t.Helper()
	e.dieAt(t, statement, at)
	e.client().run(damage)
	e.close()
	again := open(t, dir)
	return again, again.client()
}

// A record that is damaged while its job runs is written anew by the next step.
func TestDamagedRecordOfARunningJob(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	e.before("backfill", "", func() { c.run(damageRecord) })
	c.run(addUnique)
	c.check("t")
	require.Equal(t, "synced", c.lastJob("state"))
}

// A job whose record cannot be decoded when the server starts is set aside. The server starts, other tables get indexes, it is
// shown with its table and its statement, and it can be cancelled, wherever it was.
func TestJobsThatCannotBeReadAreSetAside(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	for at, damage := range map[ddl.HookPoint]string{
		hooks[inWriteOnly]:  damageRecord,
		hooks[beforeImport]: "UPDATE mysql.fastddl_ddl_record SET record = JSON_SET(CAST(CONVERT(record USING utf8mb4) AS JSON), '$.step', 5)",
		hooks[drained]:      "UPDATE mysql.fastddl_ddl_record SET record = ''",
	} {
		c := e.client()
		table(c, 100)
		c.run("DROP TABLE IF EXISTS other; CREATE TABLE other (a INT PRIMARY KEY, b INT)")
		const statement = "ALTER TABLE t ADD UNIQUE INDEX u (b), ADD INDEX i ((a + b)), COMMENT = 'x'"
		e, c = e.reopenDamaged(t, dir, statement, at, damage)
		id := c.one("SELECT job_id FROM mysql.fastddl_ddl_record")
		c.run("ALTER TABLE other ADD INDEX b (b)")
		jobs, err := e.DDL().AllUnfinished(t.Context())
		require.NoError(t, err)
		require.Len(t, jobs, 1)
		require.Equal(t, []string{"test", "t", statement}, []string{jobs[0].DB, jobs[0].Table, jobs[0].Query})
		require.Contains(t, jobs[0].WaitReason, "ADMIN CANCEL DDL JOBS "+id)
		require.Contains(t, c.one("ADMIN SHOW DDL JOBS 1 WHERE job_id = %s", id), "none")
		for _, command := range []string{"PAUSE", "RESUME"} {
			require.Contains(t, c.one("ADMIN %s DDL JOBS %s", command, id), "cannot be read")
		}
		require.Contains(t, c.one("ADMIN CANCEL DDL JOBS "+id), "successful")
		c.awaitNoJob(at)
		e.leavesNothing(c, "t")
		require.Regexp(t, " (cancelled|rollback done) ", c.one("ADMIN SHOW DDL JOBS 30 WHERE job_id = %s", id))
		c.run(statement)
		c.check("t")
	}
	e.close()
}

// A statement that drops something as well is not undone when that has begun; nothing is undone when the table is unknown.
func TestUnreadableJobOfUnknownExtentIsNotUndone(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	c := e.client()
	table(c, 100)
	c.run("ALTER TABLE t ADD INDEX gone (c)")
	e, c = e.reopenDamaged(t, dir, "ALTER TABLE t ADD INDEX u (b), DROP INDEX gone",
		ddl.HookPoint{When: "before", Action: "change-schema", Step: "drop-delete-reorg"}, damageRecord)
	id := c.one("SELECT job_id FROM mysql.fastddl_ddl_record")
	require.Contains(t, c.one("ADMIN CANCEL DDL JOBS "+id), "index gone of table test.t is not public")
	require.Contains(t, c.one("ADMIN SHOW DDL JOBS 1 WHERE job_id = "+id), "test")
	c.run("DELETE FROM mysql.tidb_ddl_job")
	require.Contains(t, c.one("ADMIN CANCEL DDL JOBS "+id), "nothing tells which table")
	e.close()
}

// Settings that cannot be decoded are those of the global variables, and the index waits for permission to be published.
func TestDamagedSettings(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	c := e.client()
	table(c, 100)
	e, c = e.reopenDamaged(t, dir, addUnique, hooks[beforeImport], "UPDATE mysql.fastddl_ddl_record SET settings = 'garbage'")
	// They may have said that the index is not to be public yet.
	c.run("ADMIN ALTER DDL JOBS " + e.awaitReason(t, awaitingConsent) + " fastddl_ddl_publish = 'now'")
	c.awaitNoJob()
	require.Equal(t, "synced", c.lastJob("state"))
	c.check("t")
	e.close()
}

// On a cluster a job whose record is damaged is given up by the node that runs it, and the one that finds the cancelled job undoes it.
func TestNodesSetJobsAsideThatCannotBeRead(t *testing.T) {
	n := newNodes(t)
	c := n.client()
	table(c, 100)
	arrived, leave := n.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	result := n.start(addUnique)
	reach(t, arrived)
	id := c.one("SELECT job_id FROM mysql.fastddl_ddl_record")
	c.run(damageRecord)
	close(leave)
	require.Eventually(t, func() bool { return len(n.DDL().Unfinished()) == 0 }, hangTimeout, time.Millisecond, "it goes on running the job")
	jobs, err := n.DDL().AllUnfinished(t.Context())
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	require.Contains(t, jobs[0].WaitReason, "cannot be read")
	require.Contains(t, c.one("ADMIN CANCEL DDL JOBS "+id), "successful")
	require.Equal(t, 8214, errorCode(wait(t, result)))
	c.awaitNoJob()
	n.leavesNothing(c, "t")
}

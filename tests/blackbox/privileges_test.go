package blackbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Who may alter a table follows and commands its index builds without rights on schema mysql and without SUPER; another account sees and
// commands nothing of them, and cannot tell such a job from one that does not exist.
func TestOwnersOfATableSeeAndCommandItsBuilds(t *testing.T) {
	n := startNode(t, t.TempDir())
	root := n.db()
	owner, stranger := unprivileged(t, n, "owner"), unprivileged(t, n, "stranger")
	writer, alter, id := alterBehindWriter(t, n)
	mustExec(t, root, "GRANT ALTER ON test.t TO owner")

	const running = "SELECT job_id, table_name, state, wait_reason FROM performance_schema.fastddl_ddl_jobs WHERE end_time IS NULL"
	require.Eventually(t, func() bool {
		rows := queryAll(t, owner, running)
		return len(rows) == 1 && rows[0][0] == id && rows[0][1] == "t" && rows[0][2] == "running"
	}, startTimeout, pollInterval)
	require.Equal(t, [][]string{{writer.id, "root", "?"}},
		queryAll(t, owner, "SELECT conn_id, user_name, statement FROM performance_schema.fastddl_ddl_blockers WHERE job_id = "+id))
	require.Contains(t, value(t, root, "SELECT statement FROM performance_schema.fastddl_ddl_blockers WHERE job_id = "+id), "update `t` set `k` = ?")
	require.Empty(t, queryAll(t, stranger, running))
	for _, command := range []string{"ADMIN PAUSE DDL JOBS ", "ADMIN RESUME DDL JOBS ", "ADMIN CANCEL DDL JOBS "} {
		_, theirs := stranger.Exec(command + id)
		_, none := stranger.Exec(command + "99999999")
		requireCode(t, theirs, 8121, "HY000", "privilege check")
		require.Equal(t, none, theirs)
	}

	require.Equal(t, [][]string{{id, "successful"}}, queryAll(t, owner, "ADMIN PAUSE DDL JOBS "+id))
	require.Equal(t, [][]string{{id, "successful"}}, queryAll(t, owner, "ADMIN RESUME DDL JOBS "+id))
	mustExec(t, owner, "ADMIN ALTER DDL JOBS "+id+" THREAD = 2")
	require.Equal(t, [][]string{{id, "successful"}}, queryAll(t, owner, "ADMIN CANCEL DDL JOBS "+id))
	writer.exec("ROLLBACK") // undoing it waits for the transaction, too
	requireCode(t, requireEnds(t, alter), 8214, "HY000", "Cancelled")
	require.Equal(t, [][]string{{"owner", "ADMIN PAUSE DDL JOBS " + id, "done"}, {"owner", "ADMIN RESUME DDL JOBS " + id, "done"},
		{"owner", "ADMIN ALTER DDL JOBS " + id + " THREAD = 2", "done"}, {"owner", "ADMIN CANCEL DDL JOBS " + id, "done"}},
		queryAll(t, owner, "SELECT user_name, statement, outcome FROM performance_schema.fastddl_ddl_commands WHERE job_id = "+id+" ORDER BY number"))
	require.Empty(t, queryAll(t, stranger, "SELECT * FROM performance_schema.fastddl_ddl_commands"))
	require.Contains(t, n.stderr.String(), "was asked by owner@127.0.0.1")
	mustExec(t, root, "SET GLOBAL fastddl_ddl_history_limit = 0")
	require.Eventually(t, func() bool {
		return len(queryAll(t, owner, "SELECT * FROM performance_schema.fastddl_ddl_jobs"))+len(queryAll(t, owner, "SELECT * FROM performance_schema.fastddl_ddl_commands")) == 0
	}, startTimeout, pollInterval)
}

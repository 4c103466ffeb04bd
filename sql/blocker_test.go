package sql_test

import (
	"context"
	gosql "database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/internal/randtest"
)

// Transactions that a job waits for are shown, and those that the policy does not
// bear are ended: idle ones first, and not those of spared users or with much work.
func TestBlockersAreShownAndEnded(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	ctx := context.Background()
	port := e.listen()
	db := e.connect(port, "root")
	exec := func(query string, args ...any) {
		t.Helper()
		_, err := db.Exec(fmt.Sprintf(query, args...))
		require.NoError(t, err, query)
	}
	defer func() {
		for _, name := range []string{config.IdleBlockerTimeout, config.BlockerMaxAge, config.BlockerSparedKeys, config.BlockerSparedUsers} {
			exec("SET GLOBAL %s = DEFAULT", name)
		}
	}()
	exec("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	exec("INSERT INTO t VALUES (1, 1)")
	// begin opens a transaction of a user that uses the table.
	begin := func(user, statement string) *gosql.Conn {
		t.Helper()
		exec("CREATE USER IF NOT EXISTS '%s'@'%%'", user)
		exec("GRANT ALL ON test.* TO '%s'@'%%'", user)
		c, err := e.connect(port, user).Conn(ctx)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = c.ExecContext(ctx, "BEGIN; "+statement)
		require.NoError(t, err)
		return c
	}
	// shows waits until the blockers of the job that waits are shown like this.
	shows := func(want ...string) {
		t.Helper()
		var got []string
		defer func() {
			if t.Failed() {
				t.Logf("shown was %q, not %q", got, want)
			}
		}()
		require.Eventually(t, func() bool {
			got = nil
			rows, err := db.Query(`SELECT CONCAT_WS(' ', user_name, db_name, written_keys, idle_seconds > 0, verdict), start_time <= NOW(6), statement
				FROM mysql.fastddl_ddl_blockers ORDER BY number`)
			require.NoError(t, err)
			for rows.Next() {
				var line, statement gosql.NullString
				var began bool
				require.NoError(t, rows.Scan(&line, &began, &statement))
				require.True(t, began)
				require.Contains(t, strings.ToLower(statement.String), "t", "the statement is missing")
				got = append(got, line.String)
			}
			require.NoError(t, rows.Err())
			for i := range min(len(got), len(want)) {
				if !strings.HasPrefix(got[i], want[i]) {
					return false
				}
			}
			return len(got) == len(want)
		}, hangTimeout, 10*time.Millisecond)
	}
	// gone waits until a user has no session any more. To ask in the session itself
	// would end its idleness.
	gone := func(user string) {
		t.Helper()
		require.Eventually(t, func() bool {
			var n int
			require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE user = ?", user).Scan(&n))
			return n == 0
		}, hangTimeout, 10*time.Millisecond, user)
	}

	backup := begin("backup", "SELECT * FROM t")
	loader := begin("loader", "INSERT INTO t VALUES (10,1),(11,1),(12,1)")
	app := begin("app", "UPDATE t SET b = 2 WHERE a = 1")
	result := make(chan error, 1)
	go func() {
		_, err := db.Exec("ALTER TABLE t ADD INDEX i (b)")
		result <- err
	}()
	shows("backup test 0 1 idle", "loader test 3 1 idle", "app test 1 1 idle")
	exec("SET GLOBAL %s = 'backup'", config.BlockerSparedUsers)
	exec("SET GLOBAL %s = 2", config.BlockerSparedKeys)
	exec("SET GLOBAL %s = '50ms'", config.IdleBlockerTimeout)
	gone("app")
	require.Error(t, app.PingContext(ctx))
	shows("backup test 0 1 spared: user backup", "loader test 3 1 spared: it has written 3 keys")
	require.NoError(t, backup.PingContext(ctx))
	exec("SET GLOBAL %s = 0", config.BlockerSparedKeys)
	gone("loader")
	require.Error(t, loader.PingContext(ctx))
	shows("backup test 0 1 spared: user backup")
	_, err := backup.ExecContext(ctx, "COMMIT")
	require.NoError(t, err)
	require.NoError(t, wait(t, result))
	shows()

	// A statement that runs is ended for its age only.
	exec("SET GLOBAL %s = DEFAULT", config.IdleBlockerTimeout)
	long := begin("app", "SELECT * FROM t")
	slept := make(chan error, 1)
	go func() {
		_, err := long.ExecContext(ctx, "SELECT SLEEP(600) FROM t LIMIT 1")
		slept <- err
	}()
	go func() {
		_, err := db.Exec("ALTER TABLE t ADD INDEX j (b)")
		result <- err
	}()
	shows("app test 0 0 runs a statement")
	exec("SET GLOBAL %s = '1s'", config.BlockerMaxAge)
	require.Error(t, wait(t, slept))
	require.NoError(t, wait(t, result))
	exec("ADMIN CHECK TABLE t")
}

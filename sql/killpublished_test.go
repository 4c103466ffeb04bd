package sql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// KILL QUERY of a statement whose index is public is answered as the state is: the index is there.
func TestKillWhenTheIndexIsPublic(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	db := e.serve()
	table(c, 100)
	for range 3 {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		var id int64
		require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
		arrived, leave := e.blockAt(hooks[published])
		result := make(chan error, 1)
		go func() {
			_, err := conn.ExecContext(t.Context(), "ALTER TABLE t ADD INDEX u (b)")
			result <- err
		}()
		reach(t, arrived)
		_, err = db.ExecContext(t.Context(), fmt.Sprintf("KILL QUERY %d", id))
		require.NoError(t, err)
		require.NoError(t, wait(t, result), "the index is there")
		close(leave)
		e.setHook(nil)
		_, err = conn.ExecContext(t.Context(), "DO 1") // the connection goes on
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		c.awaitNoJob()
		c.check("t")
		c.run("ALTER TABLE t DROP INDEX u")
	}
}

// Past the publication of its indexes a statement that waits for transactions ends with KILL, and the rest of it is done.
func TestKillOfWhatIsLeftAfterPublication(t *testing.T) {
	e := newEnv(t)
	c, open := e.client(), e.client()
	db := e.serve()
	table(c, 100)
	c.run("ALTER TABLE t ADD INDEX gone (c)")
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	var id int64
	require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
	e.before("change-schema", "drop-delete-reorg", func() { open.run("BEGIN; UPDATE t SET c = 'x' WHERE a = 1") })
	result := make(chan error, 1)
	go func() {
		_, err := conn.ExecContext(t.Context(), "ALTER TABLE t ADD INDEX u (b), DROP INDEX gone")
		result <- err
	}()
	require.Eventually(t, func() bool {
		jobs := e.DDL().Unfinished()
		return len(jobs) == 1 && jobs[0].WaitReason != "" && c.has("u")
	}, hangTimeout, time.Millisecond)
	began := time.Now()
	_, err = db.ExecContext(t.Context(), fmt.Sprintf("KILL QUERY %d", id))
	require.NoError(t, err)
	require.NoError(t, wait(t, result))
	require.Less(t, time.Since(began), soon)
	open.run("COMMIT")
	c.awaitNoJob()
	c.check("t")
	require.False(t, c.has("gone"))
}

// has says that table t shows an index.
func (c *client) has(index string) bool {
	c.t.Helper()
	return len(c.run("SHOW INDEX FROM t WHERE key_name = '%s'", index)) > 0
}

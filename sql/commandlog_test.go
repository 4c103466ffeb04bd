package sql_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/event"
)

// commands collects what users ask of jobs.
type commands struct {
	mu  sync.Mutex
	all []event.Command
}

func (c *commands) listen(e event.Event) {
	if e, ok := e.(event.Command); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, e)
	}
}

// take returns what was collected, and forgets it.
func (c *commands) take() []event.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return all
}

// TestJobCommandsAreLoggedWithTheirUser: each command names its job, its user and its result.
func TestJobCommandsAreLoggedWithTheirUser(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	c.run("CREATE USER reader")
	var told commands
	e.bus.Subscribe(told.listen)
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	result := e.start("ALTER TABLE t ADD INDEX i (b)")
	reach(t, arrived)
	id := e.DDL().Unfinished()[0].ID
	root := e.clientOf("root")

	// one checks that a command on a job was logged, and how it ended.
	one := func(job int64, user, statement, outcome string) {
		t.Helper()
		got := told.take()
		require.Len(t, got, 1, statement)
		require.Equal(t, job, got[0].ID)
		require.Equal(t, user, got[0].User)
		require.Equal(t, statement, got[0].Statement)
		if outcome == "" {
			require.NoError(t, got[0].Err)
			return
		}
		require.ErrorContains(t, got[0].Err, outcome)
	}
	number := strconv.FormatInt(id, 10)
	alter := "ADMIN ALTER DDL JOBS " + number + " THREAD = 2"
	altered := make(chan error, 1)
	go func() {
		_, err := root.try(alter)
		altered <- err
	}()
	asked(t, has(altered))
	close(leave)
	require.NoError(t, <-altered)
	require.NoError(t, wait(t, result))
	one(id, "root@localhost", alter, "")
	for _, command := range []string{"PAUSE", "RESUME", "CANCEL"} {
		statement := "ADMIN " + command + " DDL JOBS " + number
		root.run(statement)
		one(id, "root@localhost", statement, number) // it has ended
	}
	root.run("ADMIN CANCEL DDL JOBS 999999") // TiDB's answer
	one(999999, "root@localhost", "ADMIN CANCEL DDL JOBS 999999", "not found")
	e.clientOf("reader").fails(8121, "ADMIN CANCEL DDL JOBS 999999")
	one(999999, "reader@localhost", "ADMIN CANCEL DDL JOBS 999999", "Super")
	root.run("ADMIN SHOW DDL JOBS")
	require.Empty(t, told.take())
}

// TestExecutedJobCommandIsLoggedAsSuccess: a prepared one, too.
func TestExecutedJobCommandIsLoggedAsSuccess(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	var told commands
	e.bus.Subscribe(told.listen)
	writer := e.client()
	e.before("change-schema", "write-only", func() { writer.run("BEGIN; INSERT INTO t VALUES (1000, 1000, '')") })
	result := e.start("ALTER TABLE t ADD INDEX i (b)")
	require.Eventually(t, func() bool {
		jobs := e.DDL().Unfinished()
		return len(jobs) == 1 && strings.Contains(jobs[0].WaitReason, "held by 1 transaction")
	}, hangTimeout, 5*time.Millisecond)
	id := c.one("SELECT job_id FROM mysql.tidb_ddl_job")
	root := e.clientOf("root")
	root.run("PREPARE p FROM 'ADMIN CANCEL DDL JOBS " + id + "'")
	root.run("EXECUTE p")
	writer.run("ROLLBACK")
	require.Equal(t, 8214, errorCode(wait(t, result)))
	got := told.take()
	require.Len(t, got, 1)
	require.NoError(t, got[0].Err)
	require.Equal(t, "ADMIN CANCEL DDL JOBS "+id, got[0].Statement)
}

package sql_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/event"
)

// A statement whose server stops right after its job was queued says so, though another table's schema has changed meanwhile: TiDB's
// executor of DDL has 8028, with which clients try again, in place of the errors of statements that have queued no job.
func TestServerStopsWhenAJobIsQueued(t *testing.T) {
	e := open(t, t.TempDir())
	c, other := e.client(), e.client()
	table(c, 10)
	var once sync.Once
	stopped := make(chan error, 1)
	e.bus.Subscribe(func(ev event.Event) {
		if _, queued := ev.(event.JobQueued); queued {
			once.Do(func() {
				other.run("CREATE TABLE other (a INT)")
				go func() { stopped <- e.Layer.StopBuilds() }() // it ends when this listener has returned
				require.ErrorIs(t, e.Layer.DDL().Await(other.GetSessionVars(), func() bool { return false }), ddl.ErrClosed)
			})
		}
	})
	_, err := c.try("ALTER TABLE t ADD INDEX i (b)")
	require.ErrorIs(t, err, ddl.ErrClosed)
	require.NoError(t, wait(t, stopped))
	e.close()
}

// A statement that waits for the job of its key has that job's error, though other schemas have changed while it waited.
func TestErrorOfTheJobOfAKey(t *testing.T) {
	e := newEnv(t)
	c, again := e.client(), e.client()
	table(c, 10)
	c.run("UPDATE t SET b = 1")
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	const keyed = "SET fastddl_ddl_submit_key = 'k'; ALTER TABLE t ADD UNIQUE INDEX u (b)"
	first, second := e.start(keyed), make(chan error, 1)
	reach(t, arrived)
	go func() { _, err := again.try(keyed); second <- err }()
	require.Eventually(t, func() bool {
		_, waits := ddl.JobOf(again)
		return waits
	}, hangTimeout, 5*time.Millisecond)
	e.client().run("CREATE TABLE other (a INT)")
	close(leave)
	require.Equal(t, 1062, errorCode(wait(t, first)))
	require.Equal(t, 1062, errorCode(wait(t, second)))
}

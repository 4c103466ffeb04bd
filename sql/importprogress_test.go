package sql_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/event"
	"fastddl/load"
	"fastddl/load/jobs"
	"fastddl/sql"
)

// heldLoader is a Loader that says that a load is at 42 percent, and goes on when it is released.
type heldLoader struct {
	jobs.Loader
	release chan struct{}
}

func (l *heldLoader) Load(ctx context.Context, t jobs.Task) (jobs.Result, error) {
	t.Progress(func() jobs.Progress { return jobs.Progress{Rows: 7, Read: 40, Bytes: 100, Percent: 42} })
	<-l.release
	return l.Loader.Load(ctx, t)
}

// SHOW IMPORT JOBS says what an import waits for, and how far it is; its beginning and its end are events.
func TestShowImportJobsSaysHowFarAnImportIs(t *testing.T) {
	l := &heldLoader{release: make(chan struct{})}
	e := openImports(t, t.TempDir(), func(o *sql.Options, opts load.Options) {
		l.Loader = o.Loader
		o.Loader = l
	})
	t.Cleanup(e.close)
	var mu sync.Mutex
	var events []event.Event
	defer e.bus.Subscribe(func(ev event.Event) {
		mu.Lock()
		defer mu.Unlock()
		switch ev := ev.(type) {
		case event.ImportBegan:
			events = append(events, ev)
		case event.ImportEnded:
			ev.Took = 0
			events = append(events, ev)
		}
	})()
	c, writer := e.client(), e.client()
	c.run(importTable)
	writer.run("BEGIN; SELECT * FROM t")
	path := e.file("a.csv", 0, 100)
	done := e.start("IMPORT INTO t FROM '%s'", path)
	shows := func(query, what string) {
		t.Helper()
		require.Eventually(t, func() bool {
			return strings.Contains(strings.Join(c.run(query), "\n"), what)
		}, hangTimeout, time.Millisecond, what)
	}
	shows("SHOW IMPORT JOBS", "waits for transactions that use the table")
	writer.run("ROLLBACK")
	shows("SHOW IMPORT JOBS", "importing running")
	shows("SHOW IMPORT JOBS", "42%, 40 of 100 bytes read")
	shows("SHOW IMPORT JOBS WHERE imported_rows = 7", "42%")
	shows("ADMIN SHOW DDL JOBS", "loading, 42%")
	unfinished := e.Imports().Unfinished()
	require.Len(t, unfinished, 1)
	require.Equal(t, jobs.StepLoading, unfinished[0].Step)
	close(l.release)
	require.NoError(t, <-done)
	require.NotContains(t, c.one("SHOW IMPORT JOBS"), "bytes read")
	require.Error(t, <-e.start("IMPORT INTO t FROM '%s'", path))
	c.run("TRUNCATE TABLE t")
	require.Error(t, <-e.start("IMPORT INTO t FROM '%s' WITH skip_rows = 0, fields_terminated_by = ';'", path))

	mu.Lock()
	defer mu.Unlock()
	require.Len(t, events, 4, "a statement that is refused begins no import")
	job := event.Job{ID: unfinished[0].RowID}
	began := events[0].(event.ImportBegan)
	require.Positive(t, began.SourceBytes)
	size := began.SourceBytes
	require.Equal(t, event.ImportBegan{Job: job, ImportID: unfinished[0].ImportID, Schema: "test", Table: "t", SourceBytes: size}, began)
	require.Equal(t, event.ImportEnded{Job: job, ImportID: unfinished[0].ImportID, Schema: "test", Table: "t", Rows: 100, SourceBytes: size}, events[1])
	failed := events[3].(event.ImportEnded)
	require.Error(t, failed.Err)
	require.False(t, failed.Cancelled)
	require.Zero(t, failed.Rows)
}

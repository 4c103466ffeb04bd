package sql_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/check"
	"fastddl/ddl"
	"fastddl/event"
	"fastddl/sql/stmt"
)

// betweenScanAndImport is the point at which a build has read all rows and
// imported none of their entries.
const betweenScanAndImport = "between scan and import"

// jobNode is a node whose schema changes are jobs, with the real backfill.
type jobNode struct {
	*node
	c    *conn
	jobs *ddl.DDL

	mu sync.Mutex
	// at holds what a test does at a point in the life of a job, once: a point
	// as ddl.HookPoint prints it, or betweenScanAndImport.
	at map[string]func() error
}

func newJobNode(t testing.TB) *jobNode {
	t.Helper()
	n := &jobNode{at: make(map[string]func() error)}
	bus := new(event.Bus)
	bus.Subscribe(func(e event.Event) {
		if s, ok := e.(event.StageChanged); ok && s.Stage == "merge" {
			n.reach(betweenScanAndImport)
		}
	})
	n.node = openNodeWith(t, vfs.NewMem(), func(base *node) (stmt.DDL, stmt.Checker) {
		var err error
		n.jobs, err = ddl.New(ddl.Options{
			Catalog: base.catalog, Locks: base.locks, Globals: base.globals, Bus: bus,
			Backfiller: ddl.NewBackfiller(backfill.Options{Store: base.store, Globals: base.globals, Bus: bus}),
			TempDir:    t.TempDir(), CleanInterval: 10 * time.Millisecond,
			Hook: func(_ context.Context, p ddl.HookPoint) error { n.reach(p.String()); return nil },
		})
		require.NoError(t, err)
		require.NoError(t, n.jobs.Start(context.Background()))
		return stmt.NewDDL(n.jobs), stmt.NewChecker(base.catalog, check.Options{})
	})
	// Before the node's store closes.
	t.Cleanup(func() { require.NoError(t, n.jobs.Close()) })
	n.c = n.conn()
	return n
}

func (n *jobNode) reach(point string) {
	n.mu.Lock()
	fn := n.at[point]
	delete(n.at, point)
	n.mu.Unlock()
	if fn == nil {
		return
	}
	if err := fn(); err != nil {
		n.t.Errorf("%s: %v", point, err)
	}
}

// during makes a session of its own execute statements at a point in the life
// of the next job.
func (n *jobNode) during(point string, statements ...string) {
	n.t.Helper()
	other := n.conn()
	n.at[point] = func() error {
		for _, s := range statements {
			if err := other.try(s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return nil
	}
}

// alter executes an ALTER TABLE; all that was to be done during it must have
// been.
func (n *jobNode) alter(statement string) {
	n.t.Helper()
	n.c.exec(statement)
	n.mu.Lock()
	defer n.mu.Unlock()
	require.Empty(n.t, n.at, "points that the job did not reach")
}

// requireIndex checks that an index on one column of t agrees with the rows, and
// that the queries have the same results through the index as through the table.
func (n *jobNode) requireIndex(index string, queries ...string) {
	n.t.Helper()
	n.c.exec("admin check table t")
	n.c.exec("admin check index t " + index)
	through := n.results(queries, index)
	n.c.exec("alter table t alter index " + index + " invisible")
	for i, rows := range n.results(queries, "") {
		require.Len(n.t, through[i], len(rows), queries[i])
		for j := range rows {
			require.Equal(n.t, rows[j], through[i][j], "%s, row %d", queries[i], j)
		}
	}
	n.c.exec("alter table t alter index " + index + " visible")
}

// results returns the results of queries, which must be read through the given
// index, or through none that is not the primary key.
func (n *jobNode) results(queries []string, index string) [][][]string {
	n.t.Helper()
	out := make([][][]string, len(queries))
	for i, q := range queries {
		var plan strings.Builder
		for _, row := range explainKey(n.c, q) {
			fmt.Fprintln(&plan, row[2])
		}
		if index != "" {
			require.Contains(n.t, plan.String(), index, q)
		} else {
			require.NotRegexp(n.t, "^[^P<]", plan.String(), q)
		}
		out[i] = n.c.query(q)
	}
	return out
}

// fill creates t with rows (id, k = id % 10, c = 'row id'), id from 1.
func (n *jobNode) fill(rows int) {
	n.t.Helper()
	n.c.exec("create table t (id int primary key, k int, c varchar(40))")
	n.c.exec("insert into t values " + rowList(1, rows, "row"))
}

// rowList returns the VALUES of rows of t, of which c begins with a word.
func rowList(from, to int, word string) string {
	var b strings.Builder
	for id := from; id <= to; id++ {
		if id > from {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "(%d,%d,'%s %d')", id, id%10, word, id)
	}
	return b.String()
}

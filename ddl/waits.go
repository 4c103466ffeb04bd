package ddl

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"

	"fastddl/ddl/job"
	"fastddl/internal/asttree"
	"fastddl/internal/sleep"
)

const (
	// turnInterval is how often a job that waits for one of TiDB's looks again at first. The longer
	// it has waited the less often it does, up to maxTurnInterval.
	turnInterval, maxTurnInterval = 100 * time.Millisecond, time.Second
	// olderWait is how long the import waits for transactions that began before S. It is a
	// courtesy: optimistic ones that are left may fail with error 9007.
	olderWait = 5 * time.Second
	// olderInterval is how often they are looked at, at first. It doubles up to
	// maxOlderInterval.
	olderInterval, maxOlderInterval = time.Millisecond, 50 * time.Millisecond
)

// awaitTurn waits until no earlier job has the table.
func (t *task) awaitTurn(ctx context.Context, r *job.Record) error {
	defer t.view.setWait("")
	began := time.Now()
	for {
		ahead, err := jobAhead(ctx, t.d.sessions, r)
		if err != nil || ahead == 0 {
			return err
		}
		t.view.setWait(fmt.Sprintf("job %d, which is before it", ahead))
		// Many may wait, and the queue be long: it is read whole only when that one is gone.
		for there := true; there; {
			nudged := t.d.nudged()
			if there, err = isQueued(ctx, t.d.sessions, ahead); err != nil {
				return err
			}
			pause := min(max(turnInterval, time.Since(began)/10), maxTurnInterval)
			if there && !sleep.Unless(ctx, pause, nudged) {
				return context.Cause(ctx)
			}
		}
	}
}

// awaitVersion waits until nobody uses a schema version before the record's.
func (t *task) awaitVersion(ctx context.Context, r *job.Record) error {
	if err := t.showingBlockers(ctx, r, func(ctx context.Context) error { return t.d.versions.await(ctx, r) }); err != nil {
		return err
	}
	return t.inOwnTxn(context.WithoutCancel(ctx), func(x *txn) error { return x.forgetVersion(r) })
}

// activeImport is an import of TiDB's into a table that has not ended; the states are those of pkg/executor/importer/job.go.
const activeImport = `SELECT id FROM mysql.tidb_import_jobs WHERE status IN ('pending', 'running') AND table_id = %? LIMIT 1`

// awaitImports waits until no IMPORT INTO is under way into the job's table. It does not use the table as far as the
// metadata lock knows (skipLockMDL in pkg/planner/core/preprocess.go), and makes its files by the schema that it has begun
// with: rows that it brought in after S would have no entries. What it brings in before S is scanned.
func (t *task) awaitImports(ctx context.Context, r *job.Record) error {
	defer t.view.setWait("")
	if t.d.clustered() {
		t.view.setWait("other servers to say what they import") // one may hang
	}
	what, err := t.d.importInto(ctx, r.TableID)
	if err != nil || what == "" {
		return err
	}
	return t.waiting(ctx, func(ctx context.Context) error {
		for ; what != "" && err == nil; what, err = t.d.importInto(ctx, r.TableID) {
			t.view.setWait(what)
			if !sleep.For(ctx, maxTurnInterval) {
				return context.Cause(ctx)
			}
		}
		return err
	})
}

// importInto says what a job waits for before S: what imports into a table, or who may. Statements are looked for before jobs: a statement has made
// its plan, by the schema of then, long before there is a job of it, when it has listed its files.
func (d *DDL) importInto(ctx context.Context, tableID int64) (what string, err error) {
	what, err = d.importStatement(ctx, tableID)
	if what != "" || err != nil {
		return what, err
	}
	rows, err := d.sessions.query(ctx, activeImport, tableID)
	if err != nil {
		return "", fmt.Errorf("look for imports into the table: %w", err)
	}
	if len(rows) > 0 {
		return fmt.Sprintf("IMPORT INTO the table, import job %d", rows[0].GetInt64(0)), nil
	}
	return "", nil
}

// importStatement names a statement that imports into a table, if there is one, or a server that may execute one.
func (d *DDL) importStatement(ctx context.Context, tableID int64) (what string, err error) {
	if sm := d.opts.Domain.InfoSyncer().GetSessionManager(); sm != nil {
		for _, p := range sm.ShowProcessList() {
			if p.Command != mysql.ComSleep && d.importsInto(ctx, tableID, p.DB, p.Info) {
				return fmt.Sprintf("IMPORT INTO the table, a statement of connection %d", p.ID), nil
			}
		}
	}
	if !d.clustered() {
		return "", nil
	}
	return d.importsElsewhere(ctx, tableID)
}

// unreadImport is the beginning of a text that may be IMPORT INTO, or execute it, behind comments.
var unreadImport = regexp.MustCompile(`(?is)^\s*(/\*.*?\*/\s*|(--|#)[^\n]*\n\s*)*(import\b|(explain|desc|describe|trace|plan)\b.*\bimport\s+into\b)`)

// importsInto says that a statement is, or may be, IMPORT INTO a table; db is the database that it is executed in. A text that cannot be
// parsed, since it is shown without its end, may be if it begins like one.
func (d *DDL) importsInto(ctx context.Context, tableID int64, db, text string) (found bool) {
	if !strings.Contains(strings.ToUpper(text), "IMPORT") {
		return false
	}
	p := parser.New()
	statement, err := p.ParseOneStmt(text, "", "")
	if err != nil {
		p.SetSQLMode(mysql.ModeANSIQuotes)
		statement, err = p.ParseOneStmt(text, "", "")
	}
	if err != nil {
		return unreadImport.MatchString(text)
	}
	asttree.Walk(statement, func(n ast.Node) bool { // EXPLAIN ANALYZE executes one
		into, ok := n.(*ast.ImportIntoStmt)
		if !ok {
			return true
		}
		schema := into.Table.Schema
		if schema.L == "" {
			schema = pmodel.NewCIStr(db)
		}
		table, err := d.opts.Domain.InfoSchema().TableByName(ctx, schema, into.Table.Name)
		found = err == nil && table.Meta().ID == tableID
		return false
	})
	return found
}

// awaitOlder waits for transactions that began before S and use the table, though not for
// ever. Those that lock do not mind that version S comes under their keys; an optimistic one
// would fail for a conflict that nobody has caused. What it does not see, internal sessions
// and transactions that use the table only later, is not waited for.
func (t *task) awaitOlder(ctx context.Context, r *job.Record) error {
	ctx, cancel := context.WithTimeoutCause(ctx, olderWait, errOlderLeft)
	defer cancel()
	err := t.showingBlockers(ctx, r, func(ctx context.Context) error {
		for pause := olderInterval; t.d.hasOlder(ctx, r.TableID, r.SnapshotTS); pause = min(2*pause, maxOlderInterval) {
			if !sleep.For(ctx, pause) {
				return context.Cause(ctx)
			}
		}
		return nil
	})
	if errors.Is(context.Cause(ctx), errOlderLeft) {
		return nil
	}
	return err
}

// errOlderLeft ends the wait before the import.
var errOlderLeft = errors.New("ddl: waited long enough for transactions that began before the snapshot")

// showingBlockers runs a wait and shows for whom it is meanwhile.
func (t *task) showingBlockers(ctx context.Context, r *job.Record, wait func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		_ = t.d.contained("the watch of blockers", func() error { t.watchBlockers(ctx, r); return nil })
	}()
	defer func() {
		cancel()
		<-watching
	}()
	return wait(ctx)
}

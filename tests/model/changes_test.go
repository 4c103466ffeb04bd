package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/catalog"
	"fastddl/ddl"
	"fastddl/ddl/builder"
	"fastddl/ingest"
	"fastddl/table"
)

// change is one ALTER TABLE.
type change struct {
	clauses []string
	adds    []*indexDef
	// drops and columns are the indexes and columns that go, addsColumns those
	// that come.
	drops, columns, addsColumns []string
	// renames gives an index another name.
	renames map[string]string
}

func (c *change) add(x *indexDef) {
	c.adds = append(c.adds, x)
	c.clauses = append(c.clauses, x.sql())
}

func (c *change) drop(idx *model.IndexInfo) {
	c.drops = append(c.drops, idx.Name.L)
	if idx.Primary {
		c.clauses = append(c.clauses, "DROP PRIMARY KEY")
		return
	}
	c.clauses = append(c.clauses, "DROP INDEX "+idx.Name.O)
}

// unique returns the unique indexes that the change adds.
func (c *change) unique() []*indexDef {
	return slices.DeleteFunc(slices.Clone(c.adds), func(x *indexDef) bool { return !x.unique })
}

const (
	maxIndexes = 5
	maxColumns = 12
)

// randomChange is the n-th change of a table.
func randomChange(rng *rand.Rand, tbl *model.TableInfo, n int) *change {
	c := &change{renames: map[string]string{}}
	droppable := slices.DeleteFunc(slices.Clone(tbl.Indices), func(x *model.IndexInfo) bool {
		return x.Primary && tbl.IsCommonHandle
	})
	switch {
	case len(droppable) >= maxIndexes, len(droppable) > 0 && oneIn(rng, 4):
		idx := pick(rng, droppable...)
		c.drop(idx)
		if oneIn(rng, 3) {
			c.add(randomIndex(rng, tbl, fmt.Sprintf("i%d", n), false))
		}
	case len(droppable) > 0 && oneIn(rng, 10):
		if idx := pick(rng, droppable...); !idx.Primary {
			to := fmt.Sprintf("r%d", n)
			c.renames[idx.Name.L] = to
			c.clauses = append(c.clauses, fmt.Sprintf("RENAME INDEX %s TO %s", idx.Name.O, to))
		}
	case oneIn(rng, 6):
		c.changeColumns(rng, tbl, n)
	case !tbl.PKIsHandle && tbl.GetPrimaryKey() == nil && oneIn(rng, 6):
		c.add(primaryKey(tbl))
	default:
		if oneIn(rng, 2) {
			c.add(randomIndex(rng, tbl, fmt.Sprintf("u%d", n), true))
		}
		for j := range 1 + rng.Intn(2) {
			c.add(randomIndex(rng, tbl, fmt.Sprintf("i%d_%d", n, j), false))
		}
	}
	return c
}

// changeColumns adds a column, perhaps with an index on it, or drops one that
// was added.
func (c *change) changeColumns(rng *rand.Rand, tbl *model.TableInfo, n int) {
	var old []string
	for _, col := range tbl.Cols() {
		composite := slices.ContainsFunc(tbl.Indices, func(x *model.IndexInfo) bool {
			return len(x.Columns) > 1 && x.HasColumnInIndexColumns(tbl, col.ID)
		})
		if strings.HasPrefix(col.Name.L, "c") && !composite {
			old = append(old, col.Name.L)
		}
	}
	if len(old) > 0 && (oneIn(rng, 2) || len(tbl.Columns) >= maxColumns) {
		name := pick(rng, old...)
		c.columns = append(c.columns, name)
		c.clauses = append(c.clauses, "DROP COLUMN "+name)
		for _, idx := range tbl.Indices {
			if idx.Columns[0].Name.L == name {
				c.drops = append(c.drops, idx.Name.L)
			}
		}
		return
	}
	name := fmt.Sprintf("c%d", n)
	c.addsColumns = append(c.addsColumns, name)
	c.clauses = append(c.clauses, fmt.Sprintf("ADD COLUMN %s %s", name, pick(rng, addedColumns...)))
	if oneIn(rng, 2) {
		x := &indexDef{name: fmt.Sprintf("i%d", n)}
		x.parts = append(x.parts, &model.IndexColumn{Name: pmodel.NewCIStr(name), Length: types.UnspecifiedLength})
		x.desc = append(x.desc, false)
		c.add(x)
	}
}

// changeSchema changes the table until ctx ends.
func (tr *tableRun) changeSchema(ctx context.Context) error {
	rng := rand.New(rand.NewSource(tr.seed))
	for i := 0; ctx.Err() == nil; i++ {
		if err := tr.oneChange(ctx, rng, i); err != nil {
			return err
		}
		if oneIn(rng, 4) {
			time.Sleep(time.Duration(rng.Intn(20)) * time.Millisecond)
		}
	}
	return nil
}

func (tr *tableRun) entry() (*catalog.Table, error) {
	entry, ok := tr.node.catalog.Current().Table(dbName, tr.name)
	if !ok {
		return nil, fmt.Errorf("table %s is gone", tr.name)
	}
	return entry, nil
}

// oneChange makes a change, waits for the end of its job whatever happens to it,
// and checks that it was made completely or not at all.
func (tr *tableRun) oneChange(ctx context.Context, rng *rand.Rand, i int) error {
	before, err := tr.entry()
	if err != nil {
		return err
	}
	c := randomChange(rng, before.Info, i)
	if len(c.clauses) == 0 {
		return nil
	}
	sql := fmt.Sprintf("ALTER TABLE %s %s /* %d */", tr.name, strings.Join(c.clauses, ", "), i)
	from, err := tr.node.store.CurrentTS(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	clientCtx, leave := context.WithCancel(ctx)
	defer leave()
	if oneIn(rng, 10) {
		time.AfterFunc(time.Duration(rng.Intn(50))*time.Millisecond, leave)
	}
	execErr := tr.node.exec(clientCtx, sql)

	jobCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	job, err := tr.node.awaitJob(jobCtx, sql)
	if err != nil {
		return fmt.Errorf("%s: %v: %w", sql, execErr, err)
	}
	if clientCtx.Err() != nil && errors.Is(execErr, errInjected) {
		// The session was gone, and the fault was in cancelling its job.
		execErr = errors.Join(execErr, clientCtx.Err())
	}
	if err := tr.checkOutcome(jobCtx, c, from, before, execErr, job); err != nil {
		return fmt.Errorf("%s: returned %q, job %+v: %w", sql, errText(execErr), job, err)
	}
	return nil
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// patience is how long a job may take to end.
const patience = 60 * time.Second

// checkOutcome verifies what a statement did: all of it or nothing, as it said,
// and, if nothing, with a reason.
func (tr *tableRun) checkOutcome(ctx context.Context, c *change, from uint64, before *catalog.Table, execErr error, job *ddl.JobInfo) error {
	synced := job != nil && job.State == "synced"
	if execErr == nil && !synced {
		return errors.New("acknowledged without having been done")
	}
	after, err := tr.entry()
	if err != nil {
		return err
	}
	if err := c.checkSchema(before.Info, after.Info, synced); err != nil {
		return err
	}
	if job != nil {
		if _, err := os.Stat(ingest.JobDir(tr.node.tempDir, job.ID)); err == nil {
			return errors.New("the job's temp folder is left")
		}
	}
	if synced {
		tr.added += len(c.adds)
		tr.dropped += len(c.drops)
		if execErr != nil && !tr.interrupted(execErr) {
			return errors.New("done, but the statement failed")
		}
		return tr.checkMarkersGone(ctx, before, after)
	}
	if err := tr.node.checkIndexesGone(ctx, after.Info, before.Info.MaxIndexID); err != nil {
		return err
	}
	reason := errText(execErr)
	if tr.interrupted(execErr) && job != nil {
		reason = job.Error
	}
	return tr.checkReason(ctx, c, from, reason, job)
}

// checkMarkersGone verifies that a job that is done has left no markers.
func (tr *tableRun) checkMarkersGone(ctx context.Context, before, after *catalog.Table) error {
	ts, err := tr.node.store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	snap, err := tr.node.store.Snapshot(ctx, ts)
	if err != nil {
		return err
	}
	defer func() { _ = snap.Close() }()
	for id := before.Info.MaxIndexID + 1; id <= after.Info.MaxIndexID; id++ {
		left, err := readEntries(snap, table.MarkerRange(after.Info.ID, id))
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("%d markers of index %d are left", len(left), id)
		}
	}
	return nil
}

// interrupted says that a statement ended because its session or its node did,
// and not because of its job.
func (tr *tableRun) interrupted(err error) bool {
	return errors.Is(err, errCrash) || errors.Is(err, ddl.ErrClosed) || errors.Is(err, ddl.ErrNotOwner) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		code(err) == errno.ErrQueryInterrupted
}

func code(err error) int {
	if te, ok := builder.AsTerror(err); ok {
		return int(te.Code())
	}
	return 0
}

// checkReason verifies that a change that was not made has a reason for it.
func (tr *tableRun) checkReason(ctx context.Context, c *change, from uint64, reason string, job *ddl.JobInfo) error {
	switch {
	case strings.Contains(reason, "Duplicate entry") && len(c.unique()) > 0:
		tr.refused++
		return tr.requireDuplicate(ctx, c, from)
	case strings.Contains(reason, "Cancelled DDL job"):
		tr.cancelled++
		return nil
	case job == nil && reason == "", job == nil && strings.Contains(reason, ddl.ErrClosed.Error()),
		job == nil && strings.Contains(reason, ddl.ErrNotOwner.Error()):
		// Not queued before the node, or the session, was gone.
		return nil
	case job == nil && (strings.Contains(reason, context.Canceled.Error()) || strings.Contains(reason, context.DeadlineExceeded.Error())):
		return nil
	case strings.Contains(reason, errInjected.Error()) && tr.node.faulty.oneIn > 0:
		tr.failed++
		return nil
	case strings.Contains(reason, "no such file") && tr.node.mayLoseFiles:
		tr.failed++
		return nil
	}
	return fmt.Errorf("not done without a good reason: %q", reason)
}

// checkSchema verifies that the table has become what the change makes of it,
// or stayed what it was, and that everything in it is public.
func (c *change) checkSchema(before, after *model.TableInfo, done bool) error {
	wantIndexes, wantColumns := map[string]bool{}, map[string]bool{}
	for _, idx := range before.Indices {
		wantIndexes[idx.Name.L] = true
	}
	for _, col := range before.Columns {
		wantColumns[col.Name.L] = true
	}
	if done {
		c.apply(wantIndexes, wantColumns)
	}
	for _, idx := range after.Indices {
		if idx.State != model.StatePublic || !wantIndexes[idx.Name.L] {
			return fmt.Errorf("index %s is there in state %s, want %v", idx.Name.O, idx.State, wantIndexes)
		}
		delete(wantIndexes, idx.Name.L)
	}
	for _, col := range after.Columns {
		if col.State != model.StatePublic || !wantColumns[col.Name.L] {
			return fmt.Errorf("column %s is there in state %s, want %v", col.Name.O, col.State, wantColumns)
		}
		delete(wantColumns, col.Name.L)
	}
	if len(wantIndexes)+len(wantColumns) > 0 {
		return fmt.Errorf("indexes %v and columns %v are missing", wantIndexes, wantColumns)
	}
	return nil
}

func (c *change) apply(indexes, columns map[string]bool) {
	for _, name := range c.drops {
		delete(indexes, name)
	}
	for from, to := range c.renames {
		delete(indexes, from)
		indexes[to] = true
	}
	for _, x := range c.adds {
		name := strings.ToLower(x.name)
		if x.primary {
			name = strings.ToLower(mysql.PrimaryKeyName)
		}
		indexes[name] = true
	}
	for _, name := range c.columns {
		delete(columns, name)
	}
	for _, name := range c.addsColumns {
		columns[name] = true
	}
}

// requireDuplicate verifies that a job that failed with 1062 had a reason: at
// some moment since from two rows had the same key.
func (tr *tableRun) requireDuplicate(ctx context.Context, c *change, from uint64) error {
	to, err := tr.node.store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	tr.history.settle()
	entry, err := tr.entry()
	if err != nil {
		return err
	}
	tbl := table.Of(entry)
	for _, x := range c.unique() {
		idx := x.info()
		found, err := tr.history.everDuplicate(from, to, func(w write) (string, error) {
			row, err := w.as(entry)
			if err != nil {
				return "", err
			}
			key, _, distinct, err := tbl.IndexEntry(idx, row, w.h)
			if err != nil || !distinct {
				return "", err
			}
			return string(key), nil
		})
		if err != nil || found {
			return err
		}
	}
	return errors.New("refused without a duplicate")
}

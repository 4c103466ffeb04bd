package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"
	"go.uber.org/zap"

	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/internal/errs"
	"fastddl/load/rows"
)

// Request is an IMPORT INTO, as TiDB has planned and checked it.
type Request struct {
	Schema *model.DBInfo
	Table  *model.TableInfo
	// Plan is TiDB's, and Statement the text that it was made of. Shown is the text without secrets.
	Plan      *importer.Plan
	Statement string
	Shown     string
	// Verify is config.VerifyAuto or config.VerifyFull.
	Verify string
	// Query, if it is set, sends the rows of IMPORT INTO ... FROM SELECT to rows, and returns when it has sent all or ctx ends. It is
	// called when the table is closed to writers.
	Query func(ctx context.Context, rows chan<- importer.QueryRow) error
	// Load has the rows of LOAD DATA; nil of IMPORT INTO.
	Load *LoadData
}

// LoadData is where the rows of LOAD DATA come from.
type LoadData struct {
	// Controller is TiDB's, for Request.Plan.
	Controller *importer.LoadDataController
	// Send adds the rows to the feed and ends it. It is called as Request.Query is. Import closes the feed.
	Send func(ctx context.Context, feed *rows.Feed) error
	Feed *rows.Feed
}

// streamed says that the rows come from the session.
func (r *Request) streamed() bool { return r.Query != nil || r.Load != nil }

// Imported is the result of a statement.
type Imported struct {
	// ID is the import's in mysql.tidb_import_jobs; 0 of one from a query.
	ID int64
	// RowID is the import's in TiDB's queue.
	RowID int64
	Rows  int64
	// Warnings are for the session.
	Warnings []error
}

// killInterval is how often a session that waits looks whether it was killed.
const killInterval = 20 * time.Millisecond

// Import imports, and returns when the rows can be read. If the session's statement is killed, or its connection ends, the import is
// cancelled, unless it is swapped in. If the server shuts down an import from files goes on after the next start. A detached one is queued
// only.
func (j *Jobs) Import(ctx context.Context, sctx sessionctx.Context, req Request) (out Imported, err error) {
	if req.Load != nil {
		defer func() {
			closed := req.Load.Feed.Close()
			if err != nil {
				err = errs.Combine(err, closed)
			} else if closed != nil { // the rows are there all the same
				j.opts.Logger.Warn("what an import of LOAD DATA has kept was not removed", zap.Int64("job", out.RowID), zap.Error(closed))
			}
		}()
	}
	t, err := j.queue(ctx, sctx, req)
	if err != nil {
		return Imported{}, err
	}
	out = Imported{ID: t.record().ImportID, RowID: t.rowID}
	if req.Plan.Detached {
		return out, nil
	}
	if err := t.await(ctx, sctx, t.sender(&req)); err != nil {
		return out, err
	}
	out.Rows, out.Warnings = t.record().Rows, t.warnings
	return out, nil
}

// await waits for the end of an import, to which the session sends its rows meanwhile.
func (t *task) await(ctx context.Context, sctx sessionctx.Context, sender func(ctx context.Context) error) error {
	vars := sctx.GetSessionVars()
	tick := time.NewTicker(killInterval)
	defer tick.Stop()
	killed := false
	for {
		select {
		case <-t.done:
			return t.endStatement(vars, killed)
		case <-t.wantsRows(sender):
			send := sender
			sender = nil
			if err := t.send(ctx, send); err != nil {
				<-t.done
				return t.endStatement(vars, killed)
			}
			continue
		case <-tick.C:
		}
		if killed || !exeerrors.ErrQueryInterrupted.Equal(vars.SQLKiller.HandleSignal()) {
			continue
		}
		killed = true
		if err := t.cancel(context.WithoutCancel(ctx)); err != nil && !errCannotCancel.Equal(err) {
			killed = false // it is tried again
		}
	}
}

// endStatement is the error of a statement whose import has ended.
func (t *task) endStatement(vars *variable.SessionVars, killed bool) error {
	switch {
	case t.err == nil:
		vars.SQLKiller.Reset() // a KILL that was too late
	case killed && t.record().Cancelled:
		return exeerrors.ErrQueryInterrupted
	}
	return t.err
}

// queue makes an import of a request, and starts it.
func (j *Jobs) queue(ctx context.Context, sctx sessionctx.Context, req Request) (*task, error) {
	if !variable.EnableMDL.Load() {
		return nil, schema.ErrUnlocked
	}
	plan := *req.Plan
	plan.TableInfo, plan.DesiredTableInfo = nil, nil
	encoded, err := json.Marshal(&plan)
	if err != nil {
		return nil, fmt.Errorf("encode the plan of the import: %w", err)
	}
	charset, collation := sctx.GetSessionVars().GetCharsetInfo()
	r := &Record{
		Format: recordFormat, Step: StepQueued, Store: j.store(), Statement: req.Statement, Charset: charset, Collation: collation, Plan: encoded,
		FromQuery: req.streamed(), Verify: req.Verify,
		Import: schema.Import{
			DBID: req.Schema.ID, TableID: req.Table.ID, DB: schema.QueueName(req.Schema.Name.L), Table: schema.QueueName(req.Table.Name.L),
			Query: req.Shown, TableTS: req.Table.UpdateTS,
		},
	}
	if _, given := req.Plan.Parameters.Options["thread"]; given {
		r.Threads = req.Plan.ThreadCnt
	}
	j.queueing.Lock()
	defer j.queueing.Unlock()
	if j.find(func(other *Record) bool {
		return other.Import.DB == r.Import.DB && other.Import.Table == r.Import.Table
	}) != nil {
		return nil, errActive
	}
	// Of an import that was set aside, which keeps the table for itself without an end.
	if err := j.Exclusion.Check(TableName{r.Import.DB, r.Import.Table}); err != nil {
		return nil, err
	}
	err = j.sessions.InTxn(ctx, func(t *session.Txn) error {
		if err := schema.RefuseFlashback(t); err != nil {
			return err
		}
		id, err := t.Meta.GenGlobalID()
		if err != nil {
			return fmt.Errorf("generate ID: %w", err)
		}
		r.Import.RowID, r.Import.CreateTS = id, t.TS
		if req.Query == nil {
			r.ImportID, err = importer.CreateJob(t.Ctx, t.Session.GetSQLExecutor(), req.Plan.DBName, req.Table.Name.L, req.Table.ID, req.Plan.User,
				req.Plan.Parameters, req.Plan.TotalFileSize)
			if err != nil {
				return fmt.Errorf("create the import job: %w", err)
			}
		}
		if err := schema.InsertImport(t, &r.Import); err != nil {
			return err
		}
		return insert(t, r)
	})
	if err != nil {
		return nil, fmt.Errorf("queue the import: %w", err)
	}
	t := newTask(j, r)
	if req.streamed() {
		t.openQuery(&req)
	}
	t.emitBegin("", req.Plan.TotalFileSize)
	return t, j.launch(t)
}

// errActive is TiDB's error (CheckRequirements in pkg/executor/importer/precheck.go).
var errActive = exeerrors.ErrLoadDataPreCheckFailed.FastGenByArgs("there is active job on the target table already")

package ddl

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	pingcaperrors "github.com/pingcap/errors"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"
	"go.uber.org/zap"

	"fastddl/config"
	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/ddl/status"
	"fastddl/event"
	"fastddl/internal/sleep"
)

// Request is a statement that adds indexes to one table.
type Request struct {
	Schema *model.DBInfo
	Table  *model.TableInfo
	// Type is ActionAddIndex or ActionAddPrimaryKey, or ActionMultiSchemaChange if the
	// statement does more.
	Type model.ActionType
	// Indexes are what the statement asks for, as TiDB's executor has checked it, and
	// Changes what else it asks for.
	Indexes []*model.IndexArg
	Changes []job.Change
	// IndexesAt is how many of the changes TiDB's history lists before the indexes.
	IndexesAt int
	// Query is the statement's text.
	Query string
	// Meta is what TiDB takes from the session for a reorganisation.
	Meta     *model.DDLReorgMeta
	Settings job.Settings
	// Verify is config.VerifyAuto or config.VerifyFull.
	Verify string
	// Shared says that several nodes may build the entries together, at most MaxNodes of
	// them; -1 is TiDB's rule.
	Shared   bool
	MaxNodes int
	// Queued, if it is set, is called with the ID of the job that was made.
	Queued func(id int64)
}

// elsewhereInterval is how often a session looks whether its job, which another node
// runs, has ended.
const elsewhereInterval = 100 * time.Millisecond

// undoPatience is how long a session whose statement was killed waits for its job to
// be undone.
const undoPatience = time.Second

// killInterval is how often a session that waits looks whether it was killed.
const killInterval = 20 * time.Millisecond

// Build queues the request and waits until the job has ended; its error is the
// job's, whichever node has ended it. If the session's statement is killed the job is
// cancelled; if its indexes are public by then Build succeeds at once, with a note that
// the job does the rest. If the server shuts down the job goes on after the next start, or on
// another node.
//
// KILL ends ctx as well as telling the session; only the session is listened to, since the
// job's end has to be found out in any case.
func (d *DDL) Build(ctx context.Context, sctx sessionctx.Context, req Request) error {
	ctx = context.WithoutCancel(ctx)
	t, err := d.queue(ctx, sctx, req)
	if err != nil {
		return d.asSubmitted(ctx, sctx, req, err)
	}
	done, elsewhere := t.done, (<-chan time.Time)(nil)
	cancelled := new(atomic.Bool)
	vars := sctx.GetSessionVars()
	d.statements.Store(vars.ConnectionID, t)
	defer d.statements.Delete(vars.ConnectionID)
	sctx.SetValue(statementJob{}, StatementJob{ID: t.id})
	tick := time.NewTicker(killInterval)
	defer tick.Stop()
	killed := false
	var patience <-chan time.Time
	for {
		select {
		case <-done:
			if d.clustered() && errors.Is(t.err, records.ErrLost) {
				done, elsewhere = nil, time.Tick(elsewhereInterval)
				continue
			}
			if t.err == nil {
				d.refreshStatistics(ctx, req)
			}
			return endStatement(vars, req.Query, killed, t.err)
		case <-elsewhere:
			if ended, err := d.records.Outcome(ctx, t.id); ended {
				if err == nil {
					d.refreshStatistics(ctx, req)
				}
				return endStatement(vars, req.Query, killed, err)
			}
			if !killed && d.isReady(ctx, t, true) {
				return endReady(vars, req.Query, t.id)
			}
		case <-d.closing(elsewhere):
			return ErrClosed
		case <-patience:
			if t.shown.Load().RollingBack() || elsewhere != nil && cancelled.Load() {
				// Undoing it may have to wait for other transactions; the statement that was killed need not.
				return exeerrors.ErrQueryInterrupted
			}
			if d.published(ctx, t, elsewhere != nil) {
				return endPublished(vars, req.Query, t.id)
			}
			patience = time.After(undoPatience)
			continue
		case <-tick.C:
		}
		if !killed && elsewhere == nil && d.isReady(ctx, t, false) {
			return endReady(vars, req.Query, t.id)
		}
		if killed || !exeerrors.ErrQueryInterrupted.Equal(vars.SQLKiller.HandleSignal()) {
			continue
		}
		if atomic.LoadInt32(&vars.ConnectionStatus) == variable.ConnStatusShutdown {
			return ErrClosed
		}
		if d.published(ctx, t, elsewhere != nil) {
			return endPublished(vars, req.Query, t.id)
		}
		killed, patience = true, time.After(undoPatience)
		d.inside(func() { d.cancelKilled(t, cancelled) })
	}
}

// Await waits until done says that what a statement waits for has come. It ends with KILL,
// and with the component.
func (d *DDL) Await(vars *variable.SessionVars, done func() bool) error {
	for !done() {
		if err := vars.SQLKiller.HandleSignal(); err != nil {
			return err
		}
		if !sleep.For(d.ctx, killInterval) {
			return ErrClosed
		}
	}
	return nil
}

// noteLast sets what @@tidb_last_ddl_info shows. The sequence number is TiDB's count of its own jobs, which ours are not in.
func noteLast(vars *variable.SessionVars, query string) {
	vars.LastDDLInfo.Query, vars.LastDDLInfo.SeqNum = query, 0
}

// endStatement ends a statement whose job has ended with err.
func endStatement(vars *variable.SessionVars, query string, killed bool, err error) error {
	noteLast(vars, query)
	switch {
	case err == nil:
		vars.SQLKiller.Reset() // what has come has come too late
	case killed && !errors.Is(err, ErrClosed):
		return exeerrors.ErrQueryInterrupted
	}
	return err
}

// endPublished ends a statement that was killed when its indexes were public.
func endPublished(vars *variable.SessionVars, query string, id int64) error {
	noteLast(vars, query)
	time.Sleep(killInterval) // TiDB's KILL signals first, and then ends what the connection waits for
	vars.SQLKiller.Reset()
	vars.StmtCtx.AppendNote(pingcaperrors.NewNoStackErrorf("the indexes are there; job %d does the rest of the statement", id))
	return nil
}

// endReady ends a statement whose indexes wait for their publication: that may be days later.
func endReady(vars *variable.SessionVars, query string, id int64) error {
	noteLast(vars, query)
	vars.StmtCtx.AppendWarning(pingcaperrors.NewNoStackErrorf("the indexes are built and not public yet: publish them by ADMIN ALTER DDL JOBS %d %s = '%s'",
		id, config.DDLPublish, config.PublishNow))
	return nil
}

// published says that a job's indexes are public, as far as that can be found out.
func (d *DDL) published(ctx context.Context, t *task, elsewhere bool) bool {
	r := d.current(ctx, t, elsewhere)
	return r != nil && r.SchemaState() == model.StatePublic
}

// isReady says that a job's indexes wait for their publication, as far as that can be found out.
func (d *DDL) isReady(ctx context.Context, t *task, elsewhere bool) bool {
	r := d.current(ctx, t, elsewhere)
	return r != nil && waitsForPublication(r)
}

// waitsForPublication says that the indexes of a job are ready, and not public.
func waitsForPublication(r *job.Record) bool {
	return r.Step == job.StepReady && r.Request == job.RequestNone && !r.RollingBack()
}

// current returns the record of a job that has not ended, which may run elsewhere; nil if it cannot be read.
func (d *DDL) current(ctx context.Context, t *task, elsewhere bool) *job.Record {
	if !elsewhere {
		return t.shown.Load()
	}
	stored, err := d.records.Find(ctx, t.id)
	if err != nil || stored == nil || stored.Unreadable != nil {
		return nil
	}
	return stored
}

// closing returns a channel that is closed with the component, for a session whose job
// runs elsewhere: those that run here end by themselves.
func (d *DDL) closing(elsewhere <-chan time.Time) <-chan struct{} {
	if elsewhere == nil {
		return nil
	}
	return d.ctx.Done()
}

// cancelKilled cancels the job of a statement that was killed, if it still can be, and
// notes that it is. An error that has nothing to do with the job is no answer.
func (d *DDL) cancelKilled(t *task, cancelled *atomic.Bool) {
	for {
		err := d.contained("the cancelling of a killed statement", func() error { return d.Cancel(d.ctx, t.id) })
		cancelled.Store(err == nil)
		if err == nil {
			return
		}
		d.opts.Logger.Info("the index build of a killed statement goes on", zap.Int64("job", t.id), zap.Error(err))
		final := dbterror.ErrCancelFinishedDDLJob.Equal(err) || dbterror.ErrCannotCancelDDLJob.Equal(err) || dbterror.ErrDDLJobNotFound.Equal(err)
		if final || !sleep.For(d.ctx, undoPatience) {
			return
		}
	}
}

// functionsOf are the settings of a session that the values of expressions depend on.
func functionsOf(sctx sessionctx.Context) *config.FunctionSettings {
	exprs := sctx.GetExprCtx()
	return &config.FunctionSettings{
		DivPrecisionIncrement: exprs.GetEvalCtx().GetDivPrecisionIncrement(),
		DefaultWeekFormat:     exprs.GetEvalCtx().GetDefaultWeekFormatMode(),
		BlockEncryptionMode:   exprs.GetBlockEncryptionMode(),
	}
}

// queue makes a job of a request and starts it.
func (d *DDL) queue(ctx context.Context, sctx sessionctx.Context, req Request) (*task, error) {
	charset, collation := sctx.GetSessionVars().GetCharsetInfo()
	submit := submitOf(sctx.GetSessionVars())
	r := &job.Record{
		Protocol: job.Protocol, Type: req.Type, State: model.JobStateQueueing,
		DBID: req.Schema.ID, TableID: req.Table.ID, DB: schema.QueueName(req.Schema.Name.L), Table: schema.QueueName(req.Table.Name.L),
		Query: req.Query, SubmitKey: submit.Key, SQLMode: req.Meta.SQLMode, Location: req.Meta.Location, Charset: charset, Collate: collation,
		Functions:     functionsOf(sctx),
		ResourceGroup: req.Meta.ResourceGroupName, Client: clientOf(sctx.GetSessionVars()),
		Indexes: req.Indexes, Changes: req.Changes, IndexesAt: req.IndexesAt, Verify: req.Verify,
		// Expired rows are deleted by internal sessions.
		Compare: req.Table.TTLInfo != nil,
	}
	if req.Shared && d.clustered() {
		r.Nodes = job.Nodes{Shared: true, Scope: d.opts.Scope(), Max: req.MaxNodes}
		if req.MaxNodes < 1 {
			r.Nodes.Max = dist.AutomaticNodes(ctx, d.opts.Storage, d.opts.Logger)
		}
	}
	for _, arg := range req.Indexes {
		r.Compare = r.Compare || arg.Unique
	}
	d.reports.Unreported(d.reports.Make(ctx)) // they may have been dropped
	var lease *dist.Lease
	insert := func(t *session.Txn) error {
		if err := schema.RefuseFlashback(t); err != nil {
			return err
		}
		id, err := t.Meta.GenGlobalID()
		if err != nil {
			return fmt.Errorf("generate ID: %w", err)
		}
		if submit.Key != "" {
			existing, err := submit.Take(t, id)
			if err != nil {
				return err
			}
			if existing != 0 {
				return &submittedBefore{existing}
			}
		}
		r.ID, r.RowID, r.CreateTS = id, id, t.TS
		if lease = d.node.Lease(); lease != nil { // otherwise the first that looks takes it over
			r.Owner = lease.Name()
		}
		if err := schema.InsertRow(t, r, req.Settings); err != nil {
			return err
		}
		if err := records.Insert(t, r, req.Settings); err != nil {
			return err
		}
		d.reports.Unreported(status.ReportJob(t, status.Describe(r)))
		return nil
	}
	killed := sctx.GetSessionVars().SQLKiller.HandleSignal
	err := submitOnce(submit, killed, func() error { return d.sessions.InTxn(ctx, insert) })
	if mayBeQueued(err) {
		hasJob(sctx.GetSessionVars())
	}
	if err != nil {
		return nil, fmt.Errorf("queue the index build: %w", err)
	}
	if req.Queued != nil {
		req.Queued(r.ID)
	}
	d.opts.Bus.Emit(event.JobQueued{Job: event.Job{ID: r.ID}, Type: r.Type.String(), Schema: r.DB, Table: r.Table, Query: r.Query})
	t := newTask(d, lease, job.NewMachine(r), req.Settings)
	err = d.launch(t)
	if errors.Is(err, records.ErrLost) { // another node has the job, or will have it
		t.err = err
		close(t.done)
		return t, nil
	}
	return t, err
}

// mayBeQueued says whether the transaction that queues a job, and that has ended with err, may have done so.
func mayBeQueued(err error) bool {
	return err == nil || errors.Is(err, terror.ErrResultUndetermined)
}

// hasJob notes that the statement's job is in the queue, or may be: its error is then the statement's. TiDB's executor of DDL replaces those of
// other statements by 8028, with which clients try again, if another schema has changed since the statement began (pkg/executor/ddl.go, toErr).
func hasJob(vars *variable.SessionVars) { vars.StmtCtx.IsDDLJobInQueue = true }

// Unready says why TiDB has to build an index itself now; it is empty if we can.
func (d *DDL) Unready(ctx context.Context) (reason string, err error) {
	if !variable.EnableMDL.Load() {
		return "tidb_enable_metadata_lock is OFF", nil
	}
	// Only TiDB's DDL owner keeps up with this state by itself: the others ask etcd. What is
	// known is good enough if that does not answer.
	state := d.opts.Domain.DDL().StateSyncer()
	if _, err := state.GetGlobalState(ctx); err != nil {
		d.opts.Logger.Info("cannot look whether the cluster is being upgraded", zap.Error(err))
	}
	if state.IsUpgradingState() {
		return "the cluster is being upgraded", nil
	}
	err = d.sessions.InTxn(ctx, func(t *session.Txn) error {
		role, err := t.Meta.GetBDRRole()
		if role != "" && role != string(ast.BDRRoleNone) {
			reason = "the cluster is part of a bidirectional replication"
		}
		return err
	})
	if reason != "" || err != nil {
		return reason, err
	}
	return d.replicated(ctx), nil
}

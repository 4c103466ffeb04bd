package sql

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/extension"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/server"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
	storeerr "github.com/pingcap/tidb/pkg/store/driver/error"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"
	"github.com/pingcap/tidb/pkg/util/sqlexec"
	"github.com/pingcap/tidb/pkg/util/sqlkiller"
	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/tikvrpc/interceptor"
	"go.uber.org/zap"

	"fastddl/ddl/job"
	"fastddl/internal/asttree"
	"fastddl/internal/errs"
	"fastddl/kv"
	"fastddl/sql/perftables"
)

// driver wraps the sessions of pkg/server's clients.
type driver struct {
	server.IDriver
	layer *Layer
}

// OpenCtx implements server.IDriver.
func (d *driver) OpenCtx(
	connID uint64, capability uint32, collation uint8, db string, tlsState *tls.ConnectionState, ext *extension.SessionExtensions,
) (*server.TiDBContext, error) {
	c, err := d.IDriver.OpenCtx(connID, capability, collation, db, tlsState, ext)
	if err != nil {
		return nil, err
	}
	c.Session = d.layer.newClient(c.Session)
	return c, nil
}

// clientSession is a session of TiDB's whose statements are measured, and whose
// ADMIN statements reach our jobs.
type clientSession struct {
	sessiontypes.Session
	layer *Layer
	// outsideMDL is the statement that runs, if it is outside the metadata lock; nil otherwise.
	outsideMDL atomic.Pointer[outsideMDL]
	// adding is the statement that runs, if it adds rows to tables; nil otherwise.
	adding atomic.Pointer[adding]
	// parsedIn is the transaction in which the text that is executed was parsed, by its start; 0 if there was none.
	parsedIn uint64
}

// newClient makes a session one of the layer's clients, until it is closed.
func (l *Layer) newClient(se sessiontypes.Session) *clientSession {
	bindRights(se)
	s := &clientSession{Session: se, layer: l}
	l.clients.add(s)
	return s
}

// ExecuteStmt implements session.Session.
func (s *clientSession) ExecuteStmt(ctx context.Context, stmt ast.StmtNode) (sqlexec.RecordSet, error) {
	commits := s.commitsOf(stmt)
	rows, end, err := s.execute(watched(ctx, commits), stmt)
	killer := &s.GetSessionVars().SQLKiller
	if rows == nil || err != nil {
		return rows, withErrorCode(ctx, err, killer)
	}
	return &clientRows{RecordSet: rows, killer: killer, end: end, commits: commits}, nil
}

// execute executes a statement; end ends its measurement, if it returns rows and is measured.
func (s *clientSession) execute(ctx context.Context, stmt ast.StmtNode) (rows sqlexec.RecordSet, end func(), err error) {
	what := stmt
	if p := s.prepared(stmt); p != nil {
		what = p.PreparedAst.Stmt
		if err := s.findTables(ctx, p); err != nil {
			return nil, nil, err
		}
	}
	s.restoreHintVariables()
	defer s.withoutCache(what)()
	defer s.withoutSharing(what)()
	if text := s.preparedText(stmt); text != "" {
		defer s.preparing(ctx, text)()
	}
	if admin, ok := what.(*ast.AdminStmt); ok {
		rows, err = s.executeAdmin(ctx, stmt, admin)
		return rows, nil, err
	}
	switch x := what.(type) {
	case *ast.ExplainStmt:
		if s.explainsBuild(x) {
			rows, err = s.explainBuild(ctx, x)
			return rows, nil, err
		}
	case *ast.BRIEStmt:
		if s.takesBackup(x) {
			rows, err = s.backup(ctx, x)
			return rows, nil, err
		}
	case *ast.ShowStmt:
		if x.Tp == ast.ShowBackups && s.layer.opts.Backups != nil {
			rows, err = s.showBackups(ctx, stmt, x)
			return rows, nil, err
		}
	case *ast.PrepareStmt:
		if done, err := s.prepareText(ctx, x); done {
			return nil, nil, err
		}
	}
	if done, rows, err := s.executeImport(ctx, what); done {
		return rows, nil, err
	}
	endAdding, err := s.beginAdding(stmt)
	if err != nil {
		return nil, nil, err
	}
	if isForeground(what) {
		end = both(s.begin(what), endAdding)
		defer func() { // also after a panic
			if rows == nil || err != nil {
				end()
			}
		}()
	}
	rows, err = s.Session.ExecuteStmt(ctx, stmt)
	if show, ok := what.(*ast.ShowStmt); ok && show.Tp == ast.ShowProcessList && rows != nil && err == nil && s.layer.ddl != nil {
		rows = &processRows{RecordSet: rows, ddl: s.layer.ddl}
	}
	return rows, end, err
}

// restoreHintVariables restores the variables that hints of the previous statement have set. TiDB does so when it begins the next one
// (ResetContextOfStmt in pkg/executor/select.go), which would undo what is set for that statement here.
func (s *clientSession) restoreHintVariables() {
	vars := s.GetSessionVars()
	for name, value := range vars.StmtCtx.SetVarHintRestore {
		if err := vars.SetSystemVar(name, value); err != nil {
			s.layer.opts.Logger.Warn("a variable keeps the value of a hint", zap.String("variable", name), zap.String("instead-of", value), zap.Error(err))
		}
	}
	vars.StmtCtx.SetVarHintRestore = nil
}

// begin begins a statement of the foreground, until end is called.
func (s *clientSession) begin(stmt ast.StmtNode) (end func()) {
	end = s.layer.opts.Foreground.Begin()
	if o := s.outsideMDLOf(stmt); o != nil {
		s.outsideMDL.Store(o)
		end = both(end, func() { s.outsideMDL.Store(nil) })
	}
	if upserts := s.checksInPlace(stmt); len(upserts) > 0 {
		end = both(end, s.checkInPlace(upserts))
	}
	return end
}

func both(first, then func()) func() {
	return func() { first(); then() }
}

// storeErrors maps the texts of errors of the embedded store, which is all that TiDB returns of them, to error codes: MySQL's for a full
// disk and for locks that exceed their memory, TiDB's for a transaction that is too large.
var storeErrors = []struct {
	text string
	as   *terror.Error
}{
	{kv.ErrDiskFull.Error(), dbterror.ClassServer.NewStdErr(mysql.ErrDiskFull, mysql.Message("%s", nil))},
	{kv.ErrTooManyLocks.Error(), dbterror.ClassServer.NewStdErr(mysql.ErrLockTableFull, mysql.Message("%s", nil))},
	{kv.ErrTxnTooLarge.Error(), dbterror.ClassKV.NewStdErr(errno.ErrTxnTooLarge, mysql.Message("%s", nil))},
}

// withErrorCode returns the error of a statement with a code where TiDB knows its text only: an error of the embedded store, the end
// of a request whose statement was killed (pingcap/tidb#68097), a limit of memory that a goroutine of a join has panicked with, and the
// timeout of a wait for locks between two attempts (repeatable_read.go:263 of package isolation). An error that has a code is returned
// as it is: its text may quote a value or a name that reads like one of these.
func withErrorCode(ctx context.Context, err error, killer *sqlkiller.SQLKiller) error {
	if err == nil {
		return nil
	}
	known := job.FindTerror(err)
	if known != nil && terror.ToSQLError(known).Code != mysql.ErrUnknown {
		return err
	}
	text := err.Error()
	if known == nil {
		switch {
		case strings.Contains(text, context.Canceled.Error()):
			if why := killed(ctx, killer); why != nil {
				return why
			}
		case strings.HasPrefix(text, interrupted):
			return exeerrors.ErrQueryInterrupted.FastGenByArgs()
		case errors.Is(err, tikverr.ErrLockWaitTimeout):
			return storeerr.ErrLockWaitTimeout.FastGenByArgs()
		}
		for _, limit := range []*terror.Error{exeerrors.ErrMemoryExceedForQuery, exeerrors.ErrMemoryExceedForInstance} {
			if strings.HasPrefix(text, "["+string(limit.RFCCode())+"]") {
				return limit.FastGenByArgs(killer.ConnID.Load())
			}
		}
	}
	for _, r := range storeErrors {
		if at := strings.Index(text, r.text); at >= 0 {
			return r.as.FastGenByArgs(strings.TrimPrefix(text[at:], "kv: "))
		}
	}
	if known != nil {
		return err // TiDB shows it
	}
	return errs.OneLine(err)
}

// interrupted is the text of client-go's error for a commit that a KILL has ended.
var interrupted = exeerrors.ErrQueryInterrupted.FastGenByArgs().Error()

// killed returns why a statement that runs was ended, nil if it was not. Only a KILL or a time limit ends its context. TiDB clears
// its signal before the error is returned.
func killed(ctx context.Context, killer *sqlkiller.SQLKiller) error {
	if err := killer.HandleSignal(); err != nil || ctx.Err() == nil {
		return err
	}
	return exeerrors.ErrQueryInterrupted.FastGenByArgs()
}

// ExecutePreparedStmt implements session.Session.
func (s *clientSession) ExecutePreparedStmt(ctx context.Context, id uint32, params []expression.Expression) (sqlexec.RecordSet, error) {
	found, err := s.GetSessionVars().GetPreparedStmtByID(id)
	stmt, ok := found.(*plannercore.PlanCacheStmt)
	if err != nil || !ok {
		return s.Session.ExecutePreparedStmt(ctx, id, params)
	}
	return s.ExecuteStmt(ctx, &ast.ExecuteStmt{BinaryArgs: params, PrepStmt: stmt, PrepStmtId: id})
}

// Close implements session.Session. A KILL that has come while the session was idle would
// still be pending here, and TiDB panics with it when it releases the memory of the open
// transaction (pingcap/tidb#63956), which ends the process: so it is taken back first, and
// one that comes this very moment is contained.
func (s *clientSession) Close() {
	defer s.layer.clients.remove(s)
	for range 2 { // what is closed already is left alone
		s.GetSessionVars().SQLKiller.Reset()
		err := s.tryClose()
		if err == nil {
			return
		}
		s.layer.opts.Logger.Warn("panic while a session was closed", zap.Uint64("conn", s.GetSessionVars().ConnectionID), zap.Error(err))
	}
}

func (s *clientSession) tryClose() (err error) {
	defer errs.Contain(&err)
	s.Session.Close()
	return nil
}

// prepared returns the prepared statement that EXECUTE executes; nil for other statements.
func (s *clientSession) prepared(stmt ast.StmtNode) *plannercore.PlanCacheStmt {
	execute, ok := stmt.(*ast.ExecuteStmt)
	if !ok {
		return nil
	}
	found := execute.PrepStmt
	if found == nil {
		vars := s.GetSessionVars()
		id, ok := vars.PreparedStmtNameToID[execute.Name]
		if !ok {
			return nil
		}
		found = vars.PreparedStmts[id]
	}
	if p, ok := found.(*plannercore.PlanCacheStmt); ok && p.PreparedAst != nil {
		return p
	}
	return nil
}

// isForeground reports whether index builds yield to a statement: they do not yield to those
// that only wait for a build, or ask for it.
func isForeground(stmt ast.StmtNode) bool {
	if _, isDDL := stmt.(ast.DDLNode); isDDL {
		return false
	}
	query, ok := stmt.(*ast.SelectStmt)
	return !ok || !readsJobTables(query)
}

// readsJobTables reports whether a query reads one of the tables of performance_schema that show builds, and nothing else: dashboards ask
// often, and would be taken for the load that builds yield to.
func readsJobTables(query *ast.SelectStmt) bool {
	if query.From == nil || query.From.TableRefs == nil || query.From.TableRefs.Right != nil || query.With != nil {
		return false
	}
	source, ok := query.From.TableRefs.Left.(*ast.TableSource)
	if !ok {
		return false
	}
	if name, ok := source.Source.(*ast.TableName); !ok || !perftables.IsJobTable(name.Schema.L, name.Name.L) {
		return false
	}
	return asttree.Visit(query, func(n ast.Node) error { // subqueries, too
		if name, ok := n.(*ast.TableName); ok && !perftables.IsJobTable(name.Schema.L, name.Name.L) {
			return errOtherTable
		}
		return nil
	}) == nil
}

var errOtherTable = errors.New("another table")

// clientRows are the rows of a client's statement. Part of the statement runs when they are fetched and when they are closed: it may
// commit only then. Errors get their codes here, too.
type clientRows struct {
	sqlexec.RecordSet
	// killer knows whether the session's statement was killed.
	killer *sqlkiller.SQLKiller
	// end ends the statement's measurement when the rows are closed; nil if it is not measured, or no longer.
	end func()
	// commits watches what the statement commits while its rows are fetched, as TRACE does; nil if it commits nothing.
	commits interceptor.RPCInterceptor
	// demand is how many rows are asked for at a time.
	demand demand

	// finishing is held while the rows are finished, and finished says that they have been: a KILL does it from another goroutine.
	finishing sync.Mutex
	finished  bool
}

// NewChunk implements sqlexec.RecordSet. TiDB excludes a KILL for Next and Close only (resultset.go:65), and panics here if
// the KILL was faster (adapter.go:193 of package executor). Next with an empty chunk then returns ErrQueryInterrupted.
func (r *clientRows) NewChunk(alloc chunk.Allocator) *chunk.Chunk {
	r.finishing.Lock()
	defer r.finishing.Unlock()
	if r.finished {
		return chunk.NewEmptyChunk(nil)
	}
	return r.RecordSet.NewChunk(alloc)
}

// Next implements sqlexec.RecordSet.
func (r *clientRows) Next(ctx context.Context, req *chunk.Chunk) error {
	r.demand.ask(req)
	if err := r.RecordSet.Next(watched(ctx, r.commits), req); err != nil {
		return withErrorCode(ctx, err, r.killer)
	}
	r.demand.got(req)
	return nil
}

// Close implements sqlexec.RecordSet.
func (r *clientRows) Close() error {
	r.endMeasurement()
	return withErrorCode(context.Background(), r.RecordSet.Close(), r.killer)
}

func (r *clientRows) endMeasurement() {
	if r.end != nil {
		r.end()
		r.end = nil
	}
}

// Finish is called by the server before Close, where it is there.
func (r *clientRows) Finish() error {
	r.finishing.Lock()
	defer r.finishing.Unlock()
	r.finished = true
	if rows, ok := r.RecordSet.(interface{ Finish() error }); ok {
		return withErrorCode(context.Background(), rows.Finish(), r.killer)
	}
	return nil
}

// OnFetchReturned is called by the server after each fetch of a cursor.
func (r *clientRows) OnFetchReturned() {
	if rows, ok := r.RecordSet.(interface{ OnFetchReturned() }); ok {
		rows.OnFetchReturned()
	}
}

// TryDetach implements sqlexec.DetachableRecordSet. Rows that are fetched later do
// not count as a running statement.
func (r *clientRows) TryDetach() (sqlexec.RecordSet, bool, error) {
	rows, ok := r.RecordSet.(sqlexec.DetachableRecordSet)
	if !ok {
		return nil, false, nil
	}
	detached, ok, err := rows.TryDetach()
	if ok {
		r.endMeasurement()
	}
	if !ok || err != nil {
		return nil, ok, withErrorCode(context.Background(), err, r.killer)
	}
	return &clientRows{RecordSet: detached, killer: r.killer}, true, nil
}

// Execute implements session.Session: it runs all statements of a text.
func (s *clientSession) Execute(ctx context.Context, text string) ([]sqlexec.RecordSet, error) {
	stmts, err := s.Parse(ctx, text)
	if err != nil {
		return nil, err
	}
	var results []sqlexec.RecordSet
	for _, stmt := range stmts {
		rows, err := s.ExecuteStmt(ctx, stmt)
		if err != nil {
			return results, err
		}
		if rows != nil {
			results = append(results, rows)
		}
	}
	return results, nil
}

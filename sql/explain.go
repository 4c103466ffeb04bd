package sql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	tidbexecutor "github.com/pingcap/tidb/pkg/executor"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/planner/core/resolve"
	"github.com/pingcap/tidb/pkg/privilege"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/dbterror/plannererrors"
	"github.com/pingcap/tidb/pkg/util/hint"
	"github.com/pingcap/tidb/pkg/util/sqlexec"

	"fastddl/backfill"
	"fastddl/backfill/encode"
	"fastddl/backfill/survey"
	"fastddl/config"
	"fastddl/ddl"
	"fastddl/ddl/status"
	"fastddl/event"
)

// explainsBuild says that an EXPLAIN is of a statement that adds indexes, so that it is answered here.
func (s *clientSession) explainsBuild(explain *ast.ExplainStmt) bool {
	return s.layer.ddl != nil && BuildsIndexes(explain.Stmt)
}

// BuildsIndexes reports whether a statement adds indexes: CREATE INDEX, or ALTER TABLE that adds one.
func BuildsIndexes(stmt ast.StmtNode) bool {
	switch x := stmt.(type) {
	case *ast.CreateIndexStmt:
		return true
	case *ast.AlterTableStmt:
		return addsIndexes(x.Specs)
	}
	return false
}

// explained is what EXPLAIN says of a statement that adds indexes.
type explained struct {
	table *ast.TableName
	// left says why TiDB builds the indexes, if it does.
	left   string
	byTiDB bool
	// nothing says that the indexes are there already, which the statement says is no error.
	nothing bool
	// estimation is nil if no estimate can be made; unknown then says why.
	estimation *ddl.Estimation
	unknown    string
	// maySelect says that the user may see values of rows.
	maySelect bool
	actual    *actual
}

// actual is what a build did.
type actual struct {
	seconds float64
	job     *status.JobInfo // nil if TiDB has built the indexes
	result  *backfill.Result
	// indexBytes is what each index occupies in the store, by name; empty where the store does not know.
	indexBytes map[string]int64
}

// explainBuild executes EXPLAIN, or EXPLAIN ANALYZE, of a statement that adds indexes.
func (s *clientSession) explainBuild(ctx context.Context, explain *ast.ExplainStmt) (sqlexec.RecordSet, error) {
	format, err := explainFormat(explain)
	if err != nil {
		return nil, err
	}
	stmt, ok := explain.Stmt.(ast.DDLNode)
	if !ok {
		return nil, fmt.Errorf("EXPLAIN of a %T", explain.Stmt)
	}
	var x *explained
	if explain.Analyze {
		x, err = s.analyzeBuild(ctx, stmt)
	} else {
		x, err = s.explainOnly(ctx, explain, stmt)
	}
	if err != nil {
		return nil, clientError(err)
	}
	x.maySelect = s.maySelect(x.table)
	return format(x)
}

// explainOnly says what a statement would cost. Outside a transaction it leaves no lock on the table's metadata behind: a build would wait
// for the session otherwise until its next statement.
func (s *clientSession) explainOnly(ctx context.Context, explain *ast.ExplainStmt, stmt ast.DDLNode) (*explained, error) {
	defer func() {
		if !s.GetSessionVars().InTxn() {
			s.RollbackTxn(ctx)
		}
	}()
	if err := s.checkDDL(ctx, explain, stmt); err != nil {
		return nil, err
	}
	return s.layer.builder().explain(ctx, s.Session, stmt)
}

// builder is the executor of the layer.
func (l *Layer) builder() *executor {
	e, _ := l.dom.DDLExecutor().(*executor)
	return e
}

// checkDDL begins a statement in the session, and has TiDB plan a DDL statement, which resolves its names and checks the privileges of
// the user.
func (s *clientSession) checkDDL(ctx context.Context, begun ast.StmtNode, stmt ast.DDLNode) error {
	if err := s.PrepareTxnCtx(ctx); err != nil {
		return err
	}
	if err := tidbexecutor.ResetContextOfStmt(s.Session, begun); err != nil {
		return err
	}
	node := resolve.NewNodeW(stmt)
	ret := &plannercore.PreprocessorReturn{}
	if err := plannercore.Preprocess(ctx, s.Session, node, plannercore.WithPreprocessorReturn(ret)); err != nil {
		return err
	}
	builder, _ := plannercore.NewPlanBuilder().Init(s.Session.GetPlanCtx(), ret.InfoSchema, hint.NewQBHintHandler(nil))
	if _, err := builder.Build(ctx, node); err != nil {
		return err
	}
	pm := privilege.GetPrivilegeManager(s.Session)
	if pm == nil {
		return nil
	}
	return plannercore.CheckPrivilege(s.GetSessionVars().ActiveRoles, pm, builder.GetVisitInfo())
}

// maySelect says whether the session's user may SELECT from a table.
func (s *clientSession) maySelect(name *ast.TableName) bool {
	pm := privilege.GetPrivilegeManager(s.Session)
	return pm == nil || pm.RequestVerification(s.GetSessionVars().ActiveRoles, s.schemaOf(name), name.Name.L, "", mysql.SelectPriv)
}

func (s *clientSession) schemaOf(name *ast.TableName) string {
	if name.Schema.L != "" {
		return name.Schema.L
	}
	return strings.ToLower(s.GetSessionVars().CurrentDB)
}

// explain says what a statement that adds indexes would cost. It fails as the statement would, as far as that is known before it begins.
func (e *executor) explain(ctx context.Context, sctx sessionctx.Context, stmt ast.DDLNode) (*explained, error) {
	x := &explained{}
	var parts []part
	var err error
	switch stmt := stmt.(type) {
	case *ast.CreateIndexStmt:
		x.table = stmt.Table
		index := indexOf(stmt)
		parts = []part{{index: index}}
		if !index.ours() {
			err = leftToTiDB("it is not of a kind that fastddl builds")
		}
	case *ast.AlterTableStmt:
		x.table = stmt.Table
		specs, resolveErr := tidbddl.ResolveAlterTableSpec(sctx, stmt.Specs)
		if resolveErr != nil {
			return nil, resolveErr
		}
		parts, err = partsOf(specs)
	}
	schema := e.layer.dom.InfoSchema()
	if _, err := schema.TableByName(ctx, x.table.Schema, x.table.Name); err != nil {
		return nil, err
	}
	if !x.leave(err) && err != nil {
		return nil, err
	}
	if x.byTiDB {
		x.unknown = "TiDB's own way"
		return x, nil
	}
	if engine, ok := sctx.GetSessionVars().GetSystemVar(config.DDLEngine); ok && engine == config.EngineTiDB {
		x.leave(leftToTiDB(config.DDLEngine + " is " + engine))
	}
	x.leave(e.ready(ctx, sctx, x.table))
	req, err := e.requested(ctx, sctx, x.table, parts)
	switch {
	case errors.Is(err, errNothingToDo):
		x.nothing = true
		return x, nil
	case x.leave(err):
		x.unknown = "TiDB's own way"
		return x, nil
	case err != nil:
		return nil, err
	}
	x.estimation, err = e.layer.ddl.Estimate(ctx, sctx, req)
	switch {
	case errors.Is(err, encode.ErrUnsupported):
		x.leave(leftToTiDB(err.Error()))
		x.unknown, err = "TiDB's own way", nil
	case errors.Is(err, survey.ErrNothingRead):
		x.unknown, err = "no row was read in time", nil
	}
	return x, err
}

// leave notes that a statement is left to TiDB, if err says so.
func (x *explained) leave(err error) bool {
	var left leftToTiDB
	if !errors.As(err, &left) {
		return false
	}
	if !x.byTiDB {
		x.byTiDB, x.left = true, string(left)
	}
	return true
}

// analysis is carried by the session while EXPLAIN ANALYZE executes a statement that adds indexes.
type analysis struct {
	estimate func(ctx context.Context, sctx sessionctx.Context, req ddl.Request)

	began   time.Time // behind the estimate and the preflight
	nothing bool

	mu  sync.Mutex
	job int64 // 0 before there is one
}

// prepare estimates a build that is about to begin.
func (a *analysis) prepare(ctx context.Context, sctx sessionctx.Context, req *ddl.Request) {
	if a != nil {
		a.estimate(ctx, sctx, *req)
		req.Queued = a.queued
	}
}

// begin notes that the build begins now.
func (a *analysis) begin() {
	if a != nil {
		a.began = time.Now()
	}
}

// nothingToDo notes that the indexes are there already.
func (a *analysis) nothingToDo() {
	if a != nil {
		a.nothing = true
	}
}

func (a *analysis) queued(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.job = id
}

func (a *analysis) jobID() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.job
}

// analysisKey is under what a session carries it.
type analysisKey struct{}

func (analysisKey) String() string { return "fastddl_explain_analyze" }

// analysisOf returns what the session carries; nil without EXPLAIN ANALYZE.
func analysisOf(sctx sessionctx.Context) *analysis {
	a, _ := sctx.Value(analysisKey{}).(*analysis)
	return a
}

// analyzeBuild executes a statement that adds indexes, and returns what it took beside what was estimated just before.
func (s *clientSession) analyzeBuild(ctx context.Context, stmt ast.DDLNode) (*explained, error) {
	x := &explained{table: tableOf(stmt), actual: &actual{}}
	a := &analysis{began: time.Now()}
	var indexes []string
	a.estimate = func(ctx context.Context, sctx sessionctx.Context, req ddl.Request) {
		for _, arg := range req.Indexes {
			indexes = append(indexes, arg.IndexName.L)
		}
		var err error
		if x.estimation, err = s.layer.ddl.Estimate(ctx, sctx, req); err != nil {
			x.unknown = clientError(err).Error()
		}
	}
	var results sync.Map // by job
	defer s.layer.opts.Bus.Subscribe(func(e event.Event) {
		if done, ok := e.(backfill.Finished); ok {
			results.Store(done.ID, done.Result)
		}
	})()
	s.Session.SetValue(analysisKey{}, a)
	defer s.Session.ClearValue(analysisKey{})
	if rows, err := s.Session.ExecuteStmt(ctx, stmt); err != nil {
		return nil, err
	} else if rows != nil {
		return nil, errors.Join(fmt.Errorf("EXPLAIN ANALYZE of a %T has rows", stmt), rows.Close())
	}
	x.actual.seconds = time.Since(a.began).Seconds()
	x.nothing = a.nothing
	id := a.jobID()
	if id == 0 && x.nothing {
		return x, nil
	}
	if id == 0 {
		x.byTiDB, x.unknown = x.estimation == nil, "TiDB's own way"
		return x, nil
	}
	if result, ok := results.Load(id); ok {
		found := result.(backfill.Result)
		x.actual.result = &found
	}
	// The indexes are public: what cannot be read of the build now is left out.
	info, ok, err := s.layer.ddl.Ended(ctx, id)
	if ok && err == nil {
		x.actual.job = &info
		x.actual.indexBytes, err = s.layer.ddl.IndexBytes(ctx, info.TableID, indexes)
	}
	if err != nil {
		s.GetSessionVars().StmtCtx.AppendWarning(clientError(fmt.Errorf("the index was built, but not all that is known of it can be read: %w", err)))
	}
	return x, nil
}

// tableOf returns the table that a statement adds indexes to.
func tableOf(stmt ast.DDLNode) *ast.TableName {
	switch stmt := stmt.(type) {
	case *ast.CreateIndexStmt:
		return stmt.Table
	case *ast.AlterTableStmt:
		return stmt.Table
	}
	return &ast.TableName{}
}

// explainFormat returns what makes the rows of an EXPLAIN's format.
func explainFormat(explain *ast.ExplainStmt) (func(x *explained) (sqlexec.RecordSet, error), error) {
	switch format := strings.ToLower(explain.Format); {
	case isJSON(explain):
		return func(x *explained) (sqlexec.RecordSet, error) {
			text, err := x.json()
			return &memoryRows{fields: explainFields(explain), rows: [][]types.Datum{types.MakeDatums(text)}}, err
		}, nil
	case slices.Contains([]string{types.ExplainFormatROW, types.ExplainFormatTraditional, types.ExplainFormatBrief, types.ExplainFormatVerbose}, format):
		return func(x *explained) (sqlexec.RecordSet, error) {
			rows := &memoryRows{fields: explainFields(explain)}
			for _, r := range x.rows() {
				rows.rows = append(rows.rows, r.datums(explain.Analyze))
			}
			return rows, nil
		}, nil
	default:
		return nil, plannererrors.ErrUnknownExplainFormat.GenWithStackByArgs(format)
	}
}

func isJSON(explain *ast.ExplainStmt) bool {
	format := strings.ToLower(explain.Format)
	return format == "json" || format == types.ExplainFormatTiDBJSON
}

// explainFields are the columns of an EXPLAIN.
func explainFields(explain *ast.ExplainStmt) []*resolve.ResultField {
	if isJSON(explain) {
		return []*resolve.ResultField{textField("EXPLAIN", 1<<20)}
	}
	fields := []*resolve.ResultField{textField("item", 32), textField("name", 64), textField("estimate", 64)}
	if explain.Analyze {
		fields = append(fields, textField("actual", 64))
	}
	return append(fields, textField("info", 1024))
}

// preflight refuses a build that does not fit, or warns of it, as the session's fastddl_ddl_preflight says.
func (e *executor) preflight(ctx context.Context, sctx sessionctx.Context, req ddl.Request) error {
	mode, _ := sctx.GetSessionVars().GetSystemVar(config.Preflight)
	if mode != config.PreflightWarn && mode != config.PreflightEnforce {
		return nil
	}
	return e.layer.ddl.Refuse(ctx, sctx, req, mode == config.PreflightEnforce)
}

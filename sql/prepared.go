package sql

import (
	"context"
	"fmt"

	tidbexec "github.com/pingcap/tidb/pkg/executor"
	"github.com/pingcap/tidb/pkg/parser/ast"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/sessiontxn"
)

// TiDB gives the metadata lock the tables of a prepared statement from a list that it made when the statement was prepared
// (planCachePreprocess in pkg/planner/core/plan_cache.go). The list is empty if the session was reading the past just then, or
// the metadata lock was off (tryLockMDLAndUpdateSchemaIfNecessary in preprocess.go), and stays so: the statement can be executed
// in a transaction that the lock does not see. So the list is made again before the statement writes.

// noTables marks a statement whose list is empty rightly: no table has this ID. Temporary tables are not locked.
const noTables = 0

// findTables lists the tables of a prepared statement again, if it writes and has none.
func (s *clientSession) findTables(ctx context.Context, p *plannercore.PlanCacheStmt) error {
	if len(p.RelateVersion) > 0 || !s.writes(p.PreparedAst.Stmt) || !s.locksTables() {
		return nil
	}
	fresh, err := s.prepareAgain(ctx, p)
	if err != nil {
		if !s.GetSessionVars().InTxn() {
			s.RollbackTxn(ctx)
		}
		return clientError(fmt.Errorf("prepare again: %w", err))
	}
	fresh.StmtDB = p.StmtDB
	*p = *fresh
	if len(p.RelateVersion) == 0 {
		p.RelateVersion[noTables] = 0
	}
	return nil
}

// prepareAgain prepares a statement as TiDB does for a client (session.PrepareStmt, PrepareExec.Next).
func (s *clientSession) prepareAgain(ctx context.Context, p *plannercore.PlanCacheStmt) (*plannercore.PlanCacheStmt, error) {
	stmt := p.PreparedAst.Stmt
	if err := s.PrepareTxnCtx(ctx); err != nil {
		return nil, err
	}
	if err := tidbexec.ResetContextOfStmt(s.Session, stmt); err != nil {
		return nil, err
	}
	txn := sessiontxn.GetTxnManager(s.Session)
	if err := txn.OnStmtStart(ctx, stmt); err != nil {
		return nil, err
	}
	fresh, _, _, err := plannercore.GeneratePlanCacheStmtWithAST(ctx, s.Session, true, p.StmtText, stmt, txn.GetTxnInfoSchema())
	return fresh, err
}

// locksTables says that a statement that is prepared now would have a list of its tables.
func (s *clientSession) locksTables() bool {
	vars := s.GetSessionVars()
	return variable.EnableMDL.Load() && vars.SnapshotInfoschema == nil && (!vars.InTxn() || vars.TxnCtx.EnableMDL && !vars.TxnCtx.IsStaleness)
}

// withoutCache keeps the plan of a statement out of the cache of statements that are not prepared, until end is called, if the statement
// writes and the cache would have no list of its tables: a plan of such a list would be used again in a transaction that has another
// definition of its tables. INSERT takes the definition from the plan.
func (s *clientSession) withoutCache(stmt ast.StmtNode) (end func()) {
	vars := s.GetSessionVars()
	if !vars.EnableNonPreparedPlanCacheForDML || !s.writes(stmt) || s.locksTables() {
		return func() {}
	}
	vars.EnableNonPreparedPlanCacheForDML = false
	return func() { vars.EnableNonPreparedPlanCacheForDML = true }
}

// withoutSharing keeps a statement from plans of other sessions, until end is called, if it reads as of the beginning of its transaction.
// The cache of plans that sessions share (tidb_enable_instance_plan_cache) distinguishes plans by the schema with which their transactions
// began, and by the definitions of the tables, but not by what the transaction may read (NewPlanCacheKey in
// pkg/planner/core/plan_cache_utils.go): at READ COMMITTED, an index that has become public since; in an optimistic transaction, none that
// had no entries when it began.
func (s *clientSession) withoutSharing(stmt ast.StmtNode) (end func()) {
	vars := s.GetSessionVars()
	if !variable.EnableInstancePlanCache.Load() || !vars.InTxn() || vars.TxnCtx.IsPessimistic {
		return func() {}
	}
	switch stmt.(type) {
	case *ast.SelectStmt, *ast.SetOprStmt, *ast.InsertStmt, *ast.UpdateStmt, *ast.DeleteStmt, *ast.ExplainStmt, *ast.TraceStmt:
	default: // it may set these variables
		return func() {}
	}
	prepared, others := vars.EnablePreparedPlanCache, vars.EnableNonPreparedPlanCache
	vars.EnablePreparedPlanCache, vars.EnableNonPreparedPlanCache = false, false
	return func() { vars.EnablePreparedPlanCache, vars.EnableNonPreparedPlanCache = prepared, others }
}

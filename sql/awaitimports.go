package sql

import (
	"context"

	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/sessionctx"

	"fastddl/ddl/schema"
	"fastddl/load/jobs"
)

// An import gives its table another ID, as TRUNCATE does. DDL that was planned before finds no table when its turn comes: so it waits here
// before it is planned, and an import waits for DDL likewise. What slips through fails in the queue, by the ID or the definition.

// awaitImports waits until no import is under way into the tables.
func (e *executor) awaitImports(sctx sessionctx.Context, names ...*ast.TableName) error {
	if e.layer.imports == nil {
		return nil
	}
	return clientError(e.layer.ddl.Await(sctx.GetSessionVars(), func() bool {
		for _, name := range names {
			if e.layer.imports.Exclusion.Check(jobs.TableName{DB: name.Schema.L, Table: name.Name.L}) != nil {
				return false
			}
		}
		return true
	}))
}

// altered are the tables that an ALTER TABLE is about.
func altered(stmt *ast.AlterTableStmt) []*ast.TableName {
	names := []*ast.TableName{stmt.Table}
	for _, spec := range stmt.Specs {
		if spec.Tp == ast.AlterTableExchangePartition {
			names = append(names, spec.NewTable)
		}
	}
	return names
}

// TruncateTable implements ddl.Executor.
func (e *executor) TruncateTable(sctx sessionctx.Context, table ast.Ident) error {
	if err := e.awaitImports(sctx, &ast.TableName{Schema: table.Schema, Name: table.Name}); err != nil {
		return err
	}
	return e.Executor.TruncateTable(sctx, table)
}

// DropTable implements ddl.Executor.
func (e *executor) DropTable(sctx sessionctx.Context, stmt *ast.DropTableStmt) error {
	if err := e.awaitImports(sctx, stmt.Tables...); err != nil {
		return err
	}
	return e.Executor.DropTable(sctx, stmt)
}

// RenameTable implements ddl.Executor.
func (e *executor) RenameTable(sctx sessionctx.Context, stmt *ast.RenameTableStmt) error {
	for _, pair := range stmt.TableToTables {
		if err := e.awaitImports(sctx, pair.OldTable); err != nil {
			return err
		}
	}
	return e.Executor.RenameTable(sctx, stmt)
}

// awaitDDL waits until no DDL that stands in TiDB's queue is about a table. It says whether it had to.
func (s *clientSession) awaitDDL(ctx context.Context, name *ast.TableName) (waited bool, err error) {
	db := name.Schema
	if db.L == "" {
		db = pmodel.NewCIStr(s.GetSessionVars().CurrentDB)
	}
	var failed error
	err = s.layer.ddl.Await(s.GetSessionVars(), func() bool {
		if s.layer.imports.Exclusion.Check(jobs.TableName{DB: db.L, Table: name.Name.L}) != nil {
			return true // of an import, which is an error
		}
		ahead, err := schema.JobsAhead(ctx, s.layer.ddl.Sessions(), db.L, name.Name.L)
		if err != nil || len(ahead) == 0 {
			failed = err
			return true
		}
		for _, id := range ahead {
			if s.isImport(id) {
				return true
			}
		}
		waited = true
		return false
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return false, clientError(err)
	}
	return waited, nil
}

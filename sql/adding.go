package sql

import (
	"context"

	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/table/temptable"

	"fastddl/load/jobs"
)

// adding is a statement that adds rows to tables. TiDB gives the metadata lock its tables some time after it has begun; an import must not
// take it for one that does not use its table in between.
type adding struct {
	// version is a schema version that the statement's own is not older than, read before it asked whether its tables are imported.
	version int64
	tables  []jobs.TableName
}

// beginAdding registers a statement that adds rows to tables, until end is called, and refuses it if one of them is being imported. It
// registers before it asks: an import closes its table before it publishes the version that it waits for, and waits for each statement that
// is registered with an older one. So a statement that did not see the import is waited for.
func (s *clientSession) beginAdding(stmt ast.StmtNode) (end func(), err error) {
	end = func() {}
	if s.layer.imports == nil {
		return end, nil
	}
	tables := s.addedTo(stmt)
	if len(tables) == 0 {
		return end, nil
	}
	s.adding.Store(&adding{version: s.layer.dom.InfoSchema().SchemaMetaVersion(), tables: tables})
	end = func() { s.adding.Store(nil) }
	for _, table := range tables {
		if err := s.layer.imports.Exclusion.Check(table); err != nil {
			end()
			return nil, err
		}
	}
	return end, nil
}

// addedTo are the tables that a statement may add rows to.
func (s *clientSession) addedTo(stmt ast.StmtNode) (tables []jobs.TableName) {
	db := s.GetSessionVars().CurrentDB
	if p := s.prepared(stmt); p != nil {
		db = p.StmtDB
	}
	add := func(n *ast.TableName) {
		name := jobs.TableName{DB: n.Schema.L, Table: n.Name.L}
		if name.DB == "" {
			name.DB = pmodel.NewCIStr(db).L
		}
		if !s.isTemporary(name) {
			tables = append(tables, name)
		}
	}
	s.executes(stmt, func(inner ast.StmtNode) {
		switch inner := inner.(type) {
		case *ast.InsertStmt:
			if inner.Table == nil || inner.Table.TableRefs == nil {
				return
			}
			if source, ok := inner.Table.TableRefs.Left.(*ast.TableSource); ok {
				if name, ok := source.Source.(*ast.TableName); ok {
					add(name)
				}
			}
		case *ast.LoadDataStmt:
			add(inner.Table)
		}
	})
	return tables
}

// isTemporary says that a name is that of a temporary table of the session, which hides another of that name.
func (s *clientSession) isTemporary(name jobs.TableName) bool {
	if s.GetSessionVars().LocalTemporaryTables == nil {
		return false
	}
	schema := temptable.AttachLocalTemporaryTableInfoSchema(s.Session, s.layer.dom.InfoSchema())
	table, err := schema.TableByName(context.Background(), pmodel.NewCIStr(name.DB), pmodel.NewCIStr(name.Table))
	return err == nil && table.Meta().TempTableType != 0
}

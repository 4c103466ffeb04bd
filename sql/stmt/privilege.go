package stmt

import (
	"fmt"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser/ast"

	"fastddl/sql/sqlerr"
)

// privilege is one that a statement needs: on a table, on a database if table is
// empty, or globally if both are. An empty db together with a table is the
// current database.
type privilege struct {
	auth      string // a sqlparser.AuthType
	db, table string
	global    bool
}

func superPrivilege() []privilege {
	return []privilege{{auth: sqlparser.AuthType_SUPER, global: true}}
}

func onTable(auth string, t *ast.TableName) privilege {
	return privilege{auth: auth, db: t.Schema.O, table: t.Name.O}
}

// authorize checks that the user has all the privileges.
func authorize(ctx *gms.Context, catalog gms.Catalog, wanted []privilege) error {
	handler := catalog.AuthorizationHandler()
	for _, p := range wanted {
		info := sqlparser.AuthInformation{AuthType: p.auth}
		switch {
		case p.global:
			info.TargetType = sqlparser.AuthTargetType_Global
		case p.table == "":
			info.TargetType = sqlparser.AuthTargetType_DatabaseIdentifiers
			info.TargetNames = []string{p.db}
		default:
			info.TargetType = sqlparser.AuthTargetType_SingleTableIdentifier
			info.TargetNames = []string{p.db, p.table}
		}
		if err := handler.HandleAuth(ctx, handler.NewQueryState(ctx), info); err != nil {
			return denied(ctx, p, err)
		}
	}
	return nil
}

// denied words the refusal of a privilege as MySQL does.
func denied(ctx *gms.Context, p privilege, err error) error {
	if !gms.ErrPrivilegeCheckFailed.Is(err) && !gms.ErrTableAccessDeniedForUser.Is(err) && !gms.ErrDatabaseAccessDeniedForUser.Is(err) {
		return err
	}
	client := ctx.Client()
	user := fmt.Sprintf("'%s'@'%s'", client.User, client.Address)
	switch {
	case p.global:
		return sqlerr.New(errno.ErrSpecificAccessDenied, p.auth)
	case p.table == "":
		return sqlerr.Newf(errno.ErrDBaccessDenied, "Access denied for user %s to database '%s'", user, p.db)
	default:
		return sqlerr.Newf(errno.ErrTableaccessDenied, "%s command denied to user %s for table '%s'", p.auth, user, p.table)
	}
}

// ddlPrivileges lists what TiDB and MySQL ask for.
func ddlPrivileges(stmt ast.StmtNode) []privilege {
	switch stmt := stmt.(type) {
	case *ast.CreateDatabaseStmt:
		return []privilege{{auth: sqlparser.AuthType_CREATE, db: stmt.Name.O}}
	case *ast.AlterDatabaseStmt:
		return []privilege{{auth: sqlparser.AuthType_ALTER, db: stmt.Name.O}}
	case *ast.DropDatabaseStmt:
		return []privilege{{auth: sqlparser.AuthType_DROP, db: stmt.Name.O}}
	case *ast.CreateTableStmt:
		out := []privilege{onTable(sqlparser.AuthType_CREATE, stmt.Table)}
		if stmt.ReferTable != nil {
			out = append(out, onTable(sqlparser.AuthType_SELECT, stmt.ReferTable))
		}
		return out
	case *ast.AlterTableStmt:
		return alterPrivileges(stmt)
	case *ast.DropTableStmt:
		return onTables(sqlparser.AuthType_DROP, stmt.Tables)
	case *ast.TruncateTableStmt:
		return []privilege{onTable(sqlparser.AuthType_DROP, stmt.Table)}
	case *ast.RenameTableStmt:
		var out []privilege
		for _, t := range stmt.TableToTables {
			out = append(out, renamePrivileges(t.OldTable, t.NewTable)...)
		}
		return out
	case *ast.CreateIndexStmt:
		return []privilege{onTable(sqlparser.AuthType_INDEX, stmt.Table)}
	case *ast.DropIndexStmt:
		return []privilege{onTable(sqlparser.AuthType_INDEX, stmt.Table)}
	}
	return superPrivilege()
}

func alterPrivileges(stmt *ast.AlterTableStmt) []privilege {
	out := []privilege{onTable(sqlparser.AuthType_ALTER, stmt.Table)}
	for _, spec := range stmt.Specs {
		if spec.Tp == ast.AlterTableRenameTable {
			out = append(out, renamePrivileges(stmt.Table, spec.NewTable)...)
		}
	}
	return out
}

func renamePrivileges(from, to *ast.TableName) []privilege {
	return []privilege{
		onTable(sqlparser.AuthType_ALTER, from), onTable(sqlparser.AuthType_DROP, from),
		onTable(sqlparser.AuthType_CREATE, to), onTable(sqlparser.AuthType_INSERT, to),
	}
}

func onTables(auth string, tables []*ast.TableName) []privilege {
	out := make([]privilege, 0, len(tables))
	for _, t := range tables {
		out = append(out, onTable(auth, t))
	}
	return out
}

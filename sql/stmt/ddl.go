package stmt

import (
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"

	"fastddl/sql/sqlerr"
)

// ddlCommand is a data definition statement. It keeps the text and parses it
// for every run: whoever executes the tree may change it.
type ddlCommand struct {
	parser *Parser
	text   string
	mode   mysql.SQLMode
	rights []privilege
}

// newDDL makes the statement, or refuses what the server does not do.
func (p *Parser) newDDL(stmt ast.StmtNode, text string, mode mysql.SQLMode) (sqlparser.Statement, error) {
	if err := refuse(stmt); err != nil {
		return nil, err
	}
	return inject(&ddlCommand{parser: p, text: text, mode: mode, rights: ddlPrivileges(stmt)}), nil
}

func notSupported(what string) error { return sqlerr.New(errno.ErrNotSupportedYet, what) }

// refuse returns the error of a statement that cannot be executed at all.
func refuse(stmt ast.StmtNode) error {
	switch stmt := stmt.(type) {
	case *ast.CreateTableStmt:
		if stmt.TemporaryKeyword != ast.TemporaryNone {
			return notSupported("CREATE TEMPORARY TABLE")
		}
		if stmt.Select != nil {
			return notSupported("CREATE TABLE ... SELECT")
		}
	case *ast.CreateDatabaseStmt, *ast.AlterDatabaseStmt, *ast.DropDatabaseStmt, *ast.AlterTableStmt, *ast.DropTableStmt,
		*ast.TruncateTableStmt, *ast.RenameTableStmt, *ast.CreateIndexStmt, *ast.DropIndexStmt:
	default:
		words := strings.Fields(stmt.OriginalText())
		return notSupported(strings.ToUpper(strings.Join(words[:min(2, len(words))], " ")))
	}
	return nil
}

func (c *ddlCommand) schema() gms.Schema { return types.OkResultSchema }

func (c *ddlCommand) readOnly() bool { return false }

func (c *ddlCommand) privileges() []privilege { return c.rights }

func (c *ddlCommand) run(ctx *gms.Context, env environment) ([]gms.Row, error) {
	stmt, err := c.parser.parseTiDB(c.text, c.mode)
	if err != nil {
		return nil, err
	}
	if err := env.session.CommitImplicitly(ctx); err != nil {
		return nil, err
	}
	if drop, ok := stmt.(*ast.DropTableStmt); ok && drop.TemporaryKeyword != ast.TemporaryNone {
		return dropTemporary(ctx, drop)
	}
	dropped, nothingLeft, err := dropConstraints(stmt)
	if err != nil {
		return nil, err
	}
	if !nothingLeft {
		warnings, err := c.parser.opts.DDL.Execute(ctx, Request{
			Stmt:      stmt,
			SQL:       c.text,
			CurrentDB: ctx.GetCurrentDatabase(),
			ConnID:    uint64(ctx.Session.ID()),
			Loc:       env.session.Location(),
			SQLMode:   c.mode,
			Collation: ctx.Session.GetCollation().Name(),
			Priority:  env.session.ReorgPriority(),
		})
		if err != nil {
			return nil, err
		}
		addWarnings(ctx, warnings)
	} else if err := env.mustExist(ctx, stmt.(*ast.AlterTableStmt).Table); err != nil {
		return nil, err
	}
	addWarnings(ctx, dropped)
	if drop, ok := stmt.(*ast.DropDatabaseStmt); ok && strings.EqualFold(drop.Name.O, ctx.GetCurrentDatabase()) {
		ctx.SetCurrentDatabase("")
	}
	return okRows(), nil
}

// dropTemporary executes DROP TEMPORARY TABLE: there are no temporary tables.
func dropTemporary(ctx *gms.Context, stmt *ast.DropTableStmt) ([]gms.Row, error) {
	names := make([]string, 0, len(stmt.Tables))
	for _, t := range stmt.Tables {
		names = append(names, qualified(t, ctx.GetCurrentDatabase()))
	}
	unknown := sqlerr.New(errno.ErrBadTable, strings.Join(names, ","))
	if !stmt.IfExists {
		return nil, unknown
	}
	addWarnings(ctx, []Warning{{Level: LevelNote, Code: errno.ErrBadTable, Message: unknown.Message}})
	return okRows(), nil
}

// qualified is the name of a table with its database.
func qualified(t *ast.TableName, currentDB string) string {
	if t.Schema.O != "" {
		currentDB = t.Schema.O
	}
	return currentDB + "." + t.Name.O
}

// mustExist returns error 1146 or 1046 if there is no such table.
func (env environment) mustExist(ctx *gms.Context, t *ast.TableName) error {
	db := t.Schema.O
	if db == "" {
		db = ctx.GetCurrentDatabase()
	}
	if db == "" {
		return sqlerr.New(errno.ErrNoDB)
	}
	database, err := env.catalog.Database(ctx, db)
	if err != nil {
		return err
	}
	_, ok, err := database.GetTableInsensitive(ctx, t.Name.O)
	if err != nil {
		return err
	}
	if !ok {
		return sqlerr.New(errno.ErrNoSuchTable, db, t.Name.O)
	}
	return nil
}

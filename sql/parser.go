package sql

import (
	"context"
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/pingcap/tidb/pkg/parser/mysql"
)

// observingParser tells the session what kind of statement it is about to run.
type observingParser struct{ gms.Parser }

// Parse implements sql.Parser.
func (p *observingParser) Parse(ctx *gms.Context, query string, multi bool) (sqlparser.Statement, string, string, error) {
	return p.ParseWithOptions(ctx, query, ';', multi, gms.LoadSqlMode(ctx).ParserOptions())
}

// ParseWithOptions implements sql.Parser.
func (p *observingParser) ParseWithOptions(ctx context.Context, query string, delimiter rune, multi bool, options sqlparser.ParserOptions) (sqlparser.Statement, string, string, error) {
	if s, ok := ownSession(ctx); ok {
		if alter, length, ok := setPassword(s, query); ok {
			stmt, _, _, err := p.Parser.ParseWithOptions(ctx, alter, delimiter, false, options)
			return stmt, alter, query[length:], err
		}
	}
	stmt, text, remainder, err := p.Parser.ParseWithOptions(ctx, query, delimiter, multi, options)
	observe(ctx, text, stmt)
	return stmt, text, remainder, err
}

// ParseOneWithOptions implements sql.Parser.
func (p *observingParser) ParseOneWithOptions(ctx context.Context, query string, options sqlparser.ParserOptions) (sqlparser.Statement, int, error) {
	if s, ok := ownSession(ctx); ok {
		if alter, length, ok := setPassword(s, query); ok {
			stmt, _, err := p.Parser.ParseOneWithOptions(ctx, alter, options)
			return stmt, length, err
		}
	}
	stmt, next, err := p.Parser.ParseOneWithOptions(ctx, query, options)
	observe(ctx, query, stmt)
	return stmt, next, err
}

func observe(ctx context.Context, text string, stmt sqlparser.Statement) {
	s, ok := ownSession(ctx)
	if !ok || stmt == nil {
		return
	}
	if _, ok := stmt.(*sqlparser.Show); ok {
		s.showing = true
	}
	if containsFold(text, mdlViewName) {
		redirectMDLView(stmt, s.GetCurrentDatabase())
	}
}

// redirectMDLView makes mysql.tidb_mdl_view the table of that name in
// information_schema: go-mysql-server's database mysql takes no further tables.
func redirectMDLView(stmt sqlparser.Statement, currentDB string) {
	// The visitor returns no error.
	_ = sqlparser.Walk(func(node sqlparser.SQLNode) (bool, error) {
		aliased, ok := node.(*sqlparser.AliasedTableExpr)
		if !ok {
			return true, nil
		}
		name, ok := aliased.Expr.(sqlparser.TableName)
		if !ok || !strings.EqualFold(name.Name.String(), mdlViewName) {
			return true, nil
		}
		db := name.DbQualifier.String()
		if db == "" {
			db = currentDB
		}
		if strings.EqualFold(db, mysql.SystemDB) {
			name.DbQualifier = sqlparser.NewTableIdent(gms.InformationSchemaDatabaseName)
			aliased.Expr = name
		}
		return true, nil
	}, stmt)
}

// containsFold says whether s contains the lower-case text, ignoring case.
func containsFold(s, lower string) bool {
	for i := 0; i+len(lower) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(lower)], lower) {
			return true
		}
	}
	return false
}

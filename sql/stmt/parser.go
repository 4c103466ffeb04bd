package stmt

import (
	"context"
	"errors"
	"strings"
	"sync"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"

	// TiDB's parser makes its literals through a driver.
	_ "github.com/pingcap/tidb/pkg/types/parser_driver"

	"fastddl/sql/sqlerr"
)

// Parser is the engine's parser: set it as EngineOverrides.Builder.Parser. It
// may be used concurrently.
type Parser struct {
	engine *gms.MysqlParser
	opts   Options
	tidb   sync.Pool // of *parser.Parser, which is not safe for concurrent use
}

var _ gms.Parser = (*Parser)(nil)

// NewParser returns a parser that hands our statements to the given components.
func NewParser(opts Options) (*Parser, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	return &Parser{
		engine: gms.NewMysqlParser(),
		opts:   opts,
		tidb:   sync.Pool{New: func() any { return parser.New() }},
	}, nil
}

// ParseSimple implements sql.Parser.
func (p *Parser) ParseSimple(query string) (sqlparser.Statement, error) {
	stmt, _, err := p.parse(context.Background(), query, ';', false, sqlparser.ParserOptions{})
	return stmt, err
}

// Parse implements sql.Parser.
func (p *Parser) Parse(ctx *gms.Context, query string, multi bool) (sqlparser.Statement, string, string, error) {
	return p.ParseWithOptions(ctx, query, ';', multi, gms.LoadSqlMode(ctx).ParserOptions())
}

// ParseWithOptions implements sql.Parser.
func (p *Parser) ParseWithOptions(ctx context.Context, query string, delimiter rune, multi bool, options sqlparser.ParserOptions) (sqlparser.Statement, string, string, error) {
	text := gms.RemoveSpaceAndDelimiter(query, delimiter)
	stmt, next, err := p.parse(ctx, text, delimiter, multi, options)
	if next <= 0 || next >= len(text) {
		return stmt, text, "", err
	}
	return stmt, gms.RemoveSpaceAndDelimiter(text[:next], delimiter), text[next:], err
}

// ParseOneWithOptions implements sql.Parser.
func (p *Parser) ParseOneWithOptions(ctx context.Context, query string, options sqlparser.ParserOptions) (sqlparser.Statement, int, error) {
	return p.parse(ctx, query, ';', true, options)
}

// parse parses the first statement of a text and returns where the next one
// starts. Unless multi, there must be no next one.
func (p *Parser) parse(ctx context.Context, text string, delimiter rune, multi bool, options sqlparser.ParserOptions) (sqlparser.Statement, int, error) {
	r := routeOf(text)
	if r == routeEngine {
		return p.parseForEngine(ctx, text, delimiter, multi, options)
	}
	mode := sqlMode(ctx, options)
	s := scanner{text: text, noBackslash: mode.HasNoBackslashEscapesMode()}
	end := s.end(delimiter)
	next := min(end+len(string(delimiter)), len(text))
	if !multi && strings.TrimSpace(strings.Trim(text[end:], string(delimiter))) != "" {
		return nil, 0, sqlerr.Syntax(text, next)
	}
	first := strings.TrimSpace(text[:end])
	if r == routeMaintenance {
		m, ok, err := p.parseMaintenance(first, mode)
		if err != nil {
			return nil, 0, err
		}
		if !ok {
			return p.parseForEngine(ctx, text, delimiter, multi, options)
		}
		return inject(m), next, nil
	}
	stmt, err := p.ours(first, mode)
	if err != nil {
		return nil, 0, err
	}
	return stmt, next, nil
}

// parseForEngine parses a statement that is go-mysql-server's, or turns out to
// be ours only when parsed.
func (p *Parser) parseForEngine(ctx context.Context, text string, delimiter rune, multi bool, options sqlparser.ParserOptions) (sqlparser.Statement, int, error) {
	var (
		stmt sqlparser.Statement
		next = len(text)
		err  error
	)
	if multi {
		stmt, next, err = p.engine.ParseOneWithOptions(ctx, text, options)
	} else {
		stmt, err = sqlparser.ParseWithOptions(ctx, text, options)
	}
	if errors.Is(err, sqlparser.ErrEmpty) {
		return nil, next, err
	}
	if err != nil {
		if changed, at := forShareToUpdate(text); len(at) > 0 {
			stmt, next, again := p.parseForEngine(ctx, changed, delimiter, multi, options)
			if again == nil {
				return stmt, next - countBelow(at, next), nil
			}
		}
		return nil, 0, sqlerr.FromVitess(text, err)
	}
	if _, ok := stmt.(*sqlparser.LockTables); ok {
		return inject(lockTables{}), next, nil
	}
	if changesSchema(stmt) {
		first := gms.RemoveSpaceAndDelimiter(text[:min(next, len(text))], delimiter)
		stmt, err = p.ours(first, sqlMode(ctx, options))
		return stmt, next, err
	}
	if Locks(stmt) {
		if c, ok := ctx.(*gms.Context); ok {
			if session, ok := c.Session.(Session); ok {
				session.SetLocking(true)
			}
		}
	}
	return stmt, next, nil
}

// countBelow counts the offsets up to limit.
func countBelow(offsets []int, limit int) (n int) {
	for _, o := range offsets {
		if o <= limit {
			n++
		}
	}
	return n
}

// ours makes a statement of ours from its text.
func (p *Parser) ours(text string, mode mysql.SQLMode) (sqlparser.Statement, error) {
	stmt, err := p.parseTiDB(text, mode)
	if err != nil {
		return nil, err
	}
	if admin, ok := stmt.(*ast.AdminStmt); ok {
		c, err := p.newAdmin(admin)
		if err != nil {
			return nil, err
		}
		return inject(c), nil
	}
	return p.newDDL(stmt, text, mode)
}

// parseTiDB parses one statement with TiDB's parser.
func (p *Parser) parseTiDB(text string, mode mysql.SQLMode) (ast.StmtNode, error) {
	tp := p.tidb.Get().(*parser.Parser)
	defer p.tidb.Put(tp)
	tp.SetSQLMode(mode)
	stmt, err := tp.ParseOneStmt(text, "", "")
	if err != nil {
		return nil, sqlerr.FromTiDB(text, err)
	}
	return stmt, nil
}

// sqlMode is the session's SQL mode in TiDB's form. Modes that TiDB does not
// know mean nothing to its parser.
func sqlMode(ctx context.Context, options sqlparser.ParserOptions) mysql.SQLMode {
	var mode mysql.SQLMode
	if c, ok := ctx.(*gms.Context); ok && c.Session != nil {
		for _, name := range strings.Split(gms.LoadSqlMode(c).String(), ",") {
			mode |= mysql.Str2SQLMode[strings.ToUpper(strings.TrimSpace(name))]
		}
	}
	if options.AnsiQuotes {
		mode |= mysql.ModeANSIQuotes
	}
	if options.PipesAsConcat {
		mode |= mysql.ModePipesAsConcat
	}
	return mode
}

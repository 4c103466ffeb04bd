package sql

import (
	"context"
	"reflect"
	"strings"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/planner/core/resolve"
	"github.com/pingcap/tidb/pkg/util/sqlexec"

	"fastddl/internal/asttree"
)

// EXPLAIN CREATE INDEX is no syntax of TiDB's parser, as EXPLAIN ALTER TABLE is. A text that the parser has refused is cut into
// statements and words by TiDB's scanner; what EXPLAIN stands before is parsed by TiDB's parser in two parts: the words before
// CREATE with another statement behind them, and CREATE INDEX.

// anyStatement stands in for CREATE INDEX behind EXPLAIN and its options.
const anyStatement = "SELECT 1"

// token is a word of a text: what the scanner takes it for, and where it begins.
type token struct{ kind, offset int }

// lex is the scanner's Lex for any type of its argument, which is not exported.
func lex[S interface{ Lex(*T) int }, T any](s S) (kind, offset int) {
	var v T
	kind = s.Lex(&v)
	// The field that Scanner.Lex has set (lexer.go of TiDB's parser).
	return kind, int(reflect.ValueOf(&v).Elem().FieldByName("offset").Int())
}

// maxTokens bounds the words of a text that is looked at.
const maxTokens = 1 << 16

// scan returns the words of a text; nil if the scanner does not know one, or there are too many.
func scan(text string, mode mysql.SQLMode) (tokens []token) {
	s := parser.NewScanner(text)
	s.SetSQLMode(mode)
	last := -1
	for {
		kind, offset := lex(s)
		if kind == 0 { // the end
			break
		}
		// The scanner stays before a character that it does not know, for ever.
		if kind == kindInvalid || offset <= last || len(tokens) == maxTokens {
			return nil
		}
		last = offset
		tokens = append(tokens, token{kind, offset})
	}
	if _, errs := s.Errors(); len(errs) > 0 {
		return nil
	}
	return tokens
}

// kindOfWord is what the scanner takes a word for.
func kindOfWord(word string) int {
	kind, _ := lex(parser.NewScanner(word))
	return kind
}

// Kinds of words that are looked for.
var (
	kindCreate    = kindOfWord("CREATE")
	kindInvalid   = kindOfWord("\x01")
	kindSemicolon = kindOfWord(";")
	kindsExplain  = map[int]bool{kindOfWord("EXPLAIN"): true, kindOfWord("DESCRIBE"): true, kindOfWord("DESC"): true}
)

// mayExplainIndex says whether a text can have EXPLAIN CREATE INDEX.
func mayExplainIndex(text string) bool {
	upper := strings.ToUpper(text)
	return strings.Contains(upper, "CREATE") && (strings.Contains(upper, "EXPLAIN") || strings.Contains(upper, "DESC"))
}

// parseExplains returns the statements of a text that TiDB's parser has refused, if that is for EXPLAIN CREATE INDEX only.
func (s *clientSession) parseExplains(ctx context.Context, text string) (stmts []ast.StmtNode, ok bool) {
	if !mayExplainIndex(text) {
		return nil, false
	}
	tokens := scan(text, s.GetSessionVars().SQLMode)
	explains := false
	for first := 0; first < len(tokens); {
		end := first // of the statement, behind its last word
		for end < len(tokens) && tokens[end].kind != kindSemicolon {
			end++
		}
		upTo := len(text)
		if end < len(tokens) {
			upTo = tokens[end].offset
		}
		if end > first {
			stmt, found := s.parseExplain(ctx, text[tokens[first].offset:upTo], tokens[first:end])
			explains = explains || found
			if !found {
				parsed, err := s.parseByTiDB(ctx, text[tokens[first].offset:upTo])
				if err != nil || len(parsed) != 1 {
					return nil, false
				}
				stmt = parsed[0]
			}
			stmts = append(stmts, stmt)
		}
		first = end + 1
	}
	return stmts, explains
}

// parseExplain parses one statement if it is EXPLAIN CREATE INDEX.
func (s *clientSession) parseExplain(ctx context.Context, text string, tokens []token) (ast.StmtNode, bool) {
	if !kindsExplain[tokens[0].kind] {
		return nil, false
	}
	for _, t := range tokens {
		if t.kind != kindCreate {
			continue
		}
		at := t.offset - tokens[0].offset
		before, err := s.parseByTiDB(ctx, text[:at]+anyStatement)
		if err != nil || len(before) != 1 {
			return nil, false
		}
		explain, isExplain := before[0].(*ast.ExplainStmt)
		behind, err := s.parseByTiDB(ctx, text[at:])
		if err != nil || len(behind) != 1 || !isExplain {
			return nil, false
		}
		create, isIndex := behind[0].(*ast.CreateIndexStmt)
		if _, stands := explain.Stmt.(*ast.SelectStmt); !isIndex || !stands {
			return nil, false
		}
		explain.Stmt = create
		explain.SetText(nil, strings.TrimSpace(text))
		return explain, true
	}
	return nil, false
}

// parseByTiDB parses a text as the session's next statement.
func (s *clientSession) parseByTiDB(ctx context.Context, text string) ([]ast.StmtNode, error) {
	vars := s.GetSessionVars()
	if p, ok := s.Session.(sqlexec.SQLParser); ok {
		stmts, _, err := p.ParseSQL(ctx, text, vars.GetParseParams()...)
		return stmts, err
	}
	return s.Session.Parse(ctx, text)
}

// indexExplain returns the EXPLAIN CREATE INDEX that a text of one statement is; nil if it is none, or TiDB's parser knows it.
func (s *clientSession) indexExplain(ctx context.Context, text string) *ast.ExplainStmt {
	if !mayExplainIndex(text) {
		return nil
	}
	if _, err := s.parseByTiDB(ctx, text); err == nil {
		return nil
	}
	stmts, ok := s.parseExplains(ctx, text)
	if !ok || len(stmts) != 1 {
		return nil
	}
	explain, _ := stmts[0].(*ast.ExplainStmt)
	return explain
}

// PrepareStmt implements session.Session. What TiDB's parser does not know is prepared as another statement, which it is then put in
// the place of; nothing of TiDB's executes it.
func (s *clientSession) PrepareStmt(text string) (id uint32, params int, fields []*resolve.ResultField, err error) {
	ctx := context.Background()
	defer s.preparing(ctx, text)()
	explain := s.indexExplain(ctx, text)
	if explain == nil {
		id, params, fields, err = s.Session.PrepareStmt(text)
		if p, ok := s.GetSessionVars().PreparedStmts[id].(*plannercore.PlanCacheStmt); ok && err == nil && p.PreparedAst != nil {
			if known, ok := p.PreparedAst.Stmt.(*ast.ExplainStmt); ok && s.explainsBuild(known) {
				fields = explainFields(known)
			}
		}
		return id, params, fields, err
	}
	if id, _, _, err = s.Session.PrepareStmt(anyStatement); err != nil {
		return 0, 0, nil, err
	}
	s.putInPlace(id, explain, text)
	return id, 0, explainFields(explain), nil
}

// prepareText executes PREPARE of a statement that TiDB's parser does not know; done is false for others.
func (s *clientSession) prepareText(ctx context.Context, stmt *ast.PrepareStmt) (done bool, err error) {
	text := stmt.SQLText
	if stmt.SQLVar != nil {
		value, ok := s.GetSessionVars().GetUserVarVal(strings.ToLower(stmt.SQLVar.Name))
		if !ok {
			return false, nil
		}
		if text, err = value.ToString(); err != nil {
			return false, nil // TiDB says why
		}
	}
	explain := s.indexExplain(ctx, text)
	if explain == nil {
		return false, nil
	}
	placed := asttree.Copy(stmt)
	placed.SQLText, placed.SQLVar = anyStatement, nil
	if _, err := s.Session.ExecuteStmt(ctx, &placed); err != nil {
		return true, err
	}
	s.putInPlace(s.GetSessionVars().PreparedStmtNameToID[stmt.Name], explain, text)
	return true, nil
}

// putInPlace makes a prepared statement one that TiDB does not know.
func (s *clientSession) putInPlace(id uint32, stmt ast.StmtNode, text string) {
	if p, ok := s.GetSessionVars().PreparedStmts[id].(*plannercore.PlanCacheStmt); ok {
		p.PreparedAst.Stmt, p.StmtText = stmt, text
	}
}

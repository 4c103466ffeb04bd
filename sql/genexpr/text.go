package genexpr

import (
	"fmt"
	"strings"
	"sync"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
	_ "github.com/pingcap/tidb/pkg/types/parser_driver" // literals
)

var parsers = sync.Pool{New: func() any { return parser.New() }}

// parse parses an expression as it is stored.
func parse(text string) (ast.ExprNode, error) {
	p := parsers.Get().(*parser.Parser)
	defer parsers.Put(p)
	node, err := p.ParseOneStmt("select "+text, "", "")
	if err != nil {
		return nil, fmt.Errorf("parse expression %s: %w", text, err)
	}
	s, ok := node.(*ast.SelectStmt)
	if !ok || s.Fields == nil || len(s.Fields.Fields) != 1 || s.Fields.Fields[0].Expr == nil {
		return nil, fmt.Errorf("parse expression %s: it is no expression", text)
	}
	return s.Fields.Fields[0].Expr, nil
}

// textFlags are how an expression is written for GMS: as it is stored, without
// the character sets of literals, which the statements of clients do not have
// either.
const textFlags = format.RestoreStringSingleQuotes |
	format.RestoreKeyWordLowercase | format.RestoreNameBackQuotes | format.RestoreSpacesAroundBinaryOperation |
	format.RestoreStringWithoutCharset | format.RestoreWithoutSchemaName | format.RestoreWithoutTableName

// Text returns a stored expression in GMS's words.
func Text(stored string) (string, error) {
	expr, err := parse(stored)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := expr.Restore(format.NewRestoreCtx(textFlags, &b)); err != nil {
		return "", fmt.Errorf("write expression %s: %w", stored, err)
	}
	return b.String(), nil
}

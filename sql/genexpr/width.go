package genexpr

import (
	"math"
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	driver "github.com/pingcap/tidb/pkg/types/parser_driver"
)

// widths finds out how many characters the values of expressions can have. GMS
// does not know: it makes LONGTEXT of most.
type widths struct {
	tbl *model.TableInfo
}

// numberWidth is the width of any number as text.
const numberWidth = 67

// of returns false for an expression whose values have no useful bound.
func (w *widths) of(expr ast.ExprNode) (n int, ok bool) {
	switch x := expr.(type) {
	case *ast.ParenthesesExpr:
		return w.of(x.Expr)
	case *ast.ColumnNameExpr:
		return w.column(x.Name.Name.L)
	case *driver.ValueExpr:
		return literalWidth(&x.Datum)
	case *ast.FuncCallExpr:
		return w.function(x)
	case *ast.FuncCastExpr:
		return w.cast(x)
	case *ast.CaseExpr:
		results := make([]ast.ExprNode, 0, len(x.WhenClauses)+1)
		for _, when := range x.WhenClauses {
			results = append(results, when.Result)
		}
		if x.ElseClause != nil {
			results = append(results, x.ElseClause)
		}
		return w.widest(results)
	case *ast.SetCollationExpr:
		return w.of(x.Expr)
	case *ast.BinaryOperationExpr, *ast.UnaryOperationExpr, *ast.IsNullExpr, *ast.IsTruthExpr,
		*ast.PatternInExpr, *ast.PatternLikeOrIlikeExpr, *ast.PatternRegexpExpr, *ast.BetweenExpr:
		return numberWidth, true
	}
	return 0, false
}

func (w *widths) column(name string) (int, bool) {
	col := model.FindColumnInfo(w.tbl.Columns, name)
	switch {
	case col == nil, types.IsTypeBlob(col.GetType()), col.GetType() == mysql.TypeJSON:
		return 0, false
	case col.GetType() == mysql.TypeEnum, col.GetType() == mysql.TypeSet:
		total, longest := 0, 0
		for _, e := range col.GetElems() {
			n := utf8.RuneCountInString(e)
			total, longest = total+n+1, max(longest, n)
		}
		if col.GetType() == mysql.TypeSet {
			return total, true
		}
		return longest, true
	case types.IsString(col.GetType()):
		return col.GetFlen(), true
	}
	return numberWidth, true
}

func literalWidth(d *types.Datum) (int, bool) {
	text, err := d.ToString()
	if err != nil {
		return 0, d.IsNull()
	}
	return utf8.RuneCountInString(text), true
}

// fixedWidths are the widths of functions that make as many characters of any
// argument.
var fixedWidths = map[string]int{
	"md5": 32, "sha": 40, "sha1": 40, "bin": 64, "oct": 64, "conv": 65, "dayname": 9, "monthname": 9,
	"inet_ntoa": 15, "inet6_ntoa": 39, "bin_to_uuid": 36, "uuid_to_bin": 16, "format": 98, "date_format": 255,
	"time_format": 255, "soundex": 255, "json_type": 20, "char": 64, "inet6_aton": 16,
}

// sameWidth are functions that make no string longer.
var sameWidth = map[string]bool{
	"lower": true, "lcase": true, "upper": true, "ucase": true, "reverse": true, "trim": true, "ltrim": true,
	"rtrim": true, "substring_index": true, "convert": true, "any_value": true,
}

func (w *widths) function(f *ast.FuncCallExpr) (int, bool) {
	name := f.FnName.L
	if n, ok := fixedWidths[name]; ok {
		return n, true
	}
	switch name {
	case "concat":
		return w.sum(f.Args, 0)
	case "concat_ws":
		return w.sum(f.Args[1:], w.separators(f.Args))
	case "coalesce", "ifnull", "nullif", "greatest", "least":
		return w.widest(f.Args)
	case "if":
		return w.widest(f.Args[1:])
	case "elt":
		return w.widest(f.Args[1:])
	case "left", "right":
		return w.atMost(f.Args, 1)
	case "substr", "substring", "mid":
		return w.atMost(f.Args, 2)
	case "lpad", "rpad":
		return number(f.Args, 1)
	case "repeat":
		return w.times(f.Args)
	case "replace":
		return w.replaced(f.Args)
	case "insert":
		return w.sum([]ast.ExprNode{f.Args[0], f.Args[3]}, 0)
	case "hex":
		return w.scaled(f.Args, 2*utf8.UTFMax)
	case "to_base64", "quote":
		return w.scaled(f.Args, 6)
	case "unhex", "from_base64":
		return w.scaled(f.Args, 1)
	case "sha2":
		return 128, true
	}
	if sameWidth[name] {
		return w.of(f.Args[0])
	}
	return 0, false
}

func (w *widths) separators(args []ast.ExprNode) int {
	n, ok := w.of(args[0])
	if !ok {
		return math.MaxInt16
	}
	return n * max(0, len(args)-2)
}

func (w *widths) sum(args []ast.ExprNode, more int) (int, bool) {
	total := more
	for _, arg := range args {
		n, ok := w.of(arg)
		if !ok {
			return 0, false
		}
		total += n
	}
	return total, true
}

func (w *widths) widest(args []ast.ExprNode) (int, bool) {
	widest := 0
	for _, arg := range args {
		n, ok := w.of(arg)
		if !ok {
			return 0, false
		}
		widest = max(widest, n)
	}
	return widest, true
}

func (w *widths) scaled(args []ast.ExprNode, by int) (int, bool) {
	n, ok := w.of(args[0])
	return n * by, ok
}

// atMost is the width of the first argument, or less if argument i is a smaller
// number.
func (w *widths) atMost(args []ast.ExprNode, i int) (int, bool) {
	n, ok := w.of(args[0])
	limit, limited := number(args, i)
	switch {
	case ok && limited:
		return min(n, limit), true
	case limited:
		return limit, true
	}
	return n, ok
}

func (w *widths) times(args []ast.ExprNode) (int, bool) {
	n, ok := w.of(args[0])
	times, known := number(args, 1)
	return n * times, ok && known
}

// replaced is the width of the first argument with each occurrence of the second,
// which has a character at least, replaced by the third.
func (w *widths) replaced(args []ast.ExprNode) (int, bool) {
	n, ok := w.of(args[0])
	to, known := w.of(args[2])
	return n * max(1, to), ok && known
}

// number returns argument i if it is a literal number that is not negative.
func number(args []ast.ExprNode, i int) (int, bool) {
	if i >= len(args) {
		return 0, false
	}
	lit, ok := args[i].(*driver.ValueExpr)
	if !ok || lit.Kind() != types.KindInt64 || lit.GetInt64() < 0 || lit.GetInt64() > math.MaxInt16 {
		return 0, false
	}
	return int(lit.GetInt64()), true
}

func (w *widths) cast(c *ast.FuncCastExpr) (int, bool) {
	if n := c.Tp.GetFlen(); types.IsString(c.Tp.GetType()) && n != types.UnspecifiedLength {
		return n, true
	}
	return w.of(c.Expr)
}

package sql

import (
	"strings"

	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/pingcap/tidb/pkg/parser/mysql"
)

// fixTimes gives the TIME columns of a result the fractional digits that they
// were declared with. go-mysql-server knows one type TIME: it prints microseconds
// if there are any, and tells the client of no digits.
func (e *Engine) fixTimes(r *sqltypes.Result) {
	for i, field := range r.Fields {
		if field.Type != querypb.Type_TIME {
			continue
		}
		digits, ok := e.timeDigits(field)
		if !ok {
			continue
		}
		field.Decimals = uint32(digits)
		for _, row := range r.Rows {
			if !row[i].IsNull() {
				row[i] = sqltypes.MakeTrusted(sqltypes.Time, []byte(withDigits(row[i].ToString(), digits)))
			}
		}
	}
}

// timeDigits returns the declared digits of a column that a result shows.
func (e *Engine) timeDigits(field *querypb.Field) (int, bool) {
	t, ok := e.catalog.Current().Table(field.Database, field.OrgTable)
	if !ok {
		return 0, false
	}
	for _, col := range t.Info.Columns {
		if strings.EqualFold(col.Name.L, field.OrgName) && col.GetType() == mysql.TypeDuration {
			return max(col.GetDecimal(), 0), true
		}
	}
	return 0, false
}

// withDigits cuts or pads the fraction of a time.
func withDigits(text string, digits int) string {
	whole, fraction, _ := strings.Cut(text, ".")
	if digits == 0 {
		return whole
	}
	fraction += "000000"
	return whole + "." + fraction[:digits]
}

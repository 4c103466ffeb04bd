package sqltype

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	gms "github.com/dolthub/go-mysql-server/sql/types"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
)

// Column returns GMS's description of a column of the named table.
func Column(db, table string, col *model.ColumnInfo, codec *Codec) (*sql.Column, error) {
	flag := col.GetFlag()
	out := &sql.Column{
		Name:           col.Name.O,
		Source:         table,
		DatabaseSource: db,
		Type:           codec.Type(),
		Nullable:       !mysql.HasNotNullFlag(flag),
		PrimaryKey:     mysql.HasPriKeyFlag(flag),
		AutoIncrement:  mysql.HasAutoIncrementFlag(flag),
		Comment:        col.Comment,
	}
	if out.AutoIncrement {
		out.Extra = "auto_increment"
	}
	var err error
	if out.Default, err = columnDefault(col, codec); err != nil {
		return nil, fmt.Errorf("default of column %s: %w", col.Name.O, err)
	}
	if mysql.HasOnUpdateNowFlag(flag) {
		out.OnUpdate = sql.NewUnresolvedColumnDefaultValue(now(fsp(&col.FieldType)))
	}
	return out, nil
}

// columnDefault returns nil if the column has no default; a nullable column's
// default is NULL then.
func columnDefault(col *model.ColumnInfo, codec *Codec) (*sql.ColumnDefaultValue, error) {
	value := col.GetDefaultValue()
	if value == nil || mysql.HasAutoIncrementFlag(col.GetFlag()) {
		return nil, nil
	}
	text := fmt.Sprint(value)
	switch {
	case col.DefaultIsExpr:
		return sql.NewUnresolvedColumnDefaultValue("(" + text + ")"), nil
	case codec.Zoned() || isTime(codec.Type()):
		if strings.HasPrefix(strings.ToUpper(text), strings.ToUpper(ast.CurrentTimestamp)) {
			return sql.NewUnresolvedColumnDefaultValue(now(fsp(codec.FieldType()))), nil
		}
	}
	return literalDefault(text, codec, col.Version >= model.ColumnInfoVersion1)
}

func literalDefault(text string, codec *Codec, utc bool) (*sql.ColumnDefaultValue, error) {
	var lit sql.Expression
	switch typ := codec.Type(); {
	case codec.Zoned() && utc:
		lit = &utcLiteral{Literal: expression.NewLiteral(text, gms.LongText)}
	case gms.IsBit(typ):
		var n uint64
		for i := range len(text) {
			n = n<<8 | uint64(text[i])
		}
		lit = expression.NewLiteral(n, gms.Uint64)
	case sql.IsNumberType(typ) && !gms.IsYear(typ):
		v, _, err := typ.Convert(context.Background(), text)
		if err != nil {
			return nil, err
		}
		lit = expression.NewLiteral(v, typ)
	default:
		lit = expression.NewLiteral(text, gms.LongText)
	}
	return sql.NewColumnDefaultValue(lit, codec.Type(), true, false, true)
}

func now(digits int) string {
	if digits == 0 {
		return "CURRENT_TIMESTAMP"
	}
	return "CURRENT_TIMESTAMP(" + strconv.Itoa(digits) + ")"
}

func isTime(t sql.Type) bool { return gms.IsTime(t) }

// utcLiteral is the default of a TIMESTAMP column: a wall clock in UTC, which
// each session sees in its own time zone.
type utcLiteral struct {
	*expression.Literal
}

func (u *utcLiteral) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	text, err := u.Literal.Eval(ctx, row)
	if err != nil {
		return nil, err
	}
	v, _, err := gms.DatetimeMaxPrecision.Convert(ctx, text)
	if err != nil {
		return nil, err
	}
	t, ok := v.(time.Time)
	if !ok || t.Equal(gms.ZeroTime) {
		return v, nil
	}
	return fromUTC(t, Location(ctx)), nil
}

// WithChildren implements sql.Expression.
func (u *utcLiteral) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(u, len(children), 0)
	}
	return u, nil
}

// Located is a session that knows its time zone.
type Located interface {
	Location() *time.Location
}

// Location returns the time zone of a session; UTC for one that has none.
func Location(ctx *sql.Context) *time.Location {
	if s, ok := ctx.Session.(Located); ok {
		return s.Location()
	}
	return time.UTC
}

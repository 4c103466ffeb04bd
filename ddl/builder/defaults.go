package builder

import (
	"strconv"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	"github.com/pingcap/tidb/pkg/types"
	driver "github.com/pingcap/tidb/pkg/types/parser_driver"
	"github.com/pingcap/tidb/pkg/util/dbterror"
)

// currentTimestamp is how a default of the statement's time is stored.
const currentTimestamp = "CURRENT_TIMESTAMP"

// setDefault stores the column's default value as TiDB does: text, in UTC for
// TIMESTAMP.
func (b *columnBuilder) setDefault(expr ast.ExprNode) error {
	value, err := b.defaultValue(expr)
	if err != nil {
		return err
	}
	col := b.col
	if value != nil && (types.IsTypeBlob(col.GetType()) || col.GetType() == mysql.TypeJSON) {
		return dbterror.ErrBlobCantHaveDefault.FastGenByArgs(col.Name.O)
	}
	b.hasDefault = true
	if err := col.SetDefaultValue(value); err != nil {
		return b.invalidDefault()
	}
	// BINARY(n) values are padded with zero bytes.
	text, isText := value.(string)
	if isText && col.GetType() == mysql.TypeString && col.GetCharset() == charset.CharsetBin && len(text) < col.GetFlen() {
		col.DefaultValue = text + strings.Repeat("\x00", col.GetFlen()-len(text))
	}
	return nil
}

func (b *columnBuilder) invalidDefault() error {
	return dbterror.ErrInvalidDefaultValue.FastGenByArgs(b.col.Name.O)
}

// isNow says that expr is CURRENT_TIMESTAMP with the column's precision.
func (b *columnBuilder) isNow(expr ast.ExprNode) bool {
	f, ok := expr.(*ast.FuncCallExpr)
	if !ok || f.FnName.L != ast.CurrentTimestamp {
		return false
	}
	if tp := b.col.GetType(); tp != mysql.TypeTimestamp && tp != mysql.TypeDatetime {
		return false
	}
	fsp := 0
	if len(f.Args) == 1 {
		v, err := literal(f.Args[0])
		if err != nil {
			return false
		}
		fsp = int(v.GetInt64())
	}
	return fsp == b.col.GetDecimal()
}

// defaultValue evaluates a DEFAULT clause to the value that is stored: nil for
// NULL, a string for everything else.
func (b *columnBuilder) defaultValue(expr ast.ExprNode) (any, error) {
	col := b.col
	if f, ok := expr.(*ast.FuncCallExpr); ok {
		switch {
		case b.isNow(expr):
			return currentTimestamp, nil
		case f.FnName.L == ast.CurrentTimestamp, f.FnName.L == ast.CurrentDate:
			return nil, b.invalidDefault()
		}
		return nil, dbterror.ErrDefValGeneratedNamedFunctionIsNotAllowed.FastGenByArgs(col.Name.O, f.FnName.L)
	}
	v, err := literal(expr)
	if err != nil {
		return nil, b.invalidDefault()
	}
	if v.IsNull() {
		return nil, nil
	}
	if v.Kind() == types.KindBinaryLiteral || v.Kind() == types.KindMysqlBit {
		return b.binaryDefault(v)
	}
	switch tp := col.GetType(); {
	case tp == mysql.TypeTimestamp || tp == mysql.TypeDatetime || tp == mysql.TypeDate:
		return b.timeDefault(v)
	case tp == mysql.TypeEnum:
		return b.enumDefault(v)
	case tp == mysql.TypeSet:
		return b.setTypeDefault(v)
	case tp == mysql.TypeBit && (v.Kind() == types.KindInt64 || v.Kind() == types.KindUint64):
		return b.bitDefault(v.GetUint64())
	case tp == mysql.TypeDuration || mysql.IsIntegerType(tp) || tp == mysql.TypeFloat || tp == mysql.TypeDouble:
		// Stored as the column prints it: 1.25 for an INT is 1.
		converted, err := v.ConvertTo(b.env.typeCtx(), &col.FieldType)
		if err != nil {
			return nil, b.invalidDefault()
		}
		v = converted
	}
	return v.ToString()
}

func (b *columnBuilder) timeDefault(v types.Datum) (any, error) {
	d, err := v.ConvertTo(b.env.typeCtx(), &b.col.FieldType)
	if err != nil || d.Kind() != types.KindMysqlTime {
		return nil, b.invalidDefault()
	}
	t := d.GetMysqlTime()
	if t.IsZero() {
		if b.env.SQLMode.HasNoZeroDateMode() && b.env.strict() {
			return nil, b.invalidDefault()
		}
		return t.String(), nil
	}
	if b.col.GetType() == mysql.TypeTimestamp {
		if err := t.ConvertTimeZone(b.env.loc(), time.UTC); err != nil {
			return nil, b.invalidDefault()
		}
	}
	return t.String(), nil
}

func (b *columnBuilder) binaryDefault(v types.Datum) (any, error) {
	switch tp := b.col.GetType(); {
	case tp == mysql.TypeBit:
		n, err := v.GetBinaryLiteral().ToInt(b.env.typeCtx())
		if err != nil {
			return nil, b.invalidDefault()
		}
		return b.bitDefault(n)
	case needsCharset(tp):
		text, err := v.GetBinaryStringDecoded(types.StrictFlags, b.col.GetCharset())
		if err != nil {
			return nil, b.invalidDefault()
		}
		return text, nil
	default:
		n, err := v.GetBinaryLiteral().ToInt(b.env.typeCtx())
		if err != nil {
			return nil, b.invalidDefault()
		}
		return strconv.FormatUint(n, 10), nil
	}
}

func (b *columnBuilder) bitDefault(n uint64) (any, error) {
	if width := b.col.GetFlen(); width < 64 && n >= 1<<uint(width) {
		return nil, b.invalidDefault()
	}
	return types.NewBinaryLiteralFromUint(n, -1).ToString(), nil
}

func (b *columnBuilder) enumDefault(v types.Datum) (any, error) {
	var e types.Enum
	var err error
	if v.Kind() == types.KindInt64 {
		e, err = types.ParseEnumValue(b.col.GetElems(), uint64(v.GetInt64()))
	} else {
		var text string
		if text, err = v.ToString(); err == nil {
			e, err = types.ParseEnumName(b.col.GetElems(), strings.TrimRight(text, " "), b.col.GetCollate())
		}
	}
	if err != nil || e.Value == 0 {
		return nil, b.invalidDefault()
	}
	return e.Name, nil
}

func (b *columnBuilder) setTypeDefault(v types.Datum) (any, error) {
	var s types.Set
	var err error
	if v.Kind() == types.KindInt64 {
		n := v.GetInt64()
		if n < 1 || len(b.col.GetElems()) < 64 && n >= 1<<uint(len(b.col.GetElems())) {
			return nil, b.invalidDefault()
		}
		s, err = types.ParseSetValue(b.col.GetElems(), uint64(n))
	} else {
		var text string
		if text, err = v.ToString(); err == nil && text != "" {
			s, err = types.ParseSetName(b.col.GetElems(), text, b.col.GetCollate())
		}
	}
	if err != nil {
		return nil, b.invalidDefault()
	}
	return s.Name, nil
}

// checkDefault refuses a stored default that the column cannot hold.
func (b *columnBuilder) checkDefault() error {
	if !b.hasDefault {
		return nil
	}
	col := b.col
	value := col.GetDefaultValue()
	switch {
	case value == nil && mysql.HasNotNullFlag(col.GetFlag()),
		value != nil && mysql.HasAutoIncrementFlag(col.GetFlag()):
		return b.invalidDefault()
	case value == nil, value == currentTimestamp && types.IsTypeTime(col.GetType()):
		return nil
	}
	d := types.NewDatum(value)
	if col.GetType() == mysql.TypeBit {
		d = types.NewBinaryLiteralDatum([]byte(value.(string)))
	}
	// A TIMESTAMP is stored in UTC.
	ctx := b.env.typeCtx()
	if _, err := d.ConvertTo(ctx.WithLocation(time.UTC), &col.FieldType); err != nil {
		return b.invalidDefault()
	}
	return nil
}

// literal evaluates a literal, with a sign.
func literal(expr ast.ExprNode) (types.Datum, error) {
	switch x := expr.(type) {
	case *driver.ValueExpr:
		return x.Datum, nil
	case *ast.ParenthesesExpr:
		return literal(x.Expr)
	case *ast.UnaryOperationExpr:
		v, err := literal(x.V)
		if err != nil {
			return v, err
		}
		switch x.Op {
		case opcode.Plus:
			return v, nil
		case opcode.Minus:
			return negate(v)
		}
	}
	return types.Datum{}, Unsupported("expressions that are not literals")
}

func negate(v types.Datum) (types.Datum, error) {
	switch v.Kind() {
	case types.KindNull:
		return v, nil
	case types.KindInt64:
		return types.NewIntDatum(-v.GetInt64()), nil
	case types.KindFloat64:
		return types.NewFloat64Datum(-v.GetFloat64()), nil
	}
	text, err := v.ToString()
	if err != nil {
		return v, err
	}
	d := new(types.MyDecimal)
	if err := d.FromString([]byte("-" + text)); err != nil {
		return v, err
	}
	return types.NewDecimalDatum(d), nil
}

// setOriginDefault gives a column the value that rows written before it have.
func setOriginDefault(col *model.ColumnInfo, now time.Time, loc *time.Location) error {
	value := col.GetDefaultValue()
	switch {
	case value == nil && mysql.HasNotNullFlag(col.GetFlag()):
		zero, err := zeroValue(col)
		if err != nil {
			return err
		}
		value = zero
	case value == currentTimestamp && types.IsTypeTime(col.GetType()):
		if col.GetType() == mysql.TypeTimestamp {
			loc = time.UTC
		}
		value = types.NewTime(types.FromGoTime(now.In(loc)), col.GetType(), col.GetDecimal()).String()
	}
	return col.SetOriginDefaultValue(value)
}

// zeroValue is the value of a NOT NULL column without a default in rows that
// were written without it.
func zeroValue(col *model.ColumnInfo) (any, error) {
	switch col.GetType() {
	case mysql.TypeEnum:
		e, err := types.ParseEnumValue(col.GetElems(), 1)
		return e.Name, err
	case mysql.TypeString:
		if col.GetCharset() == charset.CharsetBin && col.GetFlen() > 0 {
			return strings.Repeat("\x00", col.GetFlen()), nil
		}
		return "", nil
	case mysql.TypeVarString, mysql.TypeVarchar, mysql.TypeBlob, mysql.TypeTinyBlob, mysql.TypeMediumBlob,
		mysql.TypeLongBlob, mysql.TypeSet:
		return "", nil
	case mysql.TypeBit:
		return string(types.ZeroBinaryLiteral), nil
	case mysql.TypeDuration:
		return types.ZeroDuration.String(), nil
	case mysql.TypeDate:
		return types.ZeroDateStr, nil
	case mysql.TypeTimestamp, mysql.TypeDatetime:
		return types.ZeroDatetimeStr, nil
	case mysql.TypeJSON:
		return "null", nil
	}
	return "0", nil
}

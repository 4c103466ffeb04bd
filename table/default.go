package table

import (
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
)

// OriginDefault returns the value that a column has in rows written before it
// was added, as TiDB's table.GetColOriginDefaultValue does: NULL, or for a NOT
// NULL column without default the zero value of its type. TIMESTAMPs are UTC.
func OriginDefault(col *model.ColumnInfo) (types.Datum, error) {
	value := col.GetOriginDefaultValue()
	if value == nil {
		if !mysql.HasNotNullFlag(col.GetFlag()) {
			return types.Datum{}, nil
		}
		if col.GetType() == mysql.TypeEnum {
			first, err := types.ParseEnumValue(col.GetElems(), 1)
			return types.NewCollateMysqlEnumDatum(first, col.GetCollate()), err
		}
		return zeroValue(col), nil
	}
	switch col.GetType() {
	case mysql.TypeTimestamp, mysql.TypeDatetime, mysql.TypeDate:
		return timeDefault(col, value)
	}
	d := types.NewDatum(value)
	return d.ConvertTo(types.DefaultStmtNoWarningContext, &col.FieldType)
}

// timeDefault converts the text of a time value. The text of a TIMESTAMP is in
// UTC, but for columns of old servers, where it is in the system's zone.
func timeDefault(col *model.ColumnInfo, value any) (types.Datum, error) {
	text, ok := value.(string)
	if !ok {
		return types.Datum{}, fmt.Errorf("unexpected default of type %T", value)
	}
	if text == ast.CurrentTimestamp {
		// The statement that adds the column replaces it by the time it runs at.
		return types.Datum{}, fmt.Errorf("unresolved default %s", text)
	}
	loc := time.UTC
	if col.GetType() == mysql.TypeTimestamp && col.Version < model.ColumnInfoVersion1 {
		loc = time.Local
	}
	ctx := types.DefaultStmtNoWarningContext.WithLocation(loc)
	t, err := types.ParseTime(ctx, text, col.GetType(), col.GetDecimal())
	if err != nil {
		return types.Datum{}, err
	}
	if col.GetType() == mysql.TypeTimestamp && !t.IsZero() {
		if err := t.ConvertTimeZone(loc, time.UTC); err != nil {
			return types.Datum{}, err
		}
	}
	return types.NewTimeDatum(t), nil
}

// zeroValue is the zero value of a column's type.
func zeroValue(col *model.ColumnInfo) types.Datum {
	var d types.Datum
	switch col.GetType() {
	case mysql.TypeTiny, mysql.TypeShort, mysql.TypeInt24, mysql.TypeLong, mysql.TypeLonglong, mysql.TypeYear:
		if mysql.HasUnsignedFlag(col.GetFlag()) && col.GetType() != mysql.TypeYear {
			d.SetUint64(0)
		} else {
			d.SetInt64(0)
		}
	case mysql.TypeFloat:
		d.SetFloat32(0)
	case mysql.TypeDouble:
		d.SetFloat64(0)
	case mysql.TypeNewDecimal:
		d.SetLength(col.GetFlen())
		d.SetFrac(col.GetDecimal())
		d.SetMysqlDecimal(new(types.MyDecimal))
	case mysql.TypeString:
		if col.GetFlen() > 0 && col.GetCharset() == charset.CharsetBin {
			d.SetBytes(make([]byte, col.GetFlen()))
		} else {
			d.SetString("", col.GetCollate())
		}
	case mysql.TypeDuration:
		d.SetMysqlDuration(types.ZeroDuration)
	case mysql.TypeDate:
		d.SetMysqlTime(types.ZeroDate)
	case mysql.TypeTimestamp:
		d.SetMysqlTime(types.ZeroTimestamp)
	case mysql.TypeDatetime:
		d.SetMysqlTime(types.ZeroDatetime)
	case mysql.TypeBit:
		d.SetMysqlBit(types.ZeroBinaryLiteral)
	case mysql.TypeSet:
		d.SetMysqlSet(types.Set{}, col.GetCollate())
	case mysql.TypeJSON:
		d.SetMysqlJSON(types.CreateBinaryJSON(nil))
	default:
		d.SetString("", col.GetCollate())
	}
	return d
}

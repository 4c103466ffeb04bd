package sqltype

import (
	"fmt"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	gms "github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
)

// Collation returns GMS's collation of a name that TiDB uses. It fails for one
// that GMS cannot sort by.
func Collation(name string) (sql.CollationID, error) {
	if name == "" {
		name = mysql.DefaultCollationName
	}
	id, err := sql.ParseCollation("", name, false)
	if err != nil {
		return 0, err
	}
	if id.Sorter() == nil || id.CharacterSet().Encoder() == nil {
		return 0, fmt.Errorf("collation %s is not supported", name)
	}
	return id, nil
}

var numberTypes = map[byte]struct{ signed, unsigned sql.NumberType }{
	mysql.TypeTiny:     {gms.Int8, gms.Uint8},
	mysql.TypeShort:    {gms.Int16, gms.Uint16},
	mysql.TypeInt24:    {gms.Int24, gms.Uint24},
	mysql.TypeLong:     {gms.Int32, gms.Uint32},
	mysql.TypeLonglong: {gms.Int64, gms.Uint64},
	mysql.TypeFloat:    {gms.Float32, gms.Float32},
	mysql.TypeDouble:   {gms.Float64, gms.Float64},
}

// Type returns GMS's type for a TiDB column type.
func Type(ft *types.FieldType) (sql.Type, error) {
	tp := ft.GetType()
	if n, ok := numberTypes[tp]; ok {
		switch {
		case tp == mysql.TypeTiny && ft.GetFlen() == 1 && !isUnsigned(ft):
			return gms.Boolean, nil
		case isUnsigned(ft):
			return n.unsigned, nil
		}
		return n.signed, nil
	}
	switch tp {
	case mysql.TypeNewDecimal:
		return decimalType(ft)
	case mysql.TypeVarchar, mysql.TypeVarString, mysql.TypeString,
		mysql.TypeTinyBlob, mysql.TypeBlob, mysql.TypeMediumBlob, mysql.TypeLongBlob:
		return stringType(ft)
	case mysql.TypeDate, mysql.TypeNewDate:
		return gms.Date, nil
	case mysql.TypeDatetime:
		return gms.CreateDatetimeType(sqltypes.Datetime, fsp(ft))
	case mysql.TypeTimestamp:
		return gms.CreateDatetimeType(sqltypes.Timestamp, fsp(ft))
	case mysql.TypeDuration:
		return gms.Time, nil
	case mysql.TypeYear:
		return gms.Year, nil
	case mysql.TypeBit:
		return gms.CreateBitType(uint8(ft.GetFlen()))
	case mysql.TypeEnum, mysql.TypeSet:
		coll, err := Collation(ft.GetCollate())
		if err != nil {
			return nil, err
		}
		// They write to what they are given.
		elems := slices.Clone(ft.GetElems())
		if tp == mysql.TypeEnum {
			return gms.CreateEnumType(elems, coll)
		}
		return gms.CreateSetType(elems, coll)
	case mysql.TypeJSON:
		return gms.JSON, nil
	}
	return nil, fmt.Errorf("column type %s is not supported", ft.String())
}

func decimalType(ft *types.FieldType) (sql.Type, error) {
	precision, scale := ft.GetFlen(), ft.GetDecimal()
	if precision == types.UnspecifiedLength {
		precision = 10
	}
	if scale == types.UnspecifiedLength {
		scale = 0
	}
	return gms.CreateColumnDecimalType(uint8(precision), uint8(scale))
}

// blobLengths are the maximum lengths in bytes; TiDB leaves the length of a
// BLOB or TEXT unspecified now and then.
var blobLengths = map[byte]int64{
	mysql.TypeTinyBlob:   1<<8 - 1,
	mysql.TypeBlob:       1<<16 - 1,
	mysql.TypeMediumBlob: 1<<24 - 1,
	mysql.TypeLongBlob:   1<<32 - 1,
}

func stringType(ft *types.FieldType) (sql.Type, error) {
	coll, err := Collation(ft.GetCollate())
	if err != nil {
		return nil, err
	}
	length := int64(ft.GetFlen())
	if max, ok := blobLengths[ft.GetType()]; ok {
		base := sqltypes.Text
		if isBinary(ft) {
			base = sqltypes.Blob
		}
		return gms.CreateString(base, max, coll)
	}
	if length < 0 {
		length = 1
	}
	var base querypb.Type
	switch fixed := ft.GetType() == mysql.TypeString; {
	case fixed && isBinary(ft):
		base = sqltypes.Binary
	case fixed:
		base = sqltypes.Char
	case isBinary(ft):
		base = sqltypes.VarBinary
	default:
		base = sqltypes.VarChar
	}
	return gms.CreateString(base, length, coll)
}

func isUnsigned(ft *types.FieldType) bool { return mysql.HasUnsignedFlag(ft.GetFlag()) }

func isBinary(ft *types.FieldType) bool { return ft.GetCharset() == charset.CharsetBin }

// fsp is the number of fractional digits of a time type's seconds.
func fsp(ft *types.FieldType) int { return max(ft.GetDecimal(), 0) }

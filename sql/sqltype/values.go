package sqltype

import (
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
)

// functions chooses the conversions of a column type that Type supports.
func functions(ft *types.FieldType) (decodeFunc, encodeFunc) {
	switch ft.GetType() {
	case mysql.TypeTiny:
		return integer[int8, uint8](ft)
	case mysql.TypeShort:
		return integer[int16, uint16](ft)
	case mysql.TypeInt24, mysql.TypeLong:
		return integer[int32, uint32](ft)
	case mysql.TypeLonglong:
		return integer[int64, uint64](ft)
	case mysql.TypeYear:
		return signed[int16]()
	case mysql.TypeFloat:
		return decodeFloat32, encodeFloat32(ft)
	case mysql.TypeDouble:
		return decodeFloat64, encodeFloat64(ft)
	case mysql.TypeNewDecimal:
		return decodeDecimal, encodeDecimal(ft)
	case mysql.TypeDate, mysql.TypeNewDate, mysql.TypeDatetime, mysql.TypeTimestamp:
		return timeFunctions(ft)
	case mysql.TypeDuration:
		return decodeDuration, encodeDuration(ft)
	case mysql.TypeBit:
		return decodeBit, encodeBit(ft)
	case mysql.TypeEnum:
		return decodeEnum, encodeEnum(ft)
	case mysql.TypeSet:
		return decodeSet, encodeSet(ft)
	case mysql.TypeJSON:
		return decodeJSON, encodeJSON
	}
	if isBinary(ft) {
		return decodeBytes, encodeBytes
	}
	return decodeString, encodeString(ft)
}

type signedInt interface {
	int8 | int16 | int32 | int64
}

type unsignedInt interface {
	uint8 | uint16 | uint32 | uint64
}

func integer[S signedInt, U unsignedInt](ft *types.FieldType) (decodeFunc, encodeFunc) {
	if isUnsigned(ft) {
		return unsigned[U]()
	}
	return signed[S]()
}

func signed[T signedInt]() (decodeFunc, encodeFunc) {
	decode := func(d *types.Datum, _ *time.Location) (any, error) { return T(d.GetInt64()), nil }
	encode := func(v any, _ *time.Location, d *types.Datum) error {
		n, ok := v.(T)
		if !ok {
			return errOtherType
		}
		d.SetInt64(int64(n))
		return nil
	}
	return decode, encode
}

func unsigned[T unsignedInt]() (decodeFunc, encodeFunc) {
	decode := func(d *types.Datum, _ *time.Location) (any, error) { return T(d.GetUint64()), nil }
	encode := func(v any, _ *time.Location, d *types.Datum) error {
		n, ok := v.(T)
		if !ok {
			return errOtherType
		}
		d.SetUint64(uint64(n))
		return nil
	}
	return decode, encode
}

func decodeFloat32(d *types.Datum, _ *time.Location) (any, error) { return d.GetFloat32(), nil }

func encodeFloat32(ft *types.FieldType) encodeFunc {
	return func(v any, _ *time.Location, d *types.Datum) error {
		f, ok := v.(float32)
		if !ok {
			return errOtherType
		}
		if f < 0 && isUnsigned(ft) {
			return outOfRange(v, ft)
		}
		d.SetFloat32(f)
		return nil
	}
}

func decodeFloat64(d *types.Datum, _ *time.Location) (any, error) { return d.GetFloat64(), nil }

func encodeFloat64(ft *types.FieldType) encodeFunc {
	return func(v any, _ *time.Location, d *types.Datum) error {
		f, ok := v.(float64)
		if !ok {
			return errOtherType
		}
		if f < 0 && isUnsigned(ft) {
			return outOfRange(v, ft)
		}
		d.SetFloat64(f)
		return nil
	}
}

func decodeString(d *types.Datum, _ *time.Location) (any, error) { return d.GetString(), nil }

func encodeString(ft *types.FieldType) encodeFunc {
	collation := ft.GetCollate()
	fixed := ft.GetType() == mysql.TypeString
	return func(v any, _ *time.Location, d *types.Datum) error {
		s, ok := v.(string)
		if !ok {
			return errOtherType
		}
		if fixed {
			// CHAR is stored without its padding.
			s = strings.TrimRight(s, " ")
		}
		d.SetString(s, collation)
		return nil
	}
}

func decodeBytes(d *types.Datum, _ *time.Location) (any, error) { return d.GetBytes(), nil }

func encodeBytes(v any, _ *time.Location, d *types.Datum) error {
	switch b := v.(type) {
	case []byte:
		d.SetBytes(b)
	case string:
		d.SetBytes([]byte(b))
	default:
		return errOtherType
	}
	return nil
}

func outOfRange(v any, ft *types.FieldType) error {
	return sql.ErrValueOutOfRange.New(v, ft.String())
}

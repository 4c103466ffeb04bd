package rows

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/xitongsys/parquet-go/parquet"
)

const (
	parquetTime    = "2006-01-02 15:04:05.999999"
	parquetTimeUTC = parquetTime + "Z"
	parquetClock   = "15:04:05.999999"
	// unixEpochDay is 1970-01-01 as a Julian day.
	unixEpochDay = 2440588
)

// converter returns how values of a column become TiDB's. It follows setDatumValue and convertToLogicType in TiDB's
// pkg/lightning/mydump/parquet_parser.go, except that dates do not depend on the server's time zone, unsigned
// integers stay so, and times of day have no time zone.
func converter(e *parquet.SchemaElement) (func(v any, d *types.Datum) error, error) {
	logical, err := logicalType(e)
	if err != nil {
		return nil, err
	}
	integer := integerConverter(logical)
	text := textConverter(e, logical)
	return func(v any, d *types.Datum) error {
		switch v := v.(type) {
		case bool:
			if v {
				d.SetUint64(1)
			} else {
				d.SetUint64(0)
			}
		case int32:
			integer(int64(v), d)
		case int64:
			integer(v, d)
		case float32:
			d.SetFloat64(float64(v))
		case float64:
			d.SetFloat64(v)
		case string:
			return text(v, d)
		default:
			return fmt.Errorf("a value of type %T cannot be imported", v)
		}
		return nil
	}, nil
}

// logicalType returns the logical type of a column; nil if it has only the type in which it is stored.
func logicalType(e *parquet.SchemaElement) (*parquet.LogicalType, error) {
	if e.LogicalType != nil || e.ConvertedType == nil {
		return e.LogicalType, nil
	}
	utc := func(unit parquet.TimeUnit) *parquet.TimestampType {
		return &parquet.TimestampType{IsAdjustedToUTC: true, Unit: &unit}
	}
	integer := func(bits int8, signed bool) (*parquet.LogicalType, error) {
		return &parquet.LogicalType{INTEGER: &parquet.IntType{BitWidth: bits, IsSigned: signed}}, nil
	}
	switch *e.ConvertedType {
	case parquet.ConvertedType_UTF8, parquet.ConvertedType_ENUM, parquet.ConvertedType_JSON, parquet.ConvertedType_BSON:
		return nil, nil
	case parquet.ConvertedType_DECIMAL:
		return &parquet.LogicalType{DECIMAL: &parquet.DecimalType{Scale: e.GetScale(), Precision: e.GetPrecision()}}, nil
	case parquet.ConvertedType_DATE:
		return &parquet.LogicalType{DATE: &parquet.DateType{}}, nil
	case parquet.ConvertedType_TIME_MILLIS:
		return &parquet.LogicalType{TIME: &parquet.TimeType{Unit: &parquet.TimeUnit{MILLIS: parquet.NewMilliSeconds()}}}, nil
	case parquet.ConvertedType_TIME_MICROS:
		return &parquet.LogicalType{TIME: &parquet.TimeType{Unit: &parquet.TimeUnit{MICROS: parquet.NewMicroSeconds()}}}, nil
	case parquet.ConvertedType_TIMESTAMP_MILLIS:
		return &parquet.LogicalType{TIMESTAMP: utc(parquet.TimeUnit{MILLIS: parquet.NewMilliSeconds()})}, nil
	case parquet.ConvertedType_TIMESTAMP_MICROS:
		return &parquet.LogicalType{TIMESTAMP: utc(parquet.TimeUnit{MICROS: parquet.NewMicroSeconds()})}, nil
	case parquet.ConvertedType_UINT_8:
		return integer(8, false)
	case parquet.ConvertedType_UINT_16:
		return integer(16, false)
	case parquet.ConvertedType_UINT_32:
		return integer(32, false)
	case parquet.ConvertedType_UINT_64:
		return integer(64, false)
	case parquet.ConvertedType_INT_8, parquet.ConvertedType_INT_16, parquet.ConvertedType_INT_32, parquet.ConvertedType_INT_64:
		return nil, nil
	}
	return nil, fmt.Errorf("the type %v cannot be imported", *e.ConvertedType)
}

// integerConverter returns how integers become values.
func integerConverter(t *parquet.LogicalType) func(v int64, d *types.Datum) {
	switch {
	case t == nil:
	case t.DECIMAL != nil && t.DECIMAL.Scale > 0:
		scale := int(t.DECIMAL.Scale)
		return func(v int64, d *types.Datum) {
			d.SetString(decimalText(big.NewInt(v), scale), mysql.DefaultCollationName)
		}
	case t.DATE != nil:
		return func(v int64, d *types.Datum) {
			d.SetString(time.Unix(v*86400, 0).UTC().Format(time.DateOnly), mysql.DefaultCollationName)
		}
	case t.TIMESTAMP != nil:
		format := parquetTime
		if t.TIMESTAMP.IsAdjustedToUTC {
			format = parquetTimeUTC
		}
		unit := t.TIMESTAMP.Unit
		return func(v int64, d *types.Datum) {
			d.SetString(inUnit(v, unit).Format(format), mysql.DefaultCollationName)
		}
	case t.TIME != nil:
		unit := t.TIME.Unit
		return func(v int64, d *types.Datum) {
			d.SetString(inUnit(v, unit).Format(parquetClock), mysql.DefaultCollationName)
		}
	case t.INTEGER != nil && !t.INTEGER.IsSigned:
		mask := ^uint64(0)
		if bits := t.INTEGER.BitWidth; bits > 0 && bits < 64 {
			mask = 1<<bits - 1
		}
		return func(v int64, d *types.Datum) { d.SetUint64(uint64(v) & mask) }
	}
	return func(v int64, d *types.Datum) { d.SetInt64(v) }
}

// textConverter returns how strings of bytes become values.
func textConverter(e *parquet.SchemaElement, t *parquet.LogicalType) func(v string, d *types.Datum) error {
	switch {
	case t != nil && t.DECIMAL != nil:
		scale := int(t.DECIMAL.Scale)
		return func(v string, d *types.Datum) error {
			d.SetString(decimalText(signedBytes(v), scale), mysql.DefaultCollationName)
			return nil
		}
	case e.GetType() == parquet.Type_INT96:
		return func(v string, d *types.Datum) error {
			if len(v) != 12 {
				return fmt.Errorf("a time of %d bytes: %w", len(v), errCorrupt)
			}
			nanos := binary.LittleEndian.Uint64([]byte(v[:8]))
			day := int32(binary.LittleEndian.Uint32([]byte(v[8:])))
			at := time.Unix((int64(day)-unixEpochDay)*86400, int64(nanos)).UTC()
			d.SetString(at.Format(parquetTimeUTC), mysql.DefaultCollationName)
			return nil
		}
	}
	return func(v string, d *types.Datum) error {
		d.SetString(v, mysql.DefaultCollationName)
		return nil
	}
}

func inUnit(v int64, unit *parquet.TimeUnit) time.Time {
	switch {
	case unit != nil && unit.MILLIS != nil:
		return time.UnixMilli(v).UTC()
	case unit != nil && unit.NANOS != nil:
		return time.Unix(0, v).UTC()
	}
	return time.UnixMicro(v).UTC()
}

// signedBytes is the number of big-endian bytes in two's complement.
func signedBytes(v string) *big.Int {
	n := new(big.Int).SetBytes([]byte(v))
	if len(v) > 0 && v[0] > 127 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v))))
	}
	return n
}

// decimalText is n divided by 10 to the power of scale.
func decimalText(n *big.Int, scale int) string {
	digits := new(big.Int).Abs(n).String()
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	if scale > 0 {
		digits = digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	}
	if n.Sign() < 0 {
		return "-" + digits
	}
	return digits
}

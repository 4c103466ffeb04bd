package cop

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/stretchr/testify/require"
)

// TestColumnsAreEncodedAsTheLibraryDoes: what is appended to a buffer of our own is what chunk.Codec makes, for every type,
// with nulls and without, for any number of rows.
func TestColumnsAreEncodedAsTheLibraryDoes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	object, err := types.ParseBinaryJSONFromString(`{"a": [1, "b"]}`)
	require.NoError(t, err)
	values := map[byte]func() types.Datum{
		mysql.TypeLonglong: func() types.Datum { return types.NewIntDatum(rnd.Int64()) },
		mysql.TypeYear:     func() types.Datum { return types.NewIntDatum(int64(1970 + rnd.IntN(100))) },
		mysql.TypeFloat:    func() types.Datum { return types.NewFloat32Datum(rnd.Float32()) },
		mysql.TypeDouble:   func() types.Datum { return types.NewFloat64Datum(rnd.Float64()) },
		mysql.TypeVarchar:  func() types.Datum { return types.NewStringDatum("abcdefghijk"[:rnd.IntN(12)]) },
		mysql.TypeBlob:     func() types.Datum { return types.NewBytesDatum([]byte("xyz")[:rnd.IntN(4)]) },
		mysql.TypeNewDecimal: func() types.Datum {
			return types.NewDecimalDatum(types.NewDecFromInt(rnd.Int64()))
		},
		mysql.TypeDatetime: func() types.Datum {
			return types.NewTimeDatum(types.NewTime(types.FromDate(2000+rnd.IntN(50), 1, 2, 3, 4, 5, 6), mysql.TypeDatetime, 6))
		},
		mysql.TypeDuration: func() types.Datum {
			return types.NewDurationDatum(types.Duration{Duration: time.Duration(rnd.Int32())})
		},
		mysql.TypeJSON: func() types.Datum { return types.NewJSONDatum(object) },
		mysql.TypeEnum: func() types.Datum {
			return types.NewMysqlEnumDatum(types.Enum{Name: "e", Value: rnd.Uint64()})
		},
		mysql.TypeBit: func() types.Datum { return types.NewMysqlBitDatum(types.NewBinaryLiteralFromUint(rnd.Uint64(), 8)) },
	}
	var fields []*types.FieldType
	for tp := range values {
		fields = append(fields, types.NewFieldType(tp))
	}
	buf := []byte("left over")
	for n := range 40 {
		batch := chunk.NewChunkWithCapacity(fields, 1)
		nullable := rnd.IntN(2) == 0
		for range n {
			for k, ft := range fields {
				d := values[ft.GetType()]()
				if nullable && rnd.IntN(3) == 0 {
					d.SetNull()
				}
				batch.AppendDatum(k, &d)
			}
		}
		buf = appendColumns(buf[:0], batch, fields)
		require.Equal(t, chunk.NewCodec(fields).Encode(batch), buf, "%d rows", n)
	}
}

package sqltype_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	gms "github.com/dolthub/go-mysql-server/sql/types"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	_ "github.com/pingcap/tidb/pkg/types/parser_driver"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/stretchr/testify/require"

	"fastddl/sql/sqltype"
)

func TestMain(m *testing.M) {
	collate.SetNewCollationEnabledForTest(true)
	m.Run()
}

// column parses a column definition.
func column(t testing.TB, def string) *model.ColumnInfo {
	stmt, err := parser.New().ParseOneStmt("create table t (c "+def+")", "", "")
	require.NoError(t, err, def)
	parsed := stmt.(*ast.CreateTableStmt).Cols[0]
	col := &model.ColumnInfo{Name: parsed.Name.Name, FieldType: *parsed.Tp, Version: model.ColumnInfoVersion1}
	ft := &col.FieldType
	if ft.GetCharset() == "" {
		ft.SetCharset(charset.CharsetBin)
		ft.SetCollate(charset.CollationBin)
		if types.IsString(ft.GetType()) || ft.GetType() == mysql.TypeEnum || ft.GetType() == mysql.TypeSet {
			ft.SetCharset(charset.CharsetUTF8MB4)
			ft.SetCollate(charset.CollationUTF8MB4)
		}
	}
	if ft.GetCollate() == "" {
		ft.SetCollate(charset.CollationUTF8MB4)
	}
	flen, decimal := mysql.GetDefaultFieldLengthAndDecimal(ft.GetType())
	if ft.GetFlen() == types.UnspecifiedLength {
		ft.SetFlen(flen)
	}
	if ft.GetDecimal() == types.UnspecifiedLength {
		ft.SetDecimal(decimal)
	}
	return col
}

func newCodec(t testing.TB, def string) *sqltype.Codec {
	c, err := sqltype.NewCodec(column(t, def))
	require.NoError(t, err, def)
	return c
}

// generators make random values of a column in the form of a literal that both
// GMS and TiDB convert.
var generators = map[string]func(r *rand.Rand) any{
	"tinyint":            func(r *rand.Rand) any { return int64(int8(r.Uint64())) },
	"tinyint unsigned":   func(r *rand.Rand) any { return int64(uint8(r.Uint64())) },
	"smallint":           func(r *rand.Rand) any { return int64(int16(r.Uint64())) },
	"smallint unsigned":  func(r *rand.Rand) any { return int64(uint16(r.Uint64())) },
	"mediumint":          func(r *rand.Rand) any { return int64(r.IntN(1<<24) - 1<<23) },
	"mediumint unsigned": func(r *rand.Rand) any { return int64(r.IntN(1 << 24)) },
	"int":                func(r *rand.Rand) any { return int64(int32(r.Uint64())) },
	"int unsigned":       func(r *rand.Rand) any { return int64(uint32(r.Uint64())) },
	"bigint":             func(r *rand.Rand) any { return int64(r.Uint64()) },
	"bigint unsigned":    func(r *rand.Rand) any { return r.Uint64() },
	"decimal(10,0)":      func(r *rand.Rand) any { return decimalText(r, 10, 0) },
	"decimal(12,4)":      func(r *rand.Rand) any { return decimalText(r, 12, 4) },
	"decimal(18,18)":     func(r *rand.Rand) any { return decimalText(r, 18, 18) },
	"decimal(65,30)":     func(r *rand.Rand) any { return decimalText(r, 65, 30) },
	"float":              func(r *rand.Rand) any { return float64(float32(r.NormFloat64() * 1e6)) },
	"double":             func(r *rand.Rand) any { return r.NormFloat64() * 1e12 },
	"char(10)":           func(r *rand.Rand) any { return randomText(r, 8) },
	"varchar(20)":        func(r *rand.Rand) any { return randomText(r, 20) },
	"text":               func(r *rand.Rand) any { return randomText(r, 200) },
	"varbinary(20)":      func(r *rand.Rand) any { return randomText(r, 5) },
	"blob":               func(r *rand.Rand) any { return randomText(r, 200) },
	"date":               func(r *rand.Rand) any { return randomTime(r).Format("2006-01-02") },
	"datetime":           func(r *rand.Rand) any { return randomTime(r).Format("2006-01-02 15:04:05") },
	"year(4)":            func(r *rand.Rand) any { return int64(2000) },
	"datetime(6)":        func(r *rand.Rand) any { return randomTime(r).Format("2006-01-02 15:04:05.000000") },
	"timestamp(3)":       func(r *rand.Rand) any { return randomTime(r).Format("2006-01-02 15:04:05.000") },
	"time":               func(r *rand.Rand) any { return fmt.Sprintf("%d:%02d:%02d", r.IntN(1600)-800, r.IntN(60), r.IntN(60)) },
	"time(6)": func(r *rand.Rand) any {
		return fmt.Sprintf("%d:%02d:%02d.%06d", 1+r.IntN(800), r.IntN(60), r.IntN(60), r.IntN(1e6))
	},
	"year":                                   func(r *rand.Rand) any { return int64(1901 + r.IntN(255)) },
	"enum('a','b','c')":                      func(r *rand.Rand) any { return []string{"a", "b", "c"}[r.IntN(3)] },
	"set('a','b','c')":                       func(r *rand.Rand) any { return []string{"a", "b,c", "a,c", ""}[r.IntN(4)] },
	"char(10) collate utf8mb4_general_ci":    func(r *rand.Rand) any { return randomText(r, 8) },
	"varchar(20) collate utf8mb4_0900_ai_ci": func(r *rand.Rand) any { return randomText(r, 8) },
	"varchar(20) character set ascii collate ascii_bin": func(r *rand.Rand) any { return strconv.Itoa(r.IntN(1000)) },
}

func decimalText(r *rand.Rand, precision, scale int) string {
	var b strings.Builder
	if r.IntN(2) == 0 {
		b.WriteByte('-')
	}
	whole := r.IntN(precision - scale + 1)
	for range whole {
		b.WriteByte(byte('0' + r.IntN(10)))
	}
	if whole == 0 {
		b.WriteByte('0')
	}
	if scale > 0 {
		b.WriteByte('.')
		for range scale {
			b.WriteByte(byte('0' + r.IntN(10)))
		}
	}
	return b.String()
}

func randomText(r *rand.Rand, n int) string {
	letters := []rune("abcXYZ éß日本😀 ")
	out := make([]rune, r.IntN(n+1))
	for i := range out {
		out[i] = letters[r.IntN(len(letters))]
	}
	return string(out)
}

func randomTime(r *rand.Rand) time.Time {
	return time.UnixMicro(86400e6*2 + r.Int64N(2e15)).UTC()
}

// A value that GMS has converted to the column's type survives the way through a
// datum, and the datum encodes to the bytes that TiDB's own conversion of the
// same literal gives.
func TestRoundTripAndTiDBsBytes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	ctx := context.Background()
	for def, generate := range generators {
		t.Run(def, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			t.Logf("seed %d", seed)
			c := newCodec(t, def)
			for range 300 {
				lit := generate(r)
				want, inRange, err := c.Type().Convert(ctx, lit)
				require.NoError(t, err, "%v", lit)
				require.Equal(t, sql.InRange, inRange)
				var d types.Datum
				require.NoError(t, c.Encode(ctx, want, time.UTC, &d), "%v", lit)
				got, err := c.Decode(&d, time.UTC)
				require.NoError(t, err)
				requireSame(t, c.Type(), want, got)

				if strings.HasPrefix(def, "char") {
					// TiDB takes the padding away when it writes the row.
					lit = strings.TrimRight(lit.(string), " ")
				}
				raw := types.NewDatum(lit)
				theirs, err := raw.ConvertTo(types.DefaultStmtNoWarningContext, c.FieldType())
				require.NoError(t, err, "%v", lit)
				a, err := codec.EncodeKey(time.UTC, nil, d)
				require.NoError(t, err)
				b, err := codec.EncodeKey(time.UTC, nil, theirs)
				require.NoError(t, err)
				require.Equal(t, b, a, "%v: %v and %v", lit, theirs, d)
				a, err = codec.EncodeValue(time.UTC, nil, d)
				require.NoError(t, err)
				b, err = codec.EncodeValue(time.UTC, nil, theirs)
				require.NoError(t, err)
				require.Equal(t, b, a, "%v: %v and %v", lit, theirs, d)
			}
		})
	}
}

func requireSame(t testing.TB, typ sql.Type, want, got any) {
	t.Helper()
	switch want := want.(type) {
	case *apd.Decimal:
		require.Zero(t, want.Cmp(got.(*apd.Decimal)), "%s and %s", want, got)
		require.Equal(t, want.Exponent, got.(*apd.Decimal).Exponent)
		return
	case string:
		if typ.Type().String() == "CHAR" {
			require.Equal(t, strings.TrimRight(want, " "), got)
			return
		}
	}
	require.Equal(t, want, got)
}

func TestNull(t *testing.T) {
	for def := range generators {
		c := newCodec(t, def)
		d := types.NewDatum(1)
		require.NoError(t, c.Encode(context.Background(), nil, time.UTC, &d))
		require.True(t, d.IsNull())
		v, err := c.Decode(&d, time.UTC)
		require.NoError(t, err)
		require.Nil(t, v)
	}
}

func TestEncodeConvertsOtherGoTypes(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		def string
		in  any
		out any
	}{
		{"tinyint", int64(5), int8(5)},
		{"int", "17", int32(17)},
		{"bigint unsigned", int8(3), uint64(3)},
		{"varchar(5)", []byte("x"), "x"},
		{"varchar(5)", 12, "12"},
		{"double", int64(2), float64(2)},
		{"year", int64(2020), int16(2020)},
		{"date", "2020-02-03", time.Date(2020, 2, 3, 0, 0, 0, 0, time.UTC)},
		{"bit(4)", int64(9), uint64(9)},
		{"enum('a','b')", "b", uint16(2)},
	} {
		c := newCodec(t, tc.def)
		var d types.Datum
		require.NoError(t, c.Encode(ctx, tc.in, time.UTC, &d), tc.def)
		got, err := c.Decode(&d, time.UTC)
		require.NoError(t, err)
		require.Equal(t, tc.out, got, tc.def)
	}
	for _, tc := range []struct {
		def string
		in  any
	}{
		{"tinyint", int64(128)}, {"tinyint unsigned", int64(-1)}, {"int", uint64(math.MaxUint32)}, {"float unsigned", float32(-1)},
		{"double unsigned", float64(-1)}, {"decimal(5,2) unsigned", apd.New(-1, 0)}, {"date", "x"}, {"enum('a')", "z"},
	} {
		var d types.Datum
		require.Error(t, newCodec(t, tc.def).Encode(ctx, tc.in, time.UTC, &d), "%s %v", tc.def, tc.in)
	}
}

func TestZeroDates(t *testing.T) {
	for _, def := range []string{"date", "datetime", "datetime(3)", "timestamp"} {
		c := newCodec(t, def)
		var d types.Datum
		require.NoError(t, c.Encode(context.Background(), gms.ZeroTime, time.FixedZone("", 3600), &d))
		require.True(t, d.GetMysqlTime().IsZero())
		v, err := c.Decode(&d, time.FixedZone("", 3600))
		require.NoError(t, err)
		require.Equal(t, gms.ZeroTime, v)
	}
}

func TestTimestampsFollowTheZone(t *testing.T) {
	c := newCodec(t, "timestamp")
	require.True(t, c.Zoned())
	wall := time.Date(2024, 7, 1, 12, 0, 0, 0, time.UTC)
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	var d types.Datum
	require.NoError(t, c.Encode(context.Background(), wall, berlin, &d))
	require.Equal(t, "2024-07-01 10:00:00", d.GetMysqlTime().String())
	v, err := c.Decode(&d, berlin)
	require.NoError(t, err)
	require.Equal(t, wall, v)
	v, err = c.Decode(&d, time.FixedZone("", -3600))
	require.NoError(t, err)
	require.Equal(t, wall.Add(-3*time.Hour), v)
	dt := newCodec(t, "datetime")
	require.False(t, dt.Zoned())
	require.NoError(t, dt.Encode(context.Background(), wall, berlin, &d))
	require.Equal(t, "2024-07-01 12:00:00", d.GetMysqlTime().String())
}

func TestJSON(t *testing.T) {
	c := newCodec(t, "json")
	for _, text := range []string{`{"a": [1, 2.5, null, "x", true]}`, `"é"`, `12`, `[]`} {
		var d types.Datum
		require.NoError(t, c.Encode(context.Background(), gms.NewLazyJSONDocument([]byte(text)), time.UTC, &d))
		v, err := c.Decode(&d, time.UTC)
		require.NoError(t, err)
		got, err := gms.JsonToMySqlString(context.Background(), v.(sql.JSONWrapper))
		require.NoError(t, err)
		require.Equal(t, text, got)
	}
}

func TestCollations(t *testing.T) {
	for _, name := range []string{"utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci", "binary", "latin1_bin"} {
		id, err := sqltype.Collation(name)
		require.NoError(t, err)
		require.Equal(t, name, id.Name())
	}
	_, err := sqltype.Collation("klingon_ci")
	require.Error(t, err)
}

func BenchmarkDecode(b *testing.B) {
	for _, def := range []string{"int", "varchar(20)", "decimal(12,4)", "datetime"} {
		b.Run(def, func(b *testing.B) {
			c := newCodec(b, def)
			r := rand.New(rand.NewPCG(1, 2))
			raw := types.NewDatum(generators[def](r))
			d, err := raw.ConvertTo(types.DefaultStmtNoWarningContext, c.FieldType())
			require.NoError(b, err)
			b.ReportAllocs()
			for range b.N {
				if _, err := c.Decode(&d, time.UTC); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package backfilltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/table/tables"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

func init() { collate.SetNewCollationEnabledForTest(true) }

// Rand returns a generator whose seed is printed.
func Rand(t testing.TB) *rand.Rand {
	return randtest.Rand(t)
}

// Rounds is how often a randomised test repeats: less often when tests are to be
// short, as under the race detector.
func Rounds(n int) int {
	if testing.Short() {
		return max(1, n/6)
	}
	return n
}

// ColumnType is a column type of the tests, with a generator of its values.
type ColumnType struct {
	Name  string
	Field func() *types.FieldType
	Value func(r *rand.Rand) types.Datum
	// indexed by a prefix only (BLOB, TEXT) or never.
	needsPrefix bool
	Text        bool
}

func fieldType(tp byte, charset, collation string, flags uint, flen, dec int) func() *types.FieldType {
	return func() *types.FieldType {
		ft := types.NewFieldType(tp)
		ft.SetCharset(charset)
		ft.SetCollate(collation)
		ft.AddFlag(flags)
		ft.SetFlen(flen)
		ft.SetDecimal(dec)
		if tp == mysql.TypeEnum || tp == mysql.TypeSet {
			ft.SetElems([]string{"a", "b", "c", "dd"})
		}
		return ft
	}
}

func intValue(lo, hi int64) func(*rand.Rand) types.Datum {
	return func(r *rand.Rand) types.Datum {
		switch r.IntN(8) {
		case 0:
			return types.NewIntDatum(lo)
		case 1:
			return types.NewIntDatum(hi)
		case 2:
			return types.NewIntDatum(max(lo, -1))
		}
		return types.NewIntDatum(lo + int64(r.Uint64N(uint64(hi-lo))))
	}
}

var alphabet = []string{"a", "A", "b", "ß", "é", "E", "日", "本", "😀", " ", "  ", "\x00", "z", "ss", "0"}

func text(collation string, limit int) func(*rand.Rand) types.Datum {
	return func(r *rand.Rand) types.Datum {
		var b strings.Builder
		for range r.IntN(limit) {
			b.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		return types.NewCollationStringDatum(b.String(), collation)
	}
}

func binaryValue(limit int) func(*rand.Rand) types.Datum {
	return func(r *rand.Rand) types.Datum {
		b := make([]byte, r.IntN(limit))
		for i := range b {
			b[i] = []byte{0, 1, ' ', 'x', 0xff}[r.IntN(5)]
		}
		return types.NewCollationStringDatum(string(b), "binary")
	}
}

func timeValue(tp byte, fsp int) func(*rand.Rand) types.Datum {
	return func(r *rand.Rand) types.Datum {
		if r.IntN(6) == 0 {
			return types.NewTimeDatum(types.NewTime(types.ZeroCoreTime, tp, fsp))
		}
		hour, micro := r.IntN(24), r.IntN(1000000)
		if tp == mysql.TypeDate {
			hour, micro = 0, 0
		}
		t := types.FromDate(1971+r.IntN(60), 1+r.IntN(12), 1+r.IntN(28), hour, 0, 0, micro)
		return types.NewTimeDatum(types.NewTime(t, tp, fsp))
	}
}

// ColumnTypes are all that RandomTable chooses from.
var ColumnTypes = []ColumnType{
	{Name: "tinyint", Field: fieldType(mysql.TypeTiny, "binary", "binary", 0, 4, 0), Value: intValue(-128, 127)},
	{Name: "smallint", Field: fieldType(mysql.TypeShort, "binary", "binary", 0, 6, 0), Value: intValue(-32768, 32767)},
	{Name: "mediumint", Field: fieldType(mysql.TypeInt24, "binary", "binary", 0, 9, 0), Value: intValue(-8388608, 8388607)},
	{Name: "int", Field: fieldType(mysql.TypeLong, "binary", "binary", 0, 11, 0), Value: intValue(math.MinInt32, math.MaxInt32)},
	{Name: "bigint", Field: fieldType(mysql.TypeLonglong, "binary", "binary", 0, 20, 0), Value: intValue(math.MinInt64/2, math.MaxInt64/2)},
	{Name: "bigint unsigned", Field: fieldType(mysql.TypeLonglong, "binary", "binary", mysql.UnsignedFlag, 20, 0), Value: func(r *rand.Rand) types.Datum {
		return types.NewUintDatum([]uint64{0, 1, math.MaxUint64, r.Uint64()}[r.IntN(4)])
	}},
	{Name: "year", Field: fieldType(mysql.TypeYear, "binary", "binary", mysql.UnsignedFlag, 4, 0), Value: intValue(1901, 2155)},
	{Name: "float", Field: fieldType(mysql.TypeFloat, "binary", "binary", 0, 12, -1), Value: func(r *rand.Rand) types.Datum {
		return types.NewFloat32Datum([]float32{0, float32(math.Copysign(0, -1)), -1.5, math.MaxFloat32, float32(r.NormFloat64())}[r.IntN(5)])
	}},
	{Name: "double", Field: fieldType(mysql.TypeDouble, "binary", "binary", 0, 22, -1), Value: func(r *rand.Rand) types.Datum {
		return types.NewFloat64Datum([]float64{0, math.Copysign(0, -1), -1.5, math.MaxFloat64, r.NormFloat64()}[r.IntN(5)])
	}},
	{Name: "decimal(12,4)", Field: fieldType(mysql.TypeNewDecimal, "binary", "binary", 0, 12, 4), Value: func(r *rand.Rand) types.Datum {
		var dec types.MyDecimal
		if err := dec.FromString(fmt.Appendf(nil, "%d.%04d", r.IntN(20000000)-10000000, r.IntN(10000))); err != nil {
			panic(err)
		}
		d := types.NewDecimalDatum(&dec)
		d.SetLength(12)
		d.SetFrac(4)
		return d
	}},
	{Name: "date", Field: fieldType(mysql.TypeDate, "binary", "binary", 0, 10, 0), Value: timeValue(mysql.TypeDate, 0)},
	{Name: "datetime(6)", Field: fieldType(mysql.TypeDatetime, "binary", "binary", 0, 26, 6), Value: timeValue(mysql.TypeDatetime, 6)},
	{Name: "timestamp(3)", Field: fieldType(mysql.TypeTimestamp, "binary", "binary", 0, 23, 3), Value: timeValue(mysql.TypeTimestamp, 3)},
	{Name: "time(2)", Field: fieldType(mysql.TypeDuration, "binary", "binary", 0, 13, 2), Value: func(r *rand.Rand) types.Datum {
		return types.NewDurationDatum(types.Duration{Duration: time.Duration(r.Int64N(int64(1600*time.Hour))) - 800*time.Hour, Fsp: 2})
	}},
	{Name: "enum", Field: fieldType(mysql.TypeEnum, "utf8mb4", "utf8mb4_bin", 0, 2, 0), Value: func(r *rand.Rand) types.Datum {
		e, err := types.ParseEnumValue([]string{"a", "b", "c", "dd"}, uint64(1+r.IntN(4)))
		if err != nil {
			panic(err)
		}
		return types.NewCollateMysqlEnumDatum(e, "utf8mb4_bin")
	}},
	{Name: "set", Field: fieldType(mysql.TypeSet, "utf8mb4", "utf8mb4_bin", 0, 8, 0), Value: func(r *rand.Rand) types.Datum {
		s, err := types.ParseSetValue([]string{"a", "b", "c", "dd"}, uint64(r.IntN(16)))
		if err != nil {
			panic(err)
		}
		return types.NewMysqlSetDatum(s, "utf8mb4_bin")
	}},
	{Name: "bit(20)", Field: fieldType(mysql.TypeBit, "binary", "binary", mysql.UnsignedFlag, 20, 0), Value: func(r *rand.Rand) types.Datum {
		return types.NewMysqlBitDatum(types.NewBinaryLiteralFromUint(r.Uint64N(1<<20), 3))
	}},
	{Name: "varbinary", Text: true, Field: fieldType(mysql.TypeVarchar, "binary", "binary", mysql.BinaryFlag, 40, 0), Value: binaryValue(30)},
	{Name: "blob", Text: true, needsPrefix: true, Field: fieldType(mysql.TypeBlob, "binary", "binary", mysql.BinaryFlag, 65535, 0), Value: binaryValue(60)},
	{Name: "char utf8mb4_bin", Text: true, Field: fieldType(mysql.TypeString, "utf8mb4", "utf8mb4_bin", 0, 40, 0), Value: text("utf8mb4_bin", 12)},
	{Name: "varchar utf8mb4_bin", Text: true, Field: fieldType(mysql.TypeVarchar, "utf8mb4", "utf8mb4_bin", 0, 40, 0), Value: text("utf8mb4_bin", 12)},
	{Name: "text utf8mb4_bin", Text: true, needsPrefix: true, Field: fieldType(mysql.TypeBlob, "utf8mb4", "utf8mb4_bin", 0, 65535, 0), Value: text("utf8mb4_bin", 30)},
	{Name: "varchar utf8mb4_0900_bin", Text: true, Field: fieldType(mysql.TypeVarchar, "utf8mb4", "utf8mb4_0900_bin", 0, 40, 0), Value: text("utf8mb4_0900_bin", 12)},
	{Name: "varchar utf8mb4_general_ci", Text: true, Field: fieldType(mysql.TypeVarchar, "utf8mb4", "utf8mb4_general_ci", 0, 40, 0), Value: text("utf8mb4_general_ci", 12)},
	{Name: "char utf8mb4_0900_ai_ci", Text: true, Field: fieldType(mysql.TypeString, "utf8mb4", "utf8mb4_0900_ai_ci", 0, 40, 0), Value: text("utf8mb4_0900_ai_ci", 12)},
	{Name: "varchar latin1_bin", Text: true, Field: fieldType(mysql.TypeVarchar, "latin1", "latin1_bin", 0, 40, 0), Value: text("latin1_bin", 8)},
	{Name: "varchar ascii_bin", Text: true, Field: fieldType(mysql.TypeVarchar, "ascii", "ascii_bin", 0, 40, 0), Value: text("ascii_bin", 8)},
}

// RandomTable returns a table with random columns, one of three kinds of
// primary key and one index.
func RandomTable(r *rand.Rand) (*model.TableInfo, *model.IndexInfo, []ColumnType) {
	t := &model.TableInfo{ID: 40 + r.Int64N(1000), Name: pmodel.NewCIStr("t"), State: model.StatePublic}
	var kinds []ColumnType
	for i := range 3 + r.IntN(5) {
		kind := ColumnTypes[r.IntN(len(ColumnTypes))]
		kinds = append(kinds, kind)
		id := int64(i + 1)
		if r.IntN(4) == 0 {
			id += 300 // column IDs above 255 take another row layout
		}
		t.Columns = append(t.Columns, &model.ColumnInfo{
			ID: id, Name: pmodel.NewCIStr(fmt.Sprintf("c%d", i)), Offset: i,
			FieldType: *kind.Field(), State: model.StatePublic, Version: model.CurrLatestColumnInfoVersion,
		})
	}
	switch r.IntN(3) {
	case 0: // _tidb_rowid
	case 1:
		t.PKIsHandle = true
		kinds[0] = ColumnTypes[4] // bigint
		t.Columns[0].FieldType = *kinds[0].Field()
		t.Columns[0].AddFlag(mysql.PriKeyFlag | mysql.NotNullFlag)
	case 2:
		t.IsCommonHandle, t.CommonHandleVersion = true, 1
		pk := &model.IndexInfo{ID: 1, Name: pmodel.NewCIStr("PRIMARY"), Primary: true, Unique: true, State: model.StatePublic}
		for i := range 1 + r.IntN(2) {
			pk.Columns = append(pk.Columns, indexColumn(r, t, kinds, i))
			t.Columns[i].AddFlag(mysql.PriKeyFlag | mysql.NotNullFlag)
		}
		t.Indices = append(t.Indices, pk)
	}
	return t, RandomIndex(r, t, kinds, 7), kinds
}

// RandomIndex returns an index of one to three of the columns.
func RandomIndex(r *rand.Rand, t *model.TableInfo, kinds []ColumnType, id int64) *model.IndexInfo {
	idx := &model.IndexInfo{ID: id, Name: pmodel.NewCIStr(fmt.Sprintf("i%d", id)), Unique: r.IntN(2) == 0, State: model.StateWriteReorganization}
	for _, offset := range r.Perm(len(t.Columns))[:1+r.IntN(3)] {
		idx.Columns = append(idx.Columns, indexColumn(r, t, kinds, offset))
	}
	return idx
}

func indexColumn(r *rand.Rand, t *model.TableInfo, kinds []ColumnType, offset int) *model.IndexColumn {
	ic := &model.IndexColumn{Name: t.Columns[offset].Name, Offset: offset, Length: types.UnspecifiedLength}
	if kinds[offset].needsPrefix || kinds[offset].Text && r.IntN(3) == 0 {
		ic.Length = 1 + r.IntN(6)
	}
	return ic
}

// RandomRow returns a value, or NULL, for each column.
func RandomRow(r *rand.Rand, t *model.TableInfo, kinds []ColumnType) []types.Datum {
	row := make([]types.Datum, len(t.Columns))
	for i, col := range t.Columns {
		if !mysql.HasNotNullFlag(col.GetFlag()) && r.IntN(5) == 0 {
			continue
		}
		row[i] = kinds[i].Value(r)
	}
	return row
}

// RowHandle returns the handle of a row; n is the row ID of a table without
// clustered primary key.
func RowHandle(t testing.TB, table *model.TableInfo, row []types.Datum, n int64) tkv.Handle {
	switch {
	case table.PKIsHandle:
		return tkv.IntHandle(row[table.GetPkColInfo().Offset].GetInt64())
	case table.IsCommonHandle:
		var key []types.Datum
		for _, ic := range tables.FindPrimaryIndex(table).Columns {
			d := row[ic.Offset]
			tablecodec.TruncateIndexValue(&d, ic, table.Columns[ic.Offset])
			key = append(key, d)
		}
		b, err := codec.EncodeKey(time.UTC, nil, key...)
		require.NoError(t, err)
		h, err := tkv.NewCommonHandle(b)
		require.NoError(t, err)
		return h
	default:
		return tkv.IntHandle(n)
	}
}

// LibraryEntry is the oracle: what TiDB's own code writes for a row.
func LibraryEntry(t testing.TB, table *model.TableInfo, idx *model.IndexInfo, row []types.Datum, h tkv.Handle) (key, value []byte, distinct bool) {
	values := make([]types.Datum, len(idx.Columns))
	for i, ic := range idx.Columns {
		values[i] = row[ic.Offset]
	}
	restored := tables.TryGetHandleRestoredDataWrapper(table, row, nil, idx)
	key, distinct, err := tablecodec.GenIndexKey(time.UTC, table, idx, table.ID, values, h, nil)
	require.NoError(t, err)
	value, err = tablecodec.GenIndexValuePortal(time.UTC, table, idx, tables.NeedRestoredData(idx.Columns, table.Columns),
		distinct, false, values, h, 0, restored, nil)
	require.NoError(t, err)
	return key, value, distinct
}

// Describe says what a table and its index are, for messages.
func Describe(table *model.TableInfo, idx *model.IndexInfo, kinds []ColumnType) string {
	var b strings.Builder
	fmt.Fprintf(&b, "int handle %v, common handle %v, unique %v:", table.PKIsHandle, table.IsCommonHandle, idx.Unique)
	for _, ic := range idx.Columns {
		fmt.Fprintf(&b, " %s(%d)", kinds[ic.Offset].Name, ic.Length)
	}
	return b.String()
}

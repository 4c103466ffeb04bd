package backfill

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
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

func init() { collate.SetNewCollationEnabledForTest(true) }

// newRand returns a generator whose seed is printed.
func newRand(t testing.TB) *rand.Rand {
	return randtest.Rand(t)
}

// rounds is how often a randomised test repeats: less often when tests are to be
// short, as under the race detector.
func rounds(n int) int {
	if testing.Short() {
		return max(1, n/6)
	}
	return n
}

// columnType is a column type of the tests, with a generator of its values.
type columnType struct {
	name  string
	field func() *types.FieldType
	value func(r *rand.Rand) types.Datum
	// indexed by a prefix only (BLOB, TEXT) or never.
	needsPrefix bool
	str         bool
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

var columnTypes = []columnType{
	{name: "tinyint", field: fieldType(mysql.TypeTiny, "binary", "binary", 0, 4, 0), value: intValue(-128, 127)},
	{name: "smallint", field: fieldType(mysql.TypeShort, "binary", "binary", 0, 6, 0), value: intValue(-32768, 32767)},
	{name: "mediumint", field: fieldType(mysql.TypeInt24, "binary", "binary", 0, 9, 0), value: intValue(-8388608, 8388607)},
	{name: "int", field: fieldType(mysql.TypeLong, "binary", "binary", 0, 11, 0), value: intValue(math.MinInt32, math.MaxInt32)},
	{name: "bigint", field: fieldType(mysql.TypeLonglong, "binary", "binary", 0, 20, 0), value: intValue(math.MinInt64/2, math.MaxInt64/2)},
	{name: "bigint unsigned", field: fieldType(mysql.TypeLonglong, "binary", "binary", mysql.UnsignedFlag, 20, 0), value: func(r *rand.Rand) types.Datum {
		return types.NewUintDatum([]uint64{0, 1, math.MaxUint64, r.Uint64()}[r.IntN(4)])
	}},
	{name: "year", field: fieldType(mysql.TypeYear, "binary", "binary", mysql.UnsignedFlag, 4, 0), value: intValue(1901, 2155)},
	{name: "float", field: fieldType(mysql.TypeFloat, "binary", "binary", 0, 12, -1), value: func(r *rand.Rand) types.Datum {
		return types.NewFloat32Datum([]float32{0, float32(math.Copysign(0, -1)), -1.5, math.MaxFloat32, float32(r.NormFloat64())}[r.IntN(5)])
	}},
	{name: "double", field: fieldType(mysql.TypeDouble, "binary", "binary", 0, 22, -1), value: func(r *rand.Rand) types.Datum {
		return types.NewFloat64Datum([]float64{0, math.Copysign(0, -1), -1.5, math.MaxFloat64, r.NormFloat64()}[r.IntN(5)])
	}},
	{name: "decimal(12,4)", field: fieldType(mysql.TypeNewDecimal, "binary", "binary", 0, 12, 4), value: func(r *rand.Rand) types.Datum {
		var dec types.MyDecimal
		if err := dec.FromString(fmt.Appendf(nil, "%d.%04d", r.IntN(20000000)-10000000, r.IntN(10000))); err != nil {
			panic(err)
		}
		d := types.NewDecimalDatum(&dec)
		d.SetLength(12)
		d.SetFrac(4)
		return d
	}},
	{name: "date", field: fieldType(mysql.TypeDate, "binary", "binary", 0, 10, 0), value: timeValue(mysql.TypeDate, 0)},
	{name: "datetime(6)", field: fieldType(mysql.TypeDatetime, "binary", "binary", 0, 26, 6), value: timeValue(mysql.TypeDatetime, 6)},
	{name: "timestamp(3)", field: fieldType(mysql.TypeTimestamp, "binary", "binary", 0, 23, 3), value: timeValue(mysql.TypeTimestamp, 3)},
	{name: "time(2)", field: fieldType(mysql.TypeDuration, "binary", "binary", 0, 13, 2), value: func(r *rand.Rand) types.Datum {
		return types.NewDurationDatum(types.Duration{Duration: time.Duration(r.Int64N(int64(1600*time.Hour))) - 800*time.Hour, Fsp: 2})
	}},
	{name: "enum", field: fieldType(mysql.TypeEnum, "utf8mb4", "utf8mb4_bin", 0, 2, 0), value: func(r *rand.Rand) types.Datum {
		e, err := types.ParseEnumValue([]string{"a", "b", "c", "dd"}, uint64(1+r.IntN(4)))
		if err != nil {
			panic(err)
		}
		return types.NewCollateMysqlEnumDatum(e, "utf8mb4_bin")
	}},
	{name: "set", field: fieldType(mysql.TypeSet, "utf8mb4", "utf8mb4_bin", 0, 8, 0), value: func(r *rand.Rand) types.Datum {
		s, err := types.ParseSetValue([]string{"a", "b", "c", "dd"}, uint64(r.IntN(16)))
		if err != nil {
			panic(err)
		}
		return types.NewMysqlSetDatum(s, "utf8mb4_bin")
	}},
	{name: "bit(20)", field: fieldType(mysql.TypeBit, "binary", "binary", mysql.UnsignedFlag, 20, 0), value: func(r *rand.Rand) types.Datum {
		return types.NewMysqlBitDatum(types.NewBinaryLiteralFromUint(r.Uint64N(1<<20), 3))
	}},
	{name: "varbinary", str: true, field: fieldType(mysql.TypeVarchar, "binary", "binary", mysql.BinaryFlag, 40, 0), value: binaryValue(30)},
	{name: "blob", str: true, needsPrefix: true, field: fieldType(mysql.TypeBlob, "binary", "binary", mysql.BinaryFlag, 65535, 0), value: binaryValue(60)},
	{name: "char utf8mb4_bin", str: true, field: fieldType(mysql.TypeString, "utf8mb4", "utf8mb4_bin", 0, 40, 0), value: text("utf8mb4_bin", 12)},
	{name: "varchar utf8mb4_bin", str: true, field: fieldType(mysql.TypeVarchar, "utf8mb4", "utf8mb4_bin", 0, 40, 0), value: text("utf8mb4_bin", 12)},
	{name: "text utf8mb4_bin", str: true, needsPrefix: true, field: fieldType(mysql.TypeBlob, "utf8mb4", "utf8mb4_bin", 0, 65535, 0), value: text("utf8mb4_bin", 30)},
	{name: "varchar utf8mb4_0900_bin", str: true, field: fieldType(mysql.TypeVarchar, "utf8mb4", "utf8mb4_0900_bin", 0, 40, 0), value: text("utf8mb4_0900_bin", 12)},
	{name: "varchar utf8mb4_general_ci", str: true, field: fieldType(mysql.TypeVarchar, "utf8mb4", "utf8mb4_general_ci", 0, 40, 0), value: text("utf8mb4_general_ci", 12)},
	{name: "char utf8mb4_0900_ai_ci", str: true, field: fieldType(mysql.TypeString, "utf8mb4", "utf8mb4_0900_ai_ci", 0, 40, 0), value: text("utf8mb4_0900_ai_ci", 12)},
	{name: "varchar latin1_bin", str: true, field: fieldType(mysql.TypeVarchar, "latin1", "latin1_bin", 0, 40, 0), value: text("latin1_bin", 8)},
	{name: "varchar ascii_bin", str: true, field: fieldType(mysql.TypeVarchar, "ascii", "ascii_bin", 0, 40, 0), value: text("ascii_bin", 8)},
}

// randomTable returns a table with random columns, one of three kinds of
// primary key and one index.
func randomTable(r *rand.Rand) (*model.TableInfo, *model.IndexInfo, []columnType) {
	t := &model.TableInfo{ID: 40 + r.Int64N(1000), Name: pmodel.NewCIStr("t"), State: model.StatePublic}
	var kinds []columnType
	for i := range 3 + r.IntN(5) {
		kind := columnTypes[r.IntN(len(columnTypes))]
		kinds = append(kinds, kind)
		id := int64(i + 1)
		if r.IntN(4) == 0 {
			id += 300 // column IDs above 255 take another row layout
		}
		t.Columns = append(t.Columns, &model.ColumnInfo{
			ID: id, Name: pmodel.NewCIStr(fmt.Sprintf("c%d", i)), Offset: i,
			FieldType: *kind.field(), State: model.StatePublic, Version: model.CurrLatestColumnInfoVersion,
		})
	}
	switch r.IntN(3) {
	case 0: // _tidb_rowid
	case 1:
		t.PKIsHandle = true
		kinds[0] = columnTypes[4] // bigint
		t.Columns[0].FieldType = *kinds[0].field()
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
	return t, randomIndex(r, t, kinds, 7), kinds
}

func randomIndex(r *rand.Rand, t *model.TableInfo, kinds []columnType, id int64) *model.IndexInfo {
	idx := &model.IndexInfo{ID: id, Name: pmodel.NewCIStr(fmt.Sprintf("i%d", id)), Unique: r.IntN(2) == 0, State: model.StateWriteReorganization}
	for _, offset := range r.Perm(len(t.Columns))[:1+r.IntN(3)] {
		idx.Columns = append(idx.Columns, indexColumn(r, t, kinds, offset))
	}
	return idx
}

func indexColumn(r *rand.Rand, t *model.TableInfo, kinds []columnType, offset int) *model.IndexColumn {
	ic := &model.IndexColumn{Name: t.Columns[offset].Name, Offset: offset, Length: types.UnspecifiedLength}
	if kinds[offset].needsPrefix || kinds[offset].str && r.IntN(3) == 0 {
		ic.Length = 1 + r.IntN(6)
	}
	return ic
}

func randomRow(r *rand.Rand, t *model.TableInfo, kinds []columnType) []types.Datum {
	row := make([]types.Datum, len(t.Columns))
	for i, col := range t.Columns {
		if !mysql.HasNotNullFlag(col.GetFlag()) && r.IntN(5) == 0 {
			continue
		}
		row[i] = kinds[i].value(r)
	}
	return row
}

// rowHandle returns the handle of a row; n is the row ID of a table without
// clustered primary key.
func rowHandle(t testing.TB, table *model.TableInfo, row []types.Datum, n int64) tkv.Handle {
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

// libraryEntry is the oracle: what TiDB's own code writes for a row.
func libraryEntry(t testing.TB, table *model.TableInfo, idx *model.IndexInfo, row []types.Datum, h tkv.Handle) (key, value []byte, distinct bool) {
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

// batchOf returns rows as a scan would hand them out.
func batchOf(p *projection, table *model.TableInfo, rows [][]types.Datum, handles []tkv.Handle) *kv.RowBatch {
	fields := make([]*types.FieldType, len(p.columns))
	for i, c := range p.columns {
		fields[i] = c.Ft
	}
	b := &kv.RowBatch{Rows: chunk.NewChunkWithCapacity(fields, len(rows)), HandleOffsets: []uint32{0}}
	for i, row := range rows {
		for _, col := range table.Columns {
			if at, ok := p.position[col.ID]; ok {
				b.Rows.AppendDatum(at, &row[col.Offset])
			}
		}
		if table.IsCommonHandle {
			b.CommonHandles = append(b.CommonHandles, handles[i].Encoded()...)
			b.HandleOffsets = append(b.HandleOffsets, uint32(len(b.CommonHandles)))
		} else {
			b.IntHandles = append(b.IntHandles, handles[i].IntValue())
		}
	}
	return b
}

func describe(table *model.TableInfo, idx *model.IndexInfo, kinds []columnType) string {
	var b strings.Builder
	fmt.Fprintf(&b, "int handle %v, common handle %v, unique %v:", table.PKIsHandle, table.IsCommonHandle, idx.Unique)
	for _, ic := range idx.Columns {
		fmt.Fprintf(&b, " %s(%d)", kinds[ic.Offset].name, ic.Length)
	}
	return b.String()
}

func TestEncodingEqualsTheLibrary(t *testing.T) {
	r := newRand(t)
	for range rounds(3000) {
		table, idx, kinds := randomTable(r)
		p, err := newProjection(&Task{Table: table, Indexes: []*model.IndexInfo{idx}})
		require.NoError(t, err)
		enc, err := newIndexEncoder(idx, p)
		require.NoError(t, err)

		var rows [][]types.Datum
		var handles []tkv.Handle
		for i := range 1 + r.IntN(20) {
			row := randomRow(r, table, kinds)
			rows = append(rows, row)
			handles = append(handles, rowHandle(t, table, row, int64(i)-5))
		}
		enc.bind(batchOf(p, table, rows, handles), table.ID)
		encoded := 0
		require.NoError(t, enc.encode(func(i int, kv []byte, klen int) error {
			wantKey, wantValue, _ := libraryEntry(t, table, idx, rows[i], handles[i])
			what := fmt.Sprintf("%s: row %v", describe(table, idx, kinds), rows[i])
			require.Equal(t, wantKey, append(indexPrefix(table.ID, idx.ID), kv[:klen]...), what)
			require.Equal(t, wantValue, append([]byte{}, kv[klen:]...), what)
			encoded++
			return nil
		}))
		require.Len(t, rows, encoded)
	}
}

// TestInvalidTextGoesToTheLibrary: cutting text that is not valid UTF-8 is
// left to the library, whatever it does with it.
func TestInvalidTextGoesToTheLibrary(t *testing.T) {
	kinds := []columnType{columnTypes[20]}
	require.Equal(t, "varchar utf8mb4_bin", kinds[0].name)
	table := &model.TableInfo{ID: 1, Columns: []*model.ColumnInfo{{ID: 1, FieldType: *kinds[0].field()}}}
	idx := &model.IndexInfo{ID: 1, Columns: []*model.IndexColumn{{Length: 2}}}
	p, err := newProjection(&Task{Table: table, Indexes: []*model.IndexInfo{idx}})
	require.NoError(t, err)
	enc, err := newIndexEncoder(idx, p)
	require.NoError(t, err)
	for _, s := range []string{"\xff\xfe\xfd", "a\xc3", "a\xc3b", "\xe6\x97", "ab\xff", "\xf0\x9f\x98\x80\x80\x80"} {
		row := []types.Datum{types.NewCollationStringDatum(s, "utf8mb4_bin")}
		enc.bind(batchOf(p, table, [][]types.Datum{row}, []tkv.Handle{tkv.IntHandle(1)}), table.ID)
		kv, klen, err := enc.entry(0)
		require.NoError(t, err)
		key, value, _ := libraryEntry(t, table, idx, row, tkv.IntHandle(1))
		require.Equal(t, key[indexPrefixLen:], kv[:klen], "%q", s)
		require.Equal(t, value, kv[klen:], "%q", s)
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"int", "char utf8mb4_bin", "varchar utf8mb4_bin", "varchar utf8mb4_general_ci", "decimal(12,4)"} {
		b.Run(name, func(b *testing.B) {
			var kind columnType
			for _, k := range columnTypes {
				if k.name == name {
					kind = k
				}
			}
			table := &model.TableInfo{ID: 1, Columns: []*model.ColumnInfo{{ID: 1, FieldType: *kind.field()}}}
			idx := &model.IndexInfo{ID: 1, Columns: []*model.IndexColumn{{Length: types.UnspecifiedLength}}}
			p, err := newProjection(&Task{Table: table, Indexes: []*model.IndexInfo{idx}})
			require.NoError(b, err)
			enc, err := newIndexEncoder(idx, p)
			require.NoError(b, err)
			r := rand.New(rand.NewPCG(1, 2))
			var rows [][]types.Datum
			var handles []tkv.Handle
			for i := range 1024 {
				rows = append(rows, []types.Datum{kind.value(r)})
				handles = append(handles, tkv.IntHandle(i))
			}
			enc.bind(batchOf(p, table, rows, handles), table.ID)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, _, err := enc.entry(i % len(rows)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package encode

import (
	"fmt"
	"math/rand/v2"
	"testing"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/kv"
)

// batchOf returns rows as a scan would hand them out.
func batchOf(p *Projection, table *model.TableInfo, rows [][]types.Datum, handles []tkv.Handle) *kv.RowBatch {
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

func TestEncodingEqualsTheLibrary(t *testing.T) {
	r := backfilltest.Rand(t)
	for range backfilltest.Rounds(3000) {
		table, idx, kinds := backfilltest.RandomTable(r)
		p, err := NewProjection(&Task{Table: table, Indexes: []*model.IndexInfo{idx}})
		require.NoError(t, err)
		enc, err := newIndexEncoder(idx, p)
		require.NoError(t, err)

		var rows [][]types.Datum
		var handles []tkv.Handle
		for i := range 1 + r.IntN(20) {
			row := backfilltest.RandomRow(r, table, kinds)
			rows = append(rows, row)
			handles = append(handles, backfilltest.RowHandle(t, table, row, int64(i)-5))
		}
		enc.bind(batchOf(p, table, rows, handles), table.ID)
		encoded := 0
		require.NoError(t, enc.Encode(func(i int, kv []byte, klen int) error {
			wantKey, wantValue, _ := backfilltest.LibraryEntry(t, table, idx, rows[i], handles[i])
			what := fmt.Sprintf("%s: row %v", backfilltest.Describe(table, idx, kinds), rows[i])
			require.Equal(t, wantKey, append(IndexPrefix(table.ID, idx.ID), kv[:klen]...), what)
			require.Equal(t, wantValue, append([]byte{}, kv[klen:]...), what)
			encoded++
			return nil
		}))
		require.Len(t, rows, encoded)
	}
}

// TestInvalidTextGoesToTheLibrary: cutting text that is not valid UTF-8 is
// left to the library.
func TestInvalidTextGoesToTheLibrary(t *testing.T) {
	kinds := []backfilltest.ColumnType{backfilltest.ColumnTypes[20]}
	require.Equal(t, "varchar utf8mb4_bin", kinds[0].Name)
	table := &model.TableInfo{ID: 1, Columns: []*model.ColumnInfo{{ID: 1, FieldType: *kinds[0].Field()}}}
	idx := &model.IndexInfo{ID: 1, Columns: []*model.IndexColumn{{Length: 2}}}
	p, err := NewProjection(&Task{Table: table, Indexes: []*model.IndexInfo{idx}})
	require.NoError(t, err)
	enc, err := newIndexEncoder(idx, p)
	require.NoError(t, err)
	for _, s := range []string{"\xff\xfe\xfd", "a\xc3", "a\xc3b", "\xe6\x97", "ab\xff", "\xf0\x9f\x98\x80\x80\x80"} {
		row := []types.Datum{types.NewCollationStringDatum(s, "utf8mb4_bin")}
		enc.bind(batchOf(p, table, [][]types.Datum{row}, []tkv.Handle{tkv.IntHandle(1)}), table.ID)
		kv, klen, err := enc.entry(0)
		require.NoError(t, err)
		key, value, _ := backfilltest.LibraryEntry(t, table, idx, row, tkv.IntHandle(1))
		require.Equal(t, key[PrefixLen:], kv[:klen], "%q", s)
		require.Equal(t, value, kv[klen:], "%q", s)
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"int", "char utf8mb4_bin", "varchar utf8mb4_bin", "varchar utf8mb4_general_ci", "decimal(12,4)"} {
		b.Run(name, func(b *testing.B) {
			var kind backfilltest.ColumnType
			for _, k := range backfilltest.ColumnTypes {
				if k.Name == name {
					kind = k
				}
			}
			table := &model.TableInfo{ID: 1, Columns: []*model.ColumnInfo{{ID: 1, FieldType: *kind.Field()}}}
			idx := &model.IndexInfo{ID: 1, Columns: []*model.IndexColumn{{Length: types.UnspecifiedLength}}}
			p, err := NewProjection(&Task{Table: table, Indexes: []*model.IndexInfo{idx}})
			require.NoError(b, err)
			enc, err := newIndexEncoder(idx, p)
			require.NoError(b, err)
			r := rand.New(rand.NewPCG(1, 2))
			var rows [][]types.Datum
			var handles []tkv.Handle
			for i := range 1024 {
				rows = append(rows, []types.Datum{kind.Value(r)})
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

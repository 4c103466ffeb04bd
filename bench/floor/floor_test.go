package floor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/stretchr/testify/require"

	"fastddl/bench/floor"
	"fastddl/kv/pebblekv"
)

// table is id BIGINT PRIMARY KEY, k INT.
func table() *model.TableInfo {
	t := &model.TableInfo{ID: 100, PKIsHandle: true, State: model.StatePublic}
	for i, kind := range []byte{mysql.TypeLonglong, mysql.TypeLong} {
		t.Columns = append(t.Columns, &model.ColumnInfo{ID: int64(i + 1), Offset: i, FieldType: *types.NewFieldType(kind), State: model.StatePublic, Version: 2})
	}
	t.Columns[0].AddFlag(mysql.PriKeyFlag | mysql.NotNullFlag)
	return t
}

// index is an index on k.
func index(id int64) *model.IndexInfo {
	return &model.IndexInfo{ID: id, State: model.StatePublic, Columns: []*model.IndexColumn{{Offset: 1, Length: types.UnspecifiedLength}}}
}

// entry is an entry of an index on k; what its value is does not matter here.
func entry(t *testing.T, table *model.TableInfo, idx *model.IndexInfo, k, handle int64) []byte {
	key, _, err := tablecodec.GenIndexKey(time.UTC, table, idx, table.ID, []types.Datum{types.NewIntDatum(k)}, tkv.IntHandle(handle), nil)
	require.NoError(t, err)
	return key
}

// fill writes n rows, and their entries.
func fill(t *testing.T, store *pebblekv.Store, table *model.TableInfo, n int64, indexes ...*model.IndexInfo) {
	enc := rowcodec.Encoder{Enable: true}
	applied, err := store.Apply(t.Context(), func(yield func(key, value []byte) bool) {
		for id := range n {
			row, err := tablecodec.EncodeRow(time.UTC, []types.Datum{types.NewIntDatum(id * 7 % 1000)}, []int64{2}, nil, nil, rowcodec.NoChecksum{}, &enc)
			require.NoError(t, err)
			if !yield(tablecodec.EncodeRowKeyWithHandle(table.ID, tkv.IntHandle(id)), row) {
				return
			}
			for _, idx := range indexes {
				if !yield(entry(t, table, idx, id*7%1000, id), []byte{'0'}) {
					return
				}
			}
		}
	}, pebblekv.ApplyOptions{})
	require.NoError(t, err)
	require.NoError(t, applied.Wait())
}

func TestMeasureFloor(t *testing.T) {
	store, err := pebblekv.Open(filepath.Join(t.TempDir(), "db"), pebblekv.Options{DisableSync: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	table, dir := table(), t.TempDir()
	indexes := []*model.IndexInfo{index(9), index(10)}
	for _, rows := range []int64{0, 5000} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			fill(t, store, table, rows, indexes...)
			f, err := floor.Measure(t.Context(), store, dir, table, indexes...)
			require.NoError(t, err)
			require.Equal(t, rows, f.Rows)
			require.Equal(t, 2*rows, f.Entries)
			if rows > 0 {
				require.Positive(t, f.ScanCPUSeconds)
				require.Positive(t, f.WriteCPUSeconds)
				require.Positive(t, f.FileBytes)
			}
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

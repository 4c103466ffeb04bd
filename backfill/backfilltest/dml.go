package backfilltest

import (
	"math/rand/v2"
	"slices"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
	"fastddl/sbtest"
)

// Load fills the table with n rows as sysbench makes them, flushed to files.
func (f *Fixture) Load(n int) {
	enc := rowcodec.Encoder{Enable: true}
	rows := sbtest.Generator{Rows: n, Seed: 1}
	for block := range rows.Blocks() {
		var c Changes
		for r := range rows.Block(block) {
			row := []types.Datum{types.NewIntDatum(r.K), types.NewStringDatum(string(r.C)), types.NewStringDatum(string(r.Pad))}
			value, err := tablecodec.EncodeRow(time.UTC, row, []int64{2, 3, 4}, nil, nil, rowcodec.NoChecksum{}, &enc)
			require.NoError(f.T, err)
			c.Put(tablecodec.EncodeRowKeyWithHandle(f.Table.ID, tkv.IntHandle(r.ID)), value)
		}
		f.Commit(c)
	}
}

// OverwriteOne gives the last key of a range another value, or deletes it if that is nil.
func (f *Fixture) OverwriteOne(r kv.KeyRange, value []byte) {
	f.T.Helper()
	snap, err := f.Store.Snapshot(f.Ctx, f.TS())
	require.NoError(f.T, err)
	defer func() { require.NoError(f.T, snap.Close()) }()
	it, err := snap.IterReverse(r)
	require.NoError(f.T, err)
	defer func() { require.NoError(f.T, it.Close()) }()
	require.True(f.T, it.Valid())
	var c Changes
	c.Put(slices.Clone(it.Key()), value)
	f.Commit(c)
}

// Mutate inserts, updates and deletes n rows in one transaction that maintains indexes.
func (f *Fixture) Mutate(r *rand.Rand, n int, indexes ...*model.IndexInfo) {
	var c Changes
	for range n {
		switch r.IntN(3) {
		case 0:
			f.Next++
			values := RandomRow(r, f.Table, f.Kinds)
			h := RowHandle(f.T, f.Table, values, f.Next+1<<20)
			f.putRow(&c, indexes, Row{h, values})
		case 1:
			for _, row := range f.Rows {
				f.deleteRow(&c, indexes, row)
				break
			}
		case 2:
			for _, row := range f.Rows {
				values := RandomRow(r, f.Table, f.Kinds)
				for i, col := range f.Table.Columns {
					if mysql.HasPriKeyFlag(col.GetFlag()) {
						values[i] = row.Values[i]
					}
				}
				f.putRow(&c, indexes, Row{row.Handle, values})
				break
			}
		}
	}
	f.Commit(c)
}

func (f *Fixture) putRow(c *Changes, indexes []*model.IndexInfo, row Row) {
	key := f.recordKey(row)
	if old, ok := f.Rows[key]; ok {
		f.deleteRow(c, indexes, old)
	}
	c.Put([]byte(key), f.EncodeRow(row.Values))
	for _, idx := range indexes {
		k, v, _ := LibraryEntry(f.T, f.Table, idx, row.Values, row.Handle)
		c.Put(k, v)
	}
	f.Rows[key] = row
}

func (f *Fixture) deleteRow(c *Changes, indexes []*model.IndexInfo, row Row) {
	key := f.recordKey(row)
	c.Delete([]byte(key))
	for _, idx := range indexes {
		k, _, _ := LibraryEntry(f.T, f.Table, idx, row.Values, row.Handle)
		c.Delete(k)
	}
	delete(f.Rows, key)
}

// Put adds a row to a PlainTable, in a transaction that does not maintain indexes.
func (f *Fixture) Put(id int64, k any) {
	values := []types.Datum{types.NewIntDatum(id), types.NewDatum(k), types.NewStringDatum("c"), types.NewStringDatum("p")}
	row := Row{RowHandle(f.T, f.Table, values, 0), values}
	var c Changes
	c.Put([]byte(f.recordKey(row)), f.EncodeRow(values))
	f.Commit(c)
	f.Rows[f.recordKey(row)] = row
}

// RowWith returns the row of a PlainTable with an ID.
func (f *Fixture) RowWith(id int64) Row {
	values := []types.Datum{types.NewIntDatum(id)}
	return f.Rows[f.recordKey(Row{Handle: RowHandle(f.T, f.Table, values, 0)})]
}

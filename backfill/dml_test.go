package backfill

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/ingest"
)

func TestConcurrentWritesShadowTheBuild(t *testing.T) {
	r := newRand(t)
	table, idx, kinds := randomTable(r)
	idx.Unique = false
	f := newFixture(t, table, kinds)
	rows := 4000
	if testing.Short() {
		rows = 1000
	}
	f.insert(r, rows)
	spec := f.spec(idx)
	atS := cloneRows(f.rows)

	// The first writes come before the build, the others while it runs.
	done := make(chan struct{})
	var wg sync.WaitGroup
	f.mutate(r, 300, idx)
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				f.mutate(r, 20, idx)
			}
		}
	})
	opts := f.options()
	opts.BatchRows, opts.CheckpointInterval = 32, 3*time.Millisecond
	_, err := Run(f.ctx, opts, spec)
	close(done)
	wg.Wait()
	require.NoError(t, err)

	after := f.ts()
	f.requireIndex(idx, after, "after the build")
	f.rows = atS
	f.requireIndex(idx, spec.TS, "at S")
}

// mutate inserts, updates and deletes n rows in one transaction that maintains indexes.
func (f *fixture) mutate(r *rand.Rand, n int, indexes ...*model.IndexInfo) {
	var c changes
	for range n {
		switch r.IntN(3) {
		case 0:
			f.next++
			values := randomRow(r, f.table, f.kinds)
			h := rowHandle(f.t, f.table, values, f.next+1<<20)
			f.putRow(&c, indexes, fixtureRow{h, values})
		case 1:
			for _, row := range f.rows {
				f.deleteRow(&c, indexes, row)
				break
			}
		case 2:
			for _, row := range f.rows {
				values := randomRow(r, f.table, f.kinds)
				for i, col := range f.table.Columns {
					if mysql.HasPriKeyFlag(col.GetFlag()) {
						values[i] = row.values[i]
					}
				}
				f.putRow(&c, indexes, fixtureRow{row.handle, values})
				break
			}
		}
	}
	f.commit(c)
}

func (f *fixture) putRow(c *changes, indexes []*model.IndexInfo, row fixtureRow) {
	key := f.recordKey(row)
	if old, ok := f.rows[key]; ok {
		f.deleteRow(c, indexes, old)
	}
	c.put([]byte(key), f.encodeRow(row.values))
	for _, idx := range indexes {
		k, v, _ := libraryEntry(f.t, f.table, idx, row.values, row.handle)
		c.put(k, v)
	}
	f.rows[key] = row
}

func (f *fixture) deleteRow(c *changes, indexes []*model.IndexInfo, row fixtureRow) {
	key := f.recordKey(row)
	c.delete([]byte(key))
	for _, idx := range indexes {
		k, _, _ := libraryEntry(f.t, f.table, idx, row.values, row.handle)
		c.delete(k)
	}
	delete(f.rows, key)
}

func TestUniqueIndex(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	idx := indexOn(9, true, 1)
	f.put(1, 10)
	f.put(2, nil) // NULLs are not equal
	f.put(3, nil)
	f.put(4, 11)
	spec := f.spec(idx)
	_, err := Run(f.ctx, f.options(), spec)
	require.NoError(t, err)
	f.requireIndex(idx, spec.TS, "unique")

	f.dropIndex(idx)
	f.put(5, 11)
	requireDuplicate := func(err error) {
		t.Helper()
		var dup *ingest.DuplicateError
		require.ErrorAs(t, err, &dup)
		require.Len(t, dup.Groups, 1)
		group := dup.Groups[0]
		require.EqualValues(t, 9, group.IndexID)
		key, value, _ := libraryEntry(t, table, idx, f.rowWith(4).values, f.rowWith(4).handle)
		require.Equal(t, []byte(key), group.Key)
		require.EqualValues(t, 2, group.Rows)
		require.Len(t, group.Values, 2)
		require.Contains(t, group.Values, value)
		require.NotEqual(t, group.Values[0], group.Values[1])
		f.requireNoTempFiles()
	}
	_, err = Run(f.ctx, f.options(), f.spec(idx))
	requireDuplicate(err)
	f.dropIndex(idx)

	// The two rows come with different imports.
	for id := int64(6); id < 2000; id++ {
		f.put(id, id+1000)
	}
	f.put(5000, 11)
	f.put(5, 12)
	opts := f.options()
	opts.BatchRows, opts.CheckpointInterval, opts.MaxWorkers = 64, time.Millisecond, 1
	store := &faultyStore{Store: f.store, onScan: func(int64) error { time.Sleep(time.Millisecond); return nil }}
	opts.Store = store
	res, err := Run(f.ctx, opts, f.spec(idx))
	requireDuplicate(err)
	require.Greater(t, res.Flushes, 2)
}

func (f *fixture) put(id int64, k any) {
	values := []types.Datum{types.NewIntDatum(id), types.NewDatum(k), types.NewStringDatum("c"), types.NewStringDatum("p")}
	row := fixtureRow{rowHandle(f.t, f.table, values, 0), values}
	var c changes
	c.put([]byte(f.recordKey(row)), f.encodeRow(values))
	f.commit(c)
	f.rows[f.recordKey(row)] = row
}

func (f *fixture) rowWith(id int64) fixtureRow {
	values := []types.Datum{types.NewIntDatum(id)}
	return f.rows[f.recordKey(fixtureRow{handle: rowHandle(f.t, f.table, values, 0)})]
}

package compare_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/compare"
	"fastddl/backfill/keyrange"
	"fastddl/kv"
)

// shadowStore is a store in which readers miss some keys. One table's index lies in several regions.
type shadowStore struct {
	kv.Store
	cutTable int64
	hidden   [][]byte
	err      error

	mu             sync.Mutex
	counted, asked [][]kv.KeyRange
	columns        []int64
}

func (s *shadowStore) Ranges(_ context.Context, r kv.KeyRange) ([]kv.SizedRange, error) {
	if tablecodec.DecodeTableID(r.Start) != s.cutTable {
		return []kv.SizedRange{{KeyRange: r, Bytes: compare.SmallBytes}}, nil // of the whole region
	}
	middle := append(slices.Clone(r.Start), 0x80)
	return []kv.SizedRange{
		{KeyRange: kv.KeyRange{Start: r.Start, End: middle}, Bytes: keyrange.StoreRequestBytes},
		{KeyRange: kv.KeyRange{Start: middle, End: r.End}, Bytes: keyrange.StoreRequestBytes / 2},
	}, nil
}

// CountAll implements kv.ShadowFinder: there is one entry that readers see in each range.
func (s *shadowStore) CountAll(_ context.Context, ranges []kv.KeyRange, _ uint64, columns kv.EntryColumns) (int64, error) {
	s.mu.Lock()
	s.counted = append(s.counted, ranges)
	s.columns = append(s.columns, columns.Index[0].ID)
	s.mu.Unlock()
	n := len(ranges)
	for _, k := range s.hidden {
		if slices.ContainsFunc(ranges, func(r kv.KeyRange) bool { return r.Contains(k) }) {
			n++
		}
	}
	return int64(n), s.err
}

// Shadowed implements kv.ShadowFinder.
func (s *shadowStore) Shadowed(_ context.Context, ranges []kv.KeyRange, _ uint64, columns kv.EntryColumns, fn func(key []byte) error) error {
	s.mu.Lock()
	s.asked = append(s.asked, ranges)
	s.mu.Unlock()
	if column := columns.Index[0]; column.Offset != 2 && column.Offset != 1 {
		return errors.New("not a column of an index")
	}
	for _, k := range s.hidden {
		if !slices.ContainsFunc(ranges, func(r kv.KeyRange) bool { return r.Contains(k) }) {
			continue
		}
		key := bytes.Clone(k)
		if err := fn(key); err != nil {
			return err
		}
		clear(key)
	}
	return s.err
}

// TestShadowed: all parts of unique indexes are looked at, those of small partitions together.
func TestShadowed(t *testing.T) {
	const partitions = 40
	p := newPartitioned(t, backfilltest.Rand(t), partitions, 0)
	cutTable := p.Table.ID + 7
	plain, unique, global, clean := backfilltest.IndexOn(9, false, 1), backfilltest.IndexOn(10, true, 2, 0), backfilltest.IndexOn(11, true, 1), backfilltest.IndexOn(12, true, 1, 2)
	global.Global = true
	store := &shadowStore{Store: p.Store, cutTable: cutTable}
	hidden := []compare.Difference{
		{Index: 11, Key: append(tablecodec.EncodeTableIndexPrefix(p.Table.ID, 11), 2)},
		{Index: 10, Key: append(tablecodec.EncodeTableIndexPrefix(p.Table.ID+3, 10), 1)},
		{Index: 10, Key: append(tablecodec.EncodeTableIndexPrefix(cutTable, 10), 0x7f)},
		{Index: 10, Key: append(tablecodec.EncodeTableIndexPrefix(cutTable, 10), 0xf0)},
	}
	for _, d := range hidden {
		store.hidden = append(store.hidden, d.Key)
	}
	store.hidden = append(store.hidden, append(tablecodec.EncodeTableIndexPrefix(p.Table.ID+3, 9), 1))
	opts := p.compareOptions()
	opts.Store = store
	task := p.task(plain, unique, global, clean)
	seen := []int64{0, partitions + 2, 1, partitions + 2}

	found, more, err := compare.Shadowed(t.Context(), opts, task, compare.Result{Entries: seen})
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, hidden, found)

	covered := make(map[int64]int)
	for i, ranges := range store.counted {
		require.LessOrEqual(t, len(ranges), compare.SmallRanges)
		index := p.indexOf(ranges[0].Start)
		require.Equal(t, task.Table.Columns[map[int64]int{10: 2, 11: 1, 12: 1}[index]].ID, store.columns[i], "the first of the index's columns")
		covered[index] += len(ranges)
	}
	require.Equal(t, map[int64]int{10: partitions + 2, 11: 1, 12: partitions + 2}, covered)
	require.Len(t, store.counted, 6+1+6, "39 small ones, one in two regions of which one is cut, and that of all partitions")
	require.Len(t, store.asked, 6+1, "not of the index that has what readers see")

	// Where the comparison has met no records but those of the entries, the store is not asked.
	store.counted = nil
	found, _, err = compare.Shadowed(t.Context(), opts, task, compare.Result{Entries: seen, Records: []int64{0, partitions + 3, 1, partitions + 2}})
	require.NoError(t, err)
	require.Equal(t, hidden[1:], found)
	for _, ranges := range store.counted {
		require.EqualValues(t, 10, p.indexOf(ranges[0].Start))
	}

	store.err = errors.New("failure")
	_, _, err = compare.Shadowed(t.Context(), opts, task, compare.Result{Entries: seen})
	require.ErrorIs(t, err, store.err)
	opts.Store = p.Store
	found, more, err = compare.Shadowed(t.Context(), opts, task, compare.Result{Entries: seen})
	require.NoError(t, err, "of a store that hides nothing")
	require.False(t, more)
	require.Empty(t, found)
}

func (p *partitioned) indexOf(key []byte) int64 {
	_, index, isRecord, err := tablecodec.DecodeKeyHead(key)
	require.NoError(p.T, err)
	require.False(p.T, isRecord)
	return index
}

// TestManyShadowedKeys: the list is bounded.
func TestManyShadowedKeys(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	store := &shadowStore{Store: f.Store}
	for i := range compare.MaxDifferences + 1 {
		store.hidden = append(store.hidden, append(tablecodec.EncodeTableIndexPrefix(f.Table.ID, 10), byte(i>>8), byte(i)))
	}
	opts := f.compareOptions()
	opts.Store = store
	found, more, err := compare.Shadowed(t.Context(), opts, f.task(backfilltest.IndexOn(10, true, 2)), compare.Result{Entries: []int64{1}})
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, found, compare.MaxDifferences)
}

package backfill

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/kv"
)

// TestPartitionsInGroups builds more partitions than are sorted at one time.
func TestPartitionsInGroups(t *testing.T) {
	p := newPartitioned(t, backfilltest.Rand(t), 23, 300)
	local, unique, wide := backfilltest.IndexOn(9, false, 1), backfilltest.IndexOn(10, true, 2, 0), backfilltest.IndexOn(11, false, 2, 3, 1)
	opts := p.options()
	opts.Globals = smallMemory(t)
	opts.Resources = ingest.NewResources(opts.Globals, 0)
	spec := p.spec(local, unique, wide)
	var last checkpoint
	opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
		cp, err := decodeCheckpoint(data, &spec.Task)
		require.NoError(t, err)
		require.GreaterOrEqual(t, cp.Rows, last.Rows)
		last = *cp
		return nil
	}
	res, err := Run(p.Ctx, opts, spec)
	require.NoError(t, err)
	require.Equal(t, p.parts.Count(), res.Rows)
	require.Equal(t, 3*p.parts.Count(), res.Entries)
	require.Greater(t, res.Flushes, 5)
	require.Equal(t, res.Rows, last.Rows, "the last group is in a checkpoint")
	require.Zero(t, opts.Resources.Usage().MemoryBytes)
	p.parts.RequireIndexes(spec.TS, local, unique, wide)
	p.RequireNoTempFiles()
	compared, err := compare.Run(p.Ctx, p.options().Common(), p.task(local, unique, wide))
	require.NoError(t, err)
	require.True(t, compared.Clean())
	require.Equal(t, p.parts.Count(), compared.Rows)
}

// TestPartitionsResume lets the process die in each part of a build of partitions.
func TestPartitionsResume(t *testing.T) {
	r := backfilltest.Rand(t)
	for _, kind := range []string{"import", "scan", "checkpoint", "verify"} {
		t.Run(kind, func(t *testing.T) {
			p := newPartitioned(t, r, 20, 150)
			local, unique := backfilltest.IndexOn(9, false, 1), backfilltest.IndexOn(10, true, 2, 0)
			spec := p.spec(local, unique)
			failures := 0
			for fail := int64(1); ; fail++ {
				var before checkpoint
				if cp, err := decodeCheckpoint(spec.Checkpoint, &spec.Task); err == nil && cp != nil {
					before = *cp
				}
				store, dead := &backfilltest.FaultyStore{Store: p.Store}, new(atomic.Bool)
				opts := p.options()
				opts.Store, opts.BatchRows, opts.CheckpointInterval = store, 32, time.Millisecond
				opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
					if dead.Load() {
						return backfilltest.ErrInjected
					}
					spec.Checkpoint = slices.Clone(data)
					return nil
				}
				dieIn(kind, fail, store, &opts, dead)
				res, err := Run(p.Ctx, opts, spec)
				p.RequireNoTempFiles()
				require.LessOrEqual(t, store.Rows.Load(), p.parts.Count()-before.Rows, "rows are scanned again")
				if err == nil {
					require.Equal(t, p.parts.Count(), res.Rows)
					require.Equal(t, 2*p.parts.Count(), res.Entries)
					break
				}
				failures++
				require.Less(t, failures, 1000)
			}
			require.Greater(t, failures, 2)
			p.parts.RequireIndexes(spec.TS, local, unique)
		})
	}
}

// TestDuplicatesInPartitions: a value may be in several partitions of a local
// unique index, and in one of a global one, in every group that builds it.
func TestDuplicatesInPartitions(t *testing.T) {
	p := newPartitioned(t, backfilltest.Rand(t), 20, 0)
	for n, part := range p.parts {
		for i := range int64(20) {
			part.Put(int64(n)*100+i, 10_000+int64(n)*100+i)
		}
	}
	p.parts[3].Put(1<<40, 7)
	p.parts[15].Put(1<<40+1, 7)
	local, globally := backfilltest.IndexOn(9, true, 0, 1), backfilltest.IndexOn(10, true, 1)
	globally.Global = true
	_, err := Run(p.Ctx, p.options(), p.spec(local))
	require.NoError(t, err)
	p.parts.RequireIndexes(p.TS(), local)

	_, err = Run(p.Ctx, p.options(), p.spec(globally))
	var dup *ingest.DuplicateError
	require.ErrorAs(t, err, &dup)
	require.Len(t, dup.Groups, 1)
	require.EqualValues(t, 2, dup.Groups[0].Rows)
	res, err := compare.Run(p.Ctx, p.options().Common(), p.task(globally))
	require.NoError(t, err)
	require.False(t, res.Clean())
	found := slices.IndexFunc(res.Differences, func(d compare.Difference) bool { return d.Rows == 2 })
	require.GreaterOrEqual(t, found, 0)
	require.Len(t, res.Differences[found].Claims, 2)
}

func TestCheckpointOfOtherPartitionsIsDropped(t *testing.T) {
	p := newPartitioned(t, backfilltest.Rand(t), 4, 10)
	of := p.task(backfilltest.IndexOn(9, false, 1))
	x := checkpoint{TS: of.TS, Indexes: []checkpointIndex{{ID: 9}}}
	x.setTasks([]keyrange.Weighted{{KeyRange: encode.RecordRange(p.parts[0].Table.ID)}})
	data, err := x.encode(maxCheckpointBytes)
	require.NoError(t, err)
	cp, err := decodeCheckpoint(data, &of)
	require.NoError(t, err)
	require.NotNil(t, cp)
	x.setTasks([]keyrange.Weighted{{KeyRange: encode.RecordRange(p.Table.ID)}})
	data, err = x.encode(maxCheckpointBytes)
	require.NoError(t, err)
	cp, err = decodeCheckpoint(data, &of)
	require.NoError(t, err)
	require.Nil(t, cp)
}

// TestNullInPrimaryKey: a primary key to build must have no NULL.
func TestNullInPrimaryKey(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Put(1, 5)
	f.Put(2, nil)
	f.Put(3, 6)
	f.Put(4, nil)
	pk := backfilltest.IndexOn(9, true, 1)
	pk.Primary = true
	_, err := Run(f.Ctx, f.options(), f.spec(pk))
	var null *encode.NullError
	require.ErrorAs(t, err, &null)
	require.ErrorContains(t, err, "row 2 has no entry")
	var bad *encode.RowError
	require.ErrorAs(t, err, &bad)
	require.Len(t, bad.Rows, 2, "the rows of the batch without an entry")
	for i, handle := range []int64{2, 4} {
		require.Equal(t, tablecodec.EncodeRowKeyWithHandle(table.ID, tidbkv.IntHandle(handle)), tidbkv.Key(bad.Rows[i].Key))
		require.Equal(t, table.Columns[1], bad.Rows[i].Column)
		require.Equal(t, pk, bad.Rows[i].Index)
	}
	require.ErrorContains(t, null.Unwrap(), "1138")
	_, err = compare.Run(f.Ctx, f.options().Common(), f.task(pk))
	require.ErrorAs(t, err, &null)
	f.RequireNoTempFiles()
}

// TestCheckpointOfManyPartitions: what is left of partitions that were not begun is one task
// each, and how far entries were read back is left out where it would not fit.
func TestCheckpointOfManyPartitions(t *testing.T) {
	tasks := func(id int64) (tasks []keyrange.Weighted) {
		rest := encode.RecordRange(id)
		for handle := range tidbkv.IntHandle(20) {
			end := tidbkv.Key(tablecodec.EncodeRowKeyWithHandle(id, 100*handle))
			tasks = append(tasks, keyrange.Weighted{KeyRange: kv.KeyRange{Start: rest.Start, End: end}, Weight: 1})
			rest.Start = end
		}
		return append(tasks, keyrange.Weighted{KeyRange: rest, Weight: 1})
	}
	var others []keyrange.Weighted
	for id := range int64(50) {
		others = append(others, tasks(1000+id)...)
	}
	cp := checkpoint{TS: 5, Indexes: []checkpointIndex{{ID: 9}}}
	new(build).setLeft(&cp, tasks(999), others)
	require.Len(t, cp.Remaining, 51)

	cp.Verify = &checkpointVerify{Totals: make([]ingest.Totals, 1)}
	for id := range int64(1000) {
		cp.Verify.Remaining = append(cp.Verify.Remaining, keyrange.StoredIndexed{Start: encode.RecordRange(id).Start, End: encode.RecordRange(id).End})
	}
	data, err := cp.encodeWithin(1 << 20)
	require.NoError(t, err)
	require.Contains(t, string(data), "verify")
	data, err = cp.encodeWithin(20_000)
	require.NoError(t, err)
	require.LessOrEqual(t, len(data), 20_000)
	require.NotContains(t, string(data), "verify")
	require.NotNil(t, cp.Verify)
}

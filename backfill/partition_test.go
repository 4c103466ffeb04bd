package backfill

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/ingest"
	"fastddl/kv"
)

// partitioned is a partitioned table in a store of its own, with a fixture for
// each partition.
type partitioned struct {
	*fixture
	parts partitions
}

func newPartitioned(t testing.TB, r *rand.Rand, n, rowsEach int) *partitioned {
	f, parts := newPartitions(t, r, n, rowsEach)
	return &partitioned{f, parts}
}

// partitions are fixtures of the partitions of a table.
type partitions []*fixture

// newPartitions returns a partitioned table in a store of its own, with a fixture for
// each partition.
func newPartitions(t testing.TB, r *rand.Rand, n, rowsEach int) (whole *fixture, parts partitions) {
	table, kinds := plainTable()
	table.Partition = &model.PartitionInfo{Enable: true}
	whole = newFixture(t, table, kinds)
	for _, i := range r.Perm(n) { // IDs need not be in the order of partitions
		id := table.ID + 1 + int64(i)
		table.Partition.Definitions = append(table.Partition.Definitions, model.PartitionDefinition{ID: id})
		physical := *table
		physical.ID, physical.Partition = id, nil
		part := *whole
		part.table, part.rows, part.next = &physical, make(map[string]fixtureRow), int64(i)*1_000_000
		if i%5 != 1 { // some are empty
			part.insert(r, rowsEach)
		}
		parts = append(parts, &part)
	}
	return whole, parts
}

func (p partitions) count() (rows int64) {
	for _, part := range p {
		rows += int64(len(part.rows))
	}
	return rows
}

func (p partitions) requireIndexes(ts uint64, indexes ...*model.IndexInfo) {
	for _, part := range p {
		for _, idx := range indexes {
			part.requireIndex(idx, ts, "partition")
		}
	}
}

// TestPartitionsInGroups builds more partitions than are sorted at one time.
func TestPartitionsInGroups(t *testing.T) {
	p := newPartitioned(t, newRand(t), 23, 300)
	local, unique, wide := indexOn(9, false, 1), indexOn(10, true, 2, 0), indexOn(11, false, 2, 3, 1)
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
	res, err := Run(p.ctx, opts, spec)
	require.NoError(t, err)
	require.Equal(t, p.parts.count(), res.Rows)
	require.Equal(t, 3*p.parts.count(), res.Entries)
	require.Greater(t, res.Flushes, 5)
	require.Equal(t, res.Rows, last.Rows, "the last group is in a checkpoint")
	require.Zero(t, opts.Resources.Usage().MemoryBytes)
	p.parts.requireIndexes(spec.TS, local, unique, wide)
	p.requireNoTempFiles()
	compared, err := Compare(p.ctx, p.options().Common(), p.task(local, unique, wide))
	require.NoError(t, err)
	require.True(t, compared.Clean())
	require.Equal(t, p.parts.count(), compared.Rows)
}

// TestPartitionsResume lets the process die in each part of a build of partitions.
func TestPartitionsResume(t *testing.T) {
	r := newRand(t)
	for _, kind := range []string{"import", "scan", "checkpoint", "verify"} {
		t.Run(kind, func(t *testing.T) {
			p := newPartitioned(t, r, 20, 150)
			local, unique := indexOn(9, false, 1), indexOn(10, true, 2, 0)
			spec := p.spec(local, unique)
			failures := 0
			for fail := int64(1); ; fail++ {
				var before checkpoint
				if cp, err := decodeCheckpoint(spec.Checkpoint, &spec.Task); err == nil && cp != nil {
					before = *cp
				}
				store, dead := &faultyStore{Store: p.store}, new(atomic.Bool)
				opts := p.options()
				opts.Store, opts.BatchRows, opts.CheckpointInterval = store, 32, time.Millisecond
				opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
					if dead.Load() {
						return errInjected
					}
					spec.Checkpoint = slices.Clone(data)
					return nil
				}
				dieIn(kind, fail, store, &opts, dead)
				res, err := Run(p.ctx, opts, spec)
				p.requireNoTempFiles()
				require.LessOrEqual(t, store.rows.Load(), p.parts.count()-before.Rows, "rows are scanned again")
				if err == nil {
					require.Equal(t, p.parts.count(), res.Rows)
					require.Equal(t, 2*p.parts.count(), res.Entries)
					break
				}
				failures++
				require.Less(t, failures, 1000)
			}
			require.Greater(t, failures, 2)
			p.parts.requireIndexes(spec.TS, local, unique)
		})
	}
}

// TestDuplicatesInPartitions: a value may be in several partitions of a local
// unique index, and in one of a global one, whatever group it is built in.
func TestDuplicatesInPartitions(t *testing.T) {
	p := newPartitioned(t, newRand(t), 20, 0)
	for n, part := range p.parts {
		for i := range int64(20) {
			part.put(int64(n)*100+i, 10_000+int64(n)*100+i)
		}
	}
	p.parts[3].put(1<<40, 7)
	p.parts[15].put(1<<40+1, 7)
	local, globally := indexOn(9, true, 0, 1), indexOn(10, true, 1)
	globally.Global = true
	_, err := Run(p.ctx, p.options(), p.spec(local))
	require.NoError(t, err)
	p.parts.requireIndexes(p.ts(), local)

	_, err = Run(p.ctx, p.options(), p.spec(globally))
	var dup *ingest.DuplicateError
	require.ErrorAs(t, err, &dup)
	require.Len(t, dup.Groups, 1)
	require.EqualValues(t, 2, dup.Groups[0].Rows)
	res, err := Compare(p.ctx, p.options().Common(), p.task(globally))
	require.NoError(t, err)
	require.False(t, res.Clean())
	found := slices.IndexFunc(res.Differences, func(d Difference) bool { return d.Rows == 2 })
	require.GreaterOrEqual(t, found, 0)
	require.Len(t, res.Differences[found].Claims, 2)
}

func TestCheckpointOfOtherPartitionsIsDropped(t *testing.T) {
	p := newPartitioned(t, newRand(t), 4, 10)
	of := p.task(indexOn(9, false, 1))
	x := checkpoint{TS: of.TS, Indexes: []checkpointIndex{{ID: 9}}}
	x.setTasks([]task{{KeyRange: recordRange(p.parts[0].table.ID)}})
	data, err := x.encode()
	require.NoError(t, err)
	cp, err := decodeCheckpoint(data, &of)
	require.NoError(t, err)
	require.NotNil(t, cp)
	x.setTasks([]task{{KeyRange: recordRange(p.table.ID)}})
	data, err = x.encode()
	require.NoError(t, err)
	cp, err = decodeCheckpoint(data, &of)
	require.NoError(t, err)
	require.Nil(t, cp)
}

// TestNullInPrimaryKey: a primary key to build must have no NULL.
func TestNullInPrimaryKey(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.put(1, 5)
	f.put(2, nil)
	f.put(3, 6)
	f.put(4, nil)
	pk := indexOn(9, true, 1)
	pk.Primary = true
	_, err := Run(f.ctx, f.options(), f.spec(pk))
	var null *NullError
	require.ErrorAs(t, err, &null)
	require.ErrorContains(t, err, "row 2 has no entry")
	var bad *RowError
	require.ErrorAs(t, err, &bad)
	require.Len(t, bad.Rows, 2, "the rows of the batch without an entry")
	for i, handle := range []int64{2, 4} {
		require.Equal(t, tablecodec.EncodeRowKeyWithHandle(table.ID, tidbkv.IntHandle(handle)), tidbkv.Key(bad.Rows[i].Key))
		require.Equal(t, table.Columns[1], bad.Rows[i].Column)
		require.Equal(t, pk, bad.Rows[i].Index)
	}
	require.ErrorContains(t, null.Unwrap(), "1138")
	_, err = Compare(f.ctx, f.options().Common(), f.task(pk))
	require.ErrorAs(t, err, &null)
	f.requireNoTempFiles()
}

// TestCheckpointOfManyPartitions: what is left of partitions that were not begun is one task
// each, and how far entries were read back is left out where it would not fit.
func TestCheckpointOfManyPartitions(t *testing.T) {
	tasks := func(id int64) (tasks []task) {
		rest := recordRange(id)
		for handle := range tidbkv.IntHandle(20) {
			end := tidbkv.Key(tablecodec.EncodeRowKeyWithHandle(id, 100*handle))
			tasks = append(tasks, task{kv.KeyRange{Start: rest.Start, End: end}, 1})
			rest.Start = end
		}
		return append(tasks, task{rest, 1})
	}
	var others []task
	for id := range int64(50) {
		others = append(others, tasks(1000+id)...)
	}
	cp := checkpoint{TS: 5, Indexes: []checkpointIndex{{ID: 9}}}
	new(build).setLeft(&cp, tasks(999), others)
	require.Len(t, cp.Remaining, 51)

	cp.Verify = &checkpointVerify{Totals: make([]ingest.Totals, 1)}
	for id := range int64(1000) {
		cp.Verify.Remaining = append(cp.Verify.Remaining, checkpointRange{Start: recordRange(id).Start, End: recordRange(id).End})
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

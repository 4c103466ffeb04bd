package backfill

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/config"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/kv"
)

// proofRows are so many that of an index on them only a sample is read back.
const proofRows = fewEntries + 10_000

// proofRun is a build by auto over a store that counts what its scans visit, and knows what was read back.
type proofRun struct {
	*fixture
	scans   *backfilltest.CountingScans
	faulty  *backfilltest.FaultyStore
	opts    Options
	spec    Spec
	samples []SampleRead
	retries []event.Retry
}

func newProofRun(f *fixture, indexes ...*model.IndexInfo) *proofRun {
	p := &proofRun{fixture: f, faulty: &backfilltest.FaultyStore{Store: f.Store}, opts: f.options(), spec: f.spec(indexes...)}
	p.scans = &backfilltest.CountingScans{Store: p.faulty}
	p.spec.Verify = config.VerifyAuto
	p.opts.Store, p.opts.Bus = p.scans, new(event.Bus)
	p.opts.Bus.Subscribe(func(e event.Event) {
		switch e := e.(type) {
		case SampleRead:
			p.samples = append(p.samples, e)
		case event.Retry:
			p.retries = append(p.retries, e)
		}
	})
	return p
}

// readBack is how many entries were read back.
func (p *proofRun) readBack() int64 { return p.faulty.Entries.Load() }

// TestProvenBuildReadsASample: where the store counts what its scans visit, the rows are not counted again, and of many
// entries at most a few intervals are read back.
func TestProvenBuildReadsASample(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(proofRows)
	idx, wide := backfilltest.IndexOn(9, false, 1), backfilltest.IndexOn(10, false, 2, 1)
	for _, checkpoints := range []time.Duration{0, time.Millisecond} {
		p := newProofRun(f, idx, wide)
		p.opts.CheckpointInterval = checkpoints
		res, err := Run(f.Ctx, p.opts, p.spec)
		require.NoError(t, err)
		require.True(t, res.Sampled)
		require.True(t, res.Counted)
		require.False(t, res.Rebuilt)
		require.EqualValues(t, proofRows, res.Rows)
		require.EqualValues(t, 2*proofRows, res.Entries)
		require.Len(t, p.samples, 1)
		require.Equal(t, res.Entries, p.samples[0].Entries)
		require.Equal(t, p.readBack(), p.samples[0].Read)
		require.Positive(t, p.readBack())
		require.Less(t, p.readBack(), res.Entries/2)
		require.Zero(t, p.faulty.Counts())
		f.RequireLoaded(proofRows, p.spec.TS, idx, wide)
		f.DropIndex(idx)
		f.DropIndex(wide)
	}
}

// TestAutoReadsEverythingWhereAProofIsMissing: a build reads all entries where the store does not count its
// scans, where entries may be there that it has not imported, and where a checkpoint does not have what it needs. It counts
// all rows unless the scans have counted them.
func TestAutoReadsEverythingWhereAProofIsMissing(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(proofRows)
	idx := backfilltest.IndexOn(9, false, 1)
	edited := func(edit func(cp *checkpoint)) func(p *proofRun) {
		return func(p *proofRun) {
			opts := p.opts
			opts.Store = &backfilltest.CountingScans{Store: f.Store}
			opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
				cp := new(checkpoint)
				require.NoError(t, json.Unmarshal(data, cp))
				edit(cp)
				p.spec.Checkpoint, _ = cp.encode(maxCheckpointBytes)
				return nil
			}
			_, err := Run(f.Ctx, opts, p.spec)
			require.NoError(t, err)
			require.Len(t, p.samples, 1)
			p.samples = nil
		}
	}
	for name, c := range map[string]struct {
		prepare             func(p *proofRun)
		sampled, rowsProven bool
	}{
		"nothing":                    {func(*proofRun) {}, true, true},
		"full":                       {func(p *proofRun) { p.spec.Verify = config.VerifyFull }, false, false},
		"a job of before":            {func(p *proofRun) { p.spec.Verify = "" }, false, false},
		"store without count":        {func(p *proofRun) { p.opts.Store = p.faulty }, false, false},
		"leftovers":                  {func(p *proofRun) { p.spec.Leftovers = true }, false, false},
		"a difference":               {func(p *proofRun) { p.spec.Differed = true }, false, false},
		"resumed":                    {edited(func(*checkpoint) {}), true, true},
		"resumed, rebuilt":           {edited(func(cp *checkpoint) { cp.Rebuilt = true }), false, false},
		"resumed, rows of before":    {edited(func(cp *checkpoint) { cp.Visited = 0 }), false, false},
		"resumed, entries of before": {edited(func(cp *checkpoint) { cp.Indexes[0].Intervals = execution.Intervals{} }), false, true},
		"resumed, damaged sums": {edited(func(cp *checkpoint) {
			cp.Indexes[0].Intervals.Sums[0].Checksum++
		}), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProofRun(f, idx)
			c.prepare(p)
			res, err := Run(f.Ctx, p.opts, p.spec)
			require.NoError(t, err)
			require.True(t, res.Counted)
			require.Equal(t, c.sampled, res.Sampled)
			require.Equal(t, c.sampled, len(p.samples) == 1)
			if c.sampled {
				require.Less(t, p.readBack(), int64(proofRows/2))
				require.Zero(t, p.faulty.Counts())
			} else {
				require.EqualValues(t, proofRows, p.readBack())
				require.Equal(t, c.rowsProven, p.faulty.Counts() == 0)
			}
		})
	}
}

// TestAutoReadsWhatBuildsDoNotSee: DML before S may have computed other values of a column that is not stored, so that the index
// has entries which the build has not imported; and equal keys of a unique index may lie in different subtasks.
func TestAutoReadsWhatBuildsDoNotSee(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	idx := backfilltest.IndexOn(9, false, 1)
	p := newProofRun(f, idx)
	b, err := newBuild(p.opts, p.spec)
	require.NoError(t, err)
	b.auto = true
	cp := b.newCheckpoint(nil)
	require.True(t, b.proven(cp))
	cp.Shared = true
	require.True(t, b.proven(cp))
	idx.Unique = true
	require.False(t, b.proven(cp), "equal keys in different subtasks")
	cp.Shared = false
	require.True(t, b.proven(cp))
	table.Columns[1].GeneratedExprString = "`id` + 1"
	require.False(t, b.proven(cp))
}

// TestRowsThatTheScanHasNotReturnedAreMissed: the store has visited a record that the scan has not returned, or the scan has
// returned a row that is not there. That is found in both modes, the first time and the second.
func TestRowsThatTheScanHasNotReturnedAreMissed(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(3000)
	idx := backfilltest.IndexOn(9, false, 1)
	for _, verify := range []string{config.VerifyAuto, config.VerifyFull} {
		for _, missing := range []int{1, -1} {
			for _, again := range []bool{false, true} {
				p := newProofRun(f, idx)
				p.spec.Verify, p.opts.BatchRows, p.opts.MaxWorkers = verify, 100, 1
				batches := 0
				p.scans.OnBatch = func(b *kv.RowBatch) error {
					if batches++; batches == 7 || again && batches == 14 {
						b.Visited += missing
					}
					return nil
				}
				res, err := Run(f.Ctx, p.opts, p.spec)
				require.True(t, res.Rebuilt)
				require.Len(t, p.retries, 1)
				require.ErrorAs(t, p.retries[0].Err, new(*execution.RowCountError))
				if again {
					require.ErrorAs(t, err, new(*execution.RowCountError))
					require.ErrorContains(t, err, "after rebuilding once: ")
					continue
				}
				require.NoError(t, err)
				require.False(t, res.Sampled, "what was rebuilt is read back")
				f.RequireLoaded(3000, p.spec.TS, idx)
			}
		}
	}
}

// TestScanOutsideItsRangeIsAnError: a batch that does not follow the one before it, or lies behind the range that was asked for.
func TestScanOutsideItsRangeIsAnError(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(3000)
	for name, last := range map[string]func(before []byte) []byte{
		"again":  func(before []byte) []byte { return before },
		"behind": func([]byte) []byte { return encode.RecordRange(table.ID + 1).Start },
	} {
		t.Run(name, func(t *testing.T) {
			p := newProofRun(f, backfilltest.IndexOn(9, false, 1))
			p.opts.BatchRows, p.opts.MaxWorkers = 100, 1
			var before []byte
			p.scans.OnBatch = func(b *kv.RowBatch) error {
				if before != nil {
					b.LastKey = last(before)
				}
				before = slices.Clone(b.LastKey)
				return nil
			}
			_, err := Run(f.Ctx, p.opts, p.spec)
			require.ErrorAs(t, err, new(*execution.ScannedRangesError))
		})
	}
}

// TestLostUnitIsMissed: a store that has not linked a file, or that has lost a pair of one, is found by what is read back: of
// few entries all are.
func TestLostUnitIsMissed(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(5000)
	idx := backfilltest.IndexOn(9, false, 1)
	for name, lose := range map[string]func(p *proofRun){
		"unit": func(p *proofRun) { p.faulty.LoseUnit = func(n int64) bool { return n == 1 } },
		"pair": func(p *proofRun) { p.faulty.Skip = func(n int64) bool { return n == 70 } },
	} {
		for _, verify := range []string{config.VerifyAuto, config.VerifyFull} {
			t.Run(name+" by "+verify, func(t *testing.T) {
				p := newProofRun(f, idx)
				p.spec.Verify = verify
				lose(p)
				res, err := Run(f.Ctx, p.opts, p.spec)
				require.NoError(t, err)
				require.True(t, res.Rebuilt)
				require.Len(t, p.retries, 1)
				require.ErrorAs(t, p.retries[0].Err, new(*MismatchError))
				f.RequireLoaded(5000, p.spec.TS, idx)
				f.DropIndex(idx)
			})
		}
	}
}

// TestSampleFindsDamage: what the sample has is compared with what was written there: a store that has lost one entry in
// each sixteen is found by any sample.
func TestSampleFindsDamage(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(proofRows)
	p := newProofRun(f, backfilltest.IndexOn(9, false, 1))
	p.faulty.Skip = func(n int64) bool { return n <= proofRows && n%16 == 0 }
	res, err := Run(f.Ctx, p.opts, p.spec)
	require.NoError(t, err)
	require.True(t, res.Rebuilt)
	require.Len(t, p.samples, 1)
	require.Len(t, p.retries, 1)
	var mismatch *MismatchError
	require.ErrorAs(t, p.retries[0].Err, &mismatch)
	require.Less(t, mismatch.Want.Entries, int64(proofRows/2))
	require.ErrorContains(t, mismatch, "stored in a part of it")
}

// TestSampleIsChosenEvenly: each entry is read back with a probability of one in 32 or more, whether its interval is large or
// small, and what is read is not much more.
func TestSampleIsChosenEvenly(t *testing.T) {
	r := backfilltest.Rand(t)
	for range backfilltest.Rounds(3) {
		var index checkpointIndex
		for i := range minSampled + r.IntN(maxIntervals-minSampled) {
			if i > 0 {
				index.Intervals.Cuts = append(index.Intervals.Cuts, []byte{byte(i >> 8), byte(i)})
			}
			sum := ingest.Totals{Entries: int64(100 + r.IntN(1000))}
			if r.IntN(8) == 0 {
				sum.Entries = int64(r.IntN(2)) * 20_000
			}
			index.Intervals.Sums = append(index.Intervals.Sums, sum)
		}
		index.Intervals.Sums[0].Entries += fewEntries
		index.Totals = ingest.SumTotals(index.Intervals.Sums)
		if !canSample(index) {
			continue
		}
		chosen := make([]int, len(index.Intervals.Sums))
		at := func(key []byte, open int) int {
			if key == nil {
				return open
			}
			return int(key[0])<<8 | int(key[1])
		}
		const samples = 20_000
		for seed := range uint64(samples) {
			var entries, want int64
			for _, s := range chooseSample(rand.New(rand.NewPCG(seed, 0)), 3, index) {
				require.Equal(t, 3, s.index)
				want += s.want.Entries
				for i := at(s.keys.Start, 0); i < at(s.keys.End, len(chosen)); i++ {
					chosen[i]++
					entries += index.Intervals.Sums[i].Entries
				}
			}
			require.Equal(t, entries, want)
		}
		for i, n := range chosen {
			require.Greater(t, n, samples/sampleShare*3/4, "interval %d of %d", i, len(chosen))
		}
	}
	few := checkpointIndex{Totals: ingest.Totals{Entries: fewEntries}}
	all := chooseSample(r, 0, few)
	require.Len(t, all, 1)
	require.Equal(t, kv.KeyRange{}, all[0].keys)
	require.Equal(t, few.Totals, all[0].want)
}

// TestIntervalsOfManyPartitions: the targets of all partitions have at most as many intervals as one index may have, with all
// entries of the table in them.
func TestIntervalsOfManyPartitions(t *testing.T) {
	r := backfilltest.Rand(t)
	idx := backfilltest.IndexOn(9, false, 1)
	table, _ := backfilltest.PlainTable()
	table.Partition = &model.PartitionInfo{Enable: true}
	for _, n := range []int{1, 2, 5, 255, 256, 257, 1000} {
		var physicals []int64
		for i := range n {
			physicals = append(physicals, int64(1000+i))
		}
		all := execution.Intervals{}.Fit(ingest.Totals{})
		var want ingest.Totals
		for i := range physicals {
			g := groupFrom(table, []*model.IndexInfo{idx}, physicals, i)
			target := g.targets[0]
			var sample [][]byte
			for range 300 {
				sample = append(sample, []byte{byte(r.IntN(256)), byte(r.IntN(256))})
			}
			target.cut(all, sample)
			written := make([]ingest.Totals, len(target.cuts)+1)
			for k := range written {
				written[k].AddEntry([]byte{byte(i), byte(k)}, 1)
				want.AddEntry([]byte{byte(i), byte(k)}, 1)
			}
			all = all.Add(target.intervals(written))
		}
		require.LessOrEqual(t, len(all.Sums), maxIntervals)
		require.Greater(t, len(all.Sums), maxIntervals/2)
		require.Equal(t, want, ingest.SumTotals(all.Sums))
		require.Equal(t, all, all.Fit(want))
	}
}

// TestProvenBuildIsDividedAmongNodes: results of subtasks have what a sample needs; those of nodes that leave it out have
// everything read.
func TestProvenBuildIsDividedAmongNodes(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(proofRows)
	idx := backfilltest.IndexOn(9, false, 1)
	for name, c := range map[string]struct {
		change  func(i int, r *execution.SubtaskResult)
		sampled bool
	}{
		"all":                        {nil, true},
		"a node without intervals":   {func(i int, r *execution.SubtaskResult) { r.Intervals = r.Intervals[i%2:] }, false},
		"a node that does not count": {func(i int, r *execution.SubtaskResult) { r.Visited *= int64(i % 2) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProofRun(f, idx)
			opts, scheduler := f.shared(4, p.spec.Task, p.scans)
			scheduler.change = c.change
			p.opts.Scheduler = opts.Scheduler
			res, err := Run(f.Ctx, p.opts, p.spec)
			require.NoError(t, err)
			require.Equal(t, []int{4}, scheduler.parts)
			require.Equal(t, c.sampled, res.Sampled)
			require.True(t, res.Counted)
			if c.sampled {
				require.Less(t, p.readBack(), int64(proofRows/2))
			} else {
				require.EqualValues(t, proofRows, p.readBack())
			}
			f.RequireLoaded(proofRows, p.spec.TS, idx)
		})
	}
}

// TestProvenBuildSurvivesCrashes: a build that dies again and again in its scan, its import and its checkpoints has the proof of
// all that it has built in the end.
func TestProvenBuildSurvivesCrashes(t *testing.T) {
	r := backfilltest.Rand(t)
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(proofRows)
	idx, unique := backfilltest.IndexOn(9, false, 1), backfilltest.IndexOn(10, true, 0)
	p := newProofRun(f, idx, unique)
	deaths := 0
	for {
		run := newProofRun(f, idx, unique)
		run.spec = p.spec
		run.opts.CheckpointInterval, run.opts.BatchRows = 5*time.Millisecond, 256
		var dead atomic.Bool
		run.opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
			if dead.Load() {
				return backfilltest.ErrInjected
			}
			p.spec.Checkpoint = slices.Clone(data)
			return nil
		}
		dieIn([]string{"scan", "import", "checkpoint"}[r.IntN(3)], 1+r.Int64N(5), run.faulty, &run.opts, &dead)
		if deaths > 20 {
			run.faulty.OnScan, run.faulty.OnImport = nil, nil
			dead.Store(false)
			run.opts.SaveCheckpoint = nil
		}
		res, err := Run(f.Ctx, run.opts, run.spec)
		if err != nil {
			deaths++
			continue
		}
		require.False(t, res.Rebuilt)
		require.True(t, res.Sampled)
		require.EqualValues(t, proofRows, res.Rows)
		break
	}
	require.Positive(t, deaths)
	f.RequireLoaded(proofRows, p.spec.TS, idx, unique)
}

// TestRowsWithoutEntriesAreMissed: each row has an entry in each index that has no array's elements. What the encoders have lost
// is in no sum.
func TestRowsWithoutEntriesAreMissed(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(1000)
	idx := backfilltest.IndexOn(9, false, 1)
	for _, verify := range []string{config.VerifyAuto, config.VerifyFull} {
		p := newProofRun(f, idx)
		p.spec.Verify = verify
		p.opts.SaveCheckpoint = func(_ context.Context, data []byte) (err error) {
			cp := new(checkpoint)
			require.NoError(t, json.Unmarshal(data, cp))
			cp.Rows++
			cp.Visited++
			p.spec.Checkpoint, err = cp.encode(maxCheckpointBytes)
			return err
		}
		_, err := Run(f.Ctx, p.opts, p.spec)
		require.NoError(t, err)
		p.opts.SaveCheckpoint = nil
		res, err := Run(f.Ctx, p.opts, p.spec)
		require.NoError(t, err)
		require.True(t, res.Rebuilt)
		require.ErrorContains(t, p.retries[0].Err, "1000 entries with checksum 0 are encoded, the rows have 1001")
	}
}

// TestRangeThatNoWorkerHasIsMissed: what was to be scanned, and is neither scanned nor left when the workers end, ends the build
// before anything is imported.
func TestRangeThatNoWorkerHasIsMissed(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(1000)
	p := newProofRun(f, backfilltest.IndexOn(9, false, 1))
	b, err := newBuild(p.opts, p.spec)
	require.NoError(t, err)
	tasks, err := b.PlanRows(f.Ctx)
	require.NoError(t, err)
	tasks = keyrange.Split(keyrange.Merge(tasks)[0], 4)
	cp := b.newCheckpoint(tasks)
	err = b.Execute(f.Ctx, b.shareOptions(), func(ctx context.Context) error {
		b.tiling = &tiling{table: "t"}
		require.NoError(t, b.tiling.begin(tasks))
		_, err := b.ingestGroup(ctx, cp, b.groupOf(tasks[0]), tasks[1:], nil)
		return err
	})
	require.ErrorAs(t, err, new(*execution.ScannedRangesError))
	require.Zero(t, p.faulty.Imports.Load())
	f.RequireNoTempFiles()
}

// changingStore is a store that counts what its scans visit and finds what has changed.
type changingStore struct {
	*backfilltest.CountingScans
	kv.ChangeFinder
}

// TestEntriesFromBeforeTheImportAreFound: entries that were in an index before the build are its rows' own, which it has
// imported over, or deleted; another one, which no row has, is found however many entries there are.
func TestEntriesFromBeforeTheImportAreFound(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(proofRows)
	f.ReadRows(f.TS())
	idx := backfilltest.IndexOn(9, false, 1)
	prefix := encode.IndexPrefix(table.ID, idx.ID)
	own := f.WantEntries(idx)
	for name, c := range map[string]struct {
		write   func(before *backfilltest.Changes)
		since   bool
		sampled bool
		fails   bool
	}{
		"none":          {func(*backfilltest.Changes) {}, true, true, false},
		"since unknown": {func(*backfilltest.Changes) {}, false, false, false},
		"of rows": {func(c *backfilltest.Changes) {
			n := 0
			for key, value := range own {
				if c.Put([]byte(key), []byte(value)); n == 100 {
					break
				}
				n++
			}
		}, true, true, false},
		"deleted": {func(c *backfilltest.Changes) { c.Delete(append(slices.Clone(prefix), 3, 1)) }, true, true, false},
		"foreign": {func(c *backfilltest.Changes) { c.Put(append(slices.Clone(prefix), 3, 1), []byte("0")) }, true, false, true},
		"many": {func(c *backfilltest.Changes) {
			n := 0
			for key, value := range own {
				if c.Put([]byte(key), []byte(value)); n == maxOlder+1 {
					break
				}
				n++
			}
		}, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			since := f.TS()
			var before backfilltest.Changes
			c.write(&before)
			if len(before) > 0 {
				f.Commit(before)
			}
			p := newProofRun(f, idx)
			p.opts.Store = changingStore{p.scans, f.Store}
			if c.since {
				p.spec.Since = since
			}
			res, err := Run(f.Ctx, p.opts, p.spec)
			require.Equal(t, c.sampled, res.Sampled)
			if c.fails {
				require.Len(t, p.retries, 1)
				require.ErrorAs(t, p.retries[0].Err, new(*MismatchError))
				require.ErrorContains(t, p.retries[0].Err, "stored, or more,")
				require.ErrorAs(t, err, new(*MismatchError))
				require.Zero(t, len(p.samples))
			} else {
				require.NoError(t, err)
				f.RequireIndex(idx, p.spec.TS, name)
			}
			f.DropIndex(idx)
		})
	}
}

// TestWhatASampleFindsIsFoundAgain: that an index is wrong cannot be recorded, and the build is resumed. The sample is the
// same, although another one might not show it.
func TestWhatASampleFindsIsFoundAgain(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(proofRows)
	p := newProofRun(f, backfilltest.IndexOn(9, false, 1))
	p.faulty.Skip = func(n int64) bool { return n%100 == 0 } // each sample shows it
	p.opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
		if bytes.Contains(data, []byte(`"rebuilt":true`)) {
			return backfilltest.ErrInjected
		}
		p.spec.Checkpoint = bytes.Clone(data)
		return nil
	}
	for range 3 {
		_, err := Run(f.Ctx, p.opts, p.spec)
		require.ErrorIs(t, err, backfilltest.ErrInjected)
		require.True(t, IsWrong(err), "the build ends: %v", err)
		p.faulty.Entries.Store(0)
	}
	require.Len(t, p.samples, 3)
	for _, s := range p.samples {
		require.Equal(t, p.samples[0].Seed, s.Seed, "the sample is the same")
	}
}

// TestCollectionDuringTheBuildLeavesTheSample: what DML wrote before S is known, although garbage collection has passed it
// when the build verifies; and rows that are proven are not counted.
func TestCollectionDuringTheBuildLeavesTheSample(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(proofRows)
	p := newProofRun(f, backfilltest.IndexOn(9, false, 1))
	p.opts.Store = changingStore{p.scans, f.Store}
	p.spec.Since = f.TS()
	p.spec.TS = f.TS()
	p.opts.SaveCheckpoint = func(ctx context.Context, _ []byte) error {
		_, err := f.Store.CollectGarbage(ctx, p.spec.TS)
		return err
	}
	res, err := Run(f.Ctx, p.opts, p.spec)
	require.NoError(t, err)
	require.True(t, res.Sampled)
	require.Zero(t, p.faulty.Counts())

	f.DropIndex(p.spec.Task.Indexes[0])
	p.spec.TS = f.TS()
	res, err = Run(f.Ctx, p.opts, p.spec)
	require.NoError(t, err)
	require.False(t, res.Sampled, "collected before the build began")
	require.Zero(t, p.faulty.Counts(), "the rows are proven all the same")
}

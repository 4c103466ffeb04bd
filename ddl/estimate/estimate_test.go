package estimate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/ddl/estimate"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/internal/randtest"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// million is a table of a million rows of 200 bytes, of which a sample of ten thousand has entries of 20 bytes, 10 in the store and
// 12 in a run; there is room for all of it.
func million(changes ...func(in *estimate.Input)) estimate.Input {
	in := estimate.Input{
		Rows: 1_000_000, ReadBytes: 200_000_000, Sampled: 10_000, RowsError: 0.01, Cores: 2,
		Indexes: []estimate.Index{{
			Name: "i", SampleEntries: 10_000, SampleBytes: 200_000,
			Stored: []estimate.Point{{Entries: 625, Bytes: 6_250}, {Entries: 10_000, Bytes: 100_000}},
			Sorted: []estimate.Point{{Entries: 10_000, Bytes: 120_000}},
		}},
		Outlook: ingest.Outlook{
			Workers: 2, Mergers: 3, MemoryPart: 700 * mib, MemoryQuota: gib, LeastMemory: 4 * mib, RunsPart: 10 * gib, FilesPart: 10 * gib, RunFiles: 1000,
			Flow: flow.Full,
		},
		Disks: estimate.Disks{
			Temp: estimate.Disk{Free: 100 * gib, Kept: gib, Known: true}, Store: estimate.Disk{Free: 100 * gib, Kept: gib, Known: true}, Replicas: 1,
		},
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

// What is estimated of a build that has room follows from the sample: so many rows, so many bytes each.
func TestEstimateFollowsTheSample(t *testing.T) {
	e := estimate.Of(million())
	require.EqualValues(t, 1_000_000, e.Rows.Number)
	require.Len(t, e.Indexes, 1)
	require.EqualValues(t, 1_000_000, e.Indexes[0].Entries)
	require.InEpsilon(t, 10_000_000, e.Indexes[0].Bytes, 0.001)
	require.Equal(t, e.Indexes[0].Bytes, e.StoreBytes)
	require.InEpsilon(t, 22_000_000, e.MemoryBytes, 0.2, "keys, values, lengths, and blocks that are half full")
	require.Zero(t, e.SpilledBytes)
	require.Equal(t, 1, e.Rounds)
	require.Equal(t, estimate.Fits, e.Verdict)
	require.Empty(t, e.Missing)
	require.Less(t, e.Seconds.Low, e.Seconds.Likely)
	require.Less(t, e.Seconds.Likely, e.Seconds.High)
	sum := 0.0
	for _, s := range e.Stages {
		sum += s.Seconds
	}
	require.InDelta(t, e.Seconds.Likely, sum, 1e-9)
}

// Each resource that lacks room is named, with what is needed.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(in *estimate.Input)
		verdict estimate.Verdict
		missing string
	}{
		{"room in plenty", func(*estimate.Input) {}, estimate.Fits, ""},
		{"an empty table", func(in *estimate.Input) {
			in.Rows, in.Sampled, in.ReadBytes, in.Complete, in.Exact = 0, 0, 0, true, true
			in.Indexes[0] = estimate.Index{Name: "i"}
			in.Disks.Temp.Free, in.Disks.Store.Free = 0, 0
		}, estimate.Fits, ""},
		{"little memory", func(in *estimate.Input) { in.Outlook.MemoryPart = 8 * mib }, estimate.FitsWithSpilling, ""},
		{"too little for the least", func(in *estimate.Input) {
			in.Outlook.MemoryPart, in.Outlook.LeastMemory, in.Outlook.MemoryQuota = 8*mib, 8*mib, 4*mib
		}, estimate.DoesNotFit, "memory: 8MiB needed, 4MiB free"},
		{"a full temp folder", func(in *estimate.Input) { in.Disks.Temp.Free = gib + mib }, estimate.DoesNotFit, "temp: 11.94MiB needed, 1MiB free"},
		{"a full store", func(in *estimate.Input) { in.Disks.Store.Free = gib + 2*mib }, estimate.DoesNotFit, "store: 9.537MiB needed, 2MiB free"},
		{"both", func(in *estimate.Input) { in.Disks.Temp.Free, in.Disks.Store.Free = 0, 0 },
			estimate.DoesNotFit, "temp: 11.94MiB needed, 0B free; store: 9.537MiB needed, 0B free"},
		{"what builds must leave free is not there for them", func(in *estimate.Input) { in.Disks.Store = estimate.Disk{Free: gib, Kept: gib, Known: true} },
			estimate.DoesNotFit, "store: 9.537MiB needed, 0B free"},
		{"three replicas", func(in *estimate.Input) {
			in.Disks.Replicas, in.Disks.Stores, in.Disks.Store = 3, 3, estimate.Disk{Free: 20 * mib, Known: true}
		}, estimate.DoesNotFit, "store: 28.61MiB needed, 20MiB free"},
		{"a store that does not say", func(in *estimate.Input) { in.Disks.Store = estimate.Disk{} }, estimate.Unknown, "free space of store"},
		{"one that does not say beside one that is full", func(in *estimate.Input) { in.Disks.Store, in.Disks.Temp.Free = estimate.Disk{}, 0 },
			estimate.DoesNotFit, "temp: 11.94MiB needed, 0B free"},
		{"runs beside the index on one disk", func(in *estimate.Input) {
			in.Disks.Shared, in.Outlook.MemoryPart, in.Disks.Store.Free = true, 8*mib, gib+11*mib
		}, estimate.DoesNotFit, "store: 19.03MiB needed, 11MiB free"},
	} {
		e := estimate.Of(million(c.change))
		require.Equal(t, c.verdict, e.Verdict, "%s: %+v", c.name, e.Needs)
		require.Equal(t, c.missing, e.Missing, c.name)
	}
}

// The time grows with what holds the build up.
func TestSeconds(t *testing.T) {
	free := estimate.Of(million()).Seconds.Likely
	for _, c := range []struct {
		name        string
		change      func(in *estimate.Input)
		least, most float64 // of the time
	}{
		{"half of the processors", func(in *estimate.Input) { in.Outlook.Flow.Share = 0.5 }, free * 1.3, free * 2},
		{"a write limit of a second's twentieth", func(in *estimate.Input) { in.Outlook.WriteSpeed = mib }, 20e6 / mib, 20e6/mib + free},
		{"a unique index is compared", func(in *estimate.Input) { in.Indexes[0].Unique = true }, free * 1.01, free * 1.5},
		{"everything is read again", func(in *estimate.Input) { in.Full = true }, free * 1.2, free * 3},
		{"a job that runs", func(in *estimate.Input) { in.Outlook.Jobs, in.Outlook.Workers = 1, 1 }, free * 1.3, free * 2.5},
		{"a server that was measured to be slower", func(in *estimate.Input) { in.Rates = estimate.Rates{estimate.StageScan: {Factor: 3, Builds: 9}} }, free * 1.5, free * 3},
	} {
		got := estimate.Of(million(c.change)).Seconds.Likely
		require.GreaterOrEqual(t, got, c.least, c.name)
		require.LessOrEqual(t, got, c.most, c.name)
	}
}

// A sample proves little of equal values in a table, and says how little; a duplicate in it proves it all.
func TestDuplicates(t *testing.T) {
	unique := func(in *estimate.Input) { in.Indexes[0].Unique = true }
	of := func(changes ...func(in *estimate.Input)) estimate.Duplicates {
		return *estimate.Of(million(append(changes, unique)...)).Indexes[0].Duplicates
	}
	require.Equal(t, estimate.Duplicates{Found: 2, AtMost: 1}, of(func(in *estimate.Input) { in.Indexes[0].Repeated = 2 }))
	require.Equal(t, estimate.Duplicates{}, of(func(in *estimate.Input) {
		in.Complete, in.Sampled, in.Indexes[0].SampleEntries = true, 1_000_000, 1_000_000
	}))
	d := of()
	require.Zero(t, d.Found)
	require.InEpsilon(t, 0.06, d.AtMost, 0.01, "3 / 0.01^2 pairs, two rows each")
	require.EqualValues(t, 1, of(func(in *estimate.Input) { in.Rows = 1_000_000_000 }).AtMost)
	require.Nil(t, estimate.Of(million()).Indexes[0].Duplicates, "an index that is not unique")
}

// Entries of keys that are spread evenly lose bytes as they become more; those whose neighbours are in the sample do not.
func TestDensity(t *testing.T) {
	bytesOf := func(points ...estimate.Point) float64 {
		e := estimate.Of(million(func(in *estimate.Input) { in.Indexes[0].Stored = points }))
		return float64(e.Indexes[0].Bytes) / 1e6
	}
	require.InDelta(t, 10, bytesOf(estimate.Point{Entries: 1000, Bytes: 10_000}), 0.01, "one density says nothing of others")
	require.InDelta(t, 10, bytesOf(estimate.Point{Entries: 1000, Bytes: 10_000}, estimate.Point{Entries: 10_000, Bytes: 100_000}), 0.01)
	spread := bytesOf(estimate.Point{Entries: 2500, Bytes: 26_250}, estimate.Point{Entries: 10_000, Bytes: 100_000})
	require.InDelta(t, 10-0.25*6.64, spread, 0.02, "a quarter of a byte with each doubling, of which there are 6.64")
	require.InDelta(t, 2.5, bytesOf(estimate.Point{Entries: 5000, Bytes: 57_500}, estimate.Point{Entries: 10_000, Bytes: 100_000}), 0.01, "bounded")
	require.InDelta(t, 10, bytesOf(estimate.Point{Entries: 5000, Bytes: 40_000}, estimate.Point{Entries: 10_000, Bytes: 100_000}), 0.01, "nor do they grow")
}

// For all inputs: more rows never cost less, less room never makes a build fit, and no number is negative.
func TestEstimatesAreMonotone(t *testing.T) {
	rng := randtest.Rand(t)
	order := map[estimate.Verdict]int{estimate.Fits: 0, estimate.FitsWithSpilling: 0, estimate.DoesNotFit: 1}
	for range 2000 {
		in := million(func(in *estimate.Input) {
			in.Rows = 10_000 + rng.Int64N(1<<uint(10+rng.IntN(25)))
			in.Indexes[0].Stored = []estimate.Point{{Entries: 500, Bytes: rng.Int64N(50_000)}, {Entries: 10_000, Bytes: 1 + rng.Int64N(1_000_000)}}
			in.Outlook.MemoryPart = 1 << uint(20+rng.IntN(12))
			in.Outlook.RunsPart = 1 << uint(24+rng.IntN(15))
			in.Outlook.WriteSpeed = rng.Int64N(2) * rng.Int64N(1<<30)
			in.Disks.Store.Free = rng.Int64N(1 << uint(20+rng.IntN(20)))
			in.Disks.Temp.Free = rng.Int64N(1 << uint(20+rng.IntN(20)))
			in.Disks.Shared = rng.IntN(2) == 0
			in.Groups = 1 + rng.IntN(4)
		})
		e := estimate.Of(in)
		for _, n := range []int64{e.ReadBytes, e.MemoryBytes, e.TempBytes, e.StoreBytes, e.SpilledBytes} {
			require.GreaterOrEqual(t, n, int64(0), "%+v", in)
		}
		require.LessOrEqual(t, e.Seconds.Low, e.Seconds.High)
		more := in
		more.Rows *= 2
		m := estimate.Of(more)
		require.GreaterOrEqual(t, m.StoreBytes, e.StoreBytes*9/10, "%+v", in)
		require.GreaterOrEqual(t, m.Seconds.Likely, e.Seconds.Likely, "%+v", in)
		less := in
		less.Disks.Store.Free /= 2
		less.Disks.Temp.Free /= 2
		require.GreaterOrEqual(t, order[estimate.Of(less).Verdict], order[e.Verdict], "%+v", in)
	}
}

// A server learns from its builds by the median, and from large ones rather than from small ones.
func TestLearn(t *testing.T) {
	work := estimate.Work{Rows: 1e6, ReadBytes: 1e8, Entries: 1e6, EntryBytes: 2e7, Workers: 2, Mergers: 3, Cores: 2}
	past := func(scan float64) estimate.Past {
		return estimate.Past{Work: work, Seconds: map[string]float64{estimate.StageScan: scan}}
	}
	one := estimate.Learn([]estimate.Past{past(1)}, 0)[estimate.StageScan]
	require.Equal(t, 1, one.Builds)
	twice := estimate.Learn([]estimate.Past{past(2)}, 0)[estimate.StageScan]
	require.InEpsilon(t, 2*one.Factor, twice.Factor, 1e-9)
	odd := estimate.Learn([]estimate.Past{past(1), past(9), past(1.1)}, 0)[estimate.StageScan]
	require.InEpsilon(t, 1.1*one.Factor, odd.Factor, 1e-9, "one that was held up does not count")
	tiny := past(0.06)
	tiny.Rows, tiny.Entries = 10, 10
	require.Equal(t, one, estimate.Learn([]estimate.Past{tiny, past(1), tiny}, 0)[estimate.StageScan], "fixed costs say nothing of rows")
	require.Empty(t, estimate.Learn(nil, 0))
	require.NotContains(t, estimate.Learn([]estimate.Past{past(1)}, 0), estimate.StageMerge, "what is not known")
	unknown := past(1)
	unknown.ReadBytes = 0
	require.Equal(t, one, estimate.Learn([]estimate.Past{unknown}, 100)[estimate.StageScan], "what it has read is taken from rows like these")
}

// A build that has waited for long does not make others wait.
func TestLearnWaitByTheMedian(t *testing.T) {
	var past []estimate.Past
	for _, wait := range []float64{0.2, 600, 0.2, 0.21, 0.19} {
		past = append(past, estimate.Past{Seconds: map[string]float64{estimate.StageWait: wait}})
	}
	rate := estimate.Learn(past, 0)[estimate.StageWait]
	require.Equal(t, 5, rate.Builds)
	require.Less(t, rate.Factor, 2.0)
}

package survey

import (
	"bytes"
	"context"
	"math"
	"sort"
	"sync"

	"fastddl/backfill/encode"
	"fastddl/backfill/keyrange"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

// surveyor takes one survey.
type surveyor struct {
	opts       Options
	task       encode.Task
	projection *encode.Projection
	// ranges are those of the store, with their sizes, of the physical tables that were looked at, and scale is how many
	// times as many there are.
	ranges []keyrange.Weighted
	sized  bool // the store knows the sizes
	scale  float64
}

const (
	// planners is how many partitions are looked up at a time.
	planners = 8
	// natural is a size that the store's own ranges are below, so that they are not cut.
	natural = 1 << 40
)

// plan looks up the table's ranges, of maxPhysicals partitions at most and as far as there is time.
func (v *surveyor) plan(ctx context.Context) error {
	physicals := encode.PhysicalIDs(v.task.Table)
	chosen := physicals
	if n := len(physicals); n > maxPhysicals {
		chosen = make([]int64, maxPhysicals)
		for i := range chosen {
			chosen[i] = physicals[i*n/maxPhysicals]
		}
	}
	snap, err := v.opts.Store.Snapshot(ctx, v.task.TS)
	if err != nil {
		return err
	}
	defer snap.Close()
	timed, cancel := context.WithTimeout(ctx, v.opts.PlanFor)
	defer cancel()
	var mu sync.Mutex
	done := 0
	err = parallel.Do(timed, len(chosen), func() int { return planners }, func(ctx context.Context, i int) error {
		if i > 0 && ctx.Err() != nil {
			return nil
		}
		planned, err := keyrange.Plan(ctx, v.opts.Store, snap, encode.RecordRange(chosen[i]), natural, 1)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			if done > 0 && ctx.Err() != nil { // out of time, with something to go by
				return nil
			}
			return err
		}
		done++
		v.ranges = append(v.ranges, planned...)
		return nil
	})
	if err != nil && (ctx.Err() != nil || done == 0) {
		return err
	}
	v.scale = float64(len(physicals)) / float64(max(1, done))
	keyrange.Sort(v.ranges)
	v.sized = v.weigh()
	return nil
}

// weigh gives ranges of a store that knows no sizes equal weights, and returns whether it knows them.
func (v *surveyor) weigh() (sized bool) {
	for _, r := range v.ranges {
		// A range of unknown size weighs as an average one of its table, or 1.
		sized = sized || r.Weight > 1
	}
	return sized
}

// storedBytes is what the rows occupy, 0 if it is not known.
func (v *surveyor) storedBytes() uint64 {
	if !v.sized {
		return 0
	}
	return uint64(keyrange.TotalWeight(v.ranges) * v.scale)
}

// places returns ranges that cover the table and at whose beginning rows are read: evenly by bytes, in key order.
func (v *surveyor) places() []kv.KeyRange {
	ends := make([]float64, len(v.ranges)) // cumulated weights
	sum := 0.0
	for i, r := range v.ranges {
		sum += r.Weight
		ends[i] = sum
	}
	var starts [][]byte
	at := make([]int, 0, v.opts.Places) // the range that each place is in
	add := func(i int, key []byte) {
		if n := len(starts); n > 0 && bytes.Compare(starts[n-1], key) >= 0 {
			return
		}
		starts, at = append(starts, key), append(at, i)
	}
	add(0, v.ranges[0].Start)
	for n := 1; n < v.opts.Places; n++ {
		want := sum * float64(n) / float64(v.opts.Places)
		i := min(sort.SearchFloat64s(ends, want), len(v.ranges)-1)
		r := v.ranges[i]
		if _, tail, ok := keyrange.CutAt(r, 1-(ends[i]-want)/math.Max(r.Weight, 1e-9)); ok {
			add(i, tail.Start)
		} else {
			add(i, r.Start)
		}
	}
	places := make([]kv.KeyRange, len(starts))
	for i, start := range starts {
		end := v.ranges[at[i]].End
		if i+1 < len(starts) && bytes.Compare(starts[i+1], end) < 0 {
			end = starts[i+1]
		}
		places[i] = kv.KeyRange{Start: start, End: end}
	}
	return places
}

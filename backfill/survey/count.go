package survey

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"

	"fastddl/backfill/keyrange"
	"fastddl/internal/parallel"
)

const (
	// counters is how many ranges are counted at a time.
	counters = 4
	// leastCounted is how many ranges make an estimate of the others.
	leastCounted = 4
)

// counted is a range with the number of its rows.
type counted struct {
	weight float64
	rows   int64
}

// countRows counts the rows: those of the sample if it is complete, or those of ranges in random order as long as there is
// time. If some are left, rows are taken to be as many for their bytes as in what was counted.
func (v *surveyor) countRows(ctx context.Context, s *sample, out *Survey) error {
	if out.Complete {
		out.Rows, out.Exact = s.rows, true
		return nil
	}
	found, err := v.countRanges(ctx)
	if err != nil {
		return err
	}
	if len(found) == len(v.ranges) && v.scale == 1 {
		out.Exact = true
		for _, c := range found {
			out.Rows += c.rows
		}
		return nil
	}
	if len(found) == 0 || v.sized && len(found) < min(leastCounted, len(v.ranges)) {
		if rows, ok := v.bySample(s); ok && len(found) == 0 {
			out.Rows, out.RowsError = rows, 0.5
			return nil
		}
	}
	if len(found) == 0 {
		return ErrNothingRead
	}
	rate, relative := ratio(found)
	out.Rows = max(s.rows, int64(math.Round(rate*keyrange.TotalWeight(v.ranges)*v.scale)))
	out.RowsError = relative
	return nil
}

// mostCompressed is how much smaller than their keys and values rows are taken to be in the store at most.
const mostCompressed = 4

// bySample is what is known without a count: a row occupies in the store what it has in bytes, or less if it is compressed, as the distances
// of keys say where rows were read.
func (v *surveyor) bySample(s *sample) (rows int64, ok bool) {
	if !v.sized || s.rows == 0 || s.bytes == 0 {
		return 0, false
	}
	least := float64(v.storedBytes()) / (float64(s.bytes) / float64(s.rows))
	byKeys := 0.0
	for _, p := range s.places {
		if p.all || p.part <= 0 {
			byKeys += float64(p.rows)
		} else {
			byKeys += float64(p.rows) / p.part
		}
	}
	return int64(min(max(least, byKeys*v.scale), least*mostCompressed)), true
}

// countRanges counts ranges until there are none left or the time is over.
func (v *surveyor) countRanges(ctx context.Context) ([]counted, error) {
	snap, err := v.opts.Store.Snapshot(ctx, v.task.TS)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	timed, cancel := context.WithTimeout(ctx, v.opts.CountFor)
	defer cancel()
	order := rand.New(rand.NewPCG(v.opts.Seed, 1)).Perm(len(v.ranges))
	var mu sync.Mutex
	var found []counted
	err = parallel.Do(timed, len(v.ranges), func() int { return counters }, func(ctx context.Context, i int) error {
		r := v.ranges[order[i]]
		n, err := snap.Count(ctx, r.KeyRange)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		found = append(found, counted{r.Weight, n})
		return nil
	})
	if err != nil && (ctx.Err() != nil || timed.Err() == nil) {
		return nil, err
	}
	return found, nil
}

// ratio returns the rows for a unit of weight, and the standard error of that as a part of it (that of a ratio estimator).
func ratio(found []counted) (rate, relative float64) {
	var rows, weight float64
	for _, c := range found {
		rows += float64(c.rows)
		weight += c.weight
	}
	if weight == 0 || rows == 0 {
		return 0, 1
	}
	rate = rows / weight
	n := float64(len(found))
	if n < 2 {
		return rate, 0.5
	}
	var squares float64
	for _, c := range found {
		d := float64(c.rows) - rate*c.weight
		squares += d * d
	}
	return rate, math.Sqrt(squares/(n*(n-1))) / (rows / n)
}

package execution

import (
	"bytes"
	"slices"

	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/kv"
)

// Intervals are totals of entries of one index by intervals of its keys: Cuts are whole keys in ascending order, each
// the first of an interval behind the first, and Sums has one more. The zero value says nothing about intervals.
type Intervals struct {
	Cuts [][]byte        `json:"cuts,omitempty"`
	Sums []ingest.Totals `json:"sums,omitempty"`
}

// Fit returns the intervals if their sums add up to total, otherwise one interval of all keys.
func (v Intervals) Fit(total ingest.Totals) Intervals {
	ascending := true
	for i := 1; i < len(v.Cuts); i++ {
		ascending = ascending && bytes.Compare(v.Cuts[i-1], v.Cuts[i]) < 0
	}
	if len(v.Sums) != len(v.Cuts)+1 || !ascending || ingest.SumTotals(v.Sums) != total {
		return Intervals{Sums: []ingest.Totals{total}}
	}
	return v
}

// Add returns the intervals of the entries of both, which fit. They are cut where both are. A cut that only one of them
// has is left out, unless the interval of the other one has no entries: that can be cut anywhere.
func (v Intervals) Add(o Intervals) Intervals {
	var sum Intervals
	var current ingest.Totals
	a, b := intervalReader{v, 0}, intervalReader{o, 0}
	for {
		cut := a.cut()
		if other := b.cut(); cut == nil || other != nil && bytes.Compare(other, cut) < 0 {
			cut = other
		}
		if cut == nil {
			current.Add(a.Sums[a.at])
			current.Add(b.Sums[b.at])
			sum.Sums = append(sum.Sums, current)
			return sum
		}
		inA, inB := bytes.Equal(a.cut(), cut), bytes.Equal(b.cut(), cut)
		kept := (inA || a.empty()) && (inB || b.empty())
		if inA {
			a.take(&current)
		}
		if inB {
			b.take(&current)
		}
		if kept {
			sum.Cuts, sum.Sums = append(sum.Cuts, cut), append(sum.Sums, current)
			current = ingest.Totals{}
		}
	}
}

// intervalReader goes through intervals in key order.
type intervalReader struct {
	Intervals
	at int
}

// cut returns the end of the interval; nil is that of the last one.
func (r *intervalReader) cut() []byte {
	if r.at == len(r.Cuts) {
		return nil
	}
	return r.Cuts[r.at]
}

func (r *intervalReader) empty() bool { return r.Sums[r.at] == ingest.Totals{} }

// take adds the totals of the interval and goes to the next one.
func (r *intervalReader) take(into *ingest.Totals) {
	into.Add(r.Sums[r.at])
	r.at++
}

// Keys returns the range of the i-th interval.
func (v Intervals) Keys(i int) (r kv.KeyRange) {
	if i > 0 {
		r.Start = v.Cuts[i-1]
	}
	if i < len(v.Cuts) {
		r.End = v.Cuts[i]
	}
	return r
}

// Within returns the cuts inside a range.
func (v Intervals) Within(r kv.KeyRange) (cuts [][]byte) {
	for _, c := range v.Cuts {
		if r.Contains(c) && !bytes.Equal(c, r.Start) {
			cuts = append(cuts, c)
		}
	}
	return slices.Clip(cuts)
}

// maxCutBytes is the length up to which a key is kept to cut a space of keys at it.
const maxCutBytes = 256

// CutKeys returns keys that cut the keys of which sample is one into at most n intervals of about the same size. A cut is as
// much of a key as tells it from the one before.
func CutKeys(sample [][]byte, n int) (cuts [][]byte) {
	sorted := slices.CompactFunc(slices.SortedFunc(slices.Values(sample), bytes.Compare), bytes.Equal)
	last := 0
	for i := 1; i < n; i++ {
		at := len(sorted) * i / n
		if at == last {
			continue
		}
		last = at
		cut := sorted[at][:keyrange.CommonPrefix(sorted[at-1], sorted[at])+1]
		if len(cut) <= maxCutBytes {
			cuts = append(cuts, bytes.Clone(cut))
		}
	}
	return cuts
}

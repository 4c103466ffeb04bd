package distribution

import (
	"bytes"
	"errors"
	"slices"
)

// ErrNotHashed reports that summaries can not be merged, because no hashes were taken of one.
var ErrNotHashed = errors.New("distribution: a part of the index has no sketch of its values")

// Merge returns the summary of the entries of several streams, whose keys may lie anywhere between each other. A nil is left out.
func Merge(parts ...*Summary) (*Summary, error) {
	parts = slices.DeleteFunc(slices.Clone(parts), func(p *Summary) bool { return p == nil })
	if len(parts) == 0 {
		return nil, nil
	}
	sum := parts[0]
	for _, p := range parts[1:] {
		var err error
		if sum, err = merge(sum, p); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

func merge(a, b *Summary) (*Summary, error) {
	sum := &Summary{Rows: a.Rows + b.Rows, Nulls: a.Nulls + b.Nulls}
	if a.Sketch != nil {
		sum.Sketch = a.Sketch.clone().merge(b.Sketch)
	}
	if a.Sample != nil {
		sum.Sample = a.Sample.clone().merge(b.Sample)
	}
	sum.Buckets = interleave(a.Buckets, b.Buckets)
	if a.Whole() && b.Whole() && len(sum.Buckets) <= maxBuckets {
		sum.Different = int64(len(sum.Buckets))
		return sum, nil
	}
	switch {
	case a.Rows == 0:
		sum.Different, sum.Merged = b.Different, b.Merged
	case b.Rows == 0:
		sum.Different, sum.Merged = a.Different, a.Merged
	case sum.Sketch == nil:
		return nil, ErrNotHashed
	default:
		sum.Different, sum.Merged = min(sum.Sketch.Count(), sum.Rows), true
	}
	if sum.Top = mergeTop(a, b); len(sum.Top) < maxTop {
		sum.Different = int64(len(sum.Top)) // these are all
	}
	sum.Shorten()
	return sum, nil
}

// interleave returns the buckets of both in key order. Where they overlap the lower bound of the later one is its upper bound: the rows
// between are attributed to the value that is known.
func interleave(a, b []Bucket) []Bucket {
	out := make([]Bucket, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		next := &a
		if len(a) == 0 || len(b) > 0 && bytes.Compare(b[0].Upper, a[0].Upper) < 0 {
			next = &b
		}
		bucket := (*next)[0]
		*next = (*next)[1:]
		if n := len(out); n > 0 {
			last := &out[n-1]
			if bytes.Equal(last.Upper, bucket.Upper) {
				one := last.Different == 1 && bucket.Different == 1
				last.Rows += bucket.Rows
				last.Repeat += bucket.Repeat
				if !one {
					last.Different += bucket.Different - 1
				}
				continue
			}
			if bytes.Compare(bucket.Lower, last.Upper) <= 0 {
				bucket.Lower = bucket.Upper
				// It has more than one value, of which those before it are not known.
			}
		}
		out = append(out, bucket)
	}
	return out
}

// mergeTop returns the most frequent values of both.
func mergeTop(a, b *Summary) []Value {
	t := top{most: maxTop}
	listA, listB := a.most(maxTop), b.most(maxTop)
	inA, leastA := index(listA)
	inB, leastB := index(listB)
	for _, v := range listA {
		t.add(Value{Key: v.Key, Rows: v.Rows + b.rowsOf(v.Key, inB, leastB)})
	}
	for _, v := range listB {
		if _, both := inA[string(v.Key)]; !both {
			t.add(Value{Key: v.Key, Rows: v.Rows + a.rowsOf(v.Key, inA, leastA)})
		}
	}
	return t.values
}

// index returns the rows by value, and the fewest; 0 if there are no others.
func index(values []Value) (rows map[string]int64, least int64) {
	rows = make(map[string]int64, len(values))
	for _, v := range values {
		rows[string(v.Key)] = v.Rows
	}
	if len(values) == maxTop {
		least = values[maxTop-1].Rows
	}
	return rows, least
}

package distribution

import (
	"bytes"
	"slices"
	"sort"
)

// Value is a value with its rows.
type Value struct {
	Key  []byte `json:"k"`
	Rows int64  `json:"n"`
}

// Bucket is the rows between two values.
type Bucket struct {
	Lower []byte `json:"l"`
	Upper []byte `json:"u"`
	Rows  int64  `json:"n"`
	// Repeat is how many of them have the value Upper.
	Repeat int64 `json:"r"`
	// Different is how many values they have.
	Different int64 `json:"d"`
}

// Summary is the distribution of an index, or of a part of it.
type Summary struct {
	// Rows are not NULL; Nulls are, if the index has one column.
	Rows  int64 `json:"rows"`
	Nulls int64 `json:"nulls,omitempty"`
	// Different is how many values there are; if Merged, of the Sketch, unless all values are known.
	Different int64 `json:"different"`
	Merged    bool  `json:"merged,omitempty"`
	// Top has the most frequent of the values that have no bucket of their own, in any order. It may have others.
	Top     []Value  `json:"top,omitempty"`
	Buckets []Bucket `json:"buckets,omitempty"`
	// Sketch counts the values; nil if no hashes were taken.
	Sketch *Sketch `json:"sketch,omitempty"`
	// Sample has some of the hashes; nil if none was taken.
	Sample *Sample `json:"sample,omitempty"`
}

// Whole says that all values are in the summary.
func (s *Summary) Whole() bool {
	return !s.Merged && int64(len(s.Buckets)) == s.Different
}

// Join returns the summary of streams that follow each other in key order. It may change them. A nil is left out.
func Join(parts []*Summary) *Summary {
	var sum *Summary
	top := top{most: maxTop}
	for _, p := range parts {
		if p == nil {
			continue
		}
		for _, v := range p.Top {
			top.add(v)
		}
		if sum == nil {
			sum = p
			continue
		}
		sum.Rows += p.Rows
		sum.Nulls += p.Nulls
		sum.Different += p.Different
		next := p.Buckets
		if last := len(sum.Buckets) - 1; last >= 0 && len(next) > 0 {
			if a, b := &sum.Buckets[last], &next[0]; a.Different == 1 && b.Different == 1 && bytes.Equal(a.Upper, b.Upper) {
				a.Rows += b.Rows
				a.Repeat = a.Rows
				sum.Different--
				next = next[1:]
			}
		}
		sum.Buckets = append(sum.Buckets, next...)
		sum.Sketch = sum.Sketch.merge(p.Sketch)
		sum.Sample = sum.Sample.merge(p.Sample)
	}
	if sum != nil {
		sum.Top = top.values
	}
	return sum
}

// Limits of a summary that is stored.
const (
	maxBuckets = 1024
	maxTop     = 512
)

// Shorten leaves values out until the summary is small enough to be stored.
func (s *Summary) Shorten() { s.shorten(maxBuckets, maxTop) }

// Own copies the values, so that a summary that stays keeps no more memory than they have: a collector's lie among many others.
func (s *Summary) Own() {
	s.Top = OwnValues(s.Top)
	s.Buckets = slices.Clone(s.Buckets)
	for i := range s.Buckets {
		b := &s.Buckets[i]
		b.Lower, b.Upper = OwnBounds(b.Lower, b.Upper)
	}
}

// OwnValues returns a copy of values.
func OwnValues(values []Value) []Value {
	values = slices.Clone(values)
	for i := range values {
		values[i].Key = bytes.Clone(values[i].Key)
	}
	return values
}

// OwnBounds returns copies of a bucket's bounds, one of both if they are equal.
func OwnBounds(lower, upper []byte) (l, u []byte) {
	if bytes.Equal(lower, upper) {
		l = bytes.Clone(lower)
		return l, l
	}
	return bytes.Clone(lower), bytes.Clone(upper)
}

func (s *Summary) shorten(buckets, values int) {
	if len(s.Buckets) <= buckets && len(s.Top) <= values {
		return
	}
	list := s.most(values)
	each := s.Rows / int64(buckets/2)
	var out []Bucket
	for i := range s.Buckets {
		b := s.Buckets[i]
		if b.Rows < each && len(out) > 0 {
			if last := &out[len(out)-1]; last.Rows+b.Rows <= each {
				last.Upper, last.Repeat = b.Upper, b.Repeat
				last.Rows += b.Rows
				last.Different += b.Different
				continue
			}
		}
		out = append(out, b)
	}
	s.Buckets = out
	s.Top = list
}

// most returns the most frequent values, those with a bucket of their own as well, at most n.
func (s *Summary) most(n int) []Value {
	t := top{most: n}
	listed := make(map[string]struct{}, len(s.Top))
	for _, v := range s.Top {
		t.add(v)
		listed[string(v.Key)] = struct{}{}
	}
	for i := range s.Buckets {
		b := &s.Buckets[i]
		if _, known := listed[string(b.Upper)]; b.Different == 1 && !known {
			t.add(Value{Key: b.Upper, Rows: b.Rows})
		}
	}
	return t.values
}

// bucketOf returns the bucket between whose bounds a value lies, nil if there is none.
func (s *Summary) bucketOf(key []byte) *Bucket {
	if i := s.BucketOf(key); i >= 0 {
		return &s.Buckets[i]
	}
	return nil
}

// rowsOf returns how many rows about have a value: of one that is not listed, no more than the rarest that is; least is 0 if all are.
func (s *Summary) rowsOf(key []byte, listed map[string]int64, least int64) int64 {
	if n, ok := listed[string(key)]; ok {
		return n
	}
	if least == 0 {
		return 0
	}
	b := s.bucketOf(key)
	switch {
	case b == nil:
		return 0
	case bytes.Equal(b.Upper, key):
		return b.Repeat
	case b.Different <= 1:
		return 0
	}
	return min(least, b.Rows/b.Different)
}

// top are the most frequent values, at most most, the most frequent first.
type top struct {
	most   int
	values []Value
}

// least returns how many rows a value must have more than to be added.
func (t *top) least() int64 {
	if len(t.values) < t.most {
		return 0
	}
	if t.most == 0 {
		return 1<<63 - 1
	}
	return t.values[len(t.values)-1].Rows
}

// add adds a value, before those that are as frequent, if it is frequent enough.
func (t *top) add(v Value) {
	if v.Rows <= t.least() {
		return
	}
	at := sort.Search(len(t.values), func(i int) bool { return t.values[i].Rows <= v.Rows })
	if len(t.values) < t.most {
		t.values = append(t.values, Value{})
	}
	copy(t.values[at+1:], t.values[at:])
	t.values[at] = v
}

// MostFrequent returns the most frequent values, at most n, the most frequent first. Of some that are as frequent TiDB has the first ones in
// reverse order (BuildHistAndTopN in pkg/statistics/builder.go), and so has this of a summary that is Whole.
func (s *Summary) MostFrequent(n int) []Value { return s.most(n) }

// BucketOf returns the position of the bucket between whose bounds a value lies, -1 if there is none.
func (s *Summary) BucketOf(key []byte) int {
	i := sort.Search(len(s.Buckets), func(i int) bool { return bytes.Compare(s.Buckets[i].Upper, key) >= 0 })
	if i == len(s.Buckets) || bytes.Compare(s.Buckets[i].Lower, key) > 0 {
		return -1
	}
	return i
}

// Valid says that a summary that was stored can be gone on with.
func (s *Summary) Valid() bool { return s == nil || s.Sketch == nil || s.Sketch.Valid() }

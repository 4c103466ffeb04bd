package indexstats

import (
	"bytes"
	"slices"

	"fastddl/ingest/distribution"
)

// Settings are the options of ANALYZE that shape statistics.
type Settings struct {
	Buckets int `json:"buckets"`
	TopN    int `json:"topn"`
}

// DefaultTopN is TiDB's default. With any other number TiDB keeps values that are no more frequent than others.
const DefaultTopN = 100

// DefaultSettings are TiDB's (analyzeOptionDefaultV2 in pkg/planner/core/planbuilder.go).
var DefaultSettings = Settings{Buckets: 256, TopN: DefaultTopN}

// WithDefaults returns the settings, TiDB's defaults if they are zero.
func (s Settings) WithDefaults() Settings {
	if s == (Settings{}) {
		return DefaultSettings
	}
	return s
}

// Statistics are those of one index of one physical table, or of all partitions.
type Statistics struct {
	// Different is the number of values that are not NULL, Nulls that of rows with NULL in an index of one column.
	Different int64 `json:"different"`
	Nulls     int64 `json:"nulls,omitempty"`
	// Rows is the number of entries, those of NULL included.
	Rows int64 `json:"rows"`
	// Top are the most frequent values, the most frequent first; Buckets have the rows of the others, in order of values.
	Top     []distribution.Value `json:"top,omitempty"`
	Buckets []Bucket             `json:"buckets,omitempty"`
	// Sample has some of the values' hashes, if these are of a partition.
	Sample *distribution.Sample `json:"sample,omitempty"`
}

// Bucket is a bucket of a histogram: so many rows with values from Lower to Upper, Repeat of them with Upper.
type Bucket struct {
	Lower  []byte `json:"l"`
	Upper  []byte `json:"u"`
	Rows   int64  `json:"n"`
	Repeat int64  `json:"r"`
}

// own copies the values, so that statistics that stay keep no more memory than they have.
func (s *Statistics) own() {
	s.Top = distribution.OwnValues(s.Top)
	s.Buckets = slices.Clone(s.Buckets)
	for i := range s.Buckets {
		b := &s.Buckets[i]
		b.Lower, b.Upper = distribution.OwnBounds(b.Lower, b.Upper)
	}
}

// Build returns the statistics of an index whose values are distributed as s says.
func Build(s *distribution.Summary, set Settings) *Statistics {
	st := &Statistics{Different: s.Different, Nulls: s.Nulls, Rows: s.Rows + s.Nulls, Sample: s.Sample}
	if s.Rows == 0 {
		return st
	}
	st.Top = s.MostFrequent(set.TopN)
	if set.TopN == DefaultTopN {
		st.Top = prune(st.Top, s)
	}
	if set.Buckets == 0 || len(st.Top) > 0 && int64(len(st.Top)) == s.Different {
		return st
	}
	rest := withoutTop(s, st.Top)
	var rows int64
	for _, b := range rest {
		rows += b.Rows
	}
	st.Buckets = fill(rest, float64(rows)/float64(set.Buckets)+1)
	return st
}

// prune leaves out the least frequent values that are no more frequent than those which are not in the list are on average
// (pruneTopNItem in pkg/statistics/builder.go, of a sample of all rows).
func prune(top []distribution.Value, s *distribution.Summary) []distribution.Value {
	if s.Rows <= 1 || int64(len(top)) >= s.Different || len(top) <= 1 {
		return top
	}
	var sum int64 // of all but the last
	for _, v := range top[:len(top)-1] {
		sum += v.Rows
	}
	rows := float64(s.Rows)
	n := len(top)
	for n > 0 {
		selectivity := 1.0 - float64(uint64(sum))/rows - float64(s.Nulls)/rows
		selectivity = min(1, max(0, selectivity))
		if others := float64(s.Different) - (float64(n) - 1); others > 1 {
			selectivity /= others
		}
		if float64(top[n-1].Rows) > selectivity*rows+0.5 {
			break
		}
		if n--; n == 0 {
			break
		}
		sum -= top[n-1].Rows
	}
	return top[:n]
}

// withoutTop returns the buckets without the rows of some values. Where a summary was merged a bucket may have fewer rows than a
// value in it: then those beside it have more.
func withoutTop(s *distribution.Summary, top []distribution.Value) []distribution.Bucket {
	rest := slices.Clone(s.Buckets)
	for _, v := range top {
		i := s.BucketOf(v.Key)
		if i < 0 {
			i = len(rest) - 1
		}
		b := &rest[i]
		b.Rows -= v.Rows
		if bytes.Equal(b.Upper, v.Key) {
			b.Repeat = 0
		}
		b.Different--
	}
	var missing int64
	take := func(b *distribution.Bucket) {
		b.Rows -= missing
		missing = max(0, -b.Rows)
		b.Rows = max(0, b.Rows)
		b.Repeat = min(b.Repeat, b.Rows)
	}
	for i := range rest {
		take(&rest[i])
	}
	for i := range slices.Backward(rest) {
		take(&rest[i])
	}
	return slices.DeleteFunc(rest, func(b distribution.Bucket) bool { return b.Rows == 0 })
}

// fill puts what follows each other into one bucket while that has room when the next one begins (buildHist in
// pkg/statistics/builder.go).
func fill(rest []distribution.Bucket, most float64) (out []Bucket) {
	var total, before int64 // rows of all, and of those in buckets that are full
	for _, b := range rest {
		if len(out) > 0 && float64(total+1-before) <= most {
			last := &out[len(out)-1]
			last.Upper, last.Repeat = b.Upper, b.Repeat
			last.Rows += b.Rows
		} else {
			before = total
			out = append(out, Bucket{Lower: b.Lower, Upper: b.Upper, Rows: b.Rows, Repeat: b.Repeat})
		}
		total += b.Rows
	}
	return out
}

package ingest

import (
	"fastddl/event"
	"fastddl/ingest/distribution"
	"fastddl/internal/errs"
)

const (
	// maxExactEntries is how many entries of an index a flush may write for all values to be kept: more than TiDB's ANALYZE reads
	// of a table, so that the statistics are as it makes them. maxExactBytes bounds their size.
	maxExactEntries = 1 << 17
	maxExactBytes   = 64 << 20
	// valueBytes is what a value takes beside its key: its bucket, and that once more when buckets are joined.
	valueBytes = 100
	// exactMemoryPart is the part of the job's memory that they may take.
	exactMemoryPart = 4
	// valueBuckets is the number of buckets that the values of others are summed up in.
	valueBuckets = 1024
)

// Mergeable says whether the next flush sums up distributions that can be merged with those of other flushes or jobs, which takes a
// hash of each value.
func (j *Job) Mergeable(yes bool) { j.mergeable = yes }

// Summary returns the distribution of the values of what the last flush has written of the i-th index; nil if it is
// not known.
func (j *Job) Summary(i int) *distribution.Summary { return j.indexes[i].summary }

// newCollectors returns a collector for each piece whose index wants one.
func (j *Job) newCollectors(pieces []piece) []*distribution.Collector {
	size := make([]int64, len(j.indexes))
	for _, p := range pieces {
		size[p.index] += p.bytes
	}
	exactBytes := min(maxExactBytes, j.share.memoryLimit()/exactMemoryPart/int64(len(j.indexes)))
	collectors := make([]*distribution.Collector, len(pieces))
	for i, p := range pieces {
		idx := &j.indexes[p.index]
		if idx.spec.Columns == 0 {
			continue
		}
		opts := j.distributionOptions(&idx.spec)
		if entries := idx.totals.Entries - SumTotals(idx.written).Entries; entries > maxExactEntries || size[p.index]+entries*valueBytes > exactBytes {
			opts.BucketRows = entries/valueBuckets + 1
		}
		collectors[i] = distribution.New(opts)
	}
	return collectors
}

// summarize joins what the collectors of the pieces have. An index of which no entry came has a summary of none.
func (j *Job) summarize(pieces []piece, collectors []*distribution.Collector) {
	of := make([][]*distribution.Collector, len(j.indexes))
	for i, p := range pieces {
		of[p.index] = append(of[p.index], collectors[i])
	}
	for i := range j.indexes {
		spec := &j.indexes[i].spec
		if spec.Columns == 0 {
			continue
		}
		if len(of[i]) == 0 {
			of[i] = []*distribution.Collector{distribution.New(j.distributionOptions(spec))}
		}
		var err error
		if j.indexes[i].summary, err = joined(of[i]); err != nil {
			j.opts.Bus.Emit(event.NoStatistics{Job: event.Job{ID: j.opts.ID}, Err: err})
		}
	}
}

// joined returns what collectors of an index have, in key order. What goes wrong here does not fail a build.
func joined(collectors []*distribution.Collector) (sum *distribution.Summary, err error) {
	defer errs.Contain(&err)
	parts := make([]*distribution.Summary, len(collectors))
	for i, c := range collectors {
		if parts[i], err = c.Finish(); err != nil {
			return nil, err
		}
	}
	return distribution.Join(parts), nil
}

// distributionOptions are those of an index of which every value is kept.
func (j *Job) distributionOptions(spec *Index) distribution.Options {
	return distribution.Options{Columns: spec.Columns, BucketRows: 1, Hashed: j.mergeable, Sampled: j.mergeable && spec.Sampled}
}

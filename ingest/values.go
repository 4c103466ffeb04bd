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
// not known. The keys of its files share nothing behind the prefix: see Summaries.
func (j *Job) Summary(i int) *distribution.Summary { return j.indexes[i].summaries[""] }

// Summaries returns the distributions of the values of what the last flush has written of the i-th index, by what the keys of a file
// share behind the prefix; nil if they are not known.
func (j *Job) Summaries(i int) map[string]*distribution.Summary { return j.indexes[i].summaries }

// collector sums up how the values of a piece are distributed, apart for each FileKey.
type collector struct {
	opts  distribution.Options
	skip  int // bytes of a key before its columns
	parts []collectorPart
}

type collectorPart struct {
	fileKey string
	*distribution.Collector
}

// begin begins a part.
func (c *collector) begin(fileKey []byte) {
	c.parts = append(c.parts, collectorPart{string(fileKey), distribution.New(c.opts)})
}

// add adds the next key, which is of the last part.
func (c *collector) add(key []byte) { c.parts[len(c.parts)-1].Add(key, c.skip) }

// newCollectors returns a collector for each piece whose index wants one.
func (j *Job) newCollectors(pieces []piece) []*collector {
	size := make([]int64, len(j.indexes))
	for _, p := range pieces {
		size[p.index] += p.bytes
	}
	exactBytes := min(maxExactBytes, j.share.memoryLimit()/exactMemoryPart/int64(len(j.indexes)))
	collectors := make([]*collector, len(pieces))
	for i, p := range pieces {
		idx := &j.indexes[p.index]
		if idx.spec.Columns == 0 {
			continue
		}
		opts := j.distributionOptions(&idx.spec)
		if entries := idx.totals.Entries - SumTotals(idx.written).Entries; entries > maxExactEntries || size[p.index]+entries*valueBytes > exactBytes {
			opts.BucketRows = entries/valueBuckets + 1
		}
		collectors[i] = newCollector(&idx.spec, opts)
	}
	return collectors
}

func newCollector(spec *KeySpace, opts distribution.Options) *collector {
	c := &collector{opts: opts, skip: len(spec.Prefix) + spec.Skip}
	if spec.FileKey == 0 {
		c.begin(nil)
	}
	return c
}

// summarize joins what the collectors of the pieces have. An index of which no entry came has a summary of none.
func (j *Job) summarize(pieces []piece, collectors []*collector) {
	of := make([][]*collector, len(j.indexes))
	for i, p := range pieces {
		of[p.index] = append(of[p.index], collectors[i])
	}
	for i := range j.indexes {
		spec := &j.indexes[i].spec
		if spec.Columns == 0 {
			continue
		}
		if len(of[i]) == 0 {
			of[i] = []*collector{newCollector(spec, j.distributionOptions(spec))}
		}
		var err error
		if j.indexes[i].summaries, err = joined(of[i]); err != nil {
			j.opts.Bus.Emit(event.NoStatistics{Job: event.Job{ID: j.opts.ID}, Err: err})
		}
	}
}

// joined returns what collectors of an index have, in key order. What goes wrong here does not fail a build.
func joined(collectors []*collector) (sums map[string]*distribution.Summary, err error) {
	defer errs.Contain(&err)
	parts := make(map[string][]*distribution.Summary)
	for _, c := range collectors {
		for _, p := range c.parts {
			sum, err := p.Finish()
			if err != nil {
				return nil, err
			}
			parts[p.fileKey] = append(parts[p.fileKey], sum)
		}
	}
	sums = make(map[string]*distribution.Summary, len(parts))
	for key, of := range parts {
		sums[key] = distribution.Join(of)
	}
	return sums, nil
}

// distributionOptions are those of an index of which every value is kept.
func (j *Job) distributionOptions(spec *KeySpace) distribution.Options {
	return distribution.Options{Columns: spec.Columns, BucketRows: 1, Hashed: j.mergeable, Sampled: j.mergeable && spec.Sampled}
}

package backfill

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/indexstats"
	"fastddl/backfill/keyrange"
	"fastddl/ingest"
)

// checkpointFormat is the version of checkpoints. It grows with every change by which a build that does not know it
// would go on wrongly. Checkpoints of before there was one have format 1, in which they say nothing.
const checkpointFormat = 1

// checkpoint is the durable progress of a build. It is kept with the job.
type checkpoint struct {
	Format int `json:"format,omitempty"`
	// TS and Indexes say which build it belongs to.
	TS      uint64            `json:"ts"`
	Indexes []checkpointIndex `json:"indexes"`
	// Rows are done; Remaining is what is left of the table, and Weight that of
	// the whole.
	Rows int64 `json:"rows"`
	// Visited is how many of the rows the store has counted in its scans, apart from those that it handed out.
	Visited   int64                     `json:"visited,omitempty"`
	Remaining []keyrange.StoredWeighted `json:"remaining"`
	Weight    float64                   `json:"weight"`
	// Seed has chosen the sample that is read back, 0 before that. It is saved before the sample is read: what a sample has
	// found wrong is found again if the build is interrupted before it is recorded.
	Seed uint64 `json:"seed,omitempty"`
	// Rebuilt says that a first build was found wrong.
	Rebuilt bool `json:"rebuilt,omitempty"`
	// Shared says that several nodes have built it.
	Shared bool `json:"shared,omitempty"`
	// Verify is how far the imported entries have been read back; nil before that
	// has begun.
	Verify *checkpointVerify `json:"verify,omitempty"`
}

type checkpointVerify struct {
	// Totals are those of the entries read back, by position in Indexes.
	Totals []ingest.Totals `json:"totals"`
	// Remaining is what is left to read.
	Remaining []keyrange.StoredIndexed `json:"remaining"`
}

type checkpointIndex struct {
	ID int64 `json:"id"`
	// Totals are those of the entries that are durable.
	Totals ingest.Totals `json:"totals"`
	// Intervals are those of what was written, which has the same totals.
	Intervals execution.Intervals `json:"intervals,omitzero"`
	// Statistics are what is known of the values of these entries; nil in checkpoints of earlier versions.
	Statistics *indexstats.State `json:"statistics,omitempty"`
}

// decodeCheckpoint returns the checkpoint in data, or nil if there is none or
// it belongs to another build.
func decodeCheckpoint(data []byte, spec *encode.Task) (*checkpoint, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &version); err == nil && version.Format > checkpointFormat {
		return nil, fmt.Errorf("backfill: a later version of fastddl has written the checkpoint of job %d: it has format %d, this version reads up to %d",
			spec.JobID, version.Format, checkpointFormat)
	}
	var c checkpoint
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("backfill: the checkpoint of job %d is damaged: %w", spec.JobID, err)
	}
	if c.TS != spec.TS || len(c.Indexes) != len(spec.Indexes) {
		return nil, nil
	}
	for i, idx := range spec.Indexes {
		if c.Indexes[i].ID != idx.ID {
			return nil, nil
		}
	}
	if !c.inTable(spec.Table) {
		return nil, nil
	}
	if !c.Verify.fits(len(c.Indexes)) {
		c.Verify = nil
	}
	for i := range c.Indexes {
		c.Indexes[i].Intervals = c.Indexes[i].Intervals.Fit(c.Indexes[i].Totals)
	}
	return &c, nil
}

// inTable says whether what is left are rows of t.
func (c *checkpoint) inTable(t *model.TableInfo) bool { return execution.InTable(t, c.tasks()) }

// fits says whether v can be of a build of n indexes.
func (v *checkpointVerify) fits(n int) bool {
	return v == nil || len(v.Totals) == n &&
		!slices.ContainsFunc(v.Remaining, func(r keyrange.StoredIndexed) bool { return r.Index < 0 || r.Index >= n })
}

// wanted returns the totals that the durable entries have.
func (c *checkpoint) wanted() []ingest.Totals {
	want := make([]ingest.Totals, len(c.Indexes))
	for i := range c.Indexes {
		want[i] = c.Indexes[i].Totals
	}
	return want
}

// intervals returns those of the durable entries, by index.
func (c *checkpoint) intervals() []execution.Intervals {
	all := make([]execution.Intervals, len(c.Indexes))
	for i := range c.Indexes {
		all[i] = c.Indexes[i].Intervals
	}
	return all
}

// addWritten adds the entries that an ingest job has made durable to what was so before it.
func (c *checkpoint) addWritten(before []checkpointIndex, g *group, job *ingest.Job) {
	for i := range before {
		c.Indexes[i].Totals, c.Indexes[i].Intervals = before[i].Totals, before[i].Intervals
	}
	for i, t := range g.targets {
		index := &c.Indexes[t.index]
		index.Totals.Add(job.Totals(i))
		index.Intervals = index.Intervals.Add(t.intervals(job.Written(i)))
	}
}

// encode loses statistics that make the checkpoint longer than limit.
func (c *checkpoint) encode(limit int) ([]byte, error) {
	states := make([]*indexstats.State, len(c.Indexes))
	for i := range c.Indexes {
		states[i] = c.Indexes[i].Statistics
	}
	b, err := indexstats.EncodeWithin(limit, c, states)
	if err != nil {
		return nil, fmt.Errorf("backfill: encode checkpoint: %w", err)
	}
	return b, nil
}

// maxCheckpointBytes keeps a checkpoint below what TiDB stores in one value
// (txn-entry-size-limit, 6 MiB by default).
const maxCheckpointBytes = 4 << 20

// encodeWithin loses the statistics, which then are ANALYZE's, and leaves out how far the entries have been read back if that makes the
// checkpoint longer than limit: one range for each index and partition. Then they are all
// read again after a restart, instead of failing a build that is right. So they are if the totals of intervals
// have to be left out, too.
func (c *checkpoint) encodeWithin(limit int) ([]byte, error) {
	data, err := c.encode(limit)
	if err != nil || len(data) <= limit {
		return data, err
	}
	short := *c
	short.Indexes = slices.Clone(c.Indexes)
	short.Verify = nil
	if data, err = short.encode(limit); err != nil || len(data) <= limit {
		return data, err
	}
	for i := range short.Indexes {
		short.Indexes[i].Intervals = execution.Intervals{}
	}
	return short.encode(limit)
}

func (c *checkpoint) tasks() []keyrange.Weighted { return keyrange.Load(c.Remaining) }

// setTasks sets what is left.
func (c *checkpoint) setTasks(tasks []keyrange.Weighted) {
	c.Remaining = c.Remaining[:0]
	for _, t := range tasks {
		c.Remaining = append(c.Remaining, keyrange.Store(t))
	}
}

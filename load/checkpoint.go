package load

import (
	"encoding/json"
	"fmt"
	"slices"

	"fastddl/backfill/execution"
	"fastddl/backfill/indexstats"
	"fastddl/ingest"
	"fastddl/load/rows"
)

// checkpointFormat is the version of checkpoints. It grows with every change by which a load that does not know it would go on
// wrongly.
const checkpointFormat = 1

// checkpoint is the durable progress of a load. It is kept with the job.
type checkpoint struct {
	Format int `json:"format"`
	// Table says which load it belongs to: no other has its ID.
	Table int64 `json:"table"`
	// Version is the commit timestamp of all rows and entries.
	Version uint64 `json:"version"`
	// Importing says that rows which are still among the chunks may be in the store: an import had begun.
	Importing bool `json:"importing,omitempty"`
	// Rows are in the store, and Read bytes of the files were read for them. Chunks are left.
	Rows   int64        `json:"rows"`
	Read   int64        `json:"read"`
	Chunks []rows.Chunk `json:"chunks"`
	// IDs are those of the rows in the store.
	IDs rows.State `json:"ids"`
	// Partitions are the rows of each physical table, in order of their IDs.
	Partitions []int64 `json:"partitions"`
	// Spaces are by position in the layout.
	Spaces []checkpointSpace `json:"spaces"`
}

type checkpointSpace struct {
	// ID is that of ingest.KeySpace.
	ID int64 `json:"id"`
	// Totals are those of the entries in the store, Intervals those of what was written, which have the same totals.
	Totals    ingest.Totals       `json:"totals"`
	Intervals execution.Intervals `json:"intervals,omitzero"`
	// Statistics are what is known of the values; nil of a space without.
	Statistics *indexstats.State `json:"statistics,omitempty"`
}

// newCheckpoint is the checkpoint of a load of which nothing is done.
func (l *loader) newCheckpoint(version uint64) *checkpoint {
	cp := &checkpoint{
		Format: checkpointFormat, Table: l.layout.table.ID, Version: version, Chunks: l.source.Chunks(), IDs: l.spec.IDs,
		Partitions: make([]int64, len(l.layout.physicals)),
	}
	for i := range l.layout.spaces {
		s := &l.layout.spaces[i].spec
		known := checkpointSpace{ID: s.ID, Intervals: execution.Intervals{}.Fit(ingest.Totals{})}
		if s.Columns > 0 {
			known.Statistics = new(indexstats.State)
		}
		cp.Spaces = append(cp.Spaces, known)
	}
	return cp
}

// decodeCheckpoint returns the checkpoint in data. It fails if that is not one of this load.
func (l *loader) decodeCheckpoint(data []byte) (*checkpoint, error) {
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &version); err == nil && version.Format > checkpointFormat {
		return nil, fmt.Errorf("load: a later version of fastddl has written the checkpoint of job %d: it has format %d, this version reads up to %d",
			l.spec.JobID, version.Format, checkpointFormat)
	}
	var c checkpoint
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("load: the checkpoint of job %d is damaged: %w", l.spec.JobID, err)
	}
	if c.Importing {
		return &c, nil
	}
	fits := c.Table == l.layout.table.ID && c.Version > 0 && len(c.Spaces) == len(l.layout.spaces) &&
		len(c.Partitions) == len(l.layout.physicals)
	for i := range c.Spaces {
		fits = fits && c.Spaces[i].ID == l.layout.spaces[i].spec.ID
	}
	if !fits {
		return nil, fmt.Errorf("load: the checkpoint of job %d is of another table", l.spec.JobID)
	}
	for i := range c.Spaces {
		s := &c.Spaces[i]
		s.Intervals = s.Intervals.Fit(s.Totals)
		if l.layout.spaces[i].spec.Columns > 0 && s.Statistics == nil {
			s.Statistics = &indexstats.State{Lost: s.Totals.Entries > 0}
		}
	}
	return &c, nil
}

// maxCheckpointBytes keeps a checkpoint below what TiDB stores in one value (txn-entry-size-limit, 6 MiB by default).
const maxCheckpointBytes = 4 << 20

// importing is a checkpoint of which no more is known than that an import had begun.
func (c *checkpoint) importing() *checkpoint {
	return &checkpoint{Format: c.Format, Table: c.Table, Version: c.Version, Importing: true}
}

// encode loses statistics, and then intervals, that make the checkpoint too long. With too many chunks it is as if an import had begun:
// after a crash the load begins anew.
func (c *checkpoint) encode() ([]byte, error) {
	short := *c
	short.Spaces = slices.Clone(c.Spaces)
	data, err := short.encodeStatistics()
	if err == nil && len(data) > maxCheckpointBytes {
		for i := range short.Spaces {
			short.Spaces[i].Intervals = execution.Intervals{}
		}
		data, err = short.encodeStatistics()
	}
	if err == nil && len(data) > maxCheckpointBytes {
		data, err = json.Marshal(c.importing())
	}
	if err != nil {
		return nil, fmt.Errorf("load: encode checkpoint: %w", err)
	}
	return data, nil
}

func (c *checkpoint) encodeStatistics() ([]byte, error) {
	var states []*indexstats.State
	for i := range c.Spaces {
		if s := c.Spaces[i].Statistics; s != nil {
			states = append(states, s)
		}
	}
	return indexstats.EncodeWithin(maxCheckpointBytes, c, states)
}

// addWritten adds the entries that an ingest job has made durable to what was so before it.
func (c *checkpoint) addWritten(before []checkpointSpace, l *layout, job *ingest.Job, cuts [][][]byte) {
	for i := range before {
		s := &c.Spaces[i]
		s.Totals, s.Intervals = before[i].Totals, before[i].Intervals
		s.Totals.Add(job.Totals(i))
		s.Intervals = s.Intervals.Add(intervals(l.spaces[i].spec.Prefix, cuts[i], job.Written(i)))
	}
}

// intervals returns the intervals of what was written of a space, which was cut at keys without its prefix.
func intervals(prefix []byte, cuts [][]byte, written []ingest.Totals) (v execution.Intervals) {
	for _, cut := range cuts {
		v.Cuts = append(v.Cuts, slices.Concat(prefix, cut))
	}
	v.Sums = written
	return v
}

package backfill

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"fastddl/ingest"
	"fastddl/kv"
)

const (
	// samplePlaces is at how many places of the table rows are sampled, and
	// sampleRows how many at each: beginning a scan costs about as much as reading
	// that many.
	samplePlaces = 32
	sampleRows   = 50
)

// partition shows the job keys from all over the group, so that it cuts the key
// spaces of the targets into parts of about equal size. Rows that lie together
// often have indexed values that do, hence the many places.
func (b *build) partition(ctx context.Context, job *ingest.Job, g *group, tasks []task) error {
	enc, err := newEncoders(b.projection)
	if err != nil {
		return err
	}
	samples := make([][][]byte, len(g.targets))
	for _, r := range sampledRanges(tasks) {
		rows, err := b.sample(ctx, r, enc, g, samples)
		if err != nil {
			return fmt.Errorf("backfill: sample keys: %w", err)
		}
		if rows < sampleRows && len(tasks) == 1 && bytes.Equal(r.Start, tasks[0].Start) {
			return nil // these were all rows
		}
	}
	for i := range samples {
		job.Partition(i, samples[i])
	}
	return nil
}

// sampledRanges returns ranges at whose beginning rows are to be sampled.
func sampledRanges(tasks []task) []kv.KeyRange {
	each := (samplePlaces + len(tasks) - 1) / len(tasks)
	step := max(1, len(tasks)/samplePlaces)
	var ranges []kv.KeyRange
	for i := 0; i < len(tasks); i += step {
		for _, t := range splitTask(tasks[i], each) {
			ranges = append(ranges, t.KeyRange)
		}
	}
	// The first goes to the end of its task: a table with few rows ends there.
	ranges[0].End = tasks[0].End
	return ranges
}

// sample appends the keys of the first rows of r to samples, by target.
func (b *build) sample(ctx context.Context, r kv.KeyRange, enc *encoders, g *group, samples [][][]byte) (rows int, err error) {
	physicalID := task{KeyRange: r}.physicalID()
	req := b.projection.request(r, b.task.TS, sampleRows)
	err = b.opts.Store.ScanColumns(ctx, req, func(batch *kv.RowBatch) error {
		rows = batch.NumRows()
		if err := enc.bind(batch, physicalID); err != nil {
			return err
		}
		for k, e := range enc.indexes {
			at := g.target(k, physicalID)
			err := e.encode(func(_ int, kv []byte, klen int) error {
				samples[at] = append(samples[at], bytes.Clone(kv[:klen]))
				return nil
			})
			if err != nil {
				return err
			}
		}
		return errInterrupted
	})
	if errors.Is(err, errInterrupted) {
		err = nil
	}
	return rows, err
}

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

// partition shows the job keys from all over the table, so that it cuts the key
// spaces of the indexes into parts of about equal size. Rows that lie together
// often have indexed values that do, hence the many places.
func (b *build) partition(ctx context.Context, job *ingest.Job, tasks []task) error {
	encoders, err := b.newEncoders()
	if err != nil {
		return err
	}
	samples := make([][][]byte, len(encoders))
	for _, r := range sampledRanges(tasks) {
		rows, err := b.sample(ctx, r, encoders, samples)
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

// sample appends the keys of the first rows of r to samples, by index.
func (b *build) sample(ctx context.Context, r kv.KeyRange, encoders []*indexEncoder, samples [][][]byte) (rows int, err error) {
	req := b.projection.request(r, b.spec.TS, sampleRows)
	err = b.opts.Store.ScanColumns(ctx, req, func(batch *kv.RowBatch) error {
		rows = batch.NumRows()
		for i, enc := range encoders {
			if err := enc.bind(batch); err != nil {
				return err
			}
			for row := range rows {
				entry, klen, _, err := enc.entry(row)
				if err != nil {
					return err
				}
				samples[i] = append(samples[i], bytes.Clone(entry[:klen]))
			}
		}
		return errInterrupted
	})
	if errors.Is(err, errInterrupted) {
		err = nil
	}
	return rows, err
}

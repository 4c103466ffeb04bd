package backfill

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

const (
	// samplePlaces is at most how many places of the table rows are sampled at, side
	// by side, and sampleRows how many at each: beginning a scan costs about as much as
	// reading that many.
	samplePlaces = 32
	sampleRows   = 50
)

// partition shows the job keys from all over the group, so that it cuts the key
// spaces of the targets into parts of about equal size. Rows that lie together
// often have indexed values that do, hence the many places. They are read side by side:
// each costs the time that the store takes to answer, and hardly anything else. By the same keys, or those of cp, it
// cuts the targets into intervals of which the written entries are summed up.
func (b *build) partition(ctx context.Context, job *ingest.Job, g *group, tasks []keyrange.Weighted, cp *checkpoint) error {
	ranges := b.subtasks.sampled(g)
	whole := len(ranges) == 0
	if whole {
		ranges = keyrange.Sampled(tasks, samplePlaces)
	}
	found := make([]sampled, len(ranges))
	first := 0
	if whole && len(tasks) == 1 { // perhaps of few rows
		first = 1
		if err := b.sample(ctx, ranges[0], g, &found[0]); err != nil {
			return err
		}
		if found[0].all {
			for i := range g.targets {
				b.cutTarget(job, g, i, cp, nil)
			}
			return nil
		}
	}
	places := samplePlaces
	if req := b.Projection.Request(ranges[0], b.Task.TS, sampleRows); req.LongRows() {
		places = execution.LongPlaces
	}
	err := parallel.Do(ctx, len(ranges)-first, func() int { return places }, func(ctx context.Context, i int) error {
		return b.sample(ctx, ranges[first+i], g, &found[first+i])
	})
	if err != nil {
		return err
	}
	for i := range g.targets {
		var keys [][]byte
		for _, s := range found {
			keys = append(keys, s.keys[i]...)
		}
		b.keepCuts(g.targets[i].prefix, keys)
		job.Partition(i, keys)
		b.cutTarget(job, g, i, cp, keys)
	}
	return nil
}

// cutTarget cuts the i-th target as cp has cut its index, or by keys of its entries if cp has not.
func (b *build) cutTarget(job *ingest.Job, g *group, i int, cp *checkpoint, keys [][]byte) {
	target := &g.targets[i]
	target.cut(cp.Indexes[target.index].Intervals, keys)
	job.Cut(i, target.cuts)
}

// sampled is what was found at one place: the keys of the rows' entries by target, and
// whether these rows are all that there are.
type sampled struct {
	all  bool
	keys [][][]byte
}

// sample finds the keys of the first rows of r, fewer than sampleRows if they are long.
func (b *build) sample(ctx context.Context, r kv.KeyRange, g *group, found *sampled) error {
	enc, err := encode.NewEncoders(b.Projection)
	if err != nil {
		return err
	}
	found.keys = make([][][]byte, len(g.targets))
	physicalID := keyrange.Weighted{KeyRange: r}.PhysicalID()
	req := b.Projection.Request(r, b.Task.TS, sampleRows)
	req.Sample = true
	rows, read := 0, 0
	err = b.opts.Store.ScanColumns(ctx, req, func(batch *kv.RowBatch) error {
		if err := enc.Bind(batch, physicalID); err != nil {
			return err
		}
		for k, e := range enc.Indexes {
			at := g.target(k, physicalID)
			err := e.Encode(func(_ int, kv []byte, klen int) error {
				found.keys[at] = append(found.keys[at], bytes.Clone(kv[:klen]))
				return nil
			})
			if err != nil {
				return err
			}
		}
		rows += batch.NumRows()
		read += batch.Bytes
		if rows >= sampleRows || read >= kv.MaxBatchBytes {
			return errInterrupted
		}
		return nil
	})
	found.all = err == nil
	if err != nil && !errors.Is(err, errInterrupted) {
		return fmt.Errorf("backfill: sample keys: %w", err)
	}
	return nil
}

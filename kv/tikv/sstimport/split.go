package sstimport

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fastddl/kv"
)

const (
	// splitTimeout bounds the splitting of one import's regions.
	splitTimeout = time.Minute
	// scatterTimeout bounds the wait until they are where PD wants them.
	scatterTimeout = 30 * time.Second
)

// plan returns the key ranges of an import that are sent on their own, in order: those of
// regions, which begin at keys. It splits regions where they would receive too much.
func (im *Importer) plan(ctx context.Context, src *source, keys [][]byte) ([]kv.KeyRange, error) {
	whole := kv.KeyRange{Start: src.units[0].keys.Start, End: src.units[len(src.units)-1].keys.End}
	var splits [][]byte
	for i, piece := range cut(whole, keys) {
		start := piece.Start
		if i == 0 && len(keys) > 0 {
			start = keys[0]
		}
		splits = append(splits, splitKeys(start, src.samplesIn(piece), im.opts.SplitBytes)...)
	}
	if len(splits) > 0 && im.opts.Splitter != nil {
		im.split(ctx, splits)
	}
	var ranges []kv.KeyRange
	for _, piece := range cut(whole, sorted(append(keys, splits...))) {
		if src.mayHold(piece) {
			ranges = append(ranges, piece)
		}
	}
	return ranges, ctx.Err()
}

// split splits and scatters regions. The import does not need it to succeed: TiKV splits
// regions that have grown too large itself, later.
func (im *Importer) split(ctx context.Context, keys [][]byte) {
	began := time.Now()
	ids, err := im.splitAndWait(ctx, keys)
	log := im.log.With(zap.Int("keys", len(keys)), zap.Int("regions", len(ids)), zap.Duration("took", time.Since(began)))
	if err != nil {
		log.Warn("regions for an import are not all split and scattered", zap.Error(err))
		return
	}
	log.Info("split regions for an import")
}

func (im *Importer) splitAndWait(ctx context.Context, keys [][]byte) ([]uint64, error) {
	splitting, cancel := context.WithTimeout(ctx, splitTimeout)
	defer cancel()
	ids, err := im.opts.Splitter.SplitRegions(splitting, keys, true, nil)
	if err != nil {
		return ids, fmt.Errorf("split: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, scatterTimeout)
	defer cancel()
	for _, id := range ids {
		if err := im.opts.Splitter.WaitScatterRegionFinish(waiting, id, int(scatterTimeout.Milliseconds())); err != nil {
			return ids, fmt.Errorf("wait until region %d is scattered: %w", id, err)
		}
	}
	return ids, nil
}

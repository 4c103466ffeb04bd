package sstimport

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	pd "github.com/tikv/pd/client"

	"fastddl/kv"
)

// regionsPerScan is how many regions PD is asked for at a time.
const regionsPerScan = 128

// locate returns the region of a key, which has a leader.
func (im *Importer) locate(ctx context.Context, key []byte) (*pd.Region, error) {
	found, err := im.opts.PD.ScanRegions(ctx, key, nil, 1)
	if err != nil {
		return nil, fmt.Errorf("region of %x: %w", key, err)
	}
	if len(found) == 0 || !rangeOf(found[0]).Contains(key) {
		return nil, fmt.Errorf("region of %x: %w", key, errNoRegion)
	}
	if found[0].Leader.GetId() == 0 {
		return nil, fmt.Errorf("region %d: %w", found[0].Meta.Id, errNoLeader)
	}
	return found[0], nil
}

// rangeOf is the range of a region.
func rangeOf(r *pd.Region) kv.KeyRange {
	if len(r.Meta.EndKey) == 0 {
		return kv.KeyRange{Start: r.Meta.StartKey}
	}
	return kv.KeyRange{Start: r.Meta.StartKey, End: r.Meta.EndKey}
}

// regions returns the ranges of the regions that the units have a part in, in order.
func (im *Importer) regions(ctx context.Context, units []*unit) ([]kv.KeyRange, error) {
	var ranges []kv.KeyRange
	for _, u := range units {
		at := u.keys.Start
		for at != nil && bytes.Compare(at, u.keys.End) < 0 {
			var found []*pd.Region
			err := im.retryPD(ctx, func() (err error) {
				found, err = im.opts.PD.ScanRegions(ctx, at, u.keys.End, regionsPerScan)
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("sstimport: regions of %s: %w", u.keys, err)
			}
			if len(found) == 0 {
				break // a hole: who writes there looks again
			}
			for _, r := range found {
				ranges = append(ranges, rangeOf(r))
			}
			next := rangeOf(found[len(found)-1]).End
			if next != nil && bytes.Compare(next, at) <= 0 {
				break
			}
			at = next
		}
	}
	slices.SortFunc(ranges, func(a, b kv.KeyRange) int { return bytes.Compare(a.Start, b.Start) })
	return ranges, nil
}

// starts returns the keys at which ranges begin, each once. The ranges are in order.
func starts(ranges []kv.KeyRange) [][]byte {
	keys := make([][]byte, len(ranges))
	for i, r := range ranges {
		keys[i] = r.Start
	}
	return sorted(keys)
}

// joined returns ranges that cover the same keys, of which none touches the next. The ranges
// are in order.
func joined(ranges []kv.KeyRange) []kv.KeyRange {
	var out []kv.KeyRange
	for _, r := range ranges {
		n := len(out) - 1
		switch {
		case n < 0 || out[n].End != nil && bytes.Compare(out[n].End, r.Start) < 0:
			out = append(out, r)
		case out[n].End != nil && (r.End == nil || bytes.Compare(out[n].End, r.End) < 0):
			out[n].End = r.End
		}
	}
	return out
}

// sorted returns keys in order and without repetitions.
func sorted(keys [][]byte) [][]byte {
	slices.SortFunc(keys, bytes.Compare)
	return slices.CompactFunc(keys, bytes.Equal)
}

// cut cuts r at the keys, which are in order.
func cut(r kv.KeyRange, keys [][]byte) []kv.KeyRange {
	var pieces []kv.KeyRange
	for _, k := range keys {
		if bytes.Compare(k, r.Start) > 0 && r.Contains(k) {
			pieces = append(pieces, kv.KeyRange{Start: r.Start, End: k})
			r.Start = k
		}
	}
	return append(pieces, r)
}

// splitKeys returns where a region that receives the samples, and begins at start, is to be
// split so that the parts receive about target bytes each. It returns none for less
// than writeLimit, which one region may well hold.
func splitKeys(start []byte, samples []sample, target int64) [][]byte {
	total := weigh(samples)
	if total <= writeLimit(target) {
		return nil
	}
	parts := (total + target - 1) / target
	var keys [][]byte
	if bytes.Compare(start, samples[0].key) < 0 {
		keys = append(keys, samples[0].key) // what is there already stays apart
	}
	return sorted(append(keys, evenCuts(samples, parts)...))
}

// evenCuts returns keys of samples, at most parts-1, that cut them into parts of about the
// same weight.
func evenCuts(samples []sample, parts int64) (keys [][]byte) {
	total, before := weigh(samples), int64(0)
	for part, i := int64(1), 0; part < parts && i < len(samples); i++ {
		if before >= total*part/parts {
			keys = append(keys, samples[i].key)
			part++
		}
		before += samples[i].bytes
	}
	return keys
}

// writeLimit is how much a region is sent at a time. It is more than what regions are to
// hold, so that a small miscalculation does not make two files of one.
func writeLimit(target int64) int64 { return target + target/3 }

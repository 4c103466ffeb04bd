package survey

import (
	"bytes"
	"context"
	"encoding/binary"
	"iter"
	"slices"

	"fastddl/backfill/encode"
	"fastddl/ingest"
	"fastddl/kv"
)

const (
	// thinnings are the parts of the places, one in so many, of which the sizes are measured, from few to all.
	thinnest, thinStep = 16, 4
	// leastThinned is how many entries a part must have to say something.
	leastThinned = 512
	// maxDuplicates is how many duplicates are kept.
	maxDuplicates = 3
)

// measure returns what the sample says of the k-th index.
func (v *surveyor) measure(ctx context.Context, k int, s *sample) (Index, error) {
	var out Index
	for i := range s.places {
		for j := range s.places[i].entries[k] {
			e := &s.places[i].entries[k][j]
			out.Entries++
			out.Bytes += int64(len(e.kv) - encode.PrefixLen)
		}
	}
	for thin := thinnest; thin >= 1; thin /= thinStep {
		entries := merged(s.places, k, thin)
		if len(entries) == 0 || thin > 1 && (len(entries) < leastThinned || s.complete) {
			continue
		}
		unique := v.task.Indexes[k].Unique
		stored, err := v.stored(ctx, entries, unique)
		if err != nil {
			return out, err
		}
		n := int64(len(entries))
		out.Stored = append(out.Stored, Density{n, stored})
		out.Sorted = append(out.Sorted, Density{n, sorted(entries)})
		if thin == 1 && unique {
			out.Repeated, out.Duplicates = repeated(entries, v.task.Indexes[k].ID)
		}
	}
	return out, nil
}

// merged returns the entries of every thin-th place in key order.
func merged(places []place, k, thin int) []*pair {
	var entries []*pair
	for i := 0; i < len(places); i += thin {
		for j := range places[i].entries[k] {
			entries = append(entries, &places[i].entries[k][j])
		}
	}
	slices.SortFunc(entries, func(a, b *pair) int { return bytes.Compare(a.key(), b.key()) })
	return entries
}

// stored returns what entries occupy in the store.
func (v *surveyor) stored(ctx context.Context, entries []*pair, unique bool) (int64, error) {
	sizer, ok := v.opts.Store.(kv.UnitSizer)
	if !ok {
		var n int64
		for _, e := range entries {
			n += int64(len(e.kv))
		}
		return n, nil
	}
	size, err := sizer.UnitSize(ctx, kv.ImportOptions{Version: v.task.TS, RangeReadsOnly: !unique}, pairs(entries))
	return int64(size), err
}

// pairs iterates over entries in key order, each key once.
func pairs(entries []*pair) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for i, e := range entries {
			if i > 0 && bytes.Equal(entries[i-1].key(), e.key()) {
				continue
			}
			if !yield(e.key(), e.value()) {
				return
			}
		}
	}
}

// sorted returns what entries occupy in a sorted run, which leaves out what a key has in common with the one before.
func sorted(entries []*pair) (n int64) {
	var before []byte
	for _, e := range entries {
		key := e.key()[encode.PrefixLen:]
		shared := 0
		for shared < len(before) && shared < len(key) && before[shared] == key[shared] {
			shared++
		}
		n += int64(varint(shared) + varint(len(key)-shared) + varint(len(e.value())) + len(key) - shared + len(e.value()))
		before = key
	}
	return n
}

func varint(n int) int { return len(binary.AppendUvarint(nil, uint64(n))) }

// repeated returns how many entries have the key of the one before, and some of these groups.
func repeated(entries []*pair, indexID int64) (n int64, groups []*ingest.DuplicateGroup) {
	var group *ingest.DuplicateGroup
	for i := 1; i < len(entries); i++ {
		before, e := entries[i-1], entries[i]
		if !bytes.Equal(before.key(), e.key()) {
			group = nil
			continue
		}
		n++
		switch {
		case group != nil:
			group.Add(e.value())
		case len(groups) < maxDuplicates:
			group = ingest.NewDuplicateGroup(indexID, e.key(), before.value(), e.value())
			groups = append(groups, group)
		}
	}
	return n, groups
}

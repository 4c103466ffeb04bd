package pebblekv

import (
	"bytes"
	"context"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"fastddl/kv"
)

// minPieceBytes is the size below which a piece of Ranges is joined with the
// next one: handing out a piece costs more than it brings then.
const minPieceBytes = 8 << 20

// Ranges implements kv.Store. It cuts at the boundaries of the files of all
// levels. What is in memtables only has no boundaries and no size.
func (s *Store) Ranges(ctx context.Context, r kv.KeyRange) ([]kv.SizedRange, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.exit()
	if r.Empty() {
		return nil, nil
	}
	cuts, err := s.fileBoundaries(r)
	if err != nil {
		return nil, err
	}
	var pieces []kv.SizedRange
	piece := kv.SizedRange{KeyRange: kv.KeyRange{Start: r.Start}}
	start := r.Start
	for _, cut := range append(cuts, r.End) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		lower, upper := engineBounds(kv.KeyRange{Start: start, End: cut})
		size, err := s.db.EstimateDiskUsage(lower, upper)
		if err != nil {
			return nil, err
		}
		piece.Bytes += size
		piece.End, start = cut, cut
		if piece.Bytes >= minPieceBytes {
			pieces = append(pieces, piece)
			piece = kv.SizedRange{KeyRange: kv.KeyRange{Start: cut}}
		}
	}
	return appendRest(pieces, piece, r.End), nil
}

// appendRest adds what is left when all cuts are used up to the last piece.
func appendRest(pieces []kv.SizedRange, rest kv.SizedRange, end []byte) []kv.SizedRange {
	if len(pieces) == 0 {
		rest.End = end
		return append(pieces, rest)
	}
	last := &pieces[len(pieces)-1]
	last.Bytes += rest.Bytes
	last.End = end
	return pieces
}

// fileBoundaries returns the first keys of the files inside r, in order.
func (s *Store) fileBoundaries(r kv.KeyRange) ([][]byte, error) {
	lower, upper := engineBounds(r)
	levels, err := s.db.SSTables(pebble.WithKeyRangeFilter(lower, upper))
	if err != nil {
		return nil, err
	}
	var cuts [][]byte
	for _, level := range levels {
		for _, file := range level {
			key := userKey(file.Smallest.UserKey)
			if bytes.Compare(key, r.Start) > 0 && r.Contains(key) {
				cuts = append(cuts, bytes.Clone(key))
			}
		}
	}
	slices.SortFunc(cuts, bytes.Compare)
	return slices.CompactFunc(cuts, bytes.Equal), nil
}

package rows

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pingcap/tidb/pkg/lightning/common"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/internal/errs"
)

// Places reads the sources once more and returns, for each of the keys, the places of the rows that make it; limit
// is how many rows it looks for in all, at least two for each key. A row whose AUTO_INCREMENT or AUTO_RANDOM value
// was generated is not found by a key with that value, since it gets another one. A query and a feed have no places.
func (s *Source) Places(ctx context.Context, keys [][]byte, limit int) (map[string][]Place, error) {
	found := make(map[string][]Place, len(keys))
	if s.streamed() {
		return found, nil
	}
	for _, key := range keys {
		found[string(key)] = nil
	}
	search := &search{s: s, found: found, each: max(limit/max(len(found), 1), 2), open: len(found)}
	for _, c := range s.chunks {
		if err := search.chunk(ctx, c); err != nil {
			return nil, err
		}
		if search.open == 0 {
			break
		}
	}
	var all []Place
	for _, key := range keys {
		all = append(all, found[string(key)]...)
	}
	all, err := s.Lines(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		n := len(found[string(key)])
		found[string(key)], all = all[:n:n], all[n:]
	}
	return found, nil
}

// search looks for the rows of keys.
type search struct {
	s     *Source
	found map[string][]Place
	each  int // rows of each key
	open  int // keys with fewer rows
}

func (f *search) chunk(ctx context.Context, c Chunk) (err error) {
	r, err := f.s.NewReader(ctx, c, NewIDs(State{}))
	if err != nil {
		return err
	}
	defer func() { err = errs.Combine(err, r.Close()) }()
	for f.open > 0 {
		pairs, err := r.Next(ctx)
		var bad *RowError
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &bad) && !bad.Final:
			continue
		case err != nil:
			return fmt.Errorf("load: find the rows of duplicate keys: %w", err)
		}
		f.row(r, pairs)
	}
	return nil
}

// row notes the place of a row that makes one of the keys.
func (f *search) row(r *Reader, pairs []common.KvPair) {
	for i := range pairs {
		places, wanted := f.found[string(pairs[i].Key)]
		if !wanted || len(places) >= f.each || r.enc.auto.made && f.s.hasAuto(pairs[i].Key, r.enc.auto.offset) {
			continue
		}
		f.found[string(pairs[i].Key)] = append(places, r.Place())
		if len(places)+1 == f.each {
			f.open--
		}
	}
}

// hasAuto reports whether the key has the value of the column at an offset in it.
func (s *Source) hasAuto(key []byte, offset int) bool {
	if tablecodec.IsRecordKey(key) {
		return true
	}
	id, err := tablecodec.DecodeIndexID(key)
	if err != nil {
		return true
	}
	for _, idx := range s.table.Indices {
		if idx.ID != id {
			continue
		}
		for _, c := range idx.Columns {
			if c.Offset == offset {
				return true
			}
		}
	}
	return false
}

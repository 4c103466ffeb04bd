package cop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tipb/go-tipb"
)

// pairDecoder appends a stored pair to a batch, as one row.
type pairDecoder interface {
	decode(key, value []byte, batch *chunk.Chunk) error
}

// scan is the source of a chain: it reads the ranges of a request one after the other, decodes the pairs into batches and
// emits these.
type scan struct {
	reader  Reader
	ranges  []scanRange
	desc    bool
	decoder pairDecoder
	// keyLen is the length from which on a key of the scan is no prefix of another.
	keyLen int

	node   *node
	full   func() bool // says between two batches that the page is full
	batch  *chunk.Chunk
	limit  int     // rows after which the batch is emitted
	most   int     // what limit grows to
	counts []int64 // pairs per range, nil if not requested

	keys, bytes uint64
	pending     uint64 // bytes of the pairs in the batch
	stoppedAt   []byte // the last key that was read if the page was full then, nil if there is nothing left to read
	stoppedIn   int    // the range of that key
}

// bound keeps the scan from reading much more than a limit above it, or a page, has use for.
func (s *scan) bound(list []*tipb.Executor, page uint64) {
	if page > 0 {
		s.most = int(min(uint64(s.most), page))
	}
	for i, e := range list {
		if e.Tp != tipb.ExecType_TypeLimit {
			continue
		}
		s.limit = smallBatch
		if i == 1 && len(e.Limit.PartitionBy) == 0 {
			s.most = int(min(uint64(s.most), max(e.Limit.Limit, 1)))
		}
	}
	s.limit = min(s.limit, s.most)
}

// run reads until the ranges end or the chain wants no more; it does not finish the chain.
func (s *scan) run(ctx context.Context) error {
	for i := range s.ranges {
		before := s.keys
		s.stoppedIn = i
		more, err := s.readRange(ctx, &s.ranges[i])
		if s.counts != nil {
			s.counts[i] = int64(s.keys - before)
		}
		if err != nil || !more {
			return err
		}
	}
	if s.batch.NumRows() == 0 {
		return nil
	}
	_, err := s.node.emit(s.batch)
	return err
}

func (s *scan) readRange(ctx context.Context, r *scanRange) (more bool, err error) {
	if r.point {
		value, err := s.reader.Get(ctx, r.start)
		if err != nil {
			return false, readError(err)
		}
		if value == nil {
			return true, nil
		}
		return s.pair(ctx, r.start, value)
	}
	more = true
	err = s.reader.Scan(ctx, r.start, r.end, s.desc, func(key, value []byte) (bool, error) {
		var err error
		more, err = s.pair(ctx, key, value)
		if err != nil {
			err = &chainError{err}
		}
		return more, err
	})
	return more, readError(err)
}

// pair takes in one pair and emits the batch when it is full.
func (s *scan) pair(ctx context.Context, key, value []byte) (more bool, err error) {
	size := uint64(len(key) + len(value))
	s.keys++
	s.bytes += size
	s.pending += size
	if err := s.decoder.decode(key, value, s.batch); err != nil {
		return false, storageErrorf("decode the pair of key %x: %w", key, err)
	}
	if s.batch.NumRows() < s.limit && s.pending < maxBatchBytes {
		return true, nil
	}
	s.pending = 0
	more, err = s.node.emit(s.batch)
	if err != nil {
		return false, err
	}
	if !more {
		return false, nil
	}
	if s.full() {
		s.stoppedAt = append([]byte(nil), key...)
		return false, nil
	}
	s.batch.Reset()
	s.limit = min(2*s.limit, s.most)
	if err := ctx.Err(); err != nil {
		return false, storageErrorf("coprocessor request given up: %w", err)
	}
	return true, nil
}

// consumed returns the part of the key space that is dealt with, which is what a client that reads page by page goes on
// from. It is nil if the client need not go on: the ranges were read to the end, or the chain wants no more.
func (s *scan) consumed(ranges []*coprocessor.KeyRange) *coprocessor.KeyRange {
	if s.stoppedAt == nil {
		return nil
	}
	done := &coprocessor.KeyRange{Start: ranges[0].Start, End: ranges[len(ranges)-1].End}
	if s.desc {
		done.Start = s.stoppedAt
	} else {
		done.End = successor(s.stoppedAt)
	}
	return done
}

// rest returns what of the ranges is left to be read, in their order in the request.
func (s *scan) rest() []*coprocessor.KeyRange {
	var left []*coprocessor.KeyRange
	for i, r := range s.ranges[s.stoppedIn:] {
		switch {
		case i > 0:
		case s.desc:
			r.end = s.stoppedAt
		default:
			r.start = successor(s.stoppedAt)
		}
		if bytes.Compare(r.start, r.end) < 0 && (i > 0 || !r.point) {
			left = append(left, &coprocessor.KeyRange{Start: r.start, End: r.end})
		}
	}
	if s.desc {
		slices.Reverse(left)
	}
	return left
}

// chainError marks an error of the chain on its way through Reader.Scan, to tell it from the reader's own.
type chainError struct {
	err error
}

func (e *chainError) Error() string { return e.err.Error() }

func (e *chainError) Unwrap() error { return e.err }

// readError returns the error of a Reader: that of the chain as it was, a lock as it is, anything else as a storage error.
func readError(err error) error {
	if err == nil {
		return nil
	}
	var chain *chainError
	if errors.As(err, &chain) {
		return chain.err
	}
	return &storageError{err: fmt.Errorf("read: %w", err)}
}

package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"fastddl/kv"
)

const defaultBatchRows = 1024

var _ kv.ScanCounter = (*Store)(nil)

// CountsScans implements kv.ScanCounter.
func (s *Store) CountsScans() {}

// ScanColumns implements kv.Store. Rows are decoded straight from the engine's
// block into the batch; nothing is allocated per row.
func (s *Store) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) (err error) {
	dec, err := newRowDecoder(req)
	if err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.gate.exit()
	if err := s.timeline.readAt(ctx, req.TS); err != nil {
		return err
	}
	defer s.timeline.endRead(req.TS)
	it, err := newForwardIter(ctx, view{s, req.TS}, req.Range)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	return (&rowScan{r: req.Range, it: it, dec: dec, fn: fn}).run(ctx)
}

// rowScan is a scan of the rows of r.
type rowScan struct {
	r   kv.KeyRange
	it  *forwardIter // of r, on its first row
	dec *rowDecoder
	fn  func(*kv.RowBatch) error
	// handedOut is the last key of the batches so far, nil before the first.
	handedOut []byte
}

func (s *rowScan) run(ctx context.Context) error {
	for s.it.valid {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.nextBatch(); err != nil {
			return err
		}
	}
	return s.ended()
}

// ended fails unless the engine has read all of the range: its one iterator, or the last that replaced it, has
// the range's bounds and stands behind the last key without an error.
func (s *rowScan) ended() error {
	if s.r.Empty() {
		return nil
	}
	lower, upper := engineBounds(s.r)
	engine := s.it.it
	switch {
	case engine == nil || engine.Valid():
		return fmt.Errorf("pebblekv: scan of %s ends behind %x, before the end", s.r, s.handedOut)
	case !bytes.Equal(s.it.bounds.LowerBound, lower) || !bytes.Equal(s.it.bounds.UpperBound, upper):
		return fmt.Errorf("pebblekv: scan of %s has read %x to %x", s.r, s.it.bounds.LowerBound, s.it.bounds.UpperBound)
	}
	return engine.Error()
}

// nextBatch decodes rows until a batch is full or the range has ended, hands
// the batch out and stands on the row after it.
func (s *rowScan) nextBatch() error {
	if !s.r.Contains(s.it.key) || s.handedOut != nil && bytes.Compare(s.it.key, s.handedOut) <= 0 {
		return fmt.Errorf("pebblekv: scan of %s: %x follows %x", s.r, s.it.key, s.handedOut)
	}
	s.dec.reset()
	for {
		if err := s.dec.add(s.it.key, s.it.value); err != nil {
			return err
		}
		if s.dec.full() {
			if err := s.handOut(s.it.key); err != nil {
				return err
			}
			return s.it.Next()
		}
		s.dec.lastKey = append(s.dec.lastKey[:0], s.it.key...)
		if err := s.it.Next(); err != nil {
			return err
		}
		if !s.it.valid {
			return s.handOut(s.dec.lastKey)
		}
	}
}

// handOut hands out the batch, whose last row has the given key. What it has visited is counted by the iterator: a row
// that was lost on the way into the batch makes a difference.
func (s *rowScan) handOut(lastKey []byte) error {
	s.handedOut = append(s.handedOut[:0], lastKey...)
	batch := s.dec.finish(lastKey)
	batch.Visited = s.it.takeVisited()
	return s.fn(batch)
}

package pebblekv

import (
	"context"
	"errors"

	"fastddl/kv"
)

const defaultBatchRows = 1024

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
	for it.valid {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := scanBatch(it, dec, fn); err != nil {
			return err
		}
	}
	return nil
}

// scanBatch decodes rows until a batch is full or the range has ended, hands
// the batch out and stands on the row after it.
func scanBatch(it *forwardIter, dec *rowDecoder, fn func(*kv.RowBatch) error) error {
	dec.reset()
	for {
		if err := dec.add(it.key, it.value); err != nil {
			return err
		}
		if dec.full() {
			if err := fn(dec.finish(it.key)); err != nil {
				return err
			}
			return it.Next()
		}
		dec.lastKey = append(dec.lastKey[:0], it.key...)
		if err := it.Next(); err != nil {
			return err
		}
		if !it.valid {
			return fn(dec.finish(dec.lastKey))
		}
	}
}

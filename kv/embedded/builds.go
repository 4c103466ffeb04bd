package embedded

import (
	"context"

	"fastddl/kv"
	"fastddl/kv/embedded/txn"
	"fastddl/kv/pebblekv"
)

// builds is the data as an index build sees it. What it adds to the data below is the barrier: before a timestamp is
// read, no transaction may be able to commit at or below it any more.
type builds struct {
	*pebblekv.Store
	engine *txn.Engine
}

var (
	_ kv.Store        = (*builds)(nil)
	_ kv.ChangeFinder = (*builds)(nil)
	_ kv.ScanCounter  = (*builds)(nil)
)

// Snapshot implements kv.Store.
func (b *builds) Snapshot(ctx context.Context, ts uint64) (kv.Snapshot, error) {
	if err := b.engine.Barrier(ctx, ts); err != nil {
		return nil, err
	}
	return b.Store.Snapshot(ctx, ts)
}

// ScanColumns implements kv.Store.
func (b *builds) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	if err := b.engine.Barrier(ctx, req.TS); err != nil {
		return err
	}
	return b.Store.ScanColumns(ctx, req, fn)
}

// Changes implements kv.ChangeFinder.
func (b *builds) Changes(ctx context.Context, r kv.KeyRange, after, upTo uint64, fn func(key []byte) error) error {
	if err := b.engine.Barrier(ctx, upTo); err != nil {
		return err
	}
	return b.Store.Changes(ctx, r, after, upTo, fn)
}

// Close implements kv.Store: the data are closed with the store that they belong to.
func (b *builds) Close() error { return nil }

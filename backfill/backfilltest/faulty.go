package backfilltest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/kv"
)

// CountingScans is a kv.ScanCounter over any store, which changes what a scan says of each batch.
type CountingScans struct {
	kv.Store
	// OnBatch is called with each batch of a scan that is no sample; nil is not called. Visited is the number of its rows by then.
	OnBatch func(b *kv.RowBatch) error
}

// CountsScans implements kv.ScanCounter.
func (*CountingScans) CountsScans() {}

// ScanColumns implements kv.Store.
func (s *CountingScans) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	return s.Store.ScanColumns(ctx, req, func(b *kv.RowBatch) error {
		b.Visited = b.NumRows()
		if s.OnBatch != nil && !req.Sample {
			if err := s.OnBatch(b); err != nil {
				return err
			}
		}
		return fn(b)
	})
}

// LosingStore loses one batch of every scan, counted from 1.
type LosingStore struct {
	kv.Store
	Batch int
}

// ScanColumns implements kv.Store.
func (s *LosingStore) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	n := 0
	return s.Store.ScanColumns(ctx, req, func(b *kv.RowBatch) error {
		if n++; n == s.Batch {
			return nil
		}
		return fn(b)
	})
}

// FaultyStore fails operations on demand, and counts what is read.
type FaultyStore struct {
	kv.Store
	OnImport        func(n int64) error // before the n-th import
	OnScan          func(n int64) error // before the n-th batch
	OnRead          func(n int64) error // before the n-th entry is read back, or range counted
	Skip            func(n int64) bool  // leaves the n-th imported pair out; the file's unit says that it has it
	LoseUnit        func(n int64) bool  // leaves the n-th imported unit out
	units           atomic.Int64
	Imports         atomic.Int64
	batches         atomic.Int64
	Rows            atomic.Int64 // handed out by scans
	Entries, counts atomic.Int64 // read back
	Pairs           atomic.Int64
}

// Import implements kv.Store.
func (s *FaultyStore) Import(ctx context.Context, units []kv.ImportUnit) error {
	if n := s.Imports.Add(1); s.OnImport != nil {
		if err := s.OnImport(n); err != nil {
			return err
		}
	}
	var imported, lost []kv.ImportUnit
	for _, u := range Uncounted(units) {
		if s.LoseUnit != nil && s.LoseUnit(s.units.Add(1)) {
			lost = append(lost, u)
			continue
		}
		imported = append(imported, u)
	}
	var err error
	if len(imported) > 0 {
		err = s.Store.Import(ctx, imported)
	}
	for _, u := range lost {
		err = errors.Join(err, u.Discard())
	}
	return err
}

// ScanColumns implements kv.Store. Samples are no part of the scan.
func (s *FaultyStore) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	if req.Sample {
		return s.Store.ScanColumns(ctx, req, fn) // no part of the scan
	}
	return s.Store.ScanColumns(ctx, req, func(b *kv.RowBatch) error {
		if s.OnScan != nil {
			if err := s.OnScan(s.batches.Add(1)); err != nil {
				return err
			}
		}
		s.Rows.Add(int64(b.NumRows()))
		return fn(b)
	})
}

// Snapshot implements kv.Store.
func (s *FaultyStore) Snapshot(ctx context.Context, ts uint64) (kv.Snapshot, error) {
	snap, err := s.Store.Snapshot(ctx, ts)
	return &faultySnapshot{snap, s}, err
}

// Counts is how many ranges were counted.
func (s *FaultyStore) Counts() int64 { return s.counts.Load() }

type faultySnapshot struct {
	kv.Snapshot
	s *FaultyStore
}

func (s *faultySnapshot) Iter(r kv.KeyRange) (kv.Iterator, error) {
	it, err := s.Snapshot.Iter(r)
	if err != nil || tablecodec.IsRecordKey(r.Start) {
		return it, err
	}
	return &faultyIterator{it.(kv.VersionedIterator), s.s}, nil
}

func (s *faultySnapshot) Count(ctx context.Context, r kv.KeyRange) (int64, error) {
	if n := s.s.counts.Add(1); s.s.OnRead != nil {
		if err := s.s.OnRead(n); err != nil {
			return 0, err
		}
	}
	return s.Snapshot.Count(ctx, r)
}

type faultyIterator struct {
	kv.VersionedIterator
	s *FaultyStore
}

func (it *faultyIterator) Next() error {
	if n := it.s.Entries.Add(1); it.s.OnRead != nil {
		if err := it.s.OnRead(n); err != nil {
			return err
		}
	}
	return it.VersionedIterator.Next()
}

// NewImportWriter implements kv.Store.
func (s *FaultyStore) NewImportWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	w, err := s.Store.NewImportWriter(ctx, opts)
	if err != nil || s.Skip == nil {
		return w, err
	}
	return &skippingWriter{ImportWriter: w, s: s}, nil
}

type skippingWriter struct {
	kv.ImportWriter
	s     *FaultyStore
	pairs int
}

func (w *skippingWriter) Add(key, value []byte) error {
	w.pairs++
	if w.s.Skip(w.s.Pairs.Add(1)) {
		return nil
	}
	return w.ImportWriter.Add(key, value)
}

// Finish implements kv.ImportWriter.
func (w *skippingWriter) Finish(ctx context.Context) (kv.ImportUnit, error) {
	u, err := w.ImportWriter.Finish(ctx)
	return CountedUnit{u, w.pairs}, err
}

// CountedUnit is a unit that says to have Pairs pairs.
type CountedUnit struct {
	kv.ImportUnit
	Pairs int
}

// Count implements kv.ImportUnit.
func (u CountedUnit) Count() int { return u.Pairs }

// Uncounted returns the units as the store has made them.
func Uncounted(units []kv.ImportUnit) []kv.ImportUnit {
	units = slices.Clone(units)
	for i, u := range units {
		if c, ok := u.(CountedUnit); ok {
			units[i] = c.ImportUnit
		}
	}
	return units
}

// ErrInjected is the error of operations that fail on demand.
var ErrInjected = errors.New("injected")

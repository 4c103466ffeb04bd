package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"sync/atomic"
	"time"

	"fastddl/kv"
)

// errInjected is what the store fails with when the dice say so.
var errInjected = errors.New("injected fault")

// dice are random decisions that many goroutines make.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newDice(rng *rand.Rand) *dice { return &dice{rng: rand.New(rand.NewSource(rng.Int63()))} }

func (d *dice) intn(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Intn(n)
}

// faultyStore is the store as the schema changes see it: slow at random, and
// failing. Transactions of clients use the store below it.
type faultyStore struct {
	kv.Store
	dice *dice
	// oneIn is how rarely a call fails; 0 is never.
	oneIn int
	// pause is the longest a batch of a scan waits.
	pause time.Duration
	// off suspends failures.
	off      atomic.Bool
	injected atomic.Int64
}

func (s *faultyStore) fail(op string) error {
	if s.oneIn == 0 || s.off.Load() || s.dice.intn(s.oneIn) != 0 {
		return nil
	}
	s.injected.Add(1)
	return fmt.Errorf("%s: %w", op, errInjected)
}

func (s *faultyStore) Begin(ctx context.Context) (kv.Txn, error) {
	if err := s.fail("begin"); err != nil {
		return nil, err
	}
	txn, err := s.Store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyTxn{txn, s}, nil
}

type faultyTxn struct {
	kv.Txn
	store *faultyStore
}

func (t *faultyTxn) Commit(ctx context.Context) error {
	if err := t.store.fail("commit"); err != nil {
		return errors.Join(err, t.Txn.Rollback())
	}
	return t.Txn.Commit(ctx)
}

func (s *faultyStore) CurrentTS(ctx context.Context) (uint64, error) {
	if err := s.fail("timestamp"); err != nil {
		return 0, err
	}
	return s.Store.CurrentTS(ctx)
}

func (s *faultyStore) Snapshot(ctx context.Context, ts uint64) (kv.Snapshot, error) {
	if err := s.fail("snapshot"); err != nil {
		return nil, err
	}
	return s.Store.Snapshot(ctx, ts)
}

func (s *faultyStore) HoldGC(ctx context.Context, name string, ts uint64, ttl time.Duration) (kv.GCHold, error) {
	if err := s.fail("hold"); err != nil {
		return nil, err
	}
	return s.Store.HoldGC(ctx, name, ts, ttl)
}

func (s *faultyStore) DeleteRange(ctx context.Context, r kv.KeyRange) error {
	if err := s.fail("delete range"); err != nil {
		return err
	}
	return s.Store.DeleteRange(ctx, r)
}

func (s *faultyStore) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	return s.Store.ScanColumns(ctx, req, func(b *kv.RowBatch) error {
		if err := s.fail("scan"); err != nil {
			return err
		}
		if s.pause > 0 {
			time.Sleep(time.Duration(s.dice.intn(int(s.pause))))
		}
		return fn(b)
	})
}

// Import fails before it has done anything, after it has imported some units,
// or after it has imported all.
func (s *faultyStore) Import(ctx context.Context, units []kv.ImportUnit) error {
	if err := s.fail("import"); err != nil {
		return err
	}
	if err := s.fail("import"); err != nil && len(units) > 1 {
		return errors.Join(err, s.Store.Import(ctx, units[:len(units)/2]))
	}
	if err := s.Store.Import(ctx, units); err != nil {
		return err
	}
	return s.fail("import")
}

func (s *faultyStore) NewImportWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	if err := s.fail("import writer"); err != nil {
		return nil, err
	}
	w, err := s.Store.NewImportWriter(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &faultyWriter{w, s}, nil
}

type faultyWriter struct {
	kv.ImportWriter
	store *faultyStore
}

func (w *faultyWriter) Finish(ctx context.Context) (kv.ImportUnit, error) {
	if err := w.store.fail("finish file"); err != nil {
		return nil, err
	}
	return w.ImportWriter.Finish(ctx)
}

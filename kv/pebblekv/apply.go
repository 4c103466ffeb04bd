package pebblekv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"

	"fastddl/internal/errs"
	"fastddl/internal/invariants"
	"fastddl/kv"
)

const (
	// maxBatch bounds the size of a batch, in bytes: the engine panics at 4 GiB.
	maxBatch = math.MaxUint32 - 1
	// writeOverhead bounds what a write takes in a batch beside its key and its value.
	writeOverhead = 1 + 2*binary.MaxVarintLen32 + versionOverhead
)

// ErrCommitTSTooLarge is returned by Apply when the timestamp it took lies above
// the limit; nothing was written.
var ErrCommitTSTooLarge = errors.New("pebblekv: commit timestamp exceeds the limit")

// Writes are what one commit writes, as key and value; an empty value is a
// tombstone. Keys must be distinct.
type Writes = iter.Seq2[[]byte, []byte]

// ApplyOptions say when a commit takes place.
type ApplyOptions struct {
	// TS is the commit timestamp, one that was handed out; 0 takes a fresh one.
	TS uint64
	// MaxTS is the largest fresh timestamp that is accepted; 0 is no limit.
	MaxTS uint64
	// Announce is called with a fresh timestamp before a later one is handed
	// out. It must not block nor call the store.
	Announce func(ts uint64)
	// SizeHint is about the number of bytes of all keys and values.
	SizeHint int
	// Essential says that the writes must go on where the disk is nearly full.
	Essential bool
}

// Applied is a commit whose writes are in the log and in the memtable, but not
// yet known to be durable. Wait must be called.
type Applied struct {
	store   *Store
	pending *pendingCommit
	batch   *pebble.Batch
	start   time.Time
}

// TS is the commit timestamp.
func (a *Applied) TS() uint64 { return a.pending.ts }

// Apply writes all versions of a commit as one atomic batch. Tombstones are
// always written. The commit counts as in flight from the moment it takes its
// timestamp until Wait returns. What was returned as an error was not written,
// but for kv.ErrResultUndetermined.
//
// Apply checks nothing: conflicts are the caller's business.
func (s *Store) Apply(ctx context.Context, writes Writes, opts ApplyOptions) (*Applied, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	a, err := s.apply(writes, opts)
	if err != nil {
		s.gate.exit()
		return nil, err
	}
	return a, nil
}

// apply contains panics of the caller's functions: the commit would be in flight for ever. Assertions that do
// not hold go on, as the client would try again.
func (s *Store) apply(writes Writes, opts ApplyOptions) (a *Applied, err error) {
	defer func() {
		var panicked *errs.PanicError
		if errors.As(err, &panicked) {
			if violation, ok := panicked.Value.(invariants.Violation); ok {
				panic(violation)
			}
			s.log.Error("a commit has panicked and is not written", zap.Any("panic", panicked.Value), zap.ByteString("stack", panicked.Stack))
		}
	}()
	defer errs.Contain(&err)
	if err := s.admitApply(writes, opts); err != nil {
		return nil, err
	}
	a = &Applied{store: s, start: time.Now()}
	if opts.TS != 0 {
		a.pending, err = s.timeline.beginCommitAt(opts.TS)
	} else {
		a.pending, err = s.timeline.beginCommit(opts.Announce)
	}
	if err != nil {
		return nil, err
	}
	if opts.TS == 0 && opts.MaxTS != 0 && a.pending.ts > opts.MaxTS {
		s.timeline.finishCommit(a.pending, nil)
		return nil, fmt.Errorf("%w: %d is above %d", ErrCommitTSTooLarge, a.pending.ts, opts.MaxTS)
	}
	if err := a.encode(writes, opts.SizeHint); err != nil {
		s.timeline.finishCommit(a.pending, nil)
		return nil, err
	}
	if err := s.applyBatch(a.batch, true); err != nil {
		err = fmt.Errorf("%w: %w", kv.ErrResultUndetermined, err)
		s.timeline.finishCommit(a.pending, err)
		return nil, err
	}
	return a, nil
}

// encode makes the batch of the commit.
func (a *Applied) encode(writes Writes, sizeHint int) (err error) {
	defer errs.Contain(&err)
	a.batch, err = a.store.versionBatch(writes, a.pending.ts, sizeHint)
	return err
}

// versionBatch encodes writes as versions at ts.
func (s *Store) versionBatch(writes Writes, ts uint64, sizeHint int) (*pebble.Batch, error) {
	batch := s.db.NewBatchWithSize(sizeHint + sizeHint/4 + 64)
	for key, value := range writes {
		if err := checkUserKey(key); err != nil {
			return nil, errors.Join(err, batch.Close())
		}
		if size := batch.Len() + writeOverhead + len(key) + len(value); size > s.maxBatch {
			return nil, errors.Join(&kv.TxnTooLargeError{Size: size, Limit: s.maxBatch}, batch.Close())
		}
		op := batch.SetDeferred(len(key)+versionOverhead, len(value))
		putVersion(op.Key, key, ts)
		copy(op.Value, value)
		if err := op.Finish(); err != nil {
			return nil, errors.Join(err, batch.Close())
		}
	}
	return batch, nil
}

// Wait waits until the commit is durable. An error is kv.ErrResultUndetermined:
// then that is not known, and the store takes no more writes.
func (a *Applied) Wait() error {
	s := a.store
	defer s.gate.exit()
	err := s.awaitSync(a.batch)
	if err != nil {
		err = fmt.Errorf("%w: %w", kv.ErrResultUndetermined, err)
	}
	s.timeline.finishCommit(a.pending, err)
	if err == nil {
		s.load.observe(time.Since(a.start))
	}
	return err
}

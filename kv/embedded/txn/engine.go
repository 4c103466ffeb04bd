package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"go.uber.org/zap"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

const (
	defaultLockWait   = time.Second
	defaultTxnBytes   = 1 << 30
	defaultLockMemory = 1 << 30
	// fewLocks is how many locks a transaction may always have, with any number held by others.
	fewLocks = 256
)

// Options configures an Engine. The zero value is ready for use.
type Options struct {
	// MaxLockWait is how long a request for a pessimistic lock waits at most before the client looks whether the holder
	// is still alive; 0 is a second, as in TiKV.
	MaxLockWait time.Duration
	// TxnSizeLimit bounds the bytes that one transaction may have prewritten; 0 is 1 GiB.
	TxnSizeLimit int
	// LockMemory bounds the memory, in bytes, that locks hold beside the values of what is prewritten; 0 is 1 GiB. Above
	// it transactions with many locks get no more of them.
	LockMemory int64
	// Logger receives messages; nil discards them.
	Logger *zap.Logger
}

// EnsureDefaults fills in what is unset.
func (o *Options) EnsureDefaults() {
	if o.MaxLockWait == 0 {
		o.MaxLockWait = defaultLockWait
	}
	if o.TxnSizeLimit == 0 {
		o.TxnSizeLimit = defaultTxnBytes
	}
	if o.LockMemory == 0 {
		o.LockMemory = defaultLockMemory
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
}

// Validate lists everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	if o.MaxLockWait < 0 {
		errs = append(errs, fmt.Errorf("txn: the longest lock wait %s is negative", o.MaxLockWait))
	}
	if o.TxnSizeLimit < 0 {
		errs = append(errs, fmt.Errorf("txn: the transaction size limit %d is negative", o.TxnSizeLimit))
	}
	if o.LockMemory < 0 {
		errs = append(errs, fmt.Errorf("txn: the memory for locks %d is negative", o.LockMemory))
	}
	return errors.Join(errs...)
}

// Engine answers transactional requests over one store. Its methods may be called concurrently. Requests and their slices
// belong to the caller again when a method has returned. A method returns an error, instead of an answer, if the outcome of
// the request is and will be unknown: the context has ended, the store is closed or has failed.
type Engine struct {
	opts     Options
	store    *pebblekv.Store
	log      *zap.Logger
	table    *table
	registry *registry
	active   activeSet
	detector detector
}

// New makes the transaction layer of a store. It must be the only one that commits to the store.
func New(store *pebblekv.Store, opts Options) (*Engine, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.EnsureDefaults()
	since := store.LastTS()
	return &Engine{
		opts:     opts,
		store:    store,
		log:      opts.Logger,
		table:    newTable(since),
		registry: newRegistry(since),
		detector: newDetector(),
	}, nil
}

// latchTimeout is how long a request waits for latches. It is long, since a client pauses for seconds after the error that
// the server is busy and ignores its own limits but for being killed.
func (e *Engine) latchTimeout() time.Duration { return 10 * e.opts.MaxLockWait }

// Locks is the number of keys that are locked or waited for.
func (e *Engine) Locks() int { return int(e.table.keys.Load()) }

// hasRoom says whether a transaction may have these locks, too. One with few always may: a transaction that has locked many
// rows does not keep others from working, TiDB's own among them. Concurrent requests may exceed the bound by what each of
// them locks. The transaction's mu is held.
func (e *Engine) hasRoom(t *transaction, locks []*lock) bool {
	if len(t.locks)+len(locks) <= fewLocks {
		return true
	}
	count, size := len(t.locks), e.table.bytes.Load()
	for _, l := range locks {
		if t.locks[string(l.key)] == nil {
			count++
			size += memory(len(l.key))
		}
	}
	return size <= e.opts.LockMemory || count <= max(fewLocks, len(t.locks))
}

// tooManyLocks names the reason in the text alone: TiDB shows nothing else of an abort.
func (e *Engine) tooManyLocks() *kvrpcpb.KeyError {
	return abortError("%v", &kv.TooManyLocksError{Limit: e.opts.LockMemory})
}

// Barrier returns when no transaction can commit at or below ts any more and all that have are visible and durable: the
// prewritten ones will commit above ts, and it waits for committing ones.
func (e *Engine) Barrier(ctx context.Context, ts uint64) error {
	for t := range e.active.all() {
		if err := t.letRead(ctx, ts); err != nil {
			return err
		}
	}
	return nil
}

// release ends a transaction that has committed at commitTS or, if that is 0, was rolled back: from here on its locks are
// free and its outcome is known.
func (e *Engine) release(t *transaction, commitTS uint64) {
	e.registry.end(t, outcome{ended: true, commitTS: commitTS})
	t.mu.Lock()
	t.state = stateRolledBack
	if commitTS != 0 {
		t.state = stateCommitted
	}
	locks := t.locks
	t.locks, t.blocks = nil, nil
	t.mu.Unlock()
	for _, l := range locks {
		lockedAt := uint64(0)
		if commitTS != 0 && l.op == kvrpcpb.Op_Lock {
			lockedAt = commitTS
		}
		e.table.remove(l, lockedAt)
	}
	e.active.remove(t)
	close(t.done)
}

// undetermined leaves a transaction whose batch may or may not be durable as it is: readers that would have to see it
// fail.
func (e *Engine) undetermined(t *transaction, err error) {
	e.log.Error("outcome of a commit is unknown until the store is opened again", zap.Uint64("startTS", t.startTS),
		zap.Uint64("commitTS", t.commitTS.Load()), zap.Error(err))
	t.mu.Lock()
	t.state, t.failure = stateUndetermined, err
	t.mu.Unlock()
	close(t.done)
}

// isUndetermined says whether a commit that failed may have happened.
func isUndetermined(err error) bool { return errors.Is(err, kv.ErrResultUndetermined) }

package tikv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	derr "github.com/pingcap/tidb/pkg/store/driver/error"
	tikverr "github.com/tikv/client-go/v2/error"
	tikvcfg "github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/txnkv/txnlock"
	pd "github.com/tikv/pd/client"
	pdhttp "github.com/tikv/pd/client/http"

	"fastddl/kv"
)

// cluster is what TiDB's storages over TiKV have besides their interface: client-go's
// store.
type cluster interface {
	tidbkv.Storage
	GetPDClient() pd.Client
	GetPDHTTPClient() pdhttp.Client
	GetRegionCache() *tikv.RegionCache
	GetLockResolver() *txnlock.LockResolver
	GetTimestampWithRetry(bo *tikv.Backoffer, scope string) (uint64, error)
	SendReq(bo *tikv.Backoffer, req *tikvrpc.Request, region tikv.RegionVerID, timeout time.Duration) (*tikvrpc.Response, error)
	CheckVisibility(ts uint64) error
	UnsafeDestroyRange(ctx context.Context, start, end []byte) error
}

// Store implements kv.Store on a TiKV cluster.
type Store struct {
	cluster cluster
	opts    Options
	holds   holds
	load    loadMeter
	hints   scanHints
	visits  visits
	vars    *tikvcfg.Variables

	// seen is a timestamp that was handed out: from then on no transaction commits at
	// or below it without a reader noticing.
	seen atomic.Uint64

	mu     sync.RWMutex // guards closed
	closed bool
	inside sync.WaitGroup // operations under way
}

var (
	_ kv.Store            = (*Store)(nil)
	_ kv.Checksummer      = (*Store)(nil)
	_ kv.Fencer           = (*Store)(nil)
	_ kv.LockSettler      = (*Store)(nil)
	_ kv.Metered          = (*Store)(nil)
	_ kv.ScanCounter      = (*Store)(nil)
	_ kv.ShadowFinder     = (*Store)(nil)
	_ kv.UnchangedCounter = (*Store)(nil)
)

// Open returns the cluster behind storage as index builds see it. The storage must be one
// of TiDB's over TiKV, or one that speaks its protocol; it stays the caller's, and must be
// closed after the store.
func Open(storage tidbkv.Storage, opts Options) (*Store, error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	c, ok := storage.(cluster)
	if !ok {
		return nil, fmt.Errorf("tikv: %s is not a TiKV cluster", storage.Name())
	}
	s := &Store{cluster: c, opts: opts, vars: tikvcfg.NewVariables(new(uint32))}
	s.holds = holds{store: s, byName: make(map[string]*hold)}
	s.load.sample() // what was before the store was opened is not its load
	return s, nil
}

// Name implements kv.Store.
func (s *Store) Name() string { return "tikv" }

// CountsScans implements kv.ScanCounter.
func (s *Store) CountsScans() {}

// enter begins an operation; exit must follow unless it fails.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return kv.ErrClosed
	}
	s.inside.Add(1)
	return nil
}

func (s *Store) exit() { s.inside.Done() }

// Close implements kv.Store: the storage stays open.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.inside.Wait()
	if s.opts.Importer == nil {
		return nil
	}
	return s.opts.Importer.Close()
}

const (
	// askedTimestamps is how many timestamps are asked for side by side, so that PD hands out
	// some of them one after the other.
	askedTimestamps = 8
	// maxTimestampTries bounds how often that is tried: others may always come between.
	maxTimestampTries = 32
)

// errNoTimestamp says that no timestamp was handed out right behind another one of ours.
var errNoTimestamp = fmt.Errorf("tikv: others take timestamps between all of ours, after %d tries", maxTimestampTries)

// CurrentTS implements kv.Store. No transaction commits at the timestamp, so entries can be imported
// at it. A transaction with async commit, or in one phase, takes one more than a timestamp that itself
// or a reader has (latestTS+1 in txnkv/transaction/2pc.go of client-go, the maximum's next() in
// async_commit_timestamps of TiKV's prewrite.rs), which is often the very one that PD hands out next. An
// import at that one would replace the record of the transaction at its keys. Clients that ask a primary
// key for the transaction would then learn that it was rolled back, and roll back the locks that it has
// left elsewhere. So the timestamp before this one was handed out to this call too, and to no other.
//
// It fails if others take timestamps so fast that none is alone.
func (s *Store) CurrentTS(ctx context.Context) (uint64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.exit()
	bo := backoffer(ctx)
	for tries := 0; ; {
		ts, alone, err := s.askTS(ctx)
		if err != nil {
			if err := bo.Backoff(tikv.BoPDRPC(), err); err != nil {
				return 0, failed(ctx, "timestamp", err)
			}
			continue
		}
		if alone {
			s.sawTS(ts)
			return ts, nil
		}
		if tries++; tries == maxTimestampTries {
			return 0, errNoTimestamp
		}
	}
}

// askTS returns a timestamp, and says whether the one before was handed out to this call too.
func (s *Store) askTS(ctx context.Context) (ts uint64, alone bool, err error) {
	var futures [askedTimestamps]oracle.Future
	for i := range futures {
		futures[i] = s.cluster.GetOracle().GetTimestampAsync(ctx, &oracle.Option{TxnScope: oracle.GlobalTxnScope})
	}
	// Sessions of low resolution (tidb_low_resolution_tso) read at the highest that was waited for, so the last comes first.
	var got [askedTimestamps]uint64
	for i, f := range slices.Backward(futures[:]) { // each is to be waited for
		now, waitErr := f.Wait()
		got[i], err = now, errors.Join(err, waitErr)
	}
	var before uint64
	for _, now := range got {
		if !alone {
			ts, alone, before = now, now == before+1, now
		}
	}
	return ts, alone, err
}

func (s *Store) currentTS(ctx context.Context) (uint64, error) {
	ts, err := s.cluster.GetTimestampWithRetry(backoffer(ctx), oracle.GlobalTxnScope)
	if err != nil {
		return 0, failed(ctx, "timestamp", err)
	}
	s.sawTS(ts)
	return ts, nil
}

// sawTS notes that a timestamp was handed out.
func (s *Store) sawTS(ts uint64) {
	for old := s.seen.Load(); old < ts && !s.seen.CompareAndSwap(old, ts); {
		old = s.seen.Load()
	}
}

// readable makes sure that a snapshot at ts exists: it is not of the future, and garbage
// collection has not passed it.
func (s *Store) readable(ctx context.Context, ts uint64) error {
	if ts > s.seen.Load() {
		now, err := s.currentTS(ctx)
		if err != nil {
			return err
		}
		if ts > now {
			return fmt.Errorf("tikv: timestamp %d is of the future; it is %d", ts, now)
		}
	}
	return failed(ctx, "snapshot", s.cluster.CheckVisibility(ts))
}

// failed says what an error of client-go means to a build.
func failed(ctx context.Context, what string, err error) error {
	var tooEarly *tikverr.ErrGCTooEarly
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("tikv: %s: %w", what, ctx.Err())
	case errors.As(err, &tooEarly), derr.ErrGCTooEarly.Equal(err):
		return fmt.Errorf("tikv: %s: %w: %w", what, kv.ErrSnapshotTooOld, err)
	}
	return fmt.Errorf("tikv: %s: %w", what, err)
}

// NewImportWriter implements kv.Store.
func (s *Store) NewImportWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	if err := s.enterImport(ctx); err != nil {
		return nil, err
	}
	defer s.exit()
	return s.opts.Importer.NewWriter(ctx, opts)
}

// Import implements kv.Store.
func (s *Store) Import(ctx context.Context, units []kv.ImportUnit) error {
	if err := s.enterImport(ctx); err != nil {
		return err
	}
	defer s.exit()
	return s.opts.Importer.Import(ctx, units)
}

func (s *Store) enterImport(ctx context.Context) error {
	if s.opts.Importer == nil {
		return errors.New("tikv: the store was opened for reading")
	}
	return s.enter(ctx)
}

// DeleteRange implements kv.Store. Like TiDB's garbage collection of dropped indexes it
// goes to every store, past Raft.
func (s *Store) DeleteRange(ctx context.Context, r kv.KeyRange) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.exit()
	if r.Empty() {
		return nil
	}
	return failed(ctx, "delete range", s.cluster.UnsafeDestroyRange(ctx, r.Start, r.End))
}

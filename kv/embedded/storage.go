package embedded

import (
	"context"
	"crypto/tls"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	deadlockpb "github.com/pingcap/kvproto/pkg/deadlock"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/store/copr"
	derr "github.com/pingcap/tidb/pkg/store/driver/error"
	txn_driver "github.com/pingcap/tidb/pkg/store/driver/txn"
	"github.com/pingcap/tidb/pkg/store/gcworker"
	"github.com/pingcap/tidb/pkg/store/helper"
	"github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/txnkv/transaction"
)

// storage is TiDB's storage: a client-go store over the clients of this process, and the coprocessor client on top.
type storage struct {
	*tikv.KVStore
	store    *Store
	copStore *copr.Store
	cache    tidbkv.MemManager
	codec    tikv.Codec
	safe     safePointKV

	mu        sync.Mutex // guards what follows
	gcWorker  *gcworker.GCWorker
	gcDelayed bool
	gcRuns    bool
	closed    bool

	// gcStopped says that the GC worker makes no sessions any more.
	gcStopped atomic.Bool
}

var (
	_ tidbkv.Storage     = (*storage)(nil)
	_ tidbkv.EtcdBackend = (*storage)(nil)
	_ helper.Storage     = (*storage)(nil)
)

func newStorage(s *Store) (*storage, error) {
	codecPD := tikv.NewCodecPDClient(tikv.ModeTxn, s.pd)
	codec := codecPD.GetCodec()
	uuid := fmt.Sprintf("embedded-%s", s.pebble.ID())
	safe := newSafePointKV(s.pebble)
	kvStore, err := tikv.NewKVStore(uuid, codecPD, safe, &codecClient{Client: s.Client(), codec: codec})
	if err != nil {
		return nil, err
	}
	// Before anybody takes the client: client-go's own layers around ours make errors too.
	kvStore.SetTiKVClient(finalClient{kvStore.GetTiKVClient()})
	// Responses of the coprocessor are not cached: they would be validated against a data version that only TiKV has.
	copStore, err := copr.NewStore(kvStore, &config.CoprocessorCache{})
	if err != nil {
		_ = kvStore.Close()
		return nil, err
	}
	return &storage{KVStore: kvStore, store: s, copStore: copStore, cache: tidbkv.NewCacheDB(), codec: codec, safe: safe}, nil
}

// codecClient decodes the keys in region errors, as client-go's network client does.
type codecClient struct {
	tikv.Client
	codec tikv.Codec
}

// SendRequest implements tikv.Client.
func (c *codecClient) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	req, err := c.codec.EncodeRequest(req)
	if err != nil {
		return nil, err
	}
	resp, err := c.Client.SendRequest(ctx, addr, req, timeout)
	if err != nil {
		return nil, err
	}
	return c.codec.DecodeResponse(req, resp)
}

// Name implements tidbkv.Storage. TiDB refuses FLASHBACK CLUSTER on storages that are not named TiKV.
func (s *storage) Name() string { return "embedded" }

// Describe implements tidbkv.Storage.
func (s *storage) Describe() string {
	return "an embedded transactional key-value store that speaks TiKV's protocol"
}

// Begin implements tidbkv.Storage. A transaction that is to be pipelined is an ordinary one: what it has not committed would
// have to be stored.
func (s *storage) Begin(opts ...tikv.TxnOption) (tidbkv.Transaction, error) {
	txn, err := s.KVStore.Begin(append(opts, func(o *transaction.TxnOptions) { o.PipelinedMemDB = false })...)
	if err != nil {
		return nil, derr.ToTiDBErr(err)
	}
	return txn_driver.NewTiKVTxn(txn), nil
}

// GetSnapshot implements tidbkv.Storage.
func (s *storage) GetSnapshot(ver tidbkv.Version) tidbkv.Snapshot {
	return txn_driver.NewSnapshot(s.KVStore.GetSnapshot(ver.Ver))
}

// CurrentVersion implements tidbkv.Storage.
func (s *storage) CurrentVersion(scope string) (tidbkv.Version, error) {
	ts, err := s.CurrentTimestamp(scope)
	return tidbkv.NewVersion(ts), derr.ToTiDBErr(err)
}

// GetClient implements tidbkv.Storage.
func (s *storage) GetClient() tidbkv.Client {
	return copClient{Client: s.copStore.GetClient(), answers: s.store.service.answers}
}

// GetMPPClient implements tidbkv.Storage.
func (s *storage) GetMPPClient() tidbkv.MPPClient { return s.copStore.GetMPPClient() }

// GetMemCache implements tidbkv.Storage.
func (s *storage) GetMemCache() tidbkv.MemManager { return s.cache }

// GetCodec implements tidbkv.Storage.
func (s *storage) GetCodec() tikv.Codec { return s.codec }

// GetLockWaits implements tidbkv.Storage.
func (s *storage) GetLockWaits() ([]*deadlockpb.WaitForEntry, error) {
	return s.store.service.engine.LockWaits(), nil
}

// ShowStatus implements tidbkv.Storage.
func (s *storage) ShowStatus(context.Context, string) (any, error) {
	return nil, tidbkv.ErrNotImplemented
}

// EtcdAddrs implements tidbkv.EtcdBackend: there is no etcd.
func (s *storage) EtcdAddrs() ([]string, error) { return nil, nil }

// TLSConfig implements tidbkv.EtcdBackend.
func (s *storage) TLSConfig() *tls.Config { return nil }

// DelayGCWorker keeps TiDB's garbage collection from starting before release is called. TiDB starts it while it still loads
// its statistics, whose cache it replaces then: a statement that puts something into the old one at that moment panics
// ("send on closed channel"), and the first statements of the GC worker run where nothing contains that.
func (s *storage) DelayGCWorker() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gcDelayed = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gcDelayed = false
		s.runGCWorker()
	}
}

// KeepReadable makes TiDB's garbage collection keep what a reader at oldest() needs: the start of the oldest transaction,
// statement or cursor of the SQL layer's sessions, 0 if it is not known yet.
func (s *storage) KeepReadable(oldest func() uint64) { s.safe.oldest.Store(&oldest) }

// StartGCWorker implements tidbkv.EtcdBackend. TiDB calls it when it has bootstrapped.
func (s *storage) StartGCWorker() error {
	worker, err := gcworker.NewGCWorker(&gcStorage{s}, s.GetPDClient())
	if err != nil {
		return derr.ToTiDBErr(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gcWorker != nil {
		variable.UnregisterStatistics(worker)
		return nil
	}
	s.gcWorker = worker
	s.runGCWorker()
	return nil
}

// StopGCWorker ends TiDB's garbage collection. Call it before TiDB's domain is closed. TiDB does not wait for the worker,
// and each of the worker's steps opens a session. A session without a domain opens another one, on a store that is about
// to be closed, retries that, and locks TiDB's list of domains meanwhile: this process could then open or close no domain.
func (s *storage) StopGCWorker() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endGCWorker()
}

// endGCWorker stops the worker, if there is one, and takes it out of TiDB's list of what has statistics to show, which
// would keep the storage and TiDB's domain in memory for ever. The caller holds mu.
func (s *storage) endGCWorker() {
	s.gcStopped.Store(true)
	if s.gcRuns {
		s.gcWorker.Close()
	}
	if s.gcWorker != nil {
		variable.UnregisterStatistics(s.gcWorker)
	}
}

// gcStorage is the storage as the GC worker has it.
type gcStorage struct{ *storage }

// UUID implements tidbkv.Storage. A session that is opened asks for it with the list of domains locked: if the worker is to
// end, its goroutine ends there.
func (s *gcStorage) UUID() string {
	if s.gcStopped.Load() {
		runtime.Goexit()
	}
	return s.storage.UUID()
}

// runGCWorker lets the worker run, if there is one and it may. The caller holds mu.
func (s *storage) runGCWorker() {
	if s.gcWorker == nil || s.gcRuns || s.gcDelayed || s.gcStopped.Load() || s.closed {
		return
	}
	s.gcWorker.Start()
	s.gcRuns = true
}

// Close implements tidbkv.Storage: it stops what runs in the background. The data stay open until the store is closed.
func (s *storage) Close() error { return s.shutDown() }

func (s *storage) shutDown() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.endGCWorker()
	s.copStore.Close()
	return derr.ToTiDBErr(s.KVStore.Close())
}

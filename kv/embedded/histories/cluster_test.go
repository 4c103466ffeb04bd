package histories

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"
	pd "github.com/tikv/pd/client"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"fastddl/kv/embedded"
	"fastddl/kv/embedded/grpcserver"
	"fastddl/kv/embedded/txn"
	"fastddl/kv/kvtest"
	"fastddl/kv/pebblekv"
)

// life is a store from its opening to its crash.
type life struct {
	store   *embedded.Store
	fs      *slowFS
	address string // where it is served
	server  *grpc.Server
}

// close ends the server, if there is one, and the store.
func (l *life) close() error {
	if l.server != nil {
		l.server.Stop()
	}
	return l.store.Close()
}

// cluster is a store that crashes and is opened again, while its clients go on.
type cluster struct {
	t      *testing.T
	health string // the address of a server whose health service reports that it serves
	served bool   // the store is also served over gRPC
	seed   atomic.Uint64

	// mu is held exclusively during a crash: answers of a store after it are dropped.
	mu         sync.RWMutex
	life       *life
	crashes    int
	background sync.WaitGroup
}

// slowFS delays syncs, so that commits stay written but not durable for some time.
type slowFS struct {
	*kvtest.CrashableFS
	delay *atomic.Int64 // the longest one
	disk  *sync.RWMutex // while a test holds it, syncs block
}

type slowFile struct {
	vfs.File
	fs *slowFS
}

func (fs *slowFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.slow(fs.CrashableFS.Create(name, category))
}

func (fs *slowFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.slow(fs.CrashableFS.ReuseForWrite(from, to, category))
}

func (fs *slowFS) slow(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &slowFile{f, fs}, nil
}

func (f *slowFile) wait() {
	if longest := f.fs.delay.Load(); longest > 0 {
		time.Sleep(time.Duration(rand.Int64N(longest)))
	}
	f.fs.disk.RLock()
	defer f.fs.disk.RUnlock()
}

func (f *slowFile) Sync() error {
	f.wait()
	return f.File.Sync()
}

func (f *slowFile) SyncData() error {
	f.wait()
	return f.File.SyncData()
}

func (f *slowFile) SyncTo(length int64) (bool, error) {
	f.wait()
	return f.File.SyncTo(length)
}

func newCluster(t *testing.T, seed uint64, served bool) *cluster {
	c := &cluster{t: t, served: served}
	c.seed.Store(seed)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c.health = lis.Addr().String()
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	done := make(chan error, 1)
	go func() { done <- server.Serve(lis) }()
	c.life = c.open(&slowFS{kvtest.NewCrashableFS(), &atomic.Int64{}, &sync.RWMutex{}})
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-done)
		require.NoError(t, c.life.close())
		c.background.Wait()
	})
	return c
}

// open opens the store on a file system.
func (c *cluster) open(fs *slowFS) *life {
	store, err := embedded.Open("db", embedded.Options{
		Pebble: pebblekv.Options{FS: fs},
		Txn:    txn.Options{MaxLockWait: 50 * time.Millisecond},
	})
	require.NoError(c.t, err)
	l := &life{store: store, fs: fs}
	if c.served {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(c.t, err)
		l.address = lis.Addr().String()
		l.server = grpcserver.New(store, zap.NewNop())
		c.background.Go(func() { _ = l.server.Serve(lis) })
	}
	return l
}

// current returns the life of the store that is open.
func (c *cluster) current() *life {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.life
}

// alive reports whether a life has not ended in a crash yet: then its answers may be delivered.
func (c *cluster) alive(l *life) bool { return c.current() == l }

// crash opens a copy of the store that lacks a random part of what was not synced, in place of the store.
func (c *cluster) crash(rng *rand.Rand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.life
	left := old.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 25 * rng.IntN(5), RNG: rng})
	c.life = c.open(&slowFS{left, old.fs.delay, old.fs.disk})
	c.crashes++
	c.background.Go(func() { _ = old.close() })
}

// timestamp returns a fresh timestamp.
func (c *cluster) timestamp(ctx context.Context) (uint64, error) {
	for {
		l := c.current()
		ts, err := l.store.Builds().CurrentTS(ctx)
		if c.alive(l) {
			return ts, err
		}
	}
}

// placement is the PD of the current store.
type placement struct {
	pd.Client // the first store's, for what does not change
	c         *cluster
}

func (p *placement) pd() pd.Client { return p.c.current().store.PDClient() }

func (p *placement) GetTS(ctx context.Context) (physical, logical int64, err error) {
	ts, err := p.c.timestamp(ctx)
	return int64(ts >> 18), int64(ts & (1<<18 - 1)), err
}

func (p *placement) GetTSAsync(ctx context.Context) pd.TSFuture {
	return future(func() (int64, int64, error) { return p.GetTS(ctx) })
}

// future gets its timestamp in Wait. It is then no older than promised: a later timestamp is as good.
type future func() (int64, int64, error)

func (f future) Wait() (int64, int64, error) { return f() }

func (p *placement) GetRegion(ctx context.Context, key []byte, opts ...pd.GetRegionOption) (*pd.Region, error) {
	return p.pd().GetRegion(ctx, key, opts...)
}

func (p *placement) GetPrevRegion(ctx context.Context, key []byte, opts ...pd.GetRegionOption) (*pd.Region, error) {
	return p.pd().GetPrevRegion(ctx, key, opts...)
}

func (p *placement) GetRegionByID(ctx context.Context, id uint64, opts ...pd.GetRegionOption) (*pd.Region, error) {
	return p.pd().GetRegionByID(ctx, id, opts...)
}

func (p *placement) ScanRegions(ctx context.Context, key, end []byte, limit int, opts ...pd.GetRegionOption) ([]*pd.Region, error) {
	//lint:ignore SA1019 client-go may still call it
	return p.pd().ScanRegions(ctx, key, end, limit, opts...)
}

func (p *placement) BatchScanRegions(ctx context.Context, r []pd.KeyRange, limit int, opts ...pd.GetRegionOption) ([]*pd.Region, error) {
	return p.pd().BatchScanRegions(ctx, r, limit, opts...)
}

func (p *placement) GetStore(ctx context.Context, id uint64) (*metapb.Store, error) {
	store, err := p.pd().GetStore(ctx, id)
	if err != nil {
		return nil, err
	}
	store.Address = p.c.health
	return store, nil
}

func (p *placement) GetAllStores(ctx context.Context, opts ...pd.GetStoreOption) ([]*metapb.Store, error) {
	stores, err := p.pd().GetAllStores(ctx, opts...)
	for _, store := range stores {
		store.Address = p.c.health
	}
	return stores, err
}

// errLost is the error of a request that was lost, or whose answer was.
var errLost = errors.New("the connection is lost")

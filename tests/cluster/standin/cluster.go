package standin

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"fastddl/kv/embedded"
	"fastddl/kv/pebblekv"
	"fastddl/tests/cluster/importsst"
)

// etcdStart is how long etcd may take to elect itself.
const etcdStart = time.Minute

// Options say what cluster to start.
type Options struct {
	// Dir receives etcd's data.
	Dir string
	// TLS, if set, is what PD and TiKV are served with. It must leave the protocol of the
	// application to the clients (no NextProtos): HTTP is served in its first version.
	TLS *tls.Config
	// Keyspaces are what PD knows of keyspaces beside the default one. There is nothing in them, and
	// TiKV does not serve them, but the first one if Keyspace is set.
	Keyspaces []*keyspacepb.KeyspaceMeta
	// Keyspace has all SQL servers work in the first keyspace. The store holds its keys without the keyspace's prefix.
	Keyspace bool
	// FS holds the store; nil begins with an empty one in memory.
	FS vfs.FS
	// Logger receives messages of the store, of etcd and of PD; nil discards them.
	Logger *zap.Logger
}

// Cluster is a running cluster.
type Cluster struct {
	opts   Options
	store  *embedded.Store
	etcd   *embed.Etcd
	tikv   *storeServer
	http   *httpAPI
	tso    timestamps
	faults *Faults
	pd     meter // of all endpoints
	// keyspace is the one of all SQL servers; nil if that is none.
	keyspace *keyspace

	mu        sync.Mutex
	endpoints []*Endpoint
}

// Start starts a cluster, an empty one without FS.
func Start(opts Options) (_ *Cluster, err error) {
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	if opts.FS == nil {
		opts.FS = vfs.NewMem()
	}
	c := &Cluster{opts: opts, faults: &Faults{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.store, err = embedded.Open("store", embedded.Options{
		Pebble: pebblekv.Options{FS: opts.FS, DisableSync: true}, Logger: opts.Logger,
	}); err != nil {
		return nil, err
	}
	if opts.Keyspace {
		c.keyspace = newKeyspace(opts.Keyspaces[0])
	}
	if c.tikv, err = serveStore(c.store, c.faults, c.keyspace, opts); err != nil {
		return nil, err
	}
	c.tso.client = c.store.PDClient()
	c.http = newHTTPAPI(c.store.PDClient(), c.store.Builds().GCHolds, c.tikv.Addr, opts.Logger)
	c.etcd, err = startEtcd(filepath.Join(opts.Dir, "etcd"), opts.Logger)
	return c, err
}

// startEtcd starts an etcd of one member. Its own listeners are of no use: it is
// reached through endpoints.
func startEtcd(dir string, log *zap.Logger) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	local := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls, cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = local, local, local, local
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log.Named("etcd"))
	cfg.UnsafeNoFsync = true
	cfg.TickMs, cfg.ElectionMs = 20, 200 // it is alone
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err = <-e.Err():
	case <-time.After(etcdStart):
		err = errors.New("it did not become ready")
	}
	e.Close()
	return nil, fmt.Errorf("start etcd: %w", err)
}

// Store is the cluster's data.
func (c *Cluster) Store() *embedded.Store { return c.store }

// Faults are what goes wrong with requests to TiKV.
func (c *Cluster) Faults() *Faults { return c.faults }

// StoreAddr is the address of TiKV.
func (c *Cluster) StoreAddr() string { return c.tikv.Addr }

// Imports is TiKV's service for imports.
func (c *Cluster) Imports() *importsst.Server { return c.tikv.imports }

// Open opens another address of PD.
func (c *Cluster) Open() (*Endpoint, error) {
	e, err := c.openEndpoint()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endpoints = append(c.endpoints, e)
	return e, nil
}

// Close ends everything. The SQL servers should have ended before.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, e := range c.endpoints {
		e.close()
	}
	c.endpoints = nil
	if c.tikv != nil {
		c.tikv.close()
		c.tikv = nil
	}
	if c.etcd != nil {
		c.etcd.Close()
		c.etcd = nil
	}
	if c.store != nil {
		errs = append(errs, c.store.Close())
		c.store = nil
	}
	return errors.Join(errs...)
}

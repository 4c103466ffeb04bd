package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	tidb "github.com/pingcap/tidb/pkg/config"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/store/driver"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"fastddl/config"
	"fastddl/internal/dirlock"
	"fastddl/internal/memory"
	"fastddl/kv"
	"fastddl/kv/backup"
	"fastddl/kv/embedded"
	"fastddl/kv/pebblekv"
)

// store is an opened store.
type store struct {
	storage tidbkv.Storage
	// builds is the store as index builds see it; nil if there is none, and they are
	// TiDB's.
	builds kv.Store
	// id distinguishes its temporary files from those of other stores.
	id string
	// node is the name of this server among others on the store; empty if there are none.
	node string
	// healthy returns why statements cannot be executed, nil if they can.
	healthy    func() error
	collectors []prometheus.Collector
	// memTable is the size of the embedded store's memtables in bytes; 0 on a cluster.
	memTable int64
	// backups takes the store's backups; nil if they are TiDB's.
	backups *backup.Taker
	// endAnalyses gives up the requests that make statistics.
	endAnalyses func()
	close       func() error
}

// openStore opens the store that the configuration names.
func openStore(ctx context.Context, cfg config.Config, node NodeOptions, budget memory.Budget, globals *config.Globals) (*store, error) {
	log := node.Log.Logger
	switch cfg.Store {
	case config.StorePebble:
		return openEmbedded(ctx, cfg, node, budget, log)
	case config.StoreTiKV:
		node.Stage("connecting to the cluster of " + cfg.Path)
		return openCluster(ctx, cfg, node.Port, globals, log)
	}
	return nil, fmt.Errorf("store %q is not known", cfg.Store)
}

func openEmbedded(ctx context.Context, cfg config.Config, node NodeOptions, budget memory.Budget, log *zap.Logger) (*store, error) {
	opts := embeddedOptions(cfg, budget, tidb.GetGlobalConfig().Performance.TxnTotalSizeLimit, log)
	opts.Pebble.Stage = node.Stage
	s, err := embedded.Open(cfg.Path, opts)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	if err := checkBootstrap(ctx, s.Storage(), cfg.Path); err != nil {
		return nil, errors.Join(fmt.Errorf("path: %w", err), s.Close())
	}
	return &store{
		storage: s.Storage(), builds: s.Builds(), memTable: opts.Pebble.MemTableBytes, id: s.ID(), healthy: s.Healthy,
		collectors: []prometheus.Collector{newStoreCollector(s.Builds())}, backups: backup.NewTaker(s, node.Version, log), endAnalyses: s.EndAnalyses, close: s.Close,
	}, nil
}

// embeddedOptions are those of the embedded store under a limit of TiDB's for the size of transactions. TiDB enforces it, so the
// store's own limit must not be lower. TiDB's default is no limit; then the store's own applies.
func embeddedOptions(cfg config.Config, budget memory.Budget, txnTotalSizeLimit uint64, log *zap.Logger) embedded.Options {
	opts := embedded.Options{
		Pebble: pebblekv.Options{
			DisableSync:     !cfg.Pebble.Sync,
			CacheBytes:      cmp.Or(int64(cfg.Pebble.CacheSize), budget.BlockCache),
			MemTableBytes:   budget.MemTable,
			AllowDamagedLog: cfg.Pebble.AllowDamagedLog,
			Logger:          log.Named("pebble"),
		},
		Logger: log,
	}
	opts.Txn.LockMemory = budget.Locks()
	opts.AnswerMemory = budget.Answers()
	opts.EnsureDefaults()
	if txnTotalSizeLimit != tidb.DefTxnTotalSizeLimit {
		opts.Txn.TxnSizeLimit = max(opts.Txn.TxnSizeLimit, int(txnTotalSizeLimit))
	}
	return opts
}

// openCluster connects to TiKV and PD by TiDB's own driver, which tries again for
// as long as they cannot be reached.
func openCluster(ctx context.Context, cfg config.Config, port int, globals *config.Globals, log *zap.Logger) (*store, error) {
	if err := checkAdvertised(cfg); err != nil {
		return nil, err
	}
	type result struct {
		storage tidbkv.Storage
		err     error
	}
	opened := make(chan result, 1)
	go func() {
		storage, err := driver.TiKVDriver{}.Open(cfg.Store + "://" + cfg.Path)
		opened <- result{storage, err}
	}()
	var r result
	select {
	case r = <-opened:
	case <-ctx.Done(): // the process is to end
		return nil, fmt.Errorf("path: connecting to %s: %w", cfg.Path, context.Cause(ctx))
	}
	if r.err != nil {
		return nil, fmt.Errorf("path: %w", r.err)
	}
	if err := checkCluster(ctx, r.storage, log); err != nil {
		return nil, errors.Join(err, r.storage.Close())
	}
	builds, err := openBuilds(ctx, r.storage, globals, log)
	if err != nil {
		return nil, errors.Join(err, r.storage.Close())
	}
	return &store{
		storage: r.storage, builds: builds, id: cfg.Store + "-" + strconv.Itoa(port), node: nodeName(cfg, port),
		healthy: func() error { return nil }, endAnalyses: func() {}, close: func() error { return errors.Join(builds.Close(), r.storage.Close()) },
	}, nil
}

// nodeName is the name of this node for the other nodes and their users.
func nodeName(cfg config.Config, port int) string {
	return net.JoinHostPort(cmp.Or(cfg.AdvertiseAddress, cfg.Host), strconv.Itoa(port))
}

// checkAdvertised refuses an address that is every machine's own, unless PD is on this
// one. TiDB takes servers with the same address and port for lives of one server, and a
// change of the schema then does not wait for all of them.
func checkAdvertised(cfg config.Config) error {
	if !isOwn(cfg.AdvertiseAddress) {
		return nil
	}
	servers, _, err := splitPath(cfg.Path)
	if err != nil {
		return err
	}
	for _, addr := range strings.Split(servers, ",") {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr // without a port
		}
		if !isOwn(host) {
			return fmt.Errorf("advertise-address %s does not tell this server from others: set it to the address of this machine in the network of %s",
				cfg.AdvertiseAddress, addr)
		}
	}
	return nil
}

// splitPath takes the path of a cluster apart: the servers of PD, and the keyspace if one is named. A folder, as
// the embedded store has one, is none.
func splitPath(path string) (servers, keyspace string, err error) {
	servers, query, _ := strings.Cut(path, "?")
	for _, addr := range strings.Split(servers, ",") {
		if addr == "" || strings.Contains(addr, "/") {
			return "", "", fmt.Errorf("path: %q is not the address of a PD, as pd1:2379 is", addr)
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", "", fmt.Errorf("path: %w", err)
	}
	return servers, values.Get("keyspaceName"), nil
}

// isOwn reports whether a host is, to each machine, itself.
func isOwn(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// lockTempDir takes the folder for temporary files of the store with the given
// id. It makes sure that it can be written: better now than in the middle of a
// job.
func lockTempDir(dir, id string) (*dirlock.Lock, error) {
	lock, err := dirlock.SubFolder(dir, id)
	if err != nil {
		return nil, fmt.Errorf("temp-dir: %w", err)
	}
	probe, err := os.CreateTemp(lock.Dir(), "probe-")
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("temp-dir: %w", err), lock.Release())
	}
	return lock, nil
}

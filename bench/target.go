package bench

import (
	"errors"
	"fmt"
	"path/filepath"

	"fastddl/config"
)

// Target says what a [Server] runs on.
type Target struct {
	// Store is the storage driver, config.StorePebble or config.StoreTiKV; default is the
	// first, whose store is the server's own.
	Store string
	// Path names the PD servers of a cluster, as in config.Config. An embedded store has
	// none.
	Path string
	// AdvertiseAddress is this machine's for the other servers of a cluster. It is needed
	// if PD runs on another machine.
	AdvertiseAddress string
	// ConfigFile is the configuration of the cluster's servers, as they are started with. The
	// server takes its section [tidb], which says how to reach the cluster: TLS, the keyspace,
	// the clients of PD and TiKV. Empty for TiDB's defaults.
	ConfigFile string
	// Password is that of root in the cluster.
	Password string
}

// EnsureDefaults fills in what is not set.
func (t *Target) EnsureDefaults() {
	if t.Store == "" {
		t.Store = config.StorePebble
	}
}

// Validate lists every problem at once.
func (t *Target) Validate() error {
	switch t.Store {
	case config.StorePebble:
		if t.Path != "" {
			return fmt.Errorf("path %s: only store %q has one", t.Path, config.StoreTiKV)
		}
		if t.ConfigFile != "" {
			return fmt.Errorf("config %s: only store %q has one", t.ConfigFile, config.StoreTiKV)
		}
	case config.StoreTiKV:
		if t.Path == "" {
			return errors.New("path is not set: name the PD servers, such as pd1:2379,pd2:2379")
		}
	default:
		return fmt.Errorf("store %q is not one of %s, %s", t.Store, config.StorePebble, config.StoreTiKV)
	}
	return nil
}

// Cluster says that the store is not the server's own.
func (t *Target) Cluster() bool { return t.Store == config.StoreTiKV }

// config is the configuration of a server with its files in dir; an embedded store is
// in store.
func (t *Target) config(dir, store string) (config.Config, error) {
	cfg := config.Default()
	if t.ConfigFile != "" {
		theirs, err := config.Load(t.ConfigFile)
		if err != nil {
			return config.Config{}, err
		}
		cfg.TiDB = theirs.TiDB
	}
	cfg.Store, cfg.Path, cfg.Port, cfg.Status.StatusPort = t.Store, store, 0, 0
	cfg.Log.SlowThreshold = 0
	if t.Cluster() {
		cfg.Path, cfg.AdvertiseAddress, cfg.TempDir = t.Path, t.AdvertiseAddress, dir
		cfg.Log.SlowQueryFile = filepath.Join(dir, "slow.log")
	}
	return cfg, nil
}

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/tidb/pkg/domain/infosync"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	tidbstore "github.com/pingcap/tidb/pkg/store"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// What a cluster must be. PD, TiKV and SQL servers of one cluster usually have one version.
// From the oldest on, TiDB can pause DDL jobs, which is how index builds keep it off their
// tables; the newest is the one that the SQL layer is built from, but for patches.
var (
	oldestVersion = version{7, 5}
	newestVersion = version{8, 5}
)

// checkTimeout bounds what is asked of a cluster at the start.
const checkTimeout = 30 * time.Second

// version is that of a part of a cluster, without its patch level.
type version struct{ major, minor int }

func (v version) String() string { return fmt.Sprintf("v%d.%d", v.major, v.minor) }

func (v version) less(o version) bool {
	return v.major < o.major || v.major == o.major && v.minor < o.minor
}

var versionText = regexp.MustCompile(`^v?(\d+)\.(\d+)\.\d+`)

// parseVersion reads what the parts of a cluster say of themselves: "v8.5.3", "8.5.3",
// "8.0.11-TiDB-v8.5.3-alpha".
func parseVersion(text string) (v version, ok bool) {
	if _, release, ok := strings.Cut(text, "-TiDB-"); ok {
		text = release
	}
	m := versionText.FindStringSubmatch(text)
	if m == nil {
		return version{}, false
	}
	v.major, _ = strconv.Atoi(m[1])
	v.minor, _ = strconv.Atoi(m[2])
	return v, true
}

// part is a process of a cluster.
type part struct {
	// kind is PD, TiKV or SQL server.
	kind, addr, version string
}

// checkVersions fails with everything that is too old or too new. A version that cannot
// be read, as builds for development have, is let pass; it is told of.
func checkVersions(parts []part, log *zap.Logger) error {
	var problems []error
	for _, p := range parts {
		v, ok := parseVersion(p.version)
		switch {
		case !ok:
			log.Warn("a part of the cluster does not say which version it is of", zap.String("part", p.kind), zap.String("address", p.addr),
				zap.String("version", p.version))
		case v.less(oldestVersion):
			problems = append(problems, fmt.Errorf("%s %s is of version %s: %s or later is needed", p.kind, p.addr, p.version, oldestVersion))
		case p.kind == kindSQL && newestVersion.less(v):
			problems = append(problems, fmt.Errorf("%s %s is of version %s: the cluster's metadata may be newer than this server, which is of %s",
				p.kind, p.addr, p.version, newestVersion))
		}
	}
	return errors.Join(problems...)
}

const (
	kindPD   = "PD"
	kindTiKV = "TiKV"
	kindSQL  = "SQL server"
)

// checkCluster refuses a cluster that this server cannot be a node of. It only reads.
func checkCluster(ctx context.Context, storage tidbkv.Storage, log *zap.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	cluster, ok := storage.(tikvStorage)
	if !ok {
		return fmt.Errorf("path: a %T is no TiKV cluster", storage)
	}
	pdVersion, err := cluster.GetPDHTTPClient().GetPDVersion(ctx)
	if err != nil {
		return fmt.Errorf("path: ask PD for its version: %w", err)
	}
	parts := []part{{kindPD, "at path", pdVersion}}
	stores, err := cluster.GetPDClient().GetAllStores(ctx)
	if err != nil {
		return fmt.Errorf("path: ask PD for the stores: %w", err)
	}
	for _, s := range stores {
		if s.State == metapb.StoreState_Up && !isTiFlash(s) {
			parts = append(parts, part{kindTiKV, s.Address, s.Version})
		}
	}
	servers, err := sqlServers(ctx, storage)
	if err != nil {
		return err
	}
	if err := checkVersions(append(parts, servers...), log); err != nil {
		return fmt.Errorf("path: this cluster is not one for index builds:\n%w", err)
	}
	return nil
}

// isTiFlash says that a store holds copies by columns, which index builds do not meet.
func isTiFlash(s *metapb.Store) bool {
	for _, l := range s.Labels {
		if l.Key == "engine" && strings.HasPrefix(l.Value, "tiflash") {
			return true
		}
	}
	return false
}

// sqlServers returns the SQL servers that have registered in etcd.
func sqlServers(ctx context.Context, storage tidbkv.Storage) (parts []part, err error) {
	cli, err := tidbstore.NewEtcdCli(storage)
	if err != nil {
		return nil, fmt.Errorf("path: connect to the etcd of PD: %w", err)
	}
	if cli == nil {
		return nil, nil
	}
	defer func() { err = errors.Join(err, cli.Close()) }()
	resp, err := cli.Get(ctx, infosync.ServerInformationPath+"/", clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("path: ask the etcd of PD for the SQL servers: %w", err)
	}
	for _, entry := range resp.Kvs {
		var info infosync.ServerInfo
		if err := json.Unmarshal(entry.Value, &info); err != nil {
			return nil, fmt.Errorf("path: what a SQL server says of itself in etcd: %w", err)
		}
		parts = append(parts, part{kindSQL, fmt.Sprintf("%s:%d", info.IP, info.Port), info.Version})
	}
	return parts, nil
}

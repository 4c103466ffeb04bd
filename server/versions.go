package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/metapb"
	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	"github.com/pingcap/tidb/pkg/domain/infosync"
	"github.com/pingcap/tidb/pkg/keyspace"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	tidbstore "github.com/pingcap/tidb/pkg/store"
	"github.com/pingcap/tidb/pkg/util/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"fastddl/internal/release"
)

// What a cluster must be. PD, TiKV and SQL servers of one cluster usually have one version.
// From the oldest on, TiDB can pause DDL jobs, which is how index builds keep it off their
// tables; the newest is the one that the SQL layer is built from, but for patches.
var (
	oldestVersion = release.Version{Major: 7, Minor: 5}
	newestVersion = release.Version{Major: 8, Minor: 5}
)

// checkTimeout bounds what is asked of a cluster at the start.
const checkTimeout = 30 * time.Second

// doubtfulTiKV are releases of TiKV that take files without holding writes up, by which the
// sequence number of RocksDB can go back (tikv/tikv#19891): TiDB's fast reorganisation meets
// that as well. Later builds of some say the same version.
var doubtfulTiKV = regexp.MustCompile(`^v?8\.5\.[3-7]\b`)

// part is a process of a cluster.
type part struct {
	// kind is PD, TiKV or SQL server.
	kind, addr, version string
}

// checkVersions fails with all parts that are too old or too new. A version that cannot
// be parsed, as builds for development have, is accepted and logged.
func checkVersions(parts []part, log *zap.Logger) error {
	var problems []error
	for _, p := range parts {
		v, ok := release.Parse(p.version)
		switch {
		case !ok:
			log.Warn("a part of the cluster does not say which version it is of", zap.String("part", p.kind), zap.String("address", p.addr),
				zap.String("version", p.version))
		case v.Less(oldestVersion):
			problems = append(problems, fmt.Errorf("%s %s is of version %s: %s or later is needed", p.kind, p.addr, p.version, oldestVersion))
		case p.kind == kindSQL && newestVersion.Less(v):
			problems = append(problems, fmt.Errorf("%s %s is of version %s: the cluster's metadata may be newer than this server, which is of %s",
				p.kind, p.addr, p.version, newestVersion))
		case p.kind == kindTiKV && doubtfulTiKV.MatchString(p.version):
			log.Warn("a store is of a release that may lose writes while it takes imported files, unless it has the fix of tikv/tikv#19891",
				zap.String("address", p.addr), zap.String("version", p.version))
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
	if err := checkKeyspace(cluster.GetCodec().GetKeyspaceMeta()); err != nil {
		return err
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

// checkKeyspace refuses a keyspace that is not in use: its data may be being deleted. The driver takes any that there is.
func checkKeyspace(meta *keyspacepb.KeyspaceMeta) error {
	if meta == nil || meta.State == keyspacepb.KeyspaceState_ENABLED {
		return nil
	}
	return fmt.Errorf("path: keyspace %q is not enabled: PD says %s", meta.Name, meta.State)
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

// keyspaces is before the namespaces of keyspaces in etcd (tidbKeyspaceEtcdPathPrefix of
// TiDB's package keyspace).
const keyspaces = "/keyspaces/tidb/"

// checkOwner refuses a keyspace beside servers of another one. Servers of this release elect
// one DDL owner for all keyspaces of a PD (ddl.StartOwnerManager takes no namespace), and who
// is not of the owner's keyspace would wait for an owner for ever. Servers of later releases,
// which elect one for each keyspace, are no candidates here.
func checkOwner(ctx context.Context, cli *clientv3.Client, namespace string) error {
	failed := func(err error) error { return fmt.Errorf("path: ask the etcd of PD for the DDL owner: %w", err) }
	resp, err := cli.Get(ctx, tidbddl.DDLOwnerKey+"/", clientv3.WithPrefix())
	if err != nil {
		return failed(err)
	}
	candidates := make(map[string]bool)
	for _, entry := range resp.Kvs {
		id, _, _ := strings.Cut(string(entry.Value), "_") // what follows is what the owner does
		candidates[id] = true
	}
	if len(candidates) == 0 {
		return nil
	}
	for _, prefix := range []string{keyspaces, infosync.ServerInformationPath + "/"} {
		resp, err := cli.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return failed(err)
		}
		for _, entry := range resp.Kvs {
			of, id, ok := strings.Cut(string(entry.Key), infosync.ServerInformationPath+"/")
			if ok && of != namespace && candidates[id] {
				return fmt.Errorf("path: a SQL server of %s runs over this PD, this one is of %s: servers of this release elect one DDL owner "+
					"for all keyspaces of a PD, so those of one keyspace only can run at a time", keyspaceOf(of), keyspaceOf(namespace))
			}
		}
	}
	return nil
}

// keyspaceOf names the keyspace of a namespace in etcd.
func keyspaceOf(namespace string) string {
	if id, ok := strings.CutPrefix(namespace, keyspaces); ok {
		return "keyspace " + id
	}
	return "no keyspace"
}

// sqlServers returns the SQL servers that have registered in etcd; it fails beside those of
// another keyspace.
func sqlServers(ctx context.Context, storage tidbkv.Storage) (parts []part, err error) {
	cli, err := tidbstore.NewEtcdCli(storage)
	if err != nil {
		return nil, fmt.Errorf("path: connect to the etcd of PD: %w", err)
	}
	if cli == nil {
		return nil, nil
	}
	defer func() { err = errors.Join(err, cli.Close()) }()
	namespace := keyspace.MakeKeyspaceEtcdNamespace(storage.GetCodec())
	if err := checkOwner(ctx, cli, namespace); err != nil {
		return nil, err
	}
	etcd.SetEtcdCliByNamespace(cli, namespace) // as the servers do
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

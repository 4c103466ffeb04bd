package server

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	tidb "github.com/pingcap/tidb/pkg/config"
	"github.com/pingcap/tidb/pkg/util/logutil"

	"fastddl/config"
)

const (
	// releaseVersion is the version of TiDB that the SQL layer is. Clients recognise
	// TiDB by it, and so do other servers of a cluster.
	releaseVersion = "v8.5.4"
	// mysqlVersion is the version of MySQL that TiDB says it is.
	mysqlVersion = "8.0.11"

	// statsLease is the interval at which statistics are reloaded, bindLease that of
	// bindings. A new plan may wait some seconds, and an idle server stays idle.
	statsLease = "10s"
	bindLease  = "10s"

	// maxConnections is the default for the number of clients.
	maxConnections = 16384
)

// Version is what SELECT VERSION() answers, unless [tidb] sets server-version.
func Version() string { return mysqlVersion + "-TiDB-" + releaseVersion }

// versionOf is the version that a server of a configuration reports. The configuration is left without a server-version of
// ours: with one TiDB takes all servers' versions in information_schema.cluster_info as they are, instead of that of TiDB.
func versionOf(t *tidb.Config) string {
	if t.ServerVersion != "" {
		return t.ServerVersion
	}
	return Version()
}

// tidbConfig is TiDB's configuration for a server whose listeners have the given
// ports.
func tidbConfig(cfg config.Config, version string, port, statusPort int) (*tidb.Config, error) {
	t := tidb.NewConfig()
	t.Host, t.Port, t.AdvertiseAddress = cfg.Host, uint(port), cfg.AdvertiseAddress
	t.Socket = strings.Replace(cfg.Socket, "{Port}", strconv.Itoa(port), 1) // as TiDB's own main program
	t.Store, t.Path = cfg.Store, cfg.Path
	t.TiDBReleaseVersion = releaseVersion
	t.VersionComment = "fastddl " + version + ", TiDB Server (Apache License 2.0) " + releaseVersion + ", MySQL 8.0 compatible"

	// A region of the embedded store is cut when it has grown, not for each table:
	// a transaction within one is the cheapest.
	t.SplitTable = cfg.Store == config.StoreTiKV
	t.EnableTelemetry = false
	t.Instance.MaxConnections = uint32(cfg.MaxConnections)
	if cfg.MaxConnections == 0 {
		t.Instance.MaxConnections = defaultMaxConnections()
	}

	t.Log.Level, t.Log.Format = cfg.Log.Level, cfg.Log.Format
	t.Log.SlowQueryFile = cfg.Log.SlowQueryFile
	t.Log.File = logFile(cfg.Log.File)
	t.Instance.SlowThreshold = uint64(cfg.Log.SlowThreshold)
	t.Instance.EnableSlowLog.Store(cfg.Log.SlowThreshold > 0)

	// The status server is ours, at the address that TiDB's would have.
	t.Status.ReportStatus = false
	t.Status.StatusHost, t.Status.StatusPort = cfg.Status.StatusHost, uint(statusPort)

	t.Security.SSLCA, t.Security.SSLCert, t.Security.SSLKey = cfg.Security.SSLCA, cfg.Security.SSLCert, cfg.Security.SSLKey
	t.Performance.StatsLease, t.Performance.BindInfoLease = statsLease, bindLease
	if err := cfg.ApplyTiDB(t); err != nil {
		return nil, err
	}
	if err := setKeyspace(cfg, t); err != nil {
		return nil, err
	}
	return t, nil
}

// setKeyspace sets TiDB's keyspace to the one that the path names. The driver takes it from the path; TiDB's own imports, of indexes
// and of IMPORT INTO, want it in the setting, and only servers in the path: they would fail, or write beside the keyspace.
func setKeyspace(cfg config.Config, t *tidb.Config) error {
	if cfg.Store != config.StoreTiKV {
		return nil
	}
	servers, keyspace, err := splitPath(cfg.Path)
	if err != nil {
		return err
	}
	if setting := t.KeyspaceName; setting != "" && setting != keyspace {
		return fmt.Errorf("tidb.keyspace-name is %q and path names %q: name the keyspace in path, as in pd1:2379?keyspaceName=%s",
			setting, keyspace, setting)
	}
	t.Path, t.KeyspaceName = servers, keyspace
	return nil
}

func logFile(f config.LogFile) logutil.FileLogConfig {
	file := logutil.NewFileLogConfig(uint(f.MaxSize))
	file.Filename, file.MaxDays, file.MaxBackups = f.Filename, f.MaxDays, f.MaxBackups
	return file
}

// defaultMaxConnections leaves half of the file descriptors to the store.
func defaultMaxConnections() uint32 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return maxConnections
	}
	return uint32(min(uint64(limit.Cur)/2, maxConnections))
}

// portOf is the port of a TCP listener, 0 without one.
func portOf(l net.Listener) int {
	if l == nil {
		return 0
	}
	return l.Addr().(*net.TCPAddr).Port
}

// addressOf is the address of a listener, empty without one.
func addressOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	tidb "github.com/pingcap/tidb/pkg/config"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fastddl.toml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestLoadReadsEverySetting(t *testing.T) {
	c, err := Load(writeFile(t, `
host = "0.0.0.0"
port = 0
path = "/data"
temp-dir = "/fast"
shutdown-timeout = "30s"
socket = "/run/s.sock"
advertise-address = "10.0.0.1"
store = "tikv"
memory-limit = 1073741824
max-connections = 99
[log]
level = "warn"
format = "json"
slow-threshold = 0
slow-query-file = "slow"
[log.file]
filename = "x.log"
max-size = 5
max-days = 2
max-backups = 3
[status]
report-status = false
status-host = "::1"
status-port = 1
enable-debug = true
allowed-hosts = ["db1.example"]
[security]
auto-tls = false
require-secure-transport = true
secure-file-priv = "/files"
[pebble]
sync = false
cache-size = "64MiB"
[tidb]
token-limit = 7
[tidb.performance]
stats-lease = "9s"
`))
	require.NoError(t, err)
	require.Equal(t, Config{
		Host: "0.0.0.0", Path: "/data", TempDir: "/fast", ShutdownTimeout: Duration(30 * time.Second),
		Socket: "/run/s.sock", AdvertiseAddress: "10.0.0.1", Store: StoreTiKV, MemoryLimit: 1 << 30, MaxConnections: 99,
		Log:      Log{Level: "warn", Format: "json", SlowQueryFile: "slow", File: LogFile{"x.log", 5, 2, 3}},
		Status:   Status{StatusHost: "::1", StatusPort: 1, EnableDebug: true, AllowedHosts: []string{"db1.example"}},
		Security: Security{RequireSecureTransport: true, SecureFilePriv: "/files"},
		Pebble:   Pebble{CacheSize: 64 << 20},
		TiDB:     map[string]any{"token-limit": int64(7), "performance": map[string]any{"stats-lease": "9s"}},
	}, c)
}

func TestDefaultsAreValidOncePathIsSet(t *testing.T) {
	c := Default()
	c.Path = "/data"
	c.EnsureDefaults()
	require.NoError(t, c.Validate())
	require.Equal(t, "127.0.0.1", c.Host)
	require.Equal(t, 4000, c.Port)
	require.Equal(t, 10080, c.Status.StatusPort)
	require.Equal(t, "127.0.0.1", c.Status.StatusHost)
	require.Equal(t, filepath.Join("/data", "tmp"), c.TempDir)
	require.True(t, c.Pebble.Sync)
	require.True(t, c.Status.ReportStatus)
	require.Equal(t, Duration(10*time.Second), c.ShutdownTimeout)
	require.Equal(t, "/data/slow.log", c.Log.SlowQueryFile)
	c.Log.File.Filename, c.Log.SlowQueryFile = "/var/log/fastddl.log", ""
	c.EnsureDefaults()
	require.Equal(t, "/var/log/slow.log", c.Log.SlowQueryFile)
}

// TestZeroIsNotUnset: a setting that was given as 0 is not replaced by its default.
func TestZeroIsNotUnset(t *testing.T) {
	c, err := Load(writeFile(t, "path = '/data'\nshutdown-timeout = '0s'"))
	require.NoError(t, err)
	c.EnsureDefaults()
	require.NoError(t, c.Validate())
	require.Zero(t, c.ShutdownTimeout)

	c, err = Load(writeFile(t, "path = '/data'\n[log.file]\nmax-size = 0"))
	require.NoError(t, err)
	c.EnsureDefaults()
	require.ErrorContains(t, c.Validate(), "log.file.max-size 0 is less than 1")
}

func TestLoadRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"unknown keys":          {"prt = 1\n[log]\nlvl = 'x'", "unknown settings: log.lvl, prt"},
		"wrong type":            {"port = 'many'", "incompatible types"},
		"bad size":              {"[pebble]\ncache-size = 'lots'", `"lots" is not a size`},
		"size too large":        {"memory-limit = '999999PiB'", "size 999999PiB is larger than 1EiB"},
		"size that overflows":   {"memory-limit = '99999999PiB'", "size 99999999PiB is larger than 1EiB"},
		"negative size":         {"memory-limit = -1", "size -1 is negative"},
		"duration without unit": {"shutdown-timeout = 10", `(last key "shutdown-timeout"): 10 is not a duration: give it a unit, such as "10s"`},
		"no duration":           {"shutdown-timeout = 'soon'", `"soon" is not a duration`},
		"no TOML":               {"port 4000", "expected"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(writeFile(t, tc.text))
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "fastddl.toml")
		})
	}
	_, err := Load("/does/not/exist.toml")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestValidateListsEveryProblem(t *testing.T) {
	c := Default()
	c.Port = 70000
	c.Log.Level = "loud"
	c.Log.Format = "xml"
	c.Security.SSLCert = "/no/such.pem"
	c.MemoryLimit = maxByteSize
	c.Pebble.CacheSize = maxByteSize
	c.MaxConnections = -1
	c.TiDB = map[string]any{"tokenlimit": 1, "port": 5, "log": map[string]any{"lvl": 1, "level": "debug"}}
	c.EnsureDefaults()
	err := c.Validate()
	for _, want := range []string{
		"path is not set", "port 70000 is not a port", `log.level "loud" is not one of`,
		`log.format "xml"`, "ssl-cert and ssl-key must be set together", "/no/such.pem",
		"memory-limit 1EiB is more than the", "pebble.cache-size 1EiB is more than half of the memory of",
		"max-connections -1", "tidb: unknown settings: log.lvl, tokenlimit", "tidb.port is set by port", "tidb.log.level is set by log.level",
	} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "\n")
}

func TestValidateStore(t *testing.T) {
	c := Default()
	c.Store, c.Path = "rocks", "/data"
	c.EnsureDefaults()
	require.ErrorContains(t, c.Validate(), `store "rocks" is not one of pebble, tikv`)

	c = Default()
	c.Store, c.Path = StoreTiKV, "pd:2379"
	c.EnsureDefaults()
	require.EqualError(t, c.Validate(), `configuration: temp-dir is not set: store "tikv" has no folder that it could be in`)
	c.TempDir = "/tmp/x"
	require.NoError(t, c.Validate())
}

func TestValidateMemory(t *testing.T) {
	c := Default()
	c.Path, c.MemoryLimit, c.Pebble.CacheSize = "/data", 1<<30, 600<<20
	c.EnsureDefaults()
	require.ErrorContains(t, c.Validate(), "pebble.cache-size 600MiB is more than half of the memory of 1GiB")
	c.MemoryLimit = 100 << 20
	require.ErrorContains(t, c.Validate(), "memory-limit 100MiB is less than")
	c.MemoryLimit, c.Pebble.CacheSize = 1<<30, 0
	require.NoError(t, c.Validate())
}

func TestSettingsOfTiDB(t *testing.T) {
	apply := func(section map[string]any) (*tidb.Config, error) {
		c := Default()
		c.Path, c.TiDB = "/data", section
		c.EnsureDefaults()
		dst := tidb.NewConfig()
		return dst, errors.Join(c.Validate(), c.ApplyTiDB(dst))
	}
	dst, err := apply(map[string]any{"token-limit": 7, "labels": map[string]any{"zone": "z"}, "performance": map[string]any{"stats-lease": "9s"}})
	require.NoError(t, err)
	require.EqualValues(t, 7, dst.TokenLimit)
	require.Equal(t, "9s", dst.Performance.StatsLease)
	unlimited, err := apply(map[string]any{"token-limit": 0})
	require.NoError(t, err)
	require.EqualValues(t, 1000, unlimited.TokenLimit)
	require.Equal(t, map[string]string{"zone": "z"}, dst.Labels)
	require.Empty(t, tidb.NewConfig().Labels, "TiDB's defaults stay as they are")

	_, err = apply(map[string]any{"token-limit": "many"})
	require.ErrorContains(t, err, "tidb: ")
	_, err = apply(map[string]any{"index-limit": 1})
	require.ErrorContains(t, err, "tidb: index-limit should be")

	// Settings count where earlier releases had them, unless they are where they belong too.
	dst, err = apply(map[string]any{
		"run-ddl": false, "log": map[string]any{"enable-slow-log": false, "record-plan-in-slow-log": 0},
		"performance": map[string]any{"force-priority": "LOW_PRIORITY"}, "plugin": map[string]any{"dir": "/there"},
		"instance": map[string]any{"plugin_dir": "/here"},
	})
	require.NoError(t, err)
	require.False(t, dst.Instance.TiDBEnableDDL.Load())
	require.False(t, dst.Instance.EnableSlowLog.Load())
	require.Zero(t, dst.Instance.RecordPlanInSlowLog)
	require.Equal(t, "LOW_PRIORITY", dst.Instance.ForcePriority)
	require.Equal(t, "/here", dst.Instance.PluginDir)

	_, err = apply(map[string]any{"performance": map[string]any{"txn-entry-size-limit": 121 << 20}})
	require.ErrorContains(t, err, "txn-entry-size-limit 126877696 is more than 125829120")
	_, err = apply(map[string]any{"status": map[string]any{"metrics-addr": "push:9091"}, "opentracing": map[string]any{"enable": true}})
	require.ErrorContains(t, err, "tidb.status.metrics-addr: metrics are not pushed")
	require.ErrorContains(t, err, "tidb.opentracing.enable: traces are not sent")
	for setting, value := range map[string]any{"cors": "*", "tidb-edition": "X", "disaggregated-tiflash": true} {
		_, err = apply(map[string]any{setting: value})
		require.ErrorContains(t, err, "tidb."+setting+": ")
	}
	_, err = apply(map[string]any{"log": map[string]any{"timeout": 3, "file": map[string]any{"compression": "gzip"}}})
	require.ErrorContains(t, err, "tidb.log.timeout: ")
	require.ErrorContains(t, err, "tidb.log.file.compression: ")
}

func TestValidateSamePort(t *testing.T) {
	c := Default()
	c.Path, c.Port = "/data", c.Status.StatusPort
	c.EnsureDefaults()
	require.ErrorContains(t, c.Validate(), "both 10080")
	c.Status.ReportStatus = false
	require.NoError(t, c.Validate())
	c.Status.ReportStatus, c.Port, c.Status.StatusPort = true, 0, 0
	require.NoError(t, c.Validate(), "two free ports differ")
}

func TestFlagsOverrideFile(t *testing.T) {
	file := writeFile(t, "port = 5000\nhost = '0.0.0.0'\npath = '/file'\n[log]\nlevel = 'error'")
	set := pflag.NewFlagSet("server", pflag.ContinueOnError)
	flags := BindFlags(set)
	require.NoError(t, set.Parse([]string{"--config", file, "-P", "0", "--path=/flag", "--report-status=false"}))
	c, err := flags.Load()
	require.NoError(t, err)
	require.Equal(t, 0, c.Port, "a flag set to zero counts")
	require.Equal(t, "/flag", c.Path)
	require.Equal(t, "0.0.0.0", c.Host, "the file beats a flag's default")
	require.Equal(t, "error", c.Log.Level)
	require.False(t, c.Status.ReportStatus)
	require.False(t, flags.PlainLog())
}

// TestPlainLogIsThatWithoutSettings: any setting of the log, of a flag or the file, is to be followed.
func TestPlainLogIsThatWithoutSettings(t *testing.T) {
	for _, tc := range []struct {
		file  string
		flag  string
		plain bool
	}{{"", "", true}, {"", "-Linfo", false}, {"", "--log-format=text", false}, {"", "--log-file=x", false}, {"level = 'info'", "", false}, {"file.filename = 'x'", "", false}, {"slow-threshold = 1", "", true}} {
		set := pflag.NewFlagSet("server", pflag.ContinueOnError)
		flags := BindFlags(set)
		args := []string{"--config", writeFile(t, "path = '/x'\n[log]\n"+tc.file)}
		if tc.flag != "" {
			args = append(args, tc.flag)
		}
		require.NoError(t, set.Parse(args))
		_, err := flags.Load()
		require.NoError(t, err)
		require.Equal(t, tc.plain, flags.PlainLog(), "%+v", tc)
	}
}

func TestEveryFlagHasAnEffect(t *testing.T) {
	set := pflag.NewFlagSet("server", pflag.ContinueOnError)
	flags := BindFlags(set)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" {
			require.Contains(t, flags.apply, f.Name)
		}
	})
}

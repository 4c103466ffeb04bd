package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fastddl.toml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
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
	require.Equal(t, 10*time.Second, c.ShutdownTimeout)
}

func TestLoadReadsEverySetting(t *testing.T) {
	c, err := Load(writeFile(t, `
host = "0.0.0.0"
port = 0
path = "/data"
temp-dir = "/fast"
shutdown-timeout = "30s"
[log]
level = "warn"
format = "json"
slow-threshold = 0
[log.file]
filename = "x.log"
max-size = 5
max-days = 2
max-backups = 3
[status]
report-status = false
status-host = "::1"
status-port = 1
[security]
require-secure-transport = true
[pebble]
sync = false
cache-size = "64MiB"
`))
	require.NoError(t, err)
	require.Equal(t, Config{
		Host: "0.0.0.0", Path: "/data", TempDir: "/fast", ShutdownTimeout: 30 * time.Second,
		Log:      Log{Level: "warn", Format: "json", File: LogFile{"x.log", 5, 2, 3}},
		Status:   Status{StatusHost: "::1", StatusPort: 1},
		Security: Security{RequireSecureTransport: true},
		Pebble:   Pebble{CacheSize: 64 << 20},
	}, c)
}

func TestLoadRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"unknown keys": {"prt = 1\n[log]\nlvl = 'x'", "unknown settings: log.lvl, prt"},
		"wrong type":   {"port = 'many'", "incompatible types"},
		"bad size":     {"[pebble]\ncache-size = 'lots'", `"lots" is not a size`},
		"no TOML":      {"port 4000", "expected"},
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
	c.EnsureDefaults()
	err := c.Validate()
	for _, want := range []string{
		"path is not set", "port 70000 is not a port", `log.level "loud" is not one of`,
		`log.format "xml"`, "ssl-cert and ssl-key must be set together", "/no/such.pem",
	} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "\n")
}

func TestValidateStore(t *testing.T) {
	for store, want := range map[string]string{
		StoreTiKV: "no TiKV driver",
		"rocks":   `store "rocks" is not known`,
	} {
		c := Default()
		c.Store, c.Path = store, "/data"
		c.EnsureDefaults()
		require.ErrorContains(t, c.Validate(), want)
	}
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

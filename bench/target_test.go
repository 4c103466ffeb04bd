package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/config"
)

func TestTargetConfig(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "server.toml")
	require.NoError(t, os.WriteFile(file, []byte("path = \"elsewhere:2379\"\nport = 4000\nkeyspace = 1\n"), 0o600))
	target := Target{Store: config.StoreTiKV, Path: "pd:2379", ConfigFile: file, AdvertiseAddress: "me"}
	require.NoError(t, target.Validate())
	_, err := target.config(dir, "")
	require.ErrorContains(t, err, "unknown settings: keyspace")

	require.NoError(t, os.WriteFile(file, []byte("path = \"elsewhere:2379\"\nport = 4000\n[tidb.security]\ncluster-ssl-ca = \"ca.pem\"\n"), 0o600))
	cfg, err := target.config(dir, "")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"security": map[string]any{"cluster-ssl-ca": "ca.pem"}}, cfg.TiDB)
	require.Equal(t, "pd:2379", cfg.Path, "it is a server of its own")
	require.Zero(t, cfg.Port)
	require.Equal(t, "me", cfg.AdvertiseAddress)

	target.ConfigFile = filepath.Join(dir, "missing.toml")
	_, err = target.config(dir, "")
	require.ErrorIs(t, err, os.ErrNotExist)

	require.ErrorContains(t, (&Target{Store: config.StorePebble, ConfigFile: file}).Validate(), "only store")
	require.ErrorContains(t, (&Target{Store: config.StorePebble, Path: "p"}).Validate(), "only store")
	require.ErrorContains(t, (&Target{Store: config.StoreTiKV}).Validate(), "name the PD servers")
	require.ErrorContains(t, (&Target{Store: "x"}).Validate(), "is not one of")
}

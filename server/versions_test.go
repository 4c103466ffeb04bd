package server

import (
	"testing"

	"github.com/pingcap/kvproto/pkg/metapb"
	tidb "github.com/pingcap/tidb/pkg/config"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fastddl/config"
	"fastddl/internal/release"
)

// Everything that is wrong with a cluster is said at once: what was found, where, and what
// is needed.
func TestCheckVersions(t *testing.T) {
	good := []part{
		{kindPD, "at path", "v8.5.0"}, {kindTiKV, "10.0.0.1:20160", "7.5.0"}, {kindSQL, "10.0.0.2:4000", Version()}, {kindTiKV, "10.0.0.4:20160", "v9.1.0"},
		{kindSQL, "10.0.0.3:4000", "a development build"},
	}
	require.NoError(t, checkVersions(good, zap.NewNop()))
	err := checkVersions(append(good,
		part{kindTiKV, "10.0.0.5:20160", "6.5.9"}, part{kindPD, "at path", "v7.1.5"}, part{kindSQL, "10.0.0.6:4000", "8.0.11-TiDB-v9.0.0"}), zap.NewNop())
	require.EqualError(t, err, "TiKV 10.0.0.5:20160 is of version 6.5.9: v7.5 or later is needed\n"+
		"PD at path is of version v7.1.5: v7.5 or later is needed\n"+
		"SQL server 10.0.0.6:4000 is of version 8.0.11-TiDB-v9.0.0: the cluster's metadata may be newer than this server, which is of v8.5")
	v, ok := release.Parse(Version())
	require.True(t, ok)
	require.Equal(t, newestVersion, v, "the SQL layer has another version: correct newestVersion")
}

// Stores of releases with a known fault are logged.
func TestDoubtfulStores(t *testing.T) {
	for version, want := range map[string]int{"8.5.2": 0, "8.5.3": 1, "v8.5.7": 1, "8.5.30": 0, "8.5.8": 0, "9.0.0": 0, "7.5.3": 0} {
		core, logged := observer.New(zap.WarnLevel)
		require.NoError(t, checkVersions([]part{{kindTiKV, "10.0.0.1:20160", version}, {kindPD, "at path", version}}, zap.New(core)))
		require.Equal(t, want, logged.Len(), version)
	}
}

func TestTiFlashIsNoTiKV(t *testing.T) {
	require.True(t, isTiFlash(&metapb.Store{Labels: []*metapb.StoreLabel{{Key: "zone", Value: "a"}, {Key: "engine", Value: "tiflash"}}}))
	require.False(t, isTiFlash(&metapb.Store{Labels: []*metapb.StoreLabel{{Key: "engine", Value: "tikv"}}}))
}

// keyspaceConfig is TiDB's configuration with a keyspace in the path and in the setting.
func keyspaceConfig(store, path, setting string) (*tidb.Config, error) {
	cfg := config.Default()
	cfg.Store, cfg.Path = store, path
	if setting != "" {
		cfg.TiDB = map[string]any{"keyspace-name": setting}
	}
	return tidbConfig(cfg, "v1", 4000, 10080)
}

func TestKeyspace(t *testing.T) {
	_, err := keyspaceConfig(config.StoreTiKV, "pd1:2379?keyspaceName=k", "k")
	require.NoError(t, err)
	_, err = keyspaceConfig(config.StoreTiKV, "pd1:2379?keyspaceName=k", "other")
	require.ErrorContains(t, err, `tidb.keyspace-name is "other" and path names "k"`)
	_, err = keyspaceConfig(config.StoreTiKV, "pd1:2379", "k")
	require.ErrorContains(t, err, "pd1:2379?keyspaceName=k")
	_, err = keyspaceConfig(config.StoreTiKV, "pd1:2379?keyspaceName=%k", "")
	require.ErrorContains(t, err, "path: ")
	for _, path := range []string{"./data", "/var/lib/fastddl", "http://pd1:2379", "pd1:2379,", ""} {
		_, err = keyspaceConfig(config.StoreTiKV, path, "")
		require.ErrorContains(t, err, "is not the address of a PD", path)
	}
}

// TestTiDBKnowsTheKeyspace: TiDB's own imports, of indexes and of IMPORT INTO, go by its configuration, and would write
// beside the keyspace (pkg/ddl/ingest/config.go, pkg/executor/importer/table_import.go).
func TestTiDBKnowsTheKeyspace(t *testing.T) {
	for path, want := range map[string][2]string{
		"pd1:2379,pd2:2379":                              {"pd1:2379,pd2:2379", ""},
		"pd1:2379,pd2:2379?keyspaceName=orders":          {"pd1:2379,pd2:2379", "orders"},
		"pd1:2379?disableGC=true&keyspaceName=o%20rders": {"pd1:2379", "o rders"},
	} {
		got, err := keyspaceConfig(config.StoreTiKV, path, "")
		require.NoError(t, err)
		require.Equal(t, want, [2]string{got.Path, got.KeyspaceName}, path)
	}
	const folder = "/data/what?keyspaceName=orders"
	got, err := keyspaceConfig(config.StorePebble, folder, "")
	require.NoError(t, err)
	require.Equal(t, folder, got.Path)
	require.Empty(t, got.KeyspaceName)
}

func TestNodeName(t *testing.T) {
	require.Equal(t, "10.0.0.1:4000", nodeName(config.Config{Host: "0.0.0.0", AdvertiseAddress: "10.0.0.1"}, 4000))
	require.Equal(t, "[::1]:4000", nodeName(config.Config{Host: "::1"}, 4000))
}

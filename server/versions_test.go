package server

import (
	"testing"

	"github.com/pingcap/kvproto/pkg/metapb"
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

// Stores of releases with a known fault are told of.
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

func TestKeyspace(t *testing.T) {
	require.NoError(t, checkKeyspace(config.Config{Path: "pd1:2379,pd2:2379"}, ""))
	require.NoError(t, checkKeyspace(config.Config{Path: "pd1:2379?keyspaceName=k"}, ""))
	require.NoError(t, checkKeyspace(config.Config{Path: "pd1:2379?keyspaceName=k"}, "k"))
	require.ErrorContains(t, checkKeyspace(config.Config{Path: "pd1:2379?keyspaceName=k"}, "other"), `tidb.keyspace-name is "other" and path names "k"`)
	require.ErrorContains(t, checkKeyspace(config.Config{Path: "pd1:2379"}, "k"), "pd1:2379?keyspaceName=k")
}

func TestNodeName(t *testing.T) {
	require.Equal(t, "10.0.0.1:4000", nodeName(config.Config{Host: "0.0.0.0", AdvertiseAddress: "10.0.0.1"}, 4000))
	require.Equal(t, "[::1]:4000", nodeName(config.Config{Host: "::1"}, 4000))
}

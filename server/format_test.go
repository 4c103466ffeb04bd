package server

import (
	"context"
	"testing"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
	"fastddl/kv/embedded"
)

// A store whose system tables a later TiDB has made is refused in words.
func TestStoreOfALaterTiDBIsRefused(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := start(t, cfg)
	var version int64
	require.NoError(t, connect(t, s).QueryRow("SELECT variable_value FROM mysql.tidb WHERE variable_name = 'tidb_server_version'").Scan(&version))
	require.EqualValues(t, bootstrapVersion, version)
	shutdown(t, s)
	setBootstrapVersion(t, cfg.Path, bootstrapVersion+1)
	_, err := Start(t.Context(), Options{Config: cfg})
	require.ErrorIs(t, err, kv.ErrFormat)
	require.ErrorContains(t, err, "a later version of fastddl: system tables of version 221, this version knows up to 220")
	setBootstrapVersion(t, cfg.Path, bootstrapVersion)
	start(t, cfg)
}

func setBootstrapVersion(t *testing.T, path string, version int64) {
	t.Helper()
	s, err := embedded.Open(path, embedded.Options{})
	require.NoError(t, err)
	ctx := tidbkv.WithInternalSourceType(t.Context(), tidbkv.InternalTxnBootstrap)
	require.NoError(t, tidbkv.RunInNewTxn(ctx, s.Storage(), false, func(_ context.Context, txn tidbkv.Transaction) error {
		return meta.NewMutator(txn).FinishBootstrap(version)
	}))
	require.NoError(t, s.Close())
}

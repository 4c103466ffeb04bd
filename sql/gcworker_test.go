package sql_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/domain/infosync"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/tikv"
)

// TestGarbageCollectionBegins: TiDB's garbage collection, which waits for the statistics,
// begins by itself.
func TestGarbageCollectionBegins(t *testing.T) {
	c := newEnv(t).client()
	require.Eventually(t, func() bool {
		return c.one("SELECT COUNT(*) FROM mysql.tidb WHERE variable_name = 'tikv_gc_leader_uuid'") == "1"
	}, hangTimeout, 10*time.Millisecond)
}

// TestGarbageCollectionSparesReaders: what an open transaction, or a statement, may read stays,
// however long ago it began.
func TestGarbageCollectionSparesReaders(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("BEGIN")
	started, err := strconv.ParseUint(c.one("SELECT @@tidb_current_ts"), 10, 64)
	require.NoError(t, err)
	storage := e.store.Storage().(interface{ GetSafePointKV() tikv.SafePointKV })
	oldest := func() uint64 {
		e.Domain().InfoSyncer().ReportMinStartTS(e.store.Storage()) // as twice a minute
		reported, err := storage.GetSafePointKV().GetWithPrefix(infosync.ServerMinStartTSPath)
		require.NoError(t, err)
		require.Len(t, reported, 1)
		ts, err := strconv.ParseUint(string(reported[0].Value), 10, 64)
		require.NoError(t, err)
		return ts
	}
	require.LessOrEqual(t, oldest(), started)
	require.Less(t, oracle.GetTimeFromTS(started).Sub(oracle.GetTimeFromTS(oldest())), time.Hour)
}

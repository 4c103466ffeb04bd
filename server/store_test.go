package server

import (
	"testing"

	tidb "github.com/pingcap/tidb/pkg/config"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fastddl/config"
	"fastddl/internal/memory"
)

// TestAdvertised: servers of a cluster of several machines must have addresses of their
// own.
func TestAdvertised(t *testing.T) {
	for _, c := range []struct {
		advertise, path string
		refused         bool
	}{
		{"127.0.0.1", "127.0.0.1:2379", false},
		{"127.0.0.1", "localhost:2379,[::1]:2380?disableGC=true", false},
		{"10.0.0.1", "pd1:2379,pd2:2379", false},
		{"db1", "10.0.0.7:2379", false},
		{"127.0.0.1", "pd1:2379", true},
		{"127.0.0.1", "127.0.0.1:2379,10.0.0.7:2379", true},
		{"localhost", "10.0.0.7", true},
		{"0.0.0.0", "10.0.0.7:2379", true},
		{"::", "pd1:2379?keyspaceName=k", true},
	} {
		err := checkAdvertised(config.Config{AdvertiseAddress: c.advertise, Path: c.path})
		if c.refused {
			require.ErrorContains(t, err, "advertise-address "+c.advertise, "%+v", c)
		} else {
			require.NoError(t, err, "%+v", c)
		}
	}
}

// TestLockMemoryOfTheStore: locks have a part of the memory.
func TestLockMemoryOfTheStore(t *testing.T) {
	budget := memory.Divide(2 << 30)
	require.Equal(t, budget.Locks(), embeddedOptions(config.Config{}, budget, 0, zap.NewNop()).Txn.LockMemory)
}

// TestTxnSizeLimitOfTheStore: the store takes the transactions that txn-total-size-limit allows.
func TestTxnSizeLimitOfTheStore(t *testing.T) {
	limit := func(configured uint64) int {
		return embeddedOptions(config.Config{}, memory.Divide(0), configured, zap.NewNop()).Txn.TxnSizeLimit
	}
	require.Equal(t, 1<<30, limit(tidb.DefTxnTotalSizeLimit), "TiDB has no limit then")
	require.Equal(t, 1<<30, limit(10<<20), "TiDB keeps to it")
	require.Equal(t, 3<<30, limit(3<<30))
}

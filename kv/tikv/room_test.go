package tikv

import (
	"testing"

	"github.com/pingcap/kvproto/pkg/metapb"
	pdhttp "github.com/tikv/pd/client/http"

	"github.com/stretchr/testify/require"
)

// The room of a cluster is that of its stores of TiKV that are up, less a tenth of each; keys have as many copies as PD says, but no more
// than there are stores.
func TestRoomOfStores(t *testing.T) {
	store := func(state metapb.StoreState, capacity, available, engine string) pdhttp.StoreInfo {
		s := pdhttp.StoreInfo{Store: pdhttp.MetaStore{State: int64(state)}, Status: pdhttp.StoreStatus{Capacity: capacity, Available: available}}
		if engine != "" {
			s.Store.Labels = []pdhttp.StoreLabel{{Key: engineLabel, Value: engine}}
		}
		return s
	}
	room := roomOf([]pdhttp.StoreInfo{
		store(metapb.StoreState_Up, "100MiB", "60MiB", ""), store(metapb.StoreState_Up, "100MiB", "5MiB", "tikv"),
		store(metapb.StoreState_Up, "100MiB", "90MiB", "tiflash"), store(metapb.StoreState_Offline, "100MiB", "90MiB", ""),
		store(metapb.StoreState_Up, "", "", ""),
	})
	require.Equal(t, 2, room.Stores)
	require.InDelta(t, 50<<20, room.Available, 1<<10)
	require.Zero(t, room.Least, "one has nothing left")
	require.Equal(t, 3, replicas(map[string]any{maxReplicas: 5.0}, 3))
	require.Equal(t, 1, replicas(map[string]any{maxReplicas: 1.0}, 3))
	require.Equal(t, 3, replicas(nil, 9))
}

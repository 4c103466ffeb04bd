package tikv

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/docker/go-units"
	"github.com/pingcap/kvproto/pkg/metapb"
	pdhttp "github.com/tikv/pd/client/http"

	"fastddl/kv"
)

const (
	// roomTimeout bounds the wait for PD's answer.
	roomTimeout = time.Second
	// keptPercent is how much of a store's disk imports leave free, as TiDB's own do.
	keptPercent = 10
	// defaultReplicas is PD's own default of max-replicas.
	defaultReplicas = 3
	maxReplicas     = "max-replicas"
	engineLabel     = "engine"
)

// Room implements kv.RoomReporter, as PD reports the stores of TiKV.
func (s *Store) Room(ctx context.Context) (kv.Room, bool, error) {
	if err := s.enter(ctx); err != nil {
		return kv.Room{}, false, err
	}
	defer s.exit()
	client := s.cluster.GetPDHTTPClient()
	if client == nil {
		return kv.Room{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()
	stores, err := client.GetStores(ctx)
	if err != nil {
		return kv.Room{}, false, fmt.Errorf("tikv: room of the stores: %w", err)
	}
	replication, err := client.GetReplicateConfig(ctx)
	if err != nil {
		return kv.Room{}, false, fmt.Errorf("tikv: number of replicas: %w", err)
	}
	room := roomOf(stores.Stores)
	room.Replicas = replicas(replication, room.Stores)
	return room, room.Stores > 0, nil
}

// roomOf adds up the room of stores of TiKV that are up. One that has not reported a capacity is left out.
func roomOf(stores []pdhttp.StoreInfo) kv.Room {
	room := kv.Room{Least: math.MaxUint64}
	for i := range stores {
		st := &stores[i]
		if st.Store.State != int64(metapb.StoreState_Up) || isTiFlash(st) {
			continue
		}
		capacity, err := units.RAMInBytes(st.Status.Capacity)
		if err != nil || capacity <= 0 {
			continue
		}
		available, err := units.RAMInBytes(st.Status.Available)
		if err != nil {
			continue
		}
		free := uint64(max(0, available-capacity/100*keptPercent))
		room.Stores++
		room.Available += free
		room.Least = min(room.Least, free)
	}
	return room
}

func isTiFlash(st *pdhttp.StoreInfo) bool {
	for _, label := range st.Store.Labels {
		if label.Key == engineLabel && label.Value != "tikv" {
			return true
		}
	}
	return false
}

// replicas is of how many stores each key has a copy.
func replicas(config map[string]any, stores int) int {
	n := defaultReplicas
	if configured, ok := config[maxReplicas].(float64); ok && configured >= 1 {
		n = int(configured)
	}
	return max(1, min(n, stores))
}

package sstimport

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/docker/go-units"
	pdhttp "github.com/tikv/pd/client/http"
	"go.uber.org/zap"

	"fastddl/internal/release"
	"fastddl/kv"
)

const (
	// leastRoomPercent is how much of a store's disk must be free, as for TiDB's own imports
	// (pkg/lightning/backend/local/local.go of TiDB).
	leastRoomPercent = 10
	// roomInterval is how long an answer of PD's holds: stores report to it as often.
	roomInterval = 10 * time.Second
	// roomTimeout bounds a request for the room of a store.
	roomTimeout = 5 * time.Second
)

// room is what is known of the room that a store has.
type room struct {
	mu              sync.Mutex
	refusesWhenFull bool      // the store refuses files itself when it has little
	asked           time.Time // when PD was asked last
	full            error     // what came of it
}

// firstRefusing is the first version of TiKV that refuses what it is sent when its disk is
// nearly full. Those before do so when a file is to be taken, which stays where it is then.
var firstRefusing = release.Version{Major: 8}

// checkRoom fails with kv.ErrDiskFull if a store has little room and would not refuse files. If PD
// does not report it, the store is taken to have room.
func (s *stores) checkRoom(ctx context.Context, st *store) error {
	if s.opts.Rooms == nil {
		return nil
	}
	st.room.mu.Lock()
	defer st.room.mu.Unlock()
	now := s.now()
	if st.room.refusesWhenFull || !st.room.asked.IsZero() && now.Sub(st.room.asked) < roomInterval {
		return st.room.full
	}
	asking, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()
	info, err := s.opts.Rooms.GetStore(asking, st.id)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	st.room.asked, st.room.full = now, nil
	if err != nil {
		s.warnRooms.Do(func() { s.opts.Logger.Warn("PD does not say how much room stores have", zap.Error(err)) })
		return nil
	}
	version, known := release.Parse(info.Store.Version)
	switch {
	case !known: // a build for development is taken to have room
	case version.Less(firstRefusing):
		st.room.full = shortOfRoom(info.Status)
	default:
		st.room.refusesWhenFull = true
	}
	return st.room.full
}

// shortOfRoom is the error of a store with little room, nil if it has enough or if that is not
// known: PD has no numbers until the store has reported.
func shortOfRoom(status pdhttp.StoreStatus) error {
	capacity, err := units.RAMInBytes(status.Capacity)
	if err != nil || capacity <= 0 {
		return nil
	}
	available, err := units.RAMInBytes(status.Available)
	if err != nil || available/leastRoomPercent >= capacity/100 {
		return nil
	}
	return fmt.Errorf("%w: %s of %s are free, imports need %d%%", kv.ErrDiskFull, status.Available, status.Capacity, leastRoomPercent)
}

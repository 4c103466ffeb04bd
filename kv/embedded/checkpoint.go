package embedded

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fastddl/internal/errs"
	"fastddl/kv/embedded/placement"
	"fastddl/kv/pebblekv"
)

const (
	// holdOfCheckpoint names the hold of garbage collection for a checkpoint.
	holdOfCheckpoint = "fastddl-checkpoint"
	// holdTTL is how long it lasts if it is not released. Linking the files takes seconds.
	holdTTL = time.Hour
)

// Checkpoint makes a checkpoint of the store's files, and returns it with a timestamp: it holds all transactions that have committed
// at or before the timestamp, and no other will commit so. Later ones may be in it, see Adopt. Statements, index builds
// and their commits go on meanwhile. The caller ends it by its Discard.
func (s *Store) Checkpoint(ctx context.Context) (c *pebblekv.Checkpoint, ts uint64, err error) {
	if ts, err = s.pebble.CurrentTS(ctx); err != nil {
		return nil, 0, err
	}
	// What readers at ts see must still be there when the files are linked. TiDB's garbage collection deletes
	// whole ranges, of dropped tables and indexes, as far as holds let it.
	hold, err := s.pebble.HoldGC(ctx, holdOfCheckpoint, ts, holdTTL)
	if err != nil {
		return nil, 0, fmt.Errorf("embedded: holding garbage collection for a checkpoint: %w", err)
	}
	defer func() {
		if err := hold.Release(context.WithoutCancel(ctx)); err != nil {
			s.log.Warn("garbage collection is held for a checkpoint that has ended, for an hour at most", zap.Error(err))
		}
	}()
	snapshot, err := s.builds.Snapshot(ctx, ts) // waits for the commits at or below ts
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errs.Combine(err, snapshot.Close()) }()
	c, err = s.pebble.Checkpoint(ctx)
	return c, ts, err
}

// Dir is the store's folder.
func (s *Store) Dir() string { return s.pebble.Dir() }

// Adopt makes a store of the files of a Checkpoint in the folder dir, as it was at the timestamp ts of the checkpoint, and returns its id. It is
// another store than that which the checkpoint is of, and another cluster for TiDB's tools. See pebblekv.Adopt.
func Adopt(dir string, ts uint64, log *zap.Logger) (id string, err error) {
	return pebblekv.Adopt(dir, ts, pebblekv.AdoptOptions{Forget: placement.IdentityRecords(), Logger: log})
}

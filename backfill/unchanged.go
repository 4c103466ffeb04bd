package backfill

import (
	"context"
	"errors"
	"fmt"

	"fastddl/kv"
)

// unchanged says that rows and indexes are what they were when they were verified. Whatever
// it cannot be sure of is a change: then everything is compared.
//
// A key without a version since has the value that it had, so two ranges without one are as
// equal as they were.
func (c *comparison) unchanged(ctx context.Context) (bool, error) {
	store, ok := c.opts.Store.(kv.ChangeFinder)
	if !ok || c.verifiedTS == 0 {
		return false, nil
	}
	changed, err := store.Changed(ctx, c.ranges(), c.verifiedTS, c.task.TS)
	switch {
	case errors.Is(err, kv.ErrSnapshotTooOld):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("backfill: compare: %w", err)
	}
	return !changed, nil
}

// ranges are those of the rows and of all indexes.
func (c *comparison) ranges() []kv.KeyRange {
	var ranges []kv.KeyRange
	for _, id := range c.physicals {
		ranges = append(ranges, recordRange(id))
	}
	for _, idx := range c.task.Indexes {
		for _, id := range indexIDs(c.task.Table, idx, c.physicals) {
			ranges = append(ranges, indexRange(id, idx.ID))
		}
	}
	return ranges
}

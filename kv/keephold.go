package kv

import (
	"context"
	"errors"
	"time"
)

// KeepHold renews a hold, which lasts for ttl, until ctx ends; then it returns nil. It fails with ErrSnapshotTooOld if the hold is lost.
// Any other failed attempt is given to failed, counted from 1 since the last that succeeded: there is time for two more before the hold
// ends.
func KeepHold(ctx context.Context, hold GCHold, ttl time.Duration, failed func(attempt int, err error)) error {
	tick := time.NewTicker(ttl / 3)
	defer tick.Stop()
	for attempt := 1; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := hold.Renew(ctx, ttl)
		switch {
		case err == nil:
			attempt = 1
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrSnapshotTooOld):
			return err
		default:
			failed(attempt, err)
			attempt++
		}
	}
}

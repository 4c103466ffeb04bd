// Package sleep waits, but not longer than a context lasts.
package sleep

import (
	"context"
	"time"
)

// For waits for d and reports whether it has: not if ctx ends before that, or has ended.
func For(ctx context.Context, d time.Duration) bool { return Unless(ctx, d, nil) }

// Wait is For, and returns the error of ctx if that has ended.
func Wait(ctx context.Context, d time.Duration) error {
	if !For(ctx, d) {
		return ctx.Err()
	}
	return nil
}

// Unless is For, but a receive from wake ends the wait too, and counts as having waited.
func Unless(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-wake:
	}
	return true
}

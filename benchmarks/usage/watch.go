package usage

import (
	"context"
	"time"
)

// watchEvery is often enough to see the memory of an index build of a second,
// and seldom enough not to disturb it.
const watchEvery = 50 * time.Millisecond

// Usage is what something took.
type Usage struct {
	CPU        time.Duration
	PeakMemory uint64 // bytes
}

// Measure calls fn and returns what the process and its descendants took
// meanwhile, besides fn's error.
func Measure(pid int, fn func() error) (Usage, error) {
	before, err := CPU(pid)
	if err != nil {
		return Usage{}, err
	}
	quit, peak := make(chan struct{}), make(chan uint64)
	go func() { peak <- watchMemory(pid, quit) }()
	err = fn()
	close(quit)
	u := Usage{PeakMemory: <-peak}
	if err != nil {
		return u, err
	}
	after, err := CPU(pid)
	u.CPU = after - before
	return u, err
}

// watchMemory returns the peak when quit is closed. A process that ends
// meanwhile makes fn fail, which is what the caller wants to hear of.
func watchMemory(pid int, quit <-chan struct{}) (peak uint64) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		if m, err := Memory(pid); err == nil {
			peak = max(peak, m)
		}
		select {
		case <-ticker.C:
		case <-quit:
			return peak
		}
	}
}

const (
	idleEvery = 500 * time.Millisecond
	// idleShare is the share of one core below which a server is idle, and
	// idleLooks how often in a row it must be.
	idleShare = 0.05
	idleLooks = 2
)

// WaitIdle waits until the process and its descendants have nothing to do, such
// as compactions and flushes after a load, but no longer than limit.
func WaitIdle(ctx context.Context, pid int, limit time.Duration) error {
	last, err := CPU(pid)
	if err != nil {
		return err
	}
	end := time.Now().Add(limit)
	for looks := 0; looks < idleLooks && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(idleEvery, time.Until(end))):
		}
		now, err := CPU(pid)
		if err != nil {
			return err
		}
		if (now - last).Seconds() < idleShare*idleEvery.Seconds() {
			looks++
		} else {
			looks = 0
		}
		last = now
	}
	return nil
}

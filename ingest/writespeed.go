package ingest

import (
	"context"
	"time"

	"fastddl/config"
	"fastddl/event"
	"fastddl/flow"
)

// ownSpeed names a job's own ceiling.
const ownSpeed = "max_write_speed"

// newThrottle returns what holds the job's writes to its limits.
func (s *Share) newThrottle() *flow.Throttle {
	return s.r.writes.NewThrottle(flow.ThrottleOptions{
		Limits: func() flow.WriteLimits {
			own := s.opts.Settings.Get()
			return flow.WriteLimits{BytesPerSecond: own.WriteSpeed, Weight: own.Weight}
		},
		Waited: func(waited time.Duration) {
			_, reason := s.WriteSpeed()
			s.opts.Bus.Emit(event.Throttled{Job: event.Job{ID: s.opts.JobID}, Reason: reason, For: waited})
		},
		Idle: s.setThrottled,
	})
}

// Wait implements lightning.Limiter: it blocks until n more bytes may be
// written, by the job's own ceiling and by its part of the node's speed.
func (s *Share) Wait(ctx context.Context, n int) error {
	return s.throttle.Wait(ctx, n, func(int) {})
}

func (s *Share) setThrottled(throttled bool) {
	s.r.mu.Lock()
	same := s.throttled == throttled
	s.throttled = throttled
	s.r.mu.Unlock()
	if !same {
		s.r.rebalance()
	}
}

// WriteSpeed returns what the job may write now in bytes per second, 0 without a
// limit, and the name of the limit: its own, or its part of the node's, which
// it divides with those that write now.
func (s *Share) WriteSpeed() (speed int64, limit string) {
	own, node := s.opts.Settings.Get().WriteSpeed, s.r.writes.Limit()
	if node == 0 {
		return own, ownSpeed
	}
	now := time.Now()
	weight := int64(0)
	s.r.mu.Lock()
	for _, other := range s.r.shares {
		if other == s || other.throttle.Active(now) || other.elsewhere != nil && other.elsewhere.use.Throttled {
			weight += other.weight()
		}
	}
	s.r.mu.Unlock()
	part := max(1, node/max(1, weight)*s.weight())
	if own > 0 && own < part {
		return own, ownSpeed
	}
	return part, config.ReorgMaxWriteSpeed
}

package flow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fastddl/flow"
	"fastddl/flow/flowtest"
)

// TestJobYieldsToForeground shows how a build uses the package: its worker calls Pace between
// batches, has the whole time while there is no foreground, and MinShare of it beside one that takes longer than its target.
func TestJobYieldsToForeground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		governor := flow.NewGovernor(func() bool { return true })
		foreground := new(flowtest.Foreground)
		governor.Observe(foreground, new(flow.StatementMeter))
		governor.Target(func() time.Duration { return 10 * time.Millisecond })

		reported := make(map[flow.Reason]time.Duration)
		job := governor.NewJob(flow.JobOptions{Yielded: func(reason flow.Reason, waited time.Duration) { reported[reason] += waited }})
		job.Begin()
		defer job.End()
		pacer := job.NewWallPacer(time.Sleep)
		const batch = time.Millisecond
		// work runs batches and returns the part of the time that they had.
		work := func(batches int) float64 {
			start := time.Now()
			for range batches {
				time.Sleep(batch)
				require.NoError(t, pacer.Pace(t.Context()))
			}
			return float64(batches) * batch.Seconds() / time.Since(start).Seconds()
		}

		require.Equal(t, 1.0, work(1000))
		require.Empty(t, job.YieldsTo(1))
		foreground.Hurt.Store(true)
		work(800) // the share falls within some intervals
		require.InDelta(t, flow.MinShare, work(300), 0.02)
		require.Equal(t, flow.TargetLatency, job.YieldsTo(1))
		foreground.Hurt.Store(false)
		time.Sleep(2 * flow.Interval)
		require.InDelta(t, 1, work(1000), 0.05, "less what was still to be made up for")

		job.End()
		require.Greater(t, reported[flow.TargetLatency], time.Second)
		require.Equal(t, flow.Full, governor.Decision())
	})
}

// TestThrottleHoldsItsSpeed: a job's writes keep to its own ceiling, and two jobs have their parts
// of the node's speed by weight.
func TestThrottleHoldsItsSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := flow.NewWriteQueue(func() int64 { return 1_000_000 })
		throttle := func(limits flow.WriteLimits) *flow.Throttle {
			th := queue.NewThrottle(flow.ThrottleOptions{
				Limits: func() flow.WriteLimits { return limits }, Waited: func(time.Duration) {}, Idle: func(bool) {},
			})
			t.Cleanup(th.Stop)
			return th
		}
		write := func(th *flow.Throttle, n int) (took time.Duration) {
			start := time.Now()
			assert.NoError(t, th.Wait(t.Context(), n, func(int) {}))
			return time.Since(start)
		}
		own := throttle(flow.WriteLimits{BytesPerSecond: 100_000, Weight: 1})
		require.InDelta(t, time.Second, write(own, 100_000), float64(2*flow.WriteSlice))

		light, heavy := throttle(flow.WriteLimits{Weight: 1}), throttle(flow.WriteLimits{Weight: 3})
		const slack = float64(8 * flow.WriteSlice) // the last round of four writes, and what the queue lets pass at once
		ended := make(chan time.Duration)
		go func() { ended <- write(heavy, 3_000_000) }()
		lightTook, heavyTook := write(light, 1_000_000), <-ended
		require.InDelta(t, 4*time.Second, lightTook, slack)
		require.InDelta(t, 4*time.Second, heavyTook, slack)
	})
}

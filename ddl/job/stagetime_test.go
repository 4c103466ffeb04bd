package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// For all courses of a job, with rounds, pauses, restarts and builds that begin again at a checkpoint: the times of the stages
// add up to the time that has passed, and rows and bytes to what was done, repetitions included.
func TestStageTimesAddUp(t *testing.T) {
	rng := randtest.Rand(t)
	for range 300 {
		var c StageClock
		now := time.Unix(1000, 0)
		var passed, work float64
		var read, sorted, merged, imported int64
		pass := func() {
			d := time.Duration(rng.IntN(1000)) * time.Millisecond
			now = now.Add(d)
			passed += d.Seconds()
		}
		c.Enter(now, StageWait)
		r, before := Report{Total: 1 << 40}, int64(0)
		begin := func() {
			c.Enter(now, StageWait)
			pass()
			r = Report{Total: 1 << 40, Rows: before, RowsBefore: before, Imported: before}
		}
		begin()
		for range 50 {
			switch rng.IntN(8) {
			case 0: // stopped, begun again at the checkpoint
				begin()
			case 1:
				stages := c.Stages(now)
				c = StageClock{}
				c.Resume(stages)
				begin()
			case 2, 3:
				r.Stage, r.StageDone = StageMerge, 0
				c.Enter(now, StageMerge)
				c.Report(now, r)
				for r.StageDone < 1 {
					pass()
					r.StageDone = min(1, r.StageDone+rng.Float64())
					c.Report(now, r)
				}
				bytes := rng.Int64N(1000)
				c.Imported(bytes)
				imported += bytes
				merged += r.Rows - r.Imported
				before, r.Imported = r.Rows, r.Rows
			default:
				r.Stage, r.StageDone, r.Workers = StageScan, 0, 1+rng.IntN(4)
				c.Enter(now, StageScan)
				c.Report(now, r)
				for range rng.IntN(5) {
					rows, bytes := rng.Int64N(1000), rng.Int64N(9000)
					r.Rows += rows
					r.SortedBytes += bytes
					read, sorted = read+rows, sorted+bytes
					from := now
					pass()
					work += now.Sub(from).Seconds() * float64(r.Workers)
					c.Report(now, r)
				}
			}
		}
		var total float64
		of := make(map[string]StageTime)
		for _, s := range c.Stages(now) {
			require.NotContains(t, of, s.Stage)
			of[s.Stage] = s
			total += s.Seconds
		}
		require.InDelta(t, passed, total, 1e-6)
		require.Equal(t, read, of[StageScan].Rows)
		require.Equal(t, sorted, of[StageScan].Bytes)
		require.Equal(t, merged, of[StageMerge].Rows)
		require.Equal(t, imported, of[StageMerge].Bytes)
		require.InDelta(t, work, of[StageScan].WorkSeconds, 1e-6)
	}
}

// What workers have waited for is no work of theirs.
func TestHeldTimeIsNoWork(t *testing.T) {
	var c StageClock
	now := time.Unix(1000, 0)
	c.Enter(now, StageScan)
	c.Report(now, Report{Stage: StageScan, Workers: 2})
	now = now.Add(time.Second)
	c.Report(now, Report{Stage: StageScan, Workers: 2, Rows: 10})
	c.Held(1500 * time.Millisecond)
	require.Equal(t, []StageTime{{Stage: StageScan, Seconds: 1, WorkSeconds: 0.5, Rows: 10}}, c.Stages(now))
	c.Held(time.Minute)
	require.Zero(t, c.Stages(now)[0].WorkSeconds)
}

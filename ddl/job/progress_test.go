package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// For all reports of a backfill: rows and percent do not go back, and the
// remaining time grows only when it was wrong by far.
func TestProgressIsMonotonic(t *testing.T) {
	rng := randtest.Rand(t)
	stages := []string{"scan", "merge", "verify"}
	for range 200 {
		var p Progress
		now := time.Unix(1000, 0)
		r := Report{Stage: "scan"}
		var lastPercent float64
		var lastRows int64
		lastRemaining, known := time.Duration(0), false
		for range 100 {
			now = now.Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
			switch rng.IntN(10) {
			case 0:
				r.Rows = rng.Int64N(r.Rows + 1) // restarted at a checkpoint
				r.Imported = min(r.Imported, r.Rows)
			case 1:
				r.Stage = stages[rng.IntN(len(stages))]
				p.SetStage(now, r.Stage)
			default:
				r.Rows += rng.Int64N(100000)
				r.Imported += rng.Int64N(r.Rows - r.Imported + 1)
			}
			r.Total, r.StageDone = max(r.Rows, rng.Int64N(5000000)), rng.Float64()
			p.Set(now, r)
			require.GreaterOrEqual(t, p.Percent(), lastPercent)
			require.GreaterOrEqual(t, p.Rows(), lastRows)
			require.LessOrEqual(t, p.Percent(), 99.0)
			lastPercent, lastRows = p.Percent(), p.Rows()
			remaining, ok := p.Remaining(now)
			if ok && known && remaining > lastRemaining {
				require.Greater(t, remaining, farOffBy, "from %s", lastRemaining)
			}
			lastRemaining, known = remaining, ok
		}
	}
}

// progressRun is a backfill of rows at given rates.
type progressRun struct {
	p   Progress
	now time.Time
	r   Report
}

func newProgressRun(rows int64) *progressRun {
	return &progressRun{now: time.Unix(1000, 0), r: Report{Total: rows}}
}

func (run *progressRun) enter(stage string) {
	run.r.Stage, run.r.StageDone = stage, 0
	run.p.SetStage(run.now, stage)
	run.p.Set(run.now, run.r)
}

// pass lets time pass, with reports.
func (run *progressRun) pass(d time.Duration, step func(dt time.Duration)) {
	const interval = 200 * time.Millisecond
	for ; d > 0; d -= interval {
		run.now = run.now.Add(interval)
		step(interval)
		run.p.Set(run.now, run.r)
	}
}

func (run *progressRun) scan(d time.Duration, rate float64) {
	run.enter("scan")
	run.pass(d, func(dt time.Duration) { run.r.Rows += int64(rate * dt.Seconds()) })
}

// stage gets through the rows that stage is about at a rate.
func (run *progressRun) stage(d time.Duration, rows, rate float64) {
	run.pass(d, func(dt time.Duration) { run.r.StageDone = min(1, run.r.StageDone+rate/rows*dt.Seconds()) })
}

func (run *progressRun) requireRemaining(t *testing.T, seconds, delta float64) {
	t.Helper()
	remaining, ok := run.p.Remaining(run.now)
	require.True(t, ok)
	require.InDelta(t, seconds, remaining.Seconds(), delta)
}

func TestProgressEstimates(t *testing.T) {
	run := newProgressRun(1_000_000)
	_, ok := run.p.Remaining(run.now)
	require.False(t, ok)
	run.scan(4*time.Second, 100_000)
	require.InDelta(t, 100_000, run.p.RowsPerSecond(), 1000)
	require.InDelta(t, 0.4*45, run.p.Percent(), 0.5)
	// The rest is expected to take its usual part of the time.
	run.requireRemaining(t, 6+10*55.0/45, 0.5)

	run.scan(6*time.Second, 100_000)
	run.enter("merge")
	run.stage(3*time.Second, 1_000_000, 250_000)
	require.InDelta(t, 250_000, run.p.RowsPerSecond(), 1000)
	require.InDelta(t, 45+0.75*40, run.p.Percent(), 0.5)
	run.requireRemaining(t, 1+10*15.0/45, 0.5)

	run.stage(time.Second, 1_000_000, 250_000)
	run.r.Imported = run.r.Rows
	run.enter("verify")
	require.InDelta(t, 85, run.p.Percent(), 0.5)
	run.stage(time.Second, 1_000_000, 500_000)
	require.InDelta(t, 500_000, run.p.RowsPerSecond(), 1000)
	run.requireRemaining(t, 1, 0.3)
	run.p.Set(run.now.Add(time.Second), Report{Stage: "merge", Rows: 5_000_000, Total: 5_000_000})
	require.EqualValues(t, 1_000_000, run.p.Rows(), "a report of a stage that is over says nothing")
}

// A build that is throttled while it imports says how long that takes, and again
// when it is not throttled any more.
func TestProgressOfThrottledImport(t *testing.T) {
	run := newProgressRun(1_000_000)
	run.scan(2*time.Second, 500_000)
	run.enter("merge")
	run.stage(10*time.Second, 1_000_000, 10_000)
	run.requireRemaining(t, 90, 3)
	run.stage(10*time.Second, 1_000_000, 1_000)
	remaining, ok := run.p.Remaining(run.now)
	require.True(t, ok)
	require.Greater(t, remaining, 200*time.Second)
	run.stage(2*time.Second, 1_000_000, 400_000)
	run.requireRemaining(t, 1, 2)
}

// A build that imports in rounds, because the disk quota is small, is as far as
// its scan and its imports together, not at the share that the first import is
// begun at.
func TestProgressInRounds(t *testing.T) {
	run := newProgressRun(1_000_000)
	for round := range 10 {
		run.scan(time.Second, 100_000)
		require.InDelta(t, float64(round)*8.5+4.5, run.p.Percent(), 0.5)
		run.enter("merge")
		run.stage(time.Second, 100_000, 100_000)
		run.r.Imported = run.r.Rows
		require.InDelta(t, float64(round+1)*8.5, run.p.Percent(), 0.5)
		// Two seconds for each round, and the usual part for reading back.
		run.requireRemaining(t, float64(9-round)*2+10*15.0/45, 1.5)
	}
}

// After a pause the build goes on from its last checkpoint; the pause says
// nothing about its speed.
func TestProgressAfterPause(t *testing.T) {
	run := newProgressRun(1_000_000)
	run.scan(8*time.Second, 100_000)
	run.now = run.now.Add(time.Hour)
	run.r.Rows = 200_000
	run.scan(time.Second, 100_000)
	require.EqualValues(t, 800_000, run.p.Rows())
	require.InDelta(t, 0.8*45, run.p.Percent(), 0.5)
	require.InDelta(t, 100_000, run.p.RowsPerSecond(), 1000)
	run.requireRemaining(t, 7+10*55.0/45, 0.5)
}

// A build that stands still for a while, because all its workers write what they have
// sorted, say, will not take for ever, nor forty times as long.
func TestProgressDuringAStall(t *testing.T) {
	run := newProgressRun(20_000_000)
	run.scan(time.Minute, 100_000)
	run.pass(16*time.Second, func(time.Duration) {})
	require.Zero(t, run.p.RowsPerSecond())
	const remaining = 140 + 200*55.0/45
	run.requireRemaining(t, 1.5*remaining, 0.5*remaining) // not for ever
}

// What has become slow for good is slow, however fast it was for how long.
func TestProgressAfterALongFastBegin(t *testing.T) {
	run := newProgressRun(200_000_000)
	run.scan(20*time.Minute, 100_000)
	run.pass(70*time.Second, func(dt time.Duration) { run.r.Rows += int64(10_000 * dt.Seconds()) })
	require.InDelta(t, 10_000, run.p.RowsPerSecond(), 100)
	const remaining = 7930 + 20_000*55.0/45
	run.requireRemaining(t, 0.85*remaining, 0.2*remaining) // it grows when it was wrong by far
}

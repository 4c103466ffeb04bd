package job

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// For all courses, with restarts: there are never more than 200 points, they follow each other without gaps, and rows and
// bytes add up to what was done; what is written of them is what they are.
func TestPointsAddUp(t *testing.T) {
	rng := randtest.Rand(t)
	for range 100 {
		var p Points
		var h History
		h.Stages = []StageTime{{Stage: StageScan}, {Stage: StageMerge}}
		var at time.Duration
		var written []Point
		for range rng.IntN(3000) {
			at += time.Duration(rng.IntN(3000)) * time.Millisecond
			h.Stages[rng.IntN(2)].Rows += rng.Int64N(1000)
			h.Stages[rng.IntN(2)].Bytes += rng.Int64N(1000)
			p.Observe(at, StageScan, h)
			if rng.IntN(3) == 0 {
				points, all := p.Changed()
				if all {
					written = nil
				}
				written = append(written, points...)
				p.Written()
				require.Equal(t, p.points, append([]Point(nil), written...))
			}
			if rng.IntN(200) == 0 && len(written) == len(p.points) && len(written) > 0 {
				rows := h
				p = Points{}
				p.Resume(written, rows)
			}
			require.LessOrEqual(t, len(p.points), 200)
		}
		p.End(at+time.Duration(rng.IntN(3000))*time.Millisecond, StageScan, h)
		var rows int64
		end := 0.0
		for _, point := range p.points {
			require.InDelta(t, end, point.Second-point.Seconds, 1e-6)
			require.Greater(t, math.Ceil(point.Second), math.Ceil(end), "its key")
			end = point.Second
			rows += point.Rows
		}
		all, _ := done(h)
		require.LessOrEqual(t, rows, all)
	}
}

// Waits for one session add up, and the longest stay.
func TestLongestWaitsAreKept(t *testing.T) {
	var waits []Waited
	for i := range 100 {
		waits = AddWaited(waits, Waited{Reason: "metadata lock", ConnID: uint64(i), Seconds: float64(i)})
	}
	waits = AddWaited(waits, Waited{Reason: "metadata lock", ConnID: 99, Seconds: 1, Ended: true})
	waits = AddWaited(waits, Waited{Reason: "metadata lock", ConnID: 99, Seconds: 1})
	require.Len(t, waits, maxWaited)
	require.Equal(t, Waited{Reason: "metadata lock", ConnID: 99, Seconds: 101, Ended: true}, waits[0])
}

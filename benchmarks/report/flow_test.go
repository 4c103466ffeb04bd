package report

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/benchmarks/result"
	"fastddl/sbtest"
)

// flow is a result of three rounds, in which the share matters, compactions do not, and the worker is not there.
func flow() *result.Flow {
	res := &result.Flow{
		Machine: result.Machine{CPU: "Some CPU", Cores: 2, MemoryBytes: 8 << 30, Kernel: "6.1"}, Version: "abc, as 8.0.11", Capacity: 200, Complete: true,
		Setup: result.FlowSetup{Rows: 1_000_000, Case: "int", Shares: []float64{0.4, 0}, Rounds: 3, Builds: 2, Threads: 8, Seed: 7},
		Variants: []result.FlowVariant{
			{Name: "quiet", Kind: result.FlowQuiet},
			{Name: "inside all", Kind: result.FlowAll, Builds: "inside the server"},
			{Name: "inside again", Kind: result.FlowAgain, Builds: "inside the server"},
			{Name: "inside share", Kind: result.FlowWithout, Builds: "inside the server", Without: "share", Title: "the governor's share"},
			{Name: "inside compactions", Kind: result.FlowWithout, Builds: "inside the server", Without: "compactions", Title: "compactions of low priority"},
			{Name: "worker all", Kind: result.FlowAll, Builds: "in the worker", Skipped: "the server does not know fastddl_ddl_worker"},
		},
	}
	busy := []float64{1, 1.5, 0.8} // how slow the machine is in each round
	for _, v := range []struct {
		name       string
		p99, build float64
	}{{"quiet", 20, 0}, {"inside all", 50, 2}, {"inside again", 52, 2.1}, {"inside share", 90, 1.2}, {"inside compactions", 51.5, 2.02}} {
		for round, slow := range busy {
			for _, share := range res.Setup.Shares {
				s := result.FlowSlot{Variant: v.name, Round: round + 1, Share: share, PerSecond: 80, During: sbtest.LatencySummary{
					Seconds: 10, P50: v.p99 * slow / 5, P99: v.p99 * slow, Mean: v.p99 * slow / 4, PerSecond: 80,
				}}
				if share == 0 {
					s.PerSecond, s.During.PerSecond = 200, 150/slow
				}
				if v.build > 0 {
					s.BuildSeconds = []float64{v.build * slow, v.build * slow * 1.02}
				}
				res.Slots = append(res.Slots, s)
			}
		}
	}
	return res
}

// TestFlowMarkdown: FASTDDL_ACCEPT=1 rewrites what the report must be.
func TestFlowMarkdown(t *testing.T) {
	const file = "testdata/flow.md"
	got := FlowMarkdown(flow())
	if os.Getenv("FASTDDL_ACCEPT") != "" {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// TestNoiseFollowsTheEqualRuns: what is beyond the noise of equal runs that hardly differ is within that of runs that do.
func TestNoiseFollowsTheEqualRuns(t *testing.T) {
	res := flow()
	share, compactions := res.Variants[3], res.Variants[4]
	ratio, moved, known := effect(res, share, 0.4, p99)
	require.True(t, known && moved)
	require.InDelta(t, 1.77, ratio, 0.01)
	ratio, moved, known = effect(res, compactions, 0.4, p99)
	require.True(t, known)
	require.False(t, moved)
	require.InDelta(t, 1.01, ratio, 0.01)
	moved, known = movesAnything(res, compactions)
	require.True(t, known)
	require.False(t, moved)

	for i, s := range res.Slots {
		if s.Variant == "inside again" {
			res.Slots[i].During.P99 *= []float64{0.4, 1, 2.5}[s.Round-1]
		}
	}
	_, moved, known = effect(res, share, 0.4, p99)
	require.True(t, known)
	require.False(t, moved)
	moved, _ = movesAnything(res, share)
	require.True(t, moved, "builds take another time still")
}

// TestFewRoundsAreNotJudged: neither is a variant that was not measured beside each load.
func TestFewRoundsAreNotJudged(t *testing.T) {
	res := flow()
	var rest []result.FlowSlot
	for _, s := range res.Slots {
		if s.Variant != "inside compactions" || s.Share > 0 {
			rest = append(rest, s)
		}
	}
	res.Slots = rest
	_, known := movesAnything(res, res.Variants[4])
	require.False(t, known)

	res = flow()
	rest = nil
	for _, s := range res.Slots {
		if s.Round < 3 {
			rest = append(rest, s)
		}
	}
	res.Slots, res.Complete = rest, false
	text := FlowMarkdown(res)
	require.Contains(t, text, "too few to know the noise")
	require.Contains(t, text, "cut short")
	require.NotContains(t, text, "**")
}

// TestFlowProblemsAreListed: builds that failed, and transactions.
func TestFlowProblemsAreListed(t *testing.T) {
	res := flow()
	res.Slots[3].BuildSeconds, res.Slots[3].Failed = nil, "context deadline exceeded\nand more"
	res.Slots[4].Errors = "transactions failed: connection lost"
	text := FlowMarkdown(res)
	require.Contains(t, text, "- quiet, round 2, closed loop: context deadline exceeded.\n")
	require.Contains(t, text, "- quiet, round 3, 40% of the capacity: transactions failed: connection lost.\n")
}

package ddl

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
)

// Each look has its own time: one that took all of it leaves as much for the next.
func TestEachLookHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := look(t.Context(), func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		n, err := look(t.Context(), func(ctx context.Context) (int, error) {
			time.Sleep(lookPatience / 2)
			return 7, ctx.Err()
		})
		require.NoError(t, err)
		require.Equal(t, 7, n)
	})
}

// What a build has waited for others is not taken for what a build costs.
func TestWaitsForOthersAreNotLearned(t *testing.T) {
	r := &job.Record{History: job.History{
		Stages: []job.StageTime{{Stage: job.StageScan, Seconds: 2}, {Stage: job.StageWait, Seconds: 60.5}},
		Waited: []job.Waited{{Reason: "metadata lock", Seconds: 50}, {Reason: "its window", Seconds: 10}},
	}}
	past := pastBuild(r)
	require.InDelta(t, 0.5, past.Seconds[job.StageWait], 1e-9)
	require.InDelta(t, 2, past.Seconds[job.StageScan], 1e-9)
}

package ddl

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fastddl/ddl/crew"
	"fastddl/ddl/job"
	"fastddl/ddl/member"
	"fastddl/kv"
)

// fencingStore is a store that could fence.
type fencingStore struct{ kv.Store }

func (fencingStore) Fence(context.Context, ...kv.KeyRange) error { return nil }

// emptyCluster is one of which everybody has gone.
type emptyCluster struct{ member.Cluster }

func (emptyCluster) Members(context.Context) (map[string]bool, error) { return nil, nil }

// A job is undone when the nodes that build its parts have been lost too often. Undoing it has to
// fence them off all the same, once more, or it would wait for their parts for ever.
func TestLastFence(t *testing.T) {
	stopped := errors.New("stopped before the fence")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	task := &task{d: &DDL{opts: Options{Builds: fencingStore{}, Cluster: emptyCluster{}, Logger: zap.NewNop()}}, id: 7, fences: 12}
	task.shown.Store(&job.Record{ID: 7, Step: job.StepSnapshot})
	parts := []crew.Part{{State: crew.Held, Wanted: true, Holder: "gone/1", Epoch: 1}}

	err := task.reopenLost(ctx, parts, true)
	require.True(t, job.IsPermanent(err))
	require.ErrorContains(t, err, "lost 13 times, the last was gone")

	err = task.reopenLost(ctx, parts, false)
	require.ErrorIs(t, err, stopped, "it goes as far as the fence")
	require.False(t, job.IsPermanent(err))
}

// A node does not build parts whose meaning it may not know.
func TestPartsOfLaterVersions(t *testing.T) {
	h := &hand{d: &DDL{}, in: &tenure{}}
	require.True(t, h.eligible(&job.Record{Protocol: job.Protocol}))
	require.True(t, h.eligible(&job.Record{}), "of before there was a protocol")
	require.False(t, h.eligible(&job.Record{Protocol: job.Protocol + 1}))
}

// A job that a node of an earlier version has queued may have such nodes compare parts of it.
func TestEarlierNodesGetPartsThatTheyKnow(t *testing.T) {
	for protocol, sums := range map[int]bool{0: false, 2: false, job.Protocol: true} {
		c := &jobCrew{record: &job.Record{Protocol: protocol}}
		require.Equal(t, sums, c.SumsInStore(), "protocol %d", protocol)
	}
}

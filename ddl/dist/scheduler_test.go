package dist

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fastddl/ddl/job"
	"fastddl/ddl/member"
	"fastddl/ddl/session"
	"fastddl/kv"
)

// fencingStore is a store that could fence.
type fencingStore struct{ kv.Store }

func (fencingStore) Fence(context.Context, ...kv.KeyRange) error { return nil }

// emptyCluster is one of which everybody has gone.
type emptyCluster struct{ member.Cluster }

func (emptyCluster) Members(context.Context) (map[string]bool, error) { return nil, nil }

// fakeJob is a job that is fenced off as far as its context lets.
type fakeJob struct{ r *job.Record }

func (j fakeJob) Record() *job.Record { return j.r }
func (j fakeJob) SetWait(string)      {}
func (j fakeJob) InLockedTxn(ctx context.Context, _ func(x *session.Txn) error) error {
	return context.Cause(ctx)
}

func (j fakeJob) FenceOnce(ctx context.Context, _ kv.Fencer, _ *job.Record) error {
	return context.Cause(ctx)
}

// A job is undone when the nodes that build its subtasks have been lost too often. Undoing it has to
// fence them off all the same, once more, or it would wait for their subtasks for ever.
func TestLastFence(t *testing.T) {
	stopped := errors.New("stopped before the fence")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	node := NewNode(Options{Builds: fencingStore{}, Cluster: emptyCluster{}, Logger: zap.NewNop()})
	s := &Scheduler{node: node, id: 7, job: fakeJob{r: &job.Record{ID: 7, Step: job.StepSnapshot}}, fences: 12}
	subtasks := []Subtask{{State: Held, Wanted: true, Holder: "gone/1", Epoch: 1}}

	err := s.reopenLost(ctx, subtasks, true)
	require.True(t, job.IsPermanent(err))
	require.ErrorContains(t, err, "lost 13 times, the last was gone")

	err = s.reopenLost(ctx, subtasks, false)
	require.ErrorIs(t, err, stopped, "it goes as far as the fence")
	require.False(t, job.IsPermanent(err))
}

// A node does not build subtasks whose meaning it may not know.
func TestPartsOfLaterVersions(t *testing.T) {
	h := &executor{n: &Node{}, lease: &Lease{}}
	require.True(t, h.eligible(&job.Record{Protocol: job.Protocol}))
	require.True(t, h.eligible(&job.Record{}), "of before there was a protocol")
	require.False(t, h.eligible(&job.Record{Protocol: job.Protocol + 1}))
}

// A job that a node of an earlier version has queued may have such nodes compare subtasks of it.
func TestEarlierNodesGetPartsThatTheyKnow(t *testing.T) {
	for protocol, sums := range map[int]bool{0: false, 2: false, job.Protocol: true} {
		c := &build{record: &job.Record{Protocol: protocol}}
		require.Equal(t, sums, c.SumsInStore(), "protocol %d", protocol)
	}
}

package ddl

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/member"
	"fastddl/event"
	"fastddl/kv"
)

// countingStore counts what happens to holds.
type countingStore struct {
	kv.Store
	renewed, released atomic.Int64
	gone              bool // what is held
}

type countingHold struct {
	*countingStore
	ts uint64
}

func (s *countingStore) HoldGC(_ context.Context, _ string, ts uint64, _ time.Duration) (kv.GCHold, error) {
	return &countingHold{s, ts}, nil
}

func (h *countingHold) TS() uint64 { return h.ts }

func (h *countingHold) Renew(context.Context, time.Duration) error {
	h.renewed.Add(1)
	if h.gone {
		return kv.ErrSnapshotTooOld
	}
	return nil
}

func (h *countingHold) Release(context.Context) error {
	h.released.Add(1)
	return nil
}

// A hold is renewed for as long as the job lives, in all its steps, and not
// released when the process ends.
func TestHoldIsRenewed(t *testing.T) {
	store := &countingStore{}
	task := &task{d: &DDL{opts: Options{Builds: store, Bus: new(event.Bus), Logger: zap.NewNop(), HoldTTL: 30 * time.Millisecond}}, id: 7}
	task.shown.Store(&job.Record{ID: 7})
	require.NoError(t, task.holdAt(t.Context(), 1))
	require.Eventually(t, func() bool { return store.renewed.Load() > 3 }, time.Minute, time.Millisecond, "the hold is not renewed")
	task.stopKeeper()
	after := store.renewed.Load()
	time.Sleep(30 * time.Millisecond)
	require.Equal(t, after, store.renewed.Load(), "renewed after the end")
	require.Zero(t, store.released.Load())
}

// A task receives a hold that could not be kept, also if it began to wait before the hold was taken.
func TestLossOfAHoldIsReceived(t *testing.T) {
	store := &countingStore{gone: true}
	task := newTask(&DDL{node: dist.NewNode(dist.Options{}), opts: Options{Builds: store, Bus: new(event.Bus), Logger: zap.NewNop(), HoldTTL: 30 * time.Millisecond}},
		&dist.Lease{}, job.NewMachine(&job.Record{ID: 7}), job.Settings{})
	received := make(chan *safepointKeeper)
	go func() { received <- <-task.lost }()
	require.NoError(t, task.holdAt(t.Context(), 1))
	require.Same(t, task.keeper.Load(), <-received)
	require.NoError(t, task.holdAt(t.Context(), 2)) // the loss of this one is not received
	task.stopKeeper()
}

// Each owner of a job has a hold of its own, which is known as the job's.
func TestHoldNames(t *testing.T) {
	require.Equal(t, "fastddl-job-7", holdName(&job.Record{ID: 7}))
	require.Equal(t, "fastddl-job-7-2", holdName(&job.Record{ID: 7, Epoch: 2}))
	for _, name := range []string{"fastddl-job-7", "fastddl-job-7-2", "fastddl-job-7-at-470664157440245760", "fastddl-job-7-2-at-5"} {
		id, ok := jobOfHold(name)
		require.True(t, ok)
		require.Equal(t, int64(7), id)
	}
	for _, name := range []string{"fastddl-job-", "fastddl-job-x-1", "gc_worker"} {
		_, ok := jobOfHold(name)
		require.False(t, ok, name)
	}
}

// TestHoldOfAReadyJob: one that waits for its publication releases what a comparison has held, and has no region split for that. Regions are
// split once for an S.
func TestHoldOfAReadyJob(t *testing.T) {
	store := &fencingStore{}
	d := &DDL{node: dist.NewNode(dist.Options{}), opts: Options{
		Builds: store, Cluster: struct{ member.Cluster }{}, Bus: new(event.Bus), Logger: zap.NewNop(), HoldTTL: time.Hour,
	}}
	task := newTask(d, &dist.Lease{}, job.NewMachine(&job.Record{ID: 7, Step: job.StepReady, SnapshotTS: 5}), job.Settings{})
	require.NoError(t, task.holdAt(t.Context(), 9))
	require.NoError(t, task.giveUpOnce(t.Context())) // to fence it would need sessions
	require.Nil(t, task.keeper.Load())
	require.EqualValues(t, 1, store.released.Load())

	task.sealedTS = 5
	require.NoError(t, task.sealImports(t.Context(), task.Record()))
	task.sealedTS = 4
	require.Panics(t, func() { _ = task.sealImports(t.Context(), task.Record()) })
}

// fencingStore is a countingStore of a cluster.
type fencingStore struct {
	countingStore
	kv.Fencer
}

func (s *fencingStore) GCHolds(context.Context) (map[string]uint64, error) {
	return map[string]uint64{"fastddl-job-7": 9, "fastddl-job-7-at-5": 5, "fastddl-job-8": 5}, nil
}

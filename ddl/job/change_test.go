package job

import (
	"errors"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// newMixedWorld is the world of a job that drops something, too.
func newMixedWorld(t *testing.T, unique bool) *world {
	w := newWorld(t, unique)
	w.m.Record().Changes = []Change{{Type: model.ActionAddColumn}, {Type: model.ActionDropIndex}}
	return w
}

// dropStates are the states of what is dropped, in order.
var dropStates = []model.SchemaState{
	model.StatePublic, model.StateWriteOnly, model.StateDeleteOnly, model.StateDeleteReorganization, model.StateNone,
}

// What is dropped stays public until the indexes are, and then loses one state after
// the other, each when everybody has reached the one before.
func TestDropSteps(t *testing.T) {
	w := newMixedWorld(t, false)
	var got []model.SchemaState
	for !w.m.Record().Ended() {
		before := *w.m.Record()
		act, to := w.step()
		after := w.m.Record()
		if before.DropState() == after.DropState() {
			continue
		}
		require.Equal(t, ActChangeSchema, act)
		got = append(got, after.DropState())
		if to == StepPublic {
			require.Equal(t, model.StatePublic, after.SchemaState())
		} else {
			require.Equal(t, w.version-1, w.synced, "I1: from %q", before.Step)
		}
	}
	require.Equal(t, dropStates[1:], got)
	require.Equal(t, model.JobStateSynced, w.m.Record().State)
	require.Equal(t, []Action{ActAwaitVersion, ActFinish}, w.actions[len(w.actions)-2:])
}

// Nothing but drops needs steps after the publication.
func TestNoDropSteps(t *testing.T) {
	w := newWorld(t, false)
	w.m.Record().Changes = []Change{{Type: model.ActionAddColumn}, {Type: model.ActionRenameIndex}}
	w.run()
	plain := newWorld(t, false)
	plain.run()
	require.Equal(t, plain.actions, w.actions)
}

// For all errors, requests and crashes, at any time: what is dropped is gone if the
// indexes are public, and is untouched if they are not.
func TestRandomDrops(t *testing.T) {
	rng := randtest.Rand(t)
	done := make(map[model.JobState]int)
	for range 2000 {
		w := newMixedWorld(t, rng.IntN(2) == 0)
		for range 300 {
			r := w.m.Record()
			if r.Ended() {
				break
			}
			before := *r
			switch rng.IntN(40) {
			case 0:
				stored := before
				if stored.RollingBack() && stored.Step.Revertible() {
					stored.State, stored.Error = model.JobStateRunning, nil // that was not durable yet
				}
				w.m = ResumeMachine(&stored)
			case 1:
				if r.CheckRequest(RequestCancel) == nil {
					require.Equal(t, model.StatePublic, r.DropState(), "cancelled when it was too late")
					w.m.Reached(r.WithRequest(RequestCancel))
				}
			case 2:
				w.m.Next()
				w.m.Failed(Permanent(errors.New("no way")), 10)
			default:
				w.step()
			}
			after := w.m.Record()
			from, to := dropRank(t, &before), dropRank(t, after)
			require.LessOrEqual(t, from, to, "%q after %q", after.Step, before.Step)
			require.LessOrEqual(t, to, from+1, "%q after %q", after.Step, before.Step)
			if from > 0 && to > from {
				require.Equal(t, w.version-1, w.synced, "I1: from %q", before.Step)
			}
		}
		w.run()
		r := w.m.Record()
		done[r.State]++
		if r.State == model.JobStateSynced {
			require.Equal(t, model.StateNone, r.DropState())
		} else {
			require.Equal(t, model.StatePublic, r.DropState())
		}
	}
	require.NotZero(t, done[model.JobStateSynced])
	require.NotZero(t, done[model.JobStateRollbackDone])
}

func dropRank(t *testing.T, r *Record) int {
	for i, s := range dropStates {
		if s == r.DropState() {
			return i
		}
	}
	require.Fail(t, "unknown state")
	return 0
}

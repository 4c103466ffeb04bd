package simulation

import (
	"errors"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ddl/job"
)

const (
	// holdTTL is the life of a hold, in ticks.
	holdTTL = 6
	// errorLimit is how many failures a job survives.
	errorLimit = 6
)

// machine is the job's state machine: the product's, or a mutant around it.
type machine interface {
	Record() *job.Record
	Next() (job.Action, job.Step)
	Prepare(to job.Step) *job.Record
	Reached(after *job.Record)
	HasTurn()
	Waited()
	AwaitedOlder()
	Slept()
	Failed(err error, limit int64) (retry bool)
}

var (
	errInjected = errors.New("a request failed")
	errTooOld   = errors.New("the snapshot is older than the safe point")
	errMismatch = errors.New("the index differs from its rows at the snapshot")
	errUnequal  = errors.New("the index was not equal to the rows after the last comparison")
	// What follows is as in package ddl.
	errHoldLost    = errors.New("garbage collection has passed the job's snapshot")
	errInterrupted = errors.New("interrupted by a request")
	errLost        = errors.New("the job's record was changed by somebody else")
	errRetry       = errors.New("begin the transaction again")
)

// queueRow is the job's row in TiDB's queue.
type queueRow struct {
	present bool
	id      int
	// locked is the repair that has it locked.
	locked *txn
}

// builder runs one job in one process, as package ddl's task does. Each step is
// what happens without another event in between.
type builder struct {
	w     *world
	id    int
	alive bool
	m     machine
	// begun: the hold of a job that was loaded again has been taken.
	begun bool

	act   job.Action
	to    job.Step
	busy  bool
	phase int
	// after is the record to be written, while its transaction is open on what read says.
	after *job.Record
	read  metadata

	asked   bool
	request job.Request
	// again: that S is lost has to be recorded before anything else.
	again bool
	// keeper renews the hold at holdTS; lost says that it could not.
	keeper, lost bool
	holdTS       timestamp

	fill fill
	cmp  compare
}

// builderEvent takes a builder one step further.
func (w *world) builderEvent(b *builder, c *choice) {
	if b == nil || !b.alive {
		return
	}
	if !b.begun {
		b.begun = true
		r := b.m.Record()
		if b.needsHold(r) && !b.holdAt(timestamp(r.SnapshotTS)) && !w.broken(lostHoldIgnored) {
			b.beginAgain()
		}
		return
	}
	if b.again {
		b.beginAgain()
		return
	}
	if b.after == nil && b.keeper && b.lost && !w.broken(lostHoldIgnored) {
		b.interrupt()
		b.keeper = false
		b.conclude(nil, errHoldLost)
		return
	}
	if b.after == nil && b.asked {
		b.asked = false
		b.interrupt()
		b.conclude(nil, errInterrupted)
		b.accept()
		return
	}
	if !b.busy {
		if b.m.Record().Ended() {
			b.stop()
			return
		}
		b.act, b.to = b.m.Next()
		b.busy, b.phase = true, 0
		w.trace("builder %d: %s, to %q", b.id, b.act, b.to)
	}
	if after, done, err := b.do(c); done {
		b.busy = false
		b.conclude(after, err)
	}
}

// do goes on with the action.
func (b *builder) do(c *choice) (after *job.Record, done bool, err error) {
	w := b.w
	switch b.act {
	case job.ActAwaitTurn:
		return nil, b.hasTurn(), nil
	case job.ActAwaitVersion:
		return nil, b.awaitVersion(), nil
	case job.ActAwaitOlder:
		return nil, b.awaitOlder(c), nil
	case job.ActRepublish, job.ActChangeSchema:
		return b.changeSchema()
	case job.ActTakeSnapshot:
		return b.takeSnapshot()
	case job.ActBackfill:
		return b.backfill(c)
	case job.ActCompare:
		return b.compare()
	case job.ActFinish:
		return b.finish()
	case job.ActPark:
		if b.m.Record().State != model.JobStatePaused {
			return b.write(b.m.Record().Step, func(after *job.Record) error {
				after.State = model.JobStatePaused
				return nil
			})
		}
		return nil, false, nil
	}
	w.keeperEvent(b) // a sleep lasts long enough for it
	return nil, true, nil
}

// interrupt ends the action where it is.
func (b *builder) interrupt() {
	b.busy = false
	b.cmp.giveUp(b.w)
	b.cmp.rounds = 0
}

// stop ends the builder and what it has open.
func (b *builder) stop() {
	b.interrupt()
	b.alive, b.keeper, b.after = false, false, nil
}

// conclude passes the result of an action to the machine.
func (b *builder) conclude(after *job.Record, err error) {
	w := b.w
	if after != nil {
		b.m.Reached(after)
	}
	if err == nil {
		switch b.act {
		case job.ActAwaitTurn:
			b.m.HasTurn()
		case job.ActAwaitVersion:
			b.m.Waited()
		case job.ActAwaitOlder:
			b.m.AwaitedOlder()
		case job.ActSleep:
			b.m.Slept()
		}
		return
	}
	w.trace("builder %d: %s: %v", b.id, b.act, err)
	if errors.Is(err, errHoldLost) {
		b.beginAgain()
		return
	}
	if !b.settle() || errors.Is(err, errInterrupted) || b.m.Record().Ended() {
		return
	}
	b.m.Failed(err, errorLimit)
}

// settle finds out whether a write that may have failed took effect. It stops the builder,
// and returns false, if another node has the job.
func (b *builder) settle() bool {
	w := b.w
	stored := w.stored
	id := b.m.Record().ID
	if stored == nil || stored.ID != id {
		stored = w.archived[id]
	}
	mine := b.m.Record().Revision
	switch {
	case stored.Revision == mine+1:
		b.m.Reached(clone(stored))
	case stored.Revision != mine:
		w.trace("builder %d: the job is somebody else's", b.id)
		b.stop()
		return false
	}
	return true
}

// needsHold says that the job cannot go on with its S if garbage collection has passed it.
func (b *builder) needsHold(r *job.Record) bool {
	return r.NeedsHold(b.w.cfg.hiding)
}

// beginAgain goes back to before S, which is not held any more.
func (b *builder) beginAgain() {
	w := b.w
	b.again = false
	if !b.settle() {
		return
	}
	r := b.m.Record()
	if !b.needsHold(r) || r.RollingBack() {
		return
	}
	after, _, err := b.writeAtOnce(job.StepWriteReorg, func(after *job.Record) error {
		after.ForgetSnapshot()
		w.checkpoint = checkpoint{}
		return nil
	})
	switch {
	case job.IsPermanent(err):
		b.m.Failed(err, errorLimit)
	case err != nil && w.broken(lossForgotten):
		b.m.Failed(err, errorLimit)
	case err != nil:
		b.again = true
	default:
		w.trace("builder %d takes another snapshot", b.id)
		b.m.Reached(after)
	}
}

// accept makes a request durable.
func (b *builder) accept() {
	w := b.w
	if !b.alive || b.m.Record().CheckRequest(b.request) != nil {
		return
	}
	r := b.m.Record()
	after := r.WithRequest(b.request)
	if w.stored == nil || w.stored.ID != r.ID || w.stored.Revision != r.Revision {
		b.settle()
		return
	}
	w.trace("builder %d accepts the request %q", b.id, b.request)
	if b.request == job.RequestCancel && !w.broken(cancelForgotten) {
		w.cancelled[r.ID] = true
	}
	if w.broken(cancelForgotten) && b.request == job.RequestCancel {
		w.cancelled[r.ID] = true
		return
	}
	w.stored = clone(after)
	b.m.Reached(after)
}

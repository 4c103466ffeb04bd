package ddl

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tikv/client-go/v2/oracle"
	"go.uber.org/zap"

	"fastddl/config"
	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/ddl/status"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/sleep"
)

// task is one job while it runs. Its goroutine owns the machine and writes the
// record; everybody else sends messages, or reads what it shows.
type task struct {
	d  *DDL
	id int64
	// lease is the one that the node has taken the job in.
	lease *dist.Lease

	// machine belongs to the goroutine.
	machine *job.Machine
	// shown is the record as of the last change, for others to read.
	shown atomic.Pointer[job.Record]
	// keeper is the hold on garbage collection, if there is one. lost receives it when it could not be kept.
	keeper atomic.Pointer[safepointKeeper]
	lost   chan *safepointKeeper

	// settings are the durable ones, live what the build follows of them.
	settingsMu sync.Mutex
	settings   job.Settings
	live       ingest.LiveSettings

	// imports is how many imports are under way here.
	imports atomic.Int32
	// scheduler divides builds of the job among nodes.
	scheduler *dist.Scheduler
	// tempFull is how often in a row a build has found no room in the temp folder. It belongs to
	// the action that is under way.
	tempFull int
	// settledTS is a time at which the transactions that were open at S had ended, or had been waited
	// for long enough; 0 before.
	settledTS uint64
	// progressed says that a checkpoint was saved since the last failure.
	progressed atomic.Bool
	// rechecks is how often the job took another S because duplicates had gone.
	rechecks int
	// left are the requests that the last owner has left; they belong to the goroutine.
	left []records.OpenRequest

	view  status.View
	inbox chan message
	// done is closed when the goroutine ends; err is then why the job has failed, or
	// ErrClosed if it has not ended, or records.ErrLost if another node is to end it.
	done chan struct{}
	err  error
}

// message is a request to a job. Exactly one answer is sent.
type message struct {
	request job.Request
	// alter, if it is set, is all there is to do.
	alter *records.Alteration
	// also, if it is set, is done in the transaction that grants the request.
	also   func(x *session.Txn) error
	answer chan error
}

// alongside does what is to be done with the granted request.
func (m *message) alongside(x *session.Txn) error {
	if m.also == nil {
		return nil
	}
	return m.also(x)
}

var (
	// errInterrupted ends an action because of a request.
	errInterrupted = errors.New("ddl: interrupted by a request")
	// errStopped says that the job stays where it is.
	errStopped = errors.New("ddl: the job was stopped")
)

func newTask(d *DDL, in *dist.Lease, m *job.Machine, s job.Settings) *task {
	t := &task{d: d, id: m.Record().ID, lease: in, machine: m, settings: s, lost: make(chan *safepointKeeper), inbox: make(chan message), done: make(chan struct{})}
	t.scheduler = dist.NewScheduler(d.node, in, t, m.Record())
	t.live.Set(dist.LiveSettings(s))
	t.show()
	return t
}

// Record returns the record as of the last change.
func (t *task) Record() *job.Record { return t.shown.Load() }

// SetWait shows what the job waits for.
func (t *task) SetWait(reason string) { t.view.SetWait(reason) }

// show publishes a copy of the record: the machine changes its own.
func (t *task) show() {
	r := *t.machine.Record()
	t.shown.Store(&r)
}

func (t *task) ownSettings() job.Settings {
	t.settingsMu.Lock()
	defer t.settingsMu.Unlock()
	return t.settings
}

func (t *task) emit(e event.Event) { t.d.opts.Bus.Emit(e) }

// run takes the job through its steps until it has ended or ctx ends.
func (t *task) run(ctx context.Context) {
	defer close(t.done)
	defer t.stopKeeper()
	defer t.releaseLeft()
	report := status.Reporter{Sessions: t.d.sessions, Record: t.Record, Info: t.info, Emit: t.emit, Contain: t.d.contained}
	defer report.Start(ctx)()
	err := t.d.contained("the loop of a job", func() error { return t.loop(ctx) })
	r := t.machine.Record()
	switch {
	case !r.Ended() && t.isLost(ctx, err):
		t.err = records.ErrLost
		t.giveUp()
	case !r.Ended():
		t.err = ErrClosed
		if ctx.Err() == nil {
			t.d.opts.Logger.Error("an index build has stopped; it goes on after a restart", zap.Int64("job", t.id), zap.Error(err))
			t.err = err
		}
	case r.Error != nil:
		t.err = r.Error
	}
}

// loop returns when the job has ended, with nil, or cannot go on.
func (t *task) loop(ctx context.Context) error {
	// First, since what follows may take long.
	t.answerLeft(ctx)
	if err := t.fence(ctx); err != nil {
		return err
	}
	if err := t.resumeHold(ctx); err != nil {
		return err
	}
	for !t.machine.Record().Ended() {
		before := t.shown.Load()
		act, to := t.machine.Next()
		t.show()
		t.publishState(before)
		if err := t.perform(ctx, act, to); err != nil {
			return err
		}
	}
	return nil
}

// perform executes one action and the requests that arrive meanwhile.
func (t *task) perform(ctx context.Context, act job.Action, to job.Step) error {
	if err := t.hook(ctx, "before", act, to); err != nil {
		return err
	}
	actCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	result := make(chan outcome, 1)
	go func() {
		var o outcome
		err := t.d.contained(string(act), func() (err error) {
			o, err = t.do(actCtx, act, to)
			return err
		})
		o.err = err
		result <- o
	}()
	for {
		select {
		case o := <-result:
			return t.conclude(ctx, act, to, o)
		case k := <-t.lost:
			if k != t.keeper.Load() {
				continue // the action holds at another timestamp now
			}
			cancel(errHoldLost)
			o := withCause(errHoldLost, <-result)
			t.stopKeeper()
			if err := t.conclude(ctx, act, to, o); err != nil || o.err != nil {
				return err
			}
			return t.beginAgain(ctx, errHoldLost) // the action was over already
		case m := <-t.inbox:
			if m.alter != nil {
				m.answer <- t.alter(ctx, m)
				continue
			}
			if err := t.machine.Record().CheckRequest(m.request); err != nil {
				m.answer <- err
				continue
			}
			cancel(errInterrupted)
			err := t.conclude(ctx, act, to, withCause(errInterrupted, <-result))
			m.answer <- t.accept(ctx, m)
			return err
		}
	}
}

// outcome is the result of an action.
type outcome struct {
	// record was written; nil if none was.
	record *job.Record
	err    error
}

// withCause gives the outcome of an action that was cut short why it was as its error.
func withCause(why error, o outcome) outcome {
	if o.err != nil && !job.IsPermanent(o.err) {
		o.err = why
	}
	return o
}

// conclude passes to the machine how an action ended.
func (t *task) conclude(ctx context.Context, act job.Action, to job.Step, o outcome) error {
	if o.record != nil {
		t.reached(o.record)
	}
	switch {
	case o.err == nil:
		t.succeeded(act)
		return t.hook(ctx, "after", act, to)
	case ctx.Err() != nil:
		return errStopped
	case errors.Is(o.err, errInterrupted), errors.Is(o.err, errNoSpace):
		return t.settle(ctx)
	case errors.Is(o.err, errHoldLost):
		return t.beginAgain(ctx, o.err)
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	if t.machine.Record().Ended() {
		return nil
	}
	if err := t.lease.Permit(); err != nil {
		return err
	}
	if t.progressed.Swap(false) {
		t.machine.Progressed()
	}
	retry := t.machine.Failed(o.err, t.d.opts.Globals.Int(config.ErrorCountLimit))
	if retry {
		t.emit(event.Retry{Job: event.Job{ID: t.id}, Op: string(act), Attempt: int(t.machine.Record().ErrorCount), Err: o.err})
	} else {
		t.d.opts.Logger.Warn("an index build is undone", zap.Int64("job", t.id), zap.String("in", string(act)), zap.Error(o.err))
	}
	t.show()
	return nil
}

func (t *task) succeeded(act job.Action) {
	switch act {
	case job.ActAwaitTurn:
		t.machine.HasTurn()
	case job.ActAwaitVersion:
		t.machine.Waited()
	case job.ActAwaitOlder:
		t.machine.AwaitedOlder()
	case job.ActSleep:
		t.machine.Slept()
	}
}

// reached takes over a record that was written.
func (t *task) reached(after *job.Record) {
	before := t.machine.Record()
	t.machine.Reached(after)
	t.show()
	t.publishState(before)
	if after.SchemaVersion != before.SchemaVersion {
		t.emit(event.SchemaStateChanged{Job: event.Job{ID: t.id}, State: after.SchemaState().String(), SchemaVersion: after.SchemaVersion})
	}
}

func (t *task) publishState(before *job.Record) {
	now := t.machine.Record()
	if before.ShownState() == now.ShownState() {
		return
	}
	e := event.JobStateChanged{
		Job: event.Job{ID: t.id}, Schema: now.DB, Table: now.Table, Indexes: status.IndexNames(now), Rows: now.RowCount,
		From: before.ShownState().String(), To: now.ShownState().String(),
	}
	if now.Ended() && now.StartTS != 0 {
		e.Took = oracle.GetTimeFromTS(now.EndTS).Sub(oracle.GetTimeFromTS(now.StartTS))
	}
	if now.Error != nil {
		e.Err = now.Error
	}
	t.emit(e)
}

// settle finds out what has become of a write that may have failed: the record in
// the store is what the job is.
func (t *task) settle(ctx context.Context) error {
	for attempt := int64(1); ; attempt++ {
		err := t.reload(ctx)
		if err == nil || errors.Is(err, records.ErrLost) {
			return err
		}
		if err := t.retryLater(ctx, "read the job's record", attempt, err); err != nil {
			return err
		}
	}
}

// retryLater emits that an attempt at what cannot be left undone has failed, and waits
// before the next one. It fails if the job is stopped meanwhile.
func (t *task) retryLater(ctx context.Context, op string, attempt int64, why error) error {
	t.emit(event.Retry{Job: event.Job{ID: t.id}, Op: op, Attempt: int(attempt), Err: why})
	if !sleep.For(ctx, job.Backoff(attempt)) {
		return errStopped
	}
	return nil
}

func (t *task) reload(ctx context.Context) error {
	var stored *job.Record
	err := t.d.sessions.InTxn(ctx, func(x *session.Txn) (err error) {
		stored, _, err = records.Read(x, t.id)
		return err
	})
	if err == nil && stored == nil {
		if stored, err = t.d.records.Ended(ctx, t.id); err == nil && stored == nil {
			return records.ErrLost
		}
	}
	if err != nil {
		return err
	}
	switch mine := t.machine.Record(); {
	case !stored.OwnedLike(mine):
		return records.ErrLost
	case stored.Unreadable != nil: // the next write replaces it
	case stored.Revision == mine.Revision+1:
		t.reached(stored)
	case stored.Revision != mine.Revision:
		return records.ErrLost
	}
	return nil
}

// comply does what a request asks for, while there is no action.
func (t *task) comply(ctx context.Context, m message) error {
	if m.alter != nil {
		return t.alter(ctx, m)
	}
	return t.accept(ctx, m)
}

// accept makes a request durable. It is granted, too, if only the answer to its commit was lost.
func (t *task) accept(ctx context.Context, m message) error {
	r := t.machine.Record()
	if err := r.CheckRequest(m.request); err != nil {
		return err // the action has changed what can be asked
	}
	after := r.WithRequest(m.request)
	err := t.writeRecord(context.WithoutCancel(ctx), after, m.alongside)
	if err == nil {
		t.reached(after)
		return nil
	}
	err = errors.Join(err, t.settle(ctx))
	if now := t.machine.Record(); now.Revision == after.Revision && now.Request == after.Request {
		return nil
	}
	return err
}

// send asks the job for something and waits for the answer.
func (t *task) send(ctx context.Context, m message) error {
	m.answer = make(chan error, 1)
	select {
	case t.inbox <- m:
	case <-t.done:
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-m.answer:
		return err
	case <-t.done:
		select {
		case err := <-m.answer:
			return err
		default:
			return errGone
		}
	}
}

// errGone says that the job has ended before it could look at a request.
var errGone = errors.New("ddl: the job has ended")

func (t *task) hook(ctx context.Context, when string, act job.Action, to job.Step) error {
	return t.d.opts.Hook(ctx, HookPoint{JobID: t.id, When: when, Action: string(act), Step: string(to)})
}

package ddl

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tikv/client-go/v2/oracle"

	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/ddl/status"
	"fastddl/event"
	"fastddl/ingest"
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
	// sealedTS is the S at which the store has refused late imports since the last import; 0 before. It belongs to what is under way.
	sealedTS uint64
	// progressed says that a checkpoint was saved since the last failure.
	progressed atomic.Bool
	// prior is what builds have cost before.
	prior job.Prior
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

func newTask(d *DDL, lease *dist.Lease, m *job.Machine, s job.Settings) *task {
	t := &task{d: d, id: m.Record().ID, lease: lease, machine: m, settings: s, lost: make(chan *safepointKeeper), inbox: make(chan message), done: make(chan struct{})}
	t.scheduler = dist.NewScheduler(d.node, lease, t, m.Record())
	t.live.Set(dist.LiveSettings(s))
	t.show()
	return t
}

// Record returns the record as of the last change.
func (t *task) Record() *job.Record { return t.shown.Load() }

// SetWait shows what the job waits for.
func (t *task) SetWait(reason string) { t.view.SetWait(reason) }

// show publishes the record, which does not change any more.
func (t *task) show() { t.shown.Store(t.machine.Record()) }

func (t *task) ownSettings() job.Settings {
	t.settingsMu.Lock()
	defer t.settingsMu.Unlock()
	return t.settings
}

func (t *task) emit(e event.Event) { t.d.opts.Bus.Emit(e) }

// outcome is the result of an action.
type outcome struct {
	// record was written; nil if none was.
	record *job.Record
	err    error
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
	if after.Ended() && !before.Ended() {
		t.emit(status.JobEnded{Job: event.Job{ID: t.id}, Info: status.DescribeEnd(after, t.ownSettings())})
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

// errGone says that the job has ended before it could look at a request.
var errGone = errors.New("ddl: the job has ended")

func (t *task) hook(ctx context.Context, when string, act job.Action, to job.Step) error {
	return t.d.opts.Hook(ctx, HookPoint{JobID: t.id, When: when, Action: string(act), Step: string(to)})
}

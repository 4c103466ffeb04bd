package ddl

import (
	"context"
	"errors"
	"reflect"
	"time"

	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/event"
	"fastddl/internal/sleep"
)

// reportInterval is how often the rows of a job are brought up to date.
const reportInterval = time.Second

// reporter brings the rows of a job up to date while it runs.
type reporter struct {
	sessions *session.Pool
	// record returns the job's record, and info what is shown of it.
	record func() *job.Record
	info   func(now time.Time) JobInfo
	emit   func(event.Event)
	// contain runs a function and makes an error of a panic in it.
	contain func(what string, fn func() error) error
}

// start reports until the returned function is called.
func (t *reporter) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.loop(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// loop reports every reportInterval.
func (t *reporter) loop(ctx context.Context) {
	var last JobInfo
	var reported bool
	waits := waitWatch{emit: t.emit}
	defer func() { waits.look(time.Now(), JobInfo{}) }() // a wait ends with its job
	for sleep.For(ctx, reportInterval) {
		// A report that fails, or panics, is made up for by the next.
		_ = t.contain("the report of a job", func() error {
			now := time.Now()
			info := t.info(now)
			waits.look(now, info)
			if info.Ended() || reflect.DeepEqual(info, last) {
				return nil
			}
			var failed error
			err := t.sessions.InTxn(ctx, func(x *session.Txn) error {
				stored, _, err := records.Read(x, info.ID)
				if err != nil || stored == nil || !stored.OwnedLike(t.record()) {
					return err
				}
				var problems []error
				// The first report takes away what the last owner, or process, has left.
				if !reported || len(info.Blockers)+len(last.Blockers) > 0 {
					problems = append(problems, reportBlockers(x, info))
				}
				// One is shown without the other.
				failed = errors.Join(append(problems, reportJob(x, info))...)
				return nil
			})
			if err = errors.Join(err, failed); err == nil {
				last, reported = info, true
			}
			return err
		})
	}
}

package status

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/event"
	"fastddl/internal/sleep"
)

const (
	// reportInterval is how often the rows of a job are brought up to date.
	reportInterval = time.Second
	// idleInterval is how often they are if nothing changes but for how long the job waits.
	idleInterval = time.Minute
)

// Reporter brings the rows of a job up to date while it runs.
type Reporter struct {
	Sessions *session.Pool
	// Record returns the job's record, and info what is shown of it.
	Record func() *job.Record
	Info   func(now time.Time) JobInfo
	Emit   func(event.Event)
	// View is the job's.
	View *View
	// Contain runs a function and makes an error of a panic in it.
	Contain func(what string, fn func() error) error
}

// Start reports until the returned function is called.
func (t *Reporter) Start(ctx context.Context) (stop func()) {
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
func (t *Reporter) loop(ctx context.Context) {
	var last JobInfo
	var reported bool
	var reportedAt time.Time
	waits := waitWatch{emit: t.Emit}
	defer func() { waits.observe(time.Now(), JobInfo{}) }() // a wait ends with its job
	for sleep.For(ctx, reportInterval) {
		// A report that fails, or panics, is made up for by the next.
		_ = t.Contain("the report of a job", func() error {
			now := time.Now()
			info := t.Info(now)
			points, all := t.View.changedPoints()
			waits.observe(now, info)
			if info.Ended() || onlyWaits(info, last) && now.Sub(reportedAt) < idleInterval {
				return nil
			}
			var failed error
			err := t.Sessions.InTxn(ctx, func(x *session.Txn) error {
				stored, _, err := records.Read(x, info.ID)
				if err != nil || stored == nil || !stored.OwnedLike(t.Record()) {
					return err
				}
				var problems []error
				// The first report takes away what the last owner, or process, has left.
				if !reported || len(info.Blockers)+len(last.Blockers) > 0 {
					problems = append(problems, reportBlockers(x, info))
				}
				problems = append(problems, reportPoints(x, info.ID, points, all))
				// One is shown without the other.
				failed = errors.Join(append(problems, ReportJob(x, info))...)
				return nil
			})
			if err = errors.Join(err, failed); err == nil {
				last, reported, reportedAt = info, true, now
				t.View.pointsWritten()
			}
			return err
		})
	}
}

// onlyWaits says that two reports of a job differ in nothing but for how long it has waited, and in what others do meanwhile.
func onlyWaits(a, b JobInfo) bool {
	for _, info := range []*JobInfo{&a, &b} {
		info.Stages = withoutWait(info.Stages)
		info.Waited, info.Foreground = nil, job.Foreground{}
	}
	return reflect.DeepEqual(a, b)
}

func withoutWait(stages []job.StageTime) []job.StageTime {
	return slices.DeleteFunc(slices.Clone(stages), func(s job.StageTime) bool { return s.Stage == job.StageWait })
}

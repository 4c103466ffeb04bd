package job

import (
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/tikv/client-go/v2/oracle"

	"fastddl/config"
)

// Limits say what a job's settings do not let it do at the moment.
type Limits struct {
	// Closed says that its window is closed: the job does nothing of which statements feel something. It neither
	// reads nor imports rows, and publishes no schema version.
	Closed bool
	// Unpublished says that its indexes may not become public.
	Unpublished bool
}

// Limits returns the limits at a time. A window that cannot be read is closed.
func (s Settings) Limits(now time.Time) Limits {
	w, err := ParseWindow(s.Window)
	return Limits{Closed: err != nil || !w.Open(now), Unpublished: s.Publish == config.PublishManual}
}

// WaitForWindow is the wait reason of a job whose window is closed.
func (s Settings) WaitForWindow(now time.Time) string {
	w, err := ParseWindow(s.Window)
	if err != nil {
		return "its window, which this server cannot read: " + err.Error()
	}
	return fmt.Sprintf("its window: %s opens at %s", w, w.Next(now).Format(timeOfOpening))
}

const timeOfOpening = "2006-01-02 15:04 MST"

// Opens returns when the job's window opens, in its time zone, if it is closed.
func (s Settings) Opens(now time.Time) (at string, closed bool) {
	w, err := ParseWindow(s.Window)
	if err != nil {
		return "a time that this server cannot read", true
	}
	if w.Open(now) {
		return "", false
	}
	return w.Next(now).Format(timeOfOpening), true
}

// WaitForPublication is the wait reason of a job whose indexes may not become public.
func (r *Record) WaitForPublication() string {
	return fmt.Sprintf("publication: ADMIN ALTER DDL JOBS %d %s = '%s'", r.ID, config.DDLPublish, config.PublishNow)
}

// maxOverdue is how often a job gives S up because its window was closed for too long, under the same settings, before it is undone: the
// work does not fit between two windows that are MaxHold apart. As often its comparison may be cut short.
const maxOverdue = 3

// Parked says that a job of which an action is under way does nothing but wait for its window, or for its client.
func (r *Record) Parked(act Action) bool {
	return act == ActAwaitWindow || act == ActPark && r.State == model.JobStatePaused
}

// GivesUpHold says that a job that is parked does not hold garbage collection any longer. At StepReady it needs no hold at all.
func (r *Record) GivesUpHold(now time.Time, maxHold time.Duration) bool {
	return r.Step == StepReady || !now.Before(r.HoldEnds(maxHold))
}

// HoldEnds returns when a job that is parked gives its S up: maxHold after it has taken S, or after it was paused.
func (r *Record) HoldEnds(maxHold time.Duration) time.Time {
	return oracle.GetTimeFromTS(max(r.SnapshotTS, r.PausedTS)).Add(maxHold)
}

// GiveUpSnapshot makes a job that is parked take another S, because garbage collection was held at this one for as long as it may be.
func (r *Record) GiveUpSnapshot(s Settings) {
	r.ForgetSnapshot()
	r.Restarts++
	if r.State == model.JobStatePaused {
		return // that was the client's decision
	}
	r.under(s)
	r.Overdue++
}

// CutShort counts a comparison that the window has cut short, which keeps nothing of what it has done. It begins anew when the window opens.
func (r *Record) CutShort(s Settings) {
	r.under(s)
	r.Cuts++
}

// under forgets what did not fit under other settings.
func (r *Record) under(s Settings) {
	if under := fmt.Sprintf("%s, %s", s.Window, s.MaxHold); under != r.OverdueUnder {
		r.OverdueUnder, r.Overdue, r.Cuts = under, 0, 0
	}
}

// BeginsAnew says how often the job has given its S up, or its comparison was cut short, as a part of a wait reason; empty if that has not
// happened.
func (r *Record) BeginsAnew() string {
	switch {
	case r.Cuts != 0 && (r.Step == StepDrained || r.Step == StepReady) && r.State != model.JobStatePaused:
		return fmt.Sprintf("; it will compare the index with the rows anew, attempt %d of %d", r.Cuts+1, maxOverdue)
	case r.Restarts == 0:
		return ""
	case r.SnapshotTS != 0:
		return fmt.Sprintf("; it has begun anew %d times because it held garbage collection for too long", r.Restarts)
	case r.State == model.JobStatePaused:
		return "; it held garbage collection for too long and will begin anew"
	}
	return fmt.Sprintf("; it held garbage collection for too long and will begin anew, attempt %d of %d", r.Overdue+1, maxOverdue)
}

// overdue says that the job was tried often enough under its settings.
func (r *Record) overdue() bool { return r.Overdue >= maxOverdue || r.Cuts >= maxOverdue }

// errOverdue says that a job does not fit into its windows.
func (r *Record) errOverdue() error {
	what := "index build"
	if r.Cuts >= maxOverdue {
		what = "comparison of the index with the rows"
	}
	return fmt.Errorf("the %s does not fit into its window: %d attempts with a window and %s of %s have not ended; set a longer one of them, or none",
		what, max(r.Overdue, r.Cuts), config.DDLMaxHold, r.OverdueUnder)
}

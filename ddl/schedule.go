package ddl

import (
	"context"
	"errors"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/tikv/client-go/v2/oracle"

	"fastddl/config"
	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/event"
	"fastddl/internal/sleep"
)

// When a job works and is published: its settings and the clock limit what its machine may decide. The clock is read every limitsInterval,
// and not by a timer until a window opens or closes: the clock may be set, and the machine may sleep.

// limitsInterval is how often the job looks whether an action that is under way has to end, or may.
const limitsInterval = 200 * time.Millisecond

var (
	// errHeldTooLong ends the wait of a job that is parked, because it has held garbage collection for as long as it may.
	errHeldTooLong = errors.New("ddl: garbage collection was held for long enough")
	// errNotNow says that the job's settings do not permit a schema change at the moment.
	errNotNow = errors.New("ddl: the settings of the job do not permit this now")
)

// limit passes the limits of this moment to the machine.
func (t *task) limit() { t.machine.Limit(t.ownSettings().Limits(t.d.opts.Now())) }

// cutShort says why an action that is under way has to end, nil if it has not.
func (t *task) cutShort(act job.Action) error {
	t.limit()
	if t.machine.Ends(act) {
		return errInterrupted
	}
	r := t.machine.Record()
	if r.Parked(act) && t.keeper.Load() != nil && r.GivesUpHold(t.d.opts.Now(), t.maxHold()) {
		return errHeldTooLong
	}
	return nil
}

// maxHold is how long the job may hold garbage collection while it is parked.
func (t *task) maxHold() time.Duration {
	return t.ownSettings().HoldAtMost(t.d.opts.Globals.Duration(config.DDLMaxHold))
}

// maySchemaChange fails with errNotNow if the settings, as the transaction sees them, do not permit the schema version that is about to be
// written: those that the job knows may be older, and what changes them writes the same row.
func (t *task) maySchemaChange(x *session.Txn, after *job.Record, from job.Step) error {
	if !from.Revertible() || after.RollingBack() {
		return nil
	}
	_, settings, err := records.Read(x, t.id)
	if err != nil {
		return err
	}
	limits := settings.Limits(t.d.opts.Now())
	if limits.Closed || limits.Unpublished && after.Step == job.StepPublic {
		return errNotNow
	}
	return nil
}

// awaitWindow waits until the window opens, which ends the action.
func (t *task) awaitWindow(ctx context.Context, r *job.Record) error {
	defer t.view.SetWait("")
	return t.waiting(ctx, func(ctx context.Context) error {
		for {
			t.view.SetWait(t.ownSettings().WaitForWindow(t.d.opts.Now()) + r.BeginsAnew())
			if !sleep.For(ctx, limitsInterval) {
				return context.Cause(ctx)
			}
		}
	})
}

// makeReady makes the job ready to be published, and releases garbage collection.
func (t *task) makeReady(ctx context.Context, r *job.Record, to job.Step) (outcome, error) {
	if err := t.sealImports(ctx, r); err != nil {
		return outcome{}, err
	}
	return t.write(ctx, to, func(_ *session.Txn, after *job.Record) error {
		after.MakeReady()
		return nil
	})
}

// awaitPublication waits until the indexes may become public, which ends the action. First it releases what the job, or an earlier owner
// or process, holds.
func (t *task) awaitPublication(ctx context.Context, r *job.Record) error {
	if err := t.releaseHold(ctx); err != nil {
		return err
	}
	t.view.SetWait(r.WaitForPublication())
	defer t.view.SetWait("")
	return t.waiting(ctx, func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

// giveUpHold releases garbage collection for a job that is parked. If it needs its S it goes back to before that. Like the loss of a hold,
// that is recorded before the job goes on.
func (t *task) giveUpHold(ctx context.Context) error {
	for attempt := int64(1); ; attempt++ {
		if err := t.settle(ctx); err != nil {
			return err
		}
		err := t.giveUpOnce(ctx)
		switch {
		case err == nil:
			return nil
		case job.IsPermanent(err):
			t.machine.Failed(err, t.d.opts.Globals.Int(config.ErrorCountLimit))
			return nil
		}
		if err := t.retryLater(ctx, "release garbage collection", attempt, err); err != nil {
			return err
		}
	}
}

func (t *task) giveUpOnce(ctx context.Context) error {
	r := t.machine.Record()
	if r.Step == job.StepReady { // what is held is for a comparison that was cut short
		return t.releaseHold(ctx)
	}
	if !t.needsHold(r) {
		if err := t.whileAnswering(ctx, func(ctx context.Context) error { return t.sealImports(ctx, r) }, func() {}); err != nil {
			return err
		}
		return t.releaseHold(ctx)
	}
	settings := t.ownSettings()
	settings.MaxHold = t.maxHold()
	o, err := t.leaveSnapshot(ctx, func(after *job.Record) { after.GiveUpSnapshot(settings) })
	if err != nil {
		return err
	}
	t.reached(o.record)
	reason := "a pause"
	if r.State != model.JobStatePaused {
		reason = "its window"
	}
	t.emit(event.SnapshotGivenUp{Job: event.Job{ID: t.id}, Schema: r.DB, Table: r.Table, Held: t.d.opts.Now().Sub(oracle.GetTimeFromTS(r.SnapshotTS)), Reason: reason})
	return t.releaseHold(ctx)
}

// countCut records that the window has cut a comparison short. Without that the job goes on all the same: it only gets one more attempt.
func (t *task) countCut(ctx context.Context) error {
	settings := t.ownSettings()
	settings.MaxHold = t.maxHold()
	after := *t.machine.Record()
	after.Revision++
	after.CutShort(settings)
	err := t.writeRecord(context.WithoutCancel(ctx), &after, func(*session.Txn) error { return nil })
	if err == nil {
		t.reached(&after)
		return nil
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	t.emit(event.Retry{Job: event.Job{ID: t.id}, Op: "count a comparison that was cut short", Attempt: 1, Err: err})
	return nil
}

// needsProtocol says that an alteration is one that nodes of the version which has queued the job do not follow.
func (t *task) needsProtocol(a *records.Alteration) bool {
	return a.Schedules() && t.machine.Record().Protocol < job.ScheduleProtocol
}

// raiseProtocol keeps the job from nodes of versions that do not follow its window and would publish it.
func (t *task) raiseProtocol(ctx context.Context) error {
	after := *t.machine.Record()
	after.Revision++
	after.Protocol = job.ScheduleProtocol
	err := t.replaceRecord(ctx, &after, func(*session.Txn) error { return nil })
	if t.machine.Record().Protocol >= job.ScheduleProtocol {
		return nil
	}
	return err
}

// reloadSettings makes the stored settings those of the job.
func (t *task) reloadSettings(ctx context.Context) error {
	if err := t.settle(ctx); err != nil {
		return err
	}
	stored, err := t.storedSettings(ctx)
	if err != nil {
		return t.retryLater(ctx, "read the settings", 1, err)
	}
	t.follow(stored)
	return nil
}

// follow makes settings those of the job.
func (t *task) follow(s job.Settings) {
	t.settingsMu.Lock()
	t.settings = s
	t.settingsMu.Unlock()
	t.live.Set(dist.LiveSettings(s))
}

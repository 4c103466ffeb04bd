package ddl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"fastddl/ddl/job"
	"fastddl/event"
	"fastddl/kv"
)

const (
	holdPrefix = "fastddl-job-"
	// releaseTTL is the life of a hold that is taken over only to be released.
	releaseTTL = time.Minute
	// lateTTL is how long garbage collection is held at S after the end of a job on a cluster.
	// The leaders have taken what was imported, but each replica collects garbage by itself:
	// one that has not applied the import yet must not lose a tombstone that is newer than S,
	// or what is imported comes back to life there.
	lateTTL = 10 * time.Minute
)

// holdName is the name of a job's hold. Each owner of a job has one of its own, so that a
// late owner does not move that of the next.
func holdName(r *job.Record) string {
	name := holdPrefix + strconv.FormatInt(r.ID, 10)
	if r.Epoch > 0 {
		name += "-" + strconv.FormatInt(r.Epoch, 10)
	}
	return name
}

// lateMark is in the names of holds at an S that its job has given up.
const lateMark = "-at-"

// holdAfter keeps the hold at S on a cluster for lateTTL beside that at the S which the job
// takes next: what was imported may still be on its way to replicas, see there.
func (t *task) holdAfter(ctx context.Context, r *job.Record) error {
	if !t.d.clustered() || r.SnapshotTS == 0 {
		return nil
	}
	return t.holdLate(ctx, holdName(r)+lateMark+strconv.FormatUint(r.SnapshotTS, 10), r.SnapshotTS)
}

// holdLate takes a hold that is not renewed, unless garbage collection has passed S.
func (t *task) holdLate(ctx context.Context, name string, ts uint64) error {
	_, err := t.d.opts.Builds.HoldGC(ctx, name, ts, lateTTL)
	if err != nil && !errors.Is(err, kv.ErrSnapshotTooOld) {
		return fmt.Errorf("hold GC for late replicas: %w", err)
	}
	return nil
}

// jobOfHold returns the job that a hold belongs to.
func jobOfHold(name string) (jobID int64, ok bool) {
	digits, found := strings.CutPrefix(name, holdPrefix)
	digits, _, _ = strings.Cut(digits, "-")
	id, err := strconv.ParseInt(digits, 10, 64)
	return id, found && err == nil
}

// releaseHolds releases those holds of jobs that are not to be kept.
func (d *DDL) releaseHolds(ctx context.Context, holds map[string]uint64, keep func(jobID int64) bool) error {
	for name, ts := range holds {
		id, ok := jobOfHold(name)
		if !ok || keep(id) {
			continue
		}
		hold, err := d.opts.Builds.HoldGC(ctx, name, ts, releaseTTL)
		if errors.Is(err, kv.ErrSnapshotTooOld) {
			continue // it is not in force any more
		}
		if err == nil {
			err = hold.Release(ctx)
		}
		if err != nil {
			return fmt.Errorf("release GC hold %s: %w", name, err)
		}
	}
	return nil
}

// errHoldLost says that garbage collection has passed S.
var errHoldLost = errors.New("ddl: garbage collection has passed the job's snapshot")

// safepointKeeper holds garbage collection for one job and renews the hold until it is
// dropped, in all actions and waits of the job.
type safepointKeeper struct {
	hold kv.GCHold
	stop context.CancelFunc
	done chan struct{}
}

// holdAt makes garbage collection keep what a snapshot at ts needs, in place of what
// the job held before. It fails with errHoldLost if that is gone already.
func (t *task) holdAt(ctx context.Context, ts uint64) error {
	hold, err := t.d.opts.Builds.HoldGC(ctx, holdName(t.shown.Load()), ts, t.d.opts.HoldTTL)
	if errors.Is(err, kv.ErrSnapshotTooOld) {
		return errHoldLost
	}
	if err != nil {
		return fmt.Errorf("hold GC: %w", err)
	}
	t.stopKeeper()
	keepCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	k := &safepointKeeper{hold: hold, stop: stop, done: make(chan struct{})}
	t.keeper.Store(k)
	go t.keep(keepCtx, k)
	return nil
}

// keep renews a hold until ctx ends. When the hold is lost it sends the keeper to t.lost: the task receives that
// also if it has taken the hold in the action that is under way.
func (t *task) keep(ctx context.Context, k *safepointKeeper) {
	defer close(k.done)
	err := t.d.contained("renewal of the GC hold", func() error {
		return kv.KeepHold(ctx, k.hold, t.d.opts.HoldTTL, func(attempt int, err error) {
			t.emit(event.Retry{Job: event.Job{ID: t.id}, Op: "renew GC hold", Attempt: attempt, Err: err})
		})
	})
	if err != nil {
		select {
		case t.lost <- k:
		case <-ctx.Done():
		}
	}
}

// stopKeeper ends the renewal; the hold stays until it expires.
func (t *task) stopKeeper() {
	if k := t.keeper.Swap(nil); k != nil {
		k.stop()
		<-k.done
	}
}

// dropHold releases the job's hold, also one that an earlier process took. After an import
// into a cluster it lets it expire instead.
func (t *task) dropHold(ctx context.Context, r *job.Record) error {
	t.stopKeeper()
	late := ""
	if t.d.clustered() && r.MayHaveImported() && !r.RollingBack() {
		late = holdName(r)
		if err := t.holdLate(ctx, late, r.SnapshotTS); err != nil {
			return err
		}
	}
	return t.releaseOwn(ctx, func(name string) bool { return name == late || !r.RollingBack() && strings.Contains(name, lateMark) })
}

// releaseOwn releases the job's holds but for those that are to expire.
func (t *task) releaseOwn(ctx context.Context, expires func(name string) bool) error {
	holds, err := t.d.opts.Builds.GCHolds(ctx)
	if err != nil {
		return fmt.Errorf("list GC holds: %w", err)
	}
	maps.DeleteFunc(holds, func(name string, _ uint64) bool { return expires(name) })
	return t.d.releaseHolds(ctx, holds, func(id int64) bool { return id != t.id })
}

// releaseHold releases the job's hold, of which nothing at S depends any more. On a cluster the store has refused late imports before, see
// sealImports.
func (t *task) releaseHold(ctx context.Context) error {
	t.stopKeeper()
	return t.releaseOwn(ctx, func(name string) bool { return strings.Contains(name, lateMark) })
}

// sealImports makes sure that no import at S comes any more, though garbage collection is not held at it: the store of a cluster refuses
// late ones, and replicas have lateTTL to apply the others. Regions are split once for each S, unless the job imports again.
func (t *task) sealImports(ctx context.Context, r *job.Record) error {
	if !t.d.clustered() || r.SnapshotTS == 0 {
		return nil
	}
	if err := t.holdAfter(ctx, r); err != nil {
		return err
	}
	if store, ok := t.d.opts.Builds.(kv.Fencer); ok && t.sealedTS != r.SnapshotTS {
		if err := t.FenceOnce(ctx, store, r); err != nil {
			return fmt.Errorf("fence off late imports: %w", err)
		}
		t.sealedTS = r.SnapshotTS
	}
	return t.holdAfter(ctx, r) // from now on: the store may have taken long
}

// needsHold says that the job cannot go on with its S if garbage collection has passed it. Only stores of
// clusters have records that hide others.
func (t *task) needsHold(r *job.Record) bool { return r.NeedsHold(t.d.clustered()) }

// keepsS says that garbage collection is held at S until the indexes are public, or
// nothing of them is left: on a cluster it is the word of others that no import at S can
// come any more. Before indexes wait for their publication late imports are fenced off instead.
func (t *task) keepsS(r *job.Record) bool {
	return t.d.clustered() && r.SnapshotTS != 0 && r.Step != job.StepReady && (r.Step.Revertible() || r.RollingBack())
}

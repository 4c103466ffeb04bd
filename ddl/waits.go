package ddl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fastddl/ddl/job"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/internal/sleep"
)

const (
	// turnInterval is how often a job that waits for one of TiDB's looks again at first. The longer
	// it has waited the less often it does, up to maxTurnInterval.
	turnInterval, maxTurnInterval = 100 * time.Millisecond, time.Second
	// olderWait is how long the import waits for transactions that began before S. It is a
	// courtesy: optimistic ones that are left may fail with error 9007.
	olderWait = 5 * time.Second
	// olderInterval is how often they are looked at, at first. It doubles up to
	// maxOlderInterval.
	olderInterval, maxOlderInterval = time.Millisecond, 50 * time.Millisecond
)

// awaitTurn waits until no earlier job has the table.
func (t *task) awaitTurn(ctx context.Context, r *job.Record) error {
	defer t.view.SetWait("")
	began := time.Now()
	for {
		ahead, err := schema.JobAhead(ctx, t.d.sessions, r)
		if err != nil || ahead == 0 {
			return err
		}
		t.view.SetWait(fmt.Sprintf("job %d, which is before it", ahead))
		// Many may wait, and the queue be long: it is read whole only when that one is gone.
		for there := true; there; {
			nudged := t.d.nudged()
			if there, err = schema.IsQueued(ctx, t.d.sessions, ahead); err != nil {
				return err
			}
			pause := min(max(turnInterval, time.Since(began)/10), maxTurnInterval)
			if there && !sleep.Unless(ctx, pause, nudged) {
				return context.Cause(ctx)
			}
		}
	}
}

// awaitVersion waits until no transaction uses a schema version before the record's.
func (t *task) awaitVersion(ctx context.Context, r *job.Record) error {
	if err := t.d.waits.ShowingBlockers(ctx, r, &t.view, func(ctx context.Context) error { return t.d.versions.Await(ctx, r) }); err != nil {
		return err
	}
	return t.inOwnTxn(context.WithoutCancel(ctx), func(x *session.Txn) error { return schema.ForgetVersion(x, r) })
}

// awaitImports waits until no IMPORT INTO is under way into the job's table. It does not use the table as far as the
// metadata lock knows (skipLockMDL in pkg/planner/core/preprocess.go), and makes its files by the schema that it has begun
// with: rows that it brought in after S would have no entries. What it brings in before S is scanned. One that stands in TiDB's queue has
// ended, or waits for this job.
func (t *task) awaitImports(ctx context.Context, r *job.Record) error {
	if t.d.opts.QueuedImports {
		return nil
	}
	defer t.view.SetWait("")
	if t.d.clustered() {
		t.view.SetWait("other servers to say what they import") // one may hang
	}
	what, err := t.d.waits.ImportInto(ctx, r.TableID)
	if err != nil || what == "" {
		return err
	}
	return t.waiting(ctx, func(ctx context.Context) error {
		for ; what != "" && err == nil; what, err = t.d.waits.ImportInto(ctx, r.TableID) {
			t.view.SetWait(what)
			if !sleep.For(ctx, maxTurnInterval) {
				return context.Cause(ctx)
			}
		}
		return err
	})
}

// awaitOlder waits for transactions that began before S and use the table, though not for
// ever. Those that lock do not mind that version S comes under their keys; an optimistic one
// would fail for a conflict that no statement has caused. What it does not see, internal sessions
// and transactions that use the table only later, is not waited for.
func (t *task) awaitOlder(ctx context.Context, r *job.Record) error {
	ctx, cancel := context.WithTimeoutCause(ctx, olderWait, errOlderLeft)
	defer cancel()
	err := t.d.waits.ShowingBlockers(ctx, r, &t.view, func(ctx context.Context) error {
		for pause := olderInterval; t.d.waits.HasOlder(ctx, r.TableID, r.SnapshotTS); pause = min(2*pause, maxOlderInterval) {
			if !sleep.For(ctx, pause) {
				return context.Cause(ctx)
			}
		}
		return nil
	})
	if errors.Is(context.Cause(ctx), errOlderLeft) {
		return nil
	}
	return err
}

// errOlderLeft ends the wait before the import.
var errOlderLeft = errors.New("ddl: waited long enough for transactions that began before the snapshot")

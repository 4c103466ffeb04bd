package simulation

import (
	"errors"
	"slices"

	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ddl/job"
)

// metadata is what a transaction on system tables depends on.
type metadata struct {
	job, revision int64
	row, version  int
}

func (w *world) metadata() metadata {
	m := metadata{revision: -1, version: w.newest()}
	if w.stored != nil {
		m.job, m.revision = w.stored.ID, w.stored.Revision
	}
	if w.queueRow.present {
		m.row = w.queueRow.id
	}
	return m
}

// writeAtOnce is write without another event in between.
func (b *builder) writeAtOnce(to job.Step, change func(after *job.Record) error) (after *job.Record, done bool, err error) {
	for range 2 {
		if after, done, err = b.write(to, change); done {
			return after, done, err
		}
	}
	b.after = nil
	return nil, true, errInjected
}

// write makes the record of a step durable, with what change does, in one optimistic
// transaction over two events.
func (b *builder) write(to job.Step, change func(after *job.Record) error) (_ *job.Record, done bool, err error) {
	w := b.w
	if b.after == nil {
		if w.takeFault(faultBefore) {
			return nil, true, errInjected
		}
		if b.after, err = b.prepare(to); err != nil {
			b.after = nil
			return nil, true, err
		}
		b.read = w.metadata()
		return nil, false, nil
	}
	if w.metadata() != b.read || w.queueRow.locked != nil {
		b.after = nil // a conflict: from the start
		return nil, false, nil
	}
	after := b.after
	b.after = nil
	if err := change(after); err != nil {
		return nil, !errors.Is(err, errRetry), err
	}
	w.checkWriter(b, after)
	b.apply(after)
	w.trace("builder %d: the job is at %q, revision %d", b.id, after.Step, after.Revision)
	if w.takeFault(faultAfter) {
		return nil, true, errInjected
	}
	return after, true, nil
}

// prepare begins the transaction: it looks whether the job is still the builder's.
func (b *builder) prepare(to job.Step) (*job.Record, error) {
	w := b.w
	after := b.m.Prepare(to)
	if w.stored == nil || w.stored.ID != after.ID || w.stored.Revision != after.Revision-1 {
		if w.stored == nil || w.stored.ID != after.ID || !w.broken(recordsOverwritten) {
			w.injected++ // by another builder
			return nil, errLost
		}
	}
	if to == job.StepFinished || w.queueRow.present && w.queueRow.id == int(after.RowID) {
		return after, nil
	}
	before := b.m.Record()
	public := !before.Step.Revertible() && !before.RollingBack() && !w.broken(publicJobGivesUp)
	if !after.RollingBack() && !public && !w.broken(takenRowIgnored) {
		return nil, job.Permanent(dbterror.ErrCancelledDDLJob.FastGenByArgs())
	}
	if !w.broken(undoneWithoutRow) && (public || after.RollingBack()) {
		after.RowID = int64(w.nextID())
	}
	return after, nil
}

// apply is the commit of the record.
func (b *builder) apply(after *job.Record) {
	w := b.w
	if after.Step == job.StepFinished {
		w.archived[after.ID] = clone(after)
		w.stored = nil
		if !w.broken(rowStays) {
			w.queueRow = queueRow{}
		}
		return
	}
	w.stored = clone(after)
	if !w.queueRow.present && int(after.RowID) != b.read.row && !w.broken(undoneWithoutRow) && !w.broken(takenRowIgnored) {
		w.queueRow = queueRow{present: true, id: int(after.RowID)}
	}
}

func clone(r *job.Record) *job.Record {
	c := *r
	c.IndexIDs = slices.Clone(r.IndexIDs)
	return &c
}

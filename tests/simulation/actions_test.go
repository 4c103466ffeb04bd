package simulation

import (
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ddl/job"
)

var onTable = []model.InvolvingSchemaInfo{{Database: "d", Table: "t"}}

// hasTurn says that no earlier job has the table.
func (b *builder) hasTurn() bool {
	w := b.w
	if o := &w.owner; o.job != 0 && o.sameTable {
		w.queue[0] = job.Queued{ID: int64(o.job), Involving: onTable}
		return job.Ahead(w.queue[:], b.m.Record().RowID, onTable) == 0
	}
	return true
}

// awaitVersion says that all servers have reported the record's version.
func (b *builder) awaitVersion() bool { return b.w.synced(int(b.m.Record().SchemaVersion)) }

// awaitOlder says that no transaction is left that began before S and uses the table, or
// that it was waited long enough for.
func (b *builder) awaitOlder(c *choice) bool {
	w, s := b.w, timestamp(b.m.Record().SnapshotTS)
	older := func(t *txn) bool { return t.server != nil && t.pinned != 0 && t.start < s }
	if !slices.ContainsFunc(w.txns, older) {
		return true
	}
	if c.oneIn(12) {
		w.olderLeft = true
		w.trace("builder %d does not wait any longer", b.id)
		return true
	}
	return false
}

// changeSchema writes the schema of the next step and publishes it.
func (b *builder) changeSchema() (*job.Record, bool, error) {
	w := b.w
	return b.write(b.to, func(after *job.Record) error {
		if !w.schema[w.newest()].diff && w.ownerIsBusy() && !w.broken(missingDiffPassed) {
			return errRetry
		}
		change := b.act == job.ActChangeSchema
		if len(after.IndexIDs) == 0 && change && !after.RollingBack() {
			for _, k := range w.wanted {
				after.IndexIDs = append(after.IndexIDs, int64(w.allocateIndex(k, int(after.ID))))
			}
		}
		v := w.addVersion(true)
		after.SchemaVersion = int64(w.newest())
		if !change {
			return nil
		}
		for _, id := range after.IndexIDs {
			b.changeIndex(int(id), after, v)
		}
		for _, change := range after.Changes {
			b.dropIndex(int(change.IndexIDs[0]), after, v)
		}
		switch after.Step {
		case job.StepWriteOnly:
			w.writeOnlyTS = v.ts
		case job.StepWriteReorg:
			w.reorgTS = v.ts
		}
		return nil
	})
}

// changeIndex makes an index what it is at the record's step.
func (b *builder) changeIndex(i int, after *job.Record, v *schemaVersion) {
	w := b.w
	before := v.states[i]
	v.states[i] = stateOf(after.SchemaState())
	switch {
	case v.states[i] == public && before != public:
		w.indexes[i].published, w.indexes[i].checked = v.ts, v.ts
		w.trace("index %d is published at %d", i, v.ts)
		if !w.indexes[i].complete {
			w.fail("I5", "index %d is published before its entries are imported", i)
		}
	case v.states[i] != public && before == public:
		w.fail("I5", "index %d was public and is %s", i, v.states[i])
	case after.Step == job.StepUndone && !w.broken(entriesForgotten):
		w.store.ranges = append(w.store.ranges, deleteRange{index: i, ts: v.ts})
	}
}

// dropIndex makes an index that the statement drops what it is at the record's step.
func (b *builder) dropIndex(i int, after *job.Record, v *schemaVersion) {
	w := b.w
	before := v.states[i]
	v.states[i] = stateOf(after.DropState())
	switch {
	case before == public && v.states[i] != public:
		w.trace("index %d is dropped at %d", i, v.ts)
		w.checkSnapshots(promise, i, max(w.indexes[i].published, w.indexes[i].checked))
	case after.Step == job.StepDropped:
		w.store.ranges = append(w.store.ranges, deleteRange{index: i, ts: v.ts})
	}
}

// allocateIndex returns the ID of a new index. No ID comes twice.
func (w *world) allocateIndex(k kind, jobID int) int {
	if w.broken(idsUsedAgain) {
		for i := range w.indexes {
			if w.indexes[i].kind == k && w.schema[w.newest()].states[i] == none {
				w.indexes[i] = index{kind: k, job: jobID}
				return i
			}
		}
	}
	return w.newIndex(k, jobID)
}

// holdAt takes the job's hold in place of the one it had.
func (b *builder) holdAt(ts timestamp) bool {
	w := b.w
	if w.broken(nothingHeld) {
		return true
	}
	if !w.store.holdAt(int(b.m.Record().ID), ts, holdTTL) {
		return false
	}
	b.keeper, b.lost, b.holdTS = true, false, ts
	w.kept = w.store.ticks
	return true
}

// keeperEvent renews a builder's hold.
func (w *world) keeperEvent(b *builder) {
	if b == nil || !b.alive {
		return
	}
	w.kept = w.store.ticks
	if !b.keeper || b.lost {
		return
	}
	if w.broken(holdNotRenewed) {
		return
	}
	renewed, replaced := w.store.renew(int(b.m.Record().ID), b.holdTS, holdTTL)
	if !renewed && !replaced {
		b.lost = true
		w.trace("builder %d has lost its hold", b.id)
	}
}

// takeSnapshot takes S, when nothing can commit at or below it any more, and holds it
// before it is recorded.
func (b *builder) takeSnapshot() (*job.Record, bool, error) {
	w := b.w
	switch b.phase {
	case 0:
		b.fill = fill{s: w.store.now()}
		if w.broken(snapshotBeforeTheWait) {
			b.fill.s = max(w.writeOnlyTS, w.store.safePoint)
		}
		b.phase++
		return nil, false, nil
	case 1:
		if w.barrier(b.fill.s) {
			b.phase++
		}
		return nil, false, nil
	case 2:
		if !b.holdAt(b.fill.s) {
			return nil, true, errHoldLost
		}
		b.phase++
		return nil, false, nil
	}
	return b.write(b.to, func(after *job.Record) error {
		after.SnapshotTS = uint64(b.fill.s)
		w.trace("builder %d: S is %d", b.id, b.fill.s)
		w.checkSnapshot(after)
		if w.broken(holdDroppedEarly) {
			w.store.release(int(after.ID))
			b.keeper = false
		}
		return nil
	})
}

// finish cleans up after the job and moves it to the history.
func (b *builder) finish() (*job.Record, bool, error) {
	w := b.w
	id := b.m.Record().ID
	switch b.phase {
	case 0:
		if !w.broken(filesStay) {
			w.files[id] = false
		}
		b.phase++
		return nil, false, nil
	case 1:
		b.keeper = false
		if !w.broken(holdStays) {
			w.store.release(int(id))
		}
		b.phase++
		return nil, false, nil
	}
	return b.write(b.to, func(after *job.Record) error {
		w.checkEnd(after)
		return nil
	})
}

package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"

	"fastddl/ddl/job"
)

// promise stands for the promise in place of an invariant: it is unknown which one.
const promise = "promise"

// violation is what a history has broken.
type violation struct {
	// invariant is I1 to I8, or promise.
	invariant, text string
}

func (v *violation) String() string { return v.invariant + ": " + v.text }

// fail records that an invariant is broken, unless only the promise is looked at.
func (w *world) fail(invariant, format string, args ...any) {
	if !w.promiseOnly {
		w.failPromise(invariant, format, args...)
	}
}

// failPromise records that the promise is broken, and the invariant that the symptom
// points to.
func (w *world) failPromise(invariant, format string, args ...any) {
	if w.violation == nil {
		w.violation = &violation{invariant, fmt.Sprintf(format, args...)}
		w.trace("BROKEN: %s", w.violation)
	}
}

// rowCommit is a change of a row that was committed.
type rowCommit struct {
	ts timestamp
	h  int8
	a  int8
}

func (w *world) rowCommitted(h int, ts timestamp, r row) {
	a := int8(-1)
	if r.exists {
		a = r.a
	}
	w.rowLog = append(w.rowLog, rowCommit{ts, int8(h), a})
	if ts <= w.scanned {
		w.fail("I2", "a row is committed at %d, after the scan at S = %d", ts, w.scanned)
	}
}

// checkStates checks that a transaction that commits uses no state older than the one
// before the current.
func (w *world) checkStates(t *txn) {
	if t.server == nil || t.pinned == 0 {
		return
	}
	now := &w.schema[w.newest()].states
	for i := range w.indexes {
		used, current := w.schema[t.pinned].states[i], now[i]
		switch {
		case used == current:
		case used < current && current-used > 1, used > current && level(used)-level(current) > 1:
			w.fail("I1", "txn %d commits writes of index %d in state %s while it is %s", t.id, i, used, current)
		}
	}
}

// level distinguishes states that differ for DML.
func level(s state) state {
	if s >= writeReorg {
		return s - 1
	}
	return s
}

// checkSnapshot checks that no transaction uses the table below write-reorg when S is taken.
func (w *world) checkSnapshot(after *job.Record) {
	s := timestamp(after.SnapshotTS)
	if w.firstS == 0 {
		w.firstS = s
	}
	if s < w.reorgTS {
		w.fail("I2", "S = %d is before the publication of write-reorg at %d", s, w.reorgTS)
	}
	w.olderLeft = false
	for _, id := range after.IndexIDs {
		for _, t := range w.txns {
			if t.server != nil && t.pinned != 0 && w.schema[t.pinned].states[id] < writeReorg {
				w.fail("I2", "S is taken while txn %d uses index %d in state %s", t.id, id, w.schema[t.pinned].states[id])
			}
		}
		for _, sv := range w.servers {
			if sv.alive && w.schema[sv.loaded].states[id] < writeReorg {
				w.fail("I2", "S is taken while server %d has index %d in state %s", sv.id, id, w.schema[sv.loaded].states[id])
			}
		}
	}
}

// built checks the plain indexes of a build that has ended, at every snapshot since S.
func (w *world) built(after *job.Record) {
	s := timestamp(after.SnapshotTS)
	for _, id := range after.IndexIDs {
		w.indexes[id].complete = true
		if w.indexes[id].kind != uniqueA {
			w.checkSnapshots("I3", int(id), s)
		}
	}
}

// checkSnapshots compares an index with the rows at all snapshots that differ from a
// timestamp on.
func (w *world) checkSnapshots(invariant string, i int, from timestamp) {
	if w.violation != nil {
		return
	}
	from = max(from, w.store.safePoint)
	w.compareAt(invariant, i, from)
	for _, c := range w.rowLog {
		if c.ts > from && w.violation == nil {
			w.compareAt(invariant, i, c.ts)
		}
	}
}

func (w *world) compareAt(invariant string, i int, at timestamp) {
	d, differs := w.difference(i, at)
	switch {
	case !differs:
	case invariant == promise:
		w.failPromise(promise, "at %d %s has %d, and %d rows give it an entry: %v", at, describe(d.key), d.actual, d.claimCount, d.claims)
	default:
		w.fail(invariant, "at %d %s has %d, and %d rows give it an entry: %v", at, describe(d.key), d.actual, d.claimCount, d.claims)
	}
}

// checkRead checks what a statement reads through an index.
func (w *world) checkRead(i int, at timestamp) {
	w.reads++
	if published := w.indexes[i].published; published == 0 || at < published {
		w.fail("I5", "index %d is read at %d, and was published at %d", i, at, published)
	}
	if w.violation == nil {
		w.compareAt(promise, i, at)
	}
}

// checkAssertion checks what TiDB asserts of entries of public indexes.
func (w *world) checkAssertion(t *txn, e *write) {
	if e.assert == assertNothing {
		return
	}
	exists := w.store.get(e.key, w.store.clock) != 0
	if exists != (e.assert == assertExists) {
		w.failPromise(promise, "an assertion of txn %d on %s fails: it exists: %v", t.id, describe(e.key), exists)
	}
}

// conflict checks a write conflict. An import must not be its reason for a transaction
// that used the table before S.
func (w *world) conflict(t *txn, k key, newest timestamp) {
	if k < handles || w.olderLeft || t.pinnedAt == 0 {
		return
	}
	if s := w.indexes[indexOf(k)].imported; s == newest && t.pinnedAt < s {
		w.fail("I3", "txn %d, which used the table before S = %d, conflicts with the import", t.id, s)
	}
}

// checkTurn checks that TiDB does not change a table while a job of ours does.
func (w *world) checkTurn() {
	if r := w.stored; r != nil && r.Step != job.StepQueued && !w.rowTaken[r.ID] {
		w.fail("I8", "TiDB's job %d and ours, %d, change the table together", w.owner.job, r.ID)
	}
}

// checkWriter checks that who writes a job's record has seen the one it replaces, and
// that the job has its row.
func (w *world) checkWriter(b *builder, after *job.Record) {
	if r := b.m.Record(); w.stored != nil && r.Revision != w.stored.Revision {
		w.fail("I8", "builder %d overwrites revision %d of the record and knows %d", b.id, w.stored.Revision, r.Revision)
	}
	if after.Step == job.StepFinished {
		return
	}
	if !w.queueRow.present && !after.RollingBack() && b.m.Record().Step.Revertible() {
		w.fail("I8", "builder %d goes on to %q though the job's row was taken", b.id, after.Step)
	}
	if after.RollingBack() && !w.queueRow.present && w.broken(undoneWithoutRow) {
		w.fail("I8", "builder %d undoes a job that has no row in the queue", b.id)
	}
	if o := &w.owner; after.Step == job.StepDeleteOnly && o.job != 0 && o.sameTable && o.job < int(after.RowID) {
		w.fail("I8", "builder %d changes the table while it is the turn of job %d", b.id, o.job)
	}
}

// checkRepair checks that a repair was of the job that the builder has, and that the key
// is what the rows give now.
func (w *world) checkRepair(b *builder, d *difference) {
	at := b.cmp.repair.commit
	w.eachDifference(d.index, at, func(x difference) {
		if x.key == d.key && x.claimCount < 2 && len(b.cmp.repair.buffer) > 0 {
			w.fail("I6", "at %d, after its repair, %s has %d, and %d rows give it an entry", at, describe(x.key), x.actual, x.claimCount)
		}
	})
	if !w.queueRow.present || w.queueRow.id != int(b.m.Record().RowID) {
		w.fail("I8", "builder %d repairs an index of a job that is not its own any more", b.id)
	}
}

// checkEnd checks how a job ends: as it was asked, or for a reason that was there.
func (w *world) checkEnd(after *job.Record) {
	for _, t := range w.txns {
		if t.server != nil && t.pinned != 0 && t.pinned < int(after.SchemaVersion) && w.usesIndexes(t, after) {
			w.fail("I7", "the job ends while txn %d writes its indexes", t.id)
		}
	}
	w.ends[endOf(after)]++
	if after.State == model.JobStateSynced {
		if w.cancelled[after.ID] {
			w.fail("I7", "a cancel was accepted, and the job has published its indexes")
		}
		return
	}
	code := 0
	if after.Error != nil {
		code = int(after.Error.Code())
	}
	switch {
	case w.cancelled[after.ID] || w.rowTaken[after.ID]:
	case code == mysql.ErrDupEntry:
		for _, d := range after.Duplicates {
			w.checkDuplicate(d)
		}
	case after.Error == nil:
		w.failPromise(promise, "the job has failed without an error")
	case w.injected+2*w.lapses > errorLimit:
	case w.replaced && (w.refused > 0 || after.Error.GetMsg() == errLost.Error()):
		// Two builders have taken the hold from each other, or the record.
	default:
		w.failPromise(w.blame(after.Error.GetMsg()), "the job fails for nothing: %s", after.Error.GetMsg())
	}
}

// blame names the invariant that the end of a job points to.
func (w *world) blame(message string) string {
	switch {
	case w.refused > 0:
		return "I4"
	case message == errMismatch.Error():
		return "I3"
	case message == errUnequal.Error():
		return "I6"
	}
	return promise
}

func (w *world) usesIndexes(t *txn, r *job.Record) bool {
	for _, id := range r.IndexIDs {
		if w.schema[t.pinned].states[id] != w.schema[w.newest()].states[id] {
			return true
		}
	}
	return false
}

// checkDuplicate checks that two rows had a value at one snapshot since S.
func (w *world) checkDuplicate(d job.Duplicate) {
	value, _ := strconv.Atoi(d.Entry)
	log := slices.Clone(w.rowLog)
	slices.SortStableFunc(log, func(x, y rowCommit) int { return cmp.Compare(x.ts, y.ts) })
	var a [handles]int8
	for i := range a {
		a[i] = -1
	}
	for i, c := range log {
		a[c.h] = c.a
		if i+1 < len(log) && (log[i+1].ts == c.ts || log[i+1].ts <= w.firstS) {
			continue
		}
		n := 0
		for _, x := range a {
			if int(x) == value {
				n++
			}
		}
		if n > 1 {
			return
		}
	}
	w.failPromise(promise, "1062 for the value %d, which no two rows had at any snapshot since S", value)
}

// checkLeftovers checks, when all is over and garbage collected, that nothing of jobs
// is left but what was published.
func (w *world) checkLeftovers() {
	final := &w.schema[w.newest()].states
	for i := range w.indexes {
		switch final[i] {
		case public:
			continue
		case none:
		default:
			w.fail("I7", "index %d is %s for ever", i, final[i])
		}
		from, to := indexKeys(i)
		for k := from; k < to; k++ {
			// A LOCK record is no entry: a transaction that a server still executes as delete-only
			// may leave one when the range is deleted already. TiKV collects it, the model does not.
			if slices.ContainsFunc(w.store.versions[k], func(v version) bool { return !v.lock }) {
				w.fail("I7", "%s is left of a job that has ended", describe(k))
			}
		}
	}
	if w.queueRow.present {
		w.fail("I7", "the job's row stays in the queue")
	}
	for id, there := range w.files {
		if there && !w.replaced { // a builder that was replaced can only leave them
			w.fail("I7", "files of job %d are left", id)
		}
	}
	if len(w.store.holds) > 0 && !w.replaced {
		w.fail("I7", "a hold of job %d is left", w.store.holds[0].name)
	}
}

package simulation

import (
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ddl/job"
)

const (
	// maxComparisons and maxRepairTries are the bounds of package ddl, smaller.
	maxComparisons = 20
	maxRepairTries = 6
)

// The phases of a comparison.
const (
	takingT = iota
	waitingForT
	holdingT
	comparing
	fencing
	lockingRows
	lockingKey
	deciding
	committing
	goingBack
	recordingComparison
)

// difference is a key of an index that is not what the rows at T give.
type difference struct {
	index  int
	key    key
	actual int16
	// shadowed: no row gives it anything, and a LOCK record hides an entry.
	shadowed bool
	// claims are the rows that give the key a value.
	claims     [handles]bool
	claimCount int
}

// compare is a comparison of indexes with rows that is under way.
type compare struct {
	t           timestamp
	rounds      int
	differences []difference
	tries       int
	// repair is the transaction that repairs the first of the differences.
	repair *txn
	// duplicates are keys that two rows have.
	duplicates []difference
}

// giveUp rolls back the repair that is open.
func (p *compare) giveUp(w *world) {
	if p.repair == nil {
		return
	}
	if w.queueRow.locked == p.repair {
		w.queueRow.locked = nil
	}
	if p.repair.state != ended {
		w.abort(p.repair)
	}
	w.recycle(p.repair)
	p.repair = nil
}

// compare compares the job's indexes with the rows at a timestamp T, and repairs them,
// until a comparison is clean.
func (b *builder) compare() (*job.Record, bool, error) {
	w, p := b.w, &b.cmp
	switch b.phase {
	case takingT:
		if p.rounds++; p.rounds == 1 {
			p.duplicates = p.duplicates[:0]
			if !w.broken(locksNotSettled) {
				w.store.settleUpTo(w.store.clock)
			}
		}
		p.t = w.store.now()
		if w.broken(comparedAtS) {
			p.t = max(timestamp(b.m.Record().SnapshotTS), w.store.safePoint)
		}
		b.phase = waitingForT
	case waitingForT:
		if w.barrier(p.t) {
			b.phase = holdingT
		}
	case holdingT:
		// Where LOCK records hide versions the hold stays at S: they are collected, and what they hid
		// is seen again. If that came between the look of a transaction and the comparison at T, the
		// comparison would not see what the transaction has not seen.
		if !w.cfg.hiding && !b.holdAt(p.t) {
			return b.endCompare(errHoldLost)
		}
		b.phase = comparing
	case comparing:
		return b.compareOnce()
	case goingBack:
		return b.verifyBuild()
	case recordingComparison:
		after, done, err := b.write(b.to, func(after *job.Record) error {
			after.Compared += int64(p.rounds)
			return nil
		})
		if done {
			p.rounds = 0
		}
		return after, done, err
	default:
		if err := b.repairStep(); err != nil {
			return b.endCompare(err)
		}
	}
	return nil, false, nil
}

func (b *builder) endCompare(err error) (*job.Record, bool, error) {
	b.cmp.giveUp(b.w)
	b.cmp.rounds = 0
	return nil, true, err
}

// compareOnce finds the differences at T.
func (b *builder) compareOnce() (*job.Record, bool, error) {
	w, p := b.w, &b.cmp
	if p.t < w.store.safePoint {
		return b.endCompare(errTooOld)
	}
	w.comparisons++
	p.differences = p.differences[:0]
	if b.unchanged() {
		w.unchanged++
		w.trace("builder %d has nothing to compare at %d", b.id, p.t)
		b.phase = recordingComparison
		return nil, false, nil
	}
	for _, id := range b.m.Record().IndexIDs {
		w.eachDifference(int(id), p.t, func(d difference) { p.differences = append(p.differences, d) })
	}
	if len(p.differences) == 0 && !w.broken(shadowsLeft) {
		for _, id := range b.m.Record().IndexIDs {
			for from, to := indexKeys(int(id)); from < to; from++ {
				if w.store.shadowed(from, p.t) {
					p.differences = append(p.differences, difference{index: int(id), key: from, shadowed: true})
				}
			}
		}
	}
	w.trace("builder %d compares at %d: %d differences", b.id, p.t, len(p.differences))
	r := b.m.Record()
	switch {
	case len(p.differences) == 0 && b.needsHold(r) && w.store.safePoint > timestamp(r.SnapshotTS):
		return b.endCompare(errHoldLost)
	case len(p.differences) == 0 || w.broken(differencesIgnored):
		b.phase = recordingComparison
	case b.m.Record().Deferred:
		b.phase = goingBack
	case p.rounds == maxComparisons:
		return b.endCompare(job.Permanent(errUnequal))
	default:
		w.repairs += len(p.differences)
		p.tries = 0
		b.phase = fencing
	}
	return nil, false, nil
}

// verifyBuild goes back to S, if that is held still: a comparison has found a difference, and
// the import was not verified.
func (b *builder) verifyBuild() (*job.Record, bool, error) {
	w := b.w
	to := job.StepSnapshot
	if b.after == nil && !b.holdAt(timestamp(b.m.Record().SnapshotTS)) {
		to = job.StepWriteReorg
	}
	after, done, err := b.write(to, func(after *job.Record) error {
		after.Compared += int64(b.cmp.rounds)
		if after.VerifyBuild(); after.Step == job.StepWriteReorg {
			after.ForgetSnapshot()
			w.checkpoint = checkpoint{}
		}
		return nil
	})
	if done {
		w.verifiedLate++
		b.cmp.rounds = 0
	}
	return after, done, err
}

// unchanged says that rows and indexes are as they were verified at S.
func (b *builder) unchanged() bool {
	w, r := b.w, b.m.Record()
	s, t := timestamp(r.SnapshotTS), b.cmp.t
	if r.Deferred || r.Leftovers && !w.broken(leftoversTrusted) || s < w.store.safePoint && !w.broken(collectedTrusted) {
		return false
	}
	if w.store.changed(0, handles, s, t) {
		return false
	}
	for _, id := range r.IndexIDs {
		if from, to := indexKeys(int(id)); w.store.changed(from, to, s, t) && !w.broken(entriesTrusted) {
			return false
		}
	}
	return true
}

// repairStep goes on with the repair of the first difference. It locks the job's row, then
// the rows concerned, then the key without waiting for it.
func (b *builder) repairStep() error {
	w, p := b.w, &b.cmp
	if len(p.differences) == 0 {
		return b.endRound()
	}
	d := &p.differences[0]
	switch b.phase {
	case fencing:
		return b.fence()
	case lockingRows:
		if !b.lockRows(d) {
			b.tryAgain()
			return nil
		}
		b.phase = lockingKey
	case lockingKey:
		if l := w.store.locks[d.key]; l != nil && l != p.repair && !w.broken(repairsWithoutLocks) {
			b.tryAgain()
			return nil
		}
		if !w.broken(repairsWithoutLocks) {
			w.lockKey(p.repair, d.key)
		}
		b.phase = deciding
	case deciding:
		b.decide(d)
		b.phase = committing
	case committing:
		b.commitRepair()
	}
	return nil
}

// owns reports whether the node still owns the job. A repair reads the job's owner and epoch
// under the lock that a takeover needs.
func (b *builder) owns() bool { return b.w.builder == b || b.w.broken(repairNotFenced) }

// fence locks the job's row in TiDB's queue, if it is still the job's.
func (b *builder) fence() error {
	w, p := b.w, &b.cmp
	if !b.owns() {
		w.trace("builder %d: the job is somebody else's", b.id)
		b.stop()
		return nil
	}
	if !w.queueRow.present || w.queueRow.id != int(b.m.Record().RowID) {
		if !w.broken(repairNotFenced) {
			return job.Permanent(dbterror.ErrCancelledDDLJob.FastGenByArgs())
		}
	}
	if w.queueRow.locked != nil {
		return nil // the repair of another builder
	}
	p.repair = w.newTxn(nil)
	p.repair.pessimistic = true
	if !w.broken(repairNotFenced) {
		w.queueRow.locked = p.repair
	}
	b.phase = lockingRows
	return nil
}

// lockRows locks the rows that claim the key, and the one that the entry names.
func (b *builder) lockRows(d *difference) bool {
	w, t := b.w, b.cmp.repair
	if w.broken(repairsWithoutLocks) {
		return true
	}
	for h := range handles {
		if d.concerns(h) && w.store.locks[rowKey(h)] != nil && w.store.locks[rowKey(h)] != t {
			return false
		}
	}
	for h := range handles {
		if d.concerns(h) {
			w.lockKey(t, rowKey(h))
		}
	}
	return true
}

// concerns says that the repair of a key depends on a row.
func (d *difference) concerns(h int) bool {
	return d.claims[h] || d.actual != 0 && ownerOf(d.key, d.actual) == h
}

// tryAgain gives all locks back; after some tries the key is left to the next round.
func (b *builder) tryAgain() {
	p := &b.cmp
	p.giveUp(b.w)
	b.phase = fencing
	if p.tries++; p.tries == maxRepairTries {
		b.nextDifference()
	}
}

func (b *builder) nextDifference() {
	p := &b.cmp
	p.differences = append(p.differences[:0], p.differences[1:]...)
	p.tries = 0
	b.phase = fencing
}

// decide looks at the rows again, under their locks, and writes what they say.
func (b *builder) decide(d *difference) {
	w, p := b.w, &b.cmp
	now := w.store.now()
	if w.broken(repairFromOldRows) {
		now = p.t
	}
	count, value := 0, int16(0)
	for h := range handles {
		r := decodeRow(w.store.get(rowKey(h), now))
		anyRow := w.broken(claimsOfTwoTimes)
		if anyRow && d.claims[h] {
			r = decodeRow(w.store.get(rowKey(h), p.t))
		}
		if !d.concerns(h) && !anyRow || !r.exists {
			continue
		}
		if e := w.entryOf(d.index, h, r); e.key == d.key {
			count++
			value = e.value
		}
	}
	actual := w.store.get(d.key, w.store.clock)
	switch {
	case count > 1 && !w.broken(firstOfTwoWins):
		p.duplicates = append(p.duplicates, *d)
	case actual != d.actual && !w.broken(writtenKeysRepaired):
		// The entry may be that of a row that is not looked at. The next comparison shows that.
	case d.shadowed:
		p.repair.set(d.key, 0, assertNothing)
		w.trace("builder %d deletes what is hidden of %s", b.id, describe(d.key))
	case actual != value:
		p.repair.set(d.key, value, assertNothing)
		w.trace("builder %d repairs %s: %d becomes %d", b.id, describe(d.key), actual, value)
	}
}

// commitRepair takes the repair's commit one step further.
func (b *builder) commitRepair() {
	w, p := b.w, &b.cmp
	if p.repair.state != active {
		w.commitStep(p.repair)
	} else if !b.owns() {
		b.tryAgain()
		return
	} else if w.prewrite(p.repair) != ok {
		b.tryAgain()
		return
	}
	if p.repair.state == ended {
		w.checkRepair(b, &p.differences[0])
		p.giveUp(w)
		b.nextDifference()
	}
}

// endRound ends the repairs of one comparison: with 1062 if rows have equal values,
// otherwise another comparison follows.
func (b *builder) endRound() error {
	p := &b.cmp
	if len(p.duplicates) > 0 {
		d := p.duplicates[0]
		return duplicate(d.index, d.key)
	}
	b.phase = takingT
	if b.w.broken(firstListBelieved) {
		b.phase = recordingComparison
	}
	return nil
}

// eachDifference calls fn with every key of an index that is not what the rows give.
func (w *world) eachDifference(i int, at timestamp, fn func(d difference)) {
	var want [indexStride]difference
	var value [indexStride]int16
	from, to := indexKeys(i)
	for h := range handles {
		r := decodeRow(w.store.get(rowKey(h), at))
		if !r.exists {
			continue
		}
		e := w.entryOf(i, h, r)
		d := &want[e.key-from]
		d.claims[h] = true
		d.claimCount++
		value[e.key-from] = e.value
	}
	for k := from; k < to; k++ {
		d := want[k-from]
		d.actual = w.store.get(k, at)
		if d.claimCount > 1 || d.actual != value[k-from] {
			d.index, d.key = i, k
			fn(d)
		}
	}
}

// difference returns the first key of an index that is not what the rows give.
func (w *world) difference(i int, at timestamp) (first difference, differs bool) {
	w.eachDifference(i, at, func(d difference) {
		if !differs {
			first, differs = d, true
		}
	})
	return first, differs
}

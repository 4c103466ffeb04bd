package simulation

import (
	"strconv"

	"github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ddl/job"
)

// rangeRows is the number of handles that a build scans and imports at a time.
const rangeRows = handles / 2

// checkpoint is how far a build has come durably.
type checkpoint struct {
	// next is the first handle that is not imported. rebuilt: what was imported first did
	// not verify.
	next    int
	rebuilt bool
}

// fill is a build that is under way.
type fill struct {
	s       timestamp
	at      checkpoint
	pending []indexEntry
	// seen are the entries of this attempt.
	seen [maxKeys]int16
	// deferred: the comparison is to check what was imported.
	deferred bool
}

type indexEntry struct {
	index int
	entry
}

// duplicate makes the error of a job that has found rows with one value.
func duplicate(index int, k key) error {
	from, _ := indexKeys(index)
	value := strconv.Itoa(int(k - from))
	return job.Permanent(&job.RowsError{
		Err:        kv.ErrKeyExists.FastGenByArgs(value, "t.i"),
		Duplicates: []job.Duplicate{{Index: strconv.Itoa(index), Entry: value, Rows: 2}},
	})
}

// The phases of a backfill.
const (
	loading = iota
	scanning
	importing
	saving
	verifying
	recording
)

// backfill imports the entries at S: range by range scan, import and checkpoint, then
// verification at S.
func (b *builder) backfill(c *choice) (*job.Record, bool, error) {
	w := b.w
	r := b.m.Record()
	s := timestamp(r.SnapshotTS)
	if b.phase != recording && w.takeFault(faultBefore) {
		return nil, true, errInjected
	}
	switch b.phase {
	case loading:
		b.fill = fill{s: s, at: w.checkpoint, pending: b.fill.pending[:0]}
		w.files[r.ID] = true
		b.phase = scanning
		if b.fill.at.next == handles {
			b.phase = verifying
		}
		if w.broken(holdMovesTooEarly) {
			b.holdAt(w.store.clock)
		}
	case scanning:
		if !w.queueRow.present || w.queueRow.id != int(r.RowID) {
			if !w.broken(takenRowIgnored) {
				return nil, true, job.Permanent(dbterror.ErrCancelledDDLJob.FastGenByArgs())
			}
		}
		return b.scan(s)
	case importing:
		return b.importSome(s, 1+c.below(3))
	case saving:
		if b.lostJob() {
			return nil, true, errLost
		}
		b.fill.at.next += rangeRows
		w.checkpoint = b.fill.at
		b.phase = scanning
		if b.fill.at.next == handles {
			b.phase = verifying
		}
	case verifying:
		return b.verify(s)
	default:
		return b.write(b.to, func(after *job.Record) error {
			w.files[r.ID] = w.broken(filesStay)
			after.Deferred = b.fill.deferred
			w.built(after)
			return nil
		})
	}
	return nil, false, nil
}

// lostJob says that the record is not the one the builder knows.
func (b *builder) lostJob() bool {
	w := b.w
	return w.stored == nil || w.stored.ID != b.m.Record().ID
}

// scan reads the rows of a range at S and encodes their entries.
func (b *builder) scan(s timestamp) (*job.Record, bool, error) {
	w := b.w
	if s < w.store.safePoint {
		w.refused++
		return nil, true, errTooOld
	}
	if !w.barrier(s) {
		return nil, false, nil
	}
	at := s
	switch {
	case w.broken(scanAnotherTime):
		at = w.store.clock
	case w.broken(lastCommitsUnseen):
		at = s - 3
	}
	f := &b.fill
	f.pending = f.pending[:0]
	for h := f.at.next; h < f.at.next+rangeRows; h++ {
		r := decodeRow(w.store.get(rowKey(h), at))
		if !r.exists {
			continue
		}
		for _, id := range b.m.Record().IndexIDs {
			e := w.entryOf(int(id), h, r)
			if old := f.seen[e.key]; old != 0 && old != e.value && !w.broken(duplicatesAtSIgnored) {
				return nil, true, duplicate(int(id), e.key)
			}
			f.seen[e.key] = e.value
			f.pending = append(f.pending, indexEntry{int(id), e})
		}
	}
	w.scanned = max(w.scanned, s)
	b.phase = importing
	return nil, false, nil
}

// importSome imports up to n entries at version S. The store refuses what is older than
// its safe point.
func (b *builder) importSome(s timestamp, n int) (*job.Record, bool, error) {
	w := b.w
	f := &b.fill
	if len(f.pending) == 0 {
		b.phase = saving
		return nil, false, nil
	}
	if s < w.store.safePoint {
		if !w.broken(lateImportsAccepted) {
			w.refused++
			return nil, true, errTooOld
		}
		w.fail("I4", "entries are imported at %d, below the safe point %d", s, w.store.safePoint)
	}
	for _, e := range f.pending[:min(n, len(f.pending))] {
		at := s
		// The store shows what was imported before this range, perhaps by another process.
		// What it has of older versions may be a row's that has lost the value since.
		old := w.store.exactly(e.key, s)
		if w.broken(storedTakenForImported) {
			old = w.store.get(e.key, s)
		}
		if f.at.next > 0 && e.distinct && old != 0 && old != e.value && !w.broken(duplicatesAtSIgnored) {
			return nil, true, duplicate(e.index, e.key)
		}
		if w.broken(importAtAnotherTime) {
			at = w.store.now()
		}
		w.store.put(e.key, version{ts: at, value: e.value})
		w.indexes[e.index].imported = s
	}
	f.pending = f.pending[min(n, len(f.pending)):]
	w.imports++
	return nil, false, nil
}

// differs says that an index is not what the rows at S give. If S was taken before, a unique
// one may have more entries than they give: the comparison at T finds those.
func (b *builder) differs(index int, s timestamp) bool {
	w, r := b.w, b.m.Record()
	entries, differs := 0, false
	w.eachDifference(index, s, func(d difference) {
		differs = true
		if d.actual != 0 {
			entries++
		}
		if d.claimCount > 0 {
			entries--
		}
	})
	if r.Leftovers && r.Compare && w.indexes[index].kind == uniqueA && entries > 0 {
		return false
	}
	return differs
}

// verify compares the entries at S with the rows at S. The first time they differ, all is
// built again, without what the checkpoint says.
func (b *builder) verify(s timestamp) (*job.Record, bool, error) {
	w := b.w
	if s < w.store.safePoint {
		w.refused++
		return nil, true, errTooOld
	}
	r := b.m.Record()
	if b.fill.deferred = w.cfg.hiding && r.Compare && !r.Differed && !r.Leftovers; b.fill.deferred {
		b.phase = recording // such a store sums up for the comparison
		return nil, false, nil
	}
	for _, id := range r.IndexIDs {
		if !b.differs(int(id), s) {
			continue
		}
		if b.fill.at.rebuilt {
			return nil, true, job.Permanent(errMismatch)
		}
		b.fill = fill{s: s, at: checkpoint{rebuilt: true}, pending: b.fill.pending[:0]}
		w.checkpoint = b.fill.at
		b.phase = scanning
		return nil, false, nil
	}
	b.phase = recording
	return nil, false, nil
}

package simulation

// stmtKind is a kind of statement.
type stmtKind uint8

const (
	sInsert stmtKind = iota
	sInsertIgnore
	sReplace
	sOnDuplicate
	sDelete
	sUpdateA
	sUpdateB
	sUpdateC
	// sMove changes the primary key of a row.
	sMove
	// sSwap gives two rows each other's a, in one statement.
	sSwap
	// sRemember selects a row, for update if the transaction is pessimistic. Statements
	// after it can take values of it.
	sRemember
	sSavepoint
	sRollbackTo
	// sSelect reads through each index that can be read.
	sSelect
)

// remembered stands for the value of the row that sRemember has read.
const remembered = -1

// stmt is a statement on rows h and h2.
type stmt struct {
	kind  stmtKind
	h, h2 int8
	a, b  int8
}

// check is how TiDB checks the uniqueness of what it inserts.
type check uint8

const (
	checkLater check = iota // when the key is locked or prewritten
	checkSkip               // it has looked already
)

// execute runs a statement against a transaction's buffer. It fails with mustWait if
// it has to read what is being committed.
func (w *world) execute(t *txn, s stmt) failure {
	h, h2 := int(s.h), int(s.h2)
	if s.a == remembered {
		if !t.memo.exists {
			return otherError
		}
		s.a = t.memo.a
	}
	switch s.kind {
	case sInsert:
		return w.insertRow(t, h, row{exists: true, a: s.a, b: s.b}, checkLater)
	case sInsertIgnore, sReplace, sOnDuplicate:
		return w.insertOver(t, s)
	case sDelete, sUpdateA, sUpdateB, sUpdateC, sRemember, sMove:
		r, f := w.readRow(t, h)
		if f != ok || !r.exists {
			return f
		}
		return w.changeRow(t, s, r)
	case sSwap:
		r, f := w.readRow(t, h)
		r2, f2 := w.readRow(t, h2)
		if f != ok || f2 != ok || !r.exists || !r2.exists || h == h2 {
			return max(f, f2)
		}
		was, was2 := r, r2
		r.a, r2.a = r2.a, r.a
		if f := w.updateRow(t, h, was, r); f != ok {
			return f
		}
		return w.updateRow(t, h2, was2, r2)
	case sSavepoint:
		if t.pessimistic && t.late {
			return otherError // 8147: TiDB has no savepoints in such a transaction
		}
		t.savepoint, t.saved = append(t.savepoint[:0], t.buffer...), true
	case sRollbackTo:
		if !t.saved {
			return otherError
		}
		t.rollBackToSavepoint()
	case sSelect:
		return w.selectByIndexes(t)
	}
	return ok
}

// changeRow runs a statement on a row that exists.
func (w *world) changeRow(t *txn, s stmt, r row) failure {
	h := int(s.h)
	after := r
	switch s.kind {
	case sDelete:
		return w.deleteRow(t, h, r)
	case sRemember:
		t.memo = r
		return ok
	case sMove:
		if s.h2 == s.h {
			return ok
		}
		if f := w.deleteRow(t, h, r); f != ok {
			return f
		}
		return w.insertRow(t, int(s.h2), r, checkLater)
	case sUpdateA:
		after.a = s.a
	case sUpdateB:
		after.b = s.b
	default:
		after.c = 1 - r.c
	}
	return w.updateRow(t, h, r, after)
}

// readRow reads a row to change it; a pessimistic statement locks it.
func (w *world) readRow(t *txn, h int) (row, failure) {
	t.want(rowKey(h))
	v, can := w.read(t, rowKey(h))
	if !can {
		return row{}, mustWait
	}
	return decodeRow(v), ok
}

// insertOver runs INSERT IGNORE, REPLACE or INSERT ON DUPLICATE KEY UPDATE: each looks
// for rows that are in the way, by the primary key and by every unique index that is
// written, and inserts without a further check.
func (w *world) insertOver(t *txn, s stmt) failure {
	h := int(s.h)
	r := row{exists: true, a: s.a, b: s.b}
	for range handles + 2 {
		other, f := w.inTheWay(t, h, r)
		if f != ok {
			return f
		}
		if other < 0 {
			return w.insertRow(t, h, r, checkSkip)
		}
		if s.kind == sInsertIgnore {
			return ok
		}
		old, f := w.readRow(t, other)
		if f != ok {
			return f
		}
		if !old.exists {
			return otherError // "old row not found"
		}
		if s.kind == sOnDuplicate {
			after := old
			after.b = s.b
			if s.h2%2 == 1 {
				after.a = s.a
			}
			return w.updateRow(t, other, old, after)
		}
		if f := w.deleteRow(t, other, old); f != ok {
			return f
		}
	}
	return otherError
}

// inTheWay returns the handle of a row that a new row would collide with, -1 if there
// is none.
func (w *world) inTheWay(t *txn, h int, r row) (int, failure) {
	old, f := w.readRow(t, h)
	if f != ok || old.exists {
		return h, f
	}
	for i := range w.indexes {
		if !w.writes(t, i) {
			continue
		}
		e := w.entryOf(i, h, r)
		if !e.distinct {
			continue
		}
		v, can := w.read(t, e.key)
		if !can {
			return 0, mustWait
		}
		if v != 0 {
			return ownerOf(e.key, v), ok
		}
	}
	return -1, ok
}

func (w *world) insertRow(t *txn, h int, r row, how check) failure {
	if f := w.putNew(t, rowKey(h), r.encode(), how, assertNothing); f != ok {
		return f
	}
	for i := range w.indexes {
		if !w.writes(t, i) {
			continue
		}
		if f := w.putEntry(t, i, w.entryOf(i, h, r), how); f != ok {
			return f
		}
	}
	return ok
}

// putEntry writes an entry. One that is not distinct is written without a check.
func (w *world) putEntry(t *txn, index int, e entry, how check) failure {
	a := assertNothing
	if w.view(t, index) == public {
		a = assertAbsent
	}
	if !e.distinct {
		t.set(e.key, e.value, a)
		return ok
	}
	return w.putNew(t, e.key, e.value, how, a)
}

// putNew writes a key that must not exist. After a deletion of it in the same
// transaction there is no check.
func (w *world) putNew(t *txn, k key, value int16, how check, a assertion) failure {
	old := t.find(k)
	presume := false
	switch {
	case how == checkSkip:
	case old != nil && old.op == opPut:
		return duplicateKey
	case old != nil && old.op == opDelete:
	case t.early && !t.pessimistic:
		v, can := w.read(t, k)
		if !can {
			return mustWait
		}
		if v != 0 {
			return duplicateKey
		}
	default:
		presume = true
	}
	e := t.set(k, value, a)
	if presume {
		e.presume, e.late = true, t.late
	}
	if !e.late {
		t.want(k)
	}
	return ok
}

func (w *world) deleteRow(t *txn, h int, r row) failure {
	t.want(rowKey(h))
	t.set(rowKey(h), 0, assertNothing)
	for i := range w.indexes {
		w.deleteEntry(t, i, w.entryOf(i, h, r))
	}
	return ok
}

// deleteEntry writes a tombstone, for an entry of any row and also if there is none.
func (w *world) deleteEntry(t *txn, index int, e entry) {
	state := w.view(t, index)
	if state == none || w.broken(deletionsSkipped) && state == writeReorg {
		return
	}
	a := assertNothing
	if state == public {
		a = assertExists
	}
	if x := t.set(e.key, 0, a); e.distinct && !x.late {
		t.want(e.key)
	}
}

// updateRow changes a row in place. Entries that stay as they are are not written.
func (w *world) updateRow(t *txn, h int, was, r row) failure {
	if was == r {
		return ok
	}
	t.want(rowKey(h))
	t.set(rowKey(h), r.encode(), assertNothing)
	for i := range w.indexes {
		if old := w.entryOf(i, h, was); old != w.entryOf(i, h, r) {
			w.deleteEntry(t, i, old)
		}
	}
	for i := range w.indexes {
		e := w.entryOf(i, h, r)
		if !w.writes(t, i) || e == w.entryOf(i, h, was) {
			continue
		}
		if f := w.putEntry(t, i, e, checkLater); f != ok {
			return f
		}
	}
	return ok
}

// rollBackToSavepoint takes back what was written since. Flags of keys and locks stay.
func (t *txn) rollBackToSavepoint() {
	for i := range t.buffer {
		e := &t.buffer[i]
		k, presume := e.key, e.presume
		*e = write{key: k, presume: presume, late: e.late}
		for _, old := range t.savepoint {
			if old.key == k {
				*e = old
			}
		}
	}
}

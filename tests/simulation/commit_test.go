package simulation

// checkOnly reports whether a prewrite checks the key and writes nothing: an optimistic
// transaction has deleted what it inserted.
func (t *txn) checkOnly(e *write) bool { return !t.pessimistic && e.op == opDelete && e.presume }

// prewrite checks and locks all that a transaction writes.
func (w *world) prewrite(t *txn) failure {
	s := &w.store
	for i := range t.buffer {
		e := &t.buffer[i]
		if e.op == opNone {
			continue
		}
		s.settle(e.key)
		lock := t.lockOn(e.key)
		mine := lock != nil
		if mine && lock.exists && e.presume && e.late && (e.key < handles || e.assert == assertAbsent) {
			return otherError // only an assertion checks a key that was locked before it was put
		}
		if l := s.locks[e.key]; l != nil && l != t {
			return mustWait
		}
		if !mine && (!t.pessimistic || e.late) {
			if newest := s.newest(e.key); newest > t.start {
				w.conflict(t, e.key, newest)
				return writeConflict
			}
			if e.presume && s.get(e.key, s.clock) != 0 {
				return duplicateKey
			}
		}
		w.checkAssertion(t, e)
	}
	for i := range t.buffer {
		if e := &t.buffer[i]; e.op != opNone && !t.checkOnly(e) {
			s.locks[e.key] = t
		}
	}
	t.state, t.minCommit = prewritten, t.start+1
	return ok
}

// commitStep takes a prewritten transaction one step further.
func (w *world) commitStep(t *txn) {
	switch t.state {
	case prewritten:
		t.commit = w.store.now()
		t.state = timed
		if t.onePhase {
			t.state = underWay
		}
	case timed:
		if t.commit < t.minCommit && !w.broken(commitBelowMinimum) {
			t.state = prewritten // refused: the client takes another timestamp
			return
		}
		t.state = underWay
	case underWay:
		w.applyCommit(t)
	}
}

// applyCommit makes what a transaction wrote visible, all at once.
func (w *world) applyCommit(t *txn) {
	w.checkStates(t)
	s := &w.store
	for i := range t.buffer {
		e := &t.buffer[i]
		if e.op == opNone || t.checkOnly(e) {
			continue
		}
		if w.broken(tombstonesDropped) && e.op == opDelete && e.key >= handles && s.get(e.key, s.clock) == 0 {
			continue
		}
		if e.key < handles {
			w.rowCommitted(int(e.key), t.commit, decodeRow(e.value))
		}
		s.put(e.key, version{ts: t.commit, value: e.value})
	}
	for _, l := range t.locked {
		if e := t.find(l.key); e == nil || e.op == opNone {
			record := version{ts: t.commit, lock: true, hides: l.absent && w.cfg.hiding}
			if w.cfg.hiding && t.lags() {
				s.late[l.key] = record
			} else {
				s.put(l.key, record)
			}
		}
	}
	w.commits++
	w.release(t)
}

// lags reports whether the client dies after it has committed the primary key. Its locks on
// other keys then stay until a reader of its writes resolves them.
func (t *txn) lags() bool { return !t.onePhase && t.id%4 == 0 }

// release ends a transaction and releases its locks.
func (w *world) release(t *txn) {
	for i := range t.buffer {
		if k := t.buffer[i].key; w.store.locks[k] == t {
			w.store.locks[k] = nil
		}
	}
	for _, l := range t.locked {
		if w.store.locks[l.key] == t {
			w.store.locks[l.key] = nil
		}
	}
	t.state = ended
	for i, x := range w.txns {
		if x == t {
			w.txns = append(w.txns[:i], w.txns[i+1:]...)
			break
		}
	}
}

// abort ends a transaction without effect.
func (w *world) abort(t *txn) { w.release(t) }

// barrier makes sure that no transaction can still commit at or below a timestamp. It
// returns false while one of them is under way.
func (w *world) barrier(at timestamp) bool {
	if w.broken(noBarrier) {
		return true
	}
	free := true
	for _, t := range w.txns {
		if !t.pushed(at) && !w.broken(underWayNotAwaited) {
			free = false
		}
	}
	return free
}

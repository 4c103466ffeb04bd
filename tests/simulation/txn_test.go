package simulation

// txnState is how far the commit of a transaction has come.
type txnState uint8

const (
	active txnState = iota
	// prewritten: readers may move its least commit timestamp.
	prewritten
	// timed: the client has a commit timestamp that the store does not know yet.
	timed
	// underWay: the store has accepted the commit timestamp; readers above wait.
	underWay
	ended
)

type operation uint8

const (
	opNone operation = iota // rolled back to a savepoint; flags and locks stay
	opPut
	opDelete
)

// assertion is what TiDB asserts of a key before the transaction.
type assertion uint8

const (
	assertNothing assertion = iota
	assertExists
	assertAbsent
)

// write is what a transaction's buffer holds of a key.
type write struct {
	key   key
	value int16
	op    operation
	// presume is PresumeKeyNotExists: checked when the key is locked or prewritten.
	presume bool
	// late leaves that check of a pessimistic transaction to the prewrite.
	late   bool
	assert assertion
}

// lockedKey is a key that a pessimistic transaction has locked.
type lockedKey struct {
	key key
	// absent: the key had no version at all, so that a LOCK record will hide older ones.
	// exists: it had a value. What is imported later changes neither.
	absent, exists bool
}

// txn is a transaction of TiDB.
type txn struct {
	id          int
	server      *server // nil for repairs of a builder
	pessimistic bool
	autocommit  bool
	// late is tidb_constraint_check_in_place_pessimistic = OFF, early
	// tidb_constraint_check_in_place = ON.
	late, early bool
	onePhase    bool

	start timestamp
	// born is the schema version at the begin, pinned that of the first use of the table,
	// 0 before.
	born, pinned int
	// pinnedAt is when that was.
	pinnedAt  timestamp
	forUpdate timestamp

	state             txnState
	minCommit, commit timestamp
	buffer            []write
	locked            []lockedKey

	script stmtList
	// running: the statement has been executed and needs its locks. before is the buffer
	// without it.
	running bool
	before  []write
	wants   []key
	// savepoint is the buffer at the savepoint, if saved.
	savepoint []write
	saved     bool
	memo      row
	tries     int
}

// failure is how an attempt has ended.
type failure uint8

const (
	ok failure = iota
	mustWait
	writeConflict
	duplicateKey
	otherError
	retryStatement
)

// find returns the buffer's write of a key, nil if there is none.
func (t *txn) find(k key) *write {
	for i := range t.buffer {
		if t.buffer[i].key == k {
			return &t.buffer[i]
		}
	}
	return nil
}

// set buffers a put, or a tombstone if value is 0.
func (t *txn) set(k key, value int16, a assertion) *write {
	e := t.find(k)
	if e == nil {
		t.buffer = append(t.buffer, write{key: k})
		e = &t.buffer[len(t.buffer)-1]
	}
	if e.op == opNone {
		e.assert = a
	}
	e.value, e.op = value, opPut
	if value == 0 {
		e.op = opDelete
	}
	return e
}

// want makes a pessimistic statement lock a key.
func (t *txn) want(k key) {
	if !t.pessimistic {
		return
	}
	for _, have := range t.wants {
		if have == k {
			return
		}
	}
	t.wants = append(t.wants, k)
}

// lockOn returns the transaction's pessimistic lock on a key, nil if it has none.
func (t *txn) lockOn(k key) *lockedKey {
	for i := range t.locked {
		if t.locked[i].key == k {
			return &t.locked[i]
		}
	}
	return nil
}

// readTS is the snapshot that the running statement reads.
func (t *txn) readTS() timestamp {
	if t.pessimistic {
		return t.forUpdate
	}
	return t.start
}

// readable says whether a key can be read at a timestamp now. A prewritten transaction
// is made to commit later; one whose commit is under way is waited for.
func (w *world) readable(k key, at timestamp, me *txn) bool {
	l := w.store.locks[k]
	return l == nil || l == me || l.pushed(at)
}

// pushed makes a transaction commit above a timestamp, and returns false if it may
// still commit at or below it.
func (t *txn) pushed(at timestamp) bool {
	switch t.state {
	case prewritten, timed:
		t.minCommit = max(t.minCommit, at+1)
	case underWay:
		return t.commit > at
	}
	return true
}

// read returns a key's value as the transaction sees it. It fails if it has to wait.
func (w *world) read(t *txn, k key) (value int16, can bool) {
	if e := t.find(k); e != nil && e.op != opNone {
		return e.value, true
	}
	if !w.readable(k, t.readTS(), t) {
		return 0, false
	}
	return w.store.get(k, t.readTS()), true
}

// lockAll locks what the running statement wants, all of it or nothing.
func (w *world) lockAll(t *txn) failure {
	s := &w.store
	for _, k := range t.wants {
		s.settle(k)
		e := t.find(k)
		checks := e != nil && e.presume
		if l := t.lockOn(k); l != nil {
			if checks && l.exists {
				return duplicateKey
			}
			continue
		}
		if l := s.locks[k]; l != nil && l != t {
			return mustWait
		}
		if s.newest(k) > t.forUpdate {
			return retryStatement
		}
		if checks && s.get(k, s.clock) != 0 {
			return duplicateKey
		}
	}
	for _, k := range t.wants {
		w.lockKey(t, k)
		if e := t.find(k); e != nil {
			e.late = false // it is checked now
		}
	}
	t.wants = t.wants[:0]
	return ok
}

func (w *world) lockKey(t *txn, k key) {
	if t.lockOn(k) != nil {
		return
	}
	s := &w.store
	s.settle(k)
	s.locks[k] = t
	list := s.versions[k]
	absent := len(list) == 0 || list[len(list)-1].lock && list[len(list)-1].hides
	t.locked = append(t.locked, lockedKey{key: k, absent: absent, exists: s.get(k, s.clock) != 0})
}

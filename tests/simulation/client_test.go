package simulation

// maxTries is how often a statement that has to wait is tried before its transaction
// is given up, which also ends deadlocks.
const maxTries = 8

// client is a connection, which runs one transaction after the other.
type client struct {
	id       int
	t        *txn
	rollBack bool
	// cleanUp is what its next transaction has to do.
	cleanUp stmt
}

// clientEvent takes a client one step further.
func (w *world) clientEvent(cl *client, c *choice) {
	t := cl.t
	switch {
	case t == nil:
		w.begin(cl, c)
	case t.state == ended: // with its server
	case t.state != active:
		w.commitStep(t)
		if t.state == ended {
			w.trace("txn %d has committed at %d", t.id, t.commit)
		}
	case len(t.script) > 0:
		w.advance(t, c)
	case cl.rollBack:
		w.trace("txn %d rolls back", t.id)
		w.abort(t)
	default:
		w.finish(t)
	}
	if cl.t != nil && cl.t.state == ended {
		w.recycle(cl.t)
		cl.t = nil
	}
}

// begin starts a transaction.
func (w *world) begin(cl *client, c *choice) {
	sv := w.servers[c.below(len(w.servers))]
	if !sv.alive {
		return
	}
	if c.oneIn(10) {
		w.staleRead(sv, c)
		return
	}
	t := w.newTxn(sv)
	t.pessimistic, t.late, t.early, t.onePhase = c.oneIn(2), c.oneIn(6), c.oneIn(6), c.oneIn(2)
	t.script, cl.rollBack = w.script(cl, c)
	t.autocommit = len(t.script) == 1
	if t.autocommit {
		t.pessimistic = false
		w.pin(t)
	}
	cl.t = t
	w.trace("txn %d begins on server %d at %d, pessimistic: %v, late checks: %v, early checks: %v", t.id, sv.id, t.start, t.pessimistic, t.late, t.early)
}

// newTxn returns a transaction that begins now.
func (w *world) newTxn(sv *server) *txn {
	var t *txn
	if n := len(w.pool); n > 0 {
		t, w.pool = w.pool[n-1], w.pool[:n-1]
		*t = txn{
			buffer: t.buffer[:0], locked: t.locked[:0], before: t.before[:0], wants: t.wants[:0], savepoint: t.savepoint[:0],
		}
	} else {
		t = new(txn)
	}
	w.txnCount++
	t.id, t.server, t.start = w.txnCount, sv, w.store.now()
	if sv != nil {
		t.born = sv.loaded
	}
	w.txns = append(w.txns, t)
	return t
}

// recycle keeps a transaction's memory for another one.
func (w *world) recycle(t *txn) { w.pool = append(w.pool, t) }

// advance runs the next statement of a transaction, or has its locks taken.
func (w *world) advance(t *txn, c *choice) {
	s := t.script[0]
	var f failure
	if t.running {
		f = w.lockAll(t)
	} else {
		w.pin(t)
		if t.pessimistic {
			t.forUpdate = w.store.now()
		}
		t.before, t.wants = append(t.before[:0], t.buffer...), t.wants[:0]
		if f = w.execute(t, s); f == ok && len(t.wants) > 0 {
			t.running = true
			return
		}
	}
	if f != ok {
		t.buffer = append(t.buffer[:0], t.before...)
	}
	t.running = false
	switch {
	case f == ok:
		w.trace("txn %d: %s", t.id, s)
		t.script, t.tries = t.script[1:], 0
	case f == mustWait && t.tries < maxTries, f == retryStatement:
		t.tries++
	case f == duplicateKey && !w.cfg.legal && !w.cfg.transient && !t.autocommit && c.oneIn(2):
		w.trace("txn %d: %s: duplicate", t.id, s)
		t.script, t.tries = t.script[1:], 0
	default:
		w.trace("txn %d: %s: failed (%d), so it rolls back", t.id, s, f)
		w.abort(t)
	}
}

// finish prewrites a transaction.
func (w *world) finish(t *txn) {
	switch f := w.prewrite(t); f {
	case ok:
		if t.onePhase {
			w.commitStep(t)
		}
	case mustWait:
		if t.tries++; t.tries > maxTries {
			w.abort(t)
		}
	default:
		w.trace("txn %d: its prewrite fails (%d)", t.id, f)
		w.abort(t)
	}
}

// selectByIndexes reads all through each index that the transaction may read.
func (w *world) selectByIndexes(t *txn) failure {
	for _, x := range w.txns {
		if x != t && !x.pushed(t.start) {
			return mustWait
		}
	}
	if len(t.buffer) > 0 {
		return ok // it would have to be merged
	}
	for i := range w.indexes {
		if w.view(t, i) == public {
			w.checkRead(i, t.start)
		}
	}
	return ok
}

// staleRead reads at a timestamp of the past, under the schema of that time.
func (w *world) staleRead(sv *server, c *choice) {
	at := w.store.safePoint + timestamp(c.below(int(w.store.clock-w.store.safePoint)+1))
	v := w.newest()
	for v > 0 && w.schema[v].ts > at {
		v--
	}
	if w.broken(staleReadsUseTheNewestSchema) {
		v = sv.loaded
	}
	for _, x := range w.txns {
		if !x.pushed(at) {
			return
		}
	}
	for i := range w.indexes {
		if w.schema[v].states[i] == public {
			w.checkRead(i, at)
		}
	}
}

// stopServer kills a server with its transactions. What its clients have sent of a commit
// may still happen.
func (w *world) stopServer(sv *server, c *choice) {
	if !sv.alive {
		sv.alive = true
		sv.loaded, sv.reported = 0, 0
		w.reload(sv)
		sv.reported = sv.loaded
		w.trace("server %d starts with version %d", sv.id, sv.loaded)
		return
	}
	sv.alive = false
	w.trace("server %d dies", sv.id)
	for i := len(w.txns) - 1; i >= 0; i-- {
		if t := w.txns[i]; t.server == sv {
			if t.state == underWay && c.oneIn(2) {
				w.applyCommit(t)
				continue
			}
			w.abort(t)
		}
	}
}

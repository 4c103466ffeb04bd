package simulation

import (
	"github.com/pingcap/tidb/pkg/meta/model"
)

// state is the schema state of an index, in TiDB's order.
type state uint8

const (
	none state = iota
	deleteOnly
	writeOnly
	writeReorg
	public
)

func (s state) String() string {
	return [...]string{"none", "delete-only", "write-only", "write-reorg", "public"}[s]
}

func stateOf(s model.SchemaState) state {
	switch s {
	case model.StateDeleteOnly, model.StateDeleteReorganization: // the same for DML
		return deleteOnly
	case model.StateWriteOnly:
		return writeOnly
	case model.StateWriteReorganization:
		return writeReorg
	case model.StatePublic:
		return public
	}
	return none
}

// schemaVersion is the table in one version of the schema. Version 0 is the first.
type schemaVersion struct {
	ts     timestamp
	states [maxIndexes]state
	// diff: it is written. TiDB's owner takes a version some time before that.
	diff bool
}

// index is an index that is there, or was, or is being built.
type index struct {
	kind kind
	// job is the one that builds it, 0 for those that the table began with.
	job int
	// published is the timestamp of its publication, 0 before.
	published timestamp
	// imported is the S of what was imported last, and complete says that all is.
	imported timestamp
	complete bool
	// checked is the timestamp up to which snapshots have been compared.
	checked timestamp
}

// server is a server of TiDB. Its sessions are clients.
type server struct {
	id    int
	alive bool
	// loaded is the schema version it uses, reported the newest one up to which it has reported
	// that no transaction on the table uses an older one.
	loaded, reported int
}

// newest returns the newest schema version.
func (w *world) newest() int { return len(w.schema) - 1 }

// reload loads the schema as TiDB's domain does: up to the newest version that has a
// diff. Versions in between that have none are passed.
func (w *world) reload(sv *server) {
	v := w.newest()
	if !w.schema[v].diff {
		v--
	}
	if v > sv.loaded {
		sv.loaded = v
		w.trace("server %d loads version %d", sv.id, v)
	}
}

// report reports to the coordinator that no client's transaction uses the table under a version
// before the loaded one.
func (w *world) report(sv *server) {
	if sv.reported == sv.loaded {
		return
	}
	for _, t := range w.txns {
		if t.server == sv && t.pinned != 0 && t.pinned < sv.loaded && !w.broken(reportsIgnoreTransactions) {
			return
		}
	}
	sv.reported = sv.loaded
	w.trace("server %d reports version %d", sv.id, sv.reported)
}

// synced says that every server that is registered has reported a version.
func (w *world) synced(v int) bool {
	for i, sv := range w.servers {
		if sv.alive && sv.reported < v && !(i > 0 && w.broken(oneServerAwaited)) {
			return false
		}
	}
	return true
}

// pin makes a transaction use the table under its server's version from now on.
func (w *world) pin(t *txn) {
	if t.pinned != 0 {
		return
	}
	t.pinned, t.pinnedAt = t.server.loaded, w.store.now()
	w.trace("txn %d uses the table under version %d", t.id, t.pinned)
}

// view is the state in which a transaction sees an index: what became public after it
// began is write-reorg for it.
func (w *world) view(t *txn, i int) state {
	if t.server == nil {
		return none // a repair writes single keys
	}
	s := w.schema[t.pinned].states[i]
	if s == public && w.schema[t.born].states[i] != public && !w.broken(readsWhatWasPublishedLater) {
		return writeReorg
	}
	if s == writeReorg && w.broken(reorgIsRead) {
		return public
	}
	return s
}

// writes says that a transaction puts entries into an index.
func (w *world) writes(t *txn, i int) bool { return w.view(t, i) >= writeOnly }

// newIndex makes an index and returns its ID.
func (w *world) newIndex(k kind, jobID int) int {
	w.indexes = append(w.indexes, index{kind: k, job: jobID})
	return len(w.indexes) - 1
}

// addVersion adds a schema version like the newest, with the diff or without.
func (w *world) addVersion(diff bool) *schemaVersion {
	v := w.schema[w.newest()]
	v.ts, v.diff = w.store.now(), diff
	w.schema = append(w.schema, v)
	return &w.schema[w.newest()]
}

// owner is TiDB's own DDL owner. It works on a job on another table, or on one on this
// table that waits for ours.
type owner struct {
	// job is the ID of its job, 0 if there is none.
	job       int
	sameTable bool
	// taken is the version whose diff it is about to write, 0 if there is none.
	taken int
	steps int
}

// ownerEvent takes TiDB's own DDL one step further.
func (w *world) ownerEvent(c *choice) {
	o := &w.owner
	switch {
	case o.job == 0:
		*o = owner{job: w.nextID(), sameTable: c.oneIn(3), steps: 1 + c.below(3)}
		w.trace("TiDB queues job %d, on this table: %v", o.job, o.sameTable)
	case o.taken == 0 && o.steps == 0:
		w.trace("TiDB's job %d ends", o.job)
		*o = owner{}
	case o.sameTable && w.queueRow.present && w.queueRow.id < o.job:
		// TiDB's scheduler keeps it behind ours.
	case o.taken == 0:
		if o.sameTable {
			w.checkTurn()
		}
		w.addVersion(false)
		o.taken = w.newest()
		w.trace("TiDB takes version %d", o.taken)
	case c.oneIn(8):
		w.trace("TiDB's owner dies; the diff of version %d is not written", o.taken)
		o.taken = 0
	default:
		w.schema[o.taken].diff = true
		w.trace("TiDB writes the diff of version %d", o.taken)
		for _, sv := range w.servers {
			if sv.alive && sv.loaded >= o.taken {
				w.fail("I1", "server %d is at version %d and has never seen the diff of %d", sv.id, sv.loaded, o.taken)
			}
		}
		o.taken = 0
		o.steps--
	}
}

// ownerIsBusy says that TiDB may be about to write a diff.
func (w *world) ownerIsBusy() bool {
	o := &w.owner
	return o.job != 0 && !(o.sameTable && w.queueRow.present && w.queueRow.id < o.job)
}

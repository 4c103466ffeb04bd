package simulation

import (
	"fmt"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ddl/job"
)

const (
	// maxJobs bounds the jobs of a history; IDs of jobs, ours and TiDB's, stay below maxIDs.
	maxJobs = 3
	maxIDs  = 256
)

// faultKind is where the next request of a builder fails.
type faultKind uint8

const (
	noFault     faultKind = iota
	faultBefore           // and has no effect
	faultAfter            // and has had its effect
)

// world is all there is in one history.
type world struct {
	cfg         config
	mutant      mutant
	promiseOnly bool

	store   store
	schema  []schemaVersion
	indexes []index
	servers []*server
	clients []client
	txns    []*txn
	pool    []*txn
	owner   owner

	// builder has the job; old is one that was replaced and does not know it yet.
	builder, old *builder
	builders     int
	stored       *job.Record
	archived     [maxIDs]*job.Record
	queueRow     queueRow
	queue        [1]job.Queued
	checkpoint   checkpoint
	files        [maxIDs]bool
	wanted       []kind
	jobs, lastID int

	// What the checks need to know of the job: its first S, the newest S that was scanned,
	// when write-only and write-reorg were published, and whether the wait before the import
	// was cut short. replaced: two builders had it at a time.
	firstS, scanned, writeOnlyTS, reorgTS timestamp
	olderLeft, replaced                   bool
	// kept is when the keeper of the hold could last do something, lapses how often that was
	// too long ago, and refused how often S was too old for the store.
	kept, lapses, refused int
	fault                 faultKind
	injected              int
	cancelled, rowTaken   [maxIDs]bool
	rowLog                []rowCommit

	violation *violation
	totals

	tracing  bool
	traced   []string
	eventNo  int
	txnCount int
}

// totals are counts for the report of a search.
type totals struct {
	commits, imports, comparisons, unchanged, verifiedLate, repairs, reads, deaths int
	ends                                                                           [3]int
}

func (t *totals) String() string {
	return fmt.Sprintf("%d transactions, %d imports, %d comparisons (%d of them of what has not changed, after %d the build was verified), %d keys repaired, %d reads by an index, %d builders died; "+
		"%d jobs published, %d failed with 1062, %d were cancelled or failed otherwise",
		t.commits, t.imports, t.comparisons, t.unchanged, t.verifiedLate, t.repairs, t.reads, t.deaths, t.ends[endPublished], t.ends[endDuplicate], t.ends[endUndone])
}

// The ways in which a job ends.
const (
	endPublished = iota
	endDuplicate
	endUndone
)

func endOf(r *job.Record) int {
	switch {
	case r.State == model.JobStateSynced:
		return endPublished
	case len(r.Duplicates) > 0:
		return endDuplicate
	}
	return endUndone
}

func (t *totals) add(o *totals) {
	t.commits += o.commits
	t.imports += o.imports
	t.repairs += o.repairs
	t.reads += o.reads
	t.comparisons += o.comparisons
	t.unchanged += o.unchanged
	t.verifiedLate += o.verifiedLate
	t.deaths += o.deaths
	for i := range t.ends {
		t.ends[i] += o.ends[i]
	}
}

// broken says that a mutation is in force.
func (w *world) broken(m mutant) bool { return w.mutant == m }

func (w *world) trace(format string, args ...any) {
	if w.tracing {
		w.traced = append(w.traced, fmt.Sprintf("%4d  ", w.eventNo)+fmt.Sprintf(format, args...))
	}
}

// reset makes the world that a configuration begins with.
func (w *world) reset(cfg config) {
	w.store.reset()
	*w = world{
		mutant: w.mutant, promiseOnly: w.promiseOnly, tracing: w.tracing, cfg: cfg,
		store: w.store, schema: w.schema[:0], indexes: w.indexes[:0], txns: w.txns[:0], pool: w.pool, rowLog: w.rowLog[:0],
		servers: w.servers[:0], clients: w.clients[:0], wanted: w.wanted[:0], traced: w.traced[:0],
	}
	w.schema = append(w.schema, schemaVersion{diff: true}, schemaVersion{diff: true, ts: w.store.now()})
	if cfg.guarded {
		w.newIndex(uniqueA, 0)
		w.schema[1].states[0] = public
		w.indexes[0].published = 1
	}
	begin := w.store.now()
	for h := range handles - 1 {
		r := firstRow(h)
		w.store.put(rowKey(h), version{ts: begin, value: r.encode()})
		w.rowCommitted(h, begin, r)
		if cfg.guarded {
			e := w.entryOf(0, h, r)
			w.store.put(e.key, version{ts: begin, value: e.value})
		}
	}
	for i := range cfg.servers {
		w.servers = append(w.servers, &server{id: i, alive: true, loaded: 1, reported: 1})
	}
	for i := range cfg.clients {
		w.clients = append(w.clients, client{id: i})
	}
}

// firstRow is the row that a handle has at the beginning.
func firstRow(h int) row { return row{exists: true, a: int8(h + 1), b: int8(h % valuesB)} }

// nextID returns an ID of a job.
func (w *world) nextID() int {
	w.lastID++
	return w.lastID
}

// takeFault says that a request fails now.
func (w *world) takeFault(k faultKind) bool {
	if w.fault != k {
		return false
	}
	w.fault = noFault
	w.injected++
	return true
}

// startJob queues an ADD INDEX, if there is none.
func (w *world) startJob(c *choice) {
	if w.stored != nil || w.queueRow.present || w.jobs == maxJobs || len(w.indexes)+2 > maxIndexes {
		return
	}
	w.jobs++
	w.wanted = w.wanted[:0]
	for _, k := range []kind{uniqueA, uniqueA, plainA, plainB} {
		if c.oneIn(2) && len(w.wanted) < 2 && (len(w.wanted) == 0 || w.wanted[0] != k) {
			w.wanted = append(w.wanted, k)
		}
	}
	if len(w.wanted) == 0 {
		w.wanted = append(w.wanted, uniqueA)
	}
	id := int64(w.nextID())
	r := &job.Record{ID: id, RowID: id, State: model.JobStateQueueing, Compare: w.wanted[0] == uniqueA}
	for i, s := range w.schema[w.newest()].states {
		if s == public && c.oneIn(2) { // the statement drops it, and takes it away when its own are public
			r.Changes = []job.Change{{Type: model.ActionDropIndex, IndexIDs: []int64{int64(i)}}}
		}
	}
	w.stored, w.queueRow, w.checkpoint = clone(r), queueRow{present: true, id: int(id)}, checkpoint{}
	w.firstS, w.scanned, w.writeOnlyTS, w.reorgTS, w.lapses, w.refused, w.injected = 0, 0, 0, 0, 0, 0, 0
	w.trace("job %d is queued, for indexes of kinds %v; it drops %d", id, w.wanted, len(r.Changes))
	w.launch(job.NewMachine(r))
}

// launch makes a builder for the job; the one there was goes on beside it.
func (w *world) launch(m *job.Machine) {
	if w.builder != nil && w.builder.alive {
		if w.old != nil && w.old.alive {
			w.old.stop()
		}
		w.old = w.builder
	}
	w.builders++
	w.builder = &builder{w: w, id: w.builders, alive: true, m: w.machineOf(m)}
	w.kept = w.store.ticks
}

// restart is the start of a process that finds a job.
func (w *world) restart() {
	for i := len(w.store.holds) - 1; i >= 0; i-- {
		if name := w.store.holds[i].name; w.stored == nil || w.stored.ID != int64(name) {
			w.store.release(name)
		}
	}
	for id := range w.lastID + 1 {
		if (w.stored == nil || w.stored.ID != int64(id)) && !w.broken(filesStay) {
			w.files[id] = false
		}
	}
	if w.stored == nil {
		return
	}
	w.launch(job.ResumeMachine(clone(w.stored)))
	w.trace("builder %d finds job %d at %q", w.builder.id, w.stored.ID, w.stored.Step)
}

// collectGarbage moves the safe point up to a target, though not beyond what is held or
// open, and removes what can no longer be read.
func (w *world) collectGarbage(target timestamp) {
	if !w.broken(holdsPassed) {
		target = w.store.held(target)
	}
	for _, t := range w.txns {
		target = min(target, t.start)
	}
	if target <= w.store.safePoint {
		return
	}
	w.checkPublished(target)
	w.store.safePoint = target
	w.store.collect(w)
	w.trace("garbage is collected up to %d", target)
}

// checkPublished compares published indexes with the rows at all snapshots up to one that
// were not compared yet.
func (w *world) checkPublished(to timestamp) {
	states := &w.schema[w.newest()].states
	for i := range w.indexes {
		x := &w.indexes[i]
		if states[i] != public || x.checked >= to {
			continue
		}
		w.checkSnapshots(promise, i, max(x.published, x.checked))
		x.checked = to
	}
}

// tick lets time pass.
func (w *world) tick() {
	w.store.ticks++
	if w.store.ticks-w.kept == holdTTL {
		w.lapses++
	}
}

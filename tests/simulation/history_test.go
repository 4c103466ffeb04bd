package simulation

import (
	"math/rand/v2"

	"fastddl/ddl/job"
)

// eventKind is what happens in an event.
type eventKind uint8

const (
	evClient eventKind = iota
	evBuilder
	evOldBuilder
	evReload
	evReport
	evCollect
	evTick
	evKeeper
	evCrash
	evRestart
	evReplace
	evRequest
	evTakeRow
	evOwner
	evFault
	evServer
	evStartJob
	eventKinds
)

// event is one step of a history. All its choices come from arg.
type event struct {
	kind eventKind
	arg  choice
}

// config is what a history begins with.
type config struct {
	// legal: values of a are only handed on. transient: that, and duplicates that soon go
	// again. guarded: a unique index on a is there already.
	legal, transient, guarded bool
	// slow is the number of clients that seldom do something.
	slow int
	// hiding: LOCK records hide versions older than them, as TiKV's do.
	hiding           bool
	servers, clients int
	// weights say how often an event comes, in relation to the others.
	weights [eventKinds]int
	events  int
}

// usual are the weights that each history draws its own around.
var usual = [eventKinds]int{
	evClient: 100, evBuilder: 190, evOldBuilder: 16, evReload: 90, evReport: 90, evCollect: 20, evTick: 12, evKeeper: 20, evCrash: 5, evRestart: 30,
	evReplace: 3, evRequest: 3, evTakeRow: 3, evOwner: 16, evFault: 5, evServer: 3, evStartJob: 30,
}

// rare are events that most histories are without, so that jobs get far.
var rare = map[eventKind]int{
	evCrash: 2, evReplace: 4, evRequest: 4, evTakeRow: 8, evOwner: 2, evFault: 3, evServer: 3, evTick: 2, evCollect: 2, evKeeper: 2,
}

// randomConfig draws a configuration.
func randomConfig(rng *rand.Rand) config {
	cfg := config{
		guarded: rng.IntN(4) == 0, hiding: rng.IntN(2) == 0,
		servers: 1 + rng.IntN(3), clients: 1 + rng.IntN(4), weights: usual, events: 200 + rng.IntN(300),
	}
	switch rng.IntN(4) {
	case 0:
		cfg.legal = true
	case 1, 2:
		cfg.transient = true
	}
	cfg.slow = rng.IntN(cfg.clients)
	for k := range eventKinds {
		if n := rare[k]; n > 0 && rng.IntN(n) != 0 {
			cfg.weights[k] = 0
			continue
		}
		cfg.weights[k] = cfg.weights[k] * (1 + rng.IntN(8)) / 2
	}
	return cfg
}

// history is what happens, in order.
type history struct {
	cfg    config
	events []event
}

// randomHistory returns the history of a seed, in the memory of an earlier one. Some kinds
// of events may come more often than usual.
func randomHistory(seed uint64, reuse []event, more ...eventKind) history {
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	cfg := randomConfig(rng)
	for _, k := range more {
		cfg.weights[k] = 6 * max(cfg.weights[k], usual[k])
	}
	total := 0
	for _, n := range cfg.weights {
		total += n
	}
	events := append(reuse[:0], event{evStartJob, choice(rng.Uint64())})
	for range cfg.events {
		n := rng.IntN(total)
		kind := eventKind(0)
		for n >= cfg.weights[kind] {
			n -= cfg.weights[kind]
			kind++
		}
		events = append(events, event{kind, choice(rng.Uint64())})
	}
	return history{cfg, events}
}

// run runs a history, lets everything end, and returns what was broken.
func (w *world) run(h history) *violation {
	w.reset(h.cfg)
	for i, e := range h.events {
		if w.eventNo = i; w.violation != nil {
			return w.violation
		}
		w.apply(e)
	}
	w.letAllEnd()
	return w.violation
}

// apply executes one event; one that is not possible now does nothing.
func (w *world) apply(e event) {
	c := e.arg
	switch e.kind {
	case evClient:
		cl := &w.clients[c.below(len(w.clients))]
		if cl.id >= w.cfg.slow || c.oneIn(8) {
			w.clientEvent(cl, &c)
		}
	case evBuilder:
		w.builderEvent(w.builder, &c)
	case evOldBuilder:
		w.builderEvent(w.old, &c)
	case evReload:
		if sv := w.servers[c.below(len(w.servers))]; sv.alive {
			w.reload(sv)
		}
	case evReport:
		if sv := w.servers[c.below(len(w.servers))]; sv.alive {
			w.report(sv)
		}
	case evCollect:
		w.collectGarbage(w.store.safePoint + timestamp(c.below(int(w.store.clock-w.store.safePoint)+1)))
	case evTick:
		w.tick()
	case evKeeper:
		w.keeperEvent(w.builder)
		w.keeperEvent(w.old)
	case evOwner:
		w.ownerEvent(&c)
	case evFault:
		w.fault = faultBefore + faultKind(c.below(2))
	case evServer:
		w.stopServer(w.servers[c.below(len(w.servers))], &c)
	case evStartJob:
		w.startJob(&c)
	default:
		w.disturb(e.kind, &c)
	}
}

// disturb does something to the job or to who builds it.
func (w *world) disturb(k eventKind, c *choice) {
	b := w.builder
	alive := b != nil && b.alive
	switch k {
	case evCrash:
		if alive {
			w.trace("builder %d dies", b.id)
			w.deaths++
			b.stop()
		}
	case evRestart:
		if !alive && w.stored != nil {
			w.restart()
		}
	case evReplace:
		if alive && w.stored != nil {
			w.replaced = true
			w.restart()
		}
	case evRequest:
		if alive && !b.asked {
			b.asked = true
			b.request = []job.Request{job.RequestCancel, job.RequestPause, job.RequestNone}[c.below(3)]
		}
	case evTakeRow:
		if w.queueRow.present && w.queueRow.locked == nil && w.stored != nil {
			w.queueRow = queueRow{}
			w.rowTaken[w.stored.ID] = true
			w.trace("somebody takes the row of job %d", w.stored.ID)
		}
	}
}

// maxEndRounds is how many rounds the end may take.
const maxEndRounds = 1500

// letAllEnd lets transactions, jobs and TiDB's DDL end without further disturbance,
// and checks what is left.
func (w *world) letAllEnd() {
	w.fault = noFault
	c := choice(1)
	for round := range maxEndRounds {
		if w.violation != nil {
			return
		}
		w.eventNo++
		w.endRound(&c, round)
		if w.stored == nil && len(w.txns) == 0 && w.owner.job == 0 && (w.builder == nil || !w.builder.alive) && (w.old == nil || !w.old.alive) {
			w.lookBack()
			return
		}
	}
	w.failPromise(promise, "the job does not end")
}

func (w *world) endRound(c *choice, round int) {
	if w.owner.job != 0 {
		w.ownerEvent(c)
	}
	for _, sv := range w.servers {
		if !sv.alive {
			w.stopServer(sv, c)
		}
		w.reload(sv)
		w.report(sv)
	}
	for i := range w.clients {
		if w.clients[i].t != nil {
			w.clientEvent(&w.clients[i], c)
		}
	}
	if b := w.builder; w.stored != nil && (b == nil || !b.alive) {
		w.restart()
	} else if w.stored != nil && w.stored.Request == job.RequestPause && !b.asked {
		b.asked, b.request = true, job.RequestNone
	}
	for _, b := range []*builder{w.builder, w.old} {
		if b != nil && b.alive && b.act == job.ActPark && (b == w.old || w.stored == nil || w.stored.Request != job.RequestPause) {
			b.stop() // there will be no more requests
		}
	}
	w.keeperEvent(w.builder)
	w.keeperEvent(w.old)
	w.builderEvent(w.builder, c)
	if round%4 == 0 {
		w.builderEvent(w.old, c)
	}
}

// lookBack checks everything at the end.
func (w *world) lookBack() {
	w.store.settleUpTo(w.store.clock)
	w.checkPublished(w.store.clock)
	if w.violation != nil {
		return
	}
	if w.replaced {
		w.store.holds = w.store.holds[:0] // those of a builder that was replaced only expire
	}
	w.store.now()
	w.collectGarbage(w.store.clock)
	if w.checkLeftovers(); w.violation != nil {
		return
	}
	for i, s := range w.schema[w.newest()].states {
		if s == public {
			w.compareAt(promise, i, w.store.clock)
		}
	}
}

package txn

import "sync"

const (
	numShards = 64
	// A generation of outcomes is this many in each shard; two generations are kept. Together they are at most some
	// fifty megabytes.
	commitGeneration   = 4096
	rollbackGeneration = 8192
)

// outcome is how a transaction ended.
type outcome struct {
	ended    bool
	commitTS uint64 // 0: it was rolled back
	// unsure says that it cannot lock anything any more, but may have committed so long ago that it was forgotten.
	unsure bool
}

func (o outcome) committed() bool { return o.ended && o.commitTS != 0 }

// registry knows all transactions that hold locks, and how the last ones ended.
type registry struct {
	since  uint64 // of transactions that began before nothing is known
	shards [numShards]registryShard
}

// unsureMark is what is noted of a transaction that was to be rolled back and may have committed before.
const unsureMark = 1

type registryShard struct {
	mu        sync.Mutex
	live      map[uint64]*transaction
	commits   generations
	rollbacks generations
}

// generations is a map that forgets its older half now and then.
type generations struct {
	limit             int
	current, previous map[uint64]uint64
	// newest are the highest start timestamps in current and previous, and of all that was forgotten.
	newest struct{ current, previous, forgotten uint64 }
}

func (g *generations) add(startTS, commitTS uint64) {
	if len(g.current) >= g.limit {
		g.previous, g.current = g.current, make(map[uint64]uint64, g.limit)
		g.newest.forgotten = max(g.newest.forgotten, g.newest.previous)
		g.newest.previous, g.newest.current = g.newest.current, 0
	}
	g.current[startTS] = commitTS
	g.newest.current = max(g.newest.current, startTS)
}

func (g *generations) get(startTS uint64) (uint64, bool) {
	if ts, ok := g.current[startTS]; ok {
		return ts, true
	}
	ts, ok := g.previous[startTS]
	return ts, ok
}

func newRegistry(since uint64) *registry {
	r := &registry{since: since}
	for i := range r.shards {
		sh := &r.shards[i]
		sh.live = make(map[uint64]*transaction)
		sh.commits = generations{limit: commitGeneration, current: make(map[uint64]uint64)}
		sh.rollbacks = generations{limit: rollbackGeneration, current: make(map[uint64]uint64)}
	}
	return r
}

// spread hashes a timestamp to a number below numShards: by all its bits, as the lowest ones are mostly zero.
func spread(ts uint64) uint64 { return (ts * 0x9E3779B97F4A7C15) >> 58 }

func (r *registry) shard(startTS uint64) *registryShard { return &r.shards[spread(startTS)] }

func (sh *registryShard) outcome(startTS uint64) outcome {
	if ts, ok := sh.commits.get(startTS); ok {
		return outcome{ended: true, commitTS: ts}
	}
	mark, ok := sh.rollbacks.get(startTS)
	return outcome{ended: ok, unsure: mark == unsureMark}
}

// rolledBack notes that a transaction was rolled back; unsure says that it may have committed before.
func (sh *registryShard) rolledBack(startTS uint64, unsure bool) {
	mark := uint64(0)
	if unsure {
		mark = unsureMark
	}
	sh.rollbacks.add(startTS, mark)
}

// enter returns the transaction of startTS for a request that may lock keys, made if there is none, or how it ended.
// leave must follow if it is returned.
func (r *registry) enter(e *Engine, startTS uint64) (*transaction, outcome) {
	sh := r.shard(startTS)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t := sh.live[startTS]
	if t == nil {
		if o := sh.outcome(startTS); o.ended {
			return nil, o
		}
		t = newTransaction(e, startTS)
		t.unsure = r.forgotten(sh, startTS)
		sh.live[startTS] = t
	}
	t.users++
	return t, outcome{}
}

// leave ends what enter began, and forgets a transaction that no request uses and that holds nothing.
func (r *registry) leave(t *transaction) {
	sh := r.shard(t.startTS)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t.users--
	if t.users == 0 && t.idle() && sh.live[t.startTS] == t {
		delete(sh.live, t.startTS)
	}
}

// find returns the transaction of startTS if it holds locks, or how it ended if that is known.
func (r *registry) find(startTS uint64) (*transaction, outcome) {
	sh := r.shard(startTS)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if t := sh.live[startTS]; t != nil {
		return t, outcome{}
	}
	return nil, sh.outcome(startTS)
}

// holding returns the transactions that began at or before ts and may hold locks, in no order.
func (r *registry) holding(ts uint64) []*transaction {
	var found []*transaction
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		for startTS, t := range sh.live {
			if startTS <= ts {
				found = append(found, t)
			}
		}
		sh.mu.Unlock()
	}
	return found
}

// mayHaveForgotten says whether a transaction that is not known may have committed, before the store was opened or so long
// ago that it was forgotten.
func (r *registry) mayHaveForgotten(startTS uint64) bool {
	sh := r.shard(startTS)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return r.forgotten(sh, startTS)
}

// forgotten is mayHaveForgotten for who holds the shard's mu.
func (r *registry) forgotten(sh *registryShard, startTS uint64) bool {
	return startTS <= max(r.since, sh.commits.newest.forgotten)
}

// rollbackUnknown makes sure that a transaction which holds nothing cannot lock anything any more. It returns the
// transaction instead if there is one, or how it ended if it has.
func (r *registry) rollbackUnknown(startTS uint64) (*transaction, outcome) {
	sh := r.shard(startTS)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if t := sh.live[startTS]; t != nil {
		return t, outcome{}
	}
	o := sh.outcome(startTS)
	if !o.ended {
		sh.rolledBack(startTS, r.forgotten(sh, startTS))
	}
	return nil, o
}

// end records how a transaction ended and removes it from the registry.
func (r *registry) end(t *transaction, o outcome) {
	sh := r.shard(t.startTS)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if o.commitTS != 0 {
		sh.commits.add(t.startTS, o.commitTS)
	} else {
		sh.rolledBack(t.startTS, t.unsure)
	}
	if sh.live[t.startTS] == t {
		delete(sh.live, t.startTS)
	}
}

package histories

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// tx is a committed transaction from begun to ended.
func tx(begun, ended time.Duration, ops ...Op) *Txn {
	t := &Txn{Begun: begun, Ended: ended, Outcome: Committed, Ops: ops}
	for i := range t.Ops {
		t.Ops[i].Begun, t.Ops[i].Ended = begun, ended
	}
	return t
}

func (t *Txn) as(outcome Outcome) *Txn {
	t.Outcome = outcome
	return t
}

func (t *Txn) pessimistic() *Txn {
	t.Pessimistic = true
	return t
}

func (t *Txn) newest() *Txn {
	t.Newest = true
	return t
}

func (t *Txn) at(start, commit uint64) *Txn {
	t.Start, t.Commit = start, commit
	for i := range t.Ops {
		if t.Ops[i].Kind == Read && t.Ops[i].View == 0 {
			t.Ops[i].View = start
		}
	}
	return t
}

func read(key string, list ...int) Op { return Op{Kind: Read, Key: key, List: list} }

func locked(key string, list ...int) Op { return Op{Kind: Read, Key: key, List: list, Locked: true} }

func viewed(at uint64, key string, list ...int) Op {
	return Op{Kind: Read, Key: key, List: list, View: at}
}

func add(key string, value int) Op { return Op{Kind: Append, Key: key, Value: value} }

// during is an operation with a time of its own.
func (t *Txn) during(i int, begun, ended time.Duration) *Txn {
	t.Ops[i].Begun, t.Ops[i].Ended = begun, ended
	return t
}

// goodHistories are allowed.
var goodHistories = map[string][]*Txn{
	"one after the other": {
		tx(0, 1, read("x"), add("x", 1)), tx(2, 3, read("x", 1), add("x", 2), read("x", 1, 2)), tx(4, 5, read("x", 1, 2)),
	},
	"a snapshot beside writers": {
		tx(0, 9, read("x"), read("y")), tx(1, 2, add("x", 1), add("y", 1)), tx(3, 4, add("x", 2)), tx(10, 11, read("x", 1, 2), read("y", 1)),
	},
	"write skew": {
		tx(0, 9, read("x"), read("y"), add("x", 1)), tx(0, 9, read("x"), read("y"), add("y", 1)), tx(10, 11, read("x", 1), read("y", 1)),
	},
	"two appends of one transaction": {
		tx(0, 1, add("x", 1), read("x", 1), add("x", 2)), tx(2, 3, read("x", 1, 2)),
	},
	"a transaction of unknown outcome that committed": {
		tx(0, 1, add("x", 1), add("y", 1)).as(Unknown), tx(2, 3, read("x")), tx(4, 5, read("x", 1), read("y", 1)),
	},
	"a transaction of unknown outcome that did not": {
		tx(0, 1, add("x", 1)).as(Unknown), tx(2, 3, read("x"), add("x", 2)), tx(4, 5, read("x", 2)),
	},
	"an aborted transaction": {
		tx(0, 1, read("x"), add("x", 1)).as(Aborted), tx(2, 3, read("x"), add("x", 2)), tx(4, 5, read("x", 2)),
	},
	"plain reads of a pessimistic transaction are old": {
		tx(0, 9, viewed(1, "x"), locked("x", 1), add("x", 2), read("x", 1, 2), viewed(1, "y")).pessimistic(),
		tx(2, 3, add("x", 1), add("y", 1)), tx(10, 11, read("x", 1, 2), read("y", 1)),
	},
	"statements of read committed": {
		tx(0, 9, viewed(1, "x"), viewed(5, "x", 1)).pessimistic().during(0, 0, 1).during(1, 4, 5), tx(2, 3, add("x", 1)),
	},
	"locks of an aborted transaction do not last": {
		tx(0, 9, locked("x"), locked("y", 1)).pessimistic().as(Aborted).during(0, 0, 1).during(1, 4, 5), tx(2, 3, add("x", 1), add("y", 1)),
		tx(10, 11, read("x", 1), read("y", 1)),
	},
	"the newest is behind a snapshot that is behind another commit": {
		tx(0, 9, add("x", 1)), tx(1, 8, read("x", 1), read("y")), tx(1, 2, add("y", 1)), tx(3, 4, read("x")).newest(), tx(10, 11, read("x", 1), read("y", 1)),
	},
	"nor do they say how old what it has written is": {
		tx(0, 9, locked("x"), add("x", 1), read("x", 1)).pessimistic().as(Aborted).during(0, 0, 1).during(2, 4, 5), tx(2, 3, add("x", 2)),
		tx(10, 11, read("x", 2)),
	},
	"a lock that lasted": {
		tx(0, 3, locked("x"), add("y", 1)).pessimistic(), tx(1, 9, locked("y", 1), add("x", 1)).pessimistic(),
	},
}

// badHistories are not allowed, and show one anomaly each.
var badHistories = map[string]struct {
	kind     Kind
	realTime bool
	txns     []*Txn
}{
	"a value that was not appended": {kind: Garbage, txns: []*Txn{tx(0, 1, read("x", 7))}},
	"twice":                         {kind: Repeated, txns: []*Txn{tx(0, 1, add("x", 1)), tx(2, 3, read("x", 1, 1))}},
	"another order": {kind: Disorder, txns: []*Txn{
		tx(0, 9, add("x", 1)), tx(0, 9, add("x", 2)), tx(0, 9, read("x", 1)), tx(0, 9, read("x", 2, 1)),
	}},
	"G1a": {kind: AbortedRead, txns: []*Txn{tx(0, 1, add("x", 1)).as(Aborted), tx(0, 1, read("x", 1))}},
	"G1b": {kind: IntermediateRead, txns: []*Txn{
		tx(0, 9, add("x", 1), add("x", 2)), tx(0, 9, read("x", 1)), tx(0, 9, read("x", 1, 2)),
	}},
	"own append unseen":         {kind: Internal, txns: []*Txn{tx(0, 1, add("x", 1), read("x"))}},
	"own append seen too early": {kind: Internal, txns: []*Txn{tx(0, 1, read("x", 1), add("x", 1))}},
	"non-repeatable read": {kind: Internal, txns: []*Txn{
		tx(0, 9, read("x"), read("x", 1)), tx(0, 9, add("x", 1)),
	}},
	"lost": {kind: Lost, txns: []*Txn{tx(0, 1, add("x", 1)), tx(2, 3, read("x"))}},
	"G0": {kind: DirtyWrite, txns: []*Txn{
		tx(0, 9, add("x", 1), add("y", 2)), tx(0, 9, add("x", 2), add("y", 1)), tx(0, 9, read("x", 1, 2), read("y", 1, 2)),
	}},
	"G0 in real time": {kind: DirtyWrite, realTime: true, txns: []*Txn{
		tx(2, 3, add("x", 1)), tx(0, 1, add("x", 2)), tx(4, 5, read("x", 1, 2)),
	}},
	"G1c": {kind: CircularFlow, txns: []*Txn{
		tx(0, 9, add("x", 1), read("y", 1)), tx(0, 9, add("y", 1), read("x", 1)),
	}},
	"G1c in real time": {kind: CircularFlow, realTime: true, txns: []*Txn{tx(0, 1, read("x", 1)), tx(2, 3, add("x", 1))}},
	"read skew": {kind: ReadSkew, txns: []*Txn{
		tx(0, 9, add("x", 1), add("y", 1)), tx(0, 9, read("x", 1), read("y")), tx(10, 11, read("y", 1)),
	}},
	"half of a transaction of unknown outcome": {kind: ReadSkew, txns: []*Txn{
		tx(0, 1, add("x", 1), add("y", 1)).as(Unknown), tx(2, 3, read("x", 1), read("y")),
	}},
	"stale read": {kind: ReadSkew, realTime: true, txns: []*Txn{
		tx(0, 1, add("x", 1)), tx(2, 3, read("x")), tx(4, 5, read("x", 1)),
	}},
	"a session that goes back": {kind: ReadSkew, realTime: true, txns: []*Txn{
		tx(0, 9, add("x", 1)), tx(1, 2, read("x", 1)), tx(3, 4, read("x")),
	}},
	"a skewed read of an aborted transaction": {kind: ReadSkew, txns: []*Txn{
		tx(0, 9, add("x", 1), add("y", 1)), tx(0, 9, read("x", 1), read("y"), add("z", 1)).as(Aborted), tx(10, 11, read("y", 1)),
	}},
	"the newest is old": {kind: Unlinearizable, txns: []*Txn{
		tx(0, 1, add("x", 1)), tx(2, 3, read("x")).newest(), tx(4, 5, read("x", 1)),
	}},
	"the newest goes back": {kind: Unlinearizable, txns: []*Txn{
		tx(0, 9, add("x", 1)), tx(1, 2, read("x", 1)).newest(), tx(3, 4, read("x")).newest(), tx(4, 5, read("x", 1)),
	}},
	"the newest is of the future": {kind: Unlinearizable, txns: []*Txn{tx(2, 9, add("x", 1)), tx(0, 1, read("x", 1)).newest()}},
	"P4": {kind: LostUpdate, txns: []*Txn{
		tx(0, 9, read("x"), add("x", 1)), tx(0, 9, read("x"), add("x", 2)), tx(10, 11, read("x", 1, 2)),
	}},
	"P4 under locks": {kind: LostUpdate, txns: []*Txn{
		tx(0, 9, locked("x"), add("x", 1)).pessimistic(), tx(0, 9, locked("x"), add("x", 2)).pessimistic(), tx(10, 11, read("x", 1, 2)),
	}},
	"long fork": {kind: LongFork, txns: []*Txn{
		tx(0, 9, add("x", 1)), tx(0, 9, add("y", 1)), tx(0, 9, read("x", 1), read("y")), tx(0, 9, read("x"), read("y", 1)),
		tx(10, 11, read("x", 1), read("y", 1)),
	}},
	"write skew under locks": {kind: LockedSkew, txns: []*Txn{
		tx(0, 9, locked("x"), add("y", 1)).pessimistic(), tx(0, 9, locked("y"), add("x", 1)).pessimistic(),
		tx(10, 11, read("x", 1), read("y", 1)),
	}},
	"write skew of optimistic locks": {kind: LockedSkew, txns: []*Txn{
		tx(0, 9, locked("x"), add("y", 1)), tx(0, 9, locked("y"), add("x", 1)), tx(10, 11, read("x", 1), read("y", 1)),
	}},
	"statements of read committed that go back": {kind: ReadSkew, realTime: true, txns: []*Txn{
		tx(0, 9, viewed(1, "x", 1), viewed(5, "x")).pessimistic().during(0, 1, 2).during(1, 4, 5), tx(0, 9, add("x", 1)),
	}},
}

func TestGoodHistoriesPass(t *testing.T) {
	for name, txns := range goodHistories {
		t.Run(name, func(t *testing.T) {
			r := Check(txns)
			require.Empty(t, r.Anomalies, "%s", r.String())
			require.Equal(t, len(txns), r.Txns)
		})
	}
}

func TestBadHistoriesAreNamed(t *testing.T) {
	for name, bad := range badHistories {
		t.Run(name, func(t *testing.T) {
			r := Check(bad.txns)
			require.Equal(t, []Kind{bad.kind}, r.Kinds(), "%s", r.String())
			require.Equal(t, bad.realTime, r.Anomalies[0].RealTime)
		})
	}
}

// TestLostUpdateIsNamed: a store that overwrites an append shows a lost append or two orders, and the two transactions
// that are to blame.
func TestLostUpdateIsNamed(t *testing.T) {
	r := Check([]*Txn{tx(0, 9, read("x"), add("x", 1)), tx(0, 9, read("x"), add("x", 2)), tx(10, 11, read("x", 2))})
	require.Equal(t, []Kind{LostUpdate, Lost}, r.Kinds(), "%s", r.String())
	r = Check([]*Txn{tx(0, 9, read("x"), add("x", 1)), tx(0, 9, read("x"), add("x", 2)), tx(0, 9, read("x", 1)), tx(10, 11, read("x", 2))})
	require.Equal(t, []Kind{LostUpdate, Disorder, Lost}, r.Kinds(), "%s", r.String())
}

func TestTimes(t *testing.T) {
	good := []*Txn{
		tx(0, 1, read("x"), add("x", 1)).at(10, 20), tx(2, 3, read("x", 1), add("x", 2)).at(20, 30), tx(1, 5, read("x", 1)).at(29, 0),
		tx(1, 9, locked("x", 1, 2), add("x", 3)).pessimistic().at(12, 40),
		tx(10, 11, read("x", 1, 2, 3)).at(50, 0),
	}
	r := CheckTimes(good)
	require.Empty(t, r.Anomalies, "%s", r.String())
	for name, bad := range map[string]struct {
		kind Kind
		txn  *Txn
	}{
		"too new":                   {WrongView, tx(1, 9, read("x", 1, 2, 3)).at(39, 0)},
		"too old":                   {WrongView, tx(1, 9, read("x", 1, 2)).at(40, 0)},
		"locked too late":           {WrongView, tx(1, 9, locked("x", 1), add("y", 1)).pessimistic().at(12, 35)},
		"committed before it read":  {WrongView, tx(1, 9, locked("x", 1, 2), add("y", 1)).pessimistic().at(12, 30)},
		"committed before it began": {WrongOrder, tx(1, 9, add("y", 1)).at(40, 40)},
		"began in the past":         {WrongOrder, tx(4, 5, add("y", 1)).at(29, 31)},
	} {
		t.Run(name, func(t *testing.T) {
			r := CheckTimes(append([]*Txn{bad.txn}, good...))
			require.Equal(t, []Kind{bad.kind}, r.Kinds(), "%s", r.String())
		})
	}
	r = CheckTimes([]*Txn{tx(0, 9, add("x", 1)).at(1, 3), tx(0, 9, add("x", 2)).at(1, 2), tx(0, 9, read("x", 1, 2))})
	require.Equal(t, []Kind{WrongOrder}, r.Kinds(), "%s", r.String())
}

func TestRegister(t *testing.T) {
	w := func(v int, begun, ended time.Duration) Access {
		return Access{Write: true, Value: v, Begun: begun, Ended: ended}
	}
	r := func(v int, begun, ended time.Duration) Access { return Access{Value: v, Begun: begun, Ended: ended} }
	lost := func(a Access) Access {
		a.Unknown = true
		return a
	}
	for name, good := range map[string][]Access{
		"in turn":                  {r(0, 0, 1), w(1, 2, 3), r(1, 4, 5), w(2, 6, 7), r(2, 8, 9)},
		"read while it is written": {w(1, 0, 9), r(1, 1, 2), r(1, 3, 4)},
		"old while it is written":  {w(1, 0, 9), r(0, 1, 2), r(1, 3, 4)},
		"unread between":           {w(1, 0, 1), w(2, 2, 9), w(3, 3, 8), r(2, 10, 11)},
		"unknown and late":         {lost(w(1, 0, 1)), r(0, 2, 3), r(1, 4, 5)},
		"unknown and never":        {lost(w(1, 0, 1)), r(0, 2, 3)},
		"two at once":              {w(1, 0, 9), w(2, 0, 9), r(2, 10, 11), r(2, 12, 13)},
	} {
		t.Run(name, func(t *testing.T) {
			report := CheckRegister("x", good)
			require.Empty(t, report.Anomalies, "%s", report.String())
		})
	}
	for name, bad := range map[string][]Access{
		"stale":                 {w(1, 0, 1), r(0, 2, 3)},
		"back":                  {w(1, 0, 9), r(1, 1, 2), r(0, 3, 4)},
		"back and forth":        {w(1, 0, 9), w(2, 0, 9), r(1, 10, 11), r(2, 12, 13), r(1, 14, 15)},
		"before it was written": {r(1, 0, 1), w(1, 2, 3)},
		"lost":                  {w(1, 0, 1), w(2, 2, 3), r(1, 4, 5)},
		"unknown and gone":      {lost(w(1, 0, 1)), r(1, 2, 3), r(0, 4, 5)},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []Kind{Unlinearizable}, registerKinds(bad))
		})
	}
	require.Equal(t, []Kind{Garbage}, registerKinds([]Access{r(5, 0, 1)}))
}

func registerKinds(accesses []Access) []Kind {
	r := CheckRegister("x", accesses)
	return r.Kinds()
}

func TestForks(t *testing.T) {
	set := func(keys ...int) map[int]bool {
		s := make(map[int]bool)
		for _, key := range keys {
			s[key] = true
		}
		return s
	}
	good := CheckForks("x", []map[int]bool{set(1, 2, 3), set(), set(2), set(2, 3), set(2)})
	require.Empty(t, good.Anomalies)
	bad := CheckForks("x", []map[int]bool{set(1, 2, 3), set(1), set(2)})
	require.Equal(t, []Kind{LongFork}, bad.Kinds())
}

// model is a store under snapshot isolation, of one goroutine.
type model struct {
	rng     *rand.Rand
	ts      uint64
	now     time.Duration
	next    int
	commits map[string][]version
}

type version struct {
	ts   uint64
	list []int
}

func (m *model) tick() uint64 { m.ts++; return m.ts }

func (m *model) clock() time.Duration { m.now++; return m.now }

func (m *model) get(key string, at uint64) (list []int, ts uint64) {
	for _, v := range m.commits[key] {
		if v.ts <= at {
			list, ts = v.list, v.ts
		}
	}
	return list, ts
}

// TestRandomHistories: what a model of the isolation does is never refused, and of what it does without conflict checks
// or with readings of another time hardly anything passes.
func TestRandomHistories(t *testing.T) {
	seed := randtest.Seed(t)
	for name, wrong := range map[string]struct{ conflicts, views bool }{
		"snapshot isolation": {}, "no conflict checks": {conflicts: true}, "views that move": {views: true},
	} {
		t.Run(name, func(t *testing.T) {
			found := 0
			const histories = 100
			for i := range uint64(histories) {
				m := &model{rng: rand.New(rand.NewPCG(seed, i)), commits: make(map[string][]version)}
				txns := m.run(wrong.conflicts, wrong.views)
				r := Check(txns)
				r.Add(CheckTimes(txns))
				if len(r.Anomalies) > 0 {
					found++
				}
				if !wrong.conflicts && !wrong.views {
					require.Empty(t, r.Anomalies, "%s", r.String())
				}
			}
			if wrong.conflicts || wrong.views {
				require.Greater(t, found, histories*9/10)
			}
		})
	}
}

// run runs a history of some overlapping transactions.
func (m *model) run(noConflicts, movingViews bool) (txns []*Txn) {
	keys := []string{"x", "y", "z"}
	var open []*Txn
	for range 300 {
		if len(open) < 4 {
			t := &Txn{Begun: m.clock(), Start: m.tick()}
			open, txns = append(open, t), append(txns, t)
		}
		i := m.rng.IntN(len(open))
		t := open[i]
		key := keys[m.rng.IntN(len(keys))]
		if m.rng.IntN(3) > 0 {
			m.step(t, key, movingViews)
			continue
		}
		m.commit(t, noConflicts)
		open = append(open[:i], open[i+1:]...)
	}
	for _, t := range open {
		m.commit(t, noConflicts)
	}
	return txns
}

func (m *model) step(t *Txn, key string, movingViews bool) {
	at := t.Start
	if movingViews {
		at = m.ts
	}
	list, _ := m.get(key, at)
	list = append(append([]int(nil), list...), ownAppends(t, key)...)
	begun := m.clock()
	t.Ops = append(t.Ops, Op{Kind: Read, Key: key, List: list, View: t.Start, Begun: begun, Ended: m.clock()})
	if m.rng.IntN(2) == 0 {
		m.next++
		t.Ops = append(t.Ops, add(key, m.next))
	}
}

func ownAppends(t *Txn, key string) (own []int) {
	for _, op := range t.Ops {
		if op.Kind == Append && op.Key == key {
			own = append(own, op.Value)
		}
	}
	return own
}

func (m *model) commit(t *Txn, noConflicts bool) {
	writes := make(map[string][]int)
	for _, op := range t.Ops {
		if op.Kind == Append {
			writes[op.Key] = append(writes[op.Key], op.Value)
		}
	}
	t.Outcome, t.Commit = Committed, m.tick()
	for key := range writes {
		if _, newest := m.get(key, m.ts); newest > t.Start && !noConflicts {
			t.Outcome, t.Commit = Aborted, 0
		}
	}
	if t.Outcome == Committed {
		for key, values := range writes {
			list, _ := m.get(key, t.Start)
			m.commits[key] = append(m.commits[key], version{t.Commit, append(append([]int(nil), list...), values...)})
		}
	}
	t.Ended = m.clock()
}

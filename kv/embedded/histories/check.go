package histories

import (
	"slices"
	"time"
)

// Check looks for anomalies in a history of lists.
func Check(txns []*Txn) Report {
	a := analyse(txns)
	a.report.Txns = len(txns)
	a.checkReadings()
	a.splitViews()
	a.checkLost()
	a.checkNewest()
	a.checkCircles()
	return a.report
}

// appended is one append: which of its transaction's appends to the list, and whether it is the last.
type appended struct {
	txn   *Txn
	value int
	last  bool
}

// analysis is the check of one history.
type analysis struct {
	txns   []*Txn
	report Report
	// writers are the appends by list and value.
	writers map[string]map[int]appended
	// lists are the longest readings: the order of appends.
	lists map[string][]int
	// seen are the transactions that others have read from.
	seen map[*Txn]bool
	// unseen are the appends that were not read, of transactions that have committed.
	unseen map[string][]appended
	views  []*view
}

// analyse finds out who has appended what, and in what order.
func analyse(txns []*Txn) *analysis {
	a := &analysis{
		txns:    txns,
		writers: make(map[string]map[int]appended),
		lists:   make(map[string][]int),
		seen:    make(map[*Txn]bool),
		unseen:  make(map[string][]appended),
	}
	a.collectAppends()
	a.orderLists()
	return a
}

func (a *analysis) collectAppends() {
	for _, t := range a.txns {
		last := make(map[string]int)
		for _, op := range t.Ops {
			if op.Kind != Append {
				continue
			}
			if a.writers[op.Key] == nil {
				a.writers[op.Key] = make(map[int]appended)
			}
			if other, twice := a.writers[op.Key][op.Value]; twice {
				a.report.add(Internal, "%d was appended to %s by %s and by %s: the history is no good",
					op.Value, op.Key, other.txn.describe(), t.describe())
			}
			a.writers[op.Key][op.Value] = appended{txn: t, value: op.Value}
			last[op.Key] = op.Value
		}
		for key, value := range last {
			a.writers[key][value] = appended{txn: t, value: value, last: true}
		}
	}
}

// eachRead calls fn for every reading of a list, with the transaction's own appends to it so far.
func (a *analysis) eachRead(fn func(t *Txn, op *Op, own []int)) {
	for _, t := range a.txns {
		own := make(map[string][]int)
		for i := range t.Ops {
			if op := &t.Ops[i]; op.Kind == Append {
				own[op.Key] = append(own[op.Key], op.Value)
			} else {
				fn(t, op, own[op.Key])
			}
		}
	}
}

// others is the part of a reading that others have appended, if the rest is what the transaction appended itself.
func others(list, own []int) (_ []int, ok bool) {
	if len(list) < len(own) || !slices.Equal(list[len(list)-len(own):], own) {
		return list, false
	}
	return list[:len(list)-len(own)], true
}

// orderLists finds the longest reading of each list, and compares all others with it.
func (a *analysis) orderLists() {
	a.eachRead(func(t *Txn, op *Op, own []int) {
		list, ok := others(op.List, own)
		if !ok {
			a.report.add(Internal, "%s does not end with %v, which %s has appended itself", tail(op.List), own, t.describe())
		}
		for _, value := range list {
			if w, known := a.writers[op.Key][value]; known && w.txn != t {
				a.seen[w.txn] = true
			}
		}
		if len(list) > len(a.lists[op.Key]) {
			a.lists[op.Key] = list
		}
	})
	for key, list := range a.lists {
		at := make(map[int]int)
		for i, value := range list {
			if first, twice := at[value]; twice {
				a.report.add(Repeated, "%d is at %d and at %d in %s: %v", value, first, i, key, list)
			}
			at[value] = i
		}
	}
	for key, appends := range a.writers {
		for value, w := range appends {
			if (w.txn.Outcome == Committed || a.seen[w.txn]) && !slices.Contains(a.lists[key], value) {
				a.unseen[key] = append(a.unseen[key], w)
			}
		}
	}
}

// checkReadings checks each reading for itself: that it fits the order, and that its values were there to be read.
func (a *analysis) checkReadings() {
	reported := make(map[*Txn]bool)
	a.eachRead(func(t *Txn, op *Op, own []int) {
		a.report.Reads++
		list, _ := others(op.List, own)
		longest := a.lists[op.Key]
		if n := len(list); !slices.Equal(list, longest[:n]) {
			a.disorder(t, op.Key, list, longest)
		}
		for _, value := range list {
			w, known := a.writers[op.Key][value]
			switch {
			case !known:
				a.report.add(Garbage, "%d in %s, read by %s", value, op.Key, t.describe())
			case w.txn == t:
				a.report.add(Internal, "%d in %s, read by %s before it was appended or twice", value, op.Key, t.describe())
			case w.txn.Outcome == Aborted && !reported[w.txn]:
				reported[w.txn] = true
				a.report.add(AbortedRead, "%s has read %d in %s of %s", t.describe(), value, op.Key, w.txn.describe())
			}
		}
		if n := len(list); n > 0 {
			if w, known := a.writers[op.Key][list[n-1]]; known && !w.last && w.txn != t {
				a.report.add(IntermediateRead, "%s has read %s up to %d of %s", t.describe(), op.Key, list[n-1], w.txn.describe())
			}
		}
	})
}

// disorder reports a reading that the longest one does not begin with.
func (a *analysis) disorder(t *Txn, key string, list, longest []int) {
	at := 0
	for at < len(list) && list[at] == longest[at] {
		at++
	}
	a.report.add(Disorder, "%s has %s where others have %s (from %d on), read by %s", key, tail(list[:at+1]), tail(longest[:at+1]), at, t.describe())
	first, second := a.writers[key][list[at]], a.writers[key][longest[at]]
	if first.txn != nil && second.txn != nil {
		a.lostUpdate(key, at, first.txn, second.txn)
	}
}

// lostUpdate reports two transactions that have read the same n values of a list and both appended to it.
func (a *analysis) lostUpdate(key string, n int, first, second *Txn) {
	if first != second && hasRead(first, key, n) && hasRead(second, key, n) {
		a.report.add(LostUpdate, "both have read %d values of %s and appended to it: %s and %s", n, key, first.describe(), second.describe())
	}
}

// hasRead says whether a transaction has read the first n values of a list, and no more, before it appended to it.
func hasRead(t *Txn, key string, n int) bool {
	for _, op := range t.Ops {
		if op.Key == key && op.Kind == Append {
			return false
		}
		if op.Key == key && len(op.List) == n {
			return true
		}
	}
	return false
}

// checkLost reports committed appends that are not in a reading that began after them.
func (a *analysis) checkLost() {
	latest := make(map[string]*view)
	for _, v := range a.views {
		for _, r := range v.reads {
			if was := latest[r.key]; was == nil || v.begun > was.begun {
				latest[r.key] = v
			}
		}
	}
	for key, appends := range a.unseen {
		for _, w := range appends {
			reader := latest[key]
			if reader == nil || w.txn.Outcome != Committed || w.txn.Ended >= reader.begun {
				continue
			}
			a.report.add(Lost, "%d, appended to %s by %s, is unknown to %s", w.value, key, w.txn.describe(), reader.txn.describe())
			for n, value := range a.lists[key] {
				if other := a.writers[key][value].txn; other != nil {
					a.lostUpdate(key, n, w.txn, other)
				}
			}
		}
	}
}

// never is when a transaction of unknown outcome ends.
const never = time.Duration(1<<63 - 1)

// view is what a transaction has read at one time and, if it is its last one, what it has written.
type view struct {
	txn          *Txn
	ts           uint64
	begun, ended time.Duration
	reads        []reading
	// writes says that this is where the transaction's appends take place, and its locks hold until here.
	writes bool
}

// reading is a list as others have left it.
type reading struct {
	key    string
	length int
	locked bool
}

// splitViews makes the views of all transactions.
func (a *analysis) splitViews() {
	for _, t := range a.txns {
		if t.Newest {
			continue
		}
		s := splitter{analysis: a, txn: t, final: &view{txn: t, ts: t.Start, begun: t.Begun, ended: t.Ended, writes: true}}
		s.ended = t.Outcome == Committed || (t.Outcome == Unknown && a.seen[t])
		if t.Outcome == Unknown {
			s.final.ended = never
		}
		s.split()
	}
}

// splitter makes the views of one transaction.
type splitter struct {
	*analysis
	txn   *Txn
	ended bool // it has committed
	final *view
	plain []*view
}

func (s *splitter) split() {
	own := make(map[string][]int)
	for i := range s.txn.Ops {
		op := &s.txn.Ops[i]
		if op.Kind == Append {
			own[op.Key] = append(own[op.Key], op.Value)
			continue
		}
		list, _ := others(op.List, own[op.Key])
		if !s.ended && s.txn.Pessimistic && len(own[op.Key]) > 0 {
			continue // it has read its own buffer, which is as old as its lock
		}
		v := s.viewOf(op, len(own[op.Key]) > 0)
		r := reading{key: op.Key, length: len(list), locked: op.Locked && s.ended}
		if before := slices.IndexFunc(v.reads, func(b reading) bool { return b.key == r.key }); before >= 0 {
			if v.reads[before].length != r.length {
				s.report.add(Internal, "%s has read %s twice at one time, with different results", s.txn.describe(), op.Key)
			}
			v.reads[before].locked = v.reads[before].locked || r.locked
			continue
		}
		v.reads = append(v.reads, r)
	}
	s.views = append(s.views, s.plain...)
	if s.ended {
		s.views = append(s.views, s.final)
	} else if len(s.final.reads) > 0 {
		s.final.writes = false
		s.views = append(s.views, s.final)
	}
}

// viewOf returns the view that a reading belongs to.
func (s *splitter) viewOf(op *Op, ownList bool) *view {
	atEnd := op.Locked || ownList
	if !s.txn.Pessimistic || atEnd && s.ended {
		return s.final
	}
	if !atEnd && op.View != 0 {
		for _, v := range s.plain {
			if v.ts == op.View {
				v.ended = max(v.ended, op.Ended)
				return v
			}
		}
	}
	// Locks of a transaction that did not commit may not have lasted: each of its readings stands for itself.
	v := &view{txn: s.txn, begun: op.Begun, ended: op.Ended}
	if !atEnd {
		v.ts = op.View
	}
	if v.ts == s.txn.Start {
		v.begun = s.txn.Begun
	}
	s.plain = append(s.plain, v)
	return v
}

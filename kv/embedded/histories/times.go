package histories

import (
	"cmp"
	"slices"
)

// CheckTimes compares a history of lists with its timestamps: a plain reading shows exactly what was committed at or
// below its timestamp, a locked one what was committed before its own transaction, appends follow each other in the order
// of their commit timestamps, and so do transactions that do not overlap.
func CheckTimes(txns []*Txn) Report {
	a := analyse(txns)
	a.report = Report{} // what is wrong without looking at timestamps is Check's business
	a.checkCommitOrder()
	a.checkViewTimes()
	a.checkRealTime()
	return a.report
}

// committed returns when a value of a list was committed, 0 if that is unknown.
func (a *analysis) committed(key string, value int) (uint64, *Txn) {
	if w, known := a.writers[key][value]; known && w.txn.Outcome == Committed {
		return w.txn.Commit, w.txn
	}
	return 0, nil
}

func (a *analysis) checkCommitOrder() {
	for key, list := range a.lists {
		var newest uint64
		var by *Txn
		for _, value := range list {
			ts, t := a.committed(key, value)
			if ts != 0 && ts < newest {
				a.report.add(WrongOrder, "%s was appended to at %d by %s, then at %d by %s", key, newest, by.describe(), ts, t.describe())
			}
			if ts != 0 {
				newest, by = ts, t
			}
		}
	}
	for _, t := range a.txns {
		if t.Outcome == Committed && t.Commit != 0 && t.Commit <= t.Start {
			a.report.add(WrongOrder, "a commit before its start: %s", t.describe())
		}
	}
}

func (a *analysis) checkViewTimes() {
	a.eachRead(func(t *Txn, op *Op, own []int) {
		at := op.View
		if op.Locked {
			if at = 0; t.Outcome == Committed && t.Commit != 0 {
				at = t.Commit - 1
			}
		}
		if at == 0 || t.Pessimistic && len(own) > 0 && !op.Locked {
			return
		}
		a.report.Reads++
		list, _ := others(op.List, own)
		longest := a.lists[op.Key]
		if n := len(list); n > 0 {
			if ts, w := a.committed(op.Key, list[n-1]); ts > at {
				a.report.add(WrongView, "%s at %d has %d of later, by %s, read by %s", op.Key, at, list[n-1], w.describe(), t.describe())
			}
		}
		if n := len(list); n < len(longest) {
			if ts, w := a.committed(op.Key, longest[n]); w != t && ts != 0 && ts <= at {
				a.report.add(WrongView, "%s at %d lacks %d of %d, by %s, read by %s", op.Key, at, longest[n], ts, w.describe(), t.describe())
			}
		}
	})
}

// checkRealTime compares commits with the starts of what began later.
func (a *analysis) checkRealTime() {
	byEnd := slices.DeleteFunc(slices.Clone(a.txns), func(t *Txn) bool { return t.Outcome != Committed })
	slices.SortFunc(byEnd, func(a, b *Txn) int { return cmp.Compare(a.Ended, b.Ended) })
	byBegin := slices.Clone(a.txns)
	slices.SortFunc(byBegin, func(a, b *Txn) int { return cmp.Compare(a.Begun, b.Begun) })
	var newest *Txn
	for _, t := range byBegin {
		for len(byEnd) > 0 && byEnd[0].Ended < t.Begun {
			if newest == nil || newest.Commit < byEnd[0].Commit {
				newest = byEnd[0]
			}
			byEnd = byEnd[1:]
		}
		if newest != nil && t.Start != 0 && t.Start < newest.Commit {
			a.report.add(WrongOrder, "%s began after the end of %s, at an earlier time", t.describe(), newest.describe())
		}
	}
}

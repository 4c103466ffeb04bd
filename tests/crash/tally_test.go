package crash

import (
	"fmt"
	"slices"
	"strings"
)

// count is how often something has happened.
type count struct {
	what string
	n    int
}

// tally is what has happened in one seed or in several, in the order of reporting.
type tally []count

// add adds up what two tallies say of the same.
func (t tally) add(o tally) tally {
	for _, c := range o {
		i := slices.IndexFunc(t, func(d count) bool { return d.what == c.what })
		if i < 0 {
			t = append(t, c)
		} else {
			t[i].n += c.n
		}
	}
	return t
}

func (t tally) String() string {
	texts := make([]string, len(t))
	for i, c := range t {
		texts[i] = fmt.Sprintf("%d %s", c.n, c.what)
	}
	return strings.Join(texts, ", ")
}

// tally says what the seed has done.
func (r *run) tally() tally {
	var commits, conflicts, duplicates, done, cancelled, refused, interrupted, transfers int
	for _, w := range r.workers {
		commits, conflicts, duplicates = commits+w.commits, conflicts+w.conflicts, duplicates+w.duplicates
	}
	for _, ids := range r.bank.acknowledged {
		transfers += len(ids)
	}
	for _, a := range r.alterers {
		done, cancelled, refused, interrupted = done+a.done, cancelled+a.cancelled, refused+a.refused, interrupted+a.interrupted
	}
	t := tally{
		{"histories", 1}, {"lives that were ended", r.lives}, {"of them by kill -9", r.kills},
		{"commits", commits}, {"conflicts", conflicts}, {"duplicates", duplicates},
		{"ALTERs done", done}, {"cancelled", cancelled}, {"refused as not unique", refused}, {"interrupted", interrupted},
		{"index reads compared", int(r.compared.Load())}, {"of them of the past", int(r.past.compared.Load())},
		{"transfers", transfers}, {"conflicts of transfers", int(r.bank.conflicts.Load())}, {"ALTERs beside them", int(r.bank.alters.Load())},
	}
	if r.inject == nil {
		return t
	}
	return append(t.add(r.faults.tally()), count{"times that was noticed", int(r.faultsNoticed.Load())}, count{"ends of the server by it", r.exits})
}

package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Blocker is a transaction that a job waits for.
type Blocker struct {
	// ConnID and User are its session's.
	ConnID uint64
	User   string
	// Age is how long it has been open, Idle how long its session has run no
	// statement; 0 while it does.
	Age, Idle time.Duration
	// Keys is the number of keys that it has written so far.
	Keys uint64
}

// BlockerPolicy says which transactions are ended for a job that waits for them.
// Zero values say nothing: then none is.
type BlockerPolicy struct {
	// IdleTimeout is how long one may be idle, MaxAge how long it may be open, also
	// while it runs a statement.
	IdleTimeout, MaxAge time.Duration
	// SparedKeys is how many keys a transaction may have written to be ended: more
	// work than that is not thrown away. SparedUsers are users whose transactions
	// are never ended.
	SparedKeys  uint64
	SparedUsers []string
}

// Verdict is what a policy says of a blocker.
type Verdict struct {
	Blocker
	// End says that it is to be ended now, Why why, or why not.
	End bool
	Why string
}

// ParseUsers reads a list of users, separated by commas. They may be quoted and have a host, as
// in GRANT; the user of that name is meant, from any host.
func ParseUsers(list string) []string {
	var users []string
	for user := range strings.SplitSeq(list, ",") {
		user, _, _ = strings.Cut(user, "@")
		if user = strings.Trim(user, " \t'\"`"); user != "" {
			users = append(users, user)
		}
	}
	return users
}

// Judge returns a verdict for each blocker: first those that are idle, then those
// that run a statement, the oldest first. One that runs a statement is ended only
// when none that is idle is left to be.
func (p BlockerPolicy) Judge(found []Blocker) []Verdict {
	verdicts := make([]Verdict, len(found))
	for i, b := range found {
		verdicts[i] = p.judge(b)
	}
	slices.SortStableFunc(verdicts, func(a, b Verdict) int {
		if (a.Idle > 0) != (b.Idle > 0) {
			if a.Idle > 0 {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.Age, a.Age)
	})
	idle := slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.End && v.Idle > 0 })
	for i := range verdicts {
		if v := &verdicts[i]; v.End && v.Idle == 0 && idle {
			v.End, v.Why = false, v.Why+", but idle ones are ended first"
		}
	}
	return verdicts
}

func (p BlockerPolicy) judge(b Blocker) Verdict {
	v := Verdict{Blocker: b}
	tooIdle := p.IdleTimeout > 0 && b.Idle >= p.IdleTimeout
	tooOld := p.MaxAge > 0 && b.Age >= p.MaxAge
	spared := slices.ContainsFunc(p.SparedUsers, func(user string) bool { return strings.EqualFold(user, b.User) })
	switch {
	case (tooIdle || tooOld) && spared:
		v.Why = "spared: user " + b.User
	case (tooIdle || tooOld) && p.SparedKeys > 0 && b.Keys > p.SparedKeys:
		v.Why = fmt.Sprintf("spared: it has written %d keys", b.Keys)
	case tooIdle:
		v.End, v.Why = true, fmt.Sprintf("idle for %s", b.Idle.Round(time.Millisecond))
	case tooOld:
		v.End, v.Why = true, fmt.Sprintf("open for %s", b.Age.Round(time.Millisecond))
	case b.Idle > 0:
		v.Why = "idle"
	default:
		v.Why = "runs a statement"
	}
	return v
}

package dist

import (
	"slices"
	"time"

	"fastddl/internal/backoff"
)

// State is what has become of a subtask.
type State string

// The states. They are durable.
const (
	// Open: no node builds it. What an earlier holder has done of it is kept.
	Open State = "open"
	// Held: its holder builds it.
	Held State = "held"
	// Done: its entries are durable.
	Done State = "done"
	// Failed: it cannot be built, so neither can the index.
	Failed State = "failed"
)

// Subtask is a subtask as its row says.
type Subtask struct {
	// Number counts the subtasks of a job in key order, from 0.
	Number int64
	State  State
	// Wanted says that the job's owner wants it built now.
	Wanted bool
	// Holder is the member of the cluster that builds it, or was the last to; Epoch
	// counts the holders.
	Holder string
	Epoch  int64
	// Failures is how often an attempt has ended with an error that another one may not
	// meet.
	Failures int64
	// Wrong says that an attempt was found wrong, of the subtask or of those that were built with it.
	Wrong bool
}

// MayFailAgain says that the subtask is to be built alone, so that no other one fails with it.
func (p *Subtask) MayFailAgain() bool { return p.Failures > 0 || p.Wrong }

// HeldBy says that the subtask is the member's, by the claim that made its epoch what it is.
func (p *Subtask) HeldBy(member string, epoch int64) bool {
	return p.State == Held && p.Holder == member && p.Epoch == epoch
}

// Claimed returns the subtask as a member holds it.
func (p *Subtask) Claimed(member string) Subtask {
	after := *p
	after.State, after.Holder, after.Epoch = Held, member, p.Epoch+1
	return after
}

// Released returns the subtask as its holder leaves it: done, failed, or open.
func (p *Subtask) Released(to State) Subtask {
	after := *p
	after.State = to
	return after
}

// Claimant is a member that looks for a subtask.
type Claimant struct {
	Member string
	// Holds says that the member knows of a subtask that it holds: it looks for another one, to
	// build it together with that. Nil says that it holds none.
	Holds func(number int64) bool
	// MaxNodes is how many members may hold subtasks of the job at one time.
	MaxNodes int
	// Last is the subtask that the member has claimed before, -1 if none: the next one in key
	// order is the best for it, because what it imports lies beside what it has imported.
	Last int64
	// Avoid says that the member has failed with a subtask a moment ago; nil avoids none.
	Avoid func(number int64) bool
}

// Choose returns the subtask of a job that a member claims, if there is one. It holds no more
// subtasks at a time than its share, so that a quick one leaves subtasks to others. A
// subtask that has failed before is built alone, so that no other one fails with it.
func Choose(subtasks []Subtask, c Claimant) (chosen Subtask, ok bool) {
	held := 0
	for _, p := range subtasks {
		if p.State != Held || p.Holder != c.Member {
			continue
		}
		if p.Wanted && (c.Holds == nil || !c.Holds(p.Number)) {
			return p, true // the answer to that claim was lost
		}
		held++
	}
	if joins := c.Holds != nil; joins {
		if held == 0 || held*c.MaxNodes >= len(subtasks) {
			return Subtask{}, false
		}
	} else if held > 0 || len(Holders(subtasks)) >= c.MaxNodes {
		return Subtask{}, false
	}
	for _, p := range subtasks {
		if p.State != Open || !p.Wanted || c.Avoid != nil && c.Avoid(p.Number) || held > 0 && p.MayFailAgain() {
			continue
		}
		if !ok || p.Number == c.Last+1 {
			chosen, ok = p, true
		}
	}
	return chosen, ok
}

// Forgotten returns the subtasks that a member holds, does not know of, because the answers to
// its claims were lost, and will not claim again: those that are not wanted, and all if it may
// build none. The owner that recalls subtasks waits until no node holds one.
func Forgotten(subtasks []Subtask, member string, knows func(number int64) bool, eligible bool) (forgotten []Subtask) {
	for _, p := range subtasks {
		if p.State == Held && p.Holder == member && !knows(p.Number) && !(p.Wanted && eligible) {
			forgotten = append(forgotten, p)
		}
	}
	return forgotten
}

// Holders returns the members that hold subtasks, each once.
func Holders(subtasks []Subtask) []string {
	var names []string
	for _, p := range subtasks {
		if p.State == Held && !slices.Contains(names, p.Holder) {
			names = append(names, p.Holder)
		}
	}
	return names
}

// Lost returns the subtasks whose holders are not among the members.
func Lost(subtasks []Subtask, members map[string]bool) []Subtask {
	return slices.DeleteFunc(slices.Clone(subtasks), func(p Subtask) bool { return p.State != Held || members[p.Holder] })
}

const (
	// maxFences is how often nodes may be lost that build subtasks of a job.
	maxFences = 12
	// minFencePause and maxFencePause bound the time between two fences.
	minFencePause, maxFencePause = 2 * time.Second, 10 * time.Minute
)

// FencePause is how long the subtasks of a node that is lost stay with it after so many fences
// for other ones, if it is worth going on at all. A fence doubles the regions of an index for
// about an hour, and a node that dies of what it builds comes back and claims again.
func FencePause(fences int) (pause time.Duration, ok bool) {
	if fences >= maxFences {
		return 0, false
	}
	return backoff.Exponential(fences+1, minFencePause, maxFencePause), true
}

// calmTakeovers is how often a job changes its owner without a suspicion: all nodes of a cluster are
// restarted one after the other.
const calmTakeovers = 4

// TakeoverPause returns how long a node that takes a job over for the n-th time, in the middle of its
// import, waits before it fences off the earlier owner: owners may die of what they build, too.
func TakeoverPause(n int64) time.Duration {
	if n <= calmTakeovers {
		return 0
	}
	return backoff.Exponential(n-calmTakeovers+1, minFencePause, maxFencePause)
}

// AllDone says that there is nothing left to build.
func AllDone(subtasks []Subtask) bool {
	return !slices.ContainsFunc(subtasks, func(p Subtask) bool { return p.State != Done })
}

// Failures is how often attempts at the subtasks have failed.
func Failures(subtasks []Subtask) (n int64) {
	for _, p := range subtasks {
		n += p.Failures
	}
	return n
}

const (
	// subtasksPerNode lets a node that is faster, or joins later, do more than others. Their number does not matter to the
	// stores: what a node imports at a time is that of all its subtasks.
	subtasksPerNode = 4
	// largeSubtasks is how many subtasks of the least size make a table so large that nodes may
	// join while it is built: 16 GiB by default. What subtasks import overlaps, so that the
	// stores have to merge it, which is of no use to a node that builds them all.
	largeSubtasks = 256
	// maxSubtasks bounds the rows of a job, which one transaction writes: 25 MiB with execution.MaxSubtaskRanges ranges each,
	// of the 100 MiB that TiDB allows, so 1,000 would be too many. More than 64 nodes have less than subtasksPerNode each,
	// and some twice as much as others; by the model of docs/scale.md builds have become slower by then, since every node
	// imports into every region, and more subtasks make none faster.
	maxSubtasks = 256
)

// Count is how many subtasks a table of about so many bytes is cut into for so many nodes, if
// none is to be much smaller than subtaskBytes; 0 says that it is not worth dividing. members
// returns how many nodes there are now, and is asked only where that matters: those that join
// are of use to large tables.
func Count(bytes, subtaskBytes float64, nodes int, members func() int) int {
	subtasks := bytes / max(1, subtaskBytes)
	if nodes >= 2 && subtasks >= 2 && bytes < largeSubtasks*subtaskBytes {
		nodes = min(nodes, members())
	}
	n := min(subtasks, float64(subtasksPerNode*nodes), maxSubtasks)
	if nodes < 2 || n < 2 {
		return 0
	}
	return int(n)
}

package dist

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

func TestChoose(t *testing.T) {
	subtasks := []Subtask{
		{Number: 0, State: Done, Wanted: true},
		{Number: 1, State: Held, Wanted: true, Holder: "a", Epoch: 1},
		{Number: 2, State: Open, Wanted: true},
		{Number: 3, State: Failed, Wanted: true},
		{Number: 4, State: Open, Wanted: true},
		{Number: 5, State: Open},
	}
	choose := func(c Claimant) int64 {
		p, ok := Choose(subtasks, c)
		if !ok {
			return -1
		}
		return p.Number
	}
	require.EqualValues(t, 2, choose(Claimant{Member: "b", MaxNodes: 2, Last: -1}), "the first that is open")
	require.EqualValues(t, 4, choose(Claimant{Member: "b", MaxNodes: 2, Last: 3}), "the next one for it")
	require.EqualValues(t, 2, choose(Claimant{Member: "b", MaxNodes: 2, Last: 4}), "5 is not wanted")
	require.EqualValues(t, 4, choose(Claimant{Member: "b", MaxNodes: 2, Last: -1, Avoid: func(n int64) bool { return n == 2 }}))
	require.EqualValues(t, -1, choose(Claimant{Member: "b", MaxNodes: 1, Last: -1}), "no more nodes than the limit")

	holds := func(numbers ...int64) func(int64) bool {
		return func(n int64) bool { return slices.Contains(numbers, n) }
	}
	require.EqualValues(t, 1, choose(Claimant{Member: "a", MaxNodes: 1, Last: -1}), "the answer to its claim was lost")
	require.EqualValues(t, 2, choose(Claimant{Member: "a", MaxNodes: 1, Last: 1, Holds: holds(1)}), "one more")
	require.EqualValues(t, -1, choose(Claimant{Member: "b", MaxNodes: 9, Last: 1, Holds: holds(1)}), "what it held is not its own any more")
	require.EqualValues(t, 2, choose(Claimant{Member: "a", MaxNodes: 5, Last: 1, Holds: holds(1)}), "two of six parts are its share")
	require.EqualValues(t, -1, choose(Claimant{Member: "a", MaxNodes: 6, Last: 1, Holds: holds(1)}), "it has its share")
	subtasks[2].Failures = 1
	require.EqualValues(t, 4, choose(Claimant{Member: "a", MaxNodes: 1, Last: 1, Holds: holds(1)}), "what has failed is built alone")
	require.EqualValues(t, 2, choose(Claimant{Member: "b", MaxNodes: 9, Last: 1}))
}

func TestCount(t *testing.T) {
	const subtask = 64 << 20
	there := func(n int) func() int { return func() int { return n } }
	unasked := func() int {
		require.FailNow(t, "asks where it does not matter")
		return 0
	}
	require.Zero(t, Count(2*subtask-1, subtask, 3, unasked), "small tables are built alone")
	require.Zero(t, Count(1e12, subtask, 1, unasked), "as are those that one node may build")
	require.Zero(t, Count(4*subtask, subtask, 1, unasked))
	require.Equal(t, 2, Count(2*subtask, subtask, 3, there(3)))
	require.Equal(t, 12, Count(1e12, subtask, 3, unasked))
	require.Equal(t, maxSubtasks, Count(1e15, subtask, 1000, unasked))
	require.Zero(t, Count(largeSubtasks*subtask-1, subtask, 3, there(1)), "and those that are built before another node comes")
	require.Equal(t, 8, Count(largeSubtasks*subtask-1, subtask, 3, there(2)))
	require.Equal(t, 12, Count(largeSubtasks*subtask, subtask, 3, unasked))
}

// history is a job whose subtasks members claim, build, lose and give back in any order. It
// knows more than the rows do: who really builds what.
type history struct {
	t        *testing.T
	r        *rand.Rand
	subtasks []Subtask
	maxNodes int
	members  map[string]bool
	building map[string][]Subtask // by member: what it believes to hold
	late     map[string][]Subtask // what members that are gone believe
	fenced   map[string]bool      // those whose imports are refused
	halted   bool
	next     int
}

// TestRandomHistories: for any events in any order, each subtask has one builder whose
// imports are taken, a late one writes nothing, no member builds after a halt, and in the
// end everything is built.
func TestRandomHistories(t *testing.T) {
	seed := randtest.Seed(t)
	together := 0
	for i := range 2000 {
		h := newHistory(t, rand.New(rand.NewPCG(seed, uint64(i))))
		for range 200 {
			h.step()
			h.check()
			for _, held := range h.building {
				together = max(together, len(held))
			}
		}
		h.finish()
	}
	require.Greater(t, together, 3)
}

func newHistory(t *testing.T, r *rand.Rand) *history {
	h := &history{
		t: t, r: r, maxNodes: 1 + r.IntN(4),
		members: make(map[string]bool), building: make(map[string][]Subtask), late: make(map[string][]Subtask), fenced: make(map[string]bool),
	}
	for i := range int64(1 + r.IntN(8)) {
		h.subtasks = append(h.subtasks, Subtask{Number: i, State: Open, Wanted: true})
	}
	return h
}

func (h *history) step() {
	switch h.r.IntN(10) {
	case 0, 1:
		h.next++
		h.members[fmt.Sprint("m", h.next)] = true
	case 2:
		m := pick(h.r, h.members) // dies, and does not know
		delete(h.members, m)
		if held, ok := h.building[m]; ok {
			delete(h.building, m)
			h.late[m] = held
		}
	case 3, 4, 5:
		if m := pick(h.r, h.members); m != "" {
			h.claim(m)
		}
	case 6, 7:
		h.leave([]State{Open, Done, Done}[h.r.IntN(3)])
	case 8:
		h.reopen()
	case 9:
		h.halted = !h.halted
		for i := range h.subtasks {
			h.subtasks[i].Wanted = !h.halted
		}
	}
}

// claim has a member take its first subtask, or another one. It may not hear that it has.
func (h *history) claim(m string) {
	c := Claimant{Member: m, MaxNodes: h.maxNodes, Last: int64(h.r.IntN(9)) - 1}
	if len(h.building[m]) > 0 {
		c.Holds = func(n int64) bool {
			return slices.ContainsFunc(h.building[m], func(p Subtask) bool { return p.Number == n })
		}
	}
	p, ok := Choose(h.subtasks, c)
	if !ok {
		return
	}
	require.False(h.t, h.halted, "claimed after a halt")
	h.subtasks[p.Number] = p.Claimed(m)
	if h.r.IntN(10) > 0 {
		h.building[m] = append(h.building[m], h.subtasks[p.Number])
	}
}

// leave has somebody end its work, late or not.
func (h *history) leave(to State) {
	if m := pick(h.r, h.building); m != "" {
		for _, p := range h.building[m] {
			now := &h.subtasks[p.Number]
			require.True(h.t, now.HeldBy(m, p.Epoch), "a member has lost its part")
			*now = now.Released(to)
		}
		delete(h.building, m)
		return
	}
	if m := pick(h.r, h.late); m != "" {
		lost := func(p Subtask) bool { return !h.subtasks[p.Number].HeldBy(m, p.Epoch) }
		if !slices.ContainsFunc(h.late[m], lost) { // it was quicker than the owner
			for _, p := range h.late[m] {
				h.subtasks[p.Number] = h.subtasks[p.Number].Released(to)
			}
		}
		delete(h.late, m)
	}
}

// pick returns one of the keys, the same each time for a seed; empty if there is none.
func pick[V any](r *rand.Rand, of map[string]V) string {
	if len(of) == 0 {
		return ""
	}
	return slices.Sorted(maps.Keys(of))[r.IntN(len(of))]
}

// reopen is what the owner does.
func (h *history) reopen() {
	for _, p := range Lost(h.subtasks, h.members) {
		h.fenced[p.Holder] = true
		h.subtasks[p.Number] = p.Released(Open)
	}
}

func (h *history) check() {
	require.LessOrEqual(h.t, len(Holders(h.subtasks)), h.maxNodes)
	builders := make(map[int64]string)
	for m, held := range h.building {
		for _, p := range held {
			require.Empty(h.t, builders[p.Number], "two build part %d", p.Number)
			builders[p.Number] = m
		}
	}
	for m, held := range h.late {
		if h.fenced[m] {
			continue
		}
		for _, p := range held { // it may still import
			require.Empty(h.t, builders[p.Number], "somebody builds part %d beside a late one", p.Number)
		}
	}
}

func (h *history) finish() {
	h.halted = false
	h.members["last"] = true
	for i := range h.subtasks {
		h.subtasks[i].Wanted = true
	}
	for range 200 {
		h.reopen()
		for _, m := range slices.Sorted(maps.Keys(h.members)) {
			h.claim(m)
		}
		h.leave(Done)
		if AllDone(h.subtasks) {
			return
		}
	}
	require.Fail(h.t, "not everything is built", "%+v", h.subtasks)
}

// TestFencePause: lost nodes are replaced more and more slowly, and not for ever.
func TestFencePause(t *testing.T) {
	last := time.Duration(0)
	for fences := range maxFences {
		pause, ok := FencePause(fences)
		require.True(t, ok)
		require.GreaterOrEqual(t, pause, last)
		require.LessOrEqual(t, pause, maxFencePause)
		last = pause
	}
	require.Equal(t, maxFencePause, last)
	_, ok := FencePause(maxFences)
	require.False(t, ok)

	require.Zero(t, TakeoverPause(1))
	require.Zero(t, TakeoverPause(calmTakeovers))
	last = 0
	for n := int64(calmTakeovers + 1); n < 100; n++ {
		require.GreaterOrEqual(t, TakeoverPause(n), max(last, minFencePause))
		last = TakeoverPause(n)
	}
	require.Equal(t, maxFencePause, last, "it goes on: somebody may mend what kills the owners")
}

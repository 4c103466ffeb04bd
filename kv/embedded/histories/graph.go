package histories

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// edgeKind is why one view comes before another.
type edgeKind uint8

const (
	ww edgeKind = 1 << iota
	wr
	lockedRW // rw of a reader that had locked what it read, until it committed
	realTime // also the order of one transaction's views
	rw
)

var edgeNames = map[edgeKind]string{ww: "ww", wr: "wr", lockedRW: "rw, locked", realTime: "real time", rw: "rw"}

// edge leads to a vertex.
type edge struct {
	to   int
	kind edgeKind
	key  string
}

// graph has the views as vertices, and behind them one vertex for each end of a view, for the order of real time: each
// end comes before the next one, and before what begins next.
type graph struct {
	views []*view
	out   [][]edge
	edges int
}

func (g *graph) add(from, to int, kind edgeKind, key string) {
	if from == to || from < 0 || to < 0 {
		return
	}
	if kind == rw && g.views[from].txn == g.views[to].txn {
		return // a view and the later one that writes, which is no contradiction
	}
	g.out[from] = append(g.out[from], edge{to, kind, key})
	if kind != realTime {
		g.edges++
	}
}

// buildGraph derives the dependencies of the views.
func (a *analysis) buildGraph() *graph {
	g := &graph{views: a.views, out: make([][]edge, len(a.views))}
	final := make(map[*Txn]int)
	for i, v := range a.views {
		if v.writes {
			final[v.txn] = i
		}
	}
	for i, v := range a.views {
		if at, ok := final[v.txn]; ok {
			g.add(i, at, realTime, "") // the others follow each other by the time
		}
	}
	writer := func(key string, value int) int {
		if i, ok := final[a.writers[key][value].txn]; ok {
			return i
		}
		return -1
	}
	for key, list := range a.lists {
		for i := 1; i < len(list); i++ {
			g.add(writer(key, list[i-1]), writer(key, list[i]), ww, key)
		}
	}
	for i, v := range a.views {
		for _, r := range v.reads {
			kind := rw
			if r.locked {
				kind = lockedRW
			}
			list := a.lists[r.key]
			if r.length > 0 && r.length <= len(list) {
				g.add(writer(r.key, list[r.length-1]), i, wr, r.key)
			}
			if r.length < len(list) {
				g.add(i, writer(r.key, list[r.length]), kind, r.key)
				continue
			}
			for _, w := range a.unseen[r.key] {
				g.add(i, writer(r.key, w.value), kind, r.key)
			}
		}
	}
	g.addRealTime()
	return g
}

func (g *graph) addRealTime() {
	var ends []int
	for i, v := range g.views {
		if v.ended != never {
			ends = append(ends, i)
		}
	}
	byEnd := func(a, b int) int { return cmp.Compare(g.views[a].ended, g.views[b].ended) }
	slices.SortFunc(ends, byEnd)
	first := len(g.views)
	g.out = append(g.out, make([][]edge, len(ends))...)
	for n, i := range ends {
		g.add(i, first+n, realTime, "")
		if n > 0 {
			g.add(first+n-1, first+n, realTime, "")
		}
	}
	for i, v := range g.views {
		n, _ := slices.BinarySearchFunc(ends, v.begun, func(e int, t time.Duration) int { return cmp.Compare(g.views[e].ended, t) })
		if n > 0 {
			g.add(first+n-1, i, realTime, "")
		}
	}
}

// checkCircles looks for forbidden circles, beginning with the worst kind, and reports those of one kind. Readings that
// are wrong by themselves make dependencies that mean nothing.
func (a *analysis) checkCircles() {
	g := a.buildGraph()
	a.report.Edges = g.edges
	if len(a.report.Anomalies) > 0 {
		return
	}
	for _, allowed := range []edgeKind{
		ww, ww | wr, ww | wr | lockedRW, ww | wr | lockedRW | realTime,
		ww | wr | lockedRW | rw, ww | wr | lockedRW | realTime | rw,
	} {
		circles := g.circles(allowed)
		for _, c := range circles {
			a.report.add(c.kind(), "%s", c.describe(g))
			a.report.Anomalies[len(a.report.Anomalies)-1].RealTime = c.has(realTime) > 0
		}
		if len(circles) > 0 {
			return
		}
	}
}

// circle is a closed path. Its steps lead from the vertex of the one before, the first one from that of the last.
type circle []edge

func (c circle) has(kind edgeKind) (n int) {
	for _, e := range c {
		if e.kind&kind != 0 {
			n++
		}
	}
	return n
}

// kind names the anomaly that a circle is.
func (c circle) kind() Kind {
	switch {
	case len(c) == 2 && c.has(ww) == 1 && c.has(rw|lockedRW) == 1 && c[0].key == c[1].key:
		return LostUpdate
	case c.has(rw) > 1:
		return LongFork
	case c.has(rw) == 1:
		return ReadSkew
	case c.has(lockedRW) > 0:
		return LockedSkew
	case c.has(wr) == 0:
		return DirtyWrite
	}
	return CircularFlow
}

func (c circle) describe(g *graph) string {
	var b strings.Builder
	from := c[len(c)-1].to
	for _, e := range c {
		if from < len(g.views) {
			fmt.Fprintf(&b, "\n    %s", g.views[from].txn.describe())
		}
		if e.kind != realTime || from < len(g.views) {
			fmt.Fprintf(&b, "\n      then, by %s", edgeNames[e.kind])
			if e.key != "" {
				fmt.Fprintf(&b, " of %s", e.key)
			}
		}
		from = e.to
	}
	return b.String()
}

// circles returns a shortest circle of allowed dependencies in each part of the graph that has one. No two rw
// dependencies stand side by side in it: its vertices are pairs of a vertex and whether an rw dependency led to it, and
// from those where one did another does not lead on.
func (g *graph) circles(allowed edgeKind) []circle {
	s := search{graph: g, allowed: allowed}
	var found []circle
	for _, part := range s.components() {
		if c := s.shortest(part); c != nil {
			found = append(found, c)
		}
	}
	return found
}

// search is a search in the graph of pairs: 2v is vertex v, 2v+1 the same when an rw dependency has led to it.
type search struct {
	*graph
	allowed edgeKind
}

// next calls fn for the dependencies that lead on from a pair.
func (s *search) next(at int, fn func(to int, e edge)) {
	for _, e := range s.out[at/2] {
		switch {
		case e.kind&s.allowed == 0:
		case e.kind != rw:
			fn(2*e.to, e)
		case at%2 == 0:
			fn(2*e.to+1, e)
		}
	}
}

// components returns the strongly connected components of more than one pair (Tarjan's algorithm, without recursion).
func (s *search) components() (parts [][]int) {
	n := 2 * len(s.out)
	index, low := make([]int, n), make([]int, n)
	onStack := make([]bool, n)
	var stack []int
	count := 0
	type frame struct {
		at   int
		todo []int
	}
	visit := func(v int) frame {
		count++
		index[v], low[v] = count, count
		stack, onStack[v] = append(stack, v), true
		f := frame{at: v}
		s.next(v, func(to int, _ edge) { f.todo = append(f.todo, to) })
		return f
	}
	for root := range n {
		if index[root] != 0 {
			continue
		}
		frames := []frame{visit(root)}
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			if len(f.todo) > 0 {
				to := f.todo[0]
				f.todo = f.todo[1:]
				if index[to] == 0 {
					frames = append(frames, visit(to))
				} else if onStack[to] {
					low[f.at] = min(low[f.at], index[to])
				}
				continue
			}
			v := f.at
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				parent := frames[len(frames)-1].at
				low[parent] = min(low[parent], low[v])
			}
			if low[v] != index[v] {
				continue
			}
			at := slices.Index(stack, v)
			part := slices.Clone(stack[at:])
			stack = stack[:at]
			for _, member := range part {
				onStack[member] = false
			}
			if len(part) > 1 {
				parts = append(parts, part)
			}
		}
	}
	return parts
}

// maxRoots bounds from how many vertices of a component a shortest circle is looked for.
const maxRoots = 200

// shortest returns a shortest circle within a component.
func (s *search) shortest(part []int) (best circle) {
	in := make(map[int]bool, len(part))
	for _, v := range part {
		in[v] = true
	}
	for i, root := range part {
		if i == maxRoots {
			break
		}
		if c := s.circleFrom(root, in); c != nil && (best == nil || c.weight() < best.weight()) {
			best = c
		}
	}
	return best
}

// weight prefers circles of few dependencies; those of real time count as one together.
func (c circle) weight() int { return len(c) - c.has(realTime) + min(c.has(realTime), 1) }

// circleFrom returns a shortest path from root back to it, breadth first.
func (s *search) circleFrom(root int, in map[int]bool) circle {
	type step struct {
		from int
		via  edge
	}
	came := make(map[int]step)
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		at, done := queue[0], false
		s.next(at, func(to int, e edge) {
			if _, known := came[to]; known || !in[to] || done {
				return
			}
			came[to] = step{at, e}
			queue = append(queue, to)
			done = to == root
		})
		if !done {
			continue
		}
		var c circle
		for v := root; ; {
			c = append(c, came[v].via)
			if v = came[v].from; v == root {
				break
			}
		}
		slices.Reverse(c)
		return c
	}
	return nil
}

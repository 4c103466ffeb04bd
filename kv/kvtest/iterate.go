package kvtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

func testIterBounds(e *env) {
	e.put(map[string]string{"a": "1", "b": "1", "b\x00": "1", "bb": "1", "c": "1"})
	snap := e.snapshot(e.now())
	for _, c := range []struct {
		start, end string
		want       string
	}{
		{"", "", "[a b b\x00 bb c]"},
		{"b", "", "[b b\x00 bb c]"},
		{"", "b", "[a]"},
		{"b", "b\x00", "[b]"},
		{"b\x00", "c", "[b\x00 bb]"},
		{"ba", "c", "[bb]"},
		{"c", "b", "[]"},
		{"b", "b", "[]"},
		{"d", "", "[]"},
	} {
		r := kv.KeyRange{Start: e.key("%s", c.start), End: e.space().End}
		if c.end != "" {
			r.End = e.key("%s", c.end)
		}
		var keys, back []string
		for _, p := range e.list(snap, r, false) {
			keys = append(keys, p.key)
		}
		for _, p := range e.list(snap, r, true) {
			back = append(back, p.key)
		}
		require.Equal(e, c.want, fmt.Sprint(keys), "%q %q", c.start, c.end)
		slices.Reverse(back)
		require.Equal(e, keys, back, "%q %q backwards", c.start, c.end)
	}
	it, err := snap.Iter(kv.KeyRange{Start: e.key("x"), End: e.key("y")})
	require.NoError(e, err)
	require.False(e, it.Valid())
	require.NoError(e, it.Next(), "Next behind the end")
	require.False(e, it.Valid())
	require.NoError(e, it.Close())
	require.NoError(e, it.Close(), "closing twice")
}

// testIterTS checks the versions that entries are of.
func testIterTS(e *env) {
	e.needs(EntryVersions)
	first := e.put(map[string]string{"a": "1", "b": "1", "c": "1"})
	var last uint64
	for i := range 10 { // more than one steps over
		last = e.put(map[string]string{"b": fmt.Sprint(i)})
	}
	e.put(map[string]string{"c": "2"})
	snap := e.snapshot(last)
	for _, open := range []func(kv.KeyRange) (kv.Iterator, error){snap.Iter, snap.IterReverse} {
		it, err := open(e.space())
		require.NoError(e, err)
		for ; it.Valid(); require.NoError(e, it.Next()) {
			want := first
			if string(it.Key()) == string(e.key("b")) {
				want = last
			}
			require.Implements(e, (*kv.VersionedIterator)(nil), it)
			require.Equal(e, want, it.(kv.VersionedIterator).TS(), "%s", it.Key())
		}
		require.NoError(e, it.Close())
	}
}

// testIterManyVersions has keys with more versions than one steps over, above
// and below the timestamp of the reader.
func testIterManyVersions(e *env) {
	const versions = 30
	var at []uint64
	for v := 1; v <= versions; v++ {
		at = append(at, e.put(map[string]string{"a": fmt.Sprint(v), "b": fmt.Sprint(v), "c": fmt.Sprint(v)}))
	}
	e.put(map[string]string{"b": ""})
	for i, ts := range at {
		v := fmt.Sprint(i + 1)
		snap := e.snapshot(ts)
		want := []pair{{"a", v}, {"b", v}, {"c", v}}
		require.Equal(e, want, e.list(snap, e.space(), false))
		slices.Reverse(want)
		require.Equal(e, want, e.list(snap, e.space(), true))
		require.Equal(e, v, e.get(snap, "b"))
	}
	last := e.snapshot(e.now())
	require.Equal(e, []pair{{"a", "30"}, {"c", "30"}}, e.list(last, e.space(), false))
	require.Equal(e, []pair{{"c", "30"}, {"a", "30"}}, e.list(last, e.space(), true))
}

// testIterModel compares reads of random ranges with a map, over a store of
// several versions.
func testIterModel(e *env) {
	rnd := e.seeded()
	model := map[string]string{}
	for range 40 {
		ts := e.put(randomWrites(rnd, model, 1+rnd.IntN(120)))
		snap := e.snapshot(ts)
		for range 4 {
			checkRandomRange(e, rnd, snap, model)
		}
	}
}

func randomKey(rnd *rand.Rand) string {
	// Few letters make keys that are prefixes of each other.
	k := make([]byte, 1+rnd.IntN(4))
	for i := range k {
		k[i] = "\x00ab\xff"[rnd.IntN(4)]
	}
	return string(k)
}

// randomWrites returns up to n writes, and applies them to the model.
func randomWrites(rnd *rand.Rand, model map[string]string, n int) map[string]string {
	pairs := map[string]string{}
	for range n {
		k := randomKey(rnd)
		if rnd.IntN(3) == 0 {
			pairs[k] = ""
			delete(model, k)
			continue
		}
		pairs[k] = fmt.Sprint(rnd.IntN(1e6))
		model[k] = pairs[k]
	}
	return pairs
}

func checkRandomRange(e *env, rnd *rand.Rand, r kv.Snapshot, model map[string]string) {
	e.Helper()
	start, end := randomKey(rnd), randomKey(rnd)
	rg := kv.KeyRange{Start: e.key("%s", start), End: e.key("%s", end)}
	var want []pair
	for _, p := range sorted(model) {
		if p.key >= start && p.key < end {
			want = append(want, p)
		}
	}
	require.Equal(e, want, e.list(r, rg, false), "%q %q", start, end)
	slices.Reverse(want)
	require.Equal(e, want, e.list(r, rg, true), "%q %q", start, end)
	n, err := r.Count(e.ctx(), rg)
	require.NoError(e, err)
	require.EqualValues(e, len(want), n, "%q %q counted", start, end)
	k := randomKey(rnd)
	require.Equal(e, model[k], e.get(r, k))
}

// sorted lists a model in key order.
func sorted(model map[string]string) []pair {
	var out []pair
	for _, k := range slices.Sorted(maps.Keys(model)) {
		out = append(out, pair{k, model[k]})
	}
	return out
}

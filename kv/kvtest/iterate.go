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

// testIterStable writes to what a transaction is iterating over: an iterator
// shows the transaction's writes as they were when it was opened.
func testIterStable(e *env) {
	base := map[string]string{}
	for i := range 500 {
		base[fmt.Sprintf("%04d", i)] = "0"
	}
	e.put(base)
	for _, reverse := range []bool{false, true} {
		txn := e.begin()
		for i := range 250 {
			require.NoError(e, txn.Set(e.key("%04d-x", i), []byte("1")))
		}
		open := txn.Iter
		if reverse {
			open = txn.IterReverse
		}
		want := e.list(txn, e.space(), reverse)
		it, err := open(e.space())
		require.NoError(e, err)
		var got []pair
		for it.Valid() {
			got = append(got, pair{string(it.Key()[len(e.prefix):]), string(it.Value())})
			n := len(got)
			require.NoError(e, txn.Set(e.key("%04d-y", n), []byte("2")), "ahead or behind")
			require.NoError(e, txn.Delete(e.key("%04d-x", n)))
			require.NoError(e, it.Next())
		}
		require.NoError(e, it.Close())
		require.Equal(e, want, got)
		require.NoError(e, txn.Rollback())
	}
}

// testIterModel compares random transactions' reads with a map, over a store
// of several versions.
func testIterModel(e *env) {
	rnd := e.seeded()
	stored := map[string]string{}
	for range 40 {
		txn := e.begin()
		model := maps.Clone(stored)
		randomWrites(e, rnd, txn, model, 1+rnd.IntN(120))
		for range 4 {
			checkRandomRange(e, rnd, txn, model)
		}
		if rnd.IntN(4) == 0 {
			require.NoError(e, txn.Rollback())
			continue
		}
		require.NoError(e, txn.Commit(e.ctx()))
		stored = model
		checkRandomRange(e, rnd, e.snapshot(txn.CommitTS()), stored)
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

func randomWrites(e *env, rnd *rand.Rand, txn kv.Txn, model map[string]string, n int) {
	for range n {
		k := randomKey(rnd)
		if rnd.IntN(3) == 0 {
			require.NoError(e, txn.Delete(e.key("%s", k)))
			delete(model, k)
			continue
		}
		v := fmt.Sprint(rnd.IntN(1e6))
		require.NoError(e, txn.Set(e.key("%s", k), []byte(v)))
		model[k] = v
	}
}

func checkRandomRange(e *env, rnd *rand.Rand, r kv.Retriever, model map[string]string) {
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
	k := randomKey(rnd)
	require.Equal(e, model[k], e.get(r, k))
}

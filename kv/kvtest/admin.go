package kvtest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

func testDeleteRange(e *env) {
	first := e.put(map[string]string{"a": "1", "b": "1", "c": "1", "d": "1"})
	e.put(map[string]string{"b": "2", "c": ""})
	version := e.now()
	e.imports(e.unit(version, []pair{{"ba", "i"}, {"x", "i"}}))
	require.NoError(e, e.store.DeleteRange(e.ctx(), kv.KeyRange{Start: e.key("b"), End: e.key("d")}))
	require.Equal(e, []pair{{"a", "1"}, {"d", "1"}}, e.list(e.snapshot(first), e.space(), false))
	require.Equal(e, []pair{{"a", "1"}, {"d", "1"}, {"x", "i"}}, e.list(e.snapshot(e.now()), e.space(), false))

	require.NoError(e, e.store.DeleteRange(e.ctx(), kv.KeyRange{Start: e.key("d"), End: e.key("d")}), "an empty range")
	require.Equal(e, "1", e.get(e.snapshot(first), "d"))

	// The range can be written to again, and imported into.
	e.put(map[string]string{"b": "3"})
	e.imports(e.unit(e.now(), []pair{{"c", "i"}}))
	want := []pair{{"a", "1"}, {"b", "3"}, {"c", "i"}, {"d", "1"}, {"x", "i"}}
	require.Equal(e, want, e.list(e.snapshot(e.now()), e.space(), false))
	if e.h.Reopen != nil {
		e.reopen()
		require.Equal(e, want, e.list(e.snapshot(e.now()), e.space(), false))
	}
}

// testDeleteRangeInPieces deletes a range piece by piece, as Ranges cuts it, and
// some pieces again, as after a crash. Snapshots and iterators that were open
// before, and transactions beside it, see what lies around the range unchanged.
func testDeleteRangeInPieces(e *env) {
	var units []kv.ImportUnit
	version := e.now()
	for i := range 3 {
		var pairs []pair
		for k := range 300 {
			pairs = append(pairs, pair{fmt.Sprintf("m%d-%04d", i, k), fmt.Sprintf("%064d", k)})
		}
		units = append(units, e.unit(version, pairs))
	}
	e.imports(units...)
	first := e.put(map[string]string{"a": "1", "m1-0007": "2", "m1-0008": "", "z": "1"})
	around := []pair{{"a", "1"}, {"z", "1"}}
	before := e.snapshot(first)
	below, err := before.Iter(kv.KeyRange{Start: e.space().Start, End: e.key("m")})
	require.NoError(e, err)
	whole := kv.PrefixRange(e.key("m"))
	pieces, err := e.store.Ranges(e.ctx(), whole)
	require.NoError(e, err)
	half := len(pieces) / 2
	for _, p := range slices.Concat(pieces[:half], pieces[max(0, half-1):]) {
		require.NoError(e, e.store.DeleteRange(e.ctx(), p.KeyRange))
		require.Empty(e, e.list(e.snapshot(e.now()), p.KeyRange, false))
	}
	require.NoError(e, e.store.DeleteRange(e.ctx(), pieces[0].KeyRange))
	require.Equal(e, around, e.list(before, e.space(), false))
	require.True(e, below.Valid())
	require.Equal(e, string(e.key("a")), string(below.Key()))
	require.NoError(e, below.Next())
	require.False(e, below.Valid())
	require.NoError(e, below.Close())
	e.put(map[string]string{"a": "2"})
	require.Equal(e, []pair{{"a", "2"}, {"z", "1"}}, e.list(e.snapshot(e.now()), e.space(), false))
	require.Equal(e, around, e.list(before, e.space(), false))
	if e.h.Reopen != nil {
		e.reopen()
		require.Equal(e, []pair{{"a", "2"}, {"z", "1"}}, e.list(e.snapshot(e.now()), e.space(), false))
	}
}

func testRangesCover(e *env) {
	check := func(r kv.KeyRange) []kv.SizedRange {
		e.Helper()
		pieces, err := e.store.Ranges(e.ctx(), r)
		require.NoError(e, err)
		if r.Empty() {
			require.Empty(e, pieces)
			return nil
		}
		require.NotEmpty(e, pieces)
		require.True(e, bytes.Equal(r.Start, pieces[0].Start))
		require.True(e, bytes.Equal(r.End, pieces[len(pieces)-1].End))
		for i, p := range pieces {
			require.False(e, p.Empty())
			if i > 0 {
				require.Equal(e, pieces[i-1].End, p.Start)
			}
		}
		return pieces
	}
	check(e.space())
	check(kv.KeyRange{})
	check(kv.KeyRange{Start: e.key("b"), End: e.key("a")})
	e.put(map[string]string{"a": "1", "b": "1"})
	check(e.space())

	var units []kv.ImportUnit
	version := e.now()
	value := bytes.Repeat([]byte("v"), 64)
	for i := range 4 {
		var pairs []pair
		for k := range 500 {
			pairs = append(pairs, pair{fmt.Sprintf("%d-%04d", i, k), string(value) + fmt.Sprint(k)})
		}
		units = append(units, e.unit(version, pairs))
	}
	e.imports(units...)
	var total uint64
	for _, p := range check(e.space()) {
		total += p.Bytes
	}
	if e.has(RangeSizes) {
		require.Positive(e, total)
	}
	check(kv.KeyRange{Start: e.key("1-0100"), End: e.key("2-0100")})
}

func testHoldLifecycle(e *env) {
	ts := e.now()
	safe, err := e.store.GCSafePoint(e.ctx())
	require.NoError(e, err)
	require.LessOrEqual(e, safe, ts)
	holds := func() map[string]uint64 {
		e.Helper()
		h, err := e.store.GCHolds(e.ctx())
		require.NoError(e, err)
		return h
	}
	a, b := e.prefix+"a", e.prefix+"b"
	first, err := e.store.HoldGC(e.ctx(), a, ts, time.Minute)
	require.NoError(e, err)
	require.Equal(e, ts, first.TS())
	later := e.now()
	other, err := e.store.HoldGC(e.ctx(), b, later, time.Minute)
	require.NoError(e, err)
	require.Equal(e, ts, holds()[a])
	require.Equal(e, later, holds()[b])
	require.NoError(e, first.Renew(e.ctx(), time.Hour))

	// One with the same name replaces the earlier one, whose handle is dead.
	second, err := e.store.HoldGC(e.ctx(), a, later, time.Minute)
	require.NoError(e, err)
	require.Equal(e, later, holds()[a])
	require.Error(e, first.Renew(e.ctx(), time.Hour))
	require.NoError(e, first.Release(e.ctx()))
	require.Equal(e, later, holds()[a])

	require.NoError(e, second.Release(e.ctx()))
	require.NoError(e, second.Release(e.ctx()), "releasing twice")
	require.NotContains(e, holds(), a)
	require.NoError(e, other.Release(e.ctx()))
	require.NotContains(e, holds(), b)
}

func testHoldExpires(e *env) {
	ts := e.now()
	h, err := e.store.HoldGC(e.ctx(), e.prefix, ts, 50*time.Millisecond)
	require.NoError(e, err)
	gone := func() bool {
		holds, err := e.store.GCHolds(e.ctx())
		return err == nil && holds[e.prefix] == 0
	}
	require.Eventually(e, gone, time.Minute, 5*time.Millisecond)
	// GC has not passed it, so that it can come back.
	require.NoError(e, h.Renew(e.ctx(), time.Minute))
	require.False(e, gone())
	require.NoError(e, h.Release(e.ctx()))
}

func testHoldReopen(e *env) {
	ts := e.now()
	_, err := e.store.HoldGC(e.ctx(), e.prefix, ts, time.Minute)
	require.NoError(e, err)
	released, err := e.store.HoldGC(e.ctx(), e.prefix+"released", ts, time.Minute)
	require.NoError(e, err)
	require.NoError(e, released.Release(e.ctx()))
	e.reopen()
	holds, err := e.store.GCHolds(e.ctx())
	require.NoError(e, err)
	require.Equal(e, ts, holds[e.prefix])
	require.NotContains(e, holds, e.prefix+"released")
	h, err := e.store.HoldGC(e.ctx(), e.prefix, ts, time.Minute)
	require.NoError(e, err)
	require.NoError(e, h.Release(e.ctx()))
}

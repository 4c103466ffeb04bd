package kvtest

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// unit writes an import unit of the given pairs, which are sorted.
func (e *env) unit(version uint64, pairs []pair) kv.ImportUnit {
	e.Helper()
	return e.unitIn(e.h.TempDir(e.T), version, pairs)
}

func (e *env) unitIn(dir string, version uint64, pairs []pair) kv.ImportUnit {
	e.Helper()
	w, err := e.store.NewImportWriter(e.ctx(), kv.ImportOptions{Dir: dir, Version: version})
	require.NoError(e, err)
	for _, p := range pairs {
		require.NoError(e, w.Add(e.key("%s", p.key), []byte(p.value)))
	}
	u, err := w.Finish(e.ctx())
	require.NoError(e, err)
	return u
}

func (e *env) imports(units ...kv.ImportUnit) {
	e.Helper()
	require.NoError(e, e.store.Import(e.ctx(), units))
}

func testImportVisible(e *env) {
	e.put(map[string]string{"z": "1"})
	version := e.now()
	later := e.snapshot(e.now())
	pairs := []pair{{"a", "i1"}, {"b", "i2"}, {"c", "i3"}}
	u := e.unit(version, pairs)
	require.Equal(e, string(e.key("a")), string(u.Range().Start))
	require.True(e, u.Range().Contains(e.key("c")))
	require.False(e, u.Range().Contains(kv.NextKey(e.key("c"))))
	require.Equal(e, 3, u.Count())
	require.Positive(e, u.Size())
	require.Len(e, e.list(e.snapshot(e.now()), e.space(), false), 1, "visible before Import")

	e.imports(u)
	all := append(slices.Clone(pairs), pair{"z", "1"})
	require.Equal(e, all, e.list(e.snapshot(version), e.space(), false))
	require.Equal(e, all, e.list(e.snapshot(e.now()), e.space(), false))
	require.Equal(e, []pair{{"z", "1"}}, e.list(e.snapshot(version-1), e.space(), false))
	require.Equal(e, all, e.list(later, e.space(), false), "a snapshot after the version that was open before the import")
	require.NoError(e, u.Discard(), "discarding a consumed unit")

	w, err := e.store.NewImportWriter(e.ctx(), kv.ImportOptions{Dir: e.h.TempDir(e.T), Version: version, RangeReadsOnly: true})
	require.NoError(e, err)
	require.NoError(e, w.Add(e.key("d"), []byte("i4")))
	u, err = w.Finish(e.ctx())
	require.NoError(e, err)
	e.imports(u)
	require.Equal(e, "i4", e.get(e.snapshot(version), "d"), "range reads are not the only ones that work")

	e.put(map[string]string{"a": "2"})
	require.Equal(e, "2", e.get(e.snapshot(e.now()), "a"))
}

func testImportShadowed(e *env) {
	old := e.put(map[string]string{"deleted": "0", "kept": "0"})
	version := e.now()
	e.put(map[string]string{"updated": "new", "deleted": "", "never": ""})
	e.imports(e.unit(version, []pair{{"deleted", "i"}, {"kept", "i"}, {"never", "i"}, {"updated", "i"}}))

	// What was written after the version wins, tombstones of keys that did not
	// exist included.
	now := e.snapshot(e.now())
	want := []pair{{"kept", "i"}, {"updated", "new"}}
	require.Equal(e, want, e.list(now, e.space(), false))
	slices.Reverse(want)
	require.Equal(e, want, e.list(now, e.space(), true))
	require.Equal(e, "", e.get(now, "never"))

	at := e.snapshot(version)
	require.Equal(e, []pair{{"deleted", "i"}, {"kept", "i"}, {"never", "i"}, {"updated", "i"}}, e.list(at, e.space(), false))
	require.Equal(e, []pair{{"deleted", "0"}, {"kept", "0"}}, e.list(e.snapshot(old), e.space(), false))
}

func testImportIdempotent(e *env) {
	version := e.now()
	pairs := []pair{{"a", "i"}, {"b", "i"}, {"c", "i"}}
	first := e.unit(version, pairs)
	e.imports(first)
	require.NoError(e, e.store.Import(e.ctx(), []kv.ImportUnit{first}), "importing a consumed unit")
	e.put(map[string]string{"b": "new", "c": ""})
	check := func() {
		require.Equal(e, pairs, e.list(e.snapshot(version), e.space(), false))
		require.Equal(e, []pair{{"a", "i"}, {"b", "new"}}, e.list(e.snapshot(e.now()), e.space(), false))
	}
	check()
	for range 3 {
		e.imports(e.unit(version, pairs))
		check()
	}
}

func testImportManyUnits(e *env) {
	version := e.now()
	dir := e.h.TempDir(e.T)
	var units []kv.ImportUnit
	var want []pair
	for i := range 10 {
		var pairs []pair
		for k := range 200 {
			pairs = append(pairs, pair{fmt.Sprintf("%d-%04d", i, k), fmt.Sprint(i, k)})
		}
		want = append(want, pairs...)
		units = append(units, e.unitIn(dir, version, pairs))
	}
	slices.Reverse(units)
	e.imports(units...)
	require.Equal(e, want, e.list(e.snapshot(version), e.space(), false))
	if entries, err := os.ReadDir(dir); err == nil {
		require.Empty(e, entries, "files of consumed units are left")
	}
	if e.h.Reopen != nil {
		e.reopen()
		require.Equal(e, want, e.list(e.snapshot(version), e.space(), false))
	}
}

func testImportBadUse(e *env) {
	dir := e.h.TempDir(e.T)
	version := e.now()
	writer := func(version uint64) kv.ImportWriter {
		w, err := e.store.NewImportWriter(e.ctx(), kv.ImportOptions{Dir: dir, Version: version})
		require.NoError(e, err)
		return w
	}
	_, err := e.store.NewImportWriter(e.ctx(), kv.ImportOptions{Dir: dir})
	require.Error(e, err, "version 0")

	w := writer(version)
	require.NoError(e, w.Add(e.key("b"), []byte("1")))
	require.Error(e, w.Add(e.key("b"), []byte("1")), "the same key again")
	require.Error(e, w.Add(e.key("a"), []byte("1")), "a smaller key")
	require.ErrorIs(e, w.Add(e.key("c"), nil), kv.ErrEmptyValue)
	require.NoError(e, w.Abort())
	require.NoError(e, w.Abort())

	_, err = writer(version).Finish(e.ctx())
	require.Error(e, err, "an empty unit")

	future := e.unitIn(dir, e.now()+1<<40, []pair{{"a", "1"}})
	require.Error(e, e.store.Import(e.ctx(), []kv.ImportUnit{future}), "a version of the future")
	require.NoError(e, future.Discard())
	require.NoError(e, future.Discard())

	one, two := e.unitIn(dir, version, []pair{{"a", "1"}, {"c", "1"}}), e.unitIn(dir, version, []pair{{"b", "1"}})
	require.Error(e, e.store.Import(e.ctx(), []kv.ImportUnit{one, two}), "units that overlap")
	require.NoError(e, one.Discard())
	require.Error(e, e.store.Import(e.ctx(), []kv.ImportUnit{one}), "a discarded unit")
	require.NoError(e, two.Discard())
	require.NoError(e, e.store.Import(e.ctx(), nil), "nothing to do")
	require.Empty(e, e.list(e.snapshot(e.now()), e.space(), false))
	if entries, err := os.ReadDir(dir); err == nil {
		require.Empty(e, entries, "files are left")
	}
}

// testImportConcurrent imports at a version below that of transactions which
// write the same keys meanwhile: the transactions' values must win.
func testImportConcurrent(e *env) {
	const keys, workers = 400, 2
	version := e.now()
	dir := e.h.TempDir(e.T)
	parallel(e, workers+1, func(w int) error {
		ctx := context.Background()
		if w == workers {
			var pairs []pair
			for k := range keys {
				pairs = append(pairs, pair{fmt.Sprintf("%04d", k), "import"})
			}
			for i := range 4 {
				part := pairs[i*keys/4 : (i+1)*keys/4]
				if err := e.store.Import(ctx, []kv.ImportUnit{e.unitIn(dir, version, part)}); err != nil {
					return err
				}
			}
			return nil
		}
		for k := w; k < keys; k += 2 * workers {
			value := "txn"
			if k%3 == 0 {
				value = ""
			}
			if _, err := e.commit(ctx, map[string]string{fmt.Sprintf("%04d", k): value}); err != nil {
				return err
			}
		}
		return nil
	})
	now, at := e.snapshot(e.now()), e.snapshot(version)
	for k := range keys {
		key := fmt.Sprintf("%04d", k)
		want := "import"
		if k%(2*workers) < workers {
			want = "txn"
			if k%3 == 0 {
				want = ""
			}
		}
		require.Equal(e, want, e.get(now, key), key)
		require.Equal(e, "import", e.get(at, key), key)
	}
}

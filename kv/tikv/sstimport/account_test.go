package sstimport

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

// accounted are units with a pair for each of their keys, and the files of parts that tile them.
type accounted struct {
	units []*unit
	files []*sentFile
}

// accountOf makes up to 4 units, some of which touch, and the files of what regions take at a time, which need not begin where
// units do.
func accountOf(rnd *rand.Rand) accounted {
	var a accounted
	var keys []int
	at := 0
	for range 1 + rnd.IntN(4) {
		at += rnd.IntN(2) * rnd.IntN(50)
		u := &unit{keys: kv.KeyRange{Start: []byte(key(at))}}
		for range 1 + rnd.IntN(100) {
			keys = append(keys, at)
			u.count++
			u.sum.Add(sumOf([]byte(key(at)), []byte("value")))
			at++
		}
		u.keys.End = []byte(key(at))
		a.units = append(a.units, u)
	}
	start := a.units[0].keys.Start
	for cutAt := range at + 1 {
		if cutAt < at && rnd.IntN(20) > 0 || bytes.Compare([]byte(key(cutAt)), start) <= 0 {
			continue
		}
		f := &sentFile{keys: kv.KeyRange{Start: start, End: []byte(key(cutAt))}, sums: make(map[int]*kv.Checksum), took: make(map[string]int)}
		for _, k := range keys {
			if !f.keys.Contains([]byte(key(k))) {
				continue
			}
			of := slices.IndexFunc(a.units, func(u *unit) bool { return u.keys.Contains([]byte(key(k))) })
			if f.sums[of] == nil {
				f.sums[of] = &kv.Checksum{}
			}
			f.sums[of].Add(sumOf([]byte(key(k)), []byte("value")))
			f.sent++
		}
		if f.sent > 0 {
			f.id = []byte(key(cutAt))
			f.metas = append(f.metas, &import_sstpb.SSTMeta{Uuid: f.id, CfName: entriesFamily})
			f.took[entriesFamily] = 1
		}
		a.files, start = append(a.files, f), f.keys.End
	}
	return a
}

// settle returns what an account says of files, in any order and some at a time.
func (a accounted) settle(rnd *rand.Rand, files []*sentFile) error {
	account := newAccount(a.units)
	files = slices.Clone(files)
	rnd.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	for len(files) > 0 {
		n := 1 + rnd.IntN(len(files))
		if err := account.settle(files[:n]); err != nil {
			return err
		}
		files = files[n:]
	}
	return account.close()
}

// TestAccountAddsUp: the account of an import closes if the files tile its units and hold their pairs, and for no other.
func TestAccountAddsUp(t *testing.T) {
	rnd := randtest.Rand(t)
	for range 300 {
		a := accountOf(rnd)
		require.NoError(t, a.settle(rnd, a.files))
		i := rnd.IntN(len(a.files))
		others := append(slices.Clone(a.files[:i]), a.files[i+1:]...)
		refused := func(what string, f ...*sentFile) {
			t.Helper()
			var wrong *kv.ImportAccountError
			require.ErrorAs(t, a.settle(rnd, append(slices.Clone(others), f...)), &wrong, what)
		}
		right := a.files[i]
		changed := func(change func(f *sentFile)) *sentFile {
			f := *right
			f.sums, f.took = make(map[int]*kv.Checksum), maps.Clone(f.took)
			for unit, sum := range right.sums {
				f.sums[unit] = &kv.Checksum{Pairs: sum.Pairs, Bytes: sum.Bytes, CRC: sum.CRC}
			}
			change(&f)
			return &f
		}
		refused("twice", right, right)
		if right.sent == 0 {
			continue
		}
		refused("not at all")
		anySum := func(f *sentFile) *kv.Checksum { return f.sums[slices.Sorted(maps.Keys(f.sums))[0]] }
		refused("a part that begins before", changed(func(f *sentFile) { f.keys.Start = []byte(key(0))[:1] }), right)
		refused("a pair less", changed(func(f *sentFile) { anySum(f).Pairs--; f.sent-- }))
		refused("other bytes", changed(func(f *sentFile) { anySum(f).Bytes++ }))
		refused("other contents", changed(func(f *sentFile) { anySum(f).CRC ^= 1 }))
		refused("a pair is not sent", changed(func(f *sentFile) { f.sent-- }))
		refused("a file is taken twice", changed(func(f *sentFile) { f.took[entriesFamily] = 2 }))
		refused("a file is not taken", changed(func(f *sentFile) { delete(f.took, entriesFamily) }))
		refused("one of two files is not taken", changed(func(f *sentFile) {
			f.metas = append(slices.Clone(f.metas), &import_sstpb.SSTMeta{Uuid: f.id, CfName: valuesFamily})
		}))
		refused("no file", changed(func(f *sentFile) { f.metas = nil; clear(f.took) }))
	}
}

// TestUnitsAreCompleteOneByOne: a unit is complete when its keys are covered and its pairs were taken.
func TestUnitsAreCompleteOneByOne(t *testing.T) {
	rnd := randtest.Rand(t)
	for range 100 {
		a := accountOf(rnd)
		account := newAccount(a.units)
		for _, f := range a.files {
			require.NoError(t, account.settle([]*sentFile{f}))
			var want []*unit
			for _, u := range a.units {
				if bytes.Compare(u.keys.End, f.keys.End) <= 0 {
					want = append(want, u)
				}
			}
			require.Equal(t, want, account.complete())
		}
		require.NoError(t, account.close())
	}
}

// TestImportThatDoesNotAddUp: an import of other pairs than those that were added fails, and its unit is kept. Others of the
// same import are consumed.
func TestImportThatDoesNotAddUp(t *testing.T) {
	f := start(t, nil)
	f.split(key(50))
	right, wrong := f.unit(0, 100, 10), f.unit(100, 200, 10)
	sum := &wrong.(*unit).sum
	sum.CRC ^= 1
	err := f.im.Import(t.Context(), []kv.ImportUnit{right, wrong})
	var mismatch *kv.ImportAccountError
	require.ErrorAs(t, err, &mismatch)
	require.Equal(t, wrong.Range(), mismatch.Range)
	require.Equal(t, 1, f.files())
	sum.CRC ^= 1
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{right, wrong}))
	f.requireDone()
}

// TestAnswersToWrite: a store has made files of the stream's UUID, one for each column family, one of them of entries.
func TestAnswersToWrite(t *testing.T) {
	id := []byte("this")
	meta := func(id, family string) *import_sstpb.SSTMeta {
		return &import_sstpb.SSTMeta{Uuid: []byte(id), CfName: family}
	}
	families, err := familiesOf([]*import_sstpb.SSTMeta{meta("this", entriesFamily), meta("this", valuesFamily)}, id)
	require.NoError(t, err)
	require.Equal(t, []string{valuesFamily, entriesFamily}, families)
	for name, metas := range map[string][]*import_sstpb.SSTMeta{
		"none":       nil,
		"no entries": {meta("this", valuesFamily)},
		"twice":      {meta("this", entriesFamily), meta("this", entriesFamily)},
		"another":    {meta("that", entriesFamily)},
	} {
		_, err := familiesOf(metas, id)
		require.Error(t, err, name)
	}
}

package pebblekv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

// swapFS is a file system in memory on which import files are exchanged between their check and their import.
type swapFS struct {
	vfs.FS
	mu    sync.Mutex
	opens map[string]int
	// swap is called when a file is opened for the second time.
	swap func(path string)
}

func newSwapFS() *swapFS { return &swapFS{FS: vfs.NewMem(), opens: make(map[string]int)} }

func (f *swapFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if strings.HasPrefix(filepath.Base(name), "import-") {
		f.mu.Lock()
		f.opens[name]++
		second := f.opens[name] == 2 && f.swap != nil
		f.mu.Unlock()
		if second {
			f.swap(name)
		}
	}
	return f.FS.Open(name, opts...)
}

// TestFilesThatAreSwappedBeforeTheirImport: the engine's report of an import is compared with what was to be imported.
func TestFilesThatAreSwappedBeforeTheirImport(t *testing.T) {
	for name, test := range map[string]struct {
		// units are how many of the two units are imported; the file of the first is replaced by one of these keys.
		units int
		by    []string
		how   string
	}{
		"by another unit's":            {2, []string{"d", "e"}, "reports a table of"},
		"by one without the last pair": {2, []string{"a", "b"}, "reports a table of"},
		"by one without a pair":        {2, []string{"a", "c"}, "reports a table of"},
		"by an empty one of two":       {2, nil, "reports a table of"},
		"by an empty one":              {1, nil, "reports 0 imports"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := newSwapFS()
			s := open(t, "db", Options{FS: fs, GCRunInterval: func() time.Duration { return 0 }})
			version, err := s.CurrentTS(t.Context())
			require.NoError(t, err)
			units := []kv.ImportUnit{finishedUnit(t, s, version, "1", "a", "b", "c"), finishedUnit(t, s, version, "1", "x", "y")}[:test.units]
			fs.swap = func(path string) {
				if path != units[0].(*importUnit).path {
					return
				}
				replaced := &importUnit{path: path}
				replaceUnit(t, s, replaced, len(test.by), func(w *sstable.Writer, i int, _ []byte) error {
					return w.Set(appendVersion(nil, []byte(test.by[i]), version), []byte("1"))
				})
			}
			err = s.Import(t.Context(), units)
			var damaged *kv.DamagedUnitError
			require.ErrorAs(t, err, &damaged)
			require.True(t, damaged.Imported)
			require.Equal(t, units[0].(*importUnit).path, damaged.File)
			require.ErrorContains(t, err, test.how)
			for _, u := range units {
				require.NoError(t, u.Discard())
			}

			// The next import is compared with its own report.
			require.NoError(t, s.Import(t.Context(), []kv.ImportUnit{finishedUnit(t, s, version, "1", "f", "g")}))
		})
	}
}

// TestReportsOfImports: an import has one report, which names a table for each unit.
func TestReportsOfImports(t *testing.T) {
	s := inMemory(t)
	version, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	units := []*importUnit{
		finishedUnit(t, s, version, "1", "a", "b").(*importUnit),
		finishedUnit(t, s, version, "1", "c", "d").(*importUnit),
	}
	require.NoError(t, s.db.Ingest(t.Context(), []string{units[0].path, units[1].path}))
	reports := s.ingestions.take()
	require.Empty(t, s.ingestions.take())
	require.NoError(t, compareIngestion(units, reports))
	older := reports[0].Tables[0]
	older.SmallestSeqNum, older.LargestSeqNum = 0, reports[0].GlobalSeqNum-1
	for name, test := range map[string]struct {
		change func(info *pebble.TableIngestInfo)
		right  bool
	}{
		"lost":                                {func(i *pebble.TableIngestInfo) { i.Tables = i.Tables[1:] }, false},
		"the last lost":                       {func(i *pebble.TableIngestInfo) { i.Tables = i.Tables[:1] }, false},
		"twice":                               {func(i *pebble.TableIngestInfo) { i.Tables = append(i.Tables, i.Tables[1]) }, false},
		"larger":                              {func(i *pebble.TableIngestInfo) { i.Tables[1].Size++ }, false},
		"begins later":                        {func(i *pebble.TableIngestInfo) { i.Tables[1].Smallest.UserKey = i.Tables[1].Largest.UserKey }, false},
		"ends earlier":                        {func(i *pebble.TableIngestInfo) { i.Tables[1].Largest.UserKey = i.Tables[1].Smallest.UserKey }, false},
		"failed":                              {func(i *pebble.TableIngestInfo) { i.Err = errors.New("failed") }, false},
		"half of a table that was cut in two": {func(i *pebble.TableIngestInfo) { i.Tables = append(i.Tables, older) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			info := reports[0]
			info.Tables = append(info.Tables[:0:0], info.Tables...)
			test.change(&info)
			err := compareIngestion(units, []pebble.TableIngestInfo{info})
			if test.right {
				require.NoError(t, err)
				return
			}
			var damaged *kv.DamagedUnitError
			require.ErrorAs(t, err, &damaged)
			require.True(t, damaged.Imported)
		})
	}
	require.Error(t, compareIngestion(units, nil))
	require.Error(t, compareIngestion(units, append(reports, reports...)))
}

// TestImportsMatchTheirReports: imports run beside each other and beside commits and flushes. Some cut tables in two, and
// some join the queue of memtables. Each report is that of its import, and each pair is in the store.
func TestImportsMatchTheirReports(t *testing.T) {
	const importers, imports, places = 4, 12, 400
	rnd := randtest.Rand(t)
	s := inMemory(t)
	var cut, queued bool
	var g errgroup.Group
	done := make(chan struct{})
	for _, seed := range []uint64{rnd.Uint64(), rnd.Uint64()} {
		g.Go(func() error {
			rnd := rand.New(rand.NewPCG(seed, 1))
			for {
				select {
				case <-done:
					return nil
				default:
				}
				key := fmt.Sprintf("%04d-w", rnd.IntN(places))
				if _, err := commit(t.Context(), s, map[string]string{key: "w"}); err != nil {
					return err
				}
				if rnd.IntN(20) == 0 {
					if err := s.db.Flush(); err != nil {
						return err
					}
				}
			}
		})
	}
	var workers errgroup.Group
	for i := range importers {
		seed := rnd.Uint64()
		workers.Go(func() error {
			rnd := rand.New(rand.NewPCG(seed, 1))
			for n := range imports {
				if err := importRandomly(t, s, rnd, places, fmt.Sprintf("-%d-%02d", i, n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := workers.Wait()
	close(done)
	require.NoError(t, errors.Join(err, g.Wait()))

	// One that cuts a table, and one over what is in memory.
	lower, upper := engineBounds(kv.KeyRange{})
	require.NoError(t, s.db.Compact(t.Context(), lower, upper, false))
	for _, step := range []func(){func() {}, func() { put(t, s, "0100-cut2", "1") }} {
		step()
		version, err := s.CurrentTS(t.Context())
		require.NoError(t, err)
		u := finishedUnit(t, s, version, "1", "0100-cut1", "0100-cut3").(*importUnit)
		require.NoError(t, s.db.Ingest(t.Context(), []string{u.path}))
		reports := s.ingestions.take()
		require.NoError(t, compareIngestion([]*importUnit{u}, reports[len(reports)-1:]))
		info := reports[len(reports)-1]
		cut = cut || len(info.Tables) > 1
		queued = queued || info.Tables[0].Level < 0
	}
	require.True(t, cut, "no table was cut in two")
	require.True(t, queued, "no import has joined the queue")
}

// importRandomly imports up to three units of random keys that no other import has, and looks whether they are there.
func importRandomly(t *testing.T, s *Store, rnd *rand.Rand, places int, suffix string) error {
	version, err := s.CurrentTS(t.Context())
	if err != nil {
		return err
	}
	var units []kv.ImportUnit
	var keys []string
	at := rnd.IntN(places / 2)
	for range 1 + rnd.IntN(3) {
		w, err := s.NewImportWriter(t.Context(), kv.ImportOptions{Dir: "tmp", Version: version})
		if err != nil {
			return err
		}
		for range 1 + rnd.IntN(20) {
			at += 1 + rnd.IntN(3)
			key := fmt.Sprintf("%04d%s", at, suffix)
			if err := w.Add([]byte(key), []byte(suffix)); err != nil {
				return err
			}
			keys = append(keys, key)
		}
		u, err := w.Finish(t.Context())
		if err != nil {
			return err
		}
		units = append(units, u)
	}
	if err := s.Import(t.Context(), units); err != nil {
		return err
	}
	snap, err := s.Snapshot(t.Context(), version)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if value, err := snap.Get(t.Context(), []byte(key)); err != nil || string(value) != suffix {
			return errors.Join(fmt.Errorf("%s is %q: %w", key, value, err), snap.Close())
		}
	}
	return snap.Close()
}

package pebblekv

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

const (
	benchTable = 100
	benchRows  = 300_000
)

// benchIndex begins the keys of the table's index.
var benchIndex = tablecodec.EncodeTableIndexPrefix(benchTable, 1)

// loadSysbench imports rows like those of sysbench: id int, k int, c char(120),
// pad char(60).
func loadSysbench(b *testing.B, s *Store) {
	b.Helper()
	ctx := b.Context()
	version, err := s.CurrentTS(ctx)
	require.NoError(b, err)
	rnd := rand.New(rand.NewPCG(1, 1))
	enc := rowcodec.Encoder{Enable: true}
	digits := func(groups int) string {
		var out []byte
		for i := range groups {
			if i > 0 {
				out = append(out, '-')
			}
			out = fmt.Appendf(out, "%011d", rnd.Int64N(1e11))
		}
		return string(out)
	}
	var units []kv.ImportUnit
	var w kv.ImportWriter
	for i := range benchRows {
		if w == nil {
			w, err = s.NewImportWriter(ctx, kv.ImportOptions{Dir: b.TempDir(), Version: version})
			require.NoError(b, err)
		}
		row := []types.Datum{types.NewIntDatum(rnd.Int64N(benchRows)), types.NewStringDatum(digits(10)), types.NewStringDatum(digits(5))}
		value, err := tablecodec.EncodeRow(time.UTC, row, []int64{2, 3, 4}, nil, nil, nil, &enc)
		require.NoError(b, err)
		require.NoError(b, w.Add(tablecodec.EncodeRowKeyWithHandle(benchTable, tkv.IntHandle(i+1)), value))
		if w.EstimatedSize() > 32<<20 || i == benchRows-1 {
			u, err := w.Finish(ctx)
			require.NoError(b, err)
			units, w = append(units, u), nil
		}
	}
	require.NoError(b, s.Import(ctx, units))
}

// BenchmarkScanColumns scans (id, k) of a sysbench table; warm is from the
// block cache, cold from compressed blocks in the page cache.
func BenchmarkScanColumns(b *testing.B) {
	for _, c := range []struct {
		name  string
		cache int64
	}{{"warm", 1 << 30}, {"cold", 1 << 20}} {
		b.Run(c.name, func(b *testing.B) {
			s, err := Open(b.TempDir(), Options{CacheBytes: c.cache})
			require.NoError(b, err)
			defer s.Close()
			loadSysbench(b, s)
			ts, err := s.CurrentTS(b.Context())
			require.NoError(b, err)
			req := kv.ScanRequest{
				Range: kv.PrefixRange(tablecodec.GenTableRecordPrefix(benchTable)),
				TS:    ts,
				Columns: []rowcodec.ColInfo{
					{ID: 1, IsPKHandle: true, Ft: types.NewFieldType(mysql.TypeLong)},
					{ID: 2, Ft: types.NewFieldType(mysql.TypeLong)},
				},
			}
			rows := 0
			scan := func() {
				err := s.ScanColumns(context.Background(), req, func(batch *kv.RowBatch) error {
					rows += batch.NumRows()
					return nil
				})
				require.NoError(b, err)
			}
			scan()
			rows = 0
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				scan()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
		})
	}
}

// BenchmarkImportWriter writes index entries of an int column in key order.
func BenchmarkImportWriter(b *testing.B) {
	benchmarkImports(b, func(b *testing.B, s *Store, opts kv.ImportOptions) {
		pairs, bytes := 0, uint64(0)
		b.ReportAllocs()
		for b.Loop() {
			u := writeIndexUnit(b, s, opts)
			pairs += u.Count()
			bytes += u.Size()
			require.NoError(b, u.Discard())
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(pairs), "ns/pair")
		b.ReportMetric(float64(bytes)/float64(pairs), "bytes/pair")
	})
}

// BenchmarkCheckUnits checks files of index entries that are in the page cache.
func BenchmarkCheckUnits(b *testing.B) {
	benchmarkImports(b, func(b *testing.B, s *Store, opts kv.ImportOptions) {
		u := writeIndexUnit(b, s, opts).(*importUnit)
		for b.Loop() {
			require.NoError(b, s.checkUnit(b.Context(), u))
		}
		each := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
		b.ReportMetric(each/float64(u.size), "ns/byte")
		b.ReportMetric(each/float64(u.count), "ns/pair")
	})
}

// benchmarkImports runs a benchmark of import units with and without point reads, over a new store each.
func benchmarkImports(b *testing.B, run func(b *testing.B, s *Store, opts kv.ImportOptions)) {
	for _, rangeReads := range []bool{false, true} {
		b.Run(fmt.Sprintf("rangeReadsOnly=%t", rangeReads), func(b *testing.B) {
			s, err := Open(b.TempDir(), Options{})
			require.NoError(b, err)
			defer s.Close()
			version, err := s.CurrentTS(b.Context())
			require.NoError(b, err)
			run(b, s, kv.ImportOptions{Dir: b.TempDir(), Version: version, RangeReadsOnly: rangeReads})
		})
	}
}

func writeIndexUnit(b *testing.B, s *Store, opts kv.ImportOptions) kv.ImportUnit {
	w, err := s.NewImportWriter(b.Context(), opts)
	require.NoError(b, err)
	var key []byte
	value := []byte{'0'}
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range benchRows {
		key = indexKey(key[:0], uint64(i), rnd.Uint64N(benchRows))
		if err := w.Add(key, value); err != nil {
			b.Fatal(err)
		}
	}
	u, err := w.Finish(b.Context())
	require.NoError(b, err)
	return u
}

// indexKey appends the key of an index entry of an int column.
func indexKey(dst []byte, k, handle uint64) []byte {
	dst = append(append(dst, benchIndex...), 3)
	dst = append(binary.BigEndian.AppendUint64(dst, 1<<63+k), 3)
	return binary.BigEndian.AppendUint64(dst, 1<<63+handle)
}

// BenchmarkCommit commits small transactions from several goroutines.
func BenchmarkCommit(b *testing.B) {
	for _, c := range []struct {
		name string
		opts Options
	}{{"sync", Options{}}, {"nosync", Options{DisableSync: true}}} {
		b.Run(c.name, func(b *testing.B) {
			s, err := Open(b.TempDir(), c.opts)
			require.NoError(b, err)
			defer s.Close()
			b.ReportAllocs()
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
				value := make([]byte, 190)
				for pb.Next() {
					pairs := make(map[string]string, 3)
					for range 3 {
						pairs[fmt.Sprintf("row/%012d", rnd.Uint64N(1e9))] = string(value)
					}
					if _, err := commit(context.Background(), s, pairs); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkGet reads random rows, each with an iterator of its own.
func BenchmarkGet(b *testing.B) {
	s, err := Open(b.TempDir(), Options{})
	require.NoError(b, err)
	defer s.Close()
	loadSysbench(b, s)
	rnd := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		l, err := s.NewLookup(b.Context())
		require.NoError(b, err)
		v, err := l.Newest(tablecodec.EncodeRowKeyWithHandle(benchTable, tkv.IntHandle(1+rnd.Int64N(benchRows))))
		require.NoError(b, err)
		require.True(b, v.Live())
		require.NoError(b, l.Close())
	}
}

// BenchmarkGC looks at rows that were all written since the last run and have
// one version each.
func BenchmarkGC(b *testing.B) {
	s, err := Open(b.TempDir(), Options{GCRunInterval: func() time.Duration { return 0 }})
	require.NoError(b, err)
	defer s.Close()
	loadSysbench(b, s)
	ts, err := s.CurrentTS(b.Context())
	require.NoError(b, err)
	keys, worked := 0, time.Duration(0)
	for b.Loop() {
		run := gcRun{store: s, safePoint: ts}
		for pos := []byte{}; pos != nil; {
			start := time.Now()
			pos, err = run.collectSlice(b.Context(), pos)
			worked += time.Since(start)
			require.NoError(b, err)
		}
		keys += run.keys
	}
	b.ReportMetric(float64(worked.Nanoseconds())/float64(keys), "ns/key")
}

// BenchmarkReadImported reads an index right after its import and after a
// compaction of everything, alone and when statements wrote to its range
// meanwhile, so that its files lie over their entries.
func BenchmarkReadImported(b *testing.B) {
	for _, written := range []int{0, 2000} {
		s, err := Open(b.TempDir(), Options{GCRunInterval: func() time.Duration { return 0 }})
		require.NoError(b, err)
		defer s.Close()
		loadSysbench(b, s)
		version, err := s.CurrentTS(b.Context())
		require.NoError(b, err)
		index := writeIndexUnit(b, s, kv.ImportOptions{Dir: b.TempDir(), Version: version, RangeReadsOnly: true})
		writeIndexEntries(b, s, written)
		require.NoError(b, s.Import(b.Context(), []kv.ImportUnit{index}))
		require.NoError(b, s.db.Flush())
		benchmarkReads(b, s, fmt.Sprintf("written=%d/imported", written))
		lower, upper := engineBounds(kv.KeyRange{})
		require.NoError(b, s.db.Compact(b.Context(), lower, upper, true))
		benchmarkReads(b, s, fmt.Sprintf("written=%d/compacted", written))
	}
}

// writeIndexEntries commits entries of the index's range, ten at a time.
func writeIndexEntries(b *testing.B, s *Store, n int) {
	rnd := rand.New(rand.NewPCG(2, 1))
	for n > 0 {
		pairs := make(map[string]string)
		for range min(n, 10) {
			pairs[string(indexKey(nil, rnd.Uint64N(benchRows), benchRows))] = "0"
			n--
		}
		_, err := commit(b.Context(), s, pairs)
		require.NoError(b, err)
	}
}

// benchmarkReads looks entries up by their first column, and reads all of them.
func benchmarkReads(b *testing.B, s *Store, name string) {
	ts, err := s.CurrentTS(b.Context())
	require.NoError(b, err)
	snap, err := s.Snapshot(b.Context(), ts)
	require.NoError(b, err)
	defer snap.Close()
	b.Run(name+"/lookup", func(b *testing.B) {
		rnd := rand.New(rand.NewPCG(1, 1))
		var from, to []byte
		for b.Loop() {
			k := rnd.Uint64N(benchRows)
			from, to = indexKey(from[:0], k, 0), indexKey(to[:0], k+1, 0)
			require.Positive(b, countEntries(b, snap, kv.KeyRange{Start: from, End: to}))
		}
	})
	b.Run(name+"/scan", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n += countEntries(b, snap, kv.PrefixRange(benchIndex))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/entry")
	})
}

func countEntries(b *testing.B, snap kv.Snapshot, r kv.KeyRange) (n int) {
	it, err := snap.Iter(r)
	require.NoError(b, err)
	defer it.Close()
	for ; it.Valid(); n++ {
		if err := it.Next(); err != nil {
			b.Fatal(err)
		}
	}
	return n
}

// BenchmarkCount counts rows by their keys.
func BenchmarkCount(b *testing.B) {
	s, err := Open(b.TempDir(), Options{})
	require.NoError(b, err)
	defer s.Close()
	loadSysbench(b, s)
	ts, err := s.CurrentTS(b.Context())
	require.NoError(b, err)
	snap, err := s.Snapshot(b.Context(), ts)
	require.NoError(b, err)
	defer snap.Close()
	n := int64(0)
	for b.Loop() {
		counted, err := snap.Count(b.Context(), kv.KeyRange{})
		require.NoError(b, err)
		n += counted
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/row")
}

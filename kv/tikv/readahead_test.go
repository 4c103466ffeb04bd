package tikv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/coprocessor"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

// spreads are ways in which handles may lie.
var spreads = map[string]func(r *rand.Rand, i int) types.Datum{
	"dense":    func(_ *rand.Rand, i int) types.Datum { return types.NewIntDatum(int64(i)) },
	"negative": func(r *rand.Rand, i int) types.Datum { return types.NewIntDatum(int64(i)*3 - 4000) },
	"gaps":     func(r *rand.Rand, i int) types.Datum { return types.NewIntDatum(int64(i) + int64(i/100)*1_000_000) },
	"clumps":   func(r *rand.Rand, i int) types.Datum { return types.NewIntDatum(r.Int64N(8)<<50 + r.Int64N(5000)) },
	"anywhere": func(r *rand.Rand, _ int) types.Datum { return types.NewIntDatum(int64(r.Uint64())) },
	"growing":  func(_ *rand.Rand, i int) types.Datum { return types.NewIntDatum(int64(i) * int64(i) * int64(i)) },
	"ends": func(r *rand.Rand, i int) types.Datum {
		return types.NewIntDatum([]int64{math.MinInt64, math.MaxInt64 - 3000}[r.IntN(2)] + int64(i))
	},
	"text": func(r *rand.Rand, i int) types.Datum { return types.NewStringDatum(fmt.Sprintf("%x", r.Uint64())) },
	"long text": func(_ *rand.Rand, i int) types.Datum {
		return types.NewStringDatum(strings.Repeat("c", 40) + fmt.Sprint(i))
	},
	"short": func(r *rand.Rand, _ int) types.Datum {
		return types.NewStringDatum("ab"[:r.IntN(3)] + fmt.Sprint(r.IntN(900)))
	},
}

// TestSubrangesGiveAllRows: for pages of any size and regions of any layout a scan returns all rows of a range, once
// and in order, without hints and with those of an earlier scan.
func TestSubrangesGiveAllRows(t *testing.T) {
	r := randtest.Rand(t)
	for name, handle := range spreads {
		first := handle(r, 0)
		common := first.Kind() == types.KindString
		t.Run(name, func(t *testing.T) {
			for _, ints := range []bool{true, false} {
				if common && ints {
					continue
				}
				for range 3 {
					requireAllRows(t, r, handle, ints)
				}
			}
		})
	}
}

func requireAllRows(t *testing.T, r *rand.Rand, handle func(r *rand.Rand, i int) types.Datum, ints bool) {
	s := open(t, vfs.NewMem(), Options{PageBytes: []int{1, 600, 3000}[r.IntN(3)]})
	stored := make(map[string]bool)
	ft := types.NewFieldType(mysql.TypeLonglong)
	for i := range r.IntN(3000) {
		d := handle(r, i)
		key := handleKey(d.GetInt64())
		if !ints {
			if d.Kind() == types.KindString {
				ft = types.NewFieldType(mysql.TypeVarchar)
				ft.SetCharset("binary")
				ft.SetCollate("binary")
			}
			h, err := codec.EncodeKey(time.UTC, nil, d)
			require.NoError(t, err)
			for len(h) < minHandle {
				h = append(h, 0)
			}
			key = tablecodec.EncodeRowKey(testTable, h)
		}
		stored[string(key)] = true
	}
	keys := slices.Sorted(maps.Keys(stored))
	s.importKeys(t, keys)
	for range r.IntN(5) {
		if len(keys) > 0 {
			s.splitAt(t, keys[r.IntN(len(keys))])
		}
	}
	req := s.request(t, 1)
	req.BatchRows = 16 + r.IntN(300)
	if !ints {
		req.CommonHandle, req.HandleColIDs, req.HandleCols = true, []int64{5}, []kv.HandleColumn{{Ft: ft}}
	}
	for range 3 {
		if len(keys) > 1 && r.IntN(2) == 0 {
			a, b := r.IntN(len(keys)), r.IntN(len(keys))
			req.Range = kv.KeyRange{Start: []byte(keys[min(a, b)]), End: []byte(keys[max(a, b)])}
		}
		var want, got []string
		for _, k := range keys {
			if req.Range.Contains([]byte(k)) {
				want = append(want, k)
			}
		}
		interrupted := errors.New("interrupted")
		for err := interrupted; err != nil; {
			err = s.ScanColumns(t.Context(), req, func(b *kv.RowBatch) error {
				for i := range b.NumRows() {
					if ints {
						got = append(got, string(handleKey(b.IntHandles[i])))
					} else {
						got = append(got, string(tablecodec.EncodeRowKey(testTable, b.CommonHandle(i))))
					}
				}
				require.Equal(t, got[len(got)-1], string(b.LastKey))
				require.Positive(t, bytes.Compare(b.ReadTo, b.LastKey))
				require.Equal(t, b.NumRows(), b.Visited)
				switch r.IntN(30) {
				case 0:
					req.Range.Start = kv.NextKey(b.LastKey)
					return interrupted
				case 1:
					s.splitAt(t, keys[r.IntN(len(keys))])
				}
				return nil
			})
			if err != nil {
				require.ErrorIs(t, err, interrupted)
			}
		}
		require.Equal(t, len(want), len(got))
		require.Equal(t, want, got)
	}
}

// gate counts the concurrent requests of a scan, and holds up all but that for the beginning of its range until there are so many.
type gate struct {
	start []byte // of the range

	mu           sync.Mutex
	asking, peak int
	until        int
	open         chan struct{}
}

// newGate makes the requests of a scan that begins at start pass a gate.
func newGate(s *testStore, start []byte, until int) *gate {
	g := &gate{start: start, until: until, open: make(chan struct{})}
	s.log.asked = g.asked
	return g
}

func (g *gate) asked(ctx context.Context, req *coprocessor.Request) {
	if bytes.Equal(req.Ranges[0].Start, g.start) {
		return
	}
	g.mu.Lock()
	g.asking++
	if g.peak = max(g.peak, g.asking); g.peak == g.until {
		g.until = 0
		close(g.open)
	}
	g.mu.Unlock()
	select {
	case <-g.open:
	case <-ctx.Done():
	}
	g.mu.Lock()
	g.asking--
	g.mu.Unlock()
}

// TestSubrangesAreReadConcurrently: a scan has as many concurrent requests as it may, once it has measured the distance
// between rows: fewer where a page may hold much.
func TestSubrangesAreReadConcurrently(t *testing.T) {
	for _, c := range []struct {
		tp   byte
		want int
	}{{mysql.TypeLonglong, maxSubranges}, {mysql.TypeLongBlob, minSubranges}} {
		s := open(t, vfs.NewMem(), Options{PageBytes: 3000})
		s.importRows(t, 5000, 10)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		col := int64(1)
		if c.tp == mysql.TypeLongBlob {
			col = 2
		}
		req := s.request(t, col)
		req.Columns[0].Ft = types.NewFieldType(c.tp)
		g := newGate(s, req.Range.Start, c.want)
		require.Equal(t, 5000, s.scanned(ctx, t, req))
		require.Equal(t, c.want, g.peak)
	}
}

// importKeys imports rows with the given keys, column 1 an integer.
func (s *testStore) importKeys(t *testing.T, keys []string) {
	t.Helper()
	row, err := tablecodec.EncodeRow(time.UTC, []types.Datum{types.NewIntDatum(7)}, []int64{1}, nil, nil, nil, &rowcodec.Encoder{Enable: true})
	require.NoError(t, err)
	pairs := make(map[string]string)
	for _, k := range keys {
		pairs[k] = string(row)
	}
	version, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	if len(pairs) > 0 {
		importPairs(t, s, version, pairs)
	}
}

// importAt is importKeys for integer handles.
func (s *testStore) importAt(t *testing.T, handles []int64) {
	t.Helper()
	var keys []string
	for _, h := range handles {
		keys = append(keys, string(handleKey(h)))
	}
	s.importKeys(t, keys)
}

// scanned scans and returns the number of rows.
func (s *testStore) scanned(ctx context.Context, t *testing.T, req kv.ScanRequest) (n int) {
	t.Helper()
	require.NoError(t, s.ScanColumns(ctx, req, func(b *kv.RowBatch) error {
		n += b.NumRows()
		return nil
	}))
	return n
}

// stepped are so many handles that lie so far apart, from one on.
func stepped(from, step int64, n int) (handles []int64) {
	for i := range int64(n) {
		handles = append(handles, from+i*step)
	}
	return handles
}

func handleKey(h int64) []byte {
	return tablecodec.EncodeRowKeyWithHandle(testTable, tidbkv.IntHandle(h))
}

// TestWideSubrangesAreCutAgain: where rows lie closer than measured, the scan has several requests again after
// one page, and ReadTo does not include the part that is cut off.
func TestWideSubrangesAreCutAgain(t *testing.T) {
	const dense, from = 6000, 1 << 40
	s := open(t, vfs.NewMem(), Options{PageBytes: 3000})
	s.importAt(t, append(stepped(0, 1_000_000, 2000), stepped(from, 1, dense)...))
	req := s.request(t, 1)
	sparse := req
	sparse.Range.End = handleKey(from)
	require.NoError(t, s.ScanColumns(t.Context(), sparse, func(*kv.RowBatch) error { return nil }))

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req.Range.Start = handleKey(from)
	g := newGate(s, req.Range.Start, maxSubranges)
	n := 0
	require.NoError(t, s.ScanColumns(ctx, req, func(b *kv.RowBatch) error {
		n += b.NumRows()
		if beyond := handleKey(from + int64(n) + 2*maxSubranges*3000/16); n < dense/4 {
			require.Negative(t, bytes.Compare(b.ReadTo, beyond), "%d rows", n)
		}
		return nil
	}))
	require.Equal(t, dense, n)
	require.Equal(t, maxSubranges, g.peak)
}

// TestNarrowSubrangesGrow: also where one row lies in each.
func TestNarrowSubrangesGrow(t *testing.T) {
	const dense, rows, pageRows = 500, 3000, 180
	for _, step := range append([]int64{2, pageRows / 2, 2 * pageRows, 1_000_000}, stepped(subrangeFill*pageRows-4, 1, 9)...) {
		s := open(t, vfs.NewMem(), Options{PageBytes: 3000})
		s.importAt(t, append(stepped(0, 1, dense), stepped(dense, step, rows)...))
		s.log.take()
		require.Equal(t, dense+rows, s.scanned(t.Context(), t, s.request(t, 1)))
		s.log.mu.Lock()
		require.Less(t, len(s.log.requests), 80, "rows %d apart", step)
		s.log.mu.Unlock()
	}
}

// TestHintsOfShortRows: rows of another range may be longer than those that a hint is of.
func TestHintsOfShortRows(t *testing.T) {
	const rows = 6000
	s := openNew(t)
	s.importRowsOf(t, 2*rows, func(i int) int { return 10 + i/rows*3000 })
	req := s.request(t, 2)
	req.Columns[0].Ft.SetFlen(4000)
	for _, r := range []kv.KeyRange{{Start: req.Range.Start, End: handleKey(rows)}, {Start: handleKey(rows), End: req.Range.End}} {
		req.Range = r
		require.NoError(t, s.ScanColumns(t.Context(), req, func(*kv.RowBatch) error { return nil }))
	}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	require.Less(t, slices.Max(s.log.answers), maxLongPageBytes/3)
}

// TestPagesFitTheirRows: a page has about the target size, from the third round of subranges on, for the rows of its
// place.
func TestPagesFitTheirRows(t *testing.T) {
	const pageBytes = 64 << 10
	for _, c := range []struct {
		name     string
		flen     int
		lengths  func(i int) int
		pages    int // the least number of pages of the target size
		tooLarge int
	}{
		{"long", 8000, func(int) int { return 2000 }, 10_000 * 2000 / pageBytes, 0},
		{"longer and longer", 1000, func(i int) int { return 10 + i/10 }, 10_000 * 510 / pageBytes, 2*maxSubranges + 1},
		{"suddenly longer", 1000, func(i int) int { return 10 + i/5000*990 }, 5000 * 1010 / pageBytes, 2*maxSubranges + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, vfs.NewMem(), Options{PageBytes: pageBytes})
			s.importRowsOf(t, 10_000, c.lengths)
			req := s.request(t, 2)
			req.Columns[0].Ft.SetFlen(c.flen)
			s.log.take()
			require.Equal(t, 10_000, s.scanned(t.Context(), t, req))
			tooLarge := 0
			for _, size := range s.log.answers {
				if size > 3*pageBytes { // TiKV ends a page with a batch of rows
					tooLarge++
				}
			}
			require.LessOrEqual(t, tooLarge, c.tooLarge)
			answers, _ := s.log.take()
			require.LessOrEqual(t, answers, 2*c.pages+30)
		})
	}
}

// TestSamplesAreNotReadAhead: a sample costs its pages and no more, also with hints of other scans.
func TestSamplesAreNotReadAhead(t *testing.T) {
	s := open(t, vfs.NewMem(), Options{PageBytes: 1})
	s.importRows(t, 5000, 10)
	req := s.request(t, 1)
	enough := errors.New("enough")
	for _, pages := range []int{1, 3} {
		require.NoError(t, s.ScanColumns(t.Context(), req, func(*kv.RowBatch) error { return nil }))
		sample := req
		sample.Sample, sample.BatchRows = true, 16
		sample.Range.Start = handleKey(1000)
		s.log.take()
		batches := 0
		require.ErrorIs(t, s.ScanColumns(t.Context(), sample, func(*kv.RowBatch) error {
			if batches++; batches == pages {
				return enough
			}
			return nil
		}), enough)
		answers, _ := s.log.take()
		require.LessOrEqual(t, answers, pages)
	}
}

// TestSamplesAcrossRegionsReadLittle: a sample that goes on in another region costs no more there.
func TestSamplesAcrossRegionsReadLittle(t *testing.T) {
	s := openNew(t)
	s.importRows(t, 20_000, 10)
	s.splitAt(t, string(handleKey(1030)))
	req := s.request(t, 1)
	req.Sample, req.BatchRows, req.Range.Start = true, 50, handleKey(1000)
	s.log.take()
	enough := errors.New("enough")
	n := 0
	require.ErrorIs(t, s.ScanColumns(t.Context(), req, func(b *kv.RowBatch) error {
		if n += b.NumRows(); n >= 50 {
			return enough
		}
		return nil
	}), enough)
	_, sent := s.log.take()
	require.Less(t, sent, 10_000)
}

// TestMostBytes: the bound of a type's values.
func TestMostBytes(t *testing.T) {
	text := func(tp byte, flen int, cs string) *types.FieldType {
		ft := types.NewFieldType(tp)
		ft.SetFlen(flen)
		ft.SetCharset(cs)
		return ft
	}
	enum := types.NewFieldType(mysql.TypeEnum)
	enum.SetElems([]string{"a", strings.Repeat("b", 500)})
	for _, c := range []struct {
		ft          *types.FieldType
		least, most int
	}{
		{types.NewFieldType(mysql.TypeLonglong), 16, 100},
		{text(mysql.TypeVarchar, 100, "utf8mb4"), 400, 600},
		{text(mysql.TypeVarchar, 100, "binary"), 100, 200},
		{text(mysql.TypeLongBlob, math.MaxUint32, "binary"), maxRowBytes, math.MaxInt},
		{text(mysql.TypeVarchar, types.UnspecifiedLength, "utf8mb4"), maxRowBytes, math.MaxInt},
		{types.NewFieldType(mysql.TypeJSON), maxRowBytes, math.MaxInt},
		{enum, 500, 1000},
	} {
		n := mostBytes(c.ft)
		require.GreaterOrEqual(t, n, c.least, "%s", c.ft)
		require.LessOrEqual(t, n, c.most, "%s", c.ft)
	}
}

package tikv

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/stretchr/testify/require"
	kvutil "github.com/tikv/client-go/v2/util"

	"fastddl/kv"
	"fastddl/kv/kvtest"
)

const testTable = 77

func records(id int64) kv.KeyRange { return kv.PrefixRange(tablecodec.GenTableRecordPrefix(id)) }

// importRows imports n rows: handles from 0, column 1 an integer, column 2 a text of the
// given length.
func (s *testStore) importRows(t *testing.T, n, length int) {
	t.Helper()
	s.importRowsOf(t, n, func(int) int { return length })
}

// importRowsOf is importRows for texts of different lengths.
func (s *testStore) importRowsOf(t *testing.T, n int, length func(i int) int) {
	t.Helper()
	version, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	w, err := s.NewImportWriter(t.Context(), kv.ImportOptions{Dir: "rows", Version: version})
	require.NoError(t, err)
	for i := range n {
		text := types.NewStringDatum(strings.Repeat("x", length(i)))
		row, err := tablecodec.EncodeRow(time.UTC, []types.Datum{types.NewIntDatum(int64(i)), text}, []int64{1, 2}, nil, nil, nil,
			&rowcodec.Encoder{Enable: true})
		require.NoError(t, err)
		require.NoError(t, w.Add(tablecodec.EncodeRowKeyWithHandle(testTable, tidbkv.IntHandle(i)), row))
	}
	u, err := w.Finish(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Import(t.Context(), []kv.ImportUnit{u}))
}

func (s *testStore) request(t *testing.T, cols ...int64) kv.ScanRequest {
	t.Helper()
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	req := kv.ScanRequest{Range: records(testTable), TS: ts}
	for _, id := range cols {
		tp := mysql.TypeLonglong
		if id == 2 {
			tp = mysql.TypeVarchar
		}
		req.Columns = append(req.Columns, rowcodec.ColInfo{ID: id, Ft: types.NewFieldType(tp)})
	}
	return req
}

// TestScanMovesTheWantedColumns: of a table with long rows, an index on an integer costs
// the integer and the handle.
func TestScanMovesTheWantedColumns(t *testing.T) {
	const rows, length = 40_000, 300
	s := openNew(t)
	s.importRows(t, rows, length)
	s.splitAt(t, string(tablecodec.EncodeRowKeyWithHandle(testTable, tidbkv.IntHandle(rows/3))))
	req := s.request(t, 1)
	s.log.take()
	n := 0
	require.NoError(t, s.ScanColumns(t.Context(), req, func(b *kv.RowBatch) error {
		for i := range b.NumRows() {
			require.EqualValues(t, n, b.IntHandles[i])
			require.EqualValues(t, n, b.Rows.GetRow(i).GetInt64(0))
			n++
		}
		return nil
	}))
	require.Equal(t, rows, n)
	answers, bytes := s.log.take()
	t.Logf("%d bytes of %d rows in %d answers: %.2f for each", bytes, rows, answers, float64(bytes)/rows)
	require.Less(t, float64(bytes)/rows, 16*1.05, "eight bytes each, and what goes with a page")
	require.Less(t, answers, 12, "pages have tens of thousands of rows")
}

// TestScanSaysWhatIsReadAhead: a batch's ReadTo is the end of its page, or of the requested pages behind it.
func TestScanSaysWhatIsReadAhead(t *testing.T) {
	const rows = 10_000
	s := openNew(t)
	s.importRows(t, rows, 10)
	s.splitAt(t, string(tablecodec.EncodeRowKeyWithHandle(testTable, tidbkv.IntHandle(rows/3))))
	req := s.request(t, 1)
	req.BatchRows = 100
	ahead := 0
	require.NoError(t, s.ScanColumns(t.Context(), req, func(b *kv.RowBatch) error {
		next := kv.NextKey(b.LastKey)
		require.GreaterOrEqual(t, bytes.Compare(b.ReadTo, next), 0, "not before the batch's own rows")
		require.LessOrEqual(t, bytes.Compare(b.ReadTo, req.Range.End), 0)
		if !bytes.Equal(b.ReadTo, next) {
			ahead++
		}
		return nil
	}))
	require.Greater(t, ahead, rows/req.BatchRows/2, "pages have many batches")
}

// TestScanOfLongRows: a page is as long as it should be, from the second request on, and
// few are asked for before its rows are handed out.
func TestScanOfLongRows(t *testing.T) {
	const rows, length = 2000, 10_000
	s := openNew(t)
	s.importRows(t, rows, length)
	s.log.take()
	n, batches := 0, 0
	ctx := kvutil.WithResourceGroupName(t.Context(), "batch")
	require.NoError(t, s.ScanColumns(ctx, s.request(t, 2), func(b *kv.RowBatch) error {
		n += b.NumRows()
		batches++
		s.log.mu.Lock()
		defer s.log.mu.Unlock()
		require.LessOrEqual(t, len(s.log.answers), batches+2*maxSubranges+1)
		return nil
	}))
	require.Equal(t, rows, n)
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	require.LessOrEqual(t, s.log.answers[0], 2*firstPageRows*length)
	for _, size := range s.log.answers[1:] {
		require.LessOrEqual(t, size, 3*defaultPageBytes, "a page ends with a batch of rows")
	}
	for _, req := range s.log.requests {
		require.Equal(t, kvrpcpb.CommandPri_Low, req.Priority)
		require.Equal(t, RequestSource(), req.InputRequestSource)
		require.Equal(t, "batch", req.ResourceControlContext.ResourceGroupName)
		require.True(t, req.NotFillCache)
		require.True(t, req.RecordScanStat)
	}
}

// TestScanOfRowsThatGrow: rows of a table may be short for a while and then long. Neither a page nor
// a batch is made for the short ones only.
func TestScanOfRowsThatGrow(t *testing.T) {
	const short, long, length = 100, 600, 64 << 10
	s := openNew(t)
	s.importRowsOf(t, short+long, func(i int) int {
		if i < short {
			return 10
		}
		return length
	})
	req := s.request(t, 2)
	req.Columns[0].Ft = types.NewFieldType(mysql.TypeBlob)
	s.log.take()
	n := 0
	require.NoError(t, s.ScanColumns(t.Context(), req, func(b *kv.RowBatch) error {
		held := 0
		for i := range b.NumRows() {
			held += len(b.Rows.GetRow(i).GetBytes(0))
			require.EqualValues(t, n, b.IntHandles[i])
			n++
		}
		require.LessOrEqual(t, held, kv.MaxBatchBytes+length)
		return nil
	}))
	require.Equal(t, short+long, n)
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for i, size := range s.log.answers {
		require.LessOrEqual(t, size, 2*maxLongPageRows*length, "page %d: it ends with a batch of rows", i)
	}
}

// TestSamplingReadsLittle: who takes one batch costs one small page.
func TestSamplingReadsLittle(t *testing.T) {
	s := openNew(t)
	s.importRows(t, 10_000, 100)
	req := s.request(t, 1)
	req.BatchRows = 50
	enough := errors.New("enough")
	s.log.take()
	require.ErrorIs(t, s.ScanColumns(t.Context(), req, func(*kv.RowBatch) error { return enough }), enough)
	answers, bytes := s.log.take()
	require.Equal(t, 1, answers)
	require.Less(t, bytes, 64*20)
}

// TestCountMovesNothing: rows and entries are counted where they are.
func TestCountMovesNothing(t *testing.T) {
	const rows = 5000
	s := openNew(t)
	s.importRows(t, rows, 100)
	req := s.request(t)
	snap, err := s.Snapshot(t.Context(), req.TS)
	require.NoError(t, err)
	s.log.take()
	n, err := snap.Count(t.Context(), records(testTable))
	require.NoError(t, err)
	require.EqualValues(t, rows, n)
	_, bytes := s.log.take()
	require.Less(t, bytes, 100)
	half := kv.KeyRange{Start: tablecodec.EncodeRowKeyWithHandle(testTable, tidbkv.IntHandle(rows/2)), End: records(testTable).End}
	n, err = snap.Count(t.Context(), half)
	require.NoError(t, err)
	require.EqualValues(t, rows/2, n)
	require.NoError(t, snap.Close())
}

// TestReadsOverLocks: a transaction that is prewritten is resolved, and what a timestamp
// sees does not change when it commits.
func TestReadsOverLocks(t *testing.T) {
	s := openNew(t)
	s.importRows(t, 300, 10)
	gone := string(tablecodec.EncodeRowKeyWithHandle(testTable, tidbkv.IntHandle(7)))
	_, finish, err := kvtest.TiDBStart(storageOf)(t.Context(), s, map[string]string{gone: ""})
	require.NoError(t, err)
	req := s.request(t, 1)
	read := func(ts uint64) (rows, counted int64, sum kv.Checksum) {
		req.TS = ts
		require.NoError(t, s.ScanColumns(t.Context(), req, func(b *kv.RowBatch) error {
			rows += int64(b.NumRows())
			return nil
		}))
		snap, err := s.Snapshot(t.Context(), ts)
		require.NoError(t, err)
		counted, err = snap.Count(t.Context(), req.Range)
		require.NoError(t, err)
		require.NoError(t, snap.Close())
		sum, err = s.Checksum(t.Context(), req.Range, ts)
		require.NoError(t, err)
		return rows, counted, sum
	}
	at := req.TS
	rows, counted, sum := read(at)
	require.EqualValues(t, 300, rows)
	require.EqualValues(t, 300, counted)
	require.EqualValues(t, 300, sum.Pairs)
	require.NoError(t, finish())
	rows, counted, again := read(at)
	require.EqualValues(t, 300, rows)
	require.EqualValues(t, 300, counted)
	require.Equal(t, sum, again)
	now, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	rows, counted, sum = read(now)
	require.EqualValues(t, 299, rows)
	require.EqualValues(t, 299, counted)
	require.EqualValues(t, 299, sum.Pairs)
}

// TestChecksum is that of the pairs as they are read.
func TestChecksum(t *testing.T) {
	s := openNew(t)
	s.importRows(t, 1000, 10)
	s.splitAt(t, string(tablecodec.EncodeRowKeyWithHandle(testTable, tidbkv.IntHandle(300))))
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	snap, err := s.Snapshot(t.Context(), ts)
	require.NoError(t, err)
	it, err := snap.Iter(kv.KeyRange{})
	require.NoError(t, err)
	var want kv.Checksum
	for it.Valid() {
		crc := kv.UpdateCRC(kv.UpdateCRC(0, it.Key()), it.Value())
		want.Add(kv.Checksum{Pairs: 1, Bytes: int64(len(it.Key()) + len(it.Value())), CRC: crc})
		require.NoError(t, it.Next())
	}
	require.EqualValues(t, 1000, want.Pairs)
	got, err := s.Checksum(t.Context(), kv.KeyRange{}, ts)
	require.NoError(t, err)
	require.Greater(t, got.Records, got.Pairs, "the stand-in does not report them")
	got.Records = 0
	require.Equal(t, want, got)
	_, err = s.Checksum(t.Context(), kv.KeyRange{}, ts+1<<40)
	require.Error(t, err, "a timestamp of the future")
}

// TestTimesOfHandles: a TIMESTAMP of a handle comes in UTC, and makes the handle again.
func TestTimesOfHandles(t *testing.T) {
	s := openNew(t)
	ft := types.NewFieldType(mysql.TypeTimestamp)
	pairs := make(map[string]string)
	var want []string
	for _, hour := range []int{0, 1, 2} {
		at := types.NewTime(types.FromGoTime(time.Date(2024, 10, 27, hour, 30, 0, 0, time.UTC)), mysql.TypeTimestamp, 0)
		handle, err := codec.EncodeKey(time.UTC, nil, types.NewTimeDatum(at))
		require.NoError(t, err)
		row, err := tablecodec.EncodeRow(time.UTC, nil, nil, nil, nil, nil, &rowcodec.Encoder{Enable: true})
		require.NoError(t, err)
		pairs[string(tablecodec.EncodeRowKey(testTable, handle))] = string(row)
		want = append(want, fmt.Sprintf("%x %02d", handle, hour))
	}
	version, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	importPairs(t, s, version, pairs)
	req := s.request(t)
	req.CommonHandle, req.HandleColIDs, req.HandleCols = true, []int64{5}, []kv.HandleColumn{{Ft: ft}}
	req.Columns = []rowcodec.ColInfo{{ID: 5, Ft: ft}}
	var got []string
	require.NoError(t, s.ScanColumns(t.Context(), req, func(b *kv.RowBatch) error {
		for i := range b.NumRows() {
			got = append(got, fmt.Sprintf("%x %02d", b.CommonHandle(i), b.Rows.GetRow(i).GetTime(0).Hour()))
		}
		return nil
	}))
	require.Equal(t, want, got)
}

// TestHandlesWhilePagesAreRead: common handles are made right while those of later pages are, for
// these are read ahead.
func TestHandlesWhilePagesAreRead(t *testing.T) {
	s := open(t, vfs.NewMem(), Options{PageBytes: 1})
	ft := types.NewFieldType(mysql.TypeLonglong)
	pairs := make(map[string]string)
	var want []string
	for i := range 3000 {
		handle, err := codec.EncodeKey(time.UTC, nil, types.NewIntDatum(int64(i)), types.NewIntDatum(int64(-i)))
		require.NoError(t, err)
		row, err := tablecodec.EncodeRow(time.UTC, nil, nil, nil, nil, nil, &rowcodec.Encoder{Enable: true})
		require.NoError(t, err)
		pairs[string(tablecodec.EncodeRowKey(testTable, handle))] = string(row)
		want = append(want, string(handle))
	}
	version, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	importPairs(t, s, version, pairs)
	req := s.request(t)
	req.CommonHandle, req.HandleColIDs, req.HandleCols = true, []int64{5, 6}, []kv.HandleColumn{{Ft: ft}, {Ft: ft}}
	req.BatchRows = 32
	var got []string
	require.NoError(t, s.ScanColumns(t.Context(), req, func(b *kv.RowBatch) error {
		for i := range b.NumRows() {
			got = append(got, string(b.CommonHandle(i)))
		}
		return nil
	}))
	require.Equal(t, want, got)
}

// TestScanPanics: when the function that takes the rows panics, at the first page or a later one, no request
// is left open and nothing reads on.
func TestScanPanics(t *testing.T) {
	s := open(t, vfs.NewMem(), Options{PageBytes: 1 << 20})
	s.importRows(t, 2000, 10_000)
	for last := range 5 {
		batches := 0
		require.Panics(t, func() {
			_ = s.ScanColumns(t.Context(), s.request(t, 2), func(*kv.RowBatch) error {
				if batches++; batches > last {
					panic("injected")
				}
				return nil
			})
		})
		s.log.mu.Lock()
		open := s.log.open
		s.log.mu.Unlock()
		require.Zero(t, open, "after %d batches", last)
	}
}

// TestBadScansAreRefused: what cannot be asked for is refused.
func TestBadScansAreRefused(t *testing.T) {
	s := openNew(t)
	good := s.request(t, 1)
	for name, change := range map[string]func(*kv.ScanRequest){
		"two tables": func(r *kv.ScanRequest) { r.Range.End = records(testTable + 1).End },
		"no table":   func(r *kv.ScanRequest) { r.Range = kv.KeyRange{Start: []byte("a"), End: []byte("b")} },
		"unbounded":  func(r *kv.ScanRequest) { r.Range.End = nil },
		"defaults":   func(r *kv.ScanRequest) { r.Defaults = make([]types.Datum, 3) },
		"handle":     func(r *kv.ScanRequest) { r.CommonHandle, r.HandleColIDs = true, []int64{1} },
	} {
		req := good
		change(&req)
		require.Error(t, s.ScanColumns(t.Context(), req, func(*kv.RowBatch) error { return nil }), name)
	}
}

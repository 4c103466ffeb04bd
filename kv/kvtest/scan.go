package kvtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// Column IDs of the scan tests' table.
const (
	colID = 1 + iota
	colInt
	colStr
	colTime
	colDec
	colLate // added after the rows were written
	colKey  // of a common handle, behind colID
)

// scanTable writes and scans rows of one table.
type scanTable struct {
	*env
	id     int64
	common bool
}

var lastTableID = time.Now().UnixNano() >> 8

func newScanTable(e *env, common bool) *scanTable {
	lastTableID++
	return &scanTable{e, lastTableID, common}
}

func fieldType(col int64) *types.FieldType {
	tp := map[int64]byte{
		colID: mysql.TypeLonglong, colInt: mysql.TypeLong, colStr: mysql.TypeVarchar,
		colTime: mysql.TypeTimestamp, colDec: mysql.TypeNewDecimal, colLate: mysql.TypeVarchar, colKey: mysql.TypeVarchar,
	}[col]
	ft := types.NewFieldType(tp)
	switch tp {
	case mysql.TypeVarchar:
		ft.SetCharset("utf8mb4")
		ft.SetCollate("utf8mb4_bin")
		ft.SetFlen(16383)  // the longest that a column may be
		if col == colKey { // the row does not repeat what the handle says
			ft.SetCharset("binary")
			ft.SetCollate("binary")
		}
	case mysql.TypeNewDecimal:
		ft.SetFlen(10)
		ft.SetDecimal(2)
	case mysql.TypeTimestamp:
		ft.SetDecimal(0)
	}
	return ft
}

var rowTime = types.NewTime(types.FromGoTime(time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)), mysql.TypeTimestamp, 0)

// values are the datums of row i by column.
func (s *scanTable) values(i int64) map[int64]types.Datum {
	v := map[int64]types.Datum{
		colInt:  types.NewIntDatum(i * 10),
		colStr:  types.NewStringDatum(fmt.Sprint("row ", i)),
		colTime: types.NewTimeDatum(rowTime),
		colDec:  types.NewDecimalDatum(types.NewDecFromStringForTest("12.50")),
	}
	if i%5 == 0 {
		v[colInt] = types.Datum{}
		v[colStr] = types.Datum{}
	}
	return v
}

// handle of row i is i, or (i, "k<i>") for a common one.
func (s *scanTable) handle(i int64) tkv.Handle {
	if !s.common {
		return tkv.IntHandle(i)
	}
	encoded, err := codec.EncodeKey(time.UTC, nil, types.NewIntDatum(i), types.NewStringDatum(fmt.Sprint("k", i)))
	require.NoError(s, err)
	h, err := tkv.NewCommonHandle(encoded)
	require.NoError(s, err)
	return h
}

func (s *scanTable) recordKey(i int64) []byte {
	return tablecodec.EncodeRowKeyWithHandle(s.id, s.handle(i))
}

func (s *scanTable) records() kv.KeyRange {
	return kv.PrefixRange(tablecodec.GenTableRecordPrefix(s.id))
}

// write commits rows [from, to), in the old row format if so asked.
func (s *scanTable) write(from, to int64, old bool) uint64 {
	s.Helper()
	rows := make(map[string]string)
	for i := from; i < to; i++ {
		var ids []int64
		var datums []types.Datum
		for id, d := range s.values(i) {
			ids = append(ids, id)
			datums = append(datums, d)
		}
		var value []byte
		var err error
		if old {
			value, err = tablecodec.EncodeOldRow(time.UTC, datums, ids, nil, nil)
		} else {
			value, err = tablecodec.EncodeRow(time.UTC, datums, ids, nil, nil, nil, &rowcodec.Encoder{Enable: true})
		}
		require.NoError(s, err)
		rows[string(s.recordKey(i))] = string(value)
	}
	return s.putKeys(rows)
}

func (s *scanTable) request(ts uint64, cols ...int64) kv.ScanRequest {
	req := kv.ScanRequest{Range: s.records(), TS: ts, CommonHandle: s.common}
	if s.common {
		req.HandleColIDs = []int64{colID, colKey}
		req.HandleCols = []kv.HandleColumn{{Ft: fieldType(colID)}, {Ft: fieldType(colKey)}}
	}
	for _, id := range cols {
		req.Columns = append(req.Columns, rowcodec.ColInfo{ID: id, IsPKHandle: id == colID && !s.common, Ft: fieldType(id)})
		d := types.Datum{}
		if id == colLate {
			d = types.NewStringDatum("default")
		}
		req.Defaults = append(req.Defaults, d)
	}
	return req
}

// scanned is a row as text: its handle and its columns.
func (s *scanTable) scan(req kv.ScanRequest) []string {
	s.Helper()
	var out []string
	_, counts := s.store.(kv.ScanCounter)
	err := s.store.ScanColumns(s.ctx(), req, func(b *kv.RowBatch) error {
		require.Positive(s, b.NumRows())
		if counts {
			require.Equal(s, b.NumRows(), b.Visited, "rows of a batch are lost")
		}
		require.Positive(s, b.Bytes)
		for i := range b.NumRows() {
			out = append(out, s.rowText(req, b, i))
		}
		require.Equal(s, string(s.batchKey(b, b.NumRows()-1)), string(b.LastKey))
		return nil
	})
	require.NoError(s, err)
	return out
}

func (s *scanTable) batchKey(b *kv.RowBatch, i int) []byte {
	if !s.common {
		return tablecodec.EncodeRowKeyWithHandle(s.id, tkv.IntHandle(b.IntHandles[i]))
	}
	h, err := tkv.NewCommonHandle(b.CommonHandle(i))
	require.NoError(s, err)
	return tablecodec.EncodeRowKeyWithHandle(s.id, h)
}

func (s *scanTable) rowText(req kv.ScanRequest, b *kv.RowBatch, i int) string {
	var text string
	if s.common {
		require.Len(s, b.HandleOffsets, b.NumRows()+1)
		datums, err := codec.Decode(b.CommonHandle(i), 2)
		require.NoError(s, err)
		text = fmt.Sprintf("%d/%s", datums[0].GetInt64(), datums[1].GetBytes())
	} else {
		require.Len(s, b.IntHandles, b.NumRows())
		text = fmt.Sprint(b.IntHandles[i])
	}
	for c := range req.Columns {
		text += " " + cellText(b.Rows.GetRow(i), c, req.Columns[c].Ft)
	}
	return text
}

func cellText(row chunk.Row, c int, ft *types.FieldType) string {
	d := row.GetDatum(c, ft)
	if d.IsNull() {
		return "NULL"
	}
	text, err := d.ToString()
	if err != nil {
		return err.Error()
	}
	return text
}

func testScanIntHandle(e *env) {
	s := newScanTable(e, false)
	s.write(-2, 3, false)
	ts := s.now()
	require.Equal(e, []string{
		"-2 row -2 -2 -20 default 12.50",
		"-1 row -1 -1 -10 default 12.50",
		"0 NULL 0 NULL default 12.50",
		"1 row 1 1 10 default 12.50",
		"2 row 2 2 20 default 12.50",
	}, s.scan(s.request(ts, colStr, colID, colInt, colLate, colDec)))
	require.Equal(e, []string{"-2", "-1", "0", "1", "2"}, s.scan(s.request(ts)), "no columns")
	require.Equal(e, []string{"-2 -2", "-1 -1", "0 0", "1 1", "2 2"}, s.scan(s.request(ts, colID)), "the handle alone")

	req := s.request(ts, colInt)
	req.Range = kv.KeyRange{Start: s.recordKey(-1), End: s.recordKey(2)}
	require.Equal(e, []string{"-1 -10", "0 NULL", "1 10"}, s.scan(req))
	req.Range = kv.KeyRange{Start: s.recordKey(5), End: s.recordKey(9)}
	require.Empty(e, s.scan(req))

	req = s.request(ts, colTime)
	req.Range = kv.KeyRange{Start: s.recordKey(1), End: s.recordKey(2)}
	require.Equal(e, []string{"1 2024-05-06 07:08:09"}, s.scan(req))
}

func testScanCommonHandle(e *env) {
	s := newScanTable(e, true)
	s.write(1, 6, false)
	ts := s.now()
	require.Equal(e, []string{
		"1/k1 10 1 row 1", "2/k2 20 2 row 2", "3/k3 30 3 row 3", "4/k4 40 4 row 4", "5/k5 NULL 5 NULL",
	}, s.scan(s.request(ts, colInt, colID, colStr)))
	require.Equal(e, []string{"1/k1 row 1", "2/k2 row 2", "3/k3 row 3", "4/k4 row 4", "5/k5 NULL"}, s.scan(s.request(ts, colStr)))
	req := s.request(ts, colID)
	req.BatchRows = 2
	require.Equal(e, []string{"1/k1 1", "2/k2 2", "3/k3 3", "4/k4 4", "5/k5 5"}, s.scan(req))
}

// testScanShortHandle scans a table whose primary key is one short DECIMAL: TiDB fills such
// handles up to nine bytes.
func testScanShortHandle(e *env) {
	s := newScanTable(e, true)
	ft := types.NewFieldType(mysql.TypeNewDecimal)
	ft.SetFlen(4)
	ft.SetDecimal(2)
	const rows = 2500
	written, want := make(map[string]string), make([]string, rows)
	for i := range rows {
		dec := types.NewDecimalDatum(types.NewDecFromStringForTest(fmt.Sprintf("%d.%02d", i/100, i%100)))
		dec.SetLength(ft.GetFlen())
		dec.SetFrac(ft.GetDecimal())
		encoded, err := codec.EncodeKey(time.UTC, nil, dec)
		require.NoError(e, err)
		require.Less(e, len(encoded), 9)
		h, err := tkv.NewCommonHandle(encoded)
		require.NoError(e, err)
		value, err := tablecodec.EncodeRow(time.UTC, []types.Datum{types.NewIntDatum(int64(i))}, []int64{colInt}, nil, nil, nil, &rowcodec.Encoder{Enable: true})
		require.NoError(e, err)
		written[string(tablecodec.EncodeRowKeyWithHandle(s.id, h))] = string(value)
		want[i] = fmt.Sprintf("%x %d", h.Encoded(), i)
	}
	req := s.request(s.putKeys(written), colInt)
	req.HandleColIDs, req.HandleCols = []int64{colDec}, []kv.HandleColumn{{Ft: ft}}
	var got []string
	require.NoError(e, s.store.ScanColumns(e.ctx(), req, func(b *kv.RowBatch) error {
		for i := range b.NumRows() {
			got = append(got, fmt.Sprintf("%x %d", b.CommonHandle(i), b.Rows.GetRow(i).GetInt64(0)))
		}
		return nil
	}))
	require.Equal(e, want, got)
}

// testScanVersions scans a table of which rows were updated and deleted, at
// several timestamps.
func testScanVersions(e *env) {
	s := newScanTable(e, false)
	before := s.now()
	first := s.write(0, 6, false)
	s.putKeys(map[string]string{string(s.recordKey(0)): "", string(s.recordKey(3)): "", string(s.recordKey(7)): ""})
	var last uint64
	for range 10 {
		last = s.write(2, 3, false)
	}
	require.Empty(e, s.scan(s.request(before, colInt)))
	require.Equal(e, []string{"0", "1", "2", "3", "4", "5"}, s.scan(s.request(first)))
	for _, ts := range []uint64{last - 1, last, s.now()} {
		require.Equal(e, []string{"1 10", "2 20", "4 40", "5 NULL"}, s.scan(s.request(ts, colInt)))
	}
}

func testScanBatches(e *env) {
	s := newScanTable(e, false)
	const rows = 1000
	s.write(0, rows, false)
	ts := s.now()
	for _, size := range []int{0, 1, 7, 500, 999, 1000, 1001} {
		req := s.request(ts, colInt)
		req.BatchRows = size
		require.Len(e, s.scan(req), rows, "batches of %d", size)
	}
	// A scan resumes behind the last key of any batch.
	req := s.request(ts, colInt)
	req.BatchRows = 64
	enough := errors.New("enough")
	var handles []int64
	for {
		err := s.store.ScanColumns(e.ctx(), req, func(b *kv.RowBatch) error {
			handles = append(handles, b.IntHandles...)
			req.Range.Start = kv.NextKey(b.LastKey)
			return enough
		})
		if err == nil {
			break
		}
		require.ErrorIs(e, err, enough)
	}
	require.Len(e, handles, rows)
	require.True(e, slices.IsSorted(handles))
}

// testScanLongRows scans rows of a megabyte each: no batch holds much more than
// kv.MaxBatchBytes of them, or than kv.MinBatchRows rows, however many are asked for.
func testScanLongRows(e *env) {
	s := newScanTable(e, false)
	const rows, length = 40, 1 << 20
	for i := int64(1); i <= rows; i++ {
		value, err := tablecodec.EncodeRow(time.UTC, []types.Datum{types.NewStringDatum(strings.Repeat("x", length))}, []int64{colStr}, nil, nil, nil,
			&rowcodec.Encoder{Enable: true})
		require.NoError(e, err)
		s.putKeys(map[string]string{string(s.recordKey(i)): string(value)})
	}
	var handles []int64
	require.NoError(e, s.store.ScanColumns(e.ctx(), s.request(s.now(), colStr), func(b *kv.RowBatch) error {
		held := 0
		for i := range b.NumRows() {
			held += len(b.Rows.GetRow(i).GetBytes(0))
		}
		require.Less(e, held, max(kv.MaxBatchBytes, kv.MinBatchRows*length)+length)
		handles = append(handles, b.IntHandles...)
		return nil
	}))
	require.Len(e, handles, rows)
	require.True(e, slices.IsSorted(handles))
}

func testScanStops(e *env) {
	s := newScanTable(e, false)
	s.write(0, 500, false)
	req := s.request(s.now(), colInt)
	req.BatchRows = 10
	for _, last := range []int{1, 20} { // a store may read many batches at a time
		ctx, cancel := context.WithCancel(e.ctx())
		batches := 0
		err := s.store.ScanColumns(ctx, req, func(*kv.RowBatch) error {
			if batches++; batches == last {
				cancel()
			}
			return nil
		})
		cancel()
		require.ErrorIs(e, err, context.Canceled)
		require.Equal(e, last, batches)
	}

	req.TS = s.now() + 1<<40
	require.Error(e, s.store.ScanColumns(e.ctx(), req, func(*kv.RowBatch) error { return nil }), "a timestamp of the future")
}

func testScanOldRows(e *env) {
	for _, common := range []bool{false, true} {
		s := newScanTable(e, common)
		s.write(1, 3, true)
		s.write(3, 6, false)
		req := s.request(s.now(), colID, colInt, colStr, colTime, colDec, colLate)
		newer := newScanTable(e, common)
		newer.write(1, 6, false)
		want := newer.request(s.now(), colID, colInt, colStr, colTime, colDec, colLate)
		require.Equal(e, newer.scan(want), s.scan(req))
	}
}

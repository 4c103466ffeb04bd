package pebblekv

import (
	"fmt"
	"testing"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

const (
	scannedTable = 7
	scannedRows  = 50
)

// scannedKey is the record key of a row of the tests' table.
func scannedKey(handle int64) []byte {
	return tablecodec.EncodeRowKeyWithHandle(scannedTable, tkv.IntHandle(handle))
}

// writeScannedRow commits a row, or deletes it.
func writeScannedRow(t *testing.T, s *Store, handle int64, deleted bool) uint64 {
	t.Helper()
	var value []byte
	if !deleted {
		var err error
		value, err = tablecodec.EncodeRow(time.UTC, []types.Datum{types.NewIntDatum(handle)}, []int64{2}, nil, nil, nil, &rowcodec.Encoder{Enable: true})
		require.NoError(t, err)
	}
	return put(t, s, string(scannedKey(handle)), string(value))
}

// newRowScan returns a scan of r whose iterator reads a range that need not be r.
func newRowScan(t *testing.T, s *Store, r, read kv.KeyRange, batchRows int, fn func(*rowScan, *kv.RowBatch) error) *rowScan {
	t.Helper()
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	req := kv.ScanRequest{
		Range: r, TS: ts, BatchRows: batchRows,
		Columns: []rowcodec.ColInfo{{ID: 2, Ft: types.NewFieldType(mysql.TypeLonglong)}},
	}
	dec, err := newRowDecoder(req)
	require.NoError(t, err)
	it, err := newForwardIter(t.Context(), view{s, ts}, read)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, it.Close()) })
	scan := &rowScan{r: r, it: it, dec: dec}
	scan.fn = func(b *kv.RowBatch) error { return fn(scan, b) }
	return scan
}

func records() kv.KeyRange { return kv.PrefixRange(tablecodec.GenTableRecordPrefix(scannedTable)) }

// TestVisitedCountsRowsThatABatchHasLost: what the iterator has returned is counted, not what reached the batch.
func TestVisitedCountsRowsThatABatchHasLost(t *testing.T) {
	s := inMemory(t)
	for handle := range int64(scannedRows) {
		writeScannedRow(t, s, handle, false)
	}
	rows, visited := 0, 0
	scan := newRowScan(t, s, records(), records(), 10, func(scan *rowScan, b *kv.RowBatch) error {
		rows += b.NumRows()
		visited += b.Visited
		if rows == b.NumRows() {
			return scan.it.Next() // so that the row behind the first batch never reaches the decoder
		}
		return nil
	})
	require.NoError(t, scan.run(t.Context()))
	require.Equal(t, scannedRows-1, rows)
	require.Equal(t, scannedRows, visited, "the lost row was not visited")
}

// TestScansTileTheirRange: a scan that has left out a part of its range, or has read a part twice, fails.
func TestScansTileTheirRange(t *testing.T) {
	s := inMemory(t)
	for handle := range int64(scannedRows) {
		writeScannedRow(t, s, handle, false)
	}
	count := func(read kv.KeyRange, meanwhile func(*rowScan) error) (n int, err error) {
		scan := newRowScan(t, s, records(), read, 10, func(scan *rowScan, b *kv.RowBatch) error {
			n += b.NumRows()
			if n == b.NumRows() && meanwhile != nil {
				return meanwhile(scan)
			}
			return nil
		})
		return n, scan.run(t.Context())
	}
	n, err := count(records(), nil)
	require.NoError(t, err)
	require.Equal(t, scannedRows, n)

	_, err = count(kv.KeyRange{Start: records().Start, End: scannedKey(20)}, nil)
	require.ErrorContains(t, err, "has read", "the end is left out")
	_, err = count(kv.KeyRange{Start: scannedKey(20), End: records().End}, nil)
	require.ErrorContains(t, err, "has read", "the beginning is left out")
	_, err = count(records(), func(scan *rowScan) error {
		scan.it.it.First()
		return nil
	})
	require.ErrorContains(t, err, "follows", "the beginning is read twice")
	_, err = count(records(), func(scan *rowScan) error {
		scan.it.valid = false // as if there were no more rows
		return nil
	})
	require.ErrorContains(t, err, "before the end")
}

// TestVisitedIsTheRowsOfEachBatch: rows are written, updated and deleted while their table is scanned, and the scan's
// engine iterator is replaced by fresh ones.
func TestVisitedIsTheRowsOfEachBatch(t *testing.T) {
	rnd := randtest.Rand(t)
	s := inMemory(t)
	for range 20 {
		shown := make(map[int64]bool)
		for range rnd.IntN(3 * scannedRows) {
			handle := rnd.Int64N(scannedRows)
			deleted := rnd.IntN(3) == 0
			writeScannedRow(t, s, handle, deleted)
		}
		if rnd.IntN(2) == 0 {
			require.NoError(t, s.db.Flush())
		}
		snap := snapshotNow(t, s)
		for handle := range int64(scannedRows) {
			if _, err := snap.Get(t.Context(), scannedKey(handle)); err == nil {
				shown[handle] = true
			}
		}
		require.NoError(t, snap.Close())
		rows := 0
		scan := newRowScan(t, s, records(), records(), 1+rnd.IntN(2*scannedRows), func(scan *rowScan, b *kv.RowBatch) error {
			require.Equal(t, b.NumRows(), b.Visited)
			for _, handle := range b.IntHandles {
				require.True(t, shown[handle], fmt.Sprint(handle))
			}
			rows += b.NumRows()
			writeScannedRow(t, s, rnd.Int64N(scannedRows), rnd.IntN(2) == 0)
			scan.it.opened, scan.it.steps = time.Time{}, refreshCheck-1
			return nil
		})
		require.NoError(t, scan.run(t.Context()))
		require.Equal(t, len(shown), rows)
	}
}

package pebblekv

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/cockroachkvs"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// FuzzVersionKeys: an engine key gives back what it was made of, versions sort by key and
// then newest first, and bytes that are none are refused.
func FuzzVersionKeys(f *testing.F) {
	f.Add([]byte("a"), uint64(1), []byte("a\x00"), uint64(2))
	f.Add([]byte{}, uint64(1<<63), []byte{0, 0, 9}, uint64(1))
	f.Fuzz(func(t *testing.T, a []byte, ats uint64, b []byte, bts uint64) {
		_, _, _ = splitVersion(a)
		ats, bts = max(ats, 1), max(bts, 1)
		one, other := appendVersion(nil, a, ats), appendVersion(nil, b, bts)
		key, ts, err := splitVersion(one)
		require.NoError(t, err)
		require.True(t, bytes.Equal(a, key))
		require.Equal(t, ats, ts)
		put := make([]byte, len(one))
		putVersion(put, a, ats)
		require.Equal(t, one, put)
		require.True(t, bytes.Equal(a, userKey(one)))
		require.Equal(t, bytes.Equal(a, b), sameUserKey(one, appendBare(nil, b)))
		want := bytes.Compare(a, b)
		if want == 0 && ats != bts {
			want = 1
			if ats > bts {
				want = -1 // the newer one is first
			}
		}
		require.Equal(t, want, cockroachkvs.Compare(one, other))
	})
}

// fuzzColumns are columns of some types, the first of them the integer handle.
func fuzzColumns() []rowcodec.ColInfo {
	kinds := []byte{
		mysql.TypeLonglong, mysql.TypeVarchar, mysql.TypeNewDecimal, mysql.TypeDatetime, mysql.TypeDouble, mysql.TypeJSON, mysql.TypeBit, mysql.TypeEnum,
	}
	var columns []rowcodec.ColInfo
	for i, tp := range kinds {
		ft := types.NewFieldType(tp)
		ft.SetElems([]string{"a", "b"})
		ft.SetFlen(10)
		columns = append(columns, rowcodec.ColInfo{ID: int64(i + 1), Ft: ft, IsPKHandle: i == 0})
	}
	return columns
}

// FuzzRows: for any bytes in place of a row a scan returns rows or an error; it does not
// panic.
func FuzzRows(f *testing.F) {
	enc := rowcodec.Encoder{Enable: true}
	values := []types.Datum{types.NewStringDatum("text"), types.NewFloat64Datum(1.5)}
	row, err := enc.Encode(time.UTC, []int64{2, 5}, values, nil, nil)
	require.NoError(f, err)
	old, err := tablecodec.EncodeOldRow(time.UTC, values, []int64{2, 5}, nil, nil)
	require.NoError(f, err)
	handle, err := codec.EncodeKey(time.UTC, nil, types.NewStringDatum("key"))
	require.NoError(f, err)
	f.Add(codec.EncodeInt(nil, 7), row, false)
	f.Add(codec.EncodeInt(nil, -7), old, false)
	f.Add(handle, row, true)
	f.Add([]byte{}, []byte{128, 1, 255, 255}, true)
	f.Add([]byte("00000000"), []byte{}, false)
	f.Add([]byte("00000000"), []byte{128, 0, 3, 0, 0, 0, 1, 2}, false)
	f.Fuzz(func(t *testing.T, handle, value []byte, common bool) {
		req := kv.ScanRequest{Columns: fuzzColumns(), CommonHandle: common}
		if common {
			req.Columns[0].IsPKHandle, req.HandleColIDs = false, []int64{2}
		}
		dec, err := newRowDecoder(req)
		require.NoError(t, err)
		dec.reset()
		key := append(tablecodec.GenTableRecordPrefix(1), handle...)
		if dec.add(key, value) == nil {
			require.Equal(t, 1, dec.finish(key).Rows.NumRows())
		}
	})
}

// FuzzImport: what is written into import units and linked is read at the version, and
// what cannot be written is refused. The input is cut into keys and values.
func FuzzImport(f *testing.F) {
	store, err := Open("fuzz", Options{FS: vfs.NewMem(), GCRunInterval: func() time.Duration { return 0 }})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, store.Close()) })
	f.Add([]byte("a\x01b"), byte(2))
	f.Add([]byte("aaaabbbbccccdddd"), byte(3))
	f.Add([]byte{0xff, 0, 0, 0, 1, 0}, byte(1))
	n := 0
	f.Fuzz(func(t *testing.T, data []byte, keyLen byte) {
		ctx := context.Background()
		n++
		prefix := fmt.Sprintf("%08d", n)
		version, err := store.CurrentTS(ctx)
		require.NoError(t, err)
		w, err := store.NewImportWriter(ctx, kv.ImportOptions{Dir: "imports", Version: version})
		require.NoError(t, err)
		defer func() { require.NoError(t, w.Abort()) }()
		var last string
		want := make(map[string]string)
		for len(data) > 0 {
			key := prefix + string(data[:min(int(keyLen), len(data))])
			data = data[min(int(keyLen), len(data)):]
			value := string(data[:min(3, len(data))])
			data = data[len(value):]
			err := w.Add([]byte(key), []byte(value))
			if value == "" || len(want) > 0 && key <= last {
				require.Error(t, err)
				continue
			}
			require.NoError(t, err)
			want[key], last = value, key
			if keyLen == 0 {
				break
			}
		}
		unit, err := w.Finish(ctx)
		if len(want) == 0 {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, len(want), unit.Count())
		for key := range want {
			require.True(t, unit.Range().Contains([]byte(key)))
		}
		for range 2 { // a second time it changes nothing
			require.NoError(t, store.Import(ctx, []kv.ImportUnit{unit}))
			snapshot, err := store.Snapshot(ctx, version)
			require.NoError(t, err)
			it, err := snapshot.Iter(kv.PrefixRange([]byte(prefix)))
			require.NoError(t, err)
			got := make(map[string]string)
			for ; it.Valid(); require.NoError(t, it.Next()) {
				got[string(it.Key())] = string(it.Value())
			}
			require.NoError(t, it.Close())
			require.NoError(t, snapshot.Close())
			require.Equal(t, want, got)
		}
	})
}

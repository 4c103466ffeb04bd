package tikv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	tidbcodec "github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"

	"fastddl/kv"
)

// shadowClient hides keys from readers that go forward, as LOCK records do in TiKV that say that the key did
// not exist when it was locked; those that go backward see them.
type shadowClient struct {
	tikv.Client
	mu      sync.Mutex
	hidden  []string // in order
	scanned int      // pairs that were sent
	counts  int      // requests to the coprocessor
}

// SendRequest implements tikv.Client.
func (c *shadowClient) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	if r, ok := req.Req.(*coprocessor.Request); ok {
		c.mu.Lock()
		c.counts++
		c.mu.Unlock()
		forward, err := goesForward(r)
		if err != nil {
			return nil, err
		}
		if forward {
			around := *r
			around.Ranges = c.around(r.Ranges)
			copied := *req
			copied.Req = &around
			req = &copied
		}
	}
	r, ok := req.Req.(*kvrpcpb.ScanRequest)
	if !ok {
		return c.Client.SendRequest(ctx, addr, req, timeout)
	}
	limit := int(r.Limit)
	r.Limit += uint32(len(c.hidden)) // a short answer is the end of the region
	resp, err := c.Client.SendRequest(ctx, addr, req, timeout)
	if r.Limit = uint32(limit); err != nil {
		return resp, err
	}
	answer := resp.Resp.(*kvrpcpb.ScanResponse)
	if !r.Reverse {
		answer.Pairs = slices.DeleteFunc(answer.Pairs, func(p *kvrpcpb.KvPair) bool { return slices.Contains(c.hidden, string(p.Key)) })
	}
	answer.Pairs = answer.Pairs[:min(limit, len(answer.Pairs))]
	c.scanned += len(answer.Pairs)
	return resp, nil
}

func goesForward(r *coprocessor.Request) (bool, error) {
	var dag tipb.DAGRequest
	if err := dag.Unmarshal(r.Data); err != nil {
		return false, err
	}
	return !dag.Executors[0].IdxScan.Desc, nil
}

// around cuts hidden keys out of ranges.
func (c *shadowClient) around(ranges []*coprocessor.KeyRange) (out []*coprocessor.KeyRange) {
	for _, r := range ranges {
		start := r.Start
		for _, k := range c.hidden {
			if k >= string(start) && k < string(r.End) {
				out = append(out, &coprocessor.KeyRange{Start: start, End: []byte(k)})
				start = kv.NextKey([]byte(k))
			}
		}
		out = append(out, &coprocessor.KeyRange{Start: start, End: r.End})
	}
	return out
}

// TestShadowed: entries that readers miss are found, in any region, and only regions that have some are read.
func TestShadowed(t *testing.T) {
	s := openNew(t)
	store := s.data.Storage().(interface {
		GetTiKVClient() tikv.Client
		SetTiKVClient(client tikv.Client)
	})
	client := &shadowClient{Client: store.GetTiKVClient()}
	store.SetTiKVClient(client)
	const entries, index = 5000, 3
	columns := kv.EntryColumns{Index: []*model.ColumnInfo{{ID: 1, FieldType: *types.NewFieldTypeWithCollation(mysql.TypeVarchar, mysql.DefaultCollationName, types.UnspecifiedLength)}}}
	prefix := tablecodec.EncodeTableIndexPrefix(testTable, index)
	version, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	w, err := s.NewImportWriter(t.Context(), kv.ImportOptions{Dir: "entries", Version: version})
	require.NoError(t, err)
	keys := make([]string, entries)
	for i := range keys {
		key, err := tidbcodec.EncodeKey(time.UTC, slices.Clone([]byte(prefix)), types.NewStringDatum(fmt.Sprintf("%04d", i)))
		require.NoError(t, err)
		keys[i] = string(key)
		require.NoError(t, w.Add(key, make([]byte, 8)))
	}
	u, err := w.Finish(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Import(t.Context(), []kv.ImportUnit{u}))
	s.splitAt(t, keys[1], keys[1000], keys[4000])
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	r := kv.PrefixRange(prefix)
	ranges := []kv.KeyRange{{Start: []byte(keys[3000]), End: r.End}, r} // in any order
	ranges[1].End = ranges[0].Start
	for i := range int64(50) { // partitions without entries
		ranges = append(ranges, kv.PrefixRange(tablecodec.EncodeTableIndexPrefix(testTable+1+i, index)))
	}
	shadowed := func() (found []string) {
		require.NoError(t, s.Shadowed(t.Context(), ranges, ts, columns, func(key []byte) error {
			found = append(found, string(key))
			return nil
		}))
		slices.Sort(found)
		return found
	}
	all := func() int64 {
		n, err := s.CountAll(t.Context(), ranges, ts, columns)
		require.NoError(t, err)
		return n
	}
	require.EqualValues(t, entries, all())
	require.LessOrEqual(t, client.counts, 6, "not one for each partition")
	client.counts = 0
	require.Empty(t, shadowed())
	require.Zero(t, client.scanned, "only numbers are sent")
	require.LessOrEqual(t, client.counts, 12, "not one for each partition")

	client.hidden = []string{keys[0], keys[4000], keys[4321], keys[4999]}
	require.Equal(t, client.hidden, shadowed())
	require.EqualValues(t, entries, all(), "those included that readers miss")
	require.Less(t, client.scanned, 2100, "one region is read twice, and that of one entry")

	failure := errors.New("failure")
	require.ErrorIs(t, s.Shadowed(t.Context(), ranges, ts, columns, func([]byte) error { return failure }), failure)
	require.ErrorContains(t, s.Shadowed(t.Context(), []kv.KeyRange{records(testTable)}, ts, columns, nil), "no key of an index")
	require.ErrorContains(t, s.Shadowed(t.Context(), ranges, ts+1<<40, columns, nil), "future")
	require.NoError(t, s.Shadowed(t.Context(), nil, ts, columns, nil))
	_, err = s.CountAll(t.Context(), ranges, ts+1<<40, columns)
	require.ErrorContains(t, err, "future")
	n, err := s.CountAll(t.Context(), nil, ts, columns)
	require.NoError(t, err)
	require.Zero(t, n)
}

// TestCountOverClusteredKeys: entries are counted whose handles consist of columns, in the value or behind the index's columns in
// the key.
func TestCountOverClusteredKeys(t *testing.T) {
	s := openNew(t)
	const index = 3
	column := func(id int64, tp byte) *model.ColumnInfo {
		return &model.ColumnInfo{ID: id, FieldType: *types.NewFieldType(tp)}
	}
	columns := kv.EntryColumns{
		Index:  []*model.ColumnInfo{column(1, mysql.TypeLonglong), column(2, mysql.TypeDouble)},
		Handle: []*model.ColumnInfo{column(3, mysql.TypeDouble), column(4, mysql.TypeLonglong)},
	}
	table := &model.TableInfo{IsCommonHandle: true, CommonHandleVersion: 1}
	prefix := tablecodec.EncodeTableIndexPrefix(testTable, index)
	version, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	w, err := s.NewImportWriter(t.Context(), kv.ImportOptions{Dir: "entries", Version: version})
	require.NoError(t, err)
	for i, values := range [][]types.Datum{
		{types.NewDatum(nil), types.NewFloat64Datum(1)}, // many rows may have it
		{types.NewIntDatum(1), types.NewFloat64Datum(2)}, {types.NewIntDatum(2), types.NewFloat64Datum(1)},
	} {
		encoded, err := tidbcodec.EncodeKey(time.UTC, nil, types.NewFloat64Datum(float64(i)), types.NewIntDatum(7))
		require.NoError(t, err)
		handle, err := tidbkv.NewCommonHandle(encoded)
		require.NoError(t, err)
		key, err := tidbcodec.EncodeKey(time.UTC, slices.Clone([]byte(prefix)), values...)
		require.NoError(t, err)
		distinct := !values[0].IsNull()
		if !distinct {
			key = append(key, encoded...)
		}
		value, err := tablecodec.GenIndexValuePortal(time.UTC, table, &model.IndexInfo{Unique: true}, false, distinct, false, values, handle, 0, nil, nil)
		require.NoError(t, err)
		require.NoError(t, w.Add(key, value))
	}
	u, err := w.Finish(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Import(t.Context(), []kv.ImportUnit{u}))
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	n, err := s.CountAll(t.Context(), []kv.KeyRange{kv.PrefixRange(prefix)}, ts, columns)
	require.NoError(t, err)
	require.EqualValues(t, 3, n)

	columns.Handle = nil
	_, err = s.CountAll(t.Context(), []kv.KeyRange{kv.PrefixRange(prefix)}, ts, columns)
	require.ErrorContains(t, err, "handle of several columns")
}

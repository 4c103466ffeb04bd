package tikv

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/store/copr"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/util"

	"fastddl/kv"
)

// askedClient keeps what is asked for in each region, and adds to the steps that answers say the coprocessor took.
type askedClient struct {
	tikv.Client
	steps uint64

	mu    sync.Mutex
	asked []string
}

func askedClientOf(t *testing.T, s *testStore) *askedClient {
	t.Helper()
	store := s.data.Storage().(interface {
		GetTiKVClient() tikv.Client
		SetTiKVClient(client tikv.Client)
	})
	c := &askedClient{Client: store.GetTiKVClient()}
	store.SetTiKVClient(c)
	return c
}

func (c *askedClient) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	c.mu.Lock()
	switch r := req.Req.(type) {
	case *kvrpcpb.ScanLockRequest:
		c.asked = append(c.asked, fmt.Sprintf("locks of %x up to %d", r.StartKey, r.MaxVersion))
	case *coprocessor.Request:
		c.asked = append(c.asked, fmt.Sprintf("rows of %x at %d, low priority %t", r.Ranges[0].Start, r.StartTs, req.Priority == kvrpcpb.CommandPri_Low))
	}
	c.mu.Unlock()
	resp, err := c.Client.SendRequest(ctx, addr, req, timeout)
	if err == nil {
		if answer, ok := resp.Resp.(*coprocessor.Response); ok && answer.ExecDetailsV2 != nil {
			answer.ExecDetailsV2.ScanDetailV2.TotalVersions += c.steps
		}
	}
	return resp, err
}

// TestCountUnchanged: rows are counted as of an earlier time, in all regions, and all writes since, and those that may
// still commit, show.
func TestCountUnchanged(t *testing.T) {
	s := openNew(t)
	row := func(h int64) string { return string(tablecodec.EncodeRowKeyWithHandle(testTable, tidbkv.IntHandle(h))) }
	prewrite := func(op kvrpcpb.Op, key string) uint64 {
		t.Helper()
		start, err := s.CurrentTS(t.Context())
		require.NoError(t, err)
		noColumns := []byte{128, 0, 0, 0, 0, 0}
		req := &kvrpcpb.PrewriteRequest{
			StartVersion: start, LockTtl: longTTL, PrimaryLock: []byte(key),
			Mutations: []*kvrpcpb.Mutation{{Op: op, Key: []byte(key), Value: noColumns}},
		}
		require.Empty(t, s.call(t, tikvrpc.CmdPrewrite, key, req).(*kvrpcpb.PrewriteResponse).Errors)
		return start
	}
	write := func(op kvrpcpb.Op, key string) { s.committed(t, prewrite(op, key), key) }
	now := func() uint64 {
		ts, err := s.CurrentTS(t.Context())
		require.NoError(t, err)
		return ts
	}
	records := kv.PrefixRange(tablecodec.GenTableRecordPrefix(testTable))
	count := func(since, upTo uint64) (int64, bool) {
		t.Helper()
		n, unchanged, err := s.CountUnchanged(t.Context(), records, since, upTo)
		require.NoError(t, err)
		return n, unchanged
	}
	for h := range int64(10) {
		write(kvrpcpb.Op_Put, row(h))
		write(kvrpcpb.Op_Put, row(h)) // another version
	}
	write(kvrpcpb.Op_Put, row(10))
	write(kvrpcpb.Op_Del, row(10))
	s.splitAt(t, row(3), row(6))
	_, unchanged := count(now(), now())
	require.True(t, unchanged)
	since := now()
	write(kvrpcpb.Op_Put, string(tablecodec.EncodeRowKeyWithHandle(testTable+1, tidbkv.IntHandle(1))))
	s.splitAt(t, row(8)) // the cache does not know
	client := askedClientOf(t, s)
	upTo := now()
	n, unchanged := count(since, upTo)
	require.True(t, unchanged)
	require.EqualValues(t, 10, n)

	// In each region locks come first: from then on no transaction commits at or below upTo.
	for _, start := range []string{string(records.Start), row(3), row(6), row(8)} {
		locks := slices.Index(client.asked, fmt.Sprintf("locks of %x up to %d", start, upTo))
		require.GreaterOrEqual(t, locks, 0, "%x was not asked for locks", start)
		rows := slices.Index(client.asked, fmt.Sprintf("rows of %x at %d, low priority true", start, since))
		require.Greater(t, rows, locks, "%x was not counted after that", start)
	}

	for name, change := range map[string]func(){
		"update":           func() { write(kvrpcpb.Op_Put, row(7)) },
		"insert":           func() { write(kvrpcpb.Op_Put, row(20)) },
		"delete":           func() { write(kvrpcpb.Op_Del, row(4)) },
		"insert, deletion": func() { write(kvrpcpb.Op_Put, row(30)); write(kvrpcpb.Op_Del, row(30)) },
	} {
		since := now()
		_, unchanged := count(since, now())
		require.True(t, unchanged, "before %s", name)
		change()
		_, unchanged = count(since, now())
		require.False(t, unchanged, name)
	}

	start := prewrite(kvrpcpb.Op_Put, row(8))
	_, unchanged = count(now(), now())
	require.False(t, unchanged, "it may commit at or below upTo")
	s.committed(t, start, row(8))
	since = now()
	upTo = now()
	start = prewrite(kvrpcpb.Op_Put, row(1))
	_, unchanged = count(since, upTo)
	require.False(t, unchanged, "whether it commits above is not known")
	s.committed(t, start, row(1))

	_, _, err := s.CountUnchanged(t.Context(), kv.PrefixRange(tablecodec.EncodeTableIndexPrefix(testTable, 1)), since, upTo)
	require.Error(t, err, "not records")
	n, unchanged, err = s.CountUnchanged(t.Context(), kv.KeyRange{Start: records.Start, End: records.Start}, since, upTo)
	require.NoError(t, err)
	require.True(t, unchanged)
	require.Zero(t, n)
}

// TestRecordsOfChecksum: of each region TiKV has taken a step to its first record and one from each to the next.
func TestRecordsOfChecksum(t *testing.T) {
	s := openNew(t)
	s.importRows(t, 1000, 10)
	s.splitAt(t, string(tablecodec.EncodeRowKeyWithHandle(testTable, tidbkv.IntHandle(300))))
	client := askedClientOf(t, s)
	r := kv.PrefixRange(tablecodec.GenTablePrefix(testTable))
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	for steps, records := range []int64{1000 + 2, 1000, 1000 + 2, 1000 + 4} { // the stand-in says one for each pair
		client.steps = uint64(steps)
		sum, err := s.Checksum(t.Context(), r, ts)
		require.NoError(t, err)
		require.EqualValues(t, 1000, sum.Pairs)
		require.Equal(t, records, sum.Records, "%d more", steps)
	}
	for name, stats := range map[string]*copr.CopRuntimeStats{
		"none":     nil,
		"no scan":  {},
		"too few":  stats(5, 5),
		"too many": stats(5, 8),
		"others":   stats(4, 6),
	} {
		require.Greater(t, recordsOf(detailed{stats: stats}, 5), int64(5), name)
	}
	require.EqualValues(t, 5, recordsOf(detailed{stats: stats(5, 6)}, 5))
	require.Greater(t, recordsOf(nil, 0), int64(0))
}

type detailed struct {
	tidbkv.ResultSubset
	stats *copr.CopRuntimeStats
}

func (d detailed) GetCopRuntimeStats() *copr.CopRuntimeStats { return d.stats }

func stats(processed, total int64) *copr.CopRuntimeStats {
	s := &copr.CopRuntimeStats{}
	s.ScanDetail = util.ScanDetail{ProcessedKeys: processed, TotalKeys: total}
	return s
}

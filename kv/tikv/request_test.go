package tikv

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

// pagedStore has 5000 rows in three regions, and pages of some hundred rows.
func pagedStore(t *testing.T) *testStore {
	t.Helper()
	s := open(t, vfs.NewMem(), Options{PageBytes: 5000})
	s.importRows(t, 5000, 10)
	s.splitAt(t, string(handleKey(1500)), string(handleKey(3000)))
	return s
}

// changeNth changes the answer to the n-th request of a scan.
func (s *testStore) changeNth(n int, change func(asked *coprocessor.Request, answer *coprocessor.Response)) {
	asked := 0
	s.log.change = func(req *coprocessor.Request, answer *coprocessor.Response) {
		if asked++; asked == n {
			change(req, answer)
		}
	}
}

// counts scans and returns the sums of rows and of visited records.
func (s *testStore) counts(t *testing.T) (rows, visited int, err error) {
	t.Helper()
	err = s.ScanColumns(t.Context(), s.request(t, 1), func(b *kv.RowBatch) error {
		rows += b.NumRows()
		visited += b.Visited
		return nil
	})
	return rows, visited, err
}

// TestLostRowsAreNoticed: TiKV's own count of what it has read is compared with the rows of each answer, whether a row was lost
// on the way, came twice, or TiKV has read more or fewer than it returned.
func TestLostRowsAreNoticed(t *testing.T) {
	loseChunk := func(_ *coprocessor.Request, answer *coprocessor.Response) {
		changeChunks(t, answer, func(c []tipb.Chunk) []tipb.Chunk { return c[:len(c)-1] })
	}
	repeatChunk := func(_ *coprocessor.Request, answer *coprocessor.Response) {
		changeChunks(t, answer, func(c []tipb.Chunk) []tipb.Chunk { return append(c, c[0]) })
	}
	reads := func(n int) func(*coprocessor.Request, *coprocessor.Response) {
		return func(_ *coprocessor.Request, answer *coprocessor.Response) {
			answer.ExecDetailsV2.ScanDetailV2.ProcessedVersions += uint64(n)
		}
	}
	for name, change := range map[string]func(*coprocessor.Request, *coprocessor.Response){
		"rows lost": loseChunk, "rows repeated": repeatChunk, "more read": reads(1), "fewer read": reads(-1),
	} {
		for _, nth := range []int{1, 5} {
			s := pagedStore(t)
			s.changeNth(nth, change)
			_, _, err := s.counts(t)
			var lost *kv.ScanCountError
			require.ErrorAs(t, err, &lost, "%s, request %d", name, nth)
			require.NotEqual(t, lost.Rows, lost.Visited)
			require.True(t, isRecords(lost.Range))
		}
	}
	s := pagedStore(t)
	rows, visited, err := s.counts(t)
	require.NoError(t, err)
	require.Equal(t, 5000, rows)
	require.Equal(t, 5000, visited)
}

// changeChunks changes the rows of an answer.
func changeChunks(t *testing.T, answer *coprocessor.Response, change func([]tipb.Chunk) []tipb.Chunk) {
	t.Helper()
	resp, err := selected(answer.Data)
	require.NoError(t, err)
	require.NotEmpty(t, resp.Chunks)
	resp.Chunks = change(resp.Chunks)
	answer.Data, err = resp.Marshal()
	require.NoError(t, err)
}

// TestAnswersWithoutDetails: what an old TiKV does not count for each answer it counts in requests of their own, and rows
// that it loses are noticed.
func TestAnswersWithoutDetails(t *testing.T) {
	s := pagedStore(t)
	s.log.change = func(_ *coprocessor.Request, answer *coprocessor.Response) { answer.ExecDetailsV2 = nil }
	rows, visited, err := s.counts(t)
	require.NoError(t, err)
	require.Equal(t, 5000, rows)
	require.Equal(t, 5000, visited)
	s.changeNth(4, func(_ *coprocessor.Request, answer *coprocessor.Response) {
		answer.ExecDetailsV2 = nil
		changeChunks(t, answer, func([]tipb.Chunk) []tipb.Chunk { return nil })
	})
	_, _, err = s.counts(t)
	require.ErrorAs(t, err, new(*kv.ScanCountError))
}

// TestPagesTileTheRange: a page whose end is lost, or of another range than the one that was asked for, ends the scan with an error.
func TestPagesTileTheRange(t *testing.T) {
	for name, change := range map[string]func(asked, read *coprocessor.KeyRange){
		"begins later":   func(_, read *coprocessor.KeyRange) { read.Start = kv.NextKey(read.Start) },
		"begins earlier": func(_, read *coprocessor.KeyRange) { read.Start = read.Start[:len(read.Start)-1] },
		"is empty":       func(asked, read *coprocessor.KeyRange) { read.End = asked.Start },
		"ends before":    func(asked, read *coprocessor.KeyRange) { read.End = asked.Start[:len(asked.Start)-1] },
		"ends behind":    func(asked, read *coprocessor.KeyRange) { read.End = kv.NextKey(asked.End) },
		"without an end": func(_, read *coprocessor.KeyRange) { read.End = nil },
		"ends too early": func(asked, read *coprocessor.KeyRange) { read.End = kv.NextKey(asked.Start) },
	} {
		s := pagedStore(t)
		changed := false
		s.log.change = func(req *coprocessor.Request, answer *coprocessor.Response) {
			if answer.Range == nil || changed {
				return
			}
			changed = true
			change(&coprocessor.KeyRange{Start: req.Ranges[0].Start, End: req.Ranges[len(req.Ranges)-1].End}, answer.Range)
		}
		_, _, err := s.counts(t)
		require.Error(t, err, name)
		require.True(t, changed)
	}
	layout, err := newRowLayout(pagedStore(t).request(t, 1))
	require.NoError(t, err)
	r := layout.req.Range
	b := newBatcher(layout, 10, nil)
	middle := handleKey(7)
	require.NoError(t, b.add(t.Context(), &page{part: kv.KeyRange{Start: r.Start, End: middle}}))
	require.Error(t, b.complete(), "the rest is missing")
	require.Error(t, b.add(t.Context(), &page{part: kv.KeyRange{Start: handleKey(8), End: r.End}}), "a gap")
	b.rest.Start = middle
	require.Error(t, b.add(t.Context(), &page{part: kv.KeyRange{Start: r.Start, End: middle}}), "the same again")
	require.NoError(t, b.add(t.Context(), &page{part: kv.KeyRange{Start: middle, End: r.End}}))
	require.NoError(t, b.complete())
}

// faultyClient answers some requests to the coprocessor with errors of regions, and notes what was read.
type faultyClient struct {
	tikv.Client
	fault func() (*errorpb.Error, error)

	mu   sync.Mutex
	read []kv.KeyRange // the parts that answers are of
}

func faultyClientOf(s *testStore, fault func() (*errorpb.Error, error)) *faultyClient {
	store := s.data.Storage().(interface {
		GetTiKVClient() tikv.Client
		SetTiKVClient(client tikv.Client)
	})
	c := &faultyClient{Client: store.GetTiKVClient(), fault: fault}
	store.SetTiKVClient(c)
	return c
}

// SendRequest implements tikv.Client.
func (c *faultyClient) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	asked, ok := req.Req.(*coprocessor.Request)
	if !ok {
		return c.Client.SendRequest(ctx, addr, req, timeout)
	}
	regionErr, err := c.fault()
	if err != nil {
		return nil, err
	}
	if regionErr != nil {
		return &tikvrpc.Response{Resp: &coprocessor.Response{RegionError: regionErr}}, nil
	}
	resp, err := c.Client.SendRequest(ctx, addr, req, timeout)
	if err != nil {
		return nil, err
	}
	if answer, ok := resp.Resp.(*coprocessor.Response); ok && answer.RegionError == nil && answer.Locked == nil {
		part, err := partRead(kv.KeyRange{Start: asked.Ranges[0].Start, End: asked.Ranges[len(asked.Ranges)-1].End}, answer.Range)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		c.read = append(c.read, part)
		c.mu.Unlock()
	}
	return resp, nil
}

// TestScanOfRegionsThatChange: regions split, and requests fail, at any moment of a scan. Each part of the range is read once, and
// all rows are returned.
func TestScanOfRegionsThatChange(t *testing.T) {
	r := randtest.Rand(t)
	for round := range 10 {
		scanOfRegionsThatChange(t, r, round == 0)
	}
}

func scanOfRegionsThatChange(t *testing.T, r *rand.Rand, busy bool) {
	s := open(t, vfs.NewMem(), Options{PageBytes: []int{1, 600, 3000}[r.IntN(3)]})
	rows := 1 + r.IntN(3000)
	s.importRows(t, rows, 10)
	var mu sync.Mutex
	faults := 40
	client := faultyClientOf(s, func() (*errorpb.Error, error) {
		mu.Lock()
		defer mu.Unlock()
		if faults == 0 || r.IntN(3) > 0 {
			return nil, nil
		}
		faults--
		switch r.IntN(5) {
		case 0:
			return &errorpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}}, nil
		case 1:
			return &errorpb.Error{RegionNotFound: &errorpb.RegionNotFound{}}, nil
		case 2:
			if busy { // client-go waits for seconds
				busy = false
				return &errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{}}, nil
			}
		}
		s.splitAt(t, string(handleKey(r.Int64N(int64(rows)))))
		return nil, nil
	})
	req := s.request(t, 1)
	req.BatchRows = 16 + r.IntN(300)
	n, visited := 0, 0
	require.NoError(t, s.ScanColumns(t.Context(), req, func(b *kv.RowBatch) error {
		for i := range b.NumRows() {
			require.EqualValues(t, n, b.IntHandles[i])
			n++
		}
		visited += b.Visited
		return nil
	}))
	require.Equal(t, rows, n)
	require.Equal(t, rows, visited)
	slices.SortFunc(client.read, func(a, b kv.KeyRange) int { return bytes.Compare(a.Start, b.Start) })
	at := req.Range.Start
	for _, part := range client.read {
		require.Equal(t, at, part.Start)
		at = part.End
	}
	require.Equal(t, req.Range.End, at)
}

// TestScanGivesUp: a region that does not answer ends the scan with its error when the retry budget is used up, and a context
// that ends does at once.
func TestScanGivesUp(t *testing.T) {
	s := pagedStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	faultyClientOf(s, func() (*errorpb.Error, error) {
		cancel()
		return &errorpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}}, nil
	})
	require.ErrorIs(t, s.ScanColumns(ctx, s.request(t, 1), func(*kv.RowBatch) error { return nil }), context.Canceled)

	s = pagedStore(t)
	s.log.change = func(_ *coprocessor.Request, answer *coprocessor.Response) { answer.OtherError = "out of order" }
	_, _, err := s.counts(t)
	require.ErrorContains(t, err, "out of order")
}

// TestScanMeetsLocks: a scan waits for no transaction that commits later, and takes the rows of committed transactions
// from records, never from locks, which TiKV does not count.
func TestScanMeetsLocks(t *testing.T) {
	s := pagedStore(t)
	client := lockClientOf(t, s)
	lock := func(start uint64, primary, key []byte) *kvrpcpb.LockInfo {
		return &kvrpcpb.LockInfo{PrimaryLock: primary, LockVersion: start, Key: key, LockTtl: longTTL, LockType: kvrpcpb.Op_Put, MinCommitTs: start + 1}
	}
	ended := s.prewritten(t, longTTL, kvrpcpb.Op_Put, "ended")
	s.committed(t, ended, "ended")
	alive := s.prewritten(t, longTTL, kvrpcpb.Op_Put, "alive")
	client.left = []*kvrpcpb.LockInfo{
		lock(ended, []byte("ended"), handleKey(10)), lock(ended, []byte("ended"), handleKey(4000)),
		lock(alive, []byte("alive"), handleKey(20)), lock(alive, []byte("alive"), handleKey(4900)),
	}
	for range 2 {
		s.log.take()
		rows, visited, err := s.counts(t)
		require.NoError(t, err)
		require.Equal(t, 5000, rows)
		require.Equal(t, 5000, visited)
		var passed []uint64
		for _, sent := range s.log.requests {
			require.Empty(t, sent.CommittedLocks)
			passed = append(passed, sent.ResolvedLocks...)
		}
		slices.Sort(passed)
		require.Equal(t, []uint64{alive}, slices.Compact(passed))
		client.mu.Lock()
		require.Len(t, client.left, 2, "the locks of the transaction that is alive stay")
		client.mu.Unlock()
	}
	s.committed(t, alive, "alive")
}

// TestStoreCountsScans: the driver promises it.
func TestStoreCountsScans(t *testing.T) {
	var store kv.Store = openNew(t)
	_, ok := store.(kv.ScanCounter)
	require.True(t, ok)
}

package sstimport

import (
	"context"
	"encoding/hex"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/util/codec"
	pdhttp "github.com/tikv/pd/client/http"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fastddl/kv"
)

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limit atomic.Int64
		limit.Store(1000)
		th := &throttle{limit: limit.Load}
		began := time.Now()
		send := func(n int) {
			for range n {
				require.NoError(t, th.wait(t.Context(), 100))
			}
		}
		send(101)
		require.InDelta(t, 10, time.Since(began).Seconds(), 0.2, "10,000 bytes at 1,000 a second")

		limit.Store(0)
		began = time.Now()
		send(1000)
		require.Zero(t, time.Since(began), "no limit")

		limit.Store(1)
		send(1)
		began = time.Now()
		go func() {
			time.Sleep(5 * time.Second)
			limit.Store(1000)
		}()
		send(1)
		require.InDelta(t, 5.2, time.Since(began).Seconds(), 0.5, "who waits notices the change")

		limit.Store(1)
		send(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, th.wait(ctx, 1), context.DeadlineExceeded)
	})
}

// TestWriteSpeed: the speed holds for each store, and may be changed while it is obeyed.
func TestWriteSpeed(t *testing.T) {
	var speed atomic.Int64
	speed.Store(1)
	f := start(t, func(o *Options) { o.WriteSpeed = speed.Load })
	u := f.unit(0, 3000, 100)
	ended := make(chan error)
	go func() { ended <- f.im.Import(t.Context(), []kv.ImportUnit{u}) }()
	require.Eventually(t, func() bool { return f.count(callBatch) >= 3 }, time.Minute, time.Millisecond)
	require.LessOrEqual(t, f.count(callBatch), 3, "each store is sent one message, and the next in half a day")
	speed.Store(0)
	require.NoError(t, <-ended)
	f.requireDone()
	require.Equal(t, 5*3, f.count(callBatch))
}

// TestStreamsPerStore: a store is sent no more regions at a time than it is to be.
func TestStreamsPerStore(t *testing.T) {
	f := start(t, func(o *Options) { o.StoreStreams = 2 })
	for i := range 20 {
		f.split(key(i * 50))
	}
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 1000, 100)}))
	f.requireDone()
	for _, s := range f.stores {
		require.LessOrEqual(t, s.most, 2)
	}
}

// TestFilesSideBySide: what one region is to hold is sent in several files at a time, which
// one request ingests; of as many regions as files are allowed each is sent one.
func TestFilesSideBySide(t *testing.T) {
	const pairs, files = 9 * leastFileBytes / 1000, defaultStoreStreams
	for _, regions := range []int{1, 2, 4} {
		f := start(t, nil)
		for i := 1; i < regions; i++ {
			f.split(key(i * pairs / regions))
		}
		arrived, all := atomic.Int32{}, make(chan struct{})
		f.setFault(func(c call) *fault {
			if c.kind != callWrite || c.store != 1 {
				return nil
			}
			return &fault{late: true, before: func() {
				if int(arrived.Add(1)) == files {
					close(all)
				}
				select {
				case <-all:
				case <-time.After(time.Minute):
					f.t.Error("nothing else is sent meanwhile")
				}
			}}
		})
		require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, pairs, 1000)}))
		f.requireDone()
		require.Equal(t, 3*files, f.count(callWrite), "%d regions", regions)
		require.Equal(t, 2*regions, f.count(callIngest), "long values, and then their entries")
	}
}

// TestOverlappingFilesAreFew: what lies between other imports is sent in one file for each
// region.
func TestOverlappingFilesAreFew(t *testing.T) {
	f := start(t, nil)
	unit := f.unitWith(kv.ImportOptions{Overlaps: true}, 0, 9*leastFileBytes/1000, 1000)
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{unit}))
	f.requireDone()
	require.Equal(t, 3, f.count(callWrite), "one to each store")
}

// TestOneOfSeveralFilesFails: then all of them are sent again.
func TestOneOfSeveralFilesFails(t *testing.T) {
	f := start(t, nil)
	f.setFault(func(c call) *fault {
		if c.kind == callClose && c.nth == 4 {
			return &fault{err: unavailable}
		}
		return nil
	})
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 2*leastFileBytes/1000, 1000)}))
	f.requireDone()
	require.Equal(t, 2, f.count(callIngest), "long values, and then their entries")
}

// TestAcquire: one stream of each store is waited for, more are taken where all have them.
func TestAcquire(t *testing.T) {
	list := []*store{{streams: make(chan struct{}, 4)}, {streams: make(chan struct{}, 4)}}
	take := func(most int) (int, func()) {
		n, release, err := acquire(t.Context(), list, most)
		require.NoError(t, err)
		return n, release
	}
	n, release := take(3)
	require.Equal(t, 3, n)
	list[1].streams <- struct{}{} // of another import, which needs the second store only
	_, _, err := acquire(ended(t), list, 2)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, list[0].streams, 3, "what was taken before the wait is given back")
	release()
	n, release = take(4)
	require.Equal(t, 3, n)
	require.Len(t, list[0].streams, 3, "what cannot be had of all is given back")
	release()
	require.Empty(t, list[0].streams)
	require.Len(t, list[1].streams, 1)
}

func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// large makes an import large enough to split regions and to pause PD.
func large(o *Options) { o.SplitBytes = 100_000 }

func TestSplitsAhead(t *testing.T) {
	f := start(t, func(o *Options) { large(o); o.SplitBytes = 2 << 20 })
	var units []kv.ImportUnit
	for i := range 6 {
		units = append(units, f.unit(i*2000, (i+1)*2000, 1000))
	}
	require.NoError(t, f.im.Import(t.Context(), units))
	f.requireDone()
	require.InDelta(t, 6, len(f.splits), 1, "12 MB in regions of 2 MB, and what is before")
	require.Equal(t, key(0), string(f.splits[0]))
	require.Equal(t, 3*(len(f.splits)), f.count(callWrite), "each is sent one file, nothing is before the first key")
	require.Positive(t, f.setLabels)
}

// TestWithoutSplits: a region that would receive too much is sent it in parts.
func TestWithoutSplits(t *testing.T) {
	f := start(t, func(o *Options) { large(o); o.Splitter = nil })
	f.setFault(func(c call) *fault {
		if c.kind == callIngest {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, file := range f.stores[c.store].files {
				if int64(file.bytes) > writeLimit(100_000)+1000 {
					f.violation("a file has %d bytes", file.bytes)
				}
			}
		}
		return nil
	})
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 5000, 100)}))
	f.requireDone()
	require.Greater(t, f.count(callIngest), 3)
}

func TestSchedulingIsPaused(t *testing.T) {
	f := start(t, large)
	for _, i := range []int{1000, 2500, 2700, 5000} {
		f.split(key(i))
	}
	var during *pdhttp.LabelRule
	f.setFault(func(c call) *fault {
		f.mu.Lock()
		defer f.mu.Unlock()
		if c.kind == callIngest && during == nil {
			require.Len(t, f.rules, 1)
			for _, r := range f.rules {
				during = r
			}
		}
		return nil
	})
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 2000, 100), f.unit(3000, 4000, 100)}))
	f.requireDone()
	require.Equal(t, []pdhttp.RegionLabel{{Key: "schedule", Value: "deny", TTL: "2m0s"}}, during.Labels)
	require.Equal(t, "key-range", during.RuleType)
	// Whole regions, so that PD need not split any for it, and none in which nothing comes.
	at := func(i int) string { return hex.EncodeToString(codec.EncodeBytes(nil, []byte(key(i)))) }
	require.Equal(t, []map[string]string{
		{"start_key": "", "end_key": at(2500)}, {"start_key": at(2700), "end_key": at(5000)},
	}, during.Data)
}

// TestPauseEnds: after imports that succeed and imports that fail.
func TestPauseEnds(t *testing.T) {
	f := start(t, large)
	ctx, cancel := context.WithCancel(t.Context())
	f.setFault(func(c call) *fault {
		if c.kind == callIngest {
			f.mu.Lock()
			require.Len(t, f.rules, 1)
			f.mu.Unlock()
			cancel()
			return &fault{hang: true}
		}
		return nil
	})
	require.ErrorIs(t, f.im.Import(ctx, []kv.ImportUnit{f.unit(0, 2000, 100)}), context.Canceled)
	require.Empty(t, f.rules)
}

// TestPauseIsRenewed: PD forgets a rule that is not renewed.
func TestPauseIsRenewed(t *testing.T) {
	f := start(t, large)
	synctest.Test(t, func(t *testing.T) {
		release := f.im.pauseScheduling(t.Context(), []kv.KeyRange{{Start: []byte("a"), End: []byte("b")}})
		require.Equal(t, 1, f.labelsSet())
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.InDelta(t, 16, f.labelsSet(), 1, "three times in its life")
		release()
		require.Empty(t, f.rules)
		time.Sleep(10 * time.Minute)
		require.Empty(t, f.rules)
	})
}

// TestWithoutLabels: PD's HTTP API is not there.
func TestWithoutLabels(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	f := start(t, func(o *Options) { large(o); o.Logger = zap.New(core) })
	f.labelErr = errors.New("connection refused")
	for range 3 {
		require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 2000, 100)}))
	}
	f.requireDone()
	require.Equal(t, 1, logs.FilterMessageSnippet("PD may move regions").Len(), "it is said once")
	require.Equal(t, 1, logs.Len())
}

// TestSmallPairsCountForMore: TiKV splits a region that has many keys, however small.
func TestSmallPairsCountForMore(t *testing.T) {
	f := start(t, func(o *Options) { o.SplitBytes = 2 << 20 })
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 60_000, 1)}))
	f.requireDone()
	require.InDelta(t, 3, len(f.splits), 1, "60,000 pairs, of which a region takes 20,000")
}

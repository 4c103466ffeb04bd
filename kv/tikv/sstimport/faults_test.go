package sstimport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"
	pdhttp "github.com/tikv/pd/client/http"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fastddl/kv"
)

var unavailable = status.Error(codes.Unavailable, "the connection was broken by a test")

// TestErrorsAreRetried: after any single error all pairs are imported, once every
// peer has them, and no more is done again than needs to be.
func TestErrorsAreRetried(t *testing.T) {
	region := func(e *errorpb.Error) *fault { return &fault{region: e} }
	const files = 3 // one for each peer
	for name, c := range map[string]struct {
		kind callKind
		nth  int
		fault
		writes, ingests, scans int // how many requests there are in all, at most for writes
	}{
		"no error": {writes: files, ingests: 1, scans: 2},

		"PD is away at first":      {callScan, 1, fault{err: unavailable}, files, 1, 3},
		"PD is away":               {callScan, 2, fault{err: unavailable}, files, 1, 3},
		"disconnect at the start":  {callWrite, 1, fault{err: unavailable}, 2 * files, 1, 3},
		"disconnect in the middle": {callBatch, 2, fault{err: unavailable}, 2 * files, 1, 3},
		"disconnect at the end":    {callClose, 3, fault{err: unavailable}, 2 * files, 1, 3},
		"answer of a file is lost": {callClose, 1, fault{err: unavailable, late: true}, 2 * files, 1, 3},
		"second peer is lost":      {callWrite, 2, fault{err: unavailable}, 2 * files, 1, 3},
		"file is too old":          {callWrite, 1, fault{text: "RequestTooOld"}, 2 * files, 1, 3},
		"peer lags behind":         {callWrite, 2, fault{text: "RequestTooNew"}, 2 * files, 1, 2},
		"store has no memory":      {callWrite, 2, *region(&errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{}}), 2 * files, 1, 2},

		"follower is stalled":      {callProbe, 2, *region(&errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{}}), files, 1, 2},
		"probe is lost":            {callProbe, 2, fault{err: unavailable}, files, 1, 2},
		"busy":                     {callIngest, 1, *region(&errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{}}), files, 2, 2},
		"suspended":                {callIngest, 1, *region(&errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{BackoffMs: 5}}), files, 2, 2},
		"not the leader":           {callIngest, 1, *region(&errorpb.Error{NotLeader: &errorpb.NotLeader{}}), 2 * files, 2, 3},
		"epoch":                    {callIngest, 1, *region(&errorpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}}), 2 * files, 2, 3},
		"region not found":         {callIngest, 1, *region(&errorpb.Error{RegionNotFound: &errorpb.RegionNotFound{}}), 2 * files, 2, 3},
		"key not in region":        {callIngest, 1, *region(&errorpb.Error{KeyNotInRegion: &errorpb.KeyNotInRegion{}}), 2 * files, 2, 3},
		"stale command":            {callIngest, 1, *region(&errorpb.Error{StaleCommand: &errorpb.StaleCommand{}}), 2 * files, 2, 2},
		"merging":                  {callIngest, 1, *region(&errorpb.Error{ProposalInMergingMode: &errorpb.ProposalInMergingMode{}}), files, 2, 2},
		"some text":                {callIngest, 1, *region(&errorpb.Error{Message: "raft: proposal dropped"}), 2 * files, 2, 3},
		"disconnect of an import":  {callIngest, 1, fault{err: unavailable}, files, 2, 2},
		"answer of an import lost": {callIngest, 1, fault{err: unavailable, late: true}, 2 * files, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, nil)
			f.setFault(func(c2 call) *fault {
				if c2.kind == c.kind && c2.nth == c.nth {
					return &c.fault
				}
				return nil
			})
			u := f.unit(0, 3000, 100)
			require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{u}))
			f.requireDone()
			require.Equal(t, c.ingests, f.count(callIngest), "imports")
			require.Equal(t, c.scans, f.count(callScan), "look-ups")
			// A file that is broken off may have been announced to some peers only.
			require.LessOrEqual(t, f.count(callWrite), c.writes, "files")
			require.Greater(t, f.count(callWrite), c.writes-files, "files")
			require.False(t, f.im.Busy())
		})
	}
}

// TestFinalErrors: these are not tried again, and what is imported is still to be had.
func TestFinalErrors(t *testing.T) {
	for name, c := range map[string]struct {
		kind callKind
		fault
		want error
	}{
		"disk full":              {callIngest, fault{region: &errorpb.Error{DiskFull: &errorpb.DiskFull{}}}, kv.ErrDiskFull},
		"disk full in a write":   {callClose, fault{region: &errorpb.Error{DiskFull: &errorpb.DiskFull{}}}, kv.ErrDiskFull},
		"flashback":              {callIngest, fault{region: &errorpb.Error{Message: "flashback", FlashbackInProgress: &errorpb.FlashbackInProgress{}}}, nil},
		"not a store of imports": {callIngest, fault{err: status.Error(codes.Unimplemented, "unknown service")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, nil)
			f.setFault(func(c2 call) *fault {
				if c2.kind == c.kind {
					return &c.fault
				}
				return nil
			})
			u := f.unit(0, 10, 10)
			err := f.im.Import(t.Context(), []kv.ImportUnit{u})
			require.Error(t, err)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
			require.LessOrEqual(t, f.count(callIngest), 1)
			require.LessOrEqual(t, f.count(callWrite), 3)
			require.Equal(t, 1, f.files())
			f.setFault(nil)
			require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{u}))
			f.requireDone()
		})
	}
}

// rooms answers for PD's HTTP API how much room stores have.
type rooms struct {
	mu    sync.Mutex
	info  map[uint64]pdhttp.StoreInfo
	err   error
	asked int
}

func (r *rooms) GetStore(_ context.Context, id uint64) (*pdhttp.StoreInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	info := r.info[id]
	return &info, r.err
}

func (r *rooms) set(id uint64, version, available string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.info[id] = pdhttp.StoreInfo{
		Store: pdhttp.MetaStore{Version: version}, Status: pdhttp.StoreStatus{Capacity: "1TiB", Available: available},
	}
}

// TestRoom: TiKV before 8.0 takes files until its disk is full, so nothing is sent to a region
// with such a store that has little room.
func TestRoom(t *testing.T) {
	r := &rooms{info: make(map[uint64]pdhttp.StoreInfo)}
	var seconds atomic.Int64
	f := start(t, func(o *Options) { o.Rooms = r })
	f.im.stores.now = func() time.Time { return time.Unix(seconds.Load(), 0) }
	from := 0
	imports := func() error {
		t.Helper()
		from += 10
		return f.im.Import(t.Context(), []kv.ImportUnit{f.unit(from, from+10, 10)})
	}
	for id := range uint64(2) {
		r.set(1+id, "v7.5.7", "103GiB")
	}
	require.NoError(t, imports(), "nothing is known of one store")
	require.NoError(t, imports())
	require.Equal(t, 3, r.asked, "an answer holds for a while")

	seconds.Add(10)
	r.set(3, "7.5.7", "102GiB")
	writes := f.count(callWrite)
	err := imports()
	require.ErrorIs(t, err, kv.ErrDiskFull)
	require.ErrorContains(t, err, "store 3")
	require.ErrorContains(t, err, "102GiB of 1TiB")
	require.Equal(t, writes, f.count(callWrite), "nothing was sent")
	require.Equal(t, 6, r.asked)

	seconds.Add(10)
	r.set(3, "8.0.0", "1GiB")
	require.NoError(t, imports(), "it looks itself")
	seconds.Add(10)
	asked := r.asked
	require.NoError(t, imports())
	require.Equal(t, asked+2, r.asked, "it is not asked for any more")

	seconds.Add(10)
	r.err = unavailable
	require.NoError(t, imports(), "PD does not say")
}

func TestImportGivesUp(t *testing.T) {
	t.Run("after many attempts", func(t *testing.T) {
		f := start(t, func(o *Options) { o.MaxAttempts = 4 })
		f.setFault(func(c call) *fault {
			switch {
			case c.kind != callIngest:
				return nil
			case c.nth == 1:
				return &fault{region: &errorpb.Error{Message: "the real cause", StaleCommand: &errorpb.StaleCommand{}}}
			}
			return &fault{region: &errorpb.Error{Message: "not leader", NotLeader: &errorpb.NotLeader{}}}
		})
		u := f.unit(0, 10, 10)
		err := f.im.Import(t.Context(), []kv.ImportUnit{u})
		require.ErrorContains(t, err, "the real cause")
		require.ErrorContains(t, err, "not leader")
		require.Equal(t, 4, f.count(callIngest))
		require.NoError(t, u.Discard())
		require.Zero(t, f.files())
		require.Empty(t, f.data)
	})
	t.Run("after a while", func(t *testing.T) {
		f := start(t, func(o *Options) { o.GiveUpAfter, o.MaxAttempts = 20*time.Millisecond, 1 })
		f.setFault(func(c call) *fault {
			if c.kind == callIngest {
				return &fault{region: &errorpb.Error{Message: "too many files", ServerIsBusy: &errorpb.ServerIsBusy{}}}
			}
			return nil
		})
		err := f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 10, 10)})
		require.ErrorContains(t, err, "too many files")
		require.Greater(t, f.count(callIngest), 1, "a busy store is not an attempt")
		require.Equal(t, 3, f.count(callWrite), "what was written is used")
	})
	t.Run("but not for the time that files take", func(t *testing.T) {
		f := start(t, nil)
		var hours atomic.Int64
		f.im.stores.now = func() time.Time { return time.Unix(0, 0).Add(time.Duration(hours.Load()) * time.Hour) }
		f.setFault(func(c call) *fault {
			// One store's only: those of others may be answered when the attempt has ended.
			if c.kind == callClose && c.store == 1 && hours.Load() < 10 {
				hours.Add(1)
				return &fault{err: unavailable}
			}
			return nil
		})
		require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 10, 10)}))
		f.requireDone()
	})
	t.Run("nor while others send", func(t *testing.T) {
		f := start(t, nil)
		u := f.unit(0, 10, 10)
		synctest.Test(t, func(t *testing.T) {
			lost := errors.New("it may send now")
			f.im.opts.Lease = func(context.Context) error { return lost }
			src, err := openSource(t.Context(), []*unit{u.(*unit)})
			require.NoError(t, err)
			defer func() { require.NoError(t, src.close()) }()
			_, others, err := acquire(t.Context(), f.im.stores.of(f.regions[0].Meta.Peers[:1]), defaultStoreStreams)
			require.NoError(t, err)

			j := &job{im: f.im, src: src, left: u.Range(), most: 1}
			_, err = j.budget.failed(time.Now(), decision{next: writeAgain, err: unavailable}, f.im.limits())
			require.NoError(t, err)
			ended := make(chan error)
			go func() {
				_, err := j.step(t.Context())
				ended <- err
			}()
			synctest.Wait()
			time.Sleep(time.Hour)
			others()
			require.ErrorIs(t, <-ended, lost)
			_, err = j.budget.failed(time.Now(), decision{next: writeAgain, err: unavailable}, f.im.limits())
			require.NoError(t, err)
		})
	})
	t.Run("when it is cancelled", func(t *testing.T) {
		f := start(t, func(o *Options) { o.Backoff = func(int) time.Duration { return time.Hour } })
		ctx, cancel := context.WithCancel(t.Context())
		f.setFault(func(c call) *fault {
			if c.kind == callIngest {
				return &fault{region: &errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{}}, before: cancel}
			}
			return nil
		})
		require.ErrorIs(t, f.im.Import(ctx, []kv.ImportUnit{f.unit(0, 10, 10)}), context.Canceled)
		require.Equal(t, 1, f.files())
	})
}

// TestFollowersAreAskedSideBySide: before the leader is requested to ingest files. It is not
// asked: it checks its own load.
func TestFollowersAreAskedSideBySide(t *testing.T) {
	f := start(t, nil)
	arrived, both := make(chan uint64, 3), make(chan struct{})
	var n atomic.Int32
	f.setFault(func(c call) *fault {
		if c.kind != callProbe {
			return nil
		}
		return &fault{before: func() {
			arrived <- c.store
			if n.Add(1) == 2 {
				close(both)
			}
			select {
			case <-both:
			case <-time.After(time.Minute):
				f.t.Error("the other follower is not asked meanwhile")
			}
		}}
	})
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 10, 10)}))
	f.requireDone()
	require.ElementsMatch(t, []uint64{2, 3}, []uint64{<-arrived, <-arrived})
	require.Equal(t, 2, f.count(callProbe))
}

// TestImportsBackOffFromBusyStore: the imports into other regions do, too.
func TestImportsBackOffFromBusyStore(t *testing.T) {
	f := start(t, func(o *Options) { o.Backoff = func(int) time.Duration { return time.Hour } })
	f.split(key(5))
	ctx, cancel := context.WithCancel(t.Context())
	busy := make(chan struct{})
	f.setFault(func(c call) *fault {
		if c.kind == callProbe && c.store == 2 && c.nth <= 3 {
			close(busy)
			return &fault{region: &errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{}}}
		}
		return nil
	})
	ended := make(chan error)
	u := f.unit(0, 5, 10)
	go func() { ended <- f.im.Import(ctx, []kv.ImportUnit{u}) }()
	<-busy
	require.Eventually(t, f.im.Busy, time.Minute, time.Millisecond)
	before := f.count(callWrite)
	short, cancelShort := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelShort()
	require.ErrorIs(t, f.im.Import(short, []kv.ImportUnit{f.unit(5, 10, 10)}), context.DeadlineExceeded)
	require.Equal(t, before, f.count(callWrite))
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// TestStalledStore: a store that takes a connection and then does nothing is given up.
func TestStalledStore(t *testing.T) {
	for _, kind := range []callKind{callWrite, callBatch, callClose, callProbe, callIngest} {
		t.Run(string(kind), func(t *testing.T) {
			f := start(t, func(o *Options) { o.CallTimeout, o.MaxAttempts = 100*time.Millisecond, 1000 })
			f.setFault(func(c call) *fault {
				if c.kind == kind && c.nth == 1 {
					return &fault{hang: true}
				}
				return nil
			})
			require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 3000, 100)}))
			f.requireDone()
		})
	}
}

// TestStoreMoves: a store that is started again elsewhere, without the files that it had.
func TestStoreMoves(t *testing.T) {
	f := start(t, nil)
	moved := false
	f.setFault(func(c call) *fault {
		if c.kind == callIngest && !moved {
			moved = true
			return &fault{err: unavailable, before: func() {
				old := f.stores[1].server
				f.cluster.start(1)
				go old.Stop() // it waits for this request
			}}
		}
		return nil
	})
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 100, 100)}))
	require.True(t, moved)
	f.requireDone()
}

// TestStoreThatDoesNotAnswer: it is connected to anew though its address is what it was, and not
// all the time.
func TestStoreThatDoesNotAnswer(t *testing.T) {
	opts := Options{PD: newCluster(t)}
	opts.EnsureDefaults()
	s := newStores(&opts)
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	st := s.of([]*metapb.Peer{{StoreId: 1}})[0]
	defer func() { require.NoError(t, s.close()) }()
	// drops says whether the connection is dropped after an error.
	drops := func(why error) bool {
		t.Helper()
		_, err := s.client(t.Context(), st)
		require.NoError(t, err)
		require.NoError(t, s.recheck(t.Context(), st, &storeError{st, &metapb.Region{}, why}))
		return st.conn == nil
	}
	require.False(t, drops(unavailable))
	require.True(t, drops(fmt.Errorf("%w: %w", errStalled, io.EOF)))
	require.False(t, drops(errStalled), "it was dropped just now")
	now = now.Add(dropInterval - 1)
	require.False(t, drops(errStalled))
	now = now.Add(1)
	require.True(t, drops(status.Error(codes.DeadlineExceeded, "too late")))
}

// TestLeaseIsAsked: before each request that changes something, and never before the
// region is looked up.
func TestLeaseIsAsked(t *testing.T) {
	f := start(t, nil)
	f.setFault(func(c call) *fault {
		if c.kind == callIngest && c.nth <= 2 {
			return &fault{region: []*errorpb.Error{{ServerIsBusy: &errorpb.ServerIsBusy{}}, {EpochNotMatch: &errorpb.EpochNotMatch{}}}[c.nth-1]}
		}
		return nil
	})
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 10, 10)}))
	f.requireDone()
	var kinds []callKind
	for _, c := range f.calls[1:] { // after the planning
		if c.kind == callBatch || c.kind == callClose {
			c.kind = callWrite
		}
		if len(kinds) == 0 || kinds[len(kinds)-1] != c.kind {
			kinds = append(kinds, c.kind)
		}
	}
	require.Equal(t, []callKind{
		callScan, callLease, callWrite, callProbe, callLease, callIngest,
		callProbe, callLease, callIngest,
		callScan, callLease, callWrite, callProbe, callLease, callIngest,
	}, kinds)
}

func TestLostLeaseEndsTheImport(t *testing.T) {
	lost := errors.New("somebody else owns the job")
	for asked := range 2 {
		n := 0
		f := start(t, func(o *Options) {
			o.Lease = func(context.Context) error {
				if n++; n > asked {
					return lost
				}
				return nil
			}
		})
		require.ErrorIs(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 10, 10)}), lost)
		require.Zero(t, f.count(callIngest))
		require.Equal(t, asked*3, f.count(callWrite))
		require.Empty(t, f.data)
	}
}

// TestPermitIsTheLease: without a lease of its own an importer obeys that of the context.
func TestPermitIsTheLease(t *testing.T) {
	f := start(t, func(o *Options) { o.Lease = nil })
	lost := errors.New("lost")
	ctx := kv.WithPermit(t.Context(), func() error { return lost })
	u := f.unit(0, 10, 10)
	require.ErrorIs(t, f.im.Import(ctx, []kv.ImportUnit{u}), lost)
	require.Zero(t, f.count(callWrite))
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{u}))
}

// TestFence: a node sleeps between asking for its lease and sending a request. Meanwhile
// the job is taken over, and the epochs of its regions are changed. All requests that the
// node sends then are refused, and it asks for its lease before it sends anything again.
func TestFence(t *testing.T) {
	lost := errors.New("somebody else owns the job")
	for sleeps := 1; sleeps <= 3; sleeps++ {
		var f *fixture
		asked := 0
		f = start(t, func(o *Options) {
			o.Lease = func(context.Context) error {
				asked++
				if asked > sleeps {
					return lost
				}
				if asked == sleeps {
					f.split(key(5)) // after the answer, before the request
				}
				return nil
			}
		})
		f.split(key(20))
		err := f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 10, 10)})
		if sleeps < 3 {
			require.ErrorIs(t, err, lost)
			require.Empty(t, f.data, "after %d questions", sleeps)
			require.Equal(t, sleeps+1, asked)
			continue
		}
		require.NoError(t, err, "two questions are enough when nothing is in the way")
	}
}

func TestDamagedFile(t *testing.T) {
	f := start(t, nil)
	u := f.unit(0, 3000, 100)
	path := u.(*unit).path
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)/3]++
	require.NoError(t, os.WriteFile(path, data, 0o600))
	err = f.im.Import(t.Context(), []kv.ImportUnit{u})
	require.ErrorContains(t, err, path)
	require.LessOrEqual(t, f.count(callWrite), 3, "it is not tried again")
	require.Empty(t, f.data)

	require.NoError(t, os.Remove(path))
	require.ErrorIs(t, f.im.Import(t.Context(), []kv.ImportUnit{u}), os.ErrNotExist)
}

func TestPanicIsAnError(t *testing.T) {
	f := start(t, func(o *Options) { o.Lease = func(context.Context) error { panic("in the lease") } })
	err := f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 10, 10)})
	require.ErrorContains(t, err, "panic: in the lease")
	require.Equal(t, 1, f.files())
}

// TestBusyBetweenValuesAndEntries: what was taken is not given to the leader again, nor sent anew,
// however long the rest has to wait.
func TestBusyBetweenValuesAndEntries(t *testing.T) {
	f := start(t, func(o *Options) { o.MaxAttempts = 3 })
	f.setFault(func(c call) *fault {
		if c.kind == callIngest && 2 <= c.nth && c.nth <= 10 {
			return &fault{region: &errorpb.Error{Message: "too many files", ServerIsBusy: &errorpb.ServerIsBusy{}}}
		}
		return nil
	})
	require.NoError(t, f.im.Import(t.Context(), []kv.ImportUnit{f.unit(0, 100, shortBytes+1)}))
	f.requireDone()
	require.Equal(t, 3, f.count(callWrite), "one stream to each store")
	require.Equal(t, 11, f.count(callIngest), "the values, and the entries until they are taken")
}

// Values that are in a file of their own are there before the entries that they belong to.
func TestLongValuesComeFirst(t *testing.T) {
	file := func(family string) *import_sstpb.SSTMeta { return &import_sstpb.SSTMeta{CfName: family} }
	for _, c := range []struct{ families, first, second string }{
		{"write", "write", ""}, {"default", "default", ""}, {"write default", "default", "write"}, {"default write", "default", "write"},
	} {
		var files []*import_sstpb.SSTMeta
		for _, family := range strings.Fields(c.families) {
			files = append(files, file(family))
		}
		var got []string
		for _, some := range inOrder(files) {
			require.Len(t, some, 1)
			got = append(got, some[0].CfName)
		}
		require.Equal(t, strings.Fields(c.first+" "+c.second), got)
	}
}

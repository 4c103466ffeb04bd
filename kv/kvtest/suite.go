package kvtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// Harness makes the stores under test.
type Harness struct {
	// Open opens a store. The suite closes it.
	Open func(t *testing.T) kv.Store
	// Reopen closes a store and opens it again. Tests of what survives that are
	// skipped if it is nil.
	Reopen func(t *testing.T, s kv.Store) kv.Store
	// Commit writes pairs as one commit; an empty value is a deletion. Nil is Start, and
	// finishing what it has started.
	Commit func(ctx context.Context, s kv.Store, pairs map[string]string) (ts uint64, err error)
	// Start begins a commit. It has its timestamp and is in flight until finish has made
	// it durable.
	Start func(ctx context.Context, s kv.Store, pairs map[string]string) (ts uint64, finish func() error, err error)
	// TempDir returns an existing folder for import files; nil is
	// testing.T.TempDir.
	TempDir func(t *testing.T) string
	// Lacks says what the driver does not do, and why. Tests of that are skipped with the
	// reason.
	Lacks map[Capability]string
}

// Capability is something that not every driver does.
type Capability string

const (
	// EntryVersions is kv.VersionedIterator.
	EntryVersions Capability = "iterators return versions"
	// FixedCommits is that a commit in flight keeps its timestamp, so that readers above
	// it wait.
	FixedCommits Capability = "commits in flight keep their timestamp"
	// OwnsData is that closing the store closes the data to all readers.
	OwnsData Capability = "the store owns the data"
	// RangeSizes is that Ranges knows sizes.
	RangeSizes Capability = "ranges have sizes"
)

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	if h.TempDir == nil {
		h.TempDir = func(t *testing.T) string { return t.TempDir() }
	}
	tests := []struct {
		name string
		run  func(*env)
	}{
		{"Iter/Bounds", testIterBounds},
		{"Iter/ManyVersions", testIterManyVersions},
		{"Iter/TS", testIterTS},
		{"Iter/Model", testIterModel},
		{"Snapshot/Fixed", testSnapshotFixed},
		{"Snapshot/Future", testSnapshotFuture},
		{"Snapshot/WaitsForCommits", testSnapshotWaits},
		{"Snapshot/NeverChanges", testSnapshotNeverChanges},
		{"Snapshot/AcknowledgedIsVisible", testAcknowledgedIsVisible},
		{"Timestamps/Increase", testTimestampsIncrease},
		{"Timestamps/Reopen", testTimestampsReopen},
		{"Durable/Reopen", testReopen},
		{"History/Model", testHistory},
		{"Import/VisibleAtVersion", testImportVisible},
		{"Import/Shadowed", testImportShadowed},
		{"Import/Idempotent", testImportIdempotent},
		{"Import/ManyUnits", testImportManyUnits},
		{"Import/BadUse", testImportBadUse},
		{"Import/Concurrent", testImportConcurrent},
		{"DeleteRange/AllVersions", testDeleteRange},
		{"DeleteRange/InPieces", testDeleteRangeInPieces},
		{"Ranges/Cover", testRangesCover},
		{"Holds/Lifecycle", testHoldLifecycle},
		{"Holds/Expire", testHoldExpires},
		{"Holds/Reopen", testHoldReopen},
		{"Scan/IntHandle", testScanIntHandle},
		{"Scan/CommonHandle", testScanCommonHandle},
		{"Scan/ShortHandle", testScanShortHandle},
		{"Scan/Versions", testScanVersions},
		{"Scan/Batches", testScanBatches},
		{"Scan/LongRows", testScanLongRows},
		{"Scan/Stops", testScanStops},
		{"Scan/OldRowFormat", testScanOldRows},
		{"Load/Signals", testLoadSignals},
		{"Close/Operations", testClosed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := h.Open(t)
			e := &env{T: t, h: h, store: s, prefix: fmt.Sprintf("kvtest/%d-%d/", time.Now().UnixNano(), spaces.Add(1))}
			t.Cleanup(func() { require.NoError(t, e.store.Close()) })
			test.run(e)
		})
	}
}

var spaces atomic.Int64

// env is what a test runs in: a store, and a part of the key space.
type env struct {
	*testing.T
	h      Harness
	store  kv.Store
	prefix string
}

func (e *env) ctx() context.Context { return e.Context() }

// has reports whether the driver does c, and logs why not.
func (e *env) has(c Capability) bool {
	why, lacks := e.h.Lacks[c]
	if lacks {
		e.Logf("not tested: %s: %s", c, why)
	}
	return !lacks
}

// needs skips the test if the driver does not do c.
func (e *env) needs(c Capability) {
	e.Helper()
	if !e.has(c) {
		e.SkipNow()
	}
}

// key is a key in the test's own space.
func (e *env) key(format string, args ...any) []byte {
	return []byte(e.prefix + fmt.Sprintf(format, args...))
}

// space is the range of all the test's keys.
func (e *env) space() kv.KeyRange { return kv.PrefixRange([]byte(e.prefix)) }

func (e *env) now() uint64 {
	e.Helper()
	ts, err := e.store.CurrentTS(e.ctx())
	require.NoError(e, err)
	return ts
}

func (e *env) snapshot(ts uint64) kv.Snapshot {
	e.Helper()
	s, err := e.store.Snapshot(e.ctx(), ts)
	require.NoError(e, err)
	e.Cleanup(func() { _ = s.Close() })
	return s
}

// commit writes pairs under the test's keys and returns the commit timestamp.
func (e *env) commit(ctx context.Context, pairs map[string]string) (uint64, error) {
	return e.commitKeys(ctx, e.ownKeys(pairs))
}

// start is commit up to where the commit is in flight.
func (e *env) start(ctx context.Context, pairs map[string]string) (ts uint64, finish func() error, err error) {
	return e.h.Start(ctx, e.store, e.ownKeys(pairs))
}

func (e *env) ownKeys(pairs map[string]string) map[string]string {
	all := make(map[string]string, len(pairs))
	for k, v := range pairs {
		all[e.prefix+k] = v
	}
	return all
}

// commitKeys is commit with keys as they are.
func (e *env) commitKeys(ctx context.Context, pairs map[string]string) (uint64, error) {
	if e.h.Commit != nil {
		return e.h.Commit(ctx, e.store, pairs)
	}
	ts, finish, err := e.h.Start(ctx, e.store, pairs)
	if err != nil {
		return 0, err
	}
	return ts, finish()
}

// put is commit that must succeed.
func (e *env) put(pairs map[string]string) uint64 {
	e.Helper()
	ts, err := e.commit(e.ctx(), pairs)
	require.NoError(e, err)
	return ts
}

// putKeys commits pairs of keys as they are.
func (e *env) putKeys(pairs map[string]string) uint64 {
	e.Helper()
	ts, err := e.commitKeys(e.ctx(), pairs)
	require.NoError(e, err)
	return ts
}

// get returns the value of a key, "" if there is none.
func (e *env) get(r kv.Retriever, key string) string {
	e.Helper()
	v, err := r.Get(e.ctx(), e.key("%s", key))
	if errors.Is(err, kv.ErrNotExist) {
		return ""
	}
	require.NoError(e, err)
	require.NotEmpty(e, v)
	return string(v)
}

// pair is a key without the test's prefix, and its value.
type pair struct{ key, value string }

// list reads a range in either direction.
func (e *env) list(r kv.Retriever, rg kv.KeyRange, reverse bool) []pair {
	e.Helper()
	open := r.Iter
	if reverse {
		open = r.IterReverse
	}
	it, err := open(rg)
	require.NoError(e, err)
	var out []pair
	for it.Valid() {
		out = append(out, pair{string(it.Key()[len(e.prefix):]), string(it.Value())})
		require.NoError(e, it.Next())
	}
	require.NoError(e, it.Close())
	return out
}

// seeded returns a random source whose seed is printed.
func (e *env) seeded() *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	e.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

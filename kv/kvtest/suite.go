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
	// Commit writes pairs as one commit; an empty value is a deletion. The commit has
	// its timestamp and is in flight until finish has made it durable.
	Commit func(ctx context.Context, s kv.Store, pairs map[string]string) (ts uint64, finish func() error, err error)
	// TempDir returns an existing folder for import files; nil is
	// testing.T.TempDir.
	TempDir func(t *testing.T) string
}

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
		{"Scan/Versions", testScanVersions},
		{"Scan/Batches", testScanBatches},
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
	ts, finish, err := e.start(ctx, pairs)
	if err != nil {
		return 0, err
	}
	return ts, finish()
}

// start is commit up to where the commit is in flight.
func (e *env) start(ctx context.Context, pairs map[string]string) (ts uint64, finish func() error, err error) {
	all := make(map[string]string, len(pairs))
	for k, v := range pairs {
		all[e.prefix+k] = v
	}
	return e.h.Commit(ctx, e.store, all)
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
	ts, finish, err := e.h.Commit(e.ctx(), e.store, pairs)
	require.NoError(e, err)
	require.NoError(e, finish())
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

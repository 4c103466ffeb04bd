package pebblekv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

// gcStore is a store whose versions have no life time, so that each run
// collects all that nothing holds.
func gcStore(t *testing.T) *Store {
	return open(t, "db", Options{
		FS:            vfs.NewMem(),
		GCLifeTime:    func() time.Duration { return -time.Hour },
		GCRunInterval: func() time.Duration { return 0 },
	})
}

func runGC(t *testing.T, s *Store) uint64 {
	t.Helper()
	require.NoError(t, s.RunGC(t.Context()))
	sp, err := s.GCSafePoint(t.Context())
	require.NoError(t, err)
	return sp
}

func TestGCDeletesWhatIsShadowed(t *testing.T) {
	s := gcStore(t)
	put(t, s, "a", "1", "b", "1", "c", "1")
	a2 := put(t, s, "a", "2", "b", "")
	snap, err := s.Snapshot(t.Context(), a2)
	require.NoError(t, err)
	c1 := put(t, s, "b", "3")
	c2 := put(t, s, "b", "", "d", "")

	require.Equal(t, a2, runGC(t, s), "an open snapshot holds the safe point")
	versions := rawVersions(t, s)
	require.Len(t, versions, 5)
	require.Equal(t, []version{{"a", a2, "2"}, {"b", c2, ""}, {"b", c1, "3"}}, versions[:3])
	require.Equal(t, "c", versions[3].key)
	require.Equal(t, version{"d", c2, ""}, versions[4], "a tombstone above the safe point")

	require.NoError(t, snap.Close())
	sp := runGC(t, s)
	require.Greater(t, sp, a2)
	versions = rawVersions(t, s)
	require.Len(t, versions, 2)
	require.Equal(t, version{"a", a2, "2"}, versions[0])

	_, err = s.Snapshot(t.Context(), a2)
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
	_, err = s.HoldGC(t.Context(), "h", a2, time.Minute)
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
	require.ErrorIs(t, s.ScanColumns(t.Context(), kv.ScanRequest{TS: a2}, nil), kv.ErrSnapshotTooOld)
}

func TestGCHoldsAndTransactions(t *testing.T) {
	s := gcStore(t)
	first := put(t, s, "a", "1")
	hold, err := s.HoldGC(t.Context(), "job", first, time.Minute)
	require.NoError(t, err)
	put(t, s, "a", "2")
	require.Equal(t, first, runGC(t, s))
	require.Len(t, rawVersions(t, s), 2)

	snap := snapshotNow(t, s)
	put(t, s, "a", "3")
	require.NoError(t, hold.Release(t.Context()))
	require.Equal(t, snap.TS(), runGC(t, s))
	require.Len(t, rawVersions(t, s), 2)
	require.NoError(t, snap.Close())
	runGC(t, s)
	require.Len(t, rawVersions(t, s), 1)
	require.ErrorIs(t, hold.Renew(t.Context(), time.Minute), kv.ErrSnapshotTooOld)
}

// TestGCExpiredHold lets a hold's time run out.
func TestGCExpiredHold(t *testing.T) {
	s := gcStore(t)
	now := time.Now()
	s.holds.now = func() time.Time { return now }
	first := put(t, s, "a", "1")
	_, err := s.HoldGC(t.Context(), "job", first, time.Minute)
	require.NoError(t, err)
	put(t, s, "a", "2")
	now = now.Add(59 * time.Second)
	require.Equal(t, first, runGC(t, s))
	now = now.Add(2 * time.Second)
	require.Greater(t, runGC(t, s), first)
	require.Empty(t, s.holds.byName)
	record, err := s.record(recordHolds + "job")
	require.NoError(t, err)
	require.Nil(t, record)
}

// TestGCHoldRenewedLate renews a hold after its time has run out: that is an error only if
// garbage collection has passed it meanwhile, and then kv.ErrSnapshotTooOld.
func TestGCHoldRenewedLate(t *testing.T) {
	s := gcStore(t)
	now := time.Now()
	s.holds.now = func() time.Time { return now }
	first := put(t, s, "a", "1")
	other, err := s.HoldGC(t.Context(), "other", first, time.Hour)
	require.NoError(t, err)
	second := put(t, s, "a", "2")
	hold, err := s.HoldGC(t.Context(), "job", second, time.Minute)
	require.NoError(t, err)
	put(t, s, "a", "3")

	now = now.Add(2 * time.Minute)
	require.NoError(t, hold.Renew(t.Context(), time.Minute), "nothing was collected")
	now = now.Add(2 * time.Minute)
	require.Equal(t, first, runGC(t, s), "the other hold has kept it")
	require.NotContains(t, s.holds.byName, "job", "the hold has lapsed")
	require.NoError(t, hold.Renew(t.Context(), time.Minute), "it is as good as before")
	require.NoError(t, other.Release(t.Context()))
	require.Equal(t, second, runGC(t, s))

	now = now.Add(2 * time.Minute)
	require.Greater(t, runGC(t, s), second)
	require.ErrorIs(t, hold.Renew(t.Context(), time.Minute), kv.ErrSnapshotTooOld)
	holds, err := s.GCHolds(t.Context())
	require.NoError(t, err)
	require.Empty(t, holds, "a hold that failed to be renewed does not hold")
	require.NoError(t, hold.Release(t.Context()))
}

func TestGCLifeTime(t *testing.T) {
	life := time.Hour
	s := open(t, "db", Options{FS: vfs.NewMem(), GCLifeTime: func() time.Duration { return life }})
	put(t, s, "a", "1")
	put(t, s, "a", "2")
	runGC(t, s)
	require.Len(t, rawVersions(t, s), 2)
	life = time.Nanosecond
	time.Sleep(2 * time.Millisecond)
	runGC(t, s)
	require.Len(t, rawVersions(t, s), 1)
}

func TestGCRunsByItself(t *testing.T) {
	s := open(t, "db", Options{
		FS:            vfs.NewMem(),
		GCLifeTime:    func() time.Duration { return -time.Hour },
		GCRunInterval: func() time.Duration { return time.Millisecond },
	})
	put(t, s, "a", "1")
	put(t, s, "a", "2")
	require.Eventually(t, func() bool { return len(rawVersions(t, s)) == 1 }, soon, 5*time.Millisecond)
}

// TestGCImport imports below and at the safe point.
func TestGCImport(t *testing.T) {
	s := gcStore(t)
	put(t, s, "k", "1")
	before, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	early := finishedUnit(t, s, before, "i", "k")
	put(t, s, "k", "")
	runGC(t, s)
	require.Empty(t, rawVersions(t, s))
	// The tombstone that shadows the pair is gone, so that it must not come in.
	require.ErrorIs(t, s.Import(t.Context(), []kv.ImportUnit{early}), kv.ErrSnapshotTooOld)
	require.NoError(t, early.Discard())
	require.Empty(t, rawVersions(t, s))

	// What is imported at the very safe point, after the run that went there,
	// is found by the next one.
	put(t, s, "k", "2")
	_, err = s.CurrentTS(t.Context()) // so that the safe point is no commit's timestamp
	require.NoError(t, err)
	sp := runGC(t, s)
	require.NoError(t, s.Import(t.Context(), []kv.ImportUnit{finishedUnit(t, s, sp, "i", "k")}))
	require.Len(t, rawVersions(t, s), 2)
	put(t, s, "other", "1")
	runGC(t, s)
	versions := rawVersions(t, s)
	require.Len(t, versions, 2)
	require.Equal(t, version{"k", sp, "i"}, versions[0])
}

// TestGCOrder looks at the deletions of one key: the tombstone's is the last,
// so that what it hides does not come back wherever a crash cuts them off.
func TestGCOrder(t *testing.T) {
	s := gcStore(t)
	var want []uint64
	for i := range 5 {
		want = append(want, put(t, s, "k", fmt.Sprint(i)))
	}
	slices.Reverse(want)
	want = append(want, put(t, s, "k", ""))

	g := gcRun{store: s, safePoint: want[5], batch: s.db.NewBatch()}
	it, err := s.db.NewIter(nil)
	require.NoError(t, err)
	require.True(t, it.SeekGE(appendBare(nil, []byte("k"))))
	recent, err := g.collectKey(it)
	require.NoError(t, err)
	require.True(t, recent)
	require.NoError(t, it.Close())
	var got []uint64
	for r := g.batch.Reader(); ; {
		kind, key, _, ok, err := r.Next()
		require.NoError(t, err)
		if !ok {
			break
		}
		require.Equal(t, pebble.InternalKeyKindDelete, kind)
		_, ts, err := splitVersion(key)
		require.NoError(t, err)
		got = append(got, ts)
	}
	require.Equal(t, want, got)
	require.NoError(t, g.flush())
	require.Empty(t, rawVersions(t, s))
}

// gcModel is a random multi-version map beside a store.
type gcModel struct {
	t     *testing.T
	s     *Store
	rnd   *rand.Rand
	keys  int
	at    []uint64            // commit timestamps
	state []map[string]string // what is visible at each of them
}

func (m *gcModel) commit() {
	state := map[string]string{}
	if n := len(m.state); n > 0 {
		for k, v := range m.state[n-1] {
			state[k] = v
		}
	}
	var pairs []string
	for i := range 1 + m.rnd.IntN(m.keys/10+5) {
		k := fmt.Sprintf("%03d", m.rnd.IntN(m.keys))
		v := fmt.Sprintf("%d.%d", len(m.at), i)
		if m.rnd.IntN(3) == 0 {
			v = ""
			delete(state, k)
		} else {
			state[k] = v
		}
		pairs = append(pairs, k, v)
	}
	m.at = append(m.at, put(m.t, m.s, pairs...))
	m.state = append(m.state, state)
}

// check compares all snapshots from the safe point on with the model.
func (m *gcModel) check(safePoint uint64) {
	m.t.Helper()
	for i, ts := range m.at {
		snap, err := m.s.Snapshot(m.t.Context(), ts)
		if ts < safePoint {
			require.ErrorIs(m.t, err, kv.ErrSnapshotTooOld)
			continue
		}
		require.NoError(m.t, err)
		for _, reverse := range []bool{false, true} {
			open := snap.Iter
			if reverse {
				open = snap.IterReverse
			}
			it, err := open(kv.KeyRange{})
			require.NoError(m.t, err)
			got := map[string]string{}
			for it.Valid() {
				got[string(it.Key())] = string(it.Value())
				require.NoError(m.t, it.Next())
			}
			require.NoError(m.t, it.Close())
			require.Equal(m.t, m.state[i], got, "at %d", ts)
		}
		require.NoError(m.t, snap.Close())
	}
}

// checkCollected makes sure that nothing is left that no snapshot at or after
// the safe point can see.
func (m *gcModel) checkCollected(safePoint uint64) {
	m.t.Helper()
	byKey := map[string][]version{}
	for _, v := range rawVersions(m.t, m.s) {
		byKey[v.key] = append(byKey[v.key], v)
	}
	for k, vs := range byKey {
		i := slices.IndexFunc(vs, func(v version) bool { return v.ts <= safePoint })
		if i < 0 {
			continue
		}
		require.Equal(m.t, i, len(vs)-1, "versions of %s older than one at the safe point %d: %v", k, safePoint, vs)
		require.NotEmpty(m.t, vs[i].value, "a tombstone of %s at or below the safe point", k)
	}
}

// TestGCModel collects garbage at random safe points between random commits,
// with flushes and reopens.
func TestGCModel(t *testing.T) {
	for _, keys := range []int{10, 500} {
		t.Run(fmt.Sprintf("%d keys", keys), func(t *testing.T) { runGCModel(t, keys) })
	}
}

func runGCModel(t *testing.T, keys int) {
	seed := randtest.Seed(t)
	m := &gcModel{t: t, s: gcStore(t), rnd: rand.New(rand.NewPCG(seed, 0)), keys: keys}
	for range 60 {
		for range 1 + m.rnd.IntN(5) {
			m.commit()
		}
		switch m.rnd.IntN(6) {
		case 0:
			require.NoError(t, m.s.db.Flush())
		case 1:
			require.NoError(t, m.s.db.Compact(t.Context(), []byte{0}, []byte{0xfe, 0}, false))
		case 2:
			m.s = reopen(t, m.s).(*Store)
		}
		// Hold a random timestamp, at or after the present safe point.
		sp, err := m.s.GCSafePoint(t.Context())
		require.NoError(t, err)
		target := m.at[m.rnd.IntN(len(m.at))]
		if target < sp {
			continue
		}
		hold, err := m.s.HoldGC(t.Context(), "model", target, time.Minute)
		require.NoError(t, err)
		require.Equal(t, target, runGC(t, m.s))
		m.check(target)
		m.checkCollected(target)
		require.NoError(t, hold.Release(t.Context()))
	}
}

// TestGCConcurrent collects all the time while transactions and imports go on.
func TestGCConcurrent(t *testing.T) {
	s := gcStore(t)
	const accounts, total = 8, 800
	var initial []string
	for i := range accounts {
		initial = append(initial, fmt.Sprint(i), fmt.Sprint(total/accounts))
	}
	put(t, s, initial...)
	stop := make(chan struct{})
	collected := make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				collected <- nil
				return
			default:
				if err := s.RunGC(t.Context()); err != nil {
					collected <- err
					return
				}
			}
		}
	}()
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		snap := snapshotNow(t, s)
		balances := map[string]int{}
		sum := 0
		it, err := snap.Iter(kv.KeyRange{})
		require.NoError(t, err)
		for it.Valid() {
			var n int
			_, err := fmt.Sscan(string(it.Value()), &n)
			require.NoError(t, err)
			balances[string(it.Key())] = n
			sum += n
			require.NoError(t, it.Next())
		}
		require.NoError(t, it.Close())
		require.NoError(t, snap.Close())
		require.Equal(t, total, sum)
		from, to := fmt.Sprint(rnd.IntN(accounts)), fmt.Sprint(rnd.IntN(accounts))
		if from != to {
			// An empty account is a deleted key.
			put(t, s, from, "", to, fmt.Sprint(balances[from]+balances[to]))
		}
	}
	close(stop)
	require.NoError(t, <-collected)
	runGC(t, s)
	require.LessOrEqual(t, len(rawVersions(t, s)), accounts)
}

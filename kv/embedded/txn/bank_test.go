package txn

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv/pebblekv"
)

const (
	bankAccounts = 12
	bankBalance  = 1000
	// shortTTL is for transactions that are abandoned: others may roll them back soon.
	shortTTL = 20
)

// bank moves money between accounts in transactions of all kinds. Each leaves a ledger entry that says what it moved, so
// that half a transaction would show as a balance that the ledger does not explain.
type bank struct {
	t      *testing.T
	engine *Engine
	store  *pebblekv.Store
	nextID atomic.Uint64

	mu    sync.Mutex
	acked map[uint64]bool // ledger entries of acknowledged transactions
}

func accountKey(i int) []byte    { return fmt.Appendf(nil, "account/%02d", i) }
func ledgerKey(id uint64) []byte { return fmt.Appendf(nil, "ledger/%08d", id) }

func number(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

func parseNumber(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }

// openBank opens a store and, if it is new, its accounts.
func openBank(t *testing.T, fs vfs.FS) *bank {
	store, err := pebblekv.Open("db", pebblekv.Options{FS: fs, GCRunInterval: func() time.Duration { return 0 }})
	require.NoError(t, err)
	_, err = store.CurrentTS(t.Context())
	require.NoError(t, err)
	engine, err := New(store, Options{MaxLockWait: 50 * time.Millisecond})
	require.NoError(t, err)
	return &bank{t: t, engine: engine, store: store, acked: make(map[uint64]bool)}
}

func (b *bank) ts() uint64 {
	ts, err := b.store.CurrentTS(context.Background())
	if err != nil {
		b.t.Error(err)
	}
	return ts
}

func (b *bank) fill() {
	var muts []*kvrpcpb.Mutation
	for i := range bankAccounts {
		muts = append(muts, &kvrpcpb.Mutation{Op: kvrpcpb.Op_Put, Key: accountKey(i), Value: number(bankBalance)})
	}
	resp, err := b.engine.Prewrite(context.Background(), &kvrpcpb.PrewriteRequest{
		Mutations: muts, PrimaryLock: muts[0].Key, StartVersion: b.ts(), LockTtl: 1000, TryOnePc: true,
	})
	require.NoError(b.t, err)
	require.Empty(b.t, resp.Errors)
}

// transfer is one transaction.
type transfer struct {
	*bank
	rnd       *rand.Rand
	id        uint64
	start     uint64
	forUpdate uint64 // 0: optimistic
	ttl       uint64
	locked    [][]byte
	muts      []*kvrpcpb.Mutation
}

// run makes a transfer and reports whether it was acknowledged.
func (b *bank) run(ctx context.Context, rnd *rand.Rand) {
	x := &transfer{bank: b, rnd: rnd, id: b.nextID.Add(1), start: b.ts(), ttl: 10_000}
	kind := rnd.IntN(8)
	if kind == 0 {
		x.ttl = shortTTL
	}
	from := rnd.IntN(bankAccounts)
	to := (from + 1 + rnd.IntN(bankAccounts-1)) % bankAccounts
	var balances [2]int64
	var ok bool
	if rnd.IntN(2) == 0 {
		x.forUpdate = x.start
		balances, ok = x.lockBoth(ctx, from, to)
	} else {
		balances, ok = x.readBoth(ctx, from, to)
	}
	if !ok {
		x.giveUp(ctx)
		return
	}
	amount := int64(1 + rnd.IntN(10))
	x.muts = []*kvrpcpb.Mutation{
		{Op: kvrpcpb.Op_Put, Key: accountKey(from), Value: number(balances[0] - amount)},
		{Op: kvrpcpb.Op_Put, Key: accountKey(to), Value: number(balances[1] + amount)},
		{Op: kvrpcpb.Op_Put, Key: ledgerKey(x.id), Value: slices.Concat(number(int64(from)), number(int64(to)), number(amount))},
		{Op: kvrpcpb.Op_Lock, Key: []byte("lock")},
	}
	rnd.Shuffle(len(x.muts), func(i, j int) { x.muts[i], x.muts[j] = x.muts[j], x.muts[i] })
	if rnd.IntN(3) > 0 {
		x.muts = slices.DeleteFunc(x.muts, func(m *kvrpcpb.Mutation) bool { return m.Op == kvrpcpb.Op_Lock })
	}
	switch kind {
	case 0: // is never heard of again
		x.prewrite(ctx, x.muts[:1+rnd.IntN(len(x.muts))], false)
		return
	case 1, 2, 3:
		x.commitInOne(ctx)
	default:
		x.commitInTwo(ctx)
	}
}

func (x *transfer) acknowledge() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.acked[x.id] = true
}

func (x *transfer) readBoth(ctx context.Context, from, to int) (balances [2]int64, ok bool) {
	for i, a := range []int{from, to} {
		v, err := x.engine.Snapshot(x.start, nil).Get(ctx, accountKey(a))
		if err != nil || len(v) == 0 {
			x.t.Errorf("account %d at %d: %x, %v", a, x.start, v, err)
			return balances, false
		}
		balances[i] = parseNumber(v)
	}
	return balances, true
}

// lockBoth locks the accounts as a client does, with new timestamps where there are conflicts.
func (x *transfer) lockBoth(ctx context.Context, from, to int) (balances [2]int64, ok bool) {
	for i, a := range []int{from, to} {
		v, ok := x.lock(ctx, accountKey(a))
		if !ok {
			return balances, false
		}
		balances[i] = parseNumber(v)
	}
	return balances, true
}

func (x *transfer) lock(ctx context.Context, key []byte) (value []byte, ok bool) {
	force := x.rnd.IntN(2) == 0
	for range 200 {
		req := &kvrpcpb.PessimisticLockRequest{
			Mutations:    []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_PessimisticLock, Key: key}},
			PrimaryLock:  key,
			StartVersion: x.start,
			ForUpdateTs:  x.forUpdate,
			LockTtl:      x.ttl,
			ReturnValues: true,
		}
		if len(x.locked) > 0 {
			req.PrimaryLock = x.locked[0]
		}
		if force {
			req.WakeUpMode = kvrpcpb.PessimisticLockWakeUpMode_WakeUpModeForceLock
		}
		resp, err := x.engine.PessimisticLock(ctx, req)
		if err != nil {
			return nil, false
		}
		if resp.RegionError != nil {
			continue // it was busy, and has done nothing
		}
		if len(resp.Errors) == 0 {
			x.locked = append(x.locked, key)
			if !force {
				return resp.Values[0], true
			}
			r := resp.Results[0]
			x.forUpdate = max(x.forUpdate, r.LockedWithConflictTs)
			return r.Value, true
		}
		switch keyErr := resp.Errors[0]; {
		case keyErr.Conflict != nil:
			x.forUpdate = x.ts()
		case keyErr.Locked != nil:
			x.resolve(ctx, keyErr.Locked)
		case keyErr.Deadlock != nil:
			return nil, false
		default:
			x.t.Errorf("locking: %v", keyErr)
			return nil, false
		}
	}
	return nil, false
}

// resolve looks whether a lock's transaction is still alive, and cleans up after it if it is not.
func (x *transfer) resolve(ctx context.Context, l *kvrpcpb.LockInfo) {
	pessimistic := l.LockType == kvrpcpb.Op_PessimisticLock
	resp, err := x.engine.CheckTxnStatus(ctx, &kvrpcpb.CheckTxnStatusRequest{
		PrimaryKey:               l.PrimaryLock,
		LockTs:                   l.LockVersion,
		CurrentTs:                x.ts(),
		RollbackIfNotExist:       true,
		VerifyIsPrimary:          true,
		ResolvingPessimisticLock: pessimistic,
	})
	if err != nil || resp.Error != nil || resp.LockTtl > 0 {
		return
	}
	if pessimistic {
		_, _ = x.engine.PessimisticRollback(ctx, &kvrpcpb.PessimisticRollbackRequest{
			StartVersion: l.LockVersion, ForUpdateTs: l.LockForUpdateTs, Keys: [][]byte{l.Key},
		})
		return
	}
	_, _ = x.engine.ResolveLock(ctx, &kvrpcpb.ResolveLockRequest{StartVersion: l.LockVersion, CommitVersion: resp.CommitVersion})
}

// prewrite prewrites part of the transfer and returns its commit timestamp if that committed it.
func (x *transfer) prewrite(ctx context.Context, muts []*kvrpcpb.Mutation, one bool) (commitTS uint64, ok bool) {
	req := &kvrpcpb.PrewriteRequest{
		Mutations:    muts,
		PrimaryLock:  x.muts[0].Key,
		StartVersion: x.start,
		LockTtl:      x.ttl,
		ForUpdateTs:  x.forUpdate,
		MinCommitTs:  max(x.start, x.forUpdate) + 1,
		TryOnePc:     one,
	}
	if x.rnd.IntN(4) == 0 {
		req.MaxCommitTs = x.start + uint64(x.rnd.IntN(100))<<18
	}
	for _, m := range muts {
		action := kvrpcpb.PrewriteRequest_SKIP_PESSIMISTIC_CHECK
		if slices.ContainsFunc(x.locked, func(k []byte) bool { return string(k) == string(m.Key) }) {
			action = kvrpcpb.PrewriteRequest_DO_PESSIMISTIC_CHECK
		}
		req.PessimisticActions = append(req.PessimisticActions, action)
	}
	for range 200 {
		resp, err := x.engine.Prewrite(ctx, req)
		if err != nil {
			return 0, false
		}
		if resp.RegionError != nil {
			continue // it was busy, and has done nothing
		}
		if len(resp.Errors) == 0 {
			return resp.OnePcCommitTs, true
		}
		for _, keyErr := range resp.Errors {
			if keyErr.Locked == nil {
				return 0, false
			}
			x.resolve(ctx, keyErr.Locked)
		}
		time.Sleep(time.Millisecond)
	}
	return 0, false
}

func (x *transfer) commitInOne(ctx context.Context) {
	commitTS, ok := x.prewrite(ctx, x.muts, true)
	switch {
	case !ok:
		x.giveUp(ctx)
	case commitTS != 0:
		x.acknowledge()
	default:
		x.commit(ctx)
	}
}

func (x *transfer) commitInTwo(ctx context.Context) {
	var parts sync.WaitGroup
	var failed atomic.Bool
	cut := 1 + x.rnd.IntN(len(x.muts))
	for i, part := range [][]*kvrpcpb.Mutation{x.muts[:cut], x.muts[cut:]} {
		if len(part) == 0 {
			continue
		}
		y := *x
		y.rnd = rand.New(rand.NewPCG(x.rnd.Uint64(), uint64(i)))
		parts.Go(func() {
			if _, ok := y.prewrite(ctx, part, false); !ok {
				failed.Store(true)
			}
		})
	}
	parts.Wait()
	if failed.Load() {
		x.giveUp(ctx)
		return
	}
	x.commit(ctx)
}

// commit commits the primary key and then the others.
func (x *transfer) commit(ctx context.Context) {
	commitTS := x.ts()
	for i := 0; i < len(x.muts); {
		resp, err := x.engine.Commit(ctx, &kvrpcpb.CommitRequest{
			StartVersion: x.start, Keys: [][]byte{x.muts[i].Key}, CommitVersion: commitTS,
		})
		switch {
		case err != nil:
			return
		case resp.Error.GetCommitTsExpired() != nil && i == 0:
			commitTS = x.ts()
			continue
		case resp.Error != nil && i == 0:
			return // rolled back by somebody
		case resp.Error != nil:
			x.t.Errorf("committing a secondary key: %v", resp.Error)
			return
		}
		if i == 0 {
			x.acknowledge()
		}
		i++
	}
}

func (x *transfer) giveUp(ctx context.Context) {
	_, _ = x.engine.PessimisticRollback(ctx, &kvrpcpb.PessimisticRollbackRequest{
		StartVersion: x.start, ForUpdateTs: math.MaxUint64, Keys: x.locked,
	})
	resp, err := x.engine.BatchRollback(ctx, &kvrpcpb.BatchRollbackRequest{StartVersion: x.start, Keys: [][]byte{accountKey(0)}})
	if err == nil && resp.Error != nil {
		x.t.Errorf("transaction %d was committed though it failed: %v", x.start, resp.Error)
	}
}

// books are what the bank looks like at one timestamp.
type books struct {
	balances [bankAccounts]int64
	ledger   map[uint64]bool
}

// audit reads the bank at ts and checks that the balances are what the ledger says.
func (b *bank) audit(ctx context.Context, ts uint64) (s books, ok bool) {
	s.ledger = make(map[uint64]bool)
	var expected [bankAccounts]int64
	for i := range expected {
		expected[i] = bankBalance
	}
	snapshot := b.engine.Snapshot(ts, nil)
	var keys [][]byte
	for i := range bankAccounts {
		keys = append(keys, accountKey(i))
	}
	n := 0
	err := snapshot.BatchGet(ctx, keys, func(_, value []byte) {
		s.balances[n] = parseNumber(value)
		n++
	})
	if err == nil {
		err = snapshot.Scan(ctx, []byte("ledger/"), []byte("ledger0"), false, func(key, value []byte) (bool, error) {
			var id uint64
			if _, err := fmt.Sscanf(string(key), "ledger/%d", &id); err != nil {
				return false, err
			}
			s.ledger[id] = true
			amount := parseNumber(value[16:])
			expected[parseNumber(value)] -= amount
			expected[parseNumber(value[8:])] += amount
			return true, nil
		})
	}
	if err != nil {
		b.t.Errorf("reading the bank: %v", err)
		return s, false
	}
	if s.balances != expected {
		b.t.Errorf("at %d balances are %v, the ledger says %v", ts, s.balances, expected)
		return s, false
	}
	return s, true
}

// ackedNow returns the transactions acknowledged so far.
func (b *bank) ackedNow() (ids []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.acked {
		ids = append(ids, id)
	}
	return ids
}

// auditFresh audits at a fresh timestamp: everything acknowledged before has to be there, and it stays so.
func (b *bank) auditFresh(ctx context.Context) {
	acked := b.ackedNow()
	ts := b.ts()
	s, ok := b.audit(ctx, ts)
	if !ok {
		return
	}
	for _, id := range acked {
		if !s.ledger[id] {
			b.t.Errorf("transaction %d was acknowledged before %d and is not visible", id, ts)
		}
	}
	again, ok := b.audit(ctx, ts)
	if ok && (again.balances != s.balances || len(again.ledger) != len(s.ledger)) {
		b.t.Errorf("reading twice at %d gives %v and %v", ts, s, again)
	}
}

// work runs transfers and audits until ctx ends.
func (b *bank) work(ctx context.Context, seed uint64, writers int) *sync.WaitGroup {
	var wg sync.WaitGroup
	for i := range writers {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil {
				b.run(context.WithoutCancel(ctx), rnd)
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				b.auditFresh(context.WithoutCancel(ctx))
				time.Sleep(time.Millisecond)
			}
		})
	}
	return &wg
}

// settle rolls back what was abandoned and checks that nothing is left over.
func (b *bank) settle() {
	require.Eventually(b.t, func() bool {
		resp, err := b.engine.ScanLock(b.t.Context(), &kvrpcpb.ScanLockRequest{MaxVersion: math.MaxUint64})
		require.NoError(b.t, err)
		x := &transfer{bank: b}
		for _, l := range resp.Locks {
			x.resolve(b.t.Context(), l)
		}
		return b.engine.Locks() == 0
	}, time.Minute, 20*time.Millisecond)
	require.Empty(b.t, slices.Collect(b.engine.active.all()))
	require.Empty(b.t, b.engine.LockWaits())
	for i := range b.engine.registry.shards {
		require.Empty(b.t, b.engine.registry.shards[i].live)
	}
	b.auditFresh(b.t.Context())
}

func TestBank(t *testing.T) {
	seed := randtest.Seed(t)
	b := openBank(t, vfs.NewMem())
	b.fill()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	b.work(ctx, seed, 8).Wait()
	b.settle()
	t.Logf("%d transfers, %d acknowledged", b.nextID.Load(), len(b.acked))
	require.NotEmpty(t, b.acked)
	require.NoError(t, b.store.Close())
}

// TestBankCrash takes the store away under load, as a crash would, and looks at what is left: everything acknowledged,
// nothing by halves, no lock.
func TestBankCrash(t *testing.T) {
	seed := randtest.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	mem := vfs.NewCrashableMem()
	b := openBank(t, mem)
	b.fill()
	ctx, cancel := context.WithCancel(t.Context())
	wg := b.work(ctx, seed, 6)
	for round := range 5 {
		time.Sleep(time.Duration(20+rnd.IntN(150)) * time.Millisecond)
		acked := b.ackedNow()
		clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 25 * round, RNG: rnd})
		after := openBank(t, clone)
		require.Zero(t, after.engine.Locks())
		s, ok := after.audit(t.Context(), after.ts())
		require.True(t, ok)
		for _, id := range acked {
			require.True(t, s.ledger[id], "transaction %d was acknowledged before the crash and is lost", id)
		}
		require.NoError(t, after.store.Close())
	}
	cancel()
	wg.Wait()
	b.settle()
	require.NoError(t, b.store.Close())
}

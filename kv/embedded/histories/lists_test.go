package histories

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	tikverr "github.com/tikv/client-go/v2/error"
	tikvkv "github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/txnkv/transaction"
	"github.com/tikv/client-go/v2/txnkv/txnsnapshot"
)

const (
	// listCount lists are in use at a time. When one of them is listLimit long all are replaced by new ones.
	listCount = 10
	listLimit = 60
)

// lists is the workload of lists: transactions of all kinds read and append.
type lists struct {
	*run
	rec        *Recorder
	generation atomic.Int64
	value      atomic.Int64
}

func newLists(r *run) workload { return &lists{run: r, rec: NewRecorder()} }

// listKey is the key of a list. Half of them lie before, the others behind the keys that fill transactions up.
func listKey(generation int64, i int) string {
	return fmt.Sprintf("list/%06d/%c%02d", generation, "az"[i%2], i)
}

func encodeList(list []int) []byte {
	var b []byte
	for _, v := range list {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	return b
}

func decodeList(b []byte) (list []int) {
	for ; len(b) >= 4; b = b[4:] {
		list = append(list, int(binary.BigEndian.Uint32(b)))
	}
	return list
}

// listTxn is one transaction.
type listTxn struct {
	*lists
	session int
	rng     *rand.Rand
	cl      *client
	rec     *Txn
	tx      *transaction.KVTxn

	generation int64
	readCommit bool   // plain reads see what is committed when they are made
	lockTS     uint64 // the newest timestamp that keys were locked at
	buffer     map[string][]int
	dirty      bool
}

// transact implements workload.
func (l *lists) transact(ctx context.Context, session int, rng *rand.Rand) {
	a := &listTxn{lists: l, session: session, rng: rng, cl: l.client(rng), buffer: make(map[string][]int), generation: l.generation.Load()}
	switch rng.IntN(20) {
	case 0, 1:
		a.readOnce(ctx)
		return
	case 2:
		a.readThePast(ctx)
		return
	}
	name := a.begin()
	if a.tx == nil {
		return
	}
	err := a.work(ctx)
	a.end(ctx, name, err)
}

// begin starts a transaction of a random kind.
func (a *listTxn) begin() (name string) {
	pessimistic := a.rng.IntN(2) == 0
	name = "optimistic"
	if pessimistic {
		name = "pessimistic"
		if a.readCommit = a.rng.IntN(3) == 0; a.readCommit {
			name = "read committed"
		}
	}
	a.rec = a.lists.rec.Begin(name)
	tx, err := a.cl.Begin()
	if err != nil {
		a.rec.Outcome, a.rec.Ended = Aborted, a.lists.rec.Now()
		return name
	}
	a.tx = tx
	a.rec.Pessimistic, a.rec.Start, a.lockTS = pessimistic, tx.StartTS(), tx.StartTS()
	tx.SetPessimistic(pessimistic)
	switch a.rng.IntN(3) {
	case 0:
		tx.SetEnable1PC(true)
		tx.SetEnableAsyncCommit(true)
		name += ", one phase"
	case 1:
		tx.SetEnableAsyncCommit(true)
		name += ", async commit"
	}
	a.rec.Name = fmt.Sprintf("%s, session %d", name, a.session)
	return name
}

func (a *listTxn) anyKey() string { return listKey(a.generation, a.rng.IntN(listCount)) }

// work does what the transaction is for.
func (a *listTxn) work(ctx context.Context) error {
	for range 1 + a.rng.IntN(4) {
		var err error
		switch key := a.anyKey(); a.rng.IntN(8) {
		case 0, 1:
			err = a.read(ctx, key)
		case 2:
			err = a.read(ctx, key, a.anyKey(), a.anyKey())
		case 3:
			err = a.scan()
		case 4:
			err = a.lock(ctx, key)
		case 5:
			err = a.lock(ctx, key, a.anyKey())
		default:
			err = a.append(ctx, key)
		}
		if err != nil {
			return err
		}
		if a.rng.IntN(8) == 0 {
			time.Sleep(time.Duration(a.rng.IntN(2000)) * time.Microsecond)
		}
	}
	if a.dirty && a.rng.IntN(3) == 0 {
		return a.fill()
	}
	return nil
}

// fill makes the transaction large: many keys, or so many bytes that it is prewritten in several requests.
func (a *listTxn) fill() error {
	keys, size := 20+a.rng.IntN(400), 10
	if a.rng.IntN(4) == 0 {
		size = 1000
	}
	for i := range keys {
		key := fmt.Appendf(nil, "list/%06d/m/%02d/%04d", a.generation, a.session, i)
		if err := a.tx.Set(key, make([]byte, size)); err != nil {
			return err
		}
	}
	return nil
}

// note records a reading.
func (a *listTxn) note(key string, list []int, view uint64, locked bool, begun time.Duration) {
	a.rec.Ops = append(a.rec.Ops, Op{
		Kind: Read, Key: key, List: list, View: view, Locked: locked, Begun: begun, Ended: a.lists.rec.Now(),
	})
	if len(list) >= listLimit {
		a.lists.generation.CompareAndSwap(a.generation, a.generation+1)
	}
}

// read reads lists without locking them.
func (a *listTxn) read(ctx context.Context, keys ...string) error {
	begun := a.lists.rec.Now()
	slices.Sort(keys)
	keys = slices.Compact(keys)
	var want [][]byte
	for _, key := range keys {
		if _, own := a.buffer[key]; !own {
			want = append(want, []byte(key))
		}
	}
	view, get := a.tx.StartTS(), a.tx.BatchGet
	var snapshot *txnsnapshot.KVSnapshot
	if a.readCommit {
		snapshot, view = a.statementSnapshot()
		get = snapshot.BatchGet
	}
	found, err := batchGet(ctx, get, want)
	if a.readCommit && tikverr.IsErrWriteConflict(err) {
		// The timestamp was too old: with a fresh one it is not.
		if view, err = a.cl.CurrentTimestamp("global"); err == nil {
			found, err = batchGet(ctx, a.cl.GetSnapshot(view).BatchGet, want)
		}
	}
	if err != nil {
		return err
	}
	for _, key := range want {
		a.note(string(key), decodeList(found[string(key)]), view, false, begun)
	}
	return a.readOwn(ctx, keys)
}

// readOwn reads lists that the transaction has appended to.
func (a *listTxn) readOwn(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if _, own := a.buffer[key]; !own {
			continue
		}
		begun := a.lists.rec.Now()
		value, err := a.tx.Get(ctx, []byte(key))
		if err != nil {
			return err
		}
		a.note(key, decodeList(value), 0, a.rec.Pessimistic, begun)
	}
	return nil
}

// statementSnapshot is what a statement of read committed reads: at a fresh timestamp or, to save that, at the last one
// that was used, with the option to fail if a newer version is there.
func (a *listTxn) statementSnapshot() (*txnsnapshot.KVSnapshot, uint64) {
	if a.rng.IntN(2) == 0 {
		s := a.cl.GetSnapshot(a.lockTS)
		s.SetIsolationLevel(txnsnapshot.RCCheckTS)
		return s, a.lockTS
	}
	ts, err := a.cl.CurrentTimestamp("global")
	if err != nil {
		ts = a.tx.StartTS()
	}
	return a.cl.GetSnapshot(ts), ts
}

// scan reads all lists in order, forwards or backwards.
func (a *listTxn) scan() error {
	begun := a.lists.rec.Now()
	first, end := fmt.Appendf(nil, "list/%06d/a", a.generation), fmt.Appendf(nil, "list/%06d/b", a.generation)
	a.tx.GetSnapshot().SetScanBatchSize(2 + a.rng.IntN(20))
	found := make(map[string][]int)
	iter := func() (iterator, error) { return a.tx.Iter(first, end) }
	if a.rng.IntN(2) == 0 {
		iter = func() (iterator, error) { return a.tx.IterReverse(end, first) }
	}
	it, err := iter()
	if err != nil {
		return err
	}
	defer it.Close()
	for it.Valid() {
		found[string(it.Key())] = decodeList(it.Value())
		if err := it.Next(); err != nil {
			return err
		}
	}
	for i := 0; i < listCount; i += 2 {
		key := listKey(a.generation, i)
		if _, own := a.buffer[key]; !own {
			a.note(key, found[key], a.tx.StartTS(), false, begun)
		} else {
			a.note(key, found[key], 0, a.rec.Pessimistic, begun)
		}
	}
	return nil
}

// iterator is client-go's, whose package is internal.
type iterator = interface {
	Valid() bool
	Key() []byte
	Value() []byte
	Next() error
	Close()
}

// lock locks lists and reads them.
func (a *listTxn) lock(ctx context.Context, keys ...string) error {
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if a.rec.Pessimistic {
		return a.lockNow(ctx, keys)
	}
	first := len(a.rec.Ops)
	if err := a.read(ctx, keys...); err != nil {
		return err
	}
	for i := range a.rec.Ops[first:] {
		a.rec.Ops[first+i].Locked = true
	}
	a.dirty = true
	return a.tx.LockKeys(ctx, tikvkv.NewLockCtx(a.tx.StartTS(), tikvkv.LockNoWait, time.Now()), byteKeys(keys)...)
}

func byteKeys(keys []string) (out [][]byte) {
	for _, key := range keys {
		out = append(out, []byte(key))
	}
	return out
}

// lockWait is how long a pessimistic transaction waits for a lock, in milliseconds.
const lockWait = 500

// lockNow takes pessimistic locks as a statement of TiDB does: with a new timestamp when a newer version is there, or
// with fair locking, for which the conflict is no obstacle.
func (a *listTxn) lockNow(ctx context.Context, keys []string) (err error) {
	begun := a.lists.rec.Now()
	fair := a.rng.IntN(2) == 0
	if fair {
		a.tx.StartAggressiveLocking()
		defer func() {
			switch {
			case !a.tx.IsInAggressiveLockingMode(): // left, as there was more than one key
			case err != nil:
				a.tx.CancelAggressiveLocking(ctx)
			default:
				a.tx.DoneAggressiveLocking(ctx)
			}
		}()
	}
	for try := 0; ; try++ {
		if a.rng.IntN(2) == 0 || try > 0 {
			if a.lockTS, err = a.cl.CurrentTimestamp("global"); err != nil {
				return err
			}
		}
		lc := tikvkv.NewLockCtx(a.lockTS, lockWait, time.Now())
		lc.InitReturnValues(len(keys))
		err = a.tx.LockKeys(ctx, lc, byteKeys(keys)...)
		conflict := tikverr.IsErrWriteConflict(err)
		for _, v := range lc.Values {
			conflict = conflict || err == nil && v.LockedWithConflictTS != 0
		}
		switch {
		case conflict && try < 20:
			if a.tx.IsInAggressiveLockingMode() {
				a.tx.RetryAggressiveLocking(ctx)
			}
			continue
		case err != nil:
			return err
		}
		a.dirty = true
		return a.noteLocked(ctx, keys, lc, begun)
	}
}

func (a *listTxn) noteLocked(ctx context.Context, keys []string, lc *tikvkv.LockCtx, begun time.Duration) error {
	for _, key := range keys {
		v, got := lc.Values[key]
		switch {
		case !got || v.AlreadyLocked:
			if _, own := a.buffer[key]; own {
				if err := a.readOwn(ctx, []string{key}); err != nil {
					return err
				}
			}
		default:
			a.note(key, decodeList(v.Value), 0, true, begun)
		}
	}
	return nil
}

// append appends to a list.
func (a *listTxn) append(ctx context.Context, key string) error {
	list, own := a.buffer[key]
	if !own {
		var err error
		if a.rec.Pessimistic {
			err = a.lockNow(ctx, []string{key})
		} else {
			err = a.read(ctx, key)
		}
		if err != nil {
			return err
		}
		found := false
		for _, op := range a.rec.Ops {
			if op.Kind == Read && op.Key == key && (op.Locked || !a.rec.Pessimistic) {
				list, found = op.List, true
			}
		}
		if !found {
			return fmt.Errorf("the list %s was locked and not read", key)
		}
	}
	value := int(a.value.Add(1))
	list = append(slices.Clone(list), value)
	if err := a.tx.Set([]byte(key), encodeList(list)); err != nil {
		return err
	}
	a.buffer[key], a.dirty = list, true
	a.rec.Ops = append(a.rec.Ops, Op{Kind: Append, Key: key, Value: value})
	return nil
}

// end commits, most of the time, or rolls back.
func (a *listTxn) end(ctx context.Context, name string, err error) {
	defer func() { a.rec.Ended = a.lists.rec.Now() }()
	if err != nil || !a.dirty || a.rng.IntN(10) == 0 {
		_ = a.tx.Rollback()
		a.rec.Outcome = Aborted
		if err == nil && !a.dirty {
			a.rec.Outcome = Committed
		}
		a.count(name, a.rec.Outcome, err)
		return
	}
	if a.rec.Outcome, a.rec.Commit, err = a.commit(ctx, a.tx); err != nil {
		a.rec.Name += ": " + err.Error()
	}
	a.count(name, a.rec.Outcome, err)
}

// commitTimeout is how long a client tries to learn what became of a commit. In production it is more than a minute.
const commitTimeout = 2 * time.Second

// commit commits a transaction and says how it ended.
func (r *run) commit(ctx context.Context, tx *transaction.KVTxn) (Outcome, uint64, error) {
	var info struct {
		CommitTS uint64 `json:"commit_ts"`
		Fallback bool   `json:"one_pc_fallback"`
	}
	tx.SetCommitCallback(func(text string, _ error) { _ = json.Unmarshal([]byte(text), &info) })
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	asked := r.cluster.current()
	err := tx.Commit(ctx)
	switch {
	case err == nil && info.Fallback:
		// It may have committed in one phase, and when the answer was lost the client has learned of it by asking for a
		// commit at a timestamp that it is not committed at.
		return Committed, 0, nil
	case err == nil:
		return Committed, info.CommitTS, nil
	case tikverr.IsErrorUndetermined(err):
		return Unknown, 0, err
	case info.Fallback && !r.cluster.alive(asked):
		// It may have committed in one phase just before the crash. client-go does not say that it is in doubt once it
		// has given one phase up, as it does where the keys are in several regions by then: TiKV would know of the
		// commit. Only clients in other processes than the store's can get that answer, for which it is served in tests.
		return Unknown, 0, err
	}
	return Aborted, 0, err
}

// readOnce reads a list as a statement does that needs no snapshot: the newest version.
func (a *listTxn) readOnce(ctx context.Context) {
	a.rec = a.lists.rec.Begin("newest")
	a.rec.Newest = true
	a.readAt(ctx, math.MaxUint64, 0, a.anyKey())
}

// readThePast reads lists as they were, not so long ago that they may have been collected.
func (a *listTxn) readThePast(ctx context.Context) {
	a.rec = a.lists.rec.Begin("past")
	ts, err := a.cl.CurrentTimestamp("global")
	if err != nil {
		a.rec.Outcome, a.rec.Ended = Aborted, a.lists.rec.Now()
		return
	}
	ts -= uint64(a.rng.Int64N(max(a.lists.gcAge.Milliseconds(), 1))) << 18
	a.rec.Begun, a.rec.Start = 0, ts
	a.readAt(ctx, ts, ts, a.anyKey(), a.anyKey())
}

func (a *listTxn) readAt(ctx context.Context, ts, view uint64, keys ...string) {
	begun := a.rec.Begun
	slices.Sort(keys)
	keys = slices.Compact(keys)
	snapshot := a.cl.GetSnapshot(ts)
	found := make(map[string][]byte)
	var err error
	if len(keys) > 1 {
		found, err = batchGet(ctx, snapshot.BatchGet, byteKeys(keys))
	} else if found[keys[0]], err = snapshot.Get(ctx, []byte(keys[0])); tikverr.IsErrNotFound(err) {
		err = nil
	}
	for _, key := range keys {
		if err == nil {
			a.note(key, decodeList(found[key]), view, false, begun)
		}
	}
	a.rec.Outcome, a.rec.Ended = Committed, a.lists.rec.Now()
	a.count("read at a timestamp", Committed, err)
}

// finish implements workload: it reads all lists once more, and checks.
func (l *lists) finish(ctx context.Context) Report {
	rng := rand.New(rand.NewPCG(0, 0))
	for g := range l.generation.Load() + 1 {
		a := &listTxn{lists: l, rng: rng, cl: l.client(rng), rec: l.rec.Begin("final"), generation: g}
		ts, err := a.cl.CurrentTimestamp("global")
		if err != nil {
			l.t.Errorf("the final reading: %v", err)
		}
		a.rec.Start = ts
		var keys []string
		for i := range listCount {
			keys = append(keys, listKey(g, i))
		}
		a.readAt(ctx, ts, ts, keys...)
		if len(a.rec.Ops) != listCount {
			l.t.Errorf("the final reading of lists %d failed", g)
		}
	}
	txns := l.rec.Txns()
	report := Check(txns)
	report.Add(CheckTimes(txns))
	return report
}

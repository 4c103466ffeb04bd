package histories

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	tikverr "github.com/tikv/client-go/v2/error"
	tikvkv "github.com/tikv/client-go/v2/kv"
)

func encodeInt(v int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }

func decodeInt(b []byte) int {
	if len(b) < 4 {
		return 0
	}
	return int(binary.BigEndian.Uint32(b))
}

// registerCount is how many registers there are at a time, registerLimit after how many accesses new ones are taken.
const (
	registerCount = 4
	registerLimit = 3000
)

// registers is the workload of single values that are written without having been read.
type registers struct {
	*run
	rec   *Recorder
	value atomic.Int64

	mu         sync.Mutex
	generation int
	accesses   map[string][]Access
}

func newRegisters(r *run) workload {
	return &registers{run: r, rec: NewRecorder(), accesses: make(map[string][]Access)}
}

func (w *registers) anyKey(rng *rand.Rand) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("register/%06d%02d", w.generation, rng.IntN(registerCount))
}

func (w *registers) note(key string, a Access) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.accesses[key] = append(w.accesses[key], a); len(w.accesses[key]) == registerLimit {
		w.generation++
	}
}

// transact implements workload.
func (w *registers) transact(ctx context.Context, _ int, rng *rand.Rand) {
	key, cl := w.anyKey(rng), w.client(rng)
	if rng.IntN(4) > 0 {
		a := Access{Begun: w.rec.Now()}
		var err error
		ts := uint64(math.MaxUint64)
		if rng.IntN(3) == 0 {
			ts, err = cl.CurrentTimestamp("global")
		}
		var value []byte
		if err == nil {
			value, err = cl.GetSnapshot(ts).Get(ctx, []byte(key))
		}
		if err == nil || tikverr.IsErrNotFound(err) {
			a.Value, a.Ended = decodeInt(value), w.rec.Now()
			w.note(key, a)
		}
		return
	}
	a := Access{Write: true, Value: int(w.value.Add(1)), Begun: w.rec.Now()}
	outcome := w.write(ctx, cl, key, a.Value, rng)
	a.Ended, a.Unknown = w.rec.Now(), outcome == Unknown
	if outcome != Aborted {
		w.note(key, a)
	}
}

// write sets a register in one of the ways there are.
func (w *registers) write(ctx context.Context, cl *client, key string, value int, rng *rand.Rand) Outcome {
	tx, err := cl.Begin()
	if err != nil {
		return Aborted
	}
	name := "optimistic"
	if rng.IntN(2) == 0 {
		name = "pessimistic"
		tx.SetPessimistic(true)
		if err := tx.LockKeys(ctx, tikvkv.NewLockCtx(tx.StartTS(), lockWait, time.Now()), []byte(key)); err != nil {
			_ = tx.Rollback()
			return Aborted
		}
	}
	tx.SetEnable1PC(rng.IntN(2) == 0)
	outcome := Aborted
	if err = tx.Set([]byte(key), encodeInt(value)); err == nil {
		outcome, _, err = w.commit(ctx, tx)
	}
	w.count(name, outcome, err)
	return outcome
}

// finish implements workload.
func (w *registers) finish(context.Context) (report Report) {
	for key, accesses := range w.accesses {
		report.Add(CheckRegister(key, accesses))
	}
	return report
}

const (
	// groupKeys keys are written once each; then there is a new group.
	groupKeys = 12
	readsEach = 3
)

// forks is the workload of independent writes that are read together.
type forks struct {
	*run
	next atomic.Int64

	mu       sync.Mutex
	readings map[int][]map[int]bool
}

func newForks(r *run) workload { return &forks{run: r, readings: make(map[int][]map[int]bool)} }

func forkKey(group, i int) []byte { return fmt.Appendf(nil, "group/%06d/%02d", group, i) }

// transact implements workload: a session writes the next key, and reads all of its group.
func (w *forks) transact(ctx context.Context, _ int, rng *rand.Rand) {
	n := int(w.next.Add(1))
	group := n / groupKeys
	w.put(ctx, forkKey(group, n%groupKeys), rng)
	for range readsEach {
		if rng.IntN(3) == 0 {
			group = max(group-1, 0)
		}
		w.read(ctx, group, rng)
	}
}

func (w *forks) put(ctx context.Context, key []byte, rng *rand.Rand) {
	tx, err := w.client(rng).Begin()
	if err != nil {
		return
	}
	tx.SetEnable1PC(rng.IntN(2) == 0)
	outcome := Aborted
	if err = tx.Set(key, []byte{1}); err == nil {
		outcome, _, err = w.commit(ctx, tx)
	}
	w.count("write", outcome, err)
}

// read reads a group at one timestamp.
func (w *forks) read(ctx context.Context, group int, rng *rand.Rand) {
	seen, err := w.look(ctx, group, rng)
	if err != nil {
		w.count("reading", Aborted, err)
		return
	}
	w.count("reading", Committed, nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readings[group] = append(w.readings[group], seen)
}

// look says which keys of a group are there, in one of several ways.
func (w *forks) look(ctx context.Context, group int, rng *rand.Rand) (seen map[int]bool, err error) {
	tx, err := w.client(rng).Begin()
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	seen = make(map[int]bool)
	var keys [][]byte
	for i := range groupKeys {
		keys = append(keys, forkKey(group, i))
	}
	see := func(key []byte) {
		seen[slices.IndexFunc(keys, func(k []byte) bool { return string(k) == string(key) })] = true
	}
	switch rng.IntN(3) {
	case 0:
		for _, i := range rng.Perm(groupKeys) {
			if _, err = tx.Get(ctx, keys[i]); err == nil {
				see(keys[i])
			} else if !tikverr.IsErrNotFound(err) {
				return nil, err
			}
		}
		return seen, nil
	case 1:
		found, err := batchGet(ctx, tx.BatchGet, keys)
		for key := range found {
			see([]byte(key))
		}
		return seen, err
	}
	it, err := tx.Iter(keys[0], forkKey(group+1, 0))
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for it.Valid() {
		see(it.Key())
		if err := it.Next(); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// finish implements workload.
func (w *forks) finish(context.Context) (report Report) {
	for group, readings := range w.readings {
		report.Add(CheckForks(fmt.Sprintf("group %d", group), readings))
	}
	return report
}

package kvtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// record is what one transaction or snapshot of the history test saw and did.
type record struct {
	start, commit uint64
	reads         map[string]string
	writes        map[string]string // "" is a deletion
	unchecked     map[string]bool
}

// testHistory runs random transactions and snapshot readers at once, and
// checks afterwards that every read returned exactly the newest value
// committed at or below its timestamp, and that no two committed transactions
// that overlap wrote the same checked key.
func testHistory(e *env) {
	rnd := e.seeded()
	const writers, readers, rounds, keys = 4, 2, 150, 25
	var mu sync.Mutex
	var all []record
	seeds := make([]uint64, writers+readers)
	for i := range seeds {
		seeds[i] = rnd.Uint64()
	}
	parallel(e, writers+readers, func(w int) error {
		rnd := rand.New(rand.NewPCG(seeds[w], 0))
		for n := range rounds {
			var rec *record
			var err error
			if w < writers {
				rec, err = randomTxn(e, rnd, keys, fmt.Sprintf("%d.%d", w, n))
			} else {
				rec, err = readAll(e, keys)
			}
			if err != nil {
				return err
			}
			if rec != nil {
				mu.Lock()
				all = append(all, *rec)
				mu.Unlock()
			}
		}
		return nil
	})
	checkHistory(e, all)
}

// randomTxn runs one transaction; it returns nil after a conflict.
func randomTxn(e *env, rnd *rand.Rand, keys int, id string) (*record, error) {
	ctx := context.Background()
	txn, err := e.store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	rec := &record{start: txn.StartTS(), reads: map[string]string{}, writes: map[string]string{}, unchecked: map[string]bool{}}
	for range 1 + rnd.IntN(4) {
		k := fmt.Sprint(rnd.IntN(keys))
		if rec.reads[k], err = read1(ctx, txn, e.key("%s", k)); err != nil {
			return nil, err
		}
	}
	for i := range 1 + rnd.IntN(4) {
		k := fmt.Sprint(rnd.IntN(keys))
		var flags []kv.KeyFlag
		if rnd.IntN(8) == 0 {
			// Keys of their own, because a checked key must not be written unchecked.
			k = "u" + k
			flags = append(flags, kv.NoConflictCheck)
			rec.unchecked[k] = true
		}
		if rnd.IntN(4) == 0 {
			rec.writes[k] = ""
			err = txn.Delete(e.key("%s", k), flags...)
		} else {
			rec.writes[k] = fmt.Sprintf("%s.%d", id, i)
			err = txn.Set(e.key("%s", k), []byte(rec.writes[k]), flags...)
		}
		if err != nil {
			return nil, err
		}
	}
	err = txn.Commit(ctx)
	if kv.IsWriteConflict(err) {
		return nil, nil
	}
	rec.commit = txn.CommitTS()
	return rec, err
}

// readAll reads all keys at a fresh timestamp.
func readAll(e *env, keys int) (*record, error) {
	ctx := context.Background()
	ts, err := e.store.CurrentTS(ctx)
	if err != nil {
		return nil, err
	}
	snap, err := e.store.Snapshot(ctx, ts)
	if err != nil {
		return nil, err
	}
	rec := &record{start: ts, reads: map[string]string{}}
	for k := range keys {
		for _, key := range []string{fmt.Sprint(k), fmt.Sprint("u", k)} {
			if rec.reads[key], err = read1(ctx, snap, e.key("%s", key)); err != nil {
				return nil, err
			}
		}
	}
	return rec, snap.Close()
}

func read1(ctx context.Context, r kv.Retriever, key []byte) (string, error) {
	v, err := r.Get(ctx, key)
	if errors.Is(err, kv.ErrNotExist) {
		return "", nil
	}
	return string(v), err
}

func checkHistory(e *env, all []record) {
	e.Helper()
	type version struct {
		ts, start uint64
		value     string
		checked   bool
	}
	versions := map[string][]version{}
	committed := map[uint64]bool{}
	for _, r := range all {
		if r.commit == 0 {
			continue
		}
		require.False(e, committed[r.commit], "two commits at %d", r.commit)
		committed[r.commit] = true
		for k, v := range r.writes {
			versions[k] = append(versions[k], version{r.commit, r.start, v, !r.unchecked[k]})
		}
	}
	require.NotEmpty(e, committed)
	for k, vs := range versions {
		slices.SortFunc(vs, func(a, b version) int { return int(int64(a.ts - b.ts)) })
		for i := 1; i < len(vs); i++ {
			if vs[i].checked {
				require.LessOrEqual(e, vs[i-1].ts, vs[i].start, "key %s: the update at %d was lost to %d", k, vs[i-1].ts, vs[i].ts)
			}
		}
	}
	for _, r := range all {
		for k, got := range r.reads {
			want := ""
			for _, v := range versions[k] {
				if v.ts <= r.start {
					want = v.value
				}
			}
			require.Equal(e, want, got, "key %s at %d", k, r.start)
		}
	}
}

// testBank moves money between accounts while readers add it up: the sum is
// the same in every snapshot and every transaction, in both directions of
// iteration.
func testBank(e *env) {
	rnd := e.seeded()
	const accounts, start, workers, rounds = 10, 100, 4, 100
	initial := map[string]string{}
	for i := range accounts {
		initial[fmt.Sprint(i)] = fmt.Sprint(start)
	}
	e.put(initial)
	seed := rnd.Uint64()
	parallel(e, workers, func(w int) error {
		rnd := rand.New(rand.NewPCG(seed, uint64(w)))
		for range rounds {
			err := kv.Retrying(context.Background(), e.store, func(ctx context.Context, txn kv.Txn) error {
				return transfer(ctx, e, rnd, txn, accounts, start)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func transfer(ctx context.Context, e *env, rnd *rand.Rand, txn kv.Txn, accounts, start int) error {
	balances, err := sum(e, txn, rnd.IntN(2) == 0, accounts*start)
	if err != nil {
		return err
	}
	from, to := fmt.Sprint(rnd.IntN(accounts)), fmt.Sprint(rnd.IntN(accounts))
	amount := rnd.IntN(start)
	if from == to || balances[from] <= amount {
		return nil
	}
	if err := txn.Set(e.key("%s", from), fmt.Append(nil, balances[from]-amount)); err != nil {
		return err
	}
	if err := txn.Set(e.key("%s", to), fmt.Append(nil, balances[to]+amount)); err != nil {
		return err
	}
	if _, err := sum(e, txn, rnd.IntN(2) == 0, accounts*start); err != nil {
		return fmt.Errorf("with own writes: %w", err)
	}
	return nil
}

// sum reads all balances and checks their sum.
func sum(e *env, r kv.Retriever, reverse bool, want int) (map[string]int, error) {
	open := r.Iter
	if reverse {
		open = r.IterReverse
	}
	it, err := open(e.space())
	if err != nil {
		return nil, err
	}
	balances, total := map[string]int{}, 0
	for it.Valid() {
		var n int
		if _, err := fmt.Sscan(string(it.Value()), &n); err != nil {
			return nil, errors.Join(err, it.Close())
		}
		balances[string(it.Key()[len(e.prefix):])] = n
		total += n
		if err := it.Next(); err != nil {
			return nil, errors.Join(err, it.Close())
		}
	}
	if total != want {
		return nil, errors.Join(fmt.Errorf("the balances add up to %d, not %d: %v", total, want, balances), it.Close())
	}
	return balances, it.Close()
}

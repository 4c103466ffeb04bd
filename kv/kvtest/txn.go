package kvtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

func testOwnWrites(e *env) {
	e.put(map[string]string{"a": "1", "b": "1"})
	txn := e.begin()
	require.NoError(e, txn.Set(e.key("a"), []byte("2")))
	require.NoError(e, txn.Delete(e.key("b")))
	require.NoError(e, txn.Delete(e.key("none")))
	require.NoError(e, txn.Set(e.key("c"), []byte("2")))
	require.Equal(e, "2", e.get(txn, "a"))
	require.Equal(e, "", e.get(txn, "b"))
	require.Equal(e, "", e.get(txn, "none"))
	want := []pair{{"a", "2"}, {"c", "2"}}
	require.Equal(e, want, e.list(txn, e.space(), false))

	other := e.begin()
	require.Equal(e, []pair{{"a", "1"}, {"b", "1"}}, e.list(other, e.space(), false), "writes show before the commit")
	require.NoError(e, other.Rollback())

	require.NoError(e, txn.Commit(e.ctx()))
	require.Equal(e, want, e.list(e.snapshot(e.now()), e.space(), false))
}

func testTxnSeesSnapshot(e *env) {
	e.put(map[string]string{"a": "1"})
	txn := e.begin()
	e.put(map[string]string{"a": "2", "b": "2"})
	require.Equal(e, []pair{{"a", "1"}}, e.list(txn, e.space(), false))
	require.Equal(e, "1", e.get(txn, "a"))
	require.Equal(e, "", e.get(txn, "b"))
	require.NoError(e, txn.Rollback())
	require.Equal(e, []pair{{"a", "2"}, {"b", "2"}}, e.list(e.begin(), e.space(), false))
}

func testCommitTS(e *env) {
	before := e.now()
	txn := e.begin()
	require.Zero(e, txn.CommitTS())
	require.NoError(e, txn.Set(e.key("a"), []byte("1")))
	require.NoError(e, txn.Commit(e.ctx()))
	require.Greater(e, txn.CommitTS(), before)
	require.Greater(e, txn.CommitTS(), txn.StartTS())
	require.Greater(e, e.now(), txn.CommitTS())

	next := e.begin()
	require.GreaterOrEqual(e, next.StartTS(), txn.CommitTS(), "a transaction begins before an acknowledged commit")
	require.NoError(e, next.Commit(e.ctx()))
	require.Zero(e, next.CommitTS(), "a transaction without writes has a commit timestamp")

	at := e.snapshot(txn.CommitTS())
	require.Equal(e, "1", e.get(at, "a"))
	require.Equal(e, "", e.get(e.snapshot(txn.CommitTS()-1), "a"))
}

func testTxnEnded(e *env) {
	end := map[string]func(kv.Txn) error{
		"commit":   func(txn kv.Txn) error { return txn.Commit(e.ctx()) },
		"rollback": func(txn kv.Txn) error { return txn.Rollback() },
	}
	for _, name := range slices.Sorted(maps.Keys(end)) {
		txn := e.begin()
		require.NoError(e, txn.Set(e.key("%s", name), []byte("1")))
		require.NoError(e, end[name](txn))
		_, err := txn.Get(e.ctx(), e.key("a"))
		require.ErrorIs(e, err, kv.ErrTxnDone, name)
		_, err = txn.Iter(e.space())
		require.ErrorIs(e, err, kv.ErrTxnDone, name)
		require.ErrorIs(e, txn.Set(e.key("a"), []byte("1")), kv.ErrTxnDone, name)
		require.ErrorIs(e, txn.Delete(e.key("a")), kv.ErrTxnDone, name)
		require.ErrorIs(e, txn.LockKeys(e.key("a")), kv.ErrTxnDone, name)
		require.ErrorIs(e, txn.Commit(e.ctx()), kv.ErrTxnDone, name)
		require.NoError(e, txn.Rollback(), "rollback after %s does nothing", name)
	}
	require.Equal(e, []pair{{"commit", "1"}}, e.list(e.begin(), e.space(), false))
}

func testEmptyValue(e *env) {
	txn := e.begin()
	require.ErrorIs(e, txn.Set(e.key("a"), nil), kv.ErrEmptyValue)
	require.ErrorIs(e, txn.Set(e.key("a"), []byte{}), kv.ErrEmptyValue)
	require.Zero(e, txn.Len())
}

func testCopiesArguments(e *env) {
	txn := e.begin()
	key, value := e.key("a"), []byte("1")
	require.NoError(e, txn.Set(key, value))
	lock := e.key("l")
	require.NoError(e, txn.LockKeys(lock))
	for _, b := range [][]byte{key, value, lock} {
		clear(b)
	}
	require.Equal(e, "1", e.get(txn, "a"))
	got, err := txn.Get(e.ctx(), e.key("a"))
	require.NoError(e, err)
	clear(got)
	require.Equal(e, "1", e.get(txn, "a"), "Get hands out the buffer itself")
	require.NoError(e, txn.Commit(e.ctx()))
	require.Equal(e, []pair{{"a", "1"}}, e.list(e.begin(), e.space(), false))
}

func testLenAndSize(e *env) {
	txn := e.begin()
	require.Zero(e, txn.Size())
	key := e.key("a")
	require.NoError(e, txn.Set(key, []byte("123")))
	require.Equal(e, 1, txn.Len())
	require.Equal(e, len(key)+3, txn.Size())
	require.NoError(e, txn.Set(key, []byte("12345")))
	require.Equal(e, 1, txn.Len())
	require.Equal(e, len(key)+5, txn.Size())
	require.NoError(e, txn.Delete(key))
	require.Equal(e, 1, txn.Len())
	require.Equal(e, len(key), txn.Size())
	require.NoError(e, txn.Set(e.key("b"), []byte("1")))
	require.Equal(e, 2, txn.Len())
	txn.RevertTo(0)
	require.Zero(e, txn.Len())
	require.Zero(e, txn.Size())
}

func testWritten(e *env) {
	e.put(map[string]string{"a": "0", "z": "0"})
	txn := e.begin()
	written := func(keys ...string) (out []bool) {
		for _, k := range keys {
			out = append(out, txn.Written(e.key("%s", k)))
		}
		return out
	}
	require.Equal(e, []bool{false, false}, written("a", "b"))
	undo := txn.Checkpoint()
	require.NoError(e, txn.Set(e.key("b"), []byte("1")))
	require.NoError(e, txn.Delete(e.key("a")))
	require.NoError(e, txn.LockKeys(e.key("z")))
	require.Equal(e, []bool{true, true, false}, written("a", "b", "z"), "values and tombstones count, locks do not")
	txn.RevertTo(undo)
	require.Equal(e, []bool{false, false}, written("a", "b"))
	require.NoError(e, txn.Rollback())
}

func testWithdrawn(e *env) {
	e.put(map[string]string{"other": "0"})
	txn := e.begin()
	require.NoError(e, txn.Set(e.key("a"), []byte("1")))
	require.NoError(e, txn.Set(e.key("b"), []byte("1"), kv.NoConflictCheck))
	undo := txn.Checkpoint()
	require.NoError(e, txn.Delete(e.key("a"), kv.Withdrawn))
	require.NoError(e, txn.Delete(e.key("b"), kv.Withdrawn, kv.NoConflictCheck))
	require.False(e, txn.Written(e.key("a")))
	require.Equal(e, []pair{{"other", "0"}}, e.list(txn, e.space(), false))

	txn.RevertTo(undo)
	require.True(e, txn.Written(e.key("a")))
	require.Equal(e, []pair{{"a", "1"}, {"b", "1"}, {"other", "0"}}, e.list(txn, e.space(), false))

	require.NoError(e, txn.Delete(e.key("a"), kv.Withdrawn))
	require.NoError(e, txn.Delete(e.key("b"), kv.Withdrawn, kv.NoConflictCheck))
	require.NoError(e, txn.Set(e.key("b"), []byte("2"), kv.NoConflictCheck))
	require.NoError(e, txn.Set(e.key("c"), []byte("2")))
	require.True(e, txn.Written(e.key("b")))
	meanwhile := e.put(map[string]string{"a": "theirs", "b": "theirs"})
	require.NoError(e, txn.Commit(e.ctx()), "a key that was withdrawn conflicts with nobody")
	require.Greater(e, txn.CommitTS(), meanwhile)
	require.Equal(e, []pair{{"a", "theirs"}, {"b", "2"}, {"c", "2"}, {"other", "0"}}, e.list(e.snapshot(e.now()), e.space(), false))

	again := e.begin()
	require.NoError(e, again.Delete(e.key("d"), kv.Withdrawn))
	require.NoError(e, again.Set(e.key("d"), []byte("3")))
	e.put(map[string]string{"d": "theirs"})
	e.requireConflict(again.Commit(e.ctx()), "d", again.StartTS())
}

func testCheckpoints(e *env) {
	e.put(map[string]string{"a": "0", "z": "0"})
	txn := e.begin()
	require.NoError(e, txn.Set(e.key("a"), []byte("1")))
	outer := txn.Checkpoint()
	require.NoError(e, txn.Delete(e.key("a")))
	require.NoError(e, txn.Delete(e.key("z")))
	inner := txn.Checkpoint()
	require.NoError(e, txn.Set(e.key("a"), []byte("2")))
	require.NoError(e, txn.Set(e.key("b"), []byte("2")))
	require.Equal(e, []pair{{"a", "2"}, {"b", "2"}}, e.list(txn, e.space(), false))
	txn.RevertTo(inner)
	require.Empty(e, e.list(txn, e.space(), false))
	txn.RevertTo(outer)
	require.Equal(e, []pair{{"a", "1"}, {"z", "0"}}, e.list(txn, e.space(), false))
	require.Equal(e, 1, txn.Len())
	require.NoError(e, txn.Commit(e.ctx()))
	require.Equal(e, []pair{{"a", "1"}, {"z", "0"}}, e.list(e.begin(), e.space(), false))
}

// testCheckpointsModel compares random writes, checkpoints and reverts with
// copies of a map.
func testCheckpointsModel(e *env) {
	rnd := e.seeded()
	txn := e.begin()
	model := map[string]string{}
	type saved struct {
		at    kv.Checkpoint
		model map[string]string
	}
	var stack []saved
	for range 3000 {
		k := fmt.Sprintf("%03d", rnd.IntN(100))
		switch n := rnd.IntN(20); {
		case n < 10:
			v := fmt.Sprint(rnd.IntN(1000))
			require.NoError(e, txn.Set(e.key("%s", k), []byte(v)))
			model[k] = v
		case n < 16:
			require.NoError(e, txn.Delete(e.key("%s", k)))
			delete(model, k)
		case n < 18:
			stack = append(stack, saved{txn.Checkpoint(), maps.Clone(model)})
		case len(stack) > 0:
			i := rnd.IntN(len(stack))
			txn.RevertTo(stack[i].at)
			model = maps.Clone(stack[i].model)
			stack = stack[:i+1]
		}
		require.Equal(e, model[k], e.get(txn, k))
	}
	require.Equal(e, sorted(model), e.list(txn, e.space(), false))
	require.NoError(e, txn.Commit(e.ctx()))
	require.Equal(e, sorted(model), e.list(e.begin(), e.space(), false))
}

// sorted lists a model in key order.
func sorted(model map[string]string) []pair {
	var out []pair
	for _, k := range slices.Sorted(maps.Keys(model)) {
		out = append(out, pair{k, model[k]})
	}
	return out
}

func testCommitCheck(e *env) {
	txn := e.begin()
	txn.SetCommitCheck(func(uint64) error { return errors.New("must not be called") })
	require.NoError(e, txn.Commit(e.ctx()), "the check runs without writes")

	refused := errors.New("refused")
	txn = e.begin()
	require.NoError(e, txn.Set(e.key("a"), []byte("1")))
	txn.SetCommitCheck(func(uint64) error { return refused })
	require.ErrorIs(e, txn.Commit(e.ctx()), refused)
	require.Zero(e, txn.CommitTS())
	require.Empty(e, e.list(e.snapshot(e.now()), e.space(), false))

	var checked uint64
	txn = e.begin()
	require.NoError(e, txn.Set(e.key("a"), []byte("1")))
	txn.SetCommitCheck(func(ts uint64) error { checked = ts; return nil })
	require.NoError(e, txn.Commit(e.ctx()))
	require.Equal(e, txn.CommitTS(), checked)
}

func testCancelledCommit(e *env) {
	ctx, cancel := context.WithCancel(e.ctx())
	txn := e.begin()
	require.NoError(e, txn.Set(e.key("a"), []byte("1")))
	cancel()
	require.ErrorIs(e, txn.Commit(ctx), context.Canceled)
	require.Empty(e, e.list(e.begin(), e.space(), false))
}

func testRetryingCounter(e *env) {
	const workers, rounds = 4, 25
	parallel(e, workers, func(int) error {
		for range rounds {
			err := kv.Retrying(e.ctx(), e.store, func(ctx context.Context, txn kv.Txn) error {
				n := 0
				v, err := txn.Get(ctx, e.key("n"))
				if err == nil {
					_, err = fmt.Sscan(string(v), &n)
				} else if errors.Is(err, kv.ErrNotExist) {
					err = nil
				}
				if err != nil {
					return err
				}
				return txn.Set(e.key("n"), fmt.Append(nil, n+1))
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.Equal(e, fmt.Sprint(workers*rounds), e.get(e.begin(), "n"))
}

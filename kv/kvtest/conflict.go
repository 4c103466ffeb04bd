package kvtest

import (
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// write is one step of a transaction in a conflict test.
type write func(*env, kv.Txn)

func set(key string, flags ...kv.KeyFlag) write {
	return func(e *env, txn kv.Txn) { require.NoError(e, txn.Set(e.key("%s", key), []byte("v"), flags...)) }
}

func del(key string, flags ...kv.KeyFlag) write {
	return func(e *env, txn kv.Txn) { require.NoError(e, txn.Delete(e.key("%s", key), flags...)) }
}

func lock(key string) write {
	return func(e *env, txn kv.Txn) { require.NoError(e, txn.LockKeys(e.key("%s", key))) }
}

func read(key string) write {
	return func(e *env, txn kv.Txn) { e.get(txn, key) }
}

// conflictCase has two transactions that overlap; the first commits first.
type conflictCase struct {
	name          string
	first, second []write
	conflict      string // the key the second fails on, "" if it commits
}

func (c conflictCase) run(e *env) {
	e.put(map[string]string{"old": "1", c.name + "/old": "1"})
	first, second := e.begin(), e.begin()
	for _, w := range c.first {
		w(e, first)
	}
	for _, w := range c.second {
		w(e, second)
	}
	require.NoError(e, first.Commit(e.ctx()), c.name)
	err := second.Commit(e.ctx())
	if c.conflict == "" {
		require.NoError(e, err, c.name)
	} else {
		e.requireConflict(err, c.conflict, second.StartTS())
		require.True(e, kv.IsWriteConflict(err))
	}
	// A transaction that begins afterwards is not affected.
	third := e.begin()
	for _, w := range c.second {
		w(e, third)
	}
	require.NoError(e, third.Commit(e.ctx()), c.name)
}

func testWriteConflicts(e *env) {
	for _, c := range []conflictCase{
		{"set-set", []write{set("k")}, []write{set("k")}, "k"},
		{"set-delete", []write{set("k")}, []write{del("k")}, "k"},
		{"delete-set", []write{del("k")}, []write{set("k")}, "k"},
		{"delete-delete of nothing", []write{del("nothing")}, []write{del("nothing")}, "nothing"},
		{"one of many", []write{set("a"), set("k")}, []write{set("j"), set("k"), set("l")}, "k"},
		{"other keys", []write{set("a"), set("c")}, []write{set("b"), set("d")}, ""},
		{"prefix is another key", []write{set("p")}, []write{set("pp")}, ""},
		{"reads do not conflict", []write{set("k")}, []write{read("k"), set("other")}, ""},
		{"existing key", []write{set("old")}, []write{set("old")}, "old"},
	} {
		c.run(e)
	}
}

func testLockConflicts(e *env) {
	for _, c := range []conflictCase{
		{"write-lock", []write{set("k1")}, []write{lock("k1")}, "k1"},
		{"write-lock with writes", []write{set("k2")}, []write{lock("k2"), set("x2")}, "k2"},
		{"lock-write", []write{lock("k3")}, []write{set("k3")}, "k3"},
		{"lock-write with writes", []write{lock("k4"), set("x4")}, []write{set("k4")}, "k4"},
		{"lock-lock", []write{lock("k5"), set("x5")}, []write{lock("k5"), set("y5")}, "k5"},
		{"lock-delete", []write{lock("k6")}, []write{del("k6")}, "k6"},
		{"other keys", []write{lock("k7")}, []write{lock("l7"), set("m7")}, ""},
		{"lock-unchecked write", []write{lock("k8")}, []write{set("k8", kv.NoConflictCheck)}, ""},
		{"lock twice, write too", []write{lock("k9"), lock("k9"), set("k9")}, []write{set("k9")}, "k9"},
	} {
		c.run(e)
	}
	// A lock leaves no value behind, and a rolled back one no conflict.
	require.Equal(e, "", e.get(e.begin(), "k1"+"/none"))
	first, second := e.begin(), e.begin()
	require.NoError(e, first.LockKeys(e.key("r")))
	require.NoError(e, first.Rollback())
	require.NoError(e, second.Set(e.key("r"), []byte("1")))
	require.NoError(e, second.Commit(e.ctx()))
}

// testManyLocks locks more keys than a driver may want to remember: an old
// transaction must not get past any of them.
func testManyLocks(e *env) {
	const n = 20000
	old := e.begin()
	require.NoError(e, old.Set(e.key("lock-%05d", 7), []byte("1")))
	for i := 0; i < n; i += 1000 {
		txn := e.begin()
		for k := range 1000 {
			require.NoError(e, txn.LockKeys(e.key("lock-%05d", i+k)))
		}
		require.NoError(e, txn.Commit(e.ctx()))
	}
	require.True(e, kv.IsWriteConflict(old.Commit(e.ctx())))
	fresh := e.begin()
	require.NoError(e, fresh.Set(e.key("lock-%05d", 7), []byte("1")))
	require.NoError(e, fresh.Commit(e.ctx()))
}

func testNoConflictCheck(e *env) {
	const unchecked = kv.NoConflictCheck
	for _, c := range []conflictCase{
		{"both unchecked", []write{set("k1", unchecked)}, []write{set("k1", unchecked)}, ""},
		{"unchecked after checked", []write{set("k2")}, []write{set("k2", unchecked)}, ""},
		{"checked after unchecked", []write{set("k3", unchecked)}, []write{set("k3")}, "k3"},
		{"unchecked delete", []write{set("k4")}, []write{del("k4", unchecked)}, ""},
		{"unchecked, then checked", []write{set("k5")}, []write{set("k5", unchecked), set("k5")}, "k5"},
		{"checked, then unchecked", []write{set("k6")}, []write{set("k6"), del("k6", unchecked)}, "k6"},
		{"unchecked and locked", []write{set("k7")}, []write{set("k7", unchecked), lock("k7")}, "k7"},
		{"beside a checked key", []write{set("k8", unchecked), set("r8")}, []write{set("k8", unchecked), set("r8")}, "r8"},
	} {
		c.run(e)
	}
}

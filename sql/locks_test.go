package sql_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/kv"
	"fastddl/sql"
)

// lateLocks is a store with a lock of each index entry of a table, as TiKV has one if the client of the
// transaction that had locked the key died when it had committed. When it is settled it hides the entry,
// which this store does by deleting it.
type lateLocks struct {
	kv.Store
	e *env
	// left says that the locks are there.
	mu    sync.Mutex
	left  bool
	asked [][]kv.KeyRange
}

// SettleLocks implements kv.LockSettler.
func (s *lateLocks) SettleLocks(ctx context.Context, _ uint64, ranges ...kv.KeyRange) error {
	s.mu.Lock()
	s.asked = append(s.asked, ranges)
	s.mu.Unlock()
	return s.settle(ctx, ranges)
}

// settle makes records of the locks in ranges.
func (s *lateLocks) settle(ctx context.Context, ranges []kv.KeyRange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.left {
		return nil
	}
	s.left = false
	txn, err := s.e.store.Storage().Begin()
	if err != nil {
		return err
	}
	ts, err := s.CurrentTS(ctx)
	if err != nil {
		return err
	}
	snapshot, err := s.Snapshot(ctx, ts)
	if err != nil {
		return err
	}
	defer snapshot.Close()
	for _, r := range ranges {
		iter, err := snapshot.Iter(r)
		if err != nil {
			return err
		}
		for iter.Valid() {
			if err := txn.Delete(bytes.Clone(iter.Key())); err != nil {
				return err
			}
			if err := iter.Next(); err != nil {
				return err
			}
		}
		if err := iter.Close(); err != nil {
			return err
		}
	}
	return txn.Commit(ctx)
}

// newLateLocks opens a store whose locks are left after the import, and settled at the latest when
// the index is public.
func newLateLocks(t *testing.T) (*env, *lateLocks) {
	locks := &lateLocks{}
	e := newEnv(t, func(o *sql.Options) {
		locks.Store = o.Builds
		o.Builds = locks
	})
	locks.e = e
	return e, locks
}

// An entry that is hidden after the import by a lock that the comparison does not see is put back,
// because such locks are made to show before: of unique indexes, in each partition, and of no others.
func TestLocksAreSettledBeforeTheComparison(t *testing.T) {
	e, locks := newLateLocks(t)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT) PARTITION BY HASH (a) PARTITIONS 3")
	c.run("INSERT INTO t VALUES (1,1,1),(2,2,2),(3,3,3),(4,4,4)")
	var entries []kv.KeyRange
	for _, id := range c.run("SELECT tidb_partition_id FROM information_schema.partitions WHERE table_name = 't'") {
		n, err := strconv.ParseInt(id, 10, 64)
		require.NoError(t, err)
		entries = append(entries, kv.PrefixRange(tablecodec.GenTableIndexPrefix(n)))
	}
	e.setHook(func(ctx context.Context, p ddl.HookPoint) error {
		switch {
		case p.When == "before" && p.Action == "change-schema" && p.Step == "drained":
			locks.left = true
		case p.When == "after" && p.Action == "change-schema" && p.Step == "public":
			return locks.settle(ctx, entries)
		}
		return nil
	})
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b, a), ADD INDEX i (c)")
	c.check("t")
	require.Equal(t, "4", c.lastJob("repaired_keys"))
	require.Len(t, locks.asked, 1, "once")
	require.Len(t, locks.asked[0], 4, "of the unique index, in the table and in its partitions")
}

// Locks are not settled for indexes that are not unique: their keys are never locked.
func TestLocksOfPlainIndexesAreNotSettled(t *testing.T) {
	e, locks := newLateLocks(t)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	c.run("INSERT INTO t VALUES (1,1),(2,2)")
	c.run("ALTER TABLE t ADD INDEX i (b)")
	c.check("t")
	require.Empty(t, locks.asked)
}

// shadows is a store with an entry of no row that readers do not see, until what hides it is collected.
type shadows struct {
	kv.Store
	mu sync.Mutex
	// key has the entry while it is not empty.
	key            []byte
	counted, asked int
}

// CountAll implements kv.ShadowFinder.
func (s *shadows) CountAll(ctx context.Context, ranges []kv.KeyRange, ts uint64, columns kv.EntryColumns) (n int64, err error) {
	snap, err := s.Snapshot(ctx, ts)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	for _, r := range ranges {
		part, err := snap.Count(ctx, r)
		if err != nil {
			return 0, err
		}
		n += part
	}
	err = s.find(ctx, ranges, ts, columns, func([]byte) error {
		n++
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted++
	return n, err
}

// Shadowed implements kv.ShadowFinder.
func (s *shadows) Shadowed(ctx context.Context, ranges []kv.KeyRange, ts uint64, columns kv.EntryColumns, fn func(key []byte) error) error {
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	return s.find(ctx, ranges, ts, columns, fn)
}

func (s *shadows) find(ctx context.Context, ranges []kv.KeyRange, ts uint64, columns kv.EntryColumns, fn func(key []byte) error) error {
	if len(s.key) == 0 || !slices.ContainsFunc(ranges, func(r kv.KeyRange) bool { return r.Contains(s.key) }) || columns.Index[0].Name.L != "b" {
		return nil
	}
	// A tombstone over it is newer than what is hidden: that stays unseen.
	deleted := false
	err := s.Store.(kv.ChangeFinder).Changes(ctx, kv.KeyRange{Start: s.key, End: kv.NextKey(s.key)}, 0, ts, func([]byte) error {
		deleted = true
		return nil
	})
	if err != nil || deleted {
		return err
	}
	return fn(s.key)
}

// collect makes the entry seen, if no tombstone has been written over it.
func (s *shadows) collect(ctx context.Context, e *env, ts uint64) error {
	return s.find(ctx, []kv.KeyRange{{Start: s.key, End: kv.NextKey(s.key)}}, ts, kv.EntryColumns{Index: []*model.ColumnInfo{{Name: pmodel.NewCIStr("b")}}}, func(key []byte) error {
		txn, err := e.store.Storage().Begin()
		if err != nil {
			return err
		}
		if err := txn.Set(key, []byte{0, 0, 0, 0, 0, 0, 0, 9}); err != nil {
			return err
		}
		return txn.Commit(ctx)
	})
}

// An entry of no row that readers do not see at T, but will when what hides it has been collected, is
// deleted before the index is published.
func TestShadowedEntriesAreDeleted(t *testing.T) {
	hidden := &shadows{}
	e := newEnv(t, func(o *sql.Options) {
		hidden.Store = o.Builds
		o.Builds = hidden
	})
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT)")
	c.run("INSERT INTO t VALUES (1,1,1),(2,2,2)")
	id, err := strconv.ParseInt(c.one("SELECT tidb_table_id FROM information_schema.tables WHERE table_name = 't'"), 10, 64)
	require.NoError(t, err)
	e.before("compare", "", func() {
		key, err := codec.EncodeKey(time.UTC, tablecodec.EncodeTableIndexPrefix(id, 1), types.NewIntDatum(7))
		require.NoError(t, err)
		hidden.key = key
	})
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b), ADD INDEX i (c)")
	ts, err := hidden.CurrentTS(t.Context())
	require.NoError(t, err)
	require.NoError(t, hidden.collect(t.Context(), e, ts))
	c.check("t")
	require.Equal(t, "1", c.lastJob("repaired_keys"))
	require.Equal(t, 2, hidden.counted, "until the unique index has no more than readers see")
	require.Equal(t, 1, hidden.asked)
}

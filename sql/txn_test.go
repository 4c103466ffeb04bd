package sql_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/kv"
)

func TestTransactions(t *testing.T) {
	n := newNode(t)
	a, b := n.conn(), n.conn()
	a.exec("create table t (id int primary key, v int)")
	a.exec("insert into t values (1, 1)")

	t.Run("isolation", func(t *testing.T) {
		a.exec("begin")
		require.Equal(t, []string{"1"}, a.queryFlat("select v from t where id = 1"))
		b.exec("update t set v = 2 where id = 1")
		require.Equal(t, []string{"1"}, a.queryFlat("select v from t where id = 1"))
		a.exec("commit")
		require.Equal(t, []string{"2"}, a.queryFlat("select v from t where id = 1"))
	})
	t.Run("own writes and rollback", func(t *testing.T) {
		a.exec("begin")
		a.exec("insert into t values (2, 2)")
		require.Equal(t, []string{"1", "2"}, a.queryFlat("select id from t order by id"))
		require.Equal(t, []string{"1"}, b.queryFlat("select id from t"))
		a.exec("rollback")
		require.Equal(t, []string{"1"}, a.queryFlat("select id from t"))
	})
	t.Run("conflict is 1213 and ends the transaction", func(t *testing.T) {
		a.exec("begin")
		a.exec("update t set v = v + 10 where id = 1")
		b.exec("update t set v = v + 1 where id = 1")
		err := a.try("commit")
		requireCode(t, err, 1213, "Deadlock found when trying to get lock; try restarting transaction")
		require.Equal(t, []string{"3"}, a.queryFlat("select v from t where id = 1"))
		// The session is back in autocommit mode.
		a.exec("insert into t values (3, 3)")
		require.Equal(t, []string{"3"}, b.queryFlat("select v from t where id = 3"))
	})
	t.Run("savepoints", func(t *testing.T) {
		a.exec("begin")
		a.exec("savepoint s0")
		a.exec("insert into t values (10, 0)")
		a.exec("savepoint s1")
		a.exec("insert into t values (11, 0)")
		a.exec("savepoint s2")
		a.exec("insert into t values (12, 0)")
		a.exec("rollback to s1")
		require.Equal(t, []string{"10"}, a.queryFlat("select id from t where id >= 10"))
		requireCode(t, a.try("rollback to s2"), 1305, "SAVEPOINT s2 does not exist")
		a.exec("release savepoint s1")
		requireCode(t, a.try("rollback to s1"), 1305, "SAVEPOINT s1 does not exist")
		a.exec("rollback to s0")
		require.Empty(t, a.query("select id from t where id >= 10"))
		a.exec("commit")
	})
	t.Run("autocommit off", func(t *testing.T) {
		a.exec("set autocommit = 0")
		a.exec("insert into t values (20, 0)")
		require.Empty(t, b.query("select * from t where id = 20"))
		a.exec("commit")
		require.Len(t, b.query("select * from t where id = 20"), 1)
		a.exec("insert into t values (21, 0)")
		a.exec("set autocommit = 1")
		require.Len(t, b.query("select * from t where id = 21"), 1, "switching autocommit on commits")
	})
	t.Run("read only", func(t *testing.T) {
		a.exec("start transaction read only")
		requireCode(t, a.try("insert into t values (30, 0)"), 1792, "READ ONLY transaction")
		a.exec("commit")
	})
	t.Run("a failed statement leaves the transaction", func(t *testing.T) {
		a.exec("begin")
		a.exec("insert into t values (40, 0)")
		requireCode(t, a.try("insert into t values (41, 0), (40, 0)"), 1062, "40")
		a.exec("commit")
		require.Equal(t, []string{"40"}, b.queryFlat("select id from t where id >= 40"))
	})
	t.Run("a failed autocommit statement leaves no transaction", func(t *testing.T) {
		requireCode(t, a.try("insert into t values (1, 0)"), 1062, "1")
		b.exec("update t set v = 77 where id = 1")
		require.Equal(t, []string{"77"}, a.queryFlat("select v from t where id = 1"))
	})
	t.Run("ddl commits", func(t *testing.T) {
		a.exec("begin")
		a.exec("insert into t values (50, 0)")
		a.exec("create table other (id int primary key)")
		require.Len(t, b.query("select * from t where id = 50"), 1)
		a.exec("insert into t values (51, 0)")
		require.Len(t, b.query("select * from t where id = 51"), 1, "autocommit is on again")
	})
}

func TestAutocommitConflictsAreRetried(t *testing.T) {
	n := newNode(t)
	// Eight sessions can fail one of theirs many times in a row.
	_, _, err := n.globals.Set(config.RetryLimit, "1000")
	require.NoError(t, err)
	c := n.conn()
	c.exec("create table t (id int primary key, v int)")
	c.exec("insert into t values (1, 0)")
	const workers, each = 8, 25
	var wg sync.WaitGroup
	errs := make(chan error, workers)
	for w := range workers {
		conn := n.connWith(fmt.Sprintf("interpolateParams=%t", w%2 == 0))
		wg.Go(func() {
			for range each {
				if err := conn.try("update t set v = v + ? where id = 1", 1); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, []string{fmt.Sprint(workers * each)}, c.queryFlat("select v from t"))
}

func TestRetryLimit(t *testing.T) {
	n := newNode(t)
	_, _, err := n.globals.Set(config.RetryLimit, "0")
	require.NoError(t, err)
	c := n.conn()
	c.exec("create table t (id int primary key, v int)")
	c.exec("insert into t values (1, 0)")
	conns := []*conn{n.conn(), n.conn()}
	for range 2000 {
		var wg sync.WaitGroup
		errs := make(chan error, len(conns))
		for _, conn := range conns {
			wg.Go(func() { errs <- conn.try("update t set v = v + 1 where id = 1") })
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				requireCode(t, err, 1213, "Deadlock")
				return
			}
		}
	}
	t.Skip("two sessions never collided")
}

func TestLockingReads(t *testing.T) {
	n := newNode(t)
	for _, prepared := range []bool{false, true} {
		t.Run(fmt.Sprintf("prepared %t", prepared), func(t *testing.T) {
			a, b := n.connWith(fmt.Sprintf("interpolateParams=%t", !prepared)), n.conn()
			a.exec("drop table if exists t")
			a.exec("create table t (id int primary key, v int)")
			a.exec("insert into t values (1, 1), (2, 2)")
			for _, clause := range []string{"for update", "lock in share mode"} {
				a.exec("begin")
				require.Equal(t, []string{"1"}, a.queryFlat("select v from t where id = ? "+clause, 1))
				b.exec("update t set v = v + 1 where id = 2")
				a.exec("insert into t values (3, 3)")
				a.exec("commit")

				a.exec("begin")
				a.query("select v from t where id = ? "+clause, 1)
				b.exec("update t set v = v + 1 where id = 1")
				a.exec("delete from t where id = 3")
				requireCode(t, a.try("commit"), 1213, "Deadlock")

				a.exec("begin")
				a.query("select v from t where id = ?", 1)
				b.exec("update t set v = 1 where id = 1")
				a.exec("delete from t where id = 3")
				a.exec("commit")
			}
		})
	}
}

// addColumn adds a public column as a finished job would have.
func addColumn(info *model.TableInfo, name string) {
	col := &model.ColumnInfo{
		ID: info.MaxColumnID + 1, Name: pmodel.NewCIStr(name), Offset: len(info.Columns), State: model.StatePublic,
		FieldType: *types.NewFieldType(mysql.TypeLong),
	}
	info.MaxColumnID++
	info.Columns = append(info.Columns, col)
}

// addIndex adds an index on the second column in some state.
func addIndex(state model.SchemaState) func(info *model.TableInfo) {
	return func(info *model.TableInfo) {
		for _, idx := range info.Indices {
			if idx.Name.L == "v" {
				idx.State = state
				return
			}
		}
		info.MaxIndexID++
		info.Indices = append(info.Indices, &model.IndexInfo{
			ID: info.MaxIndexID, Name: pmodel.NewCIStr("v"), State: state,
			Columns: []*model.IndexColumn{{Name: info.Columns[1].Name, Offset: 1, Length: types.UnspecifiedLength}},
		})
	}
}

func TestSchemaChangesUnderTransactions(t *testing.T) {
	n := newNode(t)
	a, b := n.conn(), n.conn()
	reset := func() {
		a.exec("drop table if exists t")
		a.exec("create table t (id int primary key, v int)")
		a.exec("insert into t values (1, 1)")
	}
	t.Run("reader keeps its schema", func(t *testing.T) {
		reset()
		a.exec("begin")
		require.Equal(t, [][]string{{"1", "1"}}, a.query("select * from t"))
		n.change("t", func(info *model.TableInfo) { addColumn(info, "w") })
		require.Equal(t, [][]string{{"1", "1"}}, a.query("select * from t"))
		require.Equal(t, [][]string{{"1", "1", "<nil>"}}, b.query("select * from t"))
		a.exec("commit")
		require.Equal(t, [][]string{{"1", "1", "<nil>"}}, a.query("select * from t"))
	})
	t.Run("first write with another row layout fails with 8028", func(t *testing.T) {
		reset()
		a.exec("begin")
		a.query("select * from t")
		n.change("t", func(info *model.TableInfo) { addColumn(info, "w") })
		requireCode(t, a.try("insert into t values (2, 2)"), 8028, "schema is changed")
		a.exec("rollback")
		a.exec("insert into t values (2, 2, 2)")
	})
	t.Run("first write binds to the current version", func(t *testing.T) {
		reset()
		a.exec("begin")
		a.query("select * from t")
		n.change("t", addIndex(model.StateWriteOnly))
		a.exec("insert into t values (2, 2)")
		a.exec("update t set v = 10 where id = 1")
		a.exec("commit")
		n.change("t", addIndex(model.StatePublic))
		require.Equal(t, []string{"1"}, b.queryFlat("select id from t where v = 10"))
		require.Equal(t, []string{"2"}, b.queryFlat("select id from t where v = 2"))
	})
	t.Run("an index is not read before it is public", func(t *testing.T) {
		reset()
		for _, state := range []model.SchemaState{model.StateDeleteOnly, model.StateWriteOnly, model.StateWriteReorganization} {
			n.change("t", addIndex(state))
			require.Equal(t, []string{"1"}, a.queryFlat("select id from t where v = 1"), "%s", state)
		}
	})
	t.Run("own writes are seen when the index is being dropped", func(t *testing.T) {
		reset()
		n.change("t", addIndex(model.StatePublic))
		a.exec("insert into t values (3, 3)")
		a.exec("begin")
		require.Equal(t, []string{"3"}, a.queryFlat("select id from t where v = 3"))
		n.change("t", addIndex(model.StateDeleteOnly))
		a.exec("insert into t values (4, 4)")
		require.Equal(t, []string{"4"}, a.queryFlat("select id from t where v = 4"))
		a.exec("commit")
	})
	t.Run("writers hold the owner up, readers do not", func(t *testing.T) {
		reset()
		id := tableID(n, "t")
		a.exec("begin")
		a.query("select * from t")
		n.change("t", addIndex(model.StateDeleteOnly))
		require.NoError(t, waitFor(n, id, 50*time.Millisecond))
		a.exec("insert into t values (2, 2)")
		n.change("t", addIndex(model.StateWriteOnly))
		require.Error(t, waitFor(n, id, 50*time.Millisecond))
		b.exec("insert into t values (3, 3)")
		require.Error(t, waitFor(n, id, 50*time.Millisecond), "the writer before still holds")
		a.exec("commit")
		require.NoError(t, waitFor(n, id, time.Second))
	})
	t.Run("a connection that goes away frees the lock", func(t *testing.T) {
		reset()
		id := tableID(n, "t")
		gone := n.conn()
		gone.exec("begin")
		gone.exec("insert into t values (2, 2)")
		n.change("t", addIndex(model.StateDeleteOnly))
		require.Error(t, waitFor(n, id, 30*time.Millisecond))
		require.NoError(t, gone.Close())
		gone.db.Close()
		require.NoError(t, waitFor(n, id, 5*time.Second))
	})
	t.Run("kill frees the lock and the view names the blocker", func(t *testing.T) {
		reset()
		id := tableID(n, "t")
		blocker := n.conn()
		connID := blocker.queryFlat("select connection_id()")[0]
		blocker.exec("begin")
		blocker.exec("insert into t values (2, 2)")
		n.change("t", addIndex(model.StateDeleteOnly))
		waited := make(chan error, 1)
		go func() { waited <- waitFor(n, id, 10*time.Second) }()
		require.Eventually(t, func() bool { return len(b.query("select * from mysql.tidb_mdl_view")) == 1 }, 5*time.Second, 5*time.Millisecond)
		row := b.query("select table_name, query, session_id, sql_digests from mysql.tidb_mdl_view where job_id = 7")[0]
		require.Equal(t, []string{"t", "alter table t ...", connID, "insert into t values (2, 2)"}, row)
		b.exec("use mysql")
		require.Len(t, b.query("select * from tidb_mdl_view"), 1)
		b.exec("use test")
		b.exec("kill " + connID)
		require.NoError(t, <-waited)
		require.Error(t, blocker.try("commit"))
		require.Equal(t, []string{"1"}, b.queryFlat("select id from t"))
	})
	t.Run("metadata lock off fails at commit", func(t *testing.T) {
		reset()
		b.exec("set global tidb_enable_metadata_lock = off")
		defer b.exec("set global tidb_enable_metadata_lock = on")
		a.exec("begin")
		a.exec("insert into t values (2, 2)")
		n.change("t", addIndex(model.StateDeleteOnly))
		requireCode(t, a.try("commit"), 8028, "schema is changed")
		require.Equal(t, []string{"1"}, b.queryFlat("select id from t"))
	})
}

// beginStore lets things happen around the beginning of the next transaction.
type beginStore struct {
	kv.Store
	before, after atomic.Pointer[func()]
}

func (s *beginStore) Begin(ctx context.Context) (kv.Txn, error) {
	if fn := s.before.Swap(nil); fn != nil {
		(*fn)()
	}
	after := s.after.Swap(nil)
	txn, err := s.Store.Begin(ctx)
	if after != nil {
		(*after)()
	}
	return txn, err
}

// I5: no schema is published between the one that a transaction takes and its
// snapshot.
func TestSchemaAndSnapshotBelongTogether(t *testing.T) {
	store := &beginStore{Store: openStore(t, vfs.NewMem())}
	n := &node{t: t, store: store}
	n.start((*node).directParts)
	reader, writer := n.conn(), n.conn()
	writer.exec("create table t (id int primary key, v int)")
	writer.exec("insert into t values (1, 1)")

	// The entries of the index are newer than the snapshot.
	publish := func() {
		n.change("t", addIndex(model.StateWriteOnly))
		writer.exec("update t set v = 2")
		writer.exec("update t set v = 1")
		n.change("t", addIndex(model.StatePublic))
	}
	store.after.Store(&publish)
	require.Equal(t, []string{"1"}, reader.queryFlat("select id from t where v = 1"))
	require.Nil(t, store.after.Load())

	// Nobody maintains the index any more when the snapshot is taken.
	drop := func() {
		n.change("t", addIndex(model.StateDeleteOnly))
		writer.exec("insert into t values (2, 1)")
	}
	store.before.Store(&drop)
	require.Equal(t, []string{"1", "2"}, reader.queryFlat("select id from t where v = 1 order by id"))
	require.Nil(t, store.before.Load())
}

func tableID(n *node, name string) int64 {
	t, ok := n.catalog.Current().Table("test", name)
	require.True(n.t, ok)
	return t.Info.ID
}

// waitFor waits as the DDL owner does after publishing the current version.
func waitFor(n *node, tableID int64, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	t, _ := n.catalog.Current().TableByID(tableID)
	return n.locks.Wait(ctx, 7, tableID, t.SchemaVersion, nil)
}

// Statements run again over a changing schema until they fit it.
func TestStatementsUnderSchemaChanges(t *testing.T) {
	n := newNode(t)
	c := n.conn()
	c.exec("create table t (id int primary key auto_increment, v int)")
	stop := make(chan struct{})
	failed := make(chan error, 3)
	var wg sync.WaitGroup
	for range 3 {
		conn := n.conn()
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				err := conn.try("insert into t (v) values (?)", i)
				if err == nil {
					err = conn.try("update t set v = v + 1 where id = ?", i)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for i := range 30 {
		n.change("t", func(info *model.TableInfo) { addColumn(info, fmt.Sprintf("w%d", i)) })
		time.Sleep(2 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
}

// go-mysql-server completes a statement that was killed between two rows.
func TestKilledStatementIsDiscarded(t *testing.T) {
	n := newNode(t)
	c := n.conn()
	c.exec("create table t (id int primary key, v int)")
	s := n.session()
	_, _, err := n.engine.Query(context.Background(), s, "begin")
	require.NoError(t, err)
	_, _, err = n.engine.Query(context.Background(), s, "insert into t values (1, 1)")
	require.NoError(t, err)

	killed, kill := context.WithCancel(context.Background())
	ctx := gms.NewContext(killed, gms.WithSession(s))
	table, _, err := n.engine.GMS().Analyzer.Catalog.Table(ctx, "test", "t")
	require.NoError(t, err)
	inserter := table.(gms.InsertableTable).Inserter(ctx)
	inserter.StatementBegin(ctx)
	require.NoError(t, inserter.Insert(ctx, gms.Row{int32(2), int32(2)}))
	kill()
	require.ErrorIs(t, inserter.StatementComplete(ctx), context.Canceled)
	require.NoError(t, inserter.Close(ctx))
	s.CommandEnd()

	_, _, err = n.engine.Query(context.Background(), s, "commit")
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, c.queryFlat("select id from t"))
}

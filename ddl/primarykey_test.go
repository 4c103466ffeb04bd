package ddl

import (
	"context"
	"errors"
	"fmt"
	"testing"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/check"
	"fastddl/kv"
	"fastddl/table"
)

// keyEnv is a table p of rows (a = i, b = i % 3, c = "row i"), i and the row ID
// from 1 to 20, all columns nullable, with the real backfill; at calls what is
// registered for a point in the life of a job, once; what runs there must not end
// its goroutine, which is the job's.
type keyEnv struct {
	*env
	at map[string]func()
}

func newKeyEnv(t *testing.T) *keyEnv {
	e := &keyEnv{env: newEnv(t), at: map[string]func(){}}
	e.must("create table p (a int, b int, c varchar(20), key b (b))")
	for i := range int64(20) {
		e.txn(func(txn kv.Txn, tbl *table.Table) { assert.NoError(t, e.add(txn, tbl, i+1, i+1, (i+1)%3)) })
	}
	e.restart(nil)
	return e
}

func (e *keyEnv) restart(hook func(p HookPoint) error) {
	e.env.restart(func(o *Options) {
		o.Backfiller = NewBackfiller(backfill.Options{Store: e.store, Globals: e.globals, Bus: e.bus})
		o.Hook = func(_ context.Context, p HookPoint) error {
			if fn := e.at[p.String()]; fn != nil {
				delete(e.at, p.String())
				fn()
			}
			if hook != nil {
				return hook(p)
			}
			return nil
		}
	})
}

func (e *keyEnv) txn(fn func(txn kv.Txn, tbl *table.Table)) {
	e.t.Helper()
	commit, _ := e.write("p", fn)
	assert.NoError(e.t, commit())
}

// row is a row of p; a and b may be nil.
func row(id int64, a, b any) []types.Datum { return datums(a, b, fmt.Sprintf("row %d", id)) }

func (e *keyEnv) add(txn kv.Txn, tbl *table.Table, id int64, a, b any) error {
	_, err := tbl.AddRecord(context.Background(), txn, row(id, a, b), table.AddOptions{RowID: id})
	return err
}

func (e *keyEnv) update(txn kv.Txn, tbl *table.Table, id int64, from, to []types.Datum) error {
	_, err := tbl.UpdateRecord(context.Background(), txn, tkv.IntHandle(id), from, to)
	return err
}

// requireConsistent compares all public indexes with the rows.
func (e *keyEnv) requireConsistent() {
	e.t.Helper()
	ts, err := e.store.CurrentTS(context.Background())
	require.NoError(e.t, err)
	require.NoError(e.t, check.Table(context.Background(), e.store, e.table("p"), ts, check.Options{}))
}

// requireUndone checks that nothing is left of an index with the given ID.
func (e *keyEnv) requireUndone(id int64) {
	e.t.Helper()
	info := e.table("p").Info
	require.Nil(e.t, info.FindIndexByName("primary"))
	for _, col := range info.Columns {
		require.Zero(e.t, col.GetFlag()&(mysql.PreventNullInsertFlag|mysql.NotNullFlag|mysql.PriKeyFlag), col.Name.O)
	}
	require.Zero(e.t, e.entries(table.IndexRange(info.ID, id)))
	require.Zero(e.t, e.entries(table.MarkerRange(info.ID, id)))
	e.requireNoTrace()
	e.requireConsistent()
}

func TestAddPrimaryKey(t *testing.T) {
	for _, fast := range []string{"ON", "OFF"} {
		t.Run("fast_reorg="+fast, func(t *testing.T) {
			e := newKeyEnv(t)
			_, _, err := e.globals.Set("tidb_ddl_enable_fast_reorg", fast)
			require.NoError(t, err)
			e.must("alter table p add constraint whatever primary key (b, a) nonclustered")
			require.Equal(t, "add primary key", e.jobs()[0].Type)
			info := e.table("p").Info
			pk := info.FindIndexByName("primary")
			require.Equal(t, model.StatePublic, pk.State)
			require.True(t, pk.Primary && pk.Unique)
			require.False(t, info.PKIsHandle || info.IsCommonHandle)
			require.Equal(t, 20, e.entries(table.IndexRange(info.ID, pk.ID)))
			for i, want := range []uint{
				mysql.NotNullFlag | mysql.PriKeyFlag | mysql.NoDefaultValueFlag,
				mysql.NotNullFlag | mysql.PriKeyFlag | mysql.NoDefaultValueFlag | mysql.MultipleKeyFlag,
				0,
			} {
				require.Equal(t, want, info.Columns[i].GetFlag()&^mysql.BinaryFlag, info.Columns[i].Name.O)
			}
			e.requireConsistent()
			e.requireNoTrace()
			e.txn(func(txn kv.Txn, tbl *table.Table) {
				assert.EqualError(t, e.add(txn, tbl, 30, 20, 2), "Duplicate entry '2-20' for key 'p.PRIMARY'")
				assert.NoError(t, e.add(txn, tbl, 30, 20, 1))
			})

			e.must("alter table p drop primary key")
			info = e.table("p").Info
			require.Nil(t, info.FindIndexByName("primary"))
			require.True(t, mysql.HasNotNullFlag(info.Columns[0].GetFlag()), "the columns stay NOT NULL")
			require.False(t, mysql.HasPriKeyFlag(info.Columns[0].GetFlag()))
			e.requireConsistent()
		})
	}
}

func TestAddPrimaryKeyErrors(t *testing.T) {
	e := newKeyEnv(t)
	e.must("create table i (a int primary key, b int)", "create table c (a int, b int, primary key (a, b))",
		"create table n (a int, b int, primary key (a) nonclustered)")
	for _, tc := range []struct {
		sql  string
		code int
		text string
	}{
		{"alter table p add primary key (a) clustered", 8200, "Adding clustered primary key is not supported. Please consider adding NONCLUSTERED primary key instead"},
		{"alter table i add primary key (b)", 1068, "Multiple primary key defined"},
		{"alter table c add primary key (b)", 1068, "Multiple primary key defined"},
		{"alter table n add primary key (b)", 1068, "Multiple primary key defined"},
		{"alter table p add primary key (a), add primary key (b)", 1068, "Multiple primary key defined"},
		{"alter table i drop primary key", 8200, "Unsupported drop primary key when the table is using clustered index"},
		{"alter table c drop primary key, add primary key (b)", 8200, "Unsupported drop primary key when the table is using clustered index"},
		{"alter table p drop primary key", 1091, "Can't DROP 'PRIMARY'; check that column/key exists"},
		{"alter table p add primary key ((a + 1))", 3756, "The primary key cannot be an expression index"},
		{"alter table p add primary key (a) invisible", 3522, "A primary key index cannot be invisible"},
		{"alter table p add primary key (nope)", 1072, "Key column 'nope' doesn't exist in table"},
		{"alter table p add primary key (a, a)", 1060, "Duplicate column name 'a'"},
		{"alter table p add primary key (a(3))", 1089, ""},
		{"alter table p add index a (a) clustered", 8200, "CLUSTERED/NONCLUSTERED keyword is only supported for primary key"},
		{"alter table p add column d int null, add primary key (d)", 1171, ""},
	} {
		e.requireCode(e.exec(tc.sql), tc.code, tc.text)
	}
	e.requireUndone(2)
}

// A NULL at S fails the job, wherever the row lies.
func TestAddPrimaryKeyFindsNulls(t *testing.T) {
	for _, fast := range []string{"ON", "OFF"} {
		t.Run("fast_reorg="+fast, func(t *testing.T) {
			e := newKeyEnv(t)
			_, _, err := e.globals.Set("tidb_ddl_enable_fast_reorg", fast)
			require.NoError(t, err)
			e.txn(func(txn kv.Txn, tbl *table.Table) { assert.NoError(t, e.add(txn, tbl, 21, 21, nil)) })
			// The row may be changed while the job does not know of it yet.
			e.at["before take-snapshot snapshot"] = func() {
				e.txn(func(txn kv.Txn, tbl *table.Table) {
					assert.NoError(t, e.update(txn, tbl, 21, row(21, 21, nil), row(21, 22, nil)))
				})
			}
			e.requireCode(e.exec("alter table p add primary key (a, b), add index c (c)"), 1138, "Invalid use of NULL value")
			require.Equal(t, "rollback done", e.jobs()[0].State)
			require.Zero(t, e.jobs()[0].ErrorCount-1, "it is not tried again")
			e.requireUndone(2)
			e.requireUndone(3)
			e.must("alter table p add primary key (a)")
			e.requireConsistent()
		})
	}
}

// From write-only on nobody brings a NULL into the key, so that there is none
// after S that was not there at S.
func TestAddPrimaryKeyTakesNoNewNulls(t *testing.T) {
	e := newKeyEnv(t)
	var null *table.NullError
	for _, point := range []string{
		"after change-schema write-only", "after change-schema write-reorg", "after take-snapshot snapshot",
		"after backfill backfilled", "after change-schema complete", "after check-unique unique",
	} {
		e.at[point] = func() {
			_, rollback := e.write("p", func(txn kv.Txn, tbl *table.Table) {
				assert.ErrorAs(t, e.add(txn, tbl, 30, nil, 3), &null, point)
				assert.ErrorAs(t, e.update(txn, tbl, 3, row(3, 3, 0), row(3, 3, nil)), &null, point)
				assert.NoError(t, e.update(txn, tbl, 3, row(3, 3, 0), row(3, 3, 5)), point)
			})
			rollback()
		}
	}
	e.must("alter table p add primary key (a, b)")
	require.Empty(t, e.at)
	e.requireConsistent()
}

// NULLs of transactions that know nothing of the key yet are at S.
func TestAddPrimaryKeyFindsNullsOfOldTransactions(t *testing.T) {
	for _, point := range []string{"before change-schema delete-only", "after change-schema delete-only"} {
		t.Run(point, func(t *testing.T) {
			e := newKeyEnv(t)
			var commit func() error
			e.at[point] = func() {
				commit, _ = e.write("p", func(txn kv.Txn, tbl *table.Table) { assert.NoError(t, e.add(txn, tbl, 30, nil, 3)) })
			}
			done := e.async(context.Background(), "alter table p add primary key (a)")
			waitFor(t, "the job waits for the transaction", func() bool { return len(e.locks.Blockers()) == 1 })
			require.NoError(t, commit())
			e.requireCode(<-done, 1138, "")
			e.requireUndone(2)
		})
	}
}

func TestAddPrimaryKeyFindsDuplicates(t *testing.T) {
	e := newKeyEnv(t)
	e.requireCode(e.exec("alter table p add primary key (b)"), 1062, "")
	e.requireUndone(2)
	for i, point := range []string{"before take-snapshot snapshot", "before backfill backfilled"} {
		e.at[point] = func() {
			e.txn(func(txn kv.Txn, tbl *table.Table) { assert.NoError(t, e.add(txn, tbl, 30, 7, 0)) })
		}
		e.requireCode(e.exec("alter table p add primary key (a)"), 1062, "Duplicate entry '7' for key 'p.PRIMARY'")
		e.requireUndone(int64(3 + i))
		e.txn(func(txn kv.Txn, tbl *table.Table) {
			assert.NoError(t, tbl.RemoveRecord(context.Background(), txn, tkv.IntHandle(30), row(30, 7, 0)))
		})
	}
	e.must("alter table p add primary key (a)")
	e.requireConsistent()
}

// One statement changes the primary key for another, in one version, and all
// new indexes are built by one scan.
func TestReplacePrimaryKey(t *testing.T) {
	e := newKeyEnv(t)
	e.must("alter table p add primary key (a)")
	old := e.table("p").Info.FindIndexByName("primary").ID
	e.at["before change-schema switched"] = func() {
		e.txn(func(txn kv.Txn, tbl *table.Table) {
			assert.EqualError(t, e.add(txn, tbl, 30, 7, 0), "Duplicate entry '7' for key 'p.PRIMARY'", "the old key is in force")
		})
	}
	e.at["after change-schema switched"] = func() {
		e.txn(func(txn kv.Txn, tbl *table.Table) {
			assert.EqualError(t, e.add(txn, tbl, 30, 31, 0), "Duplicate entry 'row 30' for key 'p.PRIMARY'")
		})
	}
	e.at["before change-schema complete"] = func() {
		e.txn(func(txn kv.Txn, tbl *table.Table) { assert.NoError(t, e.add(txn, tbl, 30, 30, 0)) })
	}
	e.must("alter table p drop primary key, add primary key (c), drop index b, add index b (b, a)")
	require.Empty(t, e.at)
	info := e.table("p").Info
	require.Len(t, info.Indices, 2)
	pk := info.FindIndexByName("primary")
	require.Greater(t, pk.ID, old)
	require.Equal(t, "c", pk.Columns[0].Name.L)
	require.Len(t, info.FindIndexByName("b").Columns, 2)
	require.False(t, mysql.HasPriKeyFlag(info.Columns[0].GetFlag()))
	e.requireConsistent()
}

// A column that comes with the key has its default in all rows.
func TestAddPrimaryKeyOnNewColumn(t *testing.T) {
	e := newKeyEnv(t)
	e.requireCode(e.exec("alter table p add column d int, add primary key (d)"), 1062, "Duplicate entry '0' for key 'p.PRIMARY'")
	e.requireUndone(2)
	require.Len(t, e.table("p").Info.Columns, 3)
	e.must("alter table p add column d int default 5 first, add primary key (a, d)")
	info := e.table("p").Info
	require.Equal(t, "d", info.Columns[0].Name.L)
	require.True(t, mysql.HasNotNullFlag(info.Columns[0].GetFlag()))
	require.Equal(t, 20, e.entries(table.IndexRange(info.ID, info.FindIndexByName("primary").ID)))
	e.requireConsistent()
}

// The process dies before and after each action; the job goes on after the
// restart.
func TestCrashWhileReplacingPrimaryKey(t *testing.T) {
	const statement = "alter table p drop primary key, add primary key (b, a)"
	errCrash := errors.New("crash")
	for _, point := range hookPoints(t, []string{"alter table p add primary key (a)"}, statement) {
		t.Run(point, func(t *testing.T) {
			e := newKeyEnv(t)
			e.must("alter table p add primary key (a)")
			e.restart(func(p HookPoint) error {
				if p.String() == point {
					return errCrash
				}
				return nil
			})
			require.ErrorIs(t, e.exec(statement), errCrash)
			e.restart(nil)
			waitFor(t, "the job ends", func() bool { return e.jobs()[0].State == "synced" })
			info := e.table("p").Info
			require.Len(t, info.FindIndexByName("primary").Columns, 2)
			require.False(t, mysql.HasPreventNullInsertFlag(info.Columns[1].GetFlag()))
			require.True(t, mysql.HasNotNullFlag(info.Columns[1].GetFlag()))
			e.requireConsistent()
			e.requireNoTrace()
		})
	}
}

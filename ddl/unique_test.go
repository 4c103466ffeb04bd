package ddl

import (
	"context"
	"errors"
	"fmt"
	"testing"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/ddl/job"
	"fastddl/kv"
	"fastddl/table"
)

// uniqueEnv is a table t of rows (id, k = id % 7, c = "row id"), 0 to 19, with
// the real backfill; at calls what is registered for an action of a job.
type uniqueEnv struct {
	*env
	at map[job.Action]func()
}

func newUniqueEnv(t *testing.T) *uniqueEnv {
	e := &uniqueEnv{env: newEnv(t), at: map[job.Action]func(){}}
	e.fill(20)
	e.restart(func(o *Options) {
		o.Backfiller = NewBackfiller(backfill.Options{Store: e.store, Globals: e.globals, Bus: e.bus})
		o.Hook = func(_ context.Context, p HookPoint) error {
			if fn := e.at[job.Action(p.Action)]; fn != nil && p.When == "before" {
				delete(e.at, job.Action(p.Action))
				fn()
			}
			return nil
		}
	})
	return e
}

// txn runs one transaction on t.
func (e *uniqueEnv) txn(fn func(txn kv.Txn, tbl *table.Table)) {
	e.t.Helper()
	e.txnOn("t", fn)
}

func (e *uniqueEnv) txnOn(name string, fn func(txn kv.Txn, tbl *table.Table)) {
	e.t.Helper()
	commit, _ := e.write(name, fn)
	require.NoError(e.t, commit())
}

func (e *uniqueEnv) add(txn kv.Txn, tbl *table.Table, row []types.Datum) {
	e.t.Helper()
	_, err := tbl.AddRecord(context.Background(), txn, row, table.AddOptions{})
	require.NoError(e.t, err)
}

func (e *uniqueEnv) remove(txn kv.Txn, tbl *table.Table, row []types.Datum) {
	e.t.Helper()
	require.NoError(e.t, tbl.RemoveRecord(context.Background(), txn, tkv.IntHandle(row[0].GetInt64()), row))
}

func (e *uniqueEnv) requireRefused(err error, text string) {
	e.t.Helper()
	e.requireCode(err, 1062, text)
	require.Empty(e.t, e.table("t").Info.Indices)
	require.Zero(e.t, e.entries(table.IndexRange(e.table("t").Info.ID, 1)))
	require.Zero(e.t, e.entries(table.MarkerRange(e.table("t").Info.ID, 1)))
	e.requireNoTrace()
	require.Equal(e.t, "rollback done", e.jobs()[0].State)
}

func (e *uniqueEnv) requireBuilt(rows int) {
	e.t.Helper()
	idx := e.index("t", "u")
	require.Equal(e.t, model.StatePublic, idx.State)
	require.Equal(e.t, model.BackfillStateInapplicable, idx.BackfillState)
	require.Equal(e.t, rows, e.entries(table.IndexRange(e.table("t").Info.ID, idx.ID)))
	require.Zero(e.t, e.entries(table.MarkerRange(e.table("t").Info.ID, idx.ID)))
	e.requireNoTrace()
}

func TestUniqueIndexFindsDuplicatesInTheSnapshot(t *testing.T) {
	for _, fast := range []string{"ON", "OFF"} {
		e := newUniqueEnv(t)
		_, _, err := e.globals.Set("tidb_ddl_enable_fast_reorg", fast)
		require.NoError(t, err)
		err = e.exec("alter table t add unique index u (k), add index k (k)")
		e.requireCode(err, 1062, "")
		require.Contains(t, err.Error(), "for key 't.u'")
		e.requireRefused(err, err.(interface{ GetMsg() string }).GetMsg())
		e.must("alter table t add unique index u (c, k)")
		e.requireBuilt(20)
	}
}

// A row that comes while the index is built has the value of a row that the
// backfill has not reached.
func TestUniqueIndexFindsDuplicatesOfDML(t *testing.T) {
	for _, when := range []job.Action{job.ActTakeSnapshot, job.ActBackfill} {
		t.Run(string(when), func(t *testing.T) {
			e := newUniqueEnv(t)
			e.at[when] = func() {
				e.txn(func(txn kv.Txn, tbl *table.Table) { e.add(txn, tbl, datums(int64(100), int64(0), "row 7")) })
			}
			e.requireRefused(e.exec("create unique index u on t (c)"), "Duplicate entry 'row 7' for key 't.u'")
		})
	}
}

// A transaction that began before S puts a duplicate that commits after the
// import: its snapshot shows neither the other row's entry nor the marker's need.
func TestUniqueIndexFindsDuplicatesOfOldTransactions(t *testing.T) {
	e := newUniqueEnv(t)
	var commit func() error
	e.at[job.ActTakeSnapshot] = func() {
		commit, _ = e.write("t", func(txn kv.Txn, tbl *table.Table) { e.add(txn, tbl, datums(int64(100), int64(0), "row 7")) })
	}
	e.at[job.ActBackfill] = func() { require.NoError(t, commit()) }
	e.requireRefused(e.exec("create unique index u on t (c)"), "Duplicate entry 'row 7' for key 't.u'")
}

// A transaction that does not know yet that the index is complete leaves its
// marker when the entries have been imported: the markers are looked at after it.
func TestMarkersAreVerifiedWhenNobodyLeavesThem(t *testing.T) {
	e := newUniqueEnv(t)
	commit := func() error { return nil }
	e.at[job.ActBackfill] = func() {
		commit, _ = e.write("t", func(txn kv.Txn, tbl *table.Table) { e.add(txn, tbl, datums(int64(100), int64(0), "row 7")) })
	}
	done := e.async(context.Background(), "create unique index u on t (c)")
	waitFor(t, "the job waits for the transaction", func() bool { return len(e.locks.Blockers()) == 1 })
	require.NoError(t, commit())
	e.requireRefused(<-done, "Duplicate entry 'row 7' for key 't.u'")
}

// Values that change hands legally at any moment of the build are no
// duplicates.
func TestUniqueIndexAllowsValuesToChangeHands(t *testing.T) {
	row := func(id int64, c string) []types.Datum { return datums(id, id%7, c) }
	for _, when := range []job.Action{job.ActTakeSnapshot, job.ActBackfill, job.ActCheckUnique} {
		t.Run(string(when), func(t *testing.T) {
			e := newUniqueEnv(t)
			e.at[when] = func() {
				// In one transaction, and in two.
				e.txn(func(txn kv.Txn, tbl *table.Table) {
					e.remove(txn, tbl, row(3, "row 3"))
					e.add(txn, tbl, row(100, "row 3"))
				})
				e.txn(func(txn kv.Txn, tbl *table.Table) { e.remove(txn, tbl, row(4, "row 4")) })
				e.txn(func(txn kv.Txn, tbl *table.Table) { e.add(txn, tbl, row(101, "row 4")) })
				// A new value that moves on.
				e.txn(func(txn kv.Txn, tbl *table.Table) { e.add(txn, tbl, row(102, "new")) })
				e.txn(func(txn kv.Txn, tbl *table.Table) {
					e.remove(txn, tbl, row(102, "new"))
					e.add(txn, tbl, row(103, "new"))
				})
				// Inserted and gone again.
				e.txn(func(txn kv.Txn, tbl *table.Table) { e.add(txn, tbl, row(104, "short")) })
				e.txn(func(txn kv.Txn, tbl *table.Table) { e.remove(txn, tbl, row(104, "short")) })
			}
			e.must("create unique index u on t (c)")
			e.requireBuilt(21)
		})
	}
}

// A transaction that puts a duplicate, which it cannot see, may not have it when
// it commits.
func TestTransactionsEndWithoutTheDuplicatesTheyPut(t *testing.T) {
	row := func(id int64, c string) []types.Datum { return datums(id, id%7, c) }
	for _, fast := range []string{"ON", "OFF"} {
		for _, when := range []job.Action{job.ActTakeSnapshot, job.ActBackfill} {
			t.Run(fmt.Sprintf("%s fast %s", when, fast), func(t *testing.T) {
				e := newUniqueEnv(t)
				_, _, err := e.globals.Set("tidb_ddl_enable_fast_reorg", fast)
				require.NoError(t, err)
				e.at[when] = func() {
					old, _ := e.write("t", func(txn kv.Txn, tbl *table.Table) {
						e.add(txn, tbl, row(103, "row 3"))
						e.remove(txn, tbl, row(3, "row 3"))
					})
					e.txn(func(txn kv.Txn, tbl *table.Table) {
						e.add(txn, tbl, row(104, "row 4"))
						e.remove(txn, tbl, row(104, "row 4"))
					})
					e.txn(func(txn kv.Txn, tbl *table.Table) {
						e.add(txn, tbl, row(105, "row 5"))
						e.remove(txn, tbl, row(5, "row 5"))
						e.remove(txn, tbl, row(105, "row 5"))
						e.add(txn, tbl, row(106, "row 5"))
					})
					require.NoError(t, old())
				}
				e.must("create unique index u on t (c)")
				e.requireBuilt(20)
			})
		}
	}
}

// A transaction that takes a key from one of two rows that have it, and leaves the
// entry to the other, may not commit when that one has lost the key meanwhile: in a
// snapshot between the two commits the key is the first row's, and its entry would
// stay for good.
func TestUniqueIndexKeepsNoEntryOfARowThatLeavesItToAnother(t *testing.T) {
	row := func(id int64) []types.Datum { return datums(id, id%7, "row 3") }
	e := newUniqueEnv(t)
	var commit func() error
	e.at[job.ActTakeSnapshot] = func() {
		e.txn(func(txn kv.Txn, tbl *table.Table) { e.add(txn, tbl, row(103)) })
		commit, _ = e.write("t", func(txn kv.Txn, tbl *table.Table) { e.remove(txn, tbl, row(3)) })
		e.txn(func(txn kv.Txn, tbl *table.Table) { e.remove(txn, tbl, row(103)) })
	}
	e.at[job.ActBackfill] = func() {
		if err := commit(); kv.IsWriteConflict(err) {
			e.txn(func(txn kv.Txn, tbl *table.Table) { e.remove(txn, tbl, row(3)) })
		}
	}
	e.must("create unique index u on t (c)")
	e.requireBuilt(19)
}

// That a transaction takes a put back does not excuse its next one.
func TestUniqueIndexFindsDuplicatesThatArePutAgain(t *testing.T) {
	row := func(id int64) []types.Datum { return datums(id, id%7, "row 3") }
	e := newUniqueEnv(t)
	e.at[job.ActBackfill] = func() {
		e.txn(func(txn kv.Txn, tbl *table.Table) {
			e.add(txn, tbl, row(100))
			e.remove(txn, tbl, row(100))
			e.add(txn, tbl, row(101))
		})
	}
	e.requireRefused(e.exec("create unique index u on t (c)"), "Duplicate entry 'row 3' for key 't.u'")
}

// Once the index is complete a duplicate is refused where it is put.
func TestCompleteUniqueIndexRefusesDuplicates(t *testing.T) {
	e := newUniqueEnv(t)
	e.at[job.ActCheckUnique] = func() {
		_, rollback := e.write("t", func(txn kv.Txn, tbl *table.Table) {
			var dup *table.DuplicateError
			_, err := tbl.AddRecord(context.Background(), txn, datums(int64(100), int64(0), "row 7"), table.AddOptions{})
			require.ErrorAs(t, err, &dup)
			require.Equal(t, "Duplicate entry 'row 7' for key 't.u'", dup.Error())
			e.add(txn, tbl, datums(int64(101), int64(0), "free"))
			require.Equal(t, 2, txn.Len(), "row and entry, no marker")
		})
		rollback()
	}
	e.must("create unique index u on t (c)")
	e.requireBuilt(20)
	// Dropping goes through write-only again, where nothing is left either.
	e.must("drop index u on t")
	require.Zero(t, e.entries(table.MarkerRange(e.table("t").Info.ID, 1)))
}

// A job that finds S collected before it has looked at the markers takes another
// S: the index is complete already, and is built once more.
func TestExpiredHoldBeforeMarkersAreLookedAt(t *testing.T) {
	e := newEnv(t)
	e.fill(10)
	errCrash := errors.New("crash")
	for _, test := range []struct{ index, state string }{
		{"u (id, k)", "synced"},
		{"c (c)", "rollback done"}, // a transaction brings in a duplicate after S
	} {
		var lost uint64
		backfiller := func(o *Options) {
			o.Backfiller = NewBackfiller(backfill.Options{Store: e.store, Globals: e.globals, Bus: e.bus})
		}
		e.restart(func(o *Options) {
			backfiller(o)
			o.Hook = func(_ context.Context, p HookPoint) error {
				switch p.String() {
				case "before backfill backfilled":
					if test.state != "synced" {
						e.insert("t", []any{int64(100), int64(1), "row 3"})
					}
				case "before check-unique unique":
					lost = e.ddl.find(p.JobID).snapshot().SnapshotTS
					return errCrash
				}
				return nil
			}
		})
		require.ErrorIs(t, e.exec("alter table t add unique index "+test.index), errCrash)
		store := e.store
		e.store = &expiredStore{store, lost}
		e.restart(backfiller)
		waitFor(t, "the job ends", func() bool { return e.jobs()[0].State == test.state })
		ended, err := loadHistory(t.Context(), e.cat, 1)
		require.NoError(t, err)
		require.Greater(t, ended[0].SnapshotTS, lost)
		e.store = store
	}
	require.Contains(t, e.jobs()[0].Error, "Duplicate entry 'row 3' for key 't.c'")
	require.Equal(t, 10, e.entries(table.IndexRange(e.table("t").Info.ID, e.index("t", "u").ID))-1, "with the row of the duplicate")
}

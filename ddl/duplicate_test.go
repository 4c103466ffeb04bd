package ddl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/ddl/job"
	"fastddl/kv"
	"fastddl/table"
)

// duplicates are the newest job's as "index: entry rows handles".
func (e *env) duplicates() []string {
	e.t.Helper()
	var out []string
	for _, d := range e.jobs()[0].Duplicates {
		handles := make([]string, len(d.Handles))
		for i, h := range d.Handles {
			handles[i] = string(h)
		}
		out = append(out, fmt.Sprintf("%s: %s %d [%s]", d.Index, d.Entry, d.Rows, strings.Join(handles, ",")))
	}
	return out
}

func TestJobListsDuplicatesOfTheSnapshot(t *testing.T) {
	for _, fast := range []string{"ON", "OFF"} {
		t.Run("fast reorg "+fast, func(t *testing.T) {
			e := newUniqueEnv(t)
			_, _, err := e.globals.Set("tidb_ddl_enable_fast_reorg", fast)
			require.NoError(t, err)
			e.insert("t", []any{int64(100), int64(50), "row 7"}, []any{int64(101), nil, "row 9"}, []any{int64(-5), nil, "row 7"})
			err = e.exec("alter table t add unique index c (c), add index plain (k), add unique index k (k)")
			e.requireCode(err, 1062, "Duplicate entry 'row 7' for key 't.c'")
			require.Equal(t, []string{
				"c: row 7 3 [-5,7,100]", "c: row 9 2 [9,101]",
				"k: 0 3 [0,7,14]", "k: 1 3 [1,8,15]", "k: 2 3 [2,9,16]", "k: 3 3 [3,10,17]", "k: 4 3 [4,11,18]", "k: 5 3 [5,12,19]",
				"k: 6 2 [6,13]",
			}, e.duplicates(), "NULLs are not duplicates")
			e.requireNoTrace()
			e.restart(nil)
			require.Len(t, e.duplicates(), 9, "the history has them")

			e.must("create unique index id on t (id)")
			require.Empty(t, e.jobs()[0].Duplicates)
		})
	}
}

func TestJobListsDuplicatesOfDML(t *testing.T) {
	e := newUniqueEnv(t)
	e.at[job.ActBackfill] = func() {
		for i, c := range []string{"row 7", "row 3", "free", "row 12"} {
			e.txn(func(txn kv.Txn, tbl *table.Table) { e.add(txn, tbl, datums(int64(100+i), int64(0), c)) })
		}
		// A value that moves on is one row's only.
		e.txn(func(txn kv.Txn, tbl *table.Table) { e.remove(txn, tbl, datums(int64(102), int64(0), "free")) })
		e.txn(func(txn kv.Txn, tbl *table.Table) { e.add(txn, tbl, datums(int64(200), int64(0), "free")) })
	}
	e.requireRefused(e.exec("create unique index u on t (c)"), "Duplicate entry 'row 12' for key 't.u'")
	require.Equal(t, []string{"u: row 12 2 [12,103]", "u: row 3 2 [3,101]", "u: row 7 2 [7,100]"}, e.duplicates())
}

func TestJobListsAtMost100Duplicates(t *testing.T) {
	e := newUniqueEnv(t)
	var rows [][]any
	for i := range 150 {
		rows = append(rows, []any{int64(1000 + 2*i), nil, fmt.Sprintf("dup %03d", i)}, []any{int64(1001 + 2*i), nil, fmt.Sprintf("dup %03d", i)})
	}
	e.insert("t", rows...)
	e.requireRefused(e.exec("create unique index u on t (c)"), "Duplicate entry 'dup 000' for key 't.u'")
	got := e.duplicates()
	require.Len(t, got, 100)
	require.Equal(t, "u: dup 099 2 [1198,1199]", got[99])
}

func TestJobListsAtMost100DuplicatesOfDML(t *testing.T) {
	e := newUniqueEnv(t)
	var rows [][]any
	for i := range 150 {
		rows = append(rows, []any{int64(1000 + i), nil, fmt.Sprintf("dup %03d", i)})
	}
	e.insert("t", rows...)
	e.at[job.ActBackfill] = func() {
		for i := range rows {
			rows[i][0] = int64(2000 + i)
		}
		e.insert("t", rows...)
	}
	e.requireRefused(e.exec("create unique index u on t (c)"), "Duplicate entry 'dup 000' for key 't.u'")
	got := e.duplicates()
	require.Len(t, got, 100)
	require.Equal(t, "u: dup 099 2 [1099,2099]", got[99])
}

// A job that crashes while it rolls back has its list afterwards.
func TestListedDuplicatesSurviveACrash(t *testing.T) {
	e := newUniqueEnv(t)
	errCrash := errors.New("crash")
	e.restart(func(o *Options) {
		o.Backfiller = NewBackfiller(backfill.Options{Store: e.store, Globals: e.globals, Bus: e.bus})
		o.Hook = func(_ context.Context, p HookPoint) error {
			if p.Step == string(job.StepUndone) && p.When == "after" {
				return errCrash
			}
			return nil
		}
	})
	require.ErrorIs(t, e.exec("create unique index u on t (k)"), errCrash)
	e.restart(nil)
	waitFor(t, "the job ends", func() bool { return e.jobs()[0].State == "rollback done" })
	require.Len(t, e.duplicates(), 7)
	require.Equal(t, "u: 0 3 [0,7,14]", e.duplicates()[0])
	e.requireNoTrace()
}

// The list in a job's record is bounded however long the values are, and keeps
// bytes that are no text.
func TestListedDuplicatesAreBounded(t *testing.T) {
	e := newUniqueEnv(t)
	e.must("create table b (id varbinary(700) primary key clustered, v varbinary(3000))")
	value := func(i int, n int) []byte { return append([]byte{byte(i), 0xff}, make([]byte, n)...) }
	e.txnOn("b", func(txn kv.Txn, tbl *table.Table) {
		for i := range 50 {
			for k := range 4 {
				e.add(txn, tbl, datums(value(4*i+k, 690), value(i, 2900)))
			}
		}
	})
	require.Error(t, e.exec("create unique index v on b (v)"))
	e.restart(nil)
	list := e.jobs()[0].Duplicates
	size := 0
	for i, d := range list {
		require.Equal(t, value(i, 2900), d.Entry)
		require.EqualValues(t, 4, d.Rows)
		require.Equal(t, value(4*i+3, 690), d.Handles[3])
		size += textSize(&d)
	}
	require.LessOrEqual(t, size, maxDuplicatesText)
	require.Greater(t, size+size/len(list), maxDuplicatesText, "not shorter than it need be")
}

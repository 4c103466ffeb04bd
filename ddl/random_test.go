package ddl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/catalog"
	"fastddl/check"
	"fastddl/ddl/builder"
	"fastddl/ddl/mdl"
	"fastddl/kv"
	"fastddl/table"
)

// TestRandomDMLAndDDL runs transactions that insert, update (also the primary
// key) and delete rows beside ADD and DROP INDEX, ADD and DROP COLUMN, some of
// them cancelled, with the real backfill. At many snapshots every public index
// must equal the rows.
func TestRandomDMLAndDDL(t *testing.T) {
	for _, fast := range []string{"ON", "OFF"} {
		t.Run("fast_reorg="+fast, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			e := newEnv(t)
			e.restart(func(o *Options) {
				o.Backfiller = NewBackfiller(backfill.Options{Store: e.store, Globals: e.globals, Bus: e.bus})
			})
			_, _, err := e.globals.Set("tidb_ddl_enable_fast_reorg", fast)
			require.NoError(t, err)
			e.fill(500)
			w := &workload{env: e}
			if fast == "OFF" {
				// A batch of the backfill conflicts with every writer of its rows: leave
				// it room to get through on so small a table.
				_, _, err := e.globals.Set("tidb_ddl_reorg_batch_size", "32")
				require.NoError(t, err)
				w.pause = 5 * time.Millisecond
			}
			var dml sync.WaitGroup
			for i := range 3 {
				dml.Go(func() { w.dml(rand.New(rand.NewPCG(seed, uint64(i)))) })
			}
			dml.Go(w.check)
			rng := rand.New(rand.NewPCG(seed, 100))
			deadline := time.Now().Add(2 * time.Second)
			for n := 0; time.Now().Before(deadline) && !t.Failed(); n++ {
				ctx, cancel := context.WithCancel(context.Background())
				if rng.IntN(4) == 0 {
					time.AfterFunc(time.Duration(rng.IntN(15))*time.Millisecond, cancel)
				}
				w.oneDDL(ctx, rng, n)
				cancel()
			}
			w.stop.Store(true)
			dml.Wait()
			require.NoError(t, w.checkNow())
			t.Logf("%d commits, %d conflicts, %d DDL done, %d cancelled, %d checks",
				w.commits.Load(), w.conflicts.Load(), w.ddls, w.cancelled, w.checks.Load())
			waitFor(t, "all jobs have ended", func() bool {
				queue, err := loadQueue(context.Background(), e.cat)
				return err == nil && len(queue) == 0
			})
			e.requireNoTrace()
		})
	}
}

type workload struct {
	*env
	stop               atomic.Bool
	pause              time.Duration // after each transaction
	commits, conflicts atomic.Int64
	checks             atomic.Int64
	ddls, cancelled    int
}

func (w *workload) oneDDL(ctx context.Context, rng *rand.Rand, n int) {
	info := w.table("t").Info
	var sql string
	switch {
	case len(info.Indices) > 3, len(info.Columns) > 5 && len(info.Indices) > 0 && rng.IntN(2) == 0:
		sql = fmt.Sprintf("alter table t drop index %s", info.Indices[rng.IntN(len(info.Indices))].Name.O)
	case len(info.Columns) > 5:
		sql = fmt.Sprintf("alter table t drop column %s", info.Columns[len(info.Columns)-1].Name.O)
	default:
		sql = []string{
			fmt.Sprintf("alter table t add index i%d (k)", n),
			fmt.Sprintf("alter table t add index i%d (k, c(4)), add index j%d (c)", n, n),
			fmt.Sprintf("alter table t add column x%d int not null default %d", n, n),
			fmt.Sprintf("alter table t add column y%d varchar(9) default 'y', add index i%d (y%d, k)", n, n, n),
		}[rng.IntN(4)]
		if len(info.Indices) > 0 && rng.IntN(3) == 0 {
			sql += fmt.Sprintf(", drop index %s", info.Indices[0].Name.O)
		}
	}
	req := request(w.t, sql)
	_, err := w.ddl.Execute(ctx, req)
	if err == nil {
		w.ddls++
		return
	}
	te, coded := builder.AsTerror(err)
	switch {
	case coded && te.Code() == 1317:
		w.cancelled++
	case coded && (te.Code() == 8200 || te.Code() == 1091 || te.Code() == 1072):
		// A column under an index with other columns cannot be dropped; and what a
		// cancelled job had added may have been there still when this was written.
	case errors.Is(err, context.Canceled):
		w.cancelled++
	default:
		w.t.Errorf("%s: %v", sql, err)
	}
}

// dml runs transactions of a few statements each.
func (w *workload) dml(rng *rand.Rand) {
	for ; !w.stop.Load(); time.Sleep(w.pause) {
		err := w.transaction(rng)
		switch {
		case err == nil:
			w.commits.Add(1)
		case kv.IsWriteConflict(err):
			w.conflicts.Add(1)
		default:
			w.t.Errorf("transaction: %v", err)
			return
		}
	}
}

func (w *workload) transaction(rng *rand.Rand) (err error) {
	ctx := context.Background()
	txn, err := w.store.Begin(ctx)
	if err != nil {
		return err
	}
	lock := w.locks.Begin(mdl.Owner{Started: time.Now()})
	defer lock.Release()
	defer func() { err = errors.Join(err, txn.Rollback()) }()
	txn.SetCommitCheck(lock.CheckCommit)
	for range 1 + rng.IntN(4) {
		bound, err := lock.Bind(w.table("t").Info.ID)
		if err != nil {
			return err
		}
		if err := statement(ctx, rng, txn, table.Of(bound)); err != nil {
			return err
		}
		if rng.IntN(5) == 0 {
			time.Sleep(time.Duration(rng.IntN(1000)) * time.Microsecond)
		}
	}
	return txn.Commit(ctx)
}

// statement changes one row as the table's definition has it.
func statement(ctx context.Context, rng *rand.Rand, txn kv.Txn, tbl *table.Table) error {
	id := int64(rng.IntN(600))
	all := make([]int, len(tbl.Columns()))
	for i := range all {
		all[i] = i
	}
	old, err := tbl.Reader(txn, all, time.UTC).Get(ctx, tkv.IntHandle(id))
	switch {
	case errors.Is(err, kv.ErrNotExist):
		row := datums(id, int64(rng.IntN(50)), fmt.Sprintf("new %d", rng.IntN(30)))
		for range len(all) - len(row) {
			row = append(row, datums(nil)...)
		}
		for i, col := range tbl.Columns()[3:] {
			if col.Name.L[0] == 'x' {
				row[3+i] = datums(int64(rng.IntN(9)))[0]
			}
		}
		_, err := tbl.AddRecord(ctx, txn, row, table.AddOptions{})
		return ignoreDuplicate(err)
	case err != nil:
		return err
	}
	next := append(datums(), old...)
	switch rng.IntN(4) {
	case 0:
		return tbl.RemoveRecord(ctx, txn, tkv.IntHandle(id), old)
	case 1:
		next[0] = datums(int64(rng.IntN(600)))[0]
	case 2:
		next[2] = datums(fmt.Sprintf("changed %d", rng.IntN(30)))[0]
	}
	next[1] = datums(int64(rng.IntN(50)))[0]
	_, err = tbl.UpdateRecord(ctx, txn, tkv.IntHandle(id), old, next)
	return ignoreDuplicate(err)
}

func ignoreDuplicate(err error) error {
	var dup *table.DuplicateError
	if errors.As(err, &dup) {
		return nil
	}
	return err
}

func (w *workload) check() {
	for !w.stop.Load() {
		if err := w.checkNow(); err != nil {
			w.t.Errorf("check: %v", err)
			return
		}
		w.checks.Add(1)
	}
}

// checkNow checks the table at a snapshot of now. The schema must be the one
// that was current when the snapshot was taken, as for every reader.
func (w *workload) checkNow() error {
	ctx := context.Background()
	var tbl *catalog.Table
	var ts uint64
	for {
		before := w.cat.Current()
		var err error
		if ts, err = w.store.CurrentTS(ctx); err != nil {
			return err
		}
		tbl, _ = before.Table("test", "t")
		if w.cat.Current().Version() == before.Version() {
			break
		}
	}
	return check.Table(ctx, w.store, tbl, ts, check.Options{Workers: 1})
}

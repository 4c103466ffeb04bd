package ddl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/check"
	"fastddl/ddl/job"
	"fastddl/kv"
	"fastddl/table"
)

// TestValuesOverlapWhileAUniqueIndexIsBuilt runs random transactions, some of them
// open for a while, between the actions of jobs that build a unique index. They
// give rows values that other rows have, which nothing prevents then, and mostly
// no longer so when they commit. A build must fail only if committed rows had the
// same value, and otherwise the index must equal the rows.
func TestValuesOverlapWhileAUniqueIndexIsBuilt(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	o := &overlaps{env: newEnv(t), rng: rand.New(rand.NewPCG(seed, 0)), rows: map[int64]string{}, quiet: true}
	o.restart(func(opts *Options) {
		opts.Backfiller = NewBackfiller(backfill.Options{Store: o.store, Globals: o.globals, Bus: o.bus})
		opts.Hook = func(_ context.Context, p HookPoint) error {
			if p.When == "before" && !o.quiet {
				o.interlude(job.Action(p.Action))
			}
			return o.wrong
		}
	})
	o.must("create table t (id bigint primary key, k int, c varchar(20))")
	built, refused := 0, 0
	for range 60 {
		o.begin().end(true)
		o.duplicate = len(o.duplicates(o.rows)) > 0
		_, _, err := o.globals.Set("tidb_ddl_enable_fast_reorg", []string{"ON", "OFF"}[o.rng.IntN(2)])
		require.NoError(t, err)
		o.quiet = false
		err = o.exec("alter table t add unique index u (c)")
		o.quiet = true
		require.NoError(t, o.wrong)
		o.endAll()
		if err != nil {
			o.requireCode(err, 1062, "")
			require.True(t, o.duplicate, "%s, but no committed rows had the same value", err)
			refused++
			continue
		}
		built++
		ts, err := o.store.CurrentTS(t.Context())
		require.NoError(t, err)
		require.NoError(t, check.Table(t.Context(), o.store, o.table("t"), ts, check.Options{Workers: 1}))
		require.Equal(t, len(o.rows), o.entries(table.IndexRange(o.table("t").Info.ID, o.index("t", "u").ID)))
		o.must("drop index u on t")
	}
	require.NotZero(t, built)
	t.Logf("%d built, %d refused, %d transactions, %d conflicts", built, refused, o.commits, o.conflicts)
}

// overlaps is a table t of a few rows with its model.
type overlaps struct {
	*env
	rng *rand.Rand
	// rows are the values of c of the committed rows, by id.
	rows  map[int64]string
	open  []*overlapTxn
	quiet bool
	// duplicate says that two committed rows have had the same value.
	duplicate          bool
	commits, conflicts int
	// wrong is the first thing that should not have happened.
	wrong error
}

func (o *overlaps) expect(ok bool, err error) {
	if !ok && o.wrong == nil {
		o.wrong = fmt.Errorf("unexpected: %w", err)
	}
}

// interlude is what clients do before an action of a job.
func (o *overlaps) interlude(next job.Action) {
	for range o.rng.IntN(4) {
		o.open = append(o.open, o.begin())
	}
	for _, x := range o.open {
		x.change()
	}
	if next == job.ActWaitLock {
		o.endAll()
		return
	}
	for len(o.open) > 0 && o.rng.IntN(2) == 0 {
		o.end(o.rng.IntN(len(o.open)))
	}
}

func (o *overlaps) endAll() {
	for len(o.open) > 0 {
		o.end(o.rng.IntN(len(o.open)))
	}
}

func (o *overlaps) end(i int) {
	o.open[i].end(o.rng.IntN(10) > 0)
	o.open = append(o.open[:i], o.open[i+1:]...)
}

// duplicates are ids whose values others have, too.
func (o *overlaps) duplicates(rows map[int64]string) (ids []int64) {
	for a, v := range rows {
		for b, w := range rows {
			if a != b && v == w {
				ids = append(ids, a)
				break
			}
		}
	}
	return ids
}

// overlapTxn is a transaction that is open; rows are what it sees.
type overlapTxn struct {
	*overlaps
	txn      kv.Txn
	tbl      *table.Table
	rows     map[int64]string
	touched  map[int64]bool
	commit   func() error
	rollback func()
}

func (o *overlaps) begin() *overlapTxn {
	x := &overlapTxn{overlaps: o, rows: maps.Clone(o.rows), touched: map[int64]bool{}}
	x.commit, x.rollback = o.write("t", func(txn kv.Txn, tbl *table.Table) { x.txn, x.tbl = txn, tbl })
	for range 3 {
		x.change()
	}
	return x
}

func overlapRow(id int64, c string) []types.Datum { return datums(id, id%7, c) }

// change inserts, updates, moves or deletes rows.
func (x *overlapTxn) change() {
	for range 1 + x.rng.IntN(3) {
		id, c := x.rng.Int64N(8), fmt.Sprintf("value %d", x.rng.IntN(10))
		old, exists := x.rows[id]
		switch n := x.rng.IntN(4); {
		case !exists:
			_, err := x.tbl.AddRecord(x.t.Context(), x.txn, overlapRow(id, c), table.AddOptions{})
			x.done(err, id, id, c)
		case n == 0:
			x.remove(id)
		default:
			to := id
			if _, taken := x.rows[id+1]; n == 1 && !taken {
				to = id + 1
			}
			if x.rng.IntN(2) == 0 {
				c = old
			}
			_, err := x.tbl.UpdateRecord(x.t.Context(), x.txn, tkv.IntHandle(id), overlapRow(id, old), overlapRow(to, c))
			x.done(err, id, to, c)
		}
	}
}

func (x *overlapTxn) remove(id int64) {
	err := x.tbl.RemoveRecord(x.t.Context(), x.txn, tkv.IntHandle(id), overlapRow(id, x.rows[id]))
	x.expect(err == nil, err)
	delete(x.rows, id)
	x.touched[id] = true
}

// done notes that the row with the id from has become one with the id to, unless
// that failed, which must have a reason.
func (x *overlapTxn) done(err error, from, to int64, c string) {
	var dup *table.DuplicateError
	if errors.As(err, &dup) {
		other := dup.Handle.IntValue()
		x.expect(from != other && x.rows[other] == c, err)
		return
	}
	x.expect(err == nil, err)
	delete(x.rows, from)
	x.rows[to] = c
	x.touched[from], x.touched[to] = true, true
}

// end commits the transaction, unless it conflicts with another one; tidy makes
// it delete rows until no two have the same value.
func (x *overlapTxn) end(tidy bool) {
	for tidy {
		ids := x.duplicates(x.rows)
		if len(ids) == 0 {
			break
		}
		x.remove(ids[x.rng.IntN(len(ids))])
	}
	if x.rng.IntN(10) == 0 {
		x.rollback()
		return
	}
	if err := x.commit(); err != nil {
		x.expect(kv.IsWriteConflict(err), err)
		x.conflicts++
		return
	}
	x.commits++
	for id := range x.touched {
		if c, ok := x.rows[id]; ok {
			x.overlaps.rows[id] = c
		} else {
			delete(x.overlaps.rows, id)
		}
	}
	if len(x.duplicates(x.overlaps.rows)) > 0 {
		x.duplicate = true
	}
}

package crash

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// worker changes the rows that it owns.
type worker struct {
	run     *run
	t       *table
	number  int
	low     int64 // its first id
	rng     *rand.Rand
	holders *holders

	// rows are those of the last acknowledged commit, held their versions.
	rows state
	held map[int64]*holding
	// doubt, if not nil, says whether rows found after a crash may be those of the
	// commit that was in flight; if it must have happened, sure is set.
	doubt func(found state) error
	sure  bool
	// begun are the versions that the transaction in flight may have written, and far the ids
	// of rows it deals with that are seldom changed. A REPLACE may have deleted one again,
	// that has got the new row's value of a unique index.
	begun []*holding
	far   map[int64]bool
	// ran are the statements of the transaction, for the message of an error.
	ran []string

	commits, conflicts, duplicates int
}

func newWorker(r *run, t *table, number int, rng *rand.Rand, h *holders) *worker {
	return &worker{
		run: r, t: t, number: number, low: int64(number+1) * idStride, holders: h,
		rng: rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())), rows: state{}, held: map[int64]*holding{},
	}
}

// fill inserts the rows that are seldom changed, and some others.
func (w *worker) fill(db *sql.DB) error {
	var rows []row
	for i := range w.t.ballast {
		rows = append(rows, w.t.newRow(w.rng, w.low+hotIDs+int64(i), w.ownN()))
	}
	for id := w.low; id < w.low+hotIDs; id += 1 + int64(w.rng.IntN(4)) {
		rows = append(rows, w.t.newRow(w.rng, id, w.ownN()))
	}
	for batch := range slices.Chunk(rows, 500) {
		if _, err := db.Exec(w.insertSQL("INSERT INTO", batch)); err != nil {
			return err
		}
	}
	for _, r := range rows {
		w.rows[r.id] = r
		w.held[r.id] = w.holders.begin(r)
	}
	return nil
}

// work runs transactions until the server goes away.
func (w *worker) work(ctx context.Context, db *sql.DB) error {
	return w.run.keepWorking(ctx, db, func(c *connection) error { return w.transactions(ctx, c) },
		func() error { return w.resolve(ctx, db) })
}

// transactions runs transactions on a connection.
func (w *worker) transactions(ctx context.Context, c *connection) error {
	for _, setting := range []string{
		// Otherwise an optimistic transaction sees duplicates of its own until it commits.
		"tidb_constraint_check_in_place = ON",
		pick(w.rng, "tidb_enable_1pc = ON", "tidb_enable_1pc = OFF"),
		pick(w.rng, "tidb_enable_async_commit = ON", "tidb_enable_async_commit = OFF"),
		pick(w.rng, "tidb_pessimistic_txn_fair_locking = ON", "tidb_pessimistic_txn_fair_locking = OFF"),
		pick(w.rng, "transaction_isolation = 'REPEATABLE-READ'", "transaction_isolation = 'READ-COMMITTED'"),
	} {
		if err := w.exec(ctx, c, "SET SESSION "+setting); err != nil {
			return err
		}
	}
	for !w.run.ending.Load() {
		c.begins()
		if err := w.transaction(ctx, c); err != nil {
			return fmt.Errorf("worker %d on %s: %w, after %q", w.number, w.t.name, err, w.ran)
		}
	}
	return nil
}

// Numbers of errors after which a transaction is to be run again.
var retryable = []uint16{1205, 1213, 8002, 8022, 8028, 8147, 9007}

// isTransientDuplicate says that a transaction gave a row a value that another row
// has, took it away again, and then changed that other row, while a unique index
// was being built and had no entry yet that would have refused the first of these.
// TiDB fails such a COMMIT (pkg/store/driver/txn, IsUnnecessaryKeyValue), in its own
// builds without its fast way too.
func isTransientDuplicate(err error) bool {
	return errorNumber(err) == 1105 && strings.Contains(err.Error(), "PresumeKeyNotExists")
}

func errorNumber(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

const beginOptimistic = "BEGIN OPTIMISTIC"

// transaction runs one statement by itself, or several in a transaction.
func (w *worker) transaction(ctx context.Context, conn *connection) error {
	w.begun, w.doubt, w.sure, w.ran, w.far = nil, nil, false, nil, make(map[int64]bool)
	begun := time.Now()
	cur := make(state)
	for id := w.low; id < w.low+hotIDs; id++ {
		if r, ok := w.rows[id]; ok {
			cur[id] = r
		}
	}
	if w.rng.IntN(2) == 0 {
		done, next, err := w.statement(ctx, conn, cur, begun, true)
		if err != nil || !done {
			return err
		}
		w.committed(next)
		return nil
	}
	begin := pick(w.rng, "BEGIN", "START TRANSACTION", "BEGIN PESSIMISTIC", beginOptimistic)
	if err := w.exec(ctx, conn, begin); err != nil {
		return err
	}
	w.ran = append(w.ran, begin)
	for range 1 + w.rng.IntN(5) {
		done, next, err := w.statement(ctx, conn, cur, begun, false)
		if err != nil {
			return err
		}
		if !done {
			return w.rollback(ctx, conn)
		}
		cur = next
		w.dawdle()
	}
	if oneIn(w.rng, 8) {
		return w.rollback(ctx, conn)
	}
	return w.commit(ctx, conn, cur, begun)
}

// dawdle keeps a transaction open for a while, as clients do.
func (w *worker) dawdle() {
	if oneIn(w.rng, 100) {
		time.Sleep(time.Duration(w.rng.IntN(300)) * time.Millisecond)
	}
}

func (w *worker) exec(ctx context.Context, conn *connection, query string) error {
	if _, err := conn.ExecContext(ctx, query); err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

// statement runs a random statement and returns the rows after it, or false if
// it failed in a way that ends the transaction.
func (w *worker) statement(ctx context.Context, conn *connection, cur state, begun time.Time, autocommit bool) (done bool, next state, err error) {
	st := w.randomStatement(cur)
	for _, r := range st.writes {
		w.begun = append(w.begun, w.holders.begin(r))
	}
	if autocommit {
		w.doubt = func(found state) error {
			return errors.Join(w.untouched(found, cur), st.check(cur, w.project(found, cur), begun))
		}
	}
	_, err = conn.ExecContext(ctx, st.sql)
	w.ran = append(w.ran, st.sql)
	switch code := errorNumber(err); {
	case code == 1062:
		w.duplicates++
		w.ran = append(w.ran, err.Error())
		if err := w.holdsDuplicate(err, cur, st, begun); err != nil {
			return false, nil, wrongf("%s: %w", st.sql, err)
		}
		w.endBegun(len(st.writes))
		w.doubt = nil
		return !autocommit, cur, nil
	case slices.Contains(retryable, code):
		w.conflicts++
		w.doubt = nil
		w.endBegun(len(w.begun))
		return false, nil, nil
	case err != nil:
		return false, nil, fmt.Errorf("%s: %w", st.sql, err)
	}
	w.sure = autocommit
	next, err = w.read(ctx, conn, cur)
	if err != nil {
		return false, nil, fmt.Errorf("read back after %s: %w", st.sql, err)
	}
	if err := st.check(cur, next, begun); err != nil {
		return false, nil, wrongf("%s: %w", st.sql, err)
	}
	return true, next, nil
}

// holdsDuplicate verifies that a 1062 has a reason.
func (w *worker) holdsDuplicate(err error, cur state, st statement, begun time.Time) error {
	var e *mysql.MySQLError
	errors.As(err, &e)
	if strings.HasSuffix(e.Message, ".PRIMARY'") {
		for _, r := range st.writes {
			if _, taken := cur[r.id]; taken {
				return nil
			}
		}
		return fmt.Errorf("no row has the id: %w", err)
	}
	return w.holders.reason(e.Message, begun, w.snapshotWrites())
}

// snapshotWrites are the versions that the transaction in flight may have written, if
// it is optimistic.
func (w *worker) snapshotWrites() []*holding {
	if len(w.ran) > 0 && w.ran[0] == beginOptimistic {
		return w.begun
	}
	return nil
}

// duplicateAtCommit is holdsDuplicate for the writes of a whole transaction.
func (w *worker) duplicateAtCommit(err error, begun time.Time) error {
	var e *mysql.MySQLError
	errors.As(err, &e)
	if !strings.HasSuffix(e.Message, ".PRIMARY'") {
		return w.holders.reason(e.Message, begun, w.snapshotWrites())
	}
	for _, v := range w.begun {
		if _, taken := w.rows[v.id]; taken {
			return nil
		}
	}
	return fmt.Errorf("no row has the id: %w", err)
}

// endBegun notes that the last n versions that were begun were never committed.
func (w *worker) endBegun(n int) {
	for _, v := range w.begun[len(w.begun)-n:] {
		w.holders.end(v)
	}
	w.begun = w.begun[:len(w.begun)-n]
}

func (w *worker) rollback(ctx context.Context, conn *connection) error {
	if err := w.exec(ctx, conn, "ROLLBACK"); err != nil {
		return err
	}
	w.endBegun(len(w.begun))
	return nil
}

func (w *worker) commit(ctx context.Context, conn *connection, cur state, begun time.Time) error {
	w.doubt = func(found state) error {
		if changed := w.project(found, cur); !cur.equal(changed) {
			return fmt.Errorf("rows differ from the commit: %s", cur.difference(changed))
		}
		return w.untouched(found, cur)
	}
	_, err := conn.ExecContext(ctx, "COMMIT")
	switch code := errorNumber(err); {
	case err == nil:
		w.committed(cur)
		return nil
	case slices.Contains(retryable, code) || isTransientDuplicate(err):
		w.conflicts++
		w.doubt = nil
		return w.rollback(ctx, conn)
	case code == 1062: // an optimistic transaction looks for duplicates now
		w.duplicates++
		w.doubt = nil
		if err := w.duplicateAtCommit(err, begun); err != nil {
			return wrongf("COMMIT: %w", err)
		}
		return w.rollback(ctx, conn)
	}
	return fmt.Errorf("COMMIT: %w", err)
}

// committed makes cur the worker's rows.
func (w *worker) committed(cur state) {
	w.commits++
	w.doubt, w.sure = nil, false
	held := make(map[int64]*holding)
	for _, v := range w.begun {
		r, there := cur[v.id]
		if there && held[v.id] == nil && r.values[colK] == v.k && r.values[colN] == v.n {
			held[v.id] = v
		} else {
			w.holders.end(v)
		}
	}
	w.begun = nil
	for id := range w.affected(cur) {
		r, there := cur[id]
		if old := w.held[id]; old != nil {
			if held[id] == nil && there && r.values[colK] == old.k && r.values[colN] == old.n {
				held[id] = old
			} else {
				w.holders.end(old)
			}
		}
		delete(w.held, id)
		delete(w.rows, id)
		if there {
			w.rows[id] = r
		}
	}
	maps.Copy(w.held, held)
}

// affected are the ids that a transaction with the rows cur deals with.
func (w *worker) affected(cur state) map[int64]bool {
	ids := make(map[int64]bool)
	for id := w.low; id < w.low+hotIDs; id++ {
		ids[id] = true
	}
	for id := range cur {
		ids[id] = true
	}
	maps.Copy(ids, w.far)
	return ids
}

// project returns the rows of found that a transaction with the rows cur deals
// with.
func (w *worker) project(found, cur state) state {
	out := make(state)
	for id := range w.affected(cur) {
		if r, ok := found[id]; ok {
			out[id] = r
		}
	}
	return out
}

// untouched verifies that the rows that a transaction with the rows cur does not
// deal with are as they were.
func (w *worker) untouched(found, cur state) error {
	affected := w.affected(cur)
	others := func(s state) state {
		out := make(state)
		for id, r := range s {
			if !affected[id] {
				out[id] = r
			}
		}
		return out
	}
	if want, got := others(w.rows), others(found); !want.equal(got) {
		return fmt.Errorf("rows that it did not touch differ: %s", want.difference(got))
	}
	return nil
}

package cluster

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

const (
	// workersOfTable is how many clients change a table. Each owns hotIDs of its rows, by
	// ids and values of u, which begin with multiples of idStride; no client changes the rest.
	workersOfTable, hotIDs, idStride = 4, 40, 1_000_000
	rowColumns                       = "id, u, a, s, d"
)

// row is a row of a random table.
type row struct {
	id int64
	u  sql.NullInt64 // no two rows of a table have the same
	a  int64
	s  string
	d  int64 // many rows have the same
}

func (r row) tuple() string {
	u := "NULL"
	if r.u.Valid {
		u = fmt.Sprint(r.u.Int64)
	}
	return fmt.Sprintf("(%d, %s, %d, '%s', %d)", r.id, u, r.a, r.s, r.d)
}

// state is rows by id.
type state map[int64]row

// difference names some rows in which two states differ, empty if there are none.
func (s state) difference(other state) string {
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(s)) {
		if got, ok := other[id]; !ok || got != s[id] {
			lines = append(lines, fmt.Sprintf("want %s, got %s (there: %v)", s[id].tuple(), got.tuple(), ok))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(other)) {
		if _, ok := s[id]; !ok {
			lines = append(lines, fmt.Sprintf("want none, got %s", other[id].tuple()))
		}
	}
	return strings.Join(lines[:min(len(lines), 5)], "; ")
}

// worker is a client that knows what its rows are: each transaction goes to any server.
type worker struct {
	run  *random
	t    *randomTable
	low  int64
	rng  *rand.Rand
	rows state
	ran  []string // the statements of the last transactions, for messages
}

func (w *worker) work(ctx context.Context, rng *rand.Rand) error {
	w.rng = rng
	for !w.run.ending.Load() {
		if err := w.transaction(ctx); err != nil {
			return fmt.Errorf("worker %d on %s: %w, after %q", w.low, w.t.name, err, w.ran)
		}
		if !pause(ctx, w.rng, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// transaction changes the rows, by one statement or several, at any server.
func (w *worker) transaction(ctx context.Context) error {
	s, began := w.run.any(w.rng), time.Now()
	ctx, cancel := context.WithTimeout(ctx, randomDeadline)
	defer cancel()
	w.ran = append(w.ran[max(len(w.ran)-20, 0):], "at "+s.name)
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return w.run.unexpected(s, began, err)
	}
	defer conn.Close()
	next := maps.Clone(w.rows)
	var statements []string
	if oneIn(w.rng, 3) {
		statements = w.change(next)
	}
	several := len(statements) != 1
	if several {
		begin := []string{pick(w.rng, "BEGIN", "BEGIN PESSIMISTIC", "BEGIN OPTIMISTIC")}
		for range w.rng.IntN(4) {
			statements = append(statements, w.change(next)...)
		}
		if oneIn(w.rng, 5) { // and back to where it was
			undone := append([]string{"SAVEPOINT here"}, w.change(maps.Clone(next))...)
			statements = append(append(statements, undone...), "ROLLBACK TO here")
		}
		statements = append(begin, statements...)
	}
	for _, statement := range statements {
		w.ran = append(w.ran, statement)
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return w.failed(ctx, conn, s, began, err, next, !several)
		}
		if several && oneIn(w.rng, 200) && !pause(ctx, w.rng, time.Second) { // clients think
			return ctx.Err()
		}
	}
	if !several {
		w.committed(next)
		return nil
	}
	return w.end(ctx, conn, s, began, next)
}

// end reads the rows back, perhaps, and commits, mostly.
func (w *worker) end(ctx context.Context, conn *sql.Conn, s *server, began time.Time, next state) error {
	if oneIn(w.rng, 3) {
		found, err := w.read(ctx, conn, "")
		if err != nil {
			return w.failed(ctx, conn, s, began, err, next, false)
		}
		if diff := next.difference(found); diff != "" {
			return wrongf("the transaction does not see what it has done: %s", diff)
		}
	}
	if oneIn(w.rng, 10) {
		return w.failed(ctx, conn, s, began, nil, next, false)
	}
	w.ran = append(w.ran, "COMMIT")
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return w.failed(ctx, conn, s, began, err, next, true)
	}
	w.committed(next)
	return nil
}

func (w *worker) committed(next state) {
	w.rows = next
	w.ran = append(w.ran, "committed")
	w.run.counts.commits.Add(1)
}

// failed ends a transaction that has met an error, or nil if it is to be rolled back. If
// committing says that its COMMIT was sent, its outcome may be unknown.
func (w *worker) failed(ctx context.Context, conn *sql.Conn, s *server, began time.Time, err error, next state, committing bool) error {
	if err != nil && !isConflict(err) {
		if err := w.run.unexpected(s, began, err); err != nil {
			return err
		}
		drop(conn)
		if !committing {
			return nil
		}
		w.run.counts.doubts.Add(1)
		return w.resolve(ctx, next)
	}
	if err != nil {
		w.run.counts.conflicts.Add(1)
	}
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		drop(conn)
		return w.run.unexpected(s, began, err)
	}
	return nil
}

// resolve finds out which of two states the rows have after a commit without an
// answer. It writes each of the rows that the commit may have written, so that one
// that is still on its way meets a conflict.
func (w *worker) resolve(ctx context.Context, next state) error {
	possible := []state{w.rows, next}
	for {
		all := make(state)
		for i := range int64(hotIDs) {
			r := w.newRow(w.low + i)
			r.u = sql.NullInt64{Int64: r.id, Valid: true}
			all[r.id] = r
		}
		s, began := w.run.any(w.rng), time.Now()
		sure, err := w.overwrite(ctx, s, possible, all)
		if err == nil {
			w.rows = all
			return nil
		}
		if !isConflict(err) {
			if err := w.run.unexpected(s, began, err); err != nil {
				return fmt.Errorf("resolve a commit in doubt at %s: %w", s.name, err)
			}
		}
		if !sure {
			possible = append(possible, all)
		}
		if !pause(ctx, w.rng, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// overwrite compares the rows with those that are possible and replaces all of them. If it
// fails, sure says that it has not done so.
func (w *worker) overwrite(ctx context.Context, s *server, possible []state, all state) (sure bool, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return true, err
	}
	defer conn.Close()
	var tuples []string
	for _, id := range slices.Sorted(maps.Keys(all)) {
		tuples = append(tuples, all[id].tuple())
	}
	if _, err = conn.ExecContext(ctx, "BEGIN PESSIMISTIC"); err != nil {
		drop(conn)
		return true, err
	}
	found, err := w.read(ctx, conn, "FOR UPDATE")
	if err == nil {
		if !slices.ContainsFunc(possible, func(s state) bool { return maps.Equal(s, found) }) {
			drop(conn)
			return true, wrongf("rows are neither as before nor as after the commit: %s; %s", possible[0].difference(found), possible[1].difference(found))
		}
		// Not REPLACE: of a value that another row has it fails with 1062 if a unique index is imported between its reads and its locks.
		_, err = conn.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE id >= %d AND id < %d", w.t.name, w.low, w.low+hotIDs))
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES %s", w.t.name, rowColumns, strings.Join(tuples, ", ")))
	}
	if err != nil {
		drop(conn)
		return true, err
	}
	if _, err = conn.ExecContext(ctx, "COMMIT"); err != nil {
		drop(conn)
		return isConflict(err), err
	}
	return true, nil
}

// read returns the worker's rows.
func (w *worker) read(ctx context.Context, q querier, how string) (state, error) {
	return readRows(ctx, q, fmt.Sprintf("%s WHERE id >= %d AND id < %d %s", w.t.name, w.low, w.low+hotIDs, how))
}

// readRows returns rows of a random table.
func readRows(ctx context.Context, q querier, from string) (state, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+rowColumns+" FROM "+from)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make(state)
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.id, &r.u, &r.a, &r.s, &r.d); err != nil {
			return nil, err
		}
		if _, twice := out[r.id]; twice {
			return nil, wrongf("%s: two rows with id %d", from, r.id)
		}
		out[r.id] = r
	}
	return out, rows.Err()
}

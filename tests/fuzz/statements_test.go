package fuzz

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

const (
	// workers is the number of connections that send random statements.
	workers = 6
	// mostRows keeps the tables so small that nested subqueries end.
	mostRows = 40
	// tooLong is when a statement is killed; it must end then.
	tooLong = 15 * time.Second
	// history is how many statements before one that went wrong are printed.
	history = 10
	// shown is how many statements of a kind are printed.
	shown = 10
)

// excluded are functions that wait or work for as long as an argument says, or
// reach out of the server; and, last, those that cost their connection whenever
// they are called, so that nothing else of the statement would be tried.
var excluded = []string{
	"sleep", "benchmark", "get_lock", "release_lock", "release_all_locks", "is_free_lock", "is_used_lock", "master_pos_wait", "load_file",
	"json_memberof", "tidb_mvcc_info",
}

// ourPanic is in the error of a panic in the store's coprocessor, which is a fault
// of this project and not of the SQL layer's.
const ourPanic = "coprocessor request panicked"

// inconsistent are the errors of an index that is not as its table. They are
// counted and no failure here: under random changes of types, time zones and SQL
// modes TiDB's own indexes on expressions get there, on any store. Indexes built
// here are compared with models, and with TiDB's, by other tests.
var inconsistent = []uint16{8003, 8133, 8134, 8138, 8139, 8140, 8141, 8223}

// TestRandomStatements sends random statements over several connections.
func TestRandomStatements(t *testing.T) {
	randtest.SkipShort(t)
	rng := randtest.Rand(t)
	tg := startTarget(t, memoryLimit)
	r := &statementRun{target: tg, stop: make(chan struct{})}
	r.lost, r.contained, r.inconsistent = newExamples("lost connections"), newExamples("contained panics"), newExamples("inconsistent indexes")
	r.outOfStep = newExamples("answers out of step")
	functions := r.prepare(rng)
	tidying := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
	r.until = time.Now().Add(runTime(t))
	for range workers {
		gen := &generator{rng: rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())), functions: functions}
		r.workers = append(r.workers, &statementWorker{run: r, gen: gen})
	}
	var helpers, work sync.WaitGroup
	helpers.Go(r.guard)
	helpers.Go(func() { r.tidy(&generator{rng: tidying}) })
	start := time.Now()
	for _, w := range r.workers {
		work.Go(w.work)
	}
	work.Wait()
	close(r.stop)
	helpers.Wait()
	r.checkTables()
	total, failed := r.statements.Load(), r.failed.Load()
	t.Logf("%d statements, %.0f/s, %d of them with an error", total, float64(total)/time.Since(start).Seconds(), failed)
	r.lost.print(t)
	r.contained.print(t)
	r.inconsistent.print(t)
	r.outOfStep.print(t)
	require.Greater(t, total, failed, "no statement succeeded")
	tg.stop()
}

// statementRun is what the connections of a run share.
type statementRun struct {
	*target
	until   time.Time
	stop    chan struct{}
	workers []*statementWorker

	statements, failed atomic.Int64
	// lost are statements that cost their connection, contained those that ran
	// into a panic: faults of the SQL layer that have not gone further.
	lost, contained, inconsistent, outOfStep *examples
}

// prepare creates the tables and returns the server's functions.
func (r *statementRun) prepare(rng *rand.Rand) []function {
	ctx := context.Background()
	conn := r.connect("")
	_, err := conn.ExecContext(ctx, "CREATE DATABASE "+database)
	require.NoError(r.t, err)
	_, err = conn.ExecContext(ctx, "USE "+database)
	require.NoError(r.t, err)
	gen := &generator{rng: rng}
	for i := range tables {
		for created := false; !created; { // most definitions are refused
			_, err := conn.ExecContext(ctx, gen.create(fmt.Sprintf("t%d", i)))
			var e *mysql.MySQLError
			require.True(r.t, err == nil || errors.As(err, &e), "create a table: %v", err)
			created = err == nil
		}
	}
	return r.builtins(conn)
}

// builtins asks the server for its functions, and tries how many arguments they
// take. It closes the connection.
func (r *statementRun) builtins(conn *sql.Conn) []function {
	t, ctx := r.t, context.Background()
	rows, err := conn.QueryContext(ctx, "SHOW BUILTINS")
	require.NoError(t, err)
	var names []string
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		// Operators are among them too.
		if !slices.Contains(excluded, name) && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == "" {
			names = append(names, name)
		}
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	var functions []function
	for _, name := range names {
		for n := range 6 {
			call := name + "(" + strings.TrimPrefix(strings.Repeat(", 1", n), ", ") + ")"
			_, err := conn.ExecContext(ctx, "SELECT "+call)
			var e *mysql.MySQLError
			if errors.As(err, &e) && slices.Contains([]uint16{1064, 1305, 1582}, e.Number) {
				continue // the syntax, no such function, the number of arguments
			}
			functions = append(functions, function{name, n})
			if err != nil && e == nil {
				r.lost.add(err.Error(), call)
				_ = conn.Close()
				conn = r.connect(database)
			}
		}
	}
	_ = conn.Close()
	require.Greater(t, len(functions), 200)
	return functions
}

// checkTables checks the indexes of what the run has left.
func (r *statementRun) checkTables() {
	r.t.Helper()
	db := r.Open(database)
	defer db.Close()
	for i := range tables {
		_, err := db.Exec(fmt.Sprintf("ADMIN CHECK TABLE t%d", i))
		var e *mysql.MySQLError
		if errors.As(err, &e) && slices.Contains(inconsistent, e.Number) {
			r.inconsistent.add(e.Error(), "at the end")
		}
	}
}

// guard kills what takes too long, and gives up on what cannot be killed. It resumes the
// jobs that a statement has paused: TiDB's wait for that although they are killed.
func (r *statementRun) guard() {
	conn := r.connect("")
	defer conn.Close()
	for {
		select {
		case <-r.stop:
			return
		case <-time.After(time.Second):
		}
		r.resume(conn)
		for _, w := range r.workers {
			current := w.current.Load()
			if current == nil {
				continue
			}
			switch age := time.Since(current.began); {
			case age > tooLong+hangTimeout:
				r.t.Errorf("hangs for %s and cannot be killed: %.3000s\nbefore it: %.6000s\ngoroutines: %s",
					age.Round(time.Second), current.text, strings.Join(current.before, "\n"), r.goroutines())
				r.Kill()
				return
			case age > tooLong:
				_, err := conn.ExecContext(context.Background(), fmt.Sprintf("KILL QUERY %d", current.connection))
				if err != nil {
					r.t.Errorf("KILL: %v", err)
					return
				}
			}
		}
	}
}

// tidy resumes jobs that were paused, and keeps the tables small and in place.
func (r *statementRun) tidy(gen *generator) {
	db := r.Open(database)
	db.SetMaxOpenConns(1)
	defer db.Close()
	for {
		select {
		case <-r.stop:
			return
		case <-time.After(200 * time.Millisecond):
		}
		// Tables and jobs come and go meanwhile; what fails now is done later.
		for i := range tables {
			var count int
			err := db.QueryRow(fmt.Sprintf("SELECT COUNT(*) FROM t%d", i)).Scan(&count)
			if isMissing(err) {
				_, _ = db.Exec(gen.create(fmt.Sprintf("t%d", i)))
			} else if err == nil && count > mostRows {
				_, _ = db.Exec(fmt.Sprintf("DELETE FROM t%d LIMIT %d", i, count-mostRows/2))
			}
		}
		var ids []int64
		rows, err := db.Query("SELECT job_id FROM information_schema.ddl_jobs WHERE state IN ('paused', 'pausing')")
		if err != nil {
			continue
		}
		for rows.Next() {
			var id int64
			if rows.Scan(&id) == nil {
				ids = append(ids, id)
			}
		}
		_ = rows.Close()
		for _, id := range ids {
			_, _ = db.Exec(fmt.Sprintf("ADMIN RESUME DDL JOBS %d", id))
		}
	}
}

// isMissing says that a table does not exist.
func isMissing(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == 1146
}

// running is a statement in flight.
type running struct {
	text       string
	began      time.Time
	connection int64
	before     []string
}

// statementWorker sends statements over one connection at a time.
type statementWorker struct {
	run     *statementRun
	gen     *generator
	conn    *sql.Conn
	id      int64
	current atomic.Pointer[running]
	// before are the statements before the current one, and how they ended.
	before []string
}

func (w *statementWorker) work() {
	for time.Now().Before(w.run.until) && !w.run.t.Failed() {
		if w.conn == nil {
			if err := w.reconnect(); err != nil {
				w.run.t.Errorf("log in: %v", err)
				return
			}
		}
		w.gen.params = w.gen.chance(3)
		statement, args := w.gen.statement(), w.gen.args
		if w.gen.chance(20) {
			statement, args = "ROLLBACK", nil // ends what others may wait for
		}
		w.current.Store(&running{text: statement, began: time.Now(), connection: w.id, before: slices.Clone(w.before)})
		err := w.contained(statement, args)
		w.current.Store(nil)
		w.run.statements.Add(1)
		w.judge(statement, err)
		w.before = append(w.before[max(0, len(w.before)-history+1):], fmt.Sprintf("%.1000s (prepared %t, error %v)", statement, w.gen.params, err))
	}
	if w.conn != nil {
		_ = w.conn.Close()
	}
}

func (w *statementWorker) reconnect() error {
	conn, err := w.run.dial(database)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for _, setting := range []string{"max_execution_time = 3000", "innodb_lock_wait_timeout = 1", "cte_max_recursion_depth = 200"} {
		if _, err := conn.ExecContext(ctx, "SET "+setting); err != nil {
			return err
		}
	}
	w.conn = conn
	return conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&w.id)
}

// errOutOfStep says that an answer was none to the request.
var errOutOfStep = errors.New("the answer is out of step")

// contained is execute with the panics of the client's library, which it has for
// answers that it does not expect.
func (w *statementWorker) contained(statement string, args []any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errOutOfStep, r)
		}
	}()
	return w.execute(statement, args)
}

// execute runs a statement and reads all that comes back.
func (w *statementWorker) execute(statement string, args []any) error {
	ctx := context.Background()
	var rows *sql.Rows
	if w.gen.params {
		prepared, err := w.conn.PrepareContext(ctx, statement)
		if err != nil {
			return err
		}
		defer prepared.Close()
		if rows, err = prepared.QueryContext(ctx, args...); err != nil {
			return err
		}
	} else {
		var err error
		if rows, err = w.conn.QueryContext(ctx, statement); err != nil {
			return err
		}
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	dest := make([]any, len(columns))
	for i := range dest {
		dest[i] = new(sql.RawBytes)
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
	}
	return rows.Err()
}

// judge sorts an answer into what a client has to expect and what not.
func (w *statementWorker) judge(statement string, err error) {
	if err == nil {
		return
	}
	w.run.failed.Add(1)
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		if strings.Contains(e.Message, ourPanic) {
			w.run.t.Errorf("%v: %.3000s", e, statement)
		}
		if slices.Contains(inconsistent, e.Number) {
			w.run.inconsistent.add(e.Error(), statement)
		}
		for _, sign := range []string{"runtime error", "index out of range", "nil pointer", "interface conversion", "panic"} {
			if strings.Contains(e.Message, sign) {
				w.run.contained.add(e.Message, statement)
				return
			}
		}
		return
	}
	if strings.HasPrefix(err.Error(), "sql: ") {
		return // a number of parameters that the server counts otherwise
	}
	if errors.Is(err, mysql.ErrMalformPkt) || errors.Is(err, mysql.ErrPktSync) || errors.Is(err, errOutOfStep) {
		// TiDB sends one packet too many now and then. The connection is the offender's.
		w.run.outOfStep.add(err.Error(), fmt.Sprintf("%.1000s\nbefore it: %.2000s", statement, strings.Join(w.before, "\n")))
	}
	w.run.lost.add(err.Error(), statement)
	_ = w.conn.Close()
	w.conn = nil
}

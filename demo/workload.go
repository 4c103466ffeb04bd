package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/time/rate"
)

// phase is the part of the demonstration a transaction belongs to.
type phase int32

const (
	before phase = iota
	during
	after
	phases
)

// workload is the live load: threads that run transactions in a closed loop.
type workload struct {
	db      *sql.DB
	rows    int
	limiter *rate.Limiter // nil without a limit
	now     atomic.Int32  // the current phase
	cancel  context.CancelFunc
	threads sync.WaitGroup

	mu      sync.Mutex
	started [phases]time.Time
	ended   [phases]time.Time
	stats   [phases]phaseStats
	failed  []error
}

// maxKeptErrors bounds the errors that are kept for the report.
const maxKeptErrors = 5

func startWorkload(ctx context.Context, db *sql.DB, threads, rows int, perSecond float64) *workload {
	ctx, cancel := context.WithCancel(ctx)
	w := &workload{db: db, rows: rows, cancel: cancel}
	if perSecond > 0 {
		w.limiter = rate.NewLimiter(rate.Limit(perSecond), 1)
	}
	w.started[before] = time.Now()
	for range threads {
		rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
		w.threads.Add(1)
		go func() {
			defer w.threads.Done()
			w.loop(ctx, rng)
		}()
	}
	return w
}

// enter ends the current phase and begins the next one.
func (w *workload) enter(p phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.ended[p-1], w.started[p] = now, now
	w.now.Store(int32(p))
}

// stop ends the load and waits for its threads. Stopping twice does nothing.
func (w *workload) stop() {
	w.mu.Lock()
	if p := phase(w.now.Load()); w.ended[p].IsZero() {
		w.ended[p] = time.Now()
	}
	w.mu.Unlock()
	w.cancel()
	w.threads.Wait()
}

// loop runs transactions until ctx ends. A transaction counts for the phase in
// which it began; one that the end of the load cuts off does not count.
func (w *workload) loop(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		if w.limiter != nil && w.limiter.Wait(ctx) != nil {
			return
		}
		p, start := phase(w.now.Load()), time.Now()
		err := w.transaction(ctx, rng)
		elapsed := time.Since(start)
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		switch {
		case err == nil:
			w.stats[p].latencies = append(w.stats[p].latencies, elapsed)
		case isConflict(err):
			w.stats[p].conflicts++
		default:
			w.stats[p].errors++
			if len(w.failed) < maxKeptErrors {
				w.failed = append(w.failed, err)
			}
		}
		w.mu.Unlock()
	}
}

// MySQL errors by which a server asks to run the transaction again.
const (
	errLockWaitTimeout = 1205
	errDeadlock        = 1213
	errWriteConflict   = 9007
)

func isConflict(err error) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return false
	}
	return e.Number == errLockWaitTimeout || e.Number == errDeadlock || e.Number == errWriteConflict
}

const (
	pointSelects = 10
	rangeSize    = 100
)

// transaction is sysbench's oltp_read_write.
func (w *workload) transaction(ctx context.Context, rng *rand.Rand) (err error) {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the first error is what counts
		}
	}()
	id := func() int { return 1 + rng.IntN(w.rows) }
	for range pointSelects {
		if err := read(ctx, tx, "SELECT c FROM "+tableName+" WHERE id=?", id()); err != nil {
			return err
		}
	}
	for _, query := range []string{
		"SELECT c FROM " + tableName + " WHERE id BETWEEN ? AND ?",
		"SELECT SUM(k) FROM " + tableName + " WHERE id BETWEEN ? AND ?",
		"SELECT c FROM " + tableName + " WHERE id BETWEEN ? AND ? ORDER BY c",
		"SELECT DISTINCT c FROM " + tableName + " WHERE id BETWEEN ? AND ? ORDER BY c",
	} {
		first := id()
		if err := read(ctx, tx, query, first, first+rangeSize-1); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "UPDATE "+tableName+" SET k=k+1 WHERE id=?", id()); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE "+tableName+" SET c=? WHERE id=?", digitGroups(rng, 10), id()); err != nil {
		return err
	}
	moved := id()
	if _, err := tx.ExecContext(ctx, "DELETE FROM "+tableName+" WHERE id=?", moved); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO "+tableName+" (id, k, c, pad) VALUES (?, ?, ?, ?)",
		moved, id(), digitGroups(rng, 10), digitGroups(rng, 5)); err != nil {
		return err
	}
	return tx.Commit()
}

// read runs a query and reads its whole result.
func read(ctx context.Context, tx *sql.Tx, query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var value sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&value); err != nil {
			return err
		}
	}
	return rows.Err()
}

// failure is the error of a load in which a transaction failed other than by a
// retryable conflict, or in which nothing ran at all.
func (w *workload) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	failed, ran := 0, 0
	for _, s := range w.stats {
		failed += s.errors
		ran += len(s.latencies)
	}
	if failed > 0 {
		return fmt.Errorf("%d transactions failed, for example: %w", failed, errors.Join(w.failed...))
	}
	if ran == 0 {
		return errors.New("the load ran no transaction")
	}
	return nil
}

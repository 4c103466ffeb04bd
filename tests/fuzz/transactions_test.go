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
	// contenders is the number of connections that send transactions.
	contenders = 24
	// values is how many values keys have: so few that all meet.
	values   = 30
	accounts = 6
	balance  = 1000
	counters = 4
)

// TestRandomTransactions has many clients change the same few rows by statements
// and transactions of all kinds, while indexes come and go, jobs are paused and
// cancelled, and statements are killed. Each error needs an explanation
// (expected_test.go), connections are lost by KILLs only, money neither comes
// nor goes, what was acknowledged counts, and TiDB finds the indexes to be as their
// tables in both of its ways. It runs twice as long as the others.
func TestRandomTransactions(t *testing.T) {
	randtest.SkipShort(t)
	rng := randtest.Rand(t)
	// Each failed statement is a warning of several lines.
	r := &transactionRun{target: startTarget(t, memoryLimit, "--log-level", "error"), stop: make(chan struct{}), errors: newExamples("explained errors")}
	r.errors.most, r.journal.most = 1000, 4000
	r.prepare()
	child := func() *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())) }
	for range contenders {
		r.contenders = append(r.contenders, &contender{run: r, rng: child()})
	}
	altering, controlling, killing := child(), child(), child()
	r.until = time.Now().Add(2 * runTime(t))

	var work, helpers, control, guard sync.WaitGroup
	guarded := make(chan struct{})
	guard.Go(func() { r.guard(guarded) })
	controlled := make(chan struct{})
	control.Go(func() { r.control(controlling, controlled) })
	helpers.Go(func() { r.alter(altering) })
	helpers.Go(func() { r.kill(killing) })
	for _, c := range r.contenders {
		work.Go(c.work)
	}
	work.Wait()
	close(r.stop)
	helpers.Wait()
	close(controlled) // it resumes what alter may be waiting for
	control.Wait()
	close(guarded)
	guard.Wait()

	last := r.Open(database)
	r.checkTables(last)
	require.NoError(t, last.Close())
	r.checkCounters()
	t.Logf("%d statements, %d of them with an error; %d transactions; %d KILLs, %d lost connections; %d schema changes, %d of them without an error, %d jobs paused or cancelled; %d checks of the tables",
		r.statements.Load(), r.failed.Load(), r.transactions.Load(), r.kills.Load(), r.lost.Load(), r.alters.Load(), r.altered.Load(), r.controlled.Load(), r.checks.Load())
	r.errors.print(t)
	if t.Failed() {
		t.Logf("what was done in the end, with the moments that timestamps are of:\n%s", r.journal.String())
	}
	require.Positive(t, r.transactions.Load(), "no transaction was committed")
	r.target.stop()
}

// transactionRun is what the connections of a run share.
type transactionRun struct {
	*target
	until      time.Time
	stop       chan struct{}
	contenders []*contender
	errors     *examples
	// journal is what the contenders have done lately.
	journal journal

	statements, failed, transactions, kills, lost, alters, altered, controlled, checks atomic.Int64
	// acknowledged are the increments of each counter that were acknowledged,
	// unknown those whose outcome is unknown.
	acknowledged, unknown [counters]atomic.Int64
}

func (r *transactionRun) prepare() {
	conn := r.connect("")
	defer conn.Close()
	queries := []string{
		"CREATE DATABASE " + database,
		"USE " + database,
		"CREATE TABLE p (id INT PRIMARY KEY, u INT, s VARCHAR(20), v INT, UNIQUE KEY u (u))",
		"CREATE TABLE c (a INT, b VARCHAR(10), pid INT, n INT, PRIMARY KEY (a, b) CLUSTERED)",
		"CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL)",
		"CREATE TABLE counter (id INT PRIMARY KEY, n INT NOT NULL)",
	}
	for i := range accounts {
		queries = append(queries, fmt.Sprintf("INSERT INTO account VALUES (%d, %d)", i, balance))
	}
	for i := range counters {
		queries = append(queries, fmt.Sprintf("INSERT INTO counter VALUES (%d, 0)", i))
	}
	execAll(r.t, conn, queries...)
}

// stopped waits for a while and says whether the run has ended.
func stopped(stop <-chan struct{}, wait time.Duration) bool {
	select {
	case <-stop:
		return true
	case <-time.After(wait):
		return false
	}
}

// alter adds and drops indexes, and has TiDB check the tables after each.
func (r *transactionRun) alter(rng *rand.Rand) {
	db := r.Open(database)
	defer db.Close()
	for !stopped(r.stop, 0) {
		a := pick(rng, alterers)
		for _, statement := range []string{a.add, a.drop} {
			r.alters.Add(1)
			_, err := db.Exec(statement)
			var e *mysql.MySQLError
			switch {
			case err == nil:
				r.altered.Add(1)
			case errors.As(err, &e) && (e.Number == 1061 || e.Number == 1091 || e.Number == 8214 || e.Number == 1062 && a.duplicates):
				// It is there or is not, because the one before was cancelled; it was cancelled; rows have equal values.
				r.errors.add(explained(a.kind, "an ALTER that was cancelled, or is refused by the rows", e), statement)
			default:
				r.t.Errorf("%s: %v", statement, err)
			}
			r.checkTables(db)
		}
	}
}

// alterers are the indexes that come and go.
var alterers = []struct {
	kind, add, drop string
	// duplicates says that rows may have equal values.
	duplicates bool
}{
	{kind: "ADD INDEX", add: "ALTER TABLE p ADD INDEX v (v, s)", drop: "ALTER TABLE p DROP INDEX v"},
	{kind: "ADD UNIQUE INDEX", add: "ALTER TABLE p ADD UNIQUE INDEX us (u, s)", drop: "ALTER TABLE p DROP INDEX us"},
	{kind: "ADD INDEX", add: "ALTER TABLE c ADD INDEX n (n), ADD UNIQUE INDEX ba (b, a)", drop: "ALTER TABLE c DROP INDEX n, DROP INDEX ba"},
	{kind: "ADD UNIQUE INDEX", add: "ALTER TABLE p ADD UNIQUE INDEX s (s)", drop: "ALTER TABLE p DROP INDEX s", duplicates: true},
	{kind: "ADD UNIQUE INDEX", add: "ALTER TABLE p ADD UNIQUE INDEX uv ((u * 2))", drop: "ALTER TABLE p DROP INDEX uv"},
	{kind: "ADD INDEX", add: "ALTER TABLE account ADD INDEX b (balance)", drop: "ALTER TABLE account DROP INDEX b"},
	{kind: "ADD INDEX", add: "ALTER TABLE counter ADD INDEX n (n)", drop: "ALTER TABLE counter DROP INDEX n"},
}

// checkTables has TiDB compare all indexes with their tables.
func (r *transactionRun) checkTables(db *sql.DB) {
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		r.t.Errorf("check the tables: %v", err)
		return
	}
	defer conn.Close()
	for _, fast := range []string{"ON", "OFF"} {
		for _, query := range []string{"SET tidb_enable_fast_table_check = " + fast, "ADMIN CHECK TABLE p, c, account, counter"} {
			if _, err := conn.ExecContext(ctx, query); err != nil {
				r.t.Errorf("%s (fast check %s): %v", query, fast, err)
			}
		}
	}
	r.checks.Add(1)
}

// checkCounters compares the counters with what was acknowledged.
func (r *transactionRun) checkCounters() {
	db := r.Open(database)
	defer db.Close()
	for i := range counters {
		var n int64
		require.NoError(r.t, db.QueryRow("SELECT n FROM counter WHERE id = ?", i).Scan(&n))
		least := r.acknowledged[i].Load()
		if most := least + r.unknown[i].Load(); n < least || n > most {
			r.t.Errorf("counter %d is %d; %d increments were acknowledged, %d are unknown", i, n, least, most-least)
		}
	}
}

// control pauses and cancels jobs, and resumes them.
func (r *transactionRun) control(rng *rand.Rand, stop <-chan struct{}) {
	conn := r.connect("")
	defer conn.Close()
	for !stopped(stop, time.Duration(rng.IntN(400))*time.Millisecond) {
		var id int64
		if conn.QueryRowContext(context.Background(), "SELECT job_id FROM information_schema.ddl_jobs WHERE state <> 'synced' LIMIT 1").Scan(&id) == nil && rng.IntN(3) == 0 {
			// It may have ended by now.
			if _, err := conn.ExecContext(context.Background(), fmt.Sprintf("ADMIN %s DDL JOBS %d", pick(rng, []string{"PAUSE", "PAUSE", "CANCEL"}), id)); err == nil {
				r.controlled.Add(1)
			}
			_ = stopped(stop, time.Duration(rng.IntN(200))*time.Millisecond)
		}
		r.resume(conn)
	}
	r.resume(conn)
}

// kill kills statements.
func (r *transactionRun) kill(rng *rand.Rand) {
	conn := r.connect("")
	defer conn.Close()
	for !stopped(r.stop, time.Duration(rng.IntN(100))*time.Millisecond) {
		c := pick(rng, r.contenders)
		id := c.killed.begin()
		if id == 0 {
			continue
		}
		if _, err := conn.ExecContext(context.Background(), fmt.Sprintf("KILL QUERY %d", id)); err != nil {
			r.t.Errorf("KILL: %v", err)
		}
		c.killed.end()
		r.kills.Add(1)
	}
}

// guard gives up on statements that hang.
func (r *transactionRun) guard(stop <-chan struct{}) {
	for !stopped(stop, time.Second) {
		for _, c := range r.contenders {
			if current := c.current.Load(); current != nil && time.Since(current.began) > hangTimeout {
				r.t.Errorf("hangs for %s: %s\nbefore it: %s\ngoroutines: %s",
					time.Since(current.began).Round(time.Second), current.text, strings.Join(current.before, "\n"), r.goroutines())
				r.Kill()
				return
			}
		}
	}
}

// killings knows which statements of a connection a KILL may have hit.
type killings struct {
	mu sync.Mutex
	// connection is whom to kill; number counts its statements.
	connection, number int64
	inFlight           int
	// last is the number of the last statement that began before a KILL was answered.
	last int64
}

func (k *killings) connect(id int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.connection = id
}

func (k *killings) begin() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.connection != 0 {
		k.inFlight++
	}
	return k.connection
}

func (k *killings) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inFlight--
	k.last = k.number
}

// next begins a statement and returns its number.
func (k *killings) next() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.number++
	return k.number
}

// since says whether a KILL may have hit a statement that is not before this one. It
// hits the next one if it comes when no statement runs.
func (k *killings) since(number int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inFlight > 0 || k.last >= number-1 && k.last > 0
}

// contender sends transactions over one connection at a time.
type contender struct {
	run     *transactionRun
	rng     *rand.Rand
	conn    *sql.Conn
	killed  killings
	current atomic.Pointer[running]
	before  []string

	// impatient sessions wait a second for a lock; lazy ones check what is unique
	// when a pessimistic transaction commits; committed ones are READ COMMITTED.
	impatient, lazy, committed bool
	// settings are what the session has set.
	settings []string
	// txn is the mode of the transaction.
	txn mode
	// aborted says that an error has ended the transaction, failed that a statement of
	// it has failed, transferred that it has changed accounts.
	aborted, failed, transferred bool
	// increments are those of counters since the transaction began; a rollback
	// to the savepoint leaves so many, and none is -1.
	increments []int
	savepoint  int
}

func (c *contender) work() {
	for time.Now().Before(c.run.until) && !c.run.t.Failed() {
		if c.conn == nil {
			if err := c.connect(); err != nil {
				if c.killed.since(c.killed.next()) {
					continue
				}
				c.run.t.Errorf("log in: %v", err)
				return
			}
		}
		if c.rng.IntN(20) == 0 {
			c.set()
		} else {
			c.transaction()
		}
	}
	c.killed.connect(0)
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

func (c *contender) connect() error {
	c.killed.connect(0)
	conn, err := c.run.dial(database)
	if err != nil {
		return err
	}
	c.lazy, c.committed, c.impatient, c.settings = false, false, c.rng.IntN(2) == 0, nil
	wait := 3600
	if c.impatient {
		wait = 1
	}
	ctx := context.Background()
	var id int64
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("SET innodb_lock_wait_timeout = %d", wait)); err != nil {
		return err
	}
	c.conn = conn
	c.killed.connect(id)
	return nil
}

// set changes how the session's next transactions are done.
func (c *contender) set() {
	lazy, committed := c.lazy, c.committed
	setting := pick(c.rng, []string{
		"SESSION transaction_isolation = 'READ-COMMITTED'", "SESSION transaction_isolation = 'REPEATABLE-READ'",
		"tidb_enable_async_commit = 1, tidb_enable_1pc = 1", "tidb_enable_async_commit = 0, tidb_enable_1pc = 0",
		"tidb_pessimistic_txn_fair_locking = 1", "tidb_pessimistic_txn_fair_locking = 0",
		"tidb_constraint_check_in_place_pessimistic = 0", "tidb_constraint_check_in_place_pessimistic = 1",
	})
	if value, ok := strings.CutPrefix(setting, "tidb_constraint_check_in_place_pessimistic = "); ok {
		lazy = value == "0"
	}
	if value, ok := strings.CutPrefix(setting, "SESSION transaction_isolation = "); ok {
		committed = value == "'READ-COMMITTED'"
	}
	c.begin(autocommit)
	// If it fails the session's state is unknown; that of a new one is known.
	if !c.do("SET", "SET "+setting) && c.conn != nil {
		c.leave()
	}
	c.lazy, c.committed, c.settings = lazy, committed, append(c.settings, setting)
}

func (c *contender) leave() {
	c.killed.connect(0)
	_ = c.conn.Close()
	c.conn = nil
}

func (c *contender) begin(m mode) {
	c.txn = m
	c.aborted, c.failed, c.transferred, c.increments, c.savepoint = false, false, false, nil, -1
}

// transaction does a transaction of any kind.
func (c *contender) transaction() {
	start := pick(c.rng, []string{"", "", "BEGIN PESSIMISTIC", "BEGIN", "BEGIN OPTIMISTIC"})
	if start == "" {
		c.begin(autocommit)
		c.finish(c.any())
		return
	}
	if c.begin(pessimistic); start == "BEGIN OPTIMISTIC" {
		c.begin(optimistic)
	}
	if !c.do("BEGIN", start) {
		c.rollback()
		return
	}
	for range 1 + c.rng.IntN(5) {
		switch c.rng.IntN(8) {
		case 0:
			if !c.do("SAVEPOINT", "SAVEPOINT s") { // a KILL may come when there is one
				if c.conn != nil {
					c.rollback()
				}
				return
			}
			c.savepoint = len(c.increments)
		case 1:
			if c.do("ROLLBACK TO", "ROLLBACK TO SAVEPOINT s") {
				c.increments = c.increments[:c.savepoint]
			}
		default:
			c.any()
		}
		if c.aborted {
			c.rollback()
			return
		}
		if c.conn == nil {
			return
		}
	}
	if c.rng.IntN(5) == 0 {
		c.rollback()
		return
	}
	committed := c.do("COMMIT", "COMMIT")
	if c.finish(committed); !committed {
		c.rollback() // a KILL may come before the COMMIT has begun
	}
}

func (c *contender) rollback() {
	if !c.do("ROLLBACK", "ROLLBACK") && c.conn != nil {
		c.leave()
	}
}

// finish counts the increments of a transaction that was committed, or whose outcome
// is unknown.
func (c *contender) finish(committed bool) {
	for _, counter := range c.increments {
		switch {
		case committed:
			c.run.acknowledged[counter].Add(1)
		case c.conn == nil || c.killed.since(c.killed.number):
			c.run.unknown[counter].Add(1)
		}
	}
	if committed {
		c.run.transactions.Add(1)
	}
}

// any does any statement that is not about the transaction, and says whether it
// succeeded.
func (c *contender) any() (ok bool) {
	v := func() int { return c.rng.IntN(values) }
	row := fmt.Sprintf("INTO p VALUES (%d, %d, 'x%d', 1)", v(), v(), v())
	switch c.rng.IntN(24) {
	case 0:
		ok = c.do("INSERT", "INSERT "+row)
	case 1:
		ok = c.do("INSERT IGNORE", "INSERT IGNORE "+row)
	case 2:
		ok = c.do("REPLACE", "REPLACE "+row)
	case 3:
		ok = c.do("ON DUPLICATE KEY", fmt.Sprintf("INSERT %s ON DUPLICATE KEY UPDATE v = v + 1, u = u + %d", row, c.rng.IntN(2)))
	case 4:
		ok = c.do("UPDATE", fmt.Sprintf("UPDATE p SET u = %d WHERE id = %d", v(), v()))
	case 5:
		ok = c.do("UPDATE", fmt.Sprintf("UPDATE p SET u = u + 1 WHERE id > %d ORDER BY id DESC LIMIT 3", v()))
	case 6:
		ok = c.do("UPDATE", fmt.Sprintf("UPDATE p SET id = %d WHERE u = %d", v(), v()))
	case 7:
		verb := "UPDATE IGNORE"
		if c.txn == pessimistic && c.lazy { // TestLazyChecksAndUpdateIgnore
			verb = "UPDATE"
		}
		ok = c.do(verb, fmt.Sprintf("%s p SET u = %d, s = 'y%d' WHERE id = %d", verb, v(), v(), v()))
	case 8:
		ok = c.do("DELETE", fmt.Sprintf("DELETE FROM p WHERE id = %d", v()))
	case 9:
		ok = c.do("DELETE", fmt.Sprintf("DELETE FROM p WHERE u BETWEEN %d AND %d", v(), v()))
	case 10:
		ok = c.do("INSERT", fmt.Sprintf("INSERT INTO c VALUES (%d, 'b%d', %d, 1)", v(), v()%3, v()))
	case 11:
		ok = c.do("UPDATE", fmt.Sprintf("UPDATE c SET n = n + 1, pid = %d WHERE a = %d", v(), v()))
	case 12:
		ok = c.do("DELETE", fmt.Sprintf("DELETE FROM c WHERE a = %d", v()))
	case 13:
		ok = c.do("NOWAIT", fmt.Sprintf("SELECT * FROM p WHERE id = %d FOR UPDATE NOWAIT", v()))
	case 14:
		ok = c.do("FOR UPDATE", fmt.Sprintf("SELECT * FROM p WHERE u = %d FOR UPDATE", v()))
	case 15:
		ok = c.do("FOR UPDATE", fmt.Sprintf("SELECT * FROM p WHERE u IN (%d, %d) FOR UPDATE", v(), v()))
	case 16:
		ok = c.do("SELECT", fmt.Sprintf("SELECT COUNT(*), SUM(v) FROM p WHERE s LIKE 'x%d%%'", c.rng.IntN(3)))
	case 17:
		ok = c.do("SELECT", "SELECT COUNT(*) FROM p JOIN c ON p.id = c.pid")
	case 18, 19:
		from, amount := c.rng.IntN(accounts), 1+c.rng.IntN(10)
		to := (from + 1 + c.rng.IntN(accounts-1)) % accounts
		c.transferred = true
		ok = c.do("UPDATE", fmt.Sprintf("UPDATE account SET balance = balance + IF(id = %d, -%d, %d) WHERE id IN (%d, %d)", from, amount, amount, from, to))
	case 20:
		ok = c.sum("FOR UPDATE", "SELECT SUM(balance) FROM account FOR UPDATE")
	case 21:
		if !c.transferred { // a snapshot, and later changes of its own over it, do not add up
			ok = c.sum("SELECT", "SELECT SUM(balance) FROM account")
		}
	default:
		counter := c.rng.IntN(counters)
		ok = c.do("UPDATE", fmt.Sprintf("UPDATE counter SET n = n + 1 WHERE id = %d", counter))
		if ok || c.txn == autocommit {
			c.increments = append(c.increments, counter)
		}
	}
	return ok
}

// sum checks that money neither comes nor goes.
func (c *contender) sum(kind, query string) bool {
	var total int64
	ok := c.read(kind, query, &total)
	if ok && total != accounts*balance {
		c.run.t.Errorf("%s is %d, not %d, in a transaction that is %s, after\n%s", query, total, accounts*balance, c.txn, strings.Join(c.before, "\n"))
	}
	return ok
}

// do executes a statement and says whether it was. The connection may be lost.
func (c *contender) do(kind, statement string) bool { return c.read(kind, statement) }

// read is do with the values of the first row.
func (c *contender) read(kind, statement string, dest ...any) bool {
	if c.conn == nil {
		return false
	}
	number, began := c.killed.next(), time.Now()
	c.current.Store(&running{text: statement, began: began, before: slices.Clone(c.before)})
	err := execute(c.conn, statement, dest)
	c.current.Store(nil)
	c.run.journal.add(began, fmt.Sprintf("connection %d", c.killed.connection), statement, err)
	c.run.statements.Add(1)
	c.before = append(c.before[max(0, len(c.before)-history+1):], fmt.Sprintf("%s (%v)", statement, err))
	if err == nil {
		return true
	}
	c.run.failed.Add(1)
	s := situation{
		kind: kind, txn: c.txn, lazy: c.lazy, committed: c.committed, impatient: c.impatient,
		killed: c.killed.since(number), failed: c.failed, savepoint: c.savepoint >= 0,
	}
	c.failed = true
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		if !s.killed {
			c.run.t.Errorf("%s: %v, without a KILL, after\n%s", statement, err, strings.Join(c.before, "\n"))
		}
		c.run.lost.Add(1)
		c.leave()
		return false
	}
	why := explain(s, e)
	if why == "" {
		c.run.t.Errorf("%s: %v (%+v), connection %d with %s, after\n%s", statement, e, s, c.killed.connection, c.settings, strings.Join(c.before, "\n"))
	}
	c.run.errors.add(explained(kind, why, e), fmt.Sprintf("%s: %s", e.Message, statement))
	if slices.Contains(aborting, e.Number) {
		c.aborted = true
	}
	return false
}

// execute executes a statement and reads all that comes back.
func execute(conn *sql.Conn, statement string, dest []any) error {
	rows, err := conn.QueryContext(context.Background(), statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	for first := true; rows.Next(); first = false {
		if first && len(dest) > 0 {
			if err := rows.Scan(dest...); err != nil {
				return err
			}
		}
	}
	return rows.Err()
}

package fuzz

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/internal/servertest"
)

const (
	// writers and alterers are the numbers of connections that change rows, and tables.
	writers      = 4
	schemaAlters = 4
	// keys is how many values of a column there are, most of which are not unique.
	keys = 100
	// firstRows is how many rows a table has at the beginning.
	firstRows = 400
)

// TestRandomSchemas has clients change rows of tables of all kinds, while others add and
// drop indexes of all kinds, columns and partitions, exchange partitions, and pause, cancel,
// resume and alter jobs, and others read all views of jobs and tables. Errors need an
// explanation, progress never goes back, a statement is done as a whole or not at all, TiDB
// finds the indexes to be as their tables, and in the end no job is left.
// It runs twice as long as the others.
func TestRandomSchemas(t *testing.T) {
	randtest.SkipShort(t)
	rng := randtest.Rand(t)
	r := &schemaRun{target: startTarget(t, memoryLimit, "--log-level", "error"), stop: make(chan struct{}), errors: newExamples("explained errors")}
	r.errors.most = 1000
	r.prepare(rng)
	child := func() *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())) }
	r.until = time.Now().Add(2 * runTime(t))

	var work, helpers, control, guard sync.WaitGroup
	start := func(group *sync.WaitGroup, name string, loop func(*schemaClient)) {
		c := &schemaClient{run: r, rng: child(), name: name}
		c.conn = r.connect(database)
		r.clients = append(r.clients, c)
		group.Go(func() {
			loop(c)
			_ = c.conn.Close()
		})
	}
	controlled, guarded := make(chan struct{}), make(chan struct{})
	for i := range writers {
		start(&work, fmt.Sprintf("writer %d", i), (*schemaClient).write)
	}
	for i := range schemaAlters {
		start(&work, fmt.Sprintf("alterer %d", i), (*schemaClient).alter)
	}
	start(&helpers, "jobs", (*schemaClient).watchJobs)
	start(&helpers, "views", (*schemaClient).watchViews)
	start(&helpers, "definitions", (*schemaClient).watchDefinitions)
	start(&control, "control", func(c *schemaClient) { c.control(controlled) })
	guard.Go(func() { r.guard(guarded) })
	work.Wait()
	close(r.stop)
	helpers.Wait()
	close(controlled) // it resumes what an alterer may be waiting for
	control.Wait()
	close(guarded)
	guard.Wait()

	if !t.Failed() {
		r.checkAll()
	}
	t.Logf("%d statements that change rows, %d of them with an error; %d schema changes, %d of them with an error; %d checks of tables, %d of definitions; %d jobs seen, %d readings; %d requests to jobs",
		r.writes.Load(), r.writesFailed.Load(), r.alters.Load(), r.altersFailed.Load(), r.checks.Load(), r.definitions.Load(), r.jobs.Load(), r.readings.Load(), r.requests.Load())
	r.errors.print(t)
	if t.Failed() {
		t.Logf("what was done to tables and jobs:\n%s", r.journal.String())
	}
	require.Positive(t, r.checks.Load())
	r.target.stop()
}

// schemaRun is what the connections of a run share.
type schemaRun struct {
	*target
	until   time.Time
	stop    chan struct{}
	clients []*schemaClient
	tables  []*changingTable
	errors  *examples
	names   atomic.Int64
	// journal is what was done to tables and jobs.
	journal journal
	// drops and dropsEnded are the statements that drop rows with their partition.
	drops, dropsEnded atomic.Int64

	writes, writesFailed, alters, altersFailed, checks, definitions, jobs, readings, requests atomic.Int64
}

// changingTable is a table whose definition changes.
type changingTable struct {
	name string
	// id, key and suffix are parts of its definition; with an id rows are given theirs.
	id, key, suffix string
	// on is the column of the partitions.
	on     string
	method partitioning
}

type partitioning int

const (
	unpartitioned partitioning = iota
	byRange
	byHash
	byList
	byKey
)

const rangePartitions = " PARTITION BY RANGE (k) (PARTITION p0 VALUES LESS THAN (25), PARTITION p1 VALUES LESS THAN (50), PARTITION p2 VALUES LESS THAN (75), PARTITION p3 VALUES LESS THAN (100))"

var changingTables = []*changingTable{
	{name: "r", key: "PRIMARY KEY (id, k) CLUSTERED", suffix: rangePartitions, on: "k", method: byRange},
	{name: "q", key: "PRIMARY KEY (id, k) NONCLUSTERED", suffix: rangePartitions, on: "k", method: byRange},
	{name: "h", key: "PRIMARY KEY (id) CLUSTERED", suffix: " PARTITION BY HASH (id) PARTITIONS 4", on: "id", method: byHash},
	{name: "l", suffix: " PARTITION BY LIST (k) (PARTITION p0 VALUES IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9), PARTITION p1 VALUES IN (10, 11, 12, 13, 14, 15, 16, 17), PARTITION pd DEFAULT)", on: "k", method: byList},
	{name: "y", key: "PRIMARY KEY (id, s) CLUSTERED", suffix: " PARTITION BY KEY (s) PARTITIONS 3", on: "s", method: byKey},
	{name: "a", id: "AUTO_RANDOM(3)", key: "PRIMARY KEY (id) CLUSTERED"},
	{name: "n", id: "AUTO_INCREMENT", key: "PRIMARY KEY (id) NONCLUSTERED", suffix: " AUTO_ID_CACHE 1 SHARD_ROW_ID_BITS = 3"},
	{name: "w", key: "PRIMARY KEY (s, id) CLUSTERED"},
}

func (t *changingTable) create() string {
	key := t.key
	if key != "" {
		key = ", " + key
	}
	return "CREATE TABLE " + t.name + " (id BIGINT NOT NULL " + t.id + `, k INT NOT NULL, u INT, s VARCHAR(40) COLLATE utf8mb4_general_ci NOT NULL, t VARCHAR(40) COLLATE utf8mb4_0900_ai_ci,
		d DECIMAL(12,3), at DATETIME(3), j JSON, b LONGTEXT, z INT, v BIGINT AS (k * 2 + COALESCE(u, 0)) VIRTUAL, w VARCHAR(80) AS (CONCAT(s, '-', k)) STORED, ` +
		"x VARCHAR(20) AS (LOWER(LEFT(t, 3))) VIRTUAL" + key + ")" + t.suffix
}

func (r *schemaRun) prepare(rng *rand.Rand) {
	c := &schemaClient{run: r, rng: rng, conn: r.connect("")}
	defer c.conn.Close()
	r.tables = changingTables
	c.must("CREATE DATABASE " + database)
	c.must("USE " + database)
	for _, table := range r.tables {
		c.must(table.create())
		for range firstRows / 100 {
			c.must("INSERT IGNORE INTO " + table.name + table.columns() + " VALUES " + c.rows(table, 100))
		}
	}
	require.False(r.t, r.t.Failed())
}

// schemaClient is a connection that does one statement at a time.
type schemaClient struct {
	run     *schemaRun
	rng     *rand.Rand
	name    string
	conn    *sql.Conn
	current atomic.Pointer[running]
	before  []string
	// engine is who builds the indexes of an alterer.
	engine string
}

// noted are the statements that are written to the journal.
var noted = regexp.MustCompile("^(ALTER|TRUNCATE|CREATE|DROP|ADMIN (PAUSE|CANCEL|ALTER)) ")

// query does a statement and returns its rows, as text.
func (c *schemaClient) query(statement string) ([][]string, error) {
	c.current.Store(&running{text: statement, began: time.Now(), before: c.before})
	defer c.current.Store(nil)
	began := time.Now()
	if dropsRows.MatchString(statement) {
		c.run.drops.Add(1)
		defer c.run.dropsEnded.Add(1)
	}
	rows, err := c.text(statement)
	if noted.MatchString(statement) {
		c.run.journal.add(began, c.name, statement, err)
	}
	c.before = append(append([]string(nil), c.before[max(0, len(c.before)-history+1):]...), fmt.Sprintf("%.400s (%v)", statement, err))
	return rows, err
}

func (c *schemaClient) text(statement string) ([][]string, error) {
	rows, err := c.conn.QueryContext(context.Background(), statement)
	if err != nil {
		return nil, err
	}
	return servertest.ReadRows(rows, "NULL")
}

// must does a statement that never fails.
func (c *schemaClient) must(statement string) [][]string {
	rows, err := c.query(statement)
	if err != nil {
		c.failf("%s: %v", statement, err)
	}
	return rows
}

// failf reports what nothing explains.
func (c *schemaClient) failf(format string, args ...any) {
	c.run.t.Errorf("%s: %s, after\n%s", c.name, fmt.Sprintf(format, args...), strings.Join(c.before, "\n"))
}

func (c *schemaClient) going() bool { return time.Now().Before(c.run.until) && !c.run.t.Failed() }

// guard gives up on statements that hang.
func (r *schemaRun) guard(stop <-chan struct{}) {
	for !stopped(stop, time.Second) {
		for _, c := range r.clients {
			if current := c.current.Load(); current != nil && time.Since(current.began) > hangTimeout {
				r.t.Errorf("%s hangs for %s: %s\nbefore it: %s\ngoroutines: %s", c.name,
					time.Since(current.began).Round(time.Second), current.text, strings.Join(current.before, "\n"), r.goroutines())
				r.Kill()
				return
			}
		}
	}
}

// checkAll has TiDB compare all indexes with their tables, and looks for jobs that are left.
func (r *schemaRun) checkAll() {
	c := &schemaClient{run: r, name: "the end", conn: r.connect(database)}
	defer c.conn.Close()
	for _, table := range r.tables {
		c.check(table.name)
	}
	for _, query := range []string{
		"SELECT job_id, type, HEX(job_meta) FROM mysql.tidb_ddl_job",
		"SELECT * FROM mysql.fastddl_ddl_jobs WHERE end_time IS NULL",
		"SELECT * FROM mysql.fastddl_ddl_blockers",
	} {
		if rows := c.must(query); len(rows) > 0 {
			c.failf("is left: %v", rows)
		}
	}
}

// check has TiDB compare the indexes of a table with its rows, in both of its ways.
func (c *schemaClient) check(table string) {
	for _, fast := range []string{"ON", "OFF"} {
		c.must("SET tidb_enable_fast_table_check = " + fast)
		_, err := c.query("ADMIN CHECK TABLE " + table)
		for dropped := true; foundInconsistent(err) && dropped; { // TestDroppedPartitionsAndGlobalIndexes
			before, ended := c.run.drops.Load(), c.run.dropsEnded.Load()
			_, err = c.query("ADMIN CHECK TABLE " + table)
			dropped = before != ended || c.run.drops.Load() != before
		}
		if err != nil && !c.explained("ADMIN CHECK", err) {
			c.failf("the check, fast %s: %v\n%v", fast, err, c.must("SHOW CREATE TABLE "+table))
		}
	}
	c.run.checks.Add(1)
}

// foundInconsistent says whether a check has found an index not to be as its table.
func foundInconsistent(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == 8223
}

// dropsRows are the statements that drop rows with their partition.
var dropsRows = regexp.MustCompile("^ALTER TABLE .* (DROP|TRUNCATE) PARTITION ")

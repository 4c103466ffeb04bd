package fuzz

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	// hungry is how many clients want too much. TiDB leaves some 700 MB of each statement uncounted before it
	// ends it, so that six of them have more than mostMemory.
	hungry     = 2
	hungryRows = 60000
)

// TestMemoryBesideBuilds has clients want more memory than there is, by sorts, joins and large
// transactions under quotas of all sizes, while indexes are built. Statements may be refused or ended for it; no
// connection is lost, no build fails, and the server goes on.
func TestMemoryBesideBuilds(t *testing.T) {
	randtest.SkipShort(t)
	rng := randtest.Rand(t)
	r := &memoryRun{target: startTarget(t, smallMemory, "--log-level", "error"), explained: newExamples("explained errors")}
	setUp := r.connect("")
	execAll(t, setUp,
		"CREATE DATABASE "+database, "USE "+database, "SET cte_max_recursion_depth = 1000000", "SET GLOBAL group_concat_max_len = 1000000000",
		"CREATE TABLE rows_of (id INT PRIMARY KEY, k INT, s VARCHAR(300), j JSON)", "CREATE TABLE copies (id BIGINT PRIMARY KEY AUTO_RANDOM, k INT, s VARCHAR(300))", "CREATE TABLE bomb (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20))",
		"INSERT INTO bomb (v) WITH RECURSIVE d (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM d WHERE i < 300) SELECT i FROM d",
		"INSERT INTO rows_of WITH RECURSIVE d (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM d WHERE i < 5000) SELECT i, i % 1000, CONCAT(MD5(i), REPEAT('x', 200)), JSON_ARRAY(i, i + 1, i + 2) FROM d",
	)
	for n := 5000; n < hungryRows; n += 5000 {
		_, err := setUp.ExecContext(context.Background(), fmt.Sprintf("INSERT INTO rows_of SELECT id + %d, k, CONCAT(MD5(id + %d), REPEAT('x', 200)), JSON_ARRAY(id, k, id + k) FROM rows_of WHERE id <= 5000", n, n))
		require.NoError(t, err)
	}
	require.NoError(t, setUp.Close())
	child := func() *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())) }
	until, stop := time.Now().Add(runTime(t)), make(chan struct{})
	var work, building sync.WaitGroup
	for range hungry {
		own := child()
		work.Go(func() { r.eat(own, until) })
	}
	own := child()
	building.Go(func() { r.build(own, stop) })
	work.Wait()
	close(stop)
	building.Wait()
	t.Logf("%d statements, %d of them with an error; %d builds", r.statements.Load(), r.failed.Load(), r.builds.Load())
	r.explained.print(t)
	require.Positive(t, r.builds.Load())
	r.target.stop()
}

type memoryRun struct {
	*target
	explained                  *examples
	statements, failed, builds atomic.Int64
}

// eat sends statements that want much memory.
func (r *memoryRun) eat(rng *rand.Rand, until time.Time) {
	conn := r.connect(database)
	defer conn.Close()
	ctx := context.Background()
	var bombNames []string
	for name := range bombs {
		bombNames = append(bombNames, name)
	}
	meals := []string{
		"SELECT * FROM rows_of ORDER BY s DESC", "SELECT k, GROUP_CONCAT(s) FROM rows_of GROUP BY k", "SELECT COUNT(*) FROM rows_of a JOIN rows_of b ON a.s = b.s",
		"SELECT COUNT(DISTINCT s) FROM rows_of", "SELECT MAX(n) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY k ORDER BY s) n FROM rows_of) x", "SELECT JSON_LENGTH(JSON_ARRAYAGG(s)) FROM rows_of",
		"SELECT s, COUNT(*) FROM rows_of GROUP BY s ORDER BY s LIMIT 10", "INSERT INTO copies (k, s) SELECT k, s FROM rows_of", "UPDATE copies SET s = CONCAT('y', SUBSTRING(s, 2)), k = k + 1",
		"DELETE FROM copies LIMIT 200000", "DELETE FROM copies", "SELECT * FROM rows_of FOR UPDATE", "ANALYZE TABLE rows_of", "ADMIN CHECK TABLE rows_of", "SELECT * FROM rows_of a JOIN rows_of b ON a.k = b.k ORDER BY a.s, b.s LIMIT 1000000",
		"BEGIN", "COMMIT", "ROLLBACK", "(SELECT s FROM rows_of) UNION (SELECT s FROM copies)", "SELECT COUNT(*) FROM (SELECT s FROM rows_of EXCEPT SELECT s FROM copies) x",
	}
	for time.Now().Before(until) && !r.t.Failed() {
		statement := pick(rng, meals)
		switch rng.IntN(6) {
		case 0:
			statement = bombs[pick(rng, bombNames)]
		case 1:
			statement = fmt.Sprintf("SET tidb_mem_quota_query = %d", pick(rng, []int{1 << 20, 8 << 20, 64 << 20, 256 << 20, 1 << 30}))
		}
		limited, cancel := context.WithTimeout(ctx, hangTimeout)
		_, err := conn.ExecContext(limited, "SET max_execution_time = 3000, innodb_lock_wait_timeout = 2")
		if err == nil {
			err = drain(conn, statement)
		}
		cancel()
		r.statements.Add(1)
		if err == nil {
			continue
		}
		r.failed.Add(1)
		var e *mysql.MySQLError
		if !errors.As(err, &e) || !memoryErrors[e.Number] {
			r.t.Errorf("%.300s: %v", statement, err)
			if e == nil {
				return
			}
			continue
		}
		r.explained.add(fmt.Sprintf("%d %.30s", e.Number, e.Message), statement)
	}
}

// memoryErrors are those of statements that want too much memory or time, and of DML that meets other DML.
var memoryErrors = map[uint16]bool{
	8175: true, 8176: true, // the statement's quota, the server's limit
	8004: true, 1206: true, // the transaction's size, its locks
	3024: true, 1205: true, 1213: true, 9007: true, // time, locks and conflicts
	1301: true, 1260: true, // max_allowed_packet
	1456: true, 3636: true, // the depth of a recursion
}

// build adds and drops indexes, and changes what builds may have.
func (r *memoryRun) build(rng *rand.Rand, stop <-chan struct{}) {
	db := r.Open(database)
	defer db.Close()
	for !stopped(stop, 0) && !r.t.Failed() {
		add := pick(rng, []string{"ADD INDEX i (s)", "ADD INDEX i (s, k), ADD INDEX k (k), ADD UNIQUE INDEX u (s, id)", "ADD UNIQUE INDEX i (s)", "ADD INDEX i ((CAST(j AS UNSIGNED ARRAY)))"})
		drop := "DROP INDEX i"
		if strings.Contains(add, " u ") {
			drop += ", DROP INDEX k, DROP INDEX u"
		}
		table := "rows_of"
		for _, query := range []string{
			fmt.Sprintf("SET GLOBAL fastddl_ddl_memory_quota = %d", pick(rng, []int{0, 16 << 20, 64 << 20, 1 << 30})), fmt.Sprintf("SET GLOBAL tidb_ddl_disk_quota = %d", pick(rng, []int{16 << 20, 100 << 30})),
			"ALTER TABLE " + table + " " + add, "ALTER TABLE " + table + " " + drop,
		} {
			if _, err := db.Exec(query); err != nil {
				r.t.Errorf("%s: %v", query, err)
				return
			}
		}
		r.builds.Add(1)
	}
}

package sql_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/load/jobs"
)

// allowedOfWriters are the errors that a writer beside an import may get: the table is closed, its definition is another one, or another
// transaction was faster.
var allowedOfWriters = []int{8020, 8028, 9007, 1146}

// Imports that are cancelled, killed with the server, or left alone, beside statements that add rows in transactions of all kinds: no
// acknowledged row is lost, and an import is there wholly or not at all.
func TestImportsBesideWritersAtRandom(t *testing.T) {
	randtest.SkipShort(t)
	r := randtest.Rand(t)
	dir := t.TempDir()
	e := openImports(t, dir)
	defer func() { e.close() }()
	deadline := time.Now().Add(randtest.Time(t, 15*time.Second, 10*time.Minute))
	var imported, refused, crashed, cancelled int
	for round := 0; round < 3 || time.Now().Before(deadline); round++ {
		c := e.client()
		if r.IntN(2) == 0 || round == 0 {
			c.run("DROP TABLE IF EXISTS t")
			c.run(importTables[r.IntN(len(importTables))])
		} else {
			c.run([]string{"TRUNCATE TABLE t", "DELETE FROM t"}[r.IntN(2)])
		}
		rows := 50 + r.IntN(500)
		step := []jobs.Step{jobs.StepQueued, jobs.StepDraining, jobs.StepLoading, jobs.StepSwapped}[r.IntN(4)]
		when := []string{"before", "within", "after"}[r.IntN(3)]
		fate := r.IntN(4)
		var stop, closing atomic.Bool
		e.hookImports(func(p jobs.HookPoint) error {
			if p.When != when || p.Step != step {
				return nil
			}
			if fate == 0 && closing.CompareAndSwap(false, true) {
				return errors.New("died")
			}
			return nil
		})
		var writers sync.WaitGroup
		acked := make([][]int, 1+r.IntN(3))
		for w := range acked {
			session, seed := e.client(), r.Uint64()
			writers.Go(func() { acked[w] = addRows(t, session, rand.New(rand.NewPCG(seed, 1)), 1_000_000+w*100_000, &stop) })
		}
		done := e.start("IMPORT INTO t FROM '%s'", e.file("r.csv", 0, rows))
		if fate == 2 {
			time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
			if id := c.run("SELECT id FROM mysql.tidb_import_jobs WHERE status IN ('pending', 'running')"); len(id) > 0 {
				_, _ = c.try("CANCEL IMPORT JOB %s", id[0]) // it may have ended
			}
		}
		err := <-done
		died := err != nil && strings.Contains(err.Error(), "shutdown")
		stop.Store(true)
		writers.Wait()
		if died {
			crashed++
			e.close()
			e = openImports(t, dir)
			c = e.client()
			require.Eventually(t, func() bool { return c.one("SELECT COUNT(*) FROM mysql.fastddl_import_job") == "0" }, hangTimeout, 10*time.Millisecond)
		}
		where := fmt.Sprintf("round %d, %s %s, fate %d, error %v", round, when, step, fate, err)
		loaded, err2 := strconv.Atoi(c.one("SELECT COUNT(*) FROM t WHERE id < 1000000"))
		require.NoError(t, err2)
		switch {
		case err == nil:
			imported++
			require.Equal(t, rows, loaded, where)
		case died:
			require.Contains(t, []int{0, rows}, loaded, where)
		default:
			require.Zero(t, loaded, where)
			if strings.Contains(err.Error(), "not empty") {
				refused++
			} else {
				require.Contains(t, err.Error(), "cancelled", where)
				cancelled++
			}
		}
		var want []string
		for _, ids := range acked {
			for _, id := range ids {
				want = append(want, strconv.Itoa(id))
			}
		}
		slices.Sort(want)
		got := c.run("SELECT id FROM t WHERE id >= 1000000")
		slices.Sort(got)
		require.Equal(t, want, append([]string(nil), got...), where)
		c.check("t")
		e.nothingLeft(c)
	}
	t.Logf("%d imported, %d refused, %d cancelled, %d crashed", imported, refused, cancelled, crashed)
}

// importTables are of several kinds.
var importTables = []string{
	importTable,
	"CREATE TABLE t (id INT PRIMARY KEY NONCLUSTERED, s VARCHAR(40), n INT, KEY n (n))",
	"CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(40), n INT, KEY n (n)) PARTITION BY HASH (id) PARTITIONS 4",
	"CREATE TABLE t (id INT, s VARCHAR(40), n INT, UNIQUE KEY id (id), KEY s (s(5)))",
}

// addRows adds rows with numbers from first on until stop is set, and returns those that were acknowledged.
func addRows(t *testing.T, c *client, r *rand.Rand, first int, stop *atomic.Bool) (acked []int) {
	for id := first; !stop.Load(); id++ {
		row := fmt.Sprintf("(%d, 'w%d', %d)", id, id, r.IntN(100))
		var statements []string
		kept := true
		switch r.IntN(6) {
		case 0:
			statements = []string{"INSERT INTO t VALUES " + row}
		case 1:
			statements = []string{"BEGIN PESSIMISTIC", "SELECT COUNT(*) FROM t", "REPLACE INTO t VALUES " + row, "COMMIT"}
		case 2:
			statements, kept = []string{"BEGIN OPTIMISTIC", "INSERT INTO t VALUES " + row, "DELETE FROM t WHERE id = " + strconv.Itoa(id), "COMMIT"}, false
		case 3:
			statements, kept = []string{"BEGIN", "INSERT INTO t VALUES " + row, "ROLLBACK"}, false
		case 4:
			statements = []string{"BEGIN OPTIMISTIC", "INSERT INTO t VALUES " + row, "COMMIT"}
		case 5:
			statements, kept = []string{"SELECT COUNT(*), SUM(n) FROM t"}, false
		}
		if kept && r.IntN(8) > 0 { // a table that has rows is not imported
			continue
		}
		var failed error
		for _, statement := range statements {
			if _, failed = c.try(statement); failed != nil {
				break
			}
			if r.IntN(3) == 0 {
				time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
			}
		}
		switch {
		case failed != nil:
			if !slices.Contains(allowedOfWriters, errorCode(failed)) {
				t.Errorf("%v: %s", statements, failed.Error())
			}
			c.run("ROLLBACK")
		case kept:
			acked = append(acked, id)
		}
		if r.IntN(2) == 0 {
			time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
		}
	}
	return acked
}

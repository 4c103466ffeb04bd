package blackbox

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// fill inserts rows 1..n of a table (id INT PRIMARY KEY, k INT, c CHAR(60)).
func fill(t *testing.T, db *sql.DB, table string, n int) {
	t.Helper()
	mustExec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(60) NOT NULL)")
	const batch = 1000
	for from := 1; from <= n; from += batch {
		var b strings.Builder
		b.WriteString("INSERT INTO " + table + " VALUES ")
		for id := from; id < from+batch && id <= n; id++ {
			if id > from {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "(%d,%d,'row %d')", id, id*7919%n, id)
		}
		mustExec(t, db, b.String())
	}
}

// indexNames lists the indexes of a table.
func indexNames(t *testing.T, db *sql.DB, table string) []string {
	t.Helper()
	var names []string
	for _, row := range queryAll(t, db, "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = 'test' AND TABLE_NAME = '"+table+"'") {
		names = append(names, row[0])
	}
	slices.Sort(names)
	return names
}

// jobs returns the rows of ADMIN SHOW DDL JOBS as maps from column to value.
func jobs(t *testing.T, db *sql.DB) []map[string]string {
	t.Helper()
	rows, err := db.Query("ADMIN SHOW DDL JOBS 50")
	require.NoError(t, err)
	columns, err := rows.Columns()
	require.NoError(t, err)
	rows.Close()
	var out []map[string]string
	for _, row := range queryAll(t, db, "ADMIN SHOW DDL JOBS 50") {
		job := make(map[string]string, len(columns))
		for i, c := range columns {
			job[c] = row[i]
		}
		out = append(out, job)
	}
	return out
}

// waitForJobs waits until no job is queued or running.
func waitForJobs(t *testing.T, db *sql.DB) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, job := range jobs(t, db) {
			if strings.Contains(job["JOB_TYPE"], "subjob") {
				continue // a part of the job above
			}
			switch job["STATE"] {
			case "synced", "cancelled", "rollback done":
			default:
				return false
			}
		}
		return true
	}, 5*time.Minute, 100*time.Millisecond)
}

func TestAddIndexThroughAllForms(t *testing.T) {
	db := startNode(t, t.TempDir()).db()
	fill(t, db, "f", 5000)
	mustExec(t, db, "ALTER TABLE f ADD INDEX k (k), ADD INDEX kc (k, c), ADD INDEX prefix (c(5))")
	mustExec(t, db, "CREATE INDEX c ON f (c)")
	require.Equal(t, []string{"PRIMARY", "c", "k", "kc", "prefix"}, indexNames(t, db, "f"))
	mustExec(t, db, "ADMIN CHECK TABLE f")
	mustExec(t, db, "ADMIN CHECK INDEX f k")
	require.Contains(t, explain(t, db, "SELECT id FROM f WHERE k = 77"), "k")

	mustExec(t, db, "ALTER TABLE f RENAME INDEX k TO k2")
	mustExec(t, db, "ALTER TABLE f ALTER INDEX k2 INVISIBLE")
	require.NotContains(t, explain(t, db, "SELECT c FROM f WHERE k = 77 AND id > 0"), "k2")
	mustExec(t, db, "ALTER TABLE f ALTER INDEX k2 VISIBLE")
	mustExec(t, db, "DROP INDEX kc ON f")
	mustExec(t, db, "ALTER TABLE f DROP INDEX prefix, DROP INDEX c")
	require.Equal(t, []string{"PRIMARY", "k2"}, indexNames(t, db, "f"))
	mustExec(t, db, "ADMIN CHECK TABLE f")

	job := jobs(t, db)[0]
	require.Equal(t, "synced", job["STATE"])
}

func TestOtherSchemaChanges(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	db := n.db()
	fill(t, db, "o", 100)
	mustExec(t, db, "ALTER TABLE o ADD COLUMN extra INT NOT NULL DEFAULT 5, ADD COLUMN more VARCHAR(10) NULL")
	require.Equal(t, "500", value(t, db, "SELECT SUM(extra) FROM o"))
	mustExec(t, db, "INSERT INTO o VALUES (101, 1, 'x', 6, 'y')")
	mustExec(t, db, "ALTER TABLE o DROP COLUMN more")
	mustExec(t, db, "RENAME TABLE o TO renamed")
	require.Equal(t, "506", value(t, db, "SELECT SUM(extra) FROM renamed"))
	mustExec(t, db, "CREATE DATABASE other")
	mustExec(t, db, "CREATE TABLE other.t (id INT PRIMARY KEY)")
	mustExec(t, db, "INSERT INTO other.t VALUES (1)")
	mustExec(t, db, "TRUNCATE TABLE other.t")
	require.Zero(t, n.terminate())

	db = startNode(t, dir).db()
	require.Equal(t, "0", value(t, db, "SELECT COUNT(*) FROM other.t"))
	require.Equal(t, "101", value(t, db, "SELECT COUNT(*) FROM renamed"))
	mustExec(t, db, "DROP DATABASE other")
	mustExec(t, db, "DROP TABLE renamed")
	require.Empty(t, queryAll(t, db, "SHOW TABLES"))
}

func TestAddIndexUnderLoad(t *testing.T) {
	randtest.SkipShort(t)
	const rows = 20_000
	db := startNode(t, t.TempDir()).db()
	fill(t, db, "u", rows)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var (
		wg        sync.WaitGroup
		committed atomic.Int64
		failed    = make(chan error, 100)
	)
	for w := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for ctx.Err() == nil {
				err := mixedTransaction(ctx, db, rng, rows)
				switch {
				case err == nil:
					committed.Add(1)
				case ctx.Err() == nil && !isConflict(err):
					failed <- err
					return
				}
			}
		}()
	}
	for i := range 5 {
		name := fmt.Sprintf("i%d", i)
		mustExec(t, db, "ALTER TABLE u ADD INDEX "+name+" (k)")
		mustExec(t, db, "ADMIN CHECK INDEX u "+name)
		if i%2 == 1 {
			mustExec(t, db, "ALTER TABLE u DROP INDEX "+name)
		}
	}
	cancel()
	wg.Wait()
	close(failed)
	for err := range failed {
		t.Errorf("a transaction failed: %v", err)
	}
	require.Positive(t, committed.Load())
	mustExec(t, db, "ADMIN CHECK TABLE u")
	require.Equal(t, []string{"PRIMARY", "i0", "i2", "i4"}, indexNames(t, db, "u"))
}

// mixedTransaction changes a key column, another column, a row's place, and
// the number of rows.
func mixedTransaction(ctx context.Context, db *sql.DB, rng *rand.Rand, rows int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	id := func() int { return 1 + rng.IntN(rows) }
	moved := id()
	for _, q := range []string{
		fmt.Sprintf("UPDATE u SET k = %d WHERE id = %d", rng.IntN(rows), id()),
		fmt.Sprintf("UPDATE u SET c = 'changed' WHERE id = %d", id()),
		fmt.Sprintf("DELETE FROM u WHERE id = %d", moved),
		fmt.Sprintf("REPLACE INTO u VALUES (%d, %d, 'new')", moved, rng.IntN(rows)),
		fmt.Sprintf("UPDATE u SET id = id + %d WHERE id = %d", rows, id()),
	} {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			_ = tx.Rollback()
			// Moving a row may meet one that was moved there before.
			if strings.Contains(err.Error(), "Duplicate entry") {
				return nil
			}
			return err
		}
	}
	return tx.Commit()
}

func TestCancelLeavesNoTrace(t *testing.T) {
	randtest.SkipShort(t)
	db := startNode(t, t.TempDir()).db()
	fill(t, db, "c", 30_000)
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 8192")
	done := make(chan error, 1)
	go func() {
		_, err := db.Exec("ALTER TABLE c ADD INDEX k (k)")
		done <- err
	}()
	id := runningJob(t, db)
	mustExec(t, db, "ADMIN CANCEL DDL JOBS "+id)
	requireCode(t, requireEnds(t, done), 8214, "HY000", "Cancelled DDL job")
	require.Equal(t, []string{"PRIMARY"}, indexNames(t, db, "c"))
	mustExec(t, db, "ADMIN CHECK TABLE c")
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
	mustExec(t, db, "ALTER TABLE c ADD INDEX k (k)")
	mustExec(t, db, "ADMIN CHECK TABLE c")
}

// runningJob waits for a job that backfills and returns its ID.
func runningJob(t *testing.T, db *sql.DB) string {
	t.Helper()
	var id string
	require.Eventually(t, func() bool {
		for _, job := range jobs(t, db) {
			if job["STATE"] == "running" && job["SCHEMA_STATE"] == "write reorganization" {
				id = job["JOB_ID"]
			}
		}
		return id != ""
	}, startTimeout, pollInterval)
	return id
}

package fuzz

import (
	"database/sql"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
)

// TestReorganizedGlobalIndexes shows two faults of TiDB's, with indexes that TiDB has built, which
// TestRandomSchemas stays clear of: when partitions are reorganized it builds global indexes anew. And the fast ADMIN
// CHECK TABLE does not see what is missing until the table has statistics: without, TiDB's planner takes the partitions
// one by one (pkg/planner/core/logical_plan_builder.go:4466) and no global index, so that the check compares the rows with themselves.
func TestReorganizedGlobalIndexes(t *testing.T) {
	db := servertest.Start(t, program, t.TempDir()).Open("test")
	db.SetMaxOpenConns(1) // one session
	execAll(t, db,
		"SET GLOBAL fastddl_ddl_engine = tidb", "SET GLOBAL tidb_enable_dist_task = OFF", "SET GLOBAL tidb_ddl_enable_fast_reorg = OFF",
	)
	for _, c := range []struct {
		name, index string
		// message is the error of reading the table; without one a row is not found by the index.
		message string
	}{
		// The search for the next partition that is not reorganized does not come past those that are (findNextNonTouchedPartitionID in
		// pkg/ddl/index.go:3155): rows of what follows have no entries.
		{"later partitions are left out", "u, k", ""},
		// The hidden column of the old index is removed with it, and the new one has the same (pkg/ddl/partition.go:3558).
		{"hidden columns are removed", "(u + 1), k", "index out of range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			execAll(t, db,
				"DROP TABLE IF EXISTS t",
				"CREATE TABLE t (u INT, k INT) PARTITION BY RANGE (k) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), PARTITION p2 VALUES LESS THAN (30))",
				"INSERT INTO t VALUES (1, 1), (2, 11), (3, 21)",
				"ALTER TABLE t ADD UNIQUE INDEX g ("+c.index+") GLOBAL",
				"ADMIN CHECK TABLE t",
				"ALTER TABLE t REORGANIZE PARTITION p1 INTO (PARTITION p1 VALUES LESS THAN (15), PARTITION p3 VALUES LESS THAN (20))",
			)
			var rows int
			err := db.QueryRow("SELECT COUNT(*) FROM t USE INDEX (g)").Scan(&rows)
			if c.message != "" {
				require.ErrorContains(t, err, c.message)
				return
			}
			require.NoError(t, err)
			require.Equal(t, 2, rows, "TiDB is better now: let TestRandomSchemas do it, and say so in docs/upstream-bugs.md")
			_, err = db.Exec("ADMIN CHECK TABLE t")
			require.NoError(t, err, "the fast check is better now: say so in docs/operations.md and docs/correctness.md")
			for _, query := range []string{"SET tidb_enable_fast_table_check = OFF", "ANALYZE TABLE t; SET tidb_enable_fast_table_check = ON"} {
				for statement := range strings.SplitSeq(query, "; ") {
					_, err = db.Exec(statement)
					require.NoError(t, err, statement)
				}
				_, err = db.Exec("ADMIN CHECK TABLE t")
				require.ErrorContains(t, err, "data inconsistency in table: t, index: g", query)
			}
		})
	}
}

// TestDroppedPartitionsAndGlobalIndexes shows a fault of TiDB's, with an index that TiDB has built, which TestRandomSchemas
// allows for: while DROP PARTITION removes the entries of the partition's rows, global indexes still find the rows
// (IDsInDDLToIgnore in pkg/meta/model/table.go:1058 knows the state before only), and the fast ADMIN CHECK TABLE takes the entries for wrong. Transactions that have used
// the table in each of the states before keep the statement where it has removed nothing yet.
func TestDroppedPartitionsAndGlobalIndexes(t *testing.T) {
	node := servertest.Start(t, program, t.TempDir())
	builder := node.Open("test")
	builder.SetMaxOpenConns(1) // one session
	execAll(t, builder,
		"CREATE TABLE t (u INT, k INT) PARTITION BY RANGE (k) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
		"INSERT INTO t VALUES (1, 1), (2, 11)",
		"SET fastddl_ddl_engine = tidb",
		"ALTER TABLE t ADD UNIQUE INDEX g (u) GLOBAL",
		"ANALYZE TABLE t", // the fast check looks at no global index without statistics
	)
	db := node.Open("test")
	read := func() *sql.Tx {
		tx, err := db.Begin()
		require.NoError(t, err)
		_, err = tx.Exec("SELECT * FROM t")
		require.NoError(t, err)
		return tx
	}
	reader := read()
	dropped := make(chan error, 1)
	go func() {
		_, err := db.Exec("ALTER TABLE t DROP PARTITION p1")
		dropped <- err
	}()
	// loaded reports whether the server has loaded a state of the table: its job shows it earlier.
	loaded := func(state string) bool {
		r, err := http.Get("http://root:@" + node.Status + "/schema/test/t")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		return err == nil && strings.Contains(strings.ReplaceAll(string(body), " ", ""), `"ddl_state":`+state)
	}
	const deleteOnly, writeOnly, deleteReorganization = "1", "2", "4" // model.SchemaState
	for _, state := range []string{writeOnly, deleteOnly} {
		require.Eventually(t, func() bool { return loaded(state) }, hangTimeout, 10*time.Millisecond, state)
		next := read()
		require.NoError(t, reader.Rollback())
		reader = next
	}
	// The reader of the state before keeps the statement there.
	require.Eventually(t, func() bool { return loaded(deleteReorganization) }, hangTimeout, 10*time.Millisecond)
	var rows int
	require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM t USE INDEX (g)").Scan(&rows))
	require.Equal(t, 2, rows, "TiDB is better now: say so to TestRandomSchemas, and in docs/upstream-bugs.md")
	_, err := db.Exec("ADMIN CHECK TABLE t")
	require.ErrorContains(t, err, "data inconsistency in table: t, index: g")
	require.NoError(t, reader.Rollback())
	require.NoError(t, <-dropped)
	_, err = db.Exec("ADMIN CHECK TABLE t")
	require.NoError(t, err)
}

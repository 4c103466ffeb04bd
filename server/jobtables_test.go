package server

import (
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// TestJobTablesAreWrittenByServersOnly: no statement changes, locks or defines the tables by which servers agree on jobs, for any
// user and at any place in a statement. They can be read and copied.
func TestJobTablesAreWrittenByServersOnly(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	root := connect(t, s)
	exec(t, root, "CREATE DATABASE mine", "CREATE TABLE mine.t (job_id INT PRIMARY KEY)")
	conn, err := root.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	for table := range jobTables {
		var n int
		require.NoError(t, root.QueryRow("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'mysql' AND table_name = ?", table).Scan(&n))
		require.Equal(t, 1, n, "%s is no table of TiDB's", table)
	}
	for _, table := range []string{"mysql.fastddl_ddl_record", "`mysql`.`FastDDL_ddl_jobs`", "mysql.tidb_ddl_job", "MYSQL.tidb_mdl_info", "tidb_global_task"} {
		for _, query := range []string{
			"INSERT INTO %s (job_id) VALUES (1)", "REPLACE INTO %s (job_id) VALUES (1)", "INSERT INTO %s (job_id) SELECT 1",
			"UPDATE %s SET job_id = 1", "UPDATE mine.t, %s AS x SET x.job_id = 1", "UPDATE mine.t JOIN (%s AS x) SET t.job_id = 1",
			"DELETE FROM %s", "DELETE x FROM mine.t JOIN %s AS x", "DELETE FROM x USING %s AS x",
			"WITH c AS (SELECT 1) DELETE FROM %s", "EXPLAIN ANALYZE DELETE FROM %s", "TRACE DELETE FROM %s", "EXPLAIN DELETE FROM %s",
			"BATCH ON job_id LIMIT 1 DELETE FROM %s", "PREPARE p FROM 'DELETE FROM %s'", "LOAD DATA LOCAL INFILE 'x' INTO TABLE %s",
			"TRUNCATE TABLE %s", "DROP TABLE %s", "DROP TABLE IF EXISTS mine.none, %s", "DROP VIEW %s",
			"ALTER TABLE %s ADD COLUMN x INT", "ALTER TABLE %s ADD INDEX x (job_id)", "CREATE INDEX x ON %s (job_id)", "DROP INDEX x ON %s",
			"RENAME TABLE %s TO mine.x", "RENAME TABLE mine.t TO %s", "ALTER TABLE mine.t RENAME TO %s", "CREATE TABLE %s (a INT)", "CREATE VIEW %s AS SELECT 1",
			"ALTER TABLE mine.t ADD FOREIGN KEY (job_id) REFERENCES %s (job_id)", "LOCK TABLES %s WRITE", "SELECT * FROM %s FOR UPDATE", "SELECT * FROM mine.t, %s AS x FOR UPDATE OF x", "SELECT * FROM mine.t JOIN %s AS x FOR SHARE",
			"INSERT INTO mine.t SELECT job_id FROM %s FOR UPDATE", "CREATE TABLE mine.child (a BIGINT, FOREIGN KEY (a) REFERENCES %s (job_id))", "FLASHBACK TABLE %s", "RECOVER TABLE %s",
			"ADMIN RECOVER INDEX %s x", "ADMIN CLEANUP INDEX %s x",
		} {
			query = fmt.Sprintf(query, table)
			_, err := conn.ExecContext(t.Context(), "USE mysql")
			require.NoError(t, err)
			_, err = conn.ExecContext(t.Context(), query)
			var sqlErr *mysql.MySQLError
			require.ErrorAs(t, err, &sqlErr, query)
			require.EqualValues(t, 1142, sqlErr.Number, "%s: %s", query, sqlErr.Message)
		}
	}
	_, err = root.Exec("CREATE TABLE mysql.fastddl_new (a INT)")
	require.ErrorContains(t, err, "1142")
	exec(t, root, "LOCK TABLES mysql.fastddl_ddl_jobs READ /*!32311 LOCAL */", "UNLOCK TABLES", "LOCK TABLES mysql.fastddl_ddl_jobs READ", "UNLOCK TABLES",
		"SELECT * FROM mine.t, mysql.fastddl_ddl_jobs AS x FOR UPDATE OF mine.t", "CREATE TABLE mine.copy LIKE mysql.fastddl_ddl_jobs", "INSERT INTO mine.t SELECT job_id FROM mysql.fastddl_ddl_jobs",
		"UPDATE mine.t SET job_id = 1 WHERE job_id IN (SELECT job_id FROM mysql.tidb_ddl_job)", "CREATE VIEW mine.v AS SELECT job_id FROM mysql.fastddl_ddl_jobs",
		"DELETE FROM mine.t WHERE EXISTS (SELECT 1 FROM mysql.fastddl_ddl_jobs)", "CREATE TABLE mine.fastddl_ddl_record (a INT)", "DROP TABLE mine.fastddl_ddl_record")
}

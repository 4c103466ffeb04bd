package fuzz

import "strings"

var (
	// tableOptions follow the columns of a new table.
	tableOptions = []string{
		" PARTITION BY HASH (a) PARTITIONS 3",
		" PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
		" PARTITION BY KEY () PARTITIONS 2", " COMMENT 'x'",
	}
	// alterations follow ALTER TABLE and its name.
	alterations = []string{
		"COMMENT 'é'", "RENAME INDEX i0 TO i1", "ALTER INDEX i0 INVISIBLE", "AUTO_INCREMENT = 9223372036854775807",
		"CONVERT TO CHARACTER SET utf8mb4", "ADD PRIMARY KEY (a)", "DROP PRIMARY KEY", "ADD FOREIGN KEY (b) REFERENCES t1 (a)",
		"ADD INDEX i0 (b), ADD INDEX i1 (c), DROP INDEX i2", "ORDER BY a", "ENGINE = InnoDB", "REMOVE PARTITIONING", "TRUNCATE PARTITION p0",
		"CACHE", "NOCACHE",
	}
	// In the statements below @t is a table.
	adminStatements = []string{
		"ADMIN SHOW DDL", "ADMIN SHOW DDL JOBS", "ADMIN SHOW DDL JOBS 5 WHERE state = 'synced'", "ADMIN SHOW DDL JOB QUERIES 1, 2",
		"ADMIN CHECKSUM TABLE @t", "ADMIN SHOW @t NEXT_ROW_ID", "ADMIN SHOW SLOW RECENT 3", "ADMIN RELOAD EXPR_PUSHDOWN_BLACKLIST",
		"ADMIN CAPTURE BINDINGS", "ADMIN FLUSH SESSION PLAN_CACHE",
	}
	showStatements = []string{
		"ANALYZE TABLE @t", "SHOW CREATE TABLE @t", "SHOW INDEX FROM @t", "SHOW FULL COLUMNS FROM @t", "SHOW TABLE STATUS", "SHOW PROCESSLIST",
		"SHOW WARNINGS", "SHOW ERRORS", "SHOW STATS_META", "SHOW TABLE @t REGIONS", "SHOW VARIABLES LIKE 'tidb%'", "SHOW GRANTS",
		"SHOW MASTER STATUS", "DESC @t", "FLUSH STATUS", "SPLIT TABLE @t BETWEEN (0) AND (1000) REGIONS 3",
	}
	// explanations are put before a query.
	explanations = []string{
		"EXPLAIN ", "EXPLAIN ANALYZE ", "EXPLAIN FORMAT = 'brief' ", "EXPLAIN FORMAT = 'tidb_json' ", "TRACE ", "DESC ",
	}
	sessionStatements = []string{
		"BEGIN", "BEGIN OPTIMISTIC", "COMMIT", "ROLLBACK", "SAVEPOINT p", "ROLLBACK TO p", "RELEASE SAVEPOINT p",
		"START TRANSACTION WITH CONSISTENT SNAPSHOT", "START TRANSACTION READ ONLY AS OF TIMESTAMP NOW() - INTERVAL 1 SECOND",
		"LOCK TABLES @t READ", "UNLOCK TABLES", "DO SLEEP(0.01)", "DEALLOCATE PREPARE s0", "SET PASSWORD = 'x' FOR nobody", "KILL QUERY 1",
		"KILL 18446744073709551615", "USE fuzz", "HELP 'x'", "BINLOG 'x'", "CREATE BINDING FOR SELECT * FROM t0 USING SELECT * FROM t0",
	}
	// frames are those of window functions.
	frames = []string{
		" ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " RANGE UNBOUNDED PRECEDING", " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
		" RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
	}
	// systemTables have rows of the server itself.
	systemTables = []string{
		"information_schema.tables", "information_schema.columns", "information_schema.processlist", "information_schema.statistics",
		"mysql.user", "information_schema.tidb_indexes",
	}
	// hints follow SELECT.
	hints = []string{
		"/*+ HASH_JOIN(s, u) */ ", "/*+ INL_JOIN(u) */ ", "/*+ MERGE_JOIN(s, u) */ ", "/*+ STREAM_AGG() */ ", "/*+ USE_INDEX_MERGE(s) */ ",
		"/*+ MAX_EXECUTION_TIME(500) */ ", "/*+ MEMORY_QUOTA(1 MB) */ ", "DISTINCT ", "SQL_NO_CACHE ", "STRAIGHT_JOIN ",
	}
	// limits end a query.
	limits = []string{
		" LIMIT 3", " LIMIT 0", " LIMIT 5 OFFSET 2", " LIMIT 1 OFFSET 4000000000", " LIMIT 18446744073709551615",
		" LIMIT 18446744073709551615 OFFSET 18446744073709551615",
	}
)

// on names the table of a statement.
func on(table, statement string) string { return strings.ReplaceAll(statement, "@t", table) }

package fuzz

import (
	"math/rand/v2"
	"strings"
)

// literals are values at the edges of the types, and some that belong to none.
var literals = []string{
	"0", "1", "-1", "2", "127", "255", "65536", "2147483647", "-2147483648", "4294967296", "9223372036854775807", "-9223372036854775808",
	"18446744073709551615", "18446744073709551616", "99999999999999999999999999999999999999999999999999999999999999999", "0.1", "-0.0", ".5",
	"1e308", "-1e-308",
	"0.000000000000000000000000000001", "12345678901234567890123456789012345.000000000000000000000000000001", "NULL", "TRUE", "FALSE", "DEFAULT(a)",
	"''", "'a'", "'a '", "'A'", "'ä'", "'ß'", "'日本語'", "'😀'", "'%'", "'_a%'", "'\\\\'", "'\\0'", "'-1'", "'1e5'", "' 12abc'", "'0x1F'",
	"'2024-02-29'",
	"'2024-02-30'", "'0000-00-00'", "'2024-02-29 23:59:59.999999'", "'838:59:59'", "'-1 12:00:00'", "'UTC'", "'+14:00'", "'utf8mb4'", "'{}'", "'[]'",
	"'{\"a\": [1, {\"b\": null}]}'", "'$.a[0].b'", "'$**.b'", "'$[last]'", "'(a|b)*c+'", "'[[:alpha:]]'", "'(?i)x'", "'%Y-%m-%d %H:%i:%s.%f'",
	"'1,2,3'",
	"x''", "x'00'", "x'FF'", "x'00FF5C27'", "b'1'", "b'0'", "0x1F", "_utf8mb4'x'", "_binary'\\0x'", "_latin1'x'", "N'x'",
	"DATE'2024-02-29'", "TIME'12:34:56.789'", "TIMESTAMP'2024-02-29 12:34:56'", "NOW()", "NOW(6)", "CURRENT_DATE", "@@version", "@@sql_mode",
	"@v", "@w",
	"CAST('[1,2,3]' AS JSON)", "CAST(1 AS UNSIGNED)", "CAST(-1 AS DECIMAL(65,30))", "CAST('x' AS CHAR CHARACTER SET binary)", "JSON_OBJECT('a', 1)",
	"REPEAT('x', 5000)", "REPEAT('ä', 100000)", "SPACE(70000)", "UUID()", "RAND()", "MAKE_SET(3, 'a', 'b')", "INTERVAL(1, 2)", "ROW(1, 2)",
	"(1, 'a')",
}

// hugeLiterals ask for much memory; they come seldom. What can be had of them is
// small enough for the rows of all workers to have it at a time: TiDB counts the
// results of expressions only when it has them.
var hugeLiterals = []string{
	"1e400", "REPEAT('x', 3000000)", "LPAD('a', 1e12, 'b')", "RPAD(a, 3000000, 'ab')", "SPACE(1e18)", "REPEAT(a, 1e6)", "RANDOM_BYTES(1024)",
	"HEX(REPEAT('x', 1000000))", "JSON_ARRAY(REPEAT('x', 1000000), REPEAT('y', 1000000))", "COMPRESS(REPEAT('x', 3000000))",
}

// types are those of columns and, where they make sense, of casts.
var types = []string{
	"TINYINT", "SMALLINT UNSIGNED", "MEDIUMINT", "INT", "BIGINT", "BIGINT UNSIGNED", "FLOAT", "DOUBLE", "DECIMAL(10,3)", "DECIMAL(65,30)",
	"BIT(17)", "BOOLEAN",
	"CHAR(10)", "VARCHAR(30)", "VARCHAR(20) COLLATE utf8mb4_general_ci", "VARCHAR(20) COLLATE utf8mb4_unicode_ci",
	"VARCHAR(20) COLLATE utf8mb4_0900_ai_ci",
	"VARCHAR(20) CHARACTER SET latin1", "VARCHAR(20) CHARACTER SET gbk", "CHAR(5) CHARACTER SET ascii", "BINARY(8)", "VARBINARY(40)", "TINYTEXT",
	"TEXT", "LONGTEXT", "BLOB",
	"MEDIUMBLOB", "DATE", "DATETIME", "DATETIME(6)", "TIMESTAMP NULL", "TIMESTAMP(3) NULL", "TIME", "TIME(6)", "YEAR", "ENUM('a','b','ä')",
	"SET('x','y','z')", "JSON",
}

var castTypes = []string{
	"SIGNED", "UNSIGNED", "CHAR", "CHAR(3)", "BINARY", "BINARY(4)", "DECIMAL(10,3)", "DECIMAL(65,30)", "DOUBLE", "FLOAT", "DATE", "DATETIME(6)",
	"TIME", "YEAR", "JSON",
	"CHAR CHARACTER SET utf8mb4",
}

var (
	binaryOperators = []string{
		"+", "-", "*", "/", "%", "DIV", "MOD", "&", "|", "^", "<<", ">>", "=", "<=>", "<>", "<", "<=", ">", ">=", "AND", "OR", "XOR", "LIKE",
		"NOT LIKE", "REGEXP", "||", "&&",
	}
	aggregates = []string{
		"COUNT(%s)", "COUNT(DISTINCT %s)", "SUM(%s)", "SUM(DISTINCT %s)", "AVG(%s)", "MIN(%s)", "MAX(%s)", "BIT_AND(%s)", "BIT_OR(%s)",
		"BIT_XOR(%s)", "STD(%s)", "VAR_SAMP(%s)",
		"GROUP_CONCAT(%s)", "GROUP_CONCAT(DISTINCT %s ORDER BY 1 DESC SEPARATOR '|')", "JSON_ARRAYAGG(%s)", "JSON_OBJECTAGG('k', %s)",
		"ANY_VALUE(%s)", "APPROX_COUNT_DISTINCT(%s)",
		"APPROX_PERCENTILE(%s, 50)", "STDDEV_POP(%s)",
	}
	windows = []string{
		"ROW_NUMBER()", "RANK()", "DENSE_RANK()", "NTILE(3)", "PERCENT_RANK()", "CUME_DIST()", "LAG(%s, 1, NULL)", "LEAD(%s, 2)",
		"FIRST_VALUE(%s)", "LAST_VALUE(%s)", "NTH_VALUE(%s, 2)", "SUM(%s)", "MAX(%s)",
	}
	units = []string{"MICROSECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "DAY_MICROSECOND", "YEAR_MONTH", "HOUR_SECOND"}
	// variables are those of a session that change how statements are run. Not among
	// them: tidb_enable_cascades_planner, an experiment that TiDB has switched off and
	// whose rules apply themselves for ever.
	variables = []string{
		"sql_mode = ''", "sql_mode = DEFAULT", "sql_mode = 'ANSI_QUOTES'", "sql_mode = 'NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
		"sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE'",
		"tidb_enable_vectorized_expression = OFF", "tidb_enable_vectorized_expression = ON", "tidb_max_chunk_size = 32",
		"tidb_max_chunk_size = DEFAULT", "tidb_init_chunk_size = 1",
		"tidb_enable_paging = OFF", "tidb_enable_paging = ON", "tidb_opt_agg_push_down = ON", "tidb_opt_distinct_agg_push_down = ON",
		"tidb_enable_index_merge = OFF",
		"tidb_txn_mode = 'optimistic'", "tidb_txn_mode = 'pessimistic'", "transaction_isolation = 'READ-COMMITTED'",
		"transaction_isolation = 'REPEATABLE-READ'", "autocommit = 0", "autocommit = 1",
		"tidb_mem_quota_query = 1048576", "tidb_mem_quota_query = 134217728", "tidb_isolation_read_engines = 'tikv,tidb'",
		"tidb_partition_prune_mode = 'static'",
		"time_zone = '+09:00'", "time_zone = 'SYSTEM'", "character_set_results = NULL", "character_set_results = latin1", "names utf8mb4",
		"names gbk", "names latin1", "collation_connection = utf8mb4_general_ci",
		"tidb_enable_prepared_plan_cache = OFF", "tidb_enable_non_prepared_plan_cache = ON", "tidb_cost_model_version = 1",
		"tidb_constraint_check_in_place = ON", "foreign_key_checks = 0", "foreign_key_checks = 1",
		"tidb_executor_concurrency = 1", "tidb_executor_concurrency = 5", "tidb_window_concurrency = 1", "tidb_opt_enable_hash_join = OFF",
		"tidb_opt_enable_hash_join = ON", "group_concat_max_len = 10",
		"tidb_enable_clustered_index = OFF", "tidb_enable_clustered_index = ON", "div_precision_increment = 30",
		"tidb_enable_async_commit = OFF", "tidb_enable_1pc = OFF", "@v = 1", "@w = 'ä'", "@v = NULL",
		"tidb_snapshot = ''", "tidb_read_staleness = ''", "tidb_multi_statement_mode = ON", "innodb_lock_wait_timeout = 1",
		"tidb_enable_null_aware_anti_join = OFF", "tidb_opt_projection_push_down = ON",
	}
)

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// marks change the meaning of what follows them.
var marks = []string{"(", ")", "/*", "*/", "/*!80000 ", "--", "'", "`", "\"", ";", ",", "@", "\\", "\x00", "0x", "/*+ ", "/*T! ", "#\n"}

// garble changes a statement in a way that its author did not mean: most of the
// results are none any more.
func garble(rng *rand.Rand, statement string) string {
	words := strings.SplitAfter(statement, " ")
	for range 1 + rng.IntN(3) {
		i, j := rng.IntN(len(words)), rng.IntN(len(words))
		switch rng.IntN(6) {
		case 0:
			words[i] = ""
		case 1:
			words[i], words[j] = words[j], words[i]
		case 2:
			words[i] += words[j]
		case 3:
			b := []byte(words[i] + " ")
			b[rng.IntN(len(b))] = byte(rng.IntN(256))
			words[i] = string(b)
		case 4:
			words[i] = pick(rng, marks) + words[i]
		default:
			words[i] = words[i][:rng.IntN(len(words[i])+1)]
		}
	}
	return strings.Join(words, "")
}

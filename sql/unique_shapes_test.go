package sql_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// mode is how statements are made transactions.
type mode struct {
	name string
	// begin is empty for autocommit.
	begin string
	// set are session variables.
	set []string
}

var (
	autocommit       = mode{name: "autocommit"}
	optimistic       = mode{name: "optimistic", begin: "BEGIN OPTIMISTIC"}
	pessimistic      = mode{name: "pessimistic", begin: "BEGIN PESSIMISTIC"}
	optimisticEager  = mode{"optimistic, checks in place", "BEGIN OPTIMISTIC", []string{"tidb_constraint_check_in_place = ON"}}
	pessimisticLazy  = mode{"pessimistic, checks at the end", "BEGIN PESSIMISTIC", []string{"tidb_constraint_check_in_place_pessimistic = OFF"}}
	readCommitted    = mode{"read committed", "BEGIN PESSIMISTIC", []string{"tx_isolation = 'READ-COMMITTED'"}}
	strictAssertions = mode{"pessimistic, strict assertions", "BEGIN PESSIMISTIC", []string{"tidb_txn_assertion_level = 'STRICT'"}}
	twoPhases        = mode{"optimistic, two phases", "BEGIN OPTIMISTIC", []string{"tidb_enable_1pc = OFF", "tidb_enable_async_commit = OFF"}}

	mainModes = []mode{autocommit, optimistic, pessimistic}
	allModes  = []mode{
		autocommit, optimistic, pessimistic, optimisticEager, pessimisticLazy, readCommitted, strictAssertions, twoPhases,
	}
	txnModes = allModes[1:]
)

// pessimistic says that statements lock what they write.
func (m *mode) pessimistic() bool { return strings.HasSuffix(m.begin, "PESSIMISTIC") }

// shape is a table t with columns a, which names rows, and b, and a unique index u on
// b. Values are numbered; what a number gives is the shape's.
type shape struct {
	name, columns, partition, index string
	// value is the SQL literal of the n-th value, again another literal that is the
	// same to the index, and entry what error 1062 shows of the first.
	value, again, entry func(n int) string
	// noKey says that a is no key of the table.
	noKey bool
}

func number(n int) string { return strconv.Itoa(n) }

func quoted(format string) func(n int) string {
	return func(n int) string { return fmt.Sprintf("'"+format+"'", n) }
}

func text(format string) func(n int) string {
	return func(n int) string { return fmt.Sprintf(format, n) }
}

// shapes are the tables. The first is what a case is shown on.
var shapes = []shape{
	{"integer key", "a INT PRIMARY KEY, b INT", "", "(b)", number, number, number, false},
	{"string key", "a VARCHAR(20) PRIMARY KEY CLUSTERED, b INT", "", "(b)", number, number, number, false},
	{"nonclustered key", "a INT PRIMARY KEY NONCLUSTERED, b INT", "", "(b)", number, number, number, false},
	{"hidden row ID", "a INT, b INT", "", "(b)", number, number, number, true},
	{"composite", "a INT PRIMARY KEY, b INT, c VARCHAR(5) DEFAULT 'x'", "", "(c, b)", number, number, text("x-%d"), false},
	{"prefix", "a INT PRIMARY KEY, b VARCHAR(40)", "", "(b(3))", quoted("v%02dtail"), quoted("v%02dother"), text("v%02d"), false},
	{"case-insensitive", "a INT PRIMARY KEY, b VARCHAR(40) COLLATE utf8mb4_general_ci", "",
		"(b)", quoted("v%02d"), quoted("V%02d "), text("v%02d"), false},
	{"case-insensitive key and value", "a VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY CLUSTERED, b VARCHAR(40) COLLATE utf8mb4_general_ci", "",
		"(b)", quoted("v%02d"), quoted("V%02d "), text("v%02d"), false},
	{"expression", "a INT PRIMARY KEY, b VARCHAR(40)", "", "((LOWER(b)))", quoted("v%02d"), quoted("V%02d"), text("v%02d"), false},
	{"generated", "a INT PRIMARY KEY, b INT, g INT AS (b * 2)", "", "(g)", number, number, func(n int) string { return number(2 * n) }, false},
	{"global index", "a INT PRIMARY KEY, b INT", "PARTITION BY HASH (a) PARTITIONS 3", "(b) GLOBAL", number, number, number, false},
	{"local index", "a INT, b INT", "PARTITION BY HASH (b) PARTITIONS 3", "(b)", number, number, number, true},
}

var placeholder = regexp.MustCompile(`\[(=?)(\d+)\]`)

// sql fills in the values: [n] is the n-th, [=n] the same in another spelling.
func (s *shape) sql(statement string) string {
	return placeholder.ReplaceAllStringFunc(statement, func(p string) string {
		m := placeholder.FindStringSubmatch(p)
		n, _ := strconv.Atoi(m[2])
		if m[1] == "=" {
			return s.again(n)
		}
		return s.value(n)
	})
}

// The commonest statements. b is a value as placeholder, or NULL.

func insert(a int, b string) string {
	return fmt.Sprintf("INSERT INTO t (a, b) VALUES ('%d', %s)", a, b)
}

func update(a int, b string) string { return fmt.Sprintf("UPDATE t SET b = %s WHERE a = '%d'", b, a) }

func remove(a int) string { return fmt.Sprintf("DELETE FROM t WHERE a = '%d'", a) }

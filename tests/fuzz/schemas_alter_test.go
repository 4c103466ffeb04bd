package fuzz

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// alter changes the definitions of tables.
func (c *schemaClient) alter() {
	for c.going() {
		if engine := pick(c.rng, []string{"fastddl", "fastddl", "fastddl", "fastddl", "fastddl", "tidb"}); engine != c.engine {
			c.must("SET fastddl_ddl_engine = " + engine)
			c.engine = engine
		}
		t := pick(c.rng, c.run.tables)
		switch n := c.rng.IntN(24); {
		case n >= 20:
			c.reshape(t)
		case n < 9:
			c.ddl("add", t, "ALTER TABLE "+t.name+" "+strings.Join(c.indexes(t), ", "))
		case n < 12:
			c.ddl("drop", t, fmt.Sprintf("ALTER TABLE %s DROP INDEX %s", t.name, c.index()))
		case n < 15:
			c.mixed(t)
		case n < 19:
			c.partitions(t)
		default:
			c.ddl("truncate", t, "TRUNCATE TABLE "+t.name)
			c.do("autocommit", "INSERT IGNORE INTO "+t.name+t.columns()+" VALUES "+c.rows(t, 200))
		}
	}
}

func (c *schemaClient) index() string { return fmt.Sprintf("i%d", c.rng.IntN(8)) }

// indexes are the parts of a statement that adds some.
func (c *schemaClient) indexes(t *changingTable) []string {
	var parts []string
	for range pick(c.rng, []int{1, 1, 1, 2, 3}) {
		name := c.index()
		if slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(p, name+" ") }) {
			continue
		}
		parts = append(parts, "ADD "+c.definition(t, name))
	}
	return parts
}

// definition is that of an index.
func (c *schemaClient) definition(t *changingTable, name string) string {
	plain := []string{
		"k", "u, s(10)", "s", "t, d", "v", "w", "at DESC, k", "(k * 2)", "(LOWER(s))", "b(20)", "s(3), k", "x", "x, v", "d", "(CAST(j->'$.a' AS UNSIGNED ARRAY))",
		"k, (CAST(j->'$.a' AS UNSIGNED ARRAY))", "(CAST(j->'$.n' AS SIGNED))", "(CAST(d AS CHAR(20)))", "w(5), t(2)", "k, u, s, t, d, at",
	}
	if c.rng.IntN(3) > 0 {
		return "INDEX " + name + " (" + pick(c.rng, plain) + ")" + pick(c.rng, []string{"", "", "", " INVISIBLE", " COMMENT 'c'"})
	}
	unique := pick(c.rng, []string{"u", "u", "id", "v, id", "s, id", "(CAST(j->'$.a' AS UNSIGNED ARRAY)), id", "u, k", "u, s", "(u + 1)", "u, x", "k"})
	def := "UNIQUE INDEX " + name + " (" + unique + ")"
	if t.on == "" {
		return def
	}
	// With a global one on an expression TiDB's REORGANIZE PARTITION breaks the table (TestReorganizedGlobalIndexes).
	if c.rng.IntN(2) == 0 && !strings.Contains(unique, "(") {
		return def + " GLOBAL"
	}
	if !slices.Contains(strings.Split(unique, ", "), t.on) {
		def = "UNIQUE INDEX " + name + " (" + unique + ", " + t.on + ")"
	}
	return def
}

// mixed does several things at once, which watchDefinitions looks for: a column and an index of one number
// come and go together.
func (c *schemaClient) mixed(t *changingTable) {
	n := c.run.names.Add(1)
	column := fmt.Sprintf("m%d ", n) + pick(c.rng, []string{
		"INT DEFAULT 5", "VARCHAR(10) NOT NULL DEFAULT 'x'", "INT", "DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)", "BIGINT AS (k + 1) VIRTUAL", "DECIMAL(10,2) NOT NULL DEFAULT 1.5", "JSON", "TIMESTAMP NULL",
	}) + pick(c.rng, []string{"", "", " FIRST", " AFTER k"})
	parts := []string{"ADD COLUMN " + column, "ADD " + c.definition(t, fmt.Sprintf("m%d", n))}
	if c.rng.IntN(2) == 0 {
		parts[0], parts[1] = parts[1], parts[0]
	}
	if c.rng.IntN(3) == 0 {
		parts = append(parts, pick(c.rng, []string{"ADD INDEX " + c.index() + " (k)", "COMMENT = 'c'", "ALTER COLUMN z SET DEFAULT 7", "MODIFY COLUMN z INT COMMENT 'c'", "MODIFY COLUMN z BIGINT"}))
	}
	if !c.ddl("mixed", t, "ALTER TABLE "+t.name+" "+strings.Join(parts, ", ")) {
		return
	}
	if c.rng.IntN(2) == 0 {
		c.ddl("add", t, fmt.Sprintf("ALTER TABLE %s ADD INDEX n%d (m%d)", t.name, n, n))
		c.ddl("drop", t, fmt.Sprintf("ALTER TABLE %s DROP INDEX n%d", t.name, n))
	}
	drop := []string{fmt.Sprintf("DROP COLUMN m%d", n), fmt.Sprintf("DROP INDEX m%d", n)}
	if c.rng.IntN(2) == 0 {
		drop = append(drop, "ADD "+c.definition(t, c.index()))
	}
	for range 4 { // it may be cancelled
		if c.ddl("mixed drop", t, "ALTER TABLE "+t.name+" "+strings.Join(drop, ", ")) {
			return
		}
		drop = drop[:2]
	}
}

// reshape changes a table in other ways.
func (c *schemaClient) reshape(t *changingTable) {
	alter := "ALTER TABLE " + t.name + " "
	a, b := c.index(), c.index()
	switch c.rng.IntN(12) {
	case 0:
		c.ddl("rename", t, alter+fmt.Sprintf("RENAME INDEX %s TO %s", a, b))
	case 1:
		c.ddl("rename", t, alter+fmt.Sprintf("ALTER INDEX %s %s", a, pick(c.rng, []string{"VISIBLE", "INVISIBLE"})))
	case 2:
		c.ddl("modify", t, alter+"MODIFY COLUMN z "+pick(c.rng, []string{"INT", "BIGINT", "VARCHAR(20)", "DECIMAL(20,4)", "TINYINT"}))
	case 3:
		c.ddl("modify", t, alter+"MODIFY COLUMN z "+pick(c.rng, []string{"INT", "BIGINT"})+", ADD INDEX "+a+" (k)")
	case 4:
		c.ddl("add", t, fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (z, k)", a, t.name))
	case 5:
		c.ddl("drop", t, fmt.Sprintf("DROP INDEX IF EXISTS %s ON %s", a, t.name))
	case 6:
		if c.ddl("rename", &changingTable{name: t.name + "_away"}, "RENAME TABLE "+t.name+" TO "+t.name+"_away") {
			c.ddl("add", &changingTable{name: t.name + "_away"}, "ALTER TABLE "+t.name+"_away ADD INDEX "+a+" (z)")
			c.again("rename", t, "RENAME TABLE "+t.name+"_away TO "+t.name)
		}
	case 7:
		if c.ddl("truncate", &changingTable{name: c.run.tables[0].name}, "DROP TABLE "+t.name) {
			c.again("truncate", t, "FLASHBACK TABLE "+t.name)
		}
	case 8:
		n := c.run.names.Add(1)
		other := &changingTable{name: fmt.Sprintf("c%d", n), on: t.on}
		if c.ddl("exchange", other, "CREATE TABLE "+other.name+" LIKE "+t.name) {
			c.do("autocommit", "INSERT IGNORE INTO "+other.name+t.columns()+" SELECT "+strings.Trim(t.columns(), " ()")+" FROM "+t.name)
			c.ddl("add", other, "ALTER TABLE "+other.name+" "+strings.Join(c.indexes(other), ", "))
			c.again("truncate", c.run.tables[0], "DROP TABLE IF EXISTS "+other.name)
		}
	case 9:
		c.ddl("modify", t, alter+pick(c.rng, []string{"CHANGE COLUMN z zz INT", "CHANGE COLUMN zz z INT", "RENAME COLUMN z TO zz", "RENAME COLUMN zz TO z"}))
	case 10:
		c.ddl("modify", t, alter+"RENAME COLUMN z TO zz, ADD INDEX "+a+" (d)")
		c.ddl("modify", t, alter+"ADD INDEX "+b+" (d), RENAME COLUMN zz TO z")
	default:
		c.ddl("modify", t, alter+pick(c.rng, []string{"ORDER BY k", "COMMENT = 'x'", "TTL = `at` + INTERVAL 100 YEAR TTL_ENABLE = 'OFF'", "REMOVE TTL", "AUTO_INCREMENT = 100000", "ROW_FORMAT = DYNAMIC"}))
	}
}

// again does a statement that may be cancelled until it is done.
func (c *schemaClient) again(kind string, t *changingTable, statement string) {
	for range 10 {
		if c.ddl(kind, t, statement) || c.run.t.Failed() {
			return
		}
	}
	c.failf("%s: is cancelled again and again", statement)
}

// partitions changes partitions.
func (c *schemaClient) partitions(t *changingTable) {
	alter := "ALTER TABLE " + t.name + " "
	n := c.run.names.Add(1)
	switch t.method {
	case byRange:
		c.rangePartitions(t, n)
	case byHash, byKey:
		c.ddl("partition", t, alter+pick(c.rng, []string{"ADD PARTITION PARTITIONS 1", "COALESCE PARTITION 1", "TRUNCATE PARTITION p0",
			fmt.Sprintf("PARTITION BY %s (%s) PARTITIONS %d", map[partitioning]string{byHash: "HASH", byKey: "KEY"}[t.method], t.on, 2+c.rng.IntN(4))}))
	case byList:
		c.ddl("partition", t, alter+pick(c.rng, []string{
			"TRUNCATE PARTITION p1", fmt.Sprintf("REORGANIZE PARTITION p0 INTO (PARTITION p0 VALUES IN (0, 1, 2, 3, 4), PARTITION s%d VALUES IN (5, 6, 7, 8, 9))", n),
			"DROP PARTITION p1", fmt.Sprintf("REORGANIZE PARTITION pd INTO (PARTITION p%d VALUES IN (%d), PARTITION pd DEFAULT)", n, 18+c.rng.IntN(keys-18)),
		}))
	case unpartitioned:
		c.ddl("drop", t, alter+"DROP INDEX "+c.index())
	}
}

func (c *schemaClient) rangePartitions(t *changingTable, n int64) {
	alter := "ALTER TABLE " + t.name + " "
	switch c.rng.IntN(6) {
	case 0:
		c.ddl("partition", t, alter+fmt.Sprintf("TRUNCATE PARTITION p%d", c.rng.IntN(3)))
	case 1:
		if c.ddl("partition", t, alter+"DROP PARTITION p3") {
			c.ddl("partition", t, alter+"ADD PARTITION (PARTITION p3 VALUES LESS THAN (100))")
		}
	case 2:
		c.ddl("partition", t, alter+"ADD PARTITION (PARTITION p3 VALUES LESS THAN (100))")
	case 3:
		// The last ones: what follows others is missing in global indexes (TestReorganizedGlobalIndexes).
		c.ddl("partition", t, alter+fmt.Sprintf("REORGANIZE PARTITION p2, p3 INTO (PARTITION p2 VALUES LESS THAN (%d), PARTITION p3 VALUES LESS THAN (100))", 55+c.rng.IntN(40)))
	default:
		c.exchange(t, n)
	}
}

// exchange swaps a partition with a table of the same definition, which has changed meanwhile.
func (c *schemaClient) exchange(t *changingTable, n int64) {
	other := fmt.Sprintf("e%d", n)
	if !c.ddl("exchange", t, fmt.Sprintf("CREATE TABLE %s LIKE %s", other, t.name)) {
		return
	}
	table := &changingTable{name: other}
	if c.ddl("exchange", table, "ALTER TABLE "+other+" REMOVE PARTITIONING") {
		for range 30 {
			row := strings.Replace(c.rows(t, 1), ", ", fmt.Sprintf(", %d + 0 * ", c.rng.IntN(25)), 1)
			c.do("exchange", "INSERT IGNORE INTO "+other+t.columns()+" VALUES "+row)
		}
		for range c.rng.IntN(3) {
			if name := c.index(); c.rng.IntN(2) == 0 {
				c.ddl("drop", table, fmt.Sprintf("ALTER TABLE %s DROP INDEX %s", other, name))
			} else if c.ddl("add", table, "ALTER TABLE "+other+" ADD "+c.definition(table, name)) && c.rng.IntN(2) == 0 {
				c.ddl("drop", table, fmt.Sprintf("ALTER TABLE %s DROP INDEX %s", other, name))
			}
		}
		for range 2 {
			c.ddl("exchange", t, fmt.Sprintf("ALTER TABLE %s EXCHANGE PARTITION p0 WITH TABLE %s", t.name, other)+pick(c.rng, []string{"", " WITHOUT VALIDATION"}))
			if c.rng.IntN(2) == 0 {
				c.ddl("add", table, "ALTER TABLE "+other+" ADD "+c.definition(table, c.index()))
			}
		}
		c.check(other)
	}
	c.ddl("exchange", table, "DROP TABLE IF EXISTS "+other)
}

// ddl does a statement that changes a definition, has TiDB check the table, and says
// whether it succeeded.
func (c *schemaClient) ddl(kind string, t *changingTable, statement string) bool {
	_, err := c.query(statement)
	c.run.alters.Add(1)
	if err != nil {
		c.run.altersFailed.Add(1)
		if !c.explained(kind, err) {
			c.failf("%s (engine %s): %v", statement, c.engine, err)
		}
	}
	if kind != "exchange" {
		c.check(t.name)
	}
	return err == nil
}

// explained says whether something explains an error of a kind of statement. The list of TiDB's errors for
// schemas that change is not complete: a new one that is only a number fails long runs only, so that no
// change is refused for it by chance.
func (c *schemaClient) explained(kind string, err error) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return false
	}
	for _, x := range schemaErrors {
		if x.number == e.Number && strings.Contains(e.Message, x.text) && slices.ContainsFunc(x.kinds, func(k string) bool { return strings.Contains(kind, k) }) {
			c.run.errors.add(explained(kind, x.why, e), e.Message)
			return true
		}
	}
	if os.Getenv("FASTDDL_LONG") == "" && e.Number != unknownError && kind != "ADMIN CHECK" {
		c.run.errors.add(fmt.Sprintf("unexplained: %s: %d %s", kind, e.Number, e.Message), strings.Join(c.before, "; "))
		return true
	}
	return false
}

// unknownError is the number of errors without one of their own, panics too.
const unknownError = 1105

var (
	anyAlter = []string{"add", "drop", "mixed", "partition", "exchange", "truncate", "rename", "modify"}
	anyWrite = []string{"autocommit", "PESSIMISTIC", "OPTIMISTIC"}
)

// schemaErrors are the errors that clients have to expect.
var schemaErrors = []struct {
	number uint16
	text   string
	kinds  []string
	why    string
}{
	{1061, "", anyAlter, "an index of the name is there"},
	{1091, "", anyAlter, "there is no index or column of the name"},
	{1062, "", anyAlter, "rows have equal values"},
	{8214, "", anyAlter, "the job was cancelled"},
	{1062, "", anyWrite, "a value that another row has"},
	{1213, "", anyWrite, "a deadlock"},
	{9007, "", []string{"OPTIMISTIC"}, "a conflict"},
	{8028, "public column", anyWrite, "a column has another type since the transaction began (pkg/planner/core/preprocess.go:1982)"},
	{8028, "", anyAlter, "the table was truncated by a statement before it in line"},
	{1050, "already exists", []string{"PESSIMISTIC", "OPTIMISTIC"},
		"a statement of the transaction before it met the table while it was dropped: TiDB forgets the table's metadata lock then, but not the table (pkg/planner/core/preprocess.go:1887)"},
	{1051, "", []string{"truncate"}, "the table has another name for a moment, or is dropped"},
	{1146, "", append(append([]string{"ADMIN CHECK", "exchange"}, anyAlter...), anyWrite...), "the table has another name for a moment, or is dropped"},
	{1054, "", []string{"modify", "mixed", "add"}, "the column has another name"},
	{1072, "", []string{"modify", "mixed", "add"}, "the column has another name"},
	{1176, "", []string{"rename"}, "there is no index of the name"},
	{1176, "", []string{"ADMIN CHECK"}, "an index was dropped meanwhile: the fast check names it in its own statements"},
	{1493, "", []string{"partition"}, "the last partition goes as far"},
	{1495, "", []string{"partition"}, "the values of the partition have another one already"},
	{1507, "", []string{"partition"}, "the partition was dropped"},
	{1508, "", []string{"partition"}, "it is the last partition"},
	{8200, "table is partition table", []string{"modify", "mixed"}, "values of partitioned tables are not changed"},
	{8200, "must reorganize all partitions", []string{"partition"}, "partitions came or went by a statement before it in line"},
	{1731, "global index", []string{"exchange"}, "a table with a global index exchanges no partition"},
	{1735, "", []string{"partition"}, "the partition was dropped"},
	{1736, "", []string{"exchange"}, "one of the tables was changed"},
	{3152, "", anyAlter, "an index on a column that is JSON"},
	{1517, "", anyAlter, "a partition of the name is there"},
	{1105, "rollback DDL job error count exceed the limit", anyAlter,
		"a DROP that is cancelled in line, of what a statement before it has dropped: TiDB looks for it 512 times (pkg/ddl/rollingback.go:701)"},
	{1105, "invalid encoded key", []string{"partition", "exchange"}, "a unique multi-valued index that TiDB builds anew beside writers (pingcap/tidb#69660)"},
	{1105, "is not running", []string{"request"}, "a job that has not begun"},
	{1105, "unsupported DDL operation", []string{"request"}, "a job that has nothing to be altered"},
	{1526, "", anyWrite, "there is no partition for the value"},
}

package sql_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/ddl"
	"fastddl/internal/randtest"
)

// mixedTable is the table of statements that do more than adding indexes. Those that
// TiDB executes as well have one of another name.
const mixedTable = `(a INT PRIMARY KEY, b INT, c VARCHAR(20) NOT NULL, d INT NOT NULL, e ENUM('x', 'y') NOT NULL, f DATETIME DEFAULT '2000-01-01',
	g INT AS (b * 2), INDEX ib (b), UNIQUE INDEX ud (d), INDEX ie ((b + 1)), INDEX Two (b, c)) COMMENT 'old'`

// mixedRows are 30 rows of it.
const mixedRows = `(a, b, c, d, e) WITH RECURSIVE n (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 30)
	SELECT a, a % 7, CONCAT('c', a), a * 10, IF(a % 2, 'x', 'y') FROM n`

// mixedStatements are statements that we execute in whole. AFTER stands for a column
// that is there.
var mixedStatements = []string{
	"DROP INDEX ib, ADD INDEX nb (b, c)",
	"DROP INDEX ud, ADD UNIQUE INDEX nu (d, a), ADD INDEX ((d + 1))",
	"DROP INDEX ie, ADD INDEX nie ((b + 2)), DROP INDEX ib, ADD INDEX (d)",
	"RENAME INDEX ib TO jb, ADD UNIQUE INDEX nu (d)",
	"RENAME INDEX ie TO je, ADD INDEX nie ((b + 2))",
	"ADD COLUMN n INT, ADD INDEX nb (c)",
	"ADD COLUMN (n INT NOT NULL DEFAULT 5, m VARCHAR(10) COLLATE utf8mb4_bin), ADD INDEX nb ((b + d))",
	"ADD COLUMN n BIT(3) DEFAULT b'101' FIRST, ADD COLUMN m TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP AFTER c, ADD UNIQUE INDEX nd (d)",
	"ADD COLUMN n INT AS (b + d), ADD COLUMN m JSON, ADD INDEX nb (d)",
	"ADD COLUMN n INT, ADD INDEX nb ((b + d)), ADD COLUMN m INT",
	"ADD INDEX nb ((b + d)), ADD COLUMN n INT, ADD UNIQUE INDEX nu (c, (d + 2))",
	"DROP COLUMN d, ADD INDEX nb (c)",
	"DROP COLUMN e, ADD COLUMN n INT AFTER a, DROP COLUMN f, ADD COLUMN m INT, ADD UNIQUE INDEX nu (c)",
	"ALTER COLUMN c SET DEFAULT 'z', ALTER COLUMN f DROP DEFAULT, ADD INDEX nb (d)",
	"ALTER INDEX ib INVISIBLE, ADD INDEX nb (c(3)), COMMENT = 'new'",
	"ALTER INDEX two INVISIBLE, DROP INDEX ud, RENAME INDEX ib TO ud2, ADD INDEX nb (d), COMMENT = 'new', ENGINE = InnoDB",
	"RENAME COLUMN c TO cc, ADD INDEX nb (d)",
	"CHANGE COLUMN d dd BIGINT NOT NULL COMMENT 'wide', ADD INDEX nb (c)",
	"MODIFY COLUMN c VARCHAR(40) NOT NULL DEFAULT 'q' FIRST, ADD UNIQUE INDEX nb (d)",
	"DROP INDEX IF EXISTS nope, DROP COLUMN IF EXISTS nope, ADD COLUMN IF NOT EXISTS a INT, COMMENT = 'new', ADD INDEX nb (d)",
	"ADD COLUMN (n INT, INDEX nb (b, d)), DROP INDEX two",
	"DISABLE KEYS, COMMENT = 'new', ADD INDEX nb (d), ENABLE KEYS, ORDER BY d",
	"WITH VALIDATION, ADD INDEX nb (d), ADD COLUMN n INT",
	"ADD INDEX nb (d), WITHOUT VALIDATION, RENAME INDEX ib TO jb",
}

// otherMixed are statements on tables of other kinds.
var otherMixed = []struct{ table, statement string }{
	{"(a INT NOT NULL, b INT, c INT, PRIMARY KEY (a) NONCLUSTERED, INDEX ib (b))", "DROP PRIMARY KEY, ADD UNIQUE INDEX u (a)"},
	{"(a INT, b INT, c INT NOT NULL)", "ADD PRIMARY KEY (a), ADD COLUMN n INT NOT NULL FIRST, DROP COLUMN c"},
	{"(a INT NOT NULL, b INT, c INT)", "ADD PRIMARY KEY (a), ADD INDEX ix ((b + 1)), ADD COLUMN n INT"},
	{"(a INT NOT NULL, b INT, c INT)", "ADD INDEX ix ((b + 1)), ADD COLUMN n INT, ADD PRIMARY KEY (a)"},
	{"(a VARCHAR(10), b INT, c INT, PRIMARY KEY (a, b) CLUSTERED, INDEX ic (c))", "DROP INDEX ic, ADD UNIQUE INDEX u (c, a), ADD COLUMN n TEXT AFTER b"},
	{
		"(a INT PRIMARY KEY, b INT, c INT, d INT, INDEX ib (b), INDEX ic (c)) PARTITION BY HASH (a) PARTITIONS 3",
		"DROP INDEX ib, DROP COLUMN c, ADD COLUMN n INT AFTER a, ADD INDEX nb (b), RENAME COLUMN d TO dd",
	},
	{
		`(a INT PRIMARY KEY, b INT, c INT, UNIQUE INDEX ub (b) GLOBAL)
			PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (100))`,
		"DROP INDEX ub, ADD UNIQUE INDEX nb (b) GLOBAL, COMMENT 'global'",
	},
	{"(a BIGINT PRIMARY KEY AUTO_RANDOM(5), b INT, c DATETIME) TTL = `c` + INTERVAL 100 YEAR", "RENAME COLUMN c TO cc, ADD INDEX nb (b)"},
	{
		"(a INT PRIMARY KEY, b INT, c INT, j JSON, INDEX ij ((CAST(j AS SIGNED ARRAY))))",
		"DROP INDEX ij, ADD INDEX nj (b, (CAST(j AS SIGNED ARRAY))), ADD COLUMN n INT",
	},
}

// definition is what a table is, but for its name and when it was changed.
func (e *env) definition(name string) string {
	e.t.Helper()
	info := e.meta(name).Clone()
	info.ID, info.Name, info.UpdateTS, info.Revision = 0, pmodel.NewCIStr(""), 0, 0
	if p := info.GetPartitionInfo(); p != nil {
		for i := range p.Definitions {
			p.Definitions[i].ID = 0
		}
	}
	for _, col := range info.Columns {
		if col.Name.L == "m" && col.OriginDefaultValue != nil {
			col.OriginDefaultValue = "the time of the statement"
		}
	}
	text, err := json.MarshalIndent(info, "", " ")
	require.NoError(e.t, err)
	return string(text)
}

// A statement that does more than adding indexes leaves the very table that TiDB
// leaves, and shows as the job that TiDB shows.
func TestMixedLikeTiDB(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	c.run("SET GLOBAL tidb_enable_dist_task = OFF")
	c.run("SET allow_auto_random_explicit_insert = ON")
	tests := otherMixed
	for _, statement := range mixedStatements {
		tests = append(tests, struct{ table, statement string }{mixedTable, statement})
	}
	for _, test := range tests {
		statement := test.statement
		t.Run(statement, func(t *testing.T) {
			c := c.of(t)
			shown := make(map[string][]string)
			for _, name := range []string{"ours", "theirs"} {
				c.run("DROP TABLE IF EXISTS %s", name)
				c.run("CREATE TABLE %s %s", name, test.table)
				if test.table == mixedTable {
					c.run("INSERT INTO %s %s", name, mixedRows)
				} else {
					c.run("INSERT INTO %s (a, b, c) VALUES (1, 1, 20010101), (2, 2, 20020202), (3, 3, 20030303), (44, 5, 20040404)", name)
				}
				engine := config.EngineFastddl
				if name == "theirs" {
					engine = config.EngineTiDB
				}
				c.run("SET %s = '%s'", config.DDLEngine, engine)
				jobs := c.one("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs")
				c.run("ALTER TABLE %s %s", name, statement)
				warnings := c.run("SHOW WARNINGS")
				for i := range warnings { // which may name the table
					warnings[i] = strings.ReplaceAll(warnings[i], "'"+name+"'", "'t'")
				}
				require.Equal(t, engine == config.EngineTiDB, jobs == c.one("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs"), "%s: %v", name, warnings)
				c.check(name)
				shown[name] = append(warnings, jobRowsOf(c, name)...)
				shown[name] = append(shown[name], c.run("SELECT * FROM %s ORDER BY a", name)...)
			}
			// A time differs, and a primary key and other indexes are one sub-job of ours.
			if strings.Contains(statement, "CURRENT_TIMESTAMP") || strings.Contains(statement, "PRIMARY KEY (a)") && strings.Contains(statement, "ADD INDEX") {
				delete(shown, "ours")
				delete(shown, "theirs")
			}
			require.Equal(t, shown["theirs"], shown["ours"])
			theirs, ours := strings.Split(e.definition("theirs"), "\n"), strings.Split(e.definition("ours"), "\n")
			for i := range min(len(theirs), len(ours)) {
				require.Equal(t, theirs[i], ours[i], "after %v", ours[max(0, i-30):i])
			}
			require.Len(t, ours, len(theirs))
			c.run("INSERT IGNORE INTO ours (a) VALUES (1000), (1001)")
			c.run("DELETE FROM ours WHERE a < 5")
			c.check("ours")
		})
	}
}

// jobRowsOf is what ADMIN SHOW DDL JOBS says of the last statement on a table: types
// and states.
func jobRowsOf(c *client, name string) []string {
	c.t.Helper()
	job := c.one("SELECT MAX(job_id) FROM information_schema.ddl_jobs WHERE table_name = '%s'", name)
	rows := c.run("SELECT job_type, schema_state, state FROM information_schema.ddl_jobs WHERE job_id = %s", job)
	var history model.Job
	data := c.one("SELECT job_meta FROM mysql.tidb_ddl_history WHERE job_id = %s", job)
	require.NoError(c.t, history.Decode([]byte(data)))
	require.Equal(c.t, model.ActionMultiSchemaChange, history.Type)
	return rows
}

// What TiDB refuses is refused with its number, and nothing has changed.
func TestMixedErrors(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t %s", mixedTable)
	c.run("INSERT INTO t %s", mixedRows)
	c.run("CREATE TABLE parent (id INT PRIMARY KEY)")
	c.run("CREATE TABLE child (id INT PRIMARY KEY, p INT, q INT, INDEX ip (p), FOREIGN KEY fk (p) REFERENCES parent (id))")
	was := c.one("SHOW CREATE TABLE t")
	for _, test := range []struct {
		code      int
		statement string
	}{
		{1072, "t ADD COLUMN n INT, ADD INDEX nb (n)"},
		{8200, "t DROP COLUMN c, DROP INDEX two, ADD INDEX nb (c)"},
		{1061, "t DROP INDEX ib, ADD INDEX ib (b, d)"},
		{1091, "t DROP INDEX nope, ADD INDEX nb (d)"},
		{1091, "t DROP COLUMN nope, ADD INDEX nb (d)"},
		{8200, "t RENAME INDEX ib TO nb, ADD INDEX nb (d)"},
		{1176, "t RENAME INDEX nope TO nope2, ADD INDEX nb (d)"},
		{8200, "t ADD COLUMN n INT, ADD COLUMN n INT, ADD INDEX nb (d)"},
		{8200, "t DROP COLUMN c, DROP INDEX two, ADD INDEX nb (d)"}, // it is in a composite index
		{1054, "t ADD COLUMN n INT AFTER nope, ADD INDEX nb (d)"},
		{3108, "t DROP COLUMN b, ADD INDEX nb (d)"}, // an expression needs it
		{1062, "t ADD UNIQUE INDEX nu (b), DROP INDEX ib, ADD COLUMN n INT, COMMENT = 'new'"},
		{1553, "child DROP INDEX ip, ADD INDEX nq (q)"},
		{1828, "child DROP COLUMN p, ADD INDEX nq (q)"},
		{1067, "t ALTER COLUMN d SET DEFAULT 'x', ADD INDEX nb (c)"},
	} {
		c.run("SET %s = '%s'", config.DDLEngine, config.EngineTiDB)
		_, theirs := c.try("ALTER TABLE " + test.statement)
		require.Error(t, theirs, test.statement)
		c.run("SET %s = DEFAULT", config.DDLEngine)
		ours := c.fails(test.code, "ALTER TABLE "+test.statement)
		if test.code != 1062 { // TiDB names another duplicate, of which there are many
			require.Equal(t, theirs.Error(), ours, test.statement)
		}
	}
	require.Equal(t, was, c.one("SHOW CREATE TABLE t"))
	require.Empty(t, c.run("SELECT * FROM mysql.fastddl_ddl_record"))
	c.check("t")
}

// What cannot be done together with a build is TiDB's, with a note.
func TestMixedLeftToTiDB(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	c.run("SET GLOBAL tidb_enable_dist_task = OFF")
	c.run("CREATE TABLE parent (id INT PRIMARY KEY)")
	for _, test := range []struct{ statement, note string }{
		{"MODIFY COLUMN d VARCHAR(10), ADD INDEX nb (c)", "changes values of column d"},
		{"ADD COLUMN n ENUM('é', 'b') CHARSET latin1 DEFAULT 'b' AFTER a, ALTER INDEX ib INVISIBLE, MODIFY COLUMN d VARCHAR(30), ADD INDEX nb (c)", "column d"},
		{"MODIFY COLUMN f DATETIME NOT NULL, ADD INDEX nb (d)", "makes column f NOT NULL"},
		{"AUTO_INCREMENT = 100, ADD INDEX nb (d)", "other options of the table"},
		{"ADD CONSTRAINT fk FOREIGN KEY (b) REFERENCES parent (id), ADD INDEX nb (d)", "something else than plain indexes"},
		{"DROP CHECK nope, ADD INDEX nb (d)", "together with it (DROP CHECK)"},
		{"ADD INDEX nb (d), ALTER CHECK nope NOT ENFORCED", "together with it (ALTER CHECK)"},
		{"ADD INDEX IF NOT EXISTS ib (b), ADD COLUMN n INT", ""},
	} {
		c.run("DROP TABLE IF EXISTS t")
		c.run("CREATE TABLE t %s", mixedTable)
		c.run("CREATE TABLE IF NOT EXISTS like_t LIKE t")
		c.run("SET %s = '%s'", config.DDLEngine, config.EngineTiDB)
		c.run("ALTER TABLE like_t " + test.statement)
		require.NotContains(t, strings.Join(c.run("SHOW WARNINGS"), "\n"), "built by TiDB's own way", "that is what was asked for")
		c.run("SET %s = DEFAULT", config.DDLEngine)
		c.run("ALTER TABLE t " + test.statement)
		warnings := strings.Join(c.run("SHOW WARNINGS"), "\n")
		require.Contains(t, warnings, test.note)
		require.Equal(t, test.note != "", strings.Contains(warnings, "the index is built by TiDB's own way: "), warnings)
		require.Equal(t, "0", c.one("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs"), test.statement)
		c.check("t")
		// TiDB has been given the statement twice, to check and to execute.
		require.Equal(t, e.definition("like_t"), e.definition("t"), test.statement)
		c.run("DROP TABLE like_t")
	}
}

// TestRefusedAsByTiDB: what TiDB refuses in its job and not in its statement is refused by
// ours, and what it accepts is accepted.
func TestRefusedAsByTiDB(t *testing.T) {
	c := newEnv(t).client()
	c.run("SET GLOBAL tidb_enable_dist_task = OFF")
	for _, test := range []struct {
		table, statement string
		code             int // 0: it is accepted
	}{
		{"(a INT NOT NULL, b INT NOT NULL, c INT, UNIQUE u1 (a), UNIQUE u2 (b) INVISIBLE)", "DROP INDEX u1, ADD INDEX k (c)", 3522},
		{"(a INT, b TEXT, j JSON)", "ALTER COLUMN b SET DEFAULT '', ADD INDEX k (a)", 1067},
		{"(a INT, b TINYTEXT, j JSON)", "ALTER COLUMN b SET DEFAULT '', ADD INDEX k (a)", 0},
		{"(a INT, b TEXT, j JSON)", "ALTER COLUMN j SET DEFAULT '', ADD INDEX k (a)", 1101},
		{"(a INT, b INT, c INT, INDEX k1 (a), INDEX k2 (a, b), FOREIGN KEY (a) REFERENCES parent (id))", "DROP INDEX k1, DROP INDEX k2, ADD INDEX k3 (a, c)", 0},
		{"(a INT, b INT, c INT, INDEX k1 (a), FOREIGN KEY (a) REFERENCES parent (id))", "DROP INDEX k1, ADD INDEX k3 (b)", 1553},
	} {
		for _, engine := range []string{config.EngineTiDB, config.EngineFastddl} {
			if engine == config.EngineTiDB && test.code == 1553 {
				continue // which does not see that the key loses its index
			}
			c.run("DROP TABLE IF EXISTS t, parent")
			c.run("CREATE TABLE parent (id INT PRIMARY KEY)")
			c.run("SET sql_mode = ''")
			c.run("CREATE TABLE t %s", test.table)
			c.run("SET %s = '%s'", config.DDLEngine, engine)
			before := c.one("SHOW CREATE TABLE t")
			_, err := c.try("ALTER TABLE t %s", test.statement)
			code := 0
			if err != nil {
				code = errorCode(err)
			}
			require.Equal(t, test.code, code, "%s: %s: %v", engine, test.statement, err)
			require.Equal(t, test.code != 0, before == c.one("SHOW CREATE TABLE t"))
			c.check("t")
		}
	}
	c.run("SET GLOBAL tidb_enable_row_level_checksum = ON")
	defer c.run("SET GLOBAL tidb_enable_row_level_checksum = OFF")
	c.fails(8200, "ALTER TABLE t ADD INDEX x (a), ADD INDEX y (b)")
}

// TestBuildOfARenamedTableIsRefused: a build whose table has another name by the time that it is its turn
// is refused: nothing would keep other DDL off that name.
func TestBuildOfARenamedTableIsRefused(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	first := e.start("ALTER TABLE t ADD INDEX i (b)")
	reach(t, arrived)
	rename := e.start("RENAME TABLE t TO u")
	require.Eventually(t, func() bool { return c.one("SELECT COUNT(*) FROM mysql.tidb_ddl_job") == "2" }, hangTimeout, 5*time.Millisecond)
	second := e.start("ALTER TABLE t ADD INDEX j (b)")
	require.Eventually(t, func() bool { return len(e.DDL().Unfinished()) == 2 }, hangTimeout, 5*time.Millisecond)
	close(leave)
	require.NoError(t, wait(t, first))
	require.NoError(t, wait(t, rename))
	require.Equal(t, 8028, errorCode(wait(t, second)), "as TiDB says it of a table that is gone")
	c.check("u")
	require.Empty(t, c.run("SHOW INDEX FROM u WHERE key_name = 'j'"))
}

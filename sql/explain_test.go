package sql_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/parser/auth"
	"github.com/stretchr/testify/require"

	"fastddl/config"
)

// explainedItem returns the estimate and the info of an item of EXPLAIN's rows, which are separated by spaces.
func explainedItem(t *testing.T, rows []string, item, name string) string {
	t.Helper()
	for _, r := range rows {
		if rest, ok := strings.CutPrefix(r, item+" "+name+" "); ok {
			return rest
		}
	}
	t.Fatalf("no %s %s in %q", item, name, rows)
	return ""
}

// newRows makes table t with n rows.
func newRows(c *client, n int) {
	c.run("CREATE TABLE t (id BIGINT PRIMARY KEY, k INT, u BIGINT, c VARCHAR(64), KEY k_c (k, c))")
	var values []string
	for i := range n {
		if values = append(values, fmt.Sprintf("(%d, %d, %d, md5(%d))", i, i*7919%1000003, i, i)); len(values) == 1000 || i == n-1 {
			c.run("INSERT INTO t VALUES %s", strings.Join(values, ","))
			values = nil
		}
	}
}

// EXPLAIN of a statement that adds an index says what it would cost, by either syntax, and changes nothing.
func TestExplainSaysWhatABuildCosts(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	newRows(c, 3000)
	before := c.one("SHOW CREATE TABLE t")
	jobs := c.run("SELECT job_id FROM mysql.fastddl_ddl_jobs")
	for _, explain := range []string{
		"EXPLAIN ALTER TABLE t ADD INDEX i (c)", "EXPLAIN CREATE INDEX i ON t (c)", "DESC CREATE INDEX i ON t (c);", "describe create index i on test.t (c)",
		"EXPLAIN FORMAT = 'brief' CREATE INDEX i ON t (c) USING BTREE", "/* first */ EXPLAIN /* CREATE */ CREATE INDEX i ON t (c)",
	} {
		rows := c.run("%s", explain)
		require.Equal(t, "3000 counted", explainedItem(t, rows, "rows", ""), explain)
		require.Equal(t, "fastddl ", explainedItem(t, rows, "built_by", ""))
		require.Equal(t, "fits ", explainedItem(t, rows, "verdict", ""))
		require.Equal(t, "0 ", explainedItem(t, rows, "jobs_ahead", ""))
		bytes, err := strconv.Atoi(strings.Fields(explainedItem(t, rows, "index_bytes", "i"))[0])
		require.NoError(t, err)
		require.Greater(t, bytes, 3000*20)
	}
	require.Contains(t, explainedItem(t, c.run("EXPLAIN CREATE UNIQUE INDEX i ON t (u)"), "duplicates", "i"), "none all rows were looked at")
	require.Contains(t, explainedItem(t, c.run("EXPLAIN CREATE INDEX i ON t (k)"), "existing_index", "i"), "k_c begins with these columns already")
	require.Contains(t, explainedItem(t, c.run("SELECT 1; EXPLAIN CREATE INDEX i ON t (k)"), "rows", ""), "3000", "one of several statements")
	require.Equal(t, before, c.one("SHOW CREATE TABLE t"))
	require.Equal(t, jobs, c.run("SELECT job_id FROM mysql.fastddl_ddl_jobs"))

	c.run("BEGIN")
	c.run("INSERT INTO t VALUES (-1, 1, -1, '')")
	c.run("EXPLAIN ALTER TABLE t ADD INDEX i (c)")
	c.run("ROLLBACK")
	require.Equal(t, "3000", c.one("SELECT COUNT(*) FROM t"), "it does not commit")
}

// Errors are those of the statement itself.
func TestExplainFailsAsTheStatement(t *testing.T) {
	c := newEnv(t).client()
	newRows(c, 10)
	c.run("CREATE VIEW v AS SELECT * FROM t")
	for _, statement := range []string{
		"ALTER TABLE t ADD INDEX i (nope)", "CREATE INDEX i ON t (nope)", "ALTER TABLE nope ADD INDEX i (k)", "CREATE INDEX i ON nope (k)",
		"CREATE INDEX k_c ON t (k)", "ALTER TABLE t ADD PRIMARY KEY (k)", "CREATE INDEX i ON t (k, k)", "CREATE INDEX i ON t (c(1000))",
		"ALTER TABLE t ADD INDEX i (k), ADD INDEX i (u)",
	} {
		_, err := c.try("%s", statement)
		require.Error(t, err, statement)
		c.fails(errorCode(err), "EXPLAIN "+statement)
	}
	for _, wrong := range []string{"EXPLAIN CREATE INDEX", "EXPLAIN CREATE TABLE x (a INT)", "EXPLAIN nonsense CREATE INDEX i ON t (k)", "CREATE INDEX i ON"} {
		c.fails(1064, wrong)
	}
	c.fails(1791, "EXPLAIN FORMAT = 'dot' ALTER TABLE t ADD INDEX i (k)")
}

// EXPLAIN ANALYZE builds the index, and says what each stage took beside what was estimated. Sizes are within 15%.
func TestExplainAnalyzeBuilds(t *testing.T) {
	c := newEnv(t).client()
	newRows(c, 20_000)
	rows := c.run("EXPLAIN ANALYZE ALTER TABLE t ADD INDEX i (c)")
	require.Contains(t, explainedItem(t, rows, "rows", ""), "20000 20000 ")
	sizes := strings.Fields(explainedItem(t, rows, "store_bytes", ""))
	estimated, err := strconv.ParseFloat(sizes[0], 64)
	require.NoError(t, err)
	actual, err := strconv.ParseFloat(sizes[1], 64)
	require.NoError(t, err)
	require.Less(t, math.Abs(estimated/actual-1), 0.15, "%v", sizes)
	for _, stage := range []string{"scan", "merge", "wait"} {
		took := strings.Fields(explainedItem(t, rows, "stage_seconds", stage))
		require.Len(t, took, 2, stage)
	}
	c.check("t")
	require.Contains(t, c.one("SHOW CREATE TABLE t"), "KEY `i` (`c`)")
	c.run("EXPLAIN ANALYZE CREATE UNIQUE INDEX u ON t (u)")
	require.Contains(t, c.one("SHOW CREATE TABLE t"), "UNIQUE KEY `u` (`u`)")
	c.run("UPDATE t SET k = 5 WHERE id IN (2, 3)")
	c.fails(1062, "EXPLAIN ANALYZE CREATE UNIQUE INDEX u2 ON t (k)")
}

// FORMAT = 'json' has the same in a document.
func TestExplainAsJSON(t *testing.T) {
	c := newEnv(t).client()
	newRows(c, 100)
	var doc struct {
		BuiltBy, Verdict string
		Estimate         struct {
			Rows struct{ Number int64 }
		}
		Actual *struct{ Rows int64 }
	}
	for _, analyze := range []bool{false, true} {
		kind := ""
		if analyze {
			kind = "ANALYZE "
		}
		require.NoError(t, json.Unmarshal([]byte(c.one("EXPLAIN %sFORMAT = 'json' CREATE INDEX i ON t (u)", kind)), &doc))
		require.Equal(t, "fits", doc.Verdict)
		require.EqualValues(t, 100, doc.Estimate.Rows.Number)
		require.Equal(t, analyze, doc.Actual != nil)
	}
	require.EqualValues(t, 100, doc.Actual.Rows)
}

// Duplicates that the sample has are named with their values for those who may SELECT them, and only for them. Who may not make the index
// may not explain it.
func TestExplainShowsValuesToReadersOnly(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t (id INT PRIMARY KEY, secret VARCHAR(20))")
	c.run("INSERT INTO t VALUES (1, 'sesame'), (2, 'sesame')")
	rows := c.run("EXPLAIN CREATE UNIQUE INDEX u ON t (secret)")
	require.Contains(t, explainedItem(t, rows, "row_errors", ""), "sesame")
	require.Contains(t, explainedItem(t, rows, "verdict", ""), "would end with an error")
	c.run("CREATE USER maker, altering, stranger")
	c.run("GRANT INDEX ON test.* TO maker")
	c.run("GRANT ALTER ON test.* TO altering")
	for _, user := range []string{"maker", "altering"} {
		u := e.client()
		require.True(t, u.AuthWithoutVerification(&auth.UserIdentity{Username: user, Hostname: "%"}))
		statement := "CREATE UNIQUE INDEX u ON t (secret)"
		other := "ALTER TABLE t ADD UNIQUE INDEX u (secret)"
		if user == "altering" {
			statement, other = other, statement
		}
		rows = u.run("EXPLAIN " + statement)
		shown := strings.Join(rows, "\n") + u.one("EXPLAIN FORMAT = 'json' "+statement)
		require.Contains(t, shown, "1062")
		require.NotContains(t, shown, "sesame")
		_, err := u.try("%s", other)
		u.fails(errorCode(err), "EXPLAIN "+other)
	}
	s := e.client()
	require.True(t, s.AuthWithoutVerification(&auth.UserIdentity{Username: "stranger", Hostname: "%"}))
	s.fails(1142, "EXPLAIN CREATE INDEX i ON t (secret)")
	s.fails(1142, "EXPLAIN ANALYZE ALTER TABLE t ADD INDEX i (secret)")
}

// Who builds the index is said, with the reason if it is TiDB; so are jobs ahead and transactions that would be waited for.
func TestExplainSaysWhoBuilds(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	newRows(c, 50)
	c.run("SET fastddl_ddl_engine = 'tidb'")
	require.Contains(t, explainedItem(t, c.run("EXPLAIN CREATE INDEX i ON t (u)"), "built_by", ""), "tidb fastddl_ddl_engine")
	c.run("SET fastddl_ddl_engine = 'fastddl'")
	rows := c.run("EXPLAIN ALTER TABLE t ADD INDEX i (u), DROP PARTITION p")
	require.Contains(t, explainedItem(t, rows, "built_by", ""), "tidb the statement does more")
	require.Contains(t, explainedItem(t, rows, "verdict", ""), "unknown")
	rows = c.run("EXPLAIN CREATE INDEX IF NOT EXISTS k_c ON t (k)")
	require.Contains(t, explainedItem(t, rows, "verdict", ""), "nothing is to do")

	held := 0
	c.Session.GetSessionVars().GetRelatedTableForMDL().Range(func(_, _ any) bool { held++; return true })
	require.Zero(t, held, "EXPLAIN holds the table")
	other := e.client()
	arrived, leave := e.blockAt(steps[8]) // before the backfill
	done := make(chan error, 1)
	go func() {
		_, err := other.try("ALTER TABLE t ADD INDEX j (u)")
		done <- err
	}()
	<-arrived
	require.Equal(t, "1", strings.Fields(explainedItem(t, c.run("EXPLAIN CREATE INDEX i ON t (u)"), "jobs_ahead", ""))[0])
	close(leave)
	require.NoError(t, <-done)
}

// Prepared statements are explained too, by text and by the protocol, and as often as they are executed.
func TestExplainIsPrepared(t *testing.T) {
	c := newEnv(t).client()
	newRows(c, 20)
	c.run("PREPARE p FROM 'EXPLAIN CREATE INDEX i ON t (u)'")
	c.run("SET @q = 'EXPLAIN ALTER TABLE t ADD INDEX i (u)'")
	c.run("PREPARE q FROM @q")
	for range 2 {
		require.Equal(t, "20 counted", explainedItem(t, c.run("EXECUTE p"), "rows", ""))
		require.Equal(t, "20 counted", explainedItem(t, c.run("EXECUTE q"), "rows", ""))
	}
	_, params, fields, err := c.PrepareStmt("EXPLAIN CREATE INDEX i ON t (u)")
	require.NoError(t, err)
	require.Zero(t, params)
	require.Len(t, fields, 4)
	c.fails(1064, "PREPARE r FROM 'EXPLAIN CREATE INDEX'")
}

// A build that does not fit is warned of, or refused before it begins, as the session says.
func TestPreflight(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	newRows(c, 2000)
	require.Equal(t, config.PreflightWarn, c.one("SELECT @@fastddl_ddl_preflight"))
	c.fails(1231, "SET fastddl_ddl_preflight = 'perhaps'")
	c.run("SET GLOBAL fastddl_ddl_memory_quota = '64KiB'") // less than the least that eight indexes take
	defer c.run("SET GLOBAL fastddl_ddl_memory_quota = DEFAULT")
	statement := func(prefix string) string {
		var adds []string
		for i := range 8 {
			adds = append(adds, fmt.Sprintf("ADD INDEX %s%d (u, c)", prefix, i))
		}
		return "ALTER TABLE t " + strings.Join(adds, ", ")
	}
	require.Contains(t, explainedItem(t, c.run("EXPLAIN "+statement("x")), "verdict", ""), "does not fit memory: ")
	c.run("SET fastddl_ddl_preflight = 'enforce'")
	jobs := c.run("SELECT job_id FROM mysql.fastddl_ddl_jobs")
	text := c.fails(8256, statement("e"))
	require.Contains(t, text, "memory: ")
	require.Equal(t, jobs, c.run("SELECT job_id FROM mysql.fastddl_ddl_jobs"), "no job was made")
	c.run("SET fastddl_ddl_preflight = 'warn'")
	c.run(statement("w"))
	require.Contains(t, strings.Join(c.run("SHOW WARNINGS"), "\n"), "may not fit: memory: ")
	c.run("SET fastddl_ddl_preflight = 'off'")
	c.run(statement("o"))
	require.NotContains(t, strings.Join(c.run("SHOW WARNINGS"), "\n"), "fit")
}

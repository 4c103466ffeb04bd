package sql_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/executor"
	"github.com/pingcap/tidb/pkg/util/sqlkiller"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/load/jobs"
)

// newLoads opens a layer with two databases and imports.
func newLoads(t *testing.T) *importEnv {
	t.Helper()
	e := newImports(t)
	// The quota that makes files large in these tests must not end statements.
	e.client().run("SET GLOBAL tidb_mem_oom_action = 'LOG'; SET GLOBAL tidb_enable_check_constraint = ON; CREATE DATABASE large")
	return e
}

// sends makes a session one whose client sends a file.
func (c *client) sends(file io.Reader) {
	c.SetValue(executor.LoadDataReaderBuilderKey, executor.LoadDataReaderBuilder(func(string) (io.ReadCloser, error) {
		return io.NopCloser(file), nil
	}))
}

// makeLarge makes files of a few rows too large for a transaction of the session, or undoes that.
func (c *client) makeLarge(large bool) {
	quota := 1 << 30
	if large {
		quota = 2000
	}
	c.run("SET tidb_mem_quota_query = %d", quota)
}

// outcome is what a client sees of a LOAD DATA.
type outcome struct {
	code     int
	text     string
	message  string
	affected uint64
	id       string
	warnings []string
	rows     []string
}

// load executes a LOAD DATA and returns what came of it.
func (c *client) load(statement string, file string, large bool) (o outcome) {
	c.t.Helper()
	c.sends(strings.NewReader(file))
	c.makeLarge(large)
	_, err := c.try("%s", statement)
	sc := c.GetSessionVars().StmtCtx
	o.message, o.affected = sc.GetMessage(), sc.AffectedRows()
	for _, w := range sc.GetWarnings() {
		if w.Err != nil {
			o.warnings = append(o.warnings, w.Err.Error())
		}
	}
	slices.Sort(o.warnings)
	if err != nil {
		o = outcome{code: errorCode(err), text: err.Error()}
	}
	o.id = c.one("SELECT LAST_INSERT_ID()")
	c.makeLarge(false)
	o.rows = c.run("SELECT * FROM t")
	slices.Sort(o.rows)
	c.check("t")
	return o
}

// imports returns how many imports there were.
func (c *client) imports() int { return len(c.run("SELECT id FROM mysql.tidb_import_jobs")) }

var loadedTables = []string{
	"CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(6), d DATE, UNIQUE KEY a (a), KEY s (s))",
	"CREATE TABLE t (id INT PRIMARY KEY NONCLUSTERED, a INT NOT NULL, s VARCHAR(6) DEFAULT 'def', d DATETIME, UNIQUE KEY sa (s, a))",
	"CREATE TABLE t (id INT, a SMALLINT, s VARCHAR(6), d DATE, KEY a (a))",
	"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, s VARCHAR(6), d TIMESTAMP, KEY s (s))",
	"CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(6), d DATE, g INT AS (a * 2), w VARCHAR(8) AS (CONCAT(s, 'x')) STORED, UNIQUE KEY g (g), KEY e ((UPPER(s))))",
	"CREATE TABLE t (id INT, a INT, s VARCHAR(6), d DATE, UNIQUE KEY id (id)) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (8), PARTITION q VALUES LESS THAN (15))",
	"CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(6), d DATE, KEY a (a)) PARTITION BY HASH (id) PARTITIONS 3",
	"CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(6), d DATE, UNIQUE KEY a (a), CHECK (a <> 3))",
	"CREATE TABLE t (id INT, a DECIMAL(6, 2), s VARCHAR(6) COLLATE utf8mb4_general_ci, d DATE, PRIMARY KEY (s, id) CLUSTERED, UNIQUE KEY a (a))",
	"CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, a ENUM('1', '2', 'x'), s CHAR(3), d YEAR, UNIQUE KEY s (s(2)))",
}

// randomFile returns lines of the columns id, a, s and d.
func randomFile(r *rand.Rand, lines int, bad bool) string {
	var b strings.Builder
	values := 3 + r.IntN(2*lines)
	pick := func(good string, others ...string) string {
		if bad && r.IntN(12) == 0 {
			return others[r.IntN(len(others))]
		}
		return good
	}
	for range lines {
		id, a := fmt.Sprint(1+r.IntN(values)), fmt.Sprint(r.IntN(values))
		s := string([]byte{"abcABC"[r.IntN(6)], "xyz12"[r.IntN(5)]})
		fields := []string{
			pick(id, "x", "", `\N`, "99999999999", "-3"), pick(a, "y1", "", `\N`, "40000000000", "1.5"),
			pick(s, "", `\N`, "muchtoolong", `"q,u"`, "\xff\xfe"), pick(fmt.Sprintf("20%02d-01-02", r.IntN(30)), "0000-00-00", "2020-13-01", `\N`, "none"),
		}
		if bad && r.IntN(20) == 0 {
			fields = fields[:1+r.IntN(3)]
		}
		if bad && r.IntN(20) == 0 {
			fields = append(fields, "more")
		}
		fmt.Fprintf(&b, "%s\n", strings.Join(fields, ","))
	}
	return b.String()
}

// randomLoad returns a LOAD DATA of a client's file.
func randomLoad(r *rand.Rand) string {
	s := "LOAD DATA LOCAL INFILE 'f.csv'" + []string{"", " IGNORE", " REPLACE"}[r.IntN(3)] + " INTO TABLE t"
	if r.IntN(4) == 0 {
		s += " CHARACTER SET utf8mb4"
	}
	s += ` FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '"'`
	if r.IntN(6) == 0 {
		s += ` LINES STARTING BY '1'`
	}
	if r.IntN(4) == 0 {
		s += fmt.Sprintf(" IGNORE %d LINES", r.IntN(3))
	}
	switch r.IntN(4) {
	case 0:
		s += " (id, @a, s, @d) SET a = @a + 1, d = IF(@d > '2015', @d, NULL)"
	case 1:
		s += " (id, a, @x)"
	case 2:
		s += " (id, a, s, d)"
	}
	return s
}

// An imported LOAD DATA is that of TiDB: the same rows, keys, errors, warnings and counts.
func TestLargeLoadDataIsTiDBs(t *testing.T) {
	r := randtest.Rand(t)
	e := newLoads(t)
	deadline := time.Now().Add(randtest.Time(t, 8*time.Second, 10*time.Minute))
	small, large := e.client(), e.client()
	large.run("USE large")
	rounds, imported, failed := 0, 0, 0
	for ; rounds < 5 || time.Now().Before(deadline); rounds++ {
		table := loadedTables[r.IntN(len(loadedTables))]
		file := randomFile(r, 2+r.IntN(40), r.IntN(3) > 0)
		statement := randomLoad(r)
		mode := "SET sql_mode = DEFAULT"
		if r.IntN(3) == 0 {
			mode = "SET sql_mode = ''"
		}
		for _, c := range []*client{small, large} {
			c.run("%s", mode)
			c.run("DROP TABLE IF EXISTS t")
			c.run("%s", table)
			c.run("SET TIMESTAMP = 1700000000; SELECT LAST_INSERT_ID(0)") // which a failed statement may have set
		}
		before := small.imports()
		want, got := small.load(statement, file, false), large.load(statement, file, true)
		where := fmt.Sprintf("round %d: %s; %s; %s\n%s", rounds, mode, table, statement, file)
		imported += small.imports() - before
		if want.code != got.code && want.code != 0 && got.code != 0 {
			// TiDB panics on a row that it could not make.
			if strings.Contains(want.text, "runtime error") {
				want, got = outcome{}, outcome{}
			}
		}
		if want.code != 0 {
			failed++
		}
		require.Equal(t, want, got, where)
	}
	t.Logf("%d of %d imported, %d failed", imported, rounds, failed)
	require.Positive(t, imported)
	e.nothingLeft(small)
}

// A file that cannot be imported is refused before the first row, and the client's file is read to its end.
func TestLargeLoadDataIsRefused(t *testing.T) {
	e := newLoads(t)
	c := e.client()
	c.run("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE some (id INT PRIMARY KEY); INSERT INTO some VALUES (100)")
	c.run("CREATE TEMPORARY TABLE temporary (id INT PRIMARY KEY)")
	c.run("CREATE TABLE cached (id INT PRIMARY KEY); ALTER TABLE cached CACHE")
	for _, test := range []struct{ before, table, after, why string }{
		{"BEGIN", "t", "ROLLBACK", "a transaction is open"},
		{"SET autocommit = 0", "t", "SET autocommit = 1", "autocommit is off"},
		{"DO 1", "some", "DO 1", "not empty"},
		{"DO 1", "temporary", "DO 1", "temporary"},
		{"DO 1", "cached", "DO 1", "cached"},
	} {
		file := strings.NewReader("1\n2\n3\n")
		c.sends(file)
		c.run("%s", test.before)
		before := c.run("SELECT * FROM " + test.table)
		c.makeLarge(true)
		text := c.fails(8004, "LOAD DATA LOCAL INFILE 'f' INTO TABLE %s", test.table)
		c.makeLarge(false)
		require.Contains(t, text, test.why)
		require.Zero(t, file.Len(), "the client's file is not read")
		require.Equal(t, before, c.run("SELECT * FROM "+test.table), "rows were loaded")
		c.run("%s", test.after)
	}
	e.nothingLeft(c)
}

// slowFile is a client's file that calls at once when a number of bytes was read, and ends later.
type slowFile struct {
	rest string
	at   int
	once func()
}

func (f *slowFile) Read(b []byte) (int, error) {
	if f.rest == "" {
		return 0, io.EOF
	}
	if f.once != nil && len(f.rest) <= f.at {
		f.once()
		f.once = nil
	}
	n := copy(b[:min(len(b), 1000)], f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// A LOAD DATA that is killed, cancelled, or loses its client leaves nothing, and other sessions see no row before the end.
func TestLargeLoadDataEndsWithoutRows(t *testing.T) {
	r := randtest.Rand(t)
	e := newLoads(t)
	c, other := e.client(), e.client()
	c.run("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20), KEY s (s))")
	var lines strings.Builder
	for n := range 100_000 {
		fmt.Fprintf(&lines, "%d\tt%d\n", n, n%77)
	}
	lost := errors.New("the client is gone")
	for name, end := range map[string]func(f *slowFile){
		"killed": func(*slowFile) { c.GetSessionVars().SQLKiller.SendKillSignal(sqlkiller.QueryInterrupted) },
		"cancelled": func(*slowFile) {
			other.run("CANCEL IMPORT JOB %s", other.one("SELECT MAX(id) FROM mysql.tidb_import_jobs"))
		},
		"lost": nil,
	} {
		f := &slowFile{rest: lines.String(), at: lines.Len() / 2}
		var seen atomic.Bool
		f.once = func() {
			require.Equal(t, "0", other.one("SELECT COUNT(*) FROM t"))
			require.Contains(t, strings.Join(other.run("SHOW IMPORT JOBS"), "\n"), "running")
			other.fails(8020, "INSERT INTO t VALUES (-1, '')")
			seen.Store(true)
			if end != nil {
				end(f)
			}
		}
		var file io.Reader = f
		if end == nil {
			file = io.MultiReader(io.LimitReader(f, int64(lines.Len()*3/4)), failing{lost})
		}
		c.sends(file)
		c.makeLarge(true)
		_, err := c.try("LOAD DATA LOCAL INFILE 'f' %s INTO TABLE t", []string{"REPLACE", "IGNORE"}[r.IntN(2)])
		c.makeLarge(false)
		require.Error(t, err, name)
		require.True(t, seen.Load(), name)
		require.Equal(t, "0", c.one("SELECT COUNT(*) FROM t"), name)
		e.nothingLeft(c)
	}
	c.sends(strings.NewReader(lines.String()))
	c.makeLarge(true)
	c.run("LOAD DATA LOCAL INFILE 'f' INTO TABLE t")
	c.makeLarge(false)
	require.Equal(t, "100000", c.one("SELECT COUNT(*) FROM t USE INDEX (s)"))
	c.check("t")
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A LOAD DATA that the end of the server interrupts is undone at the next start.
func TestLargeLoadDataIsUndoneAfterARestart(t *testing.T) {
	dir := t.TempDir()
	e := openImports(t, dir)
	c := e.client()
	c.run("CREATE TABLE t (id INT PRIMARY KEY); SET GLOBAL tidb_mem_oom_action = 'LOG'")
	e.hookImports(func(p jobs.HookPoint) error {
		if p.When == "after" && p.Step == jobs.StepDraining {
			return errDies
		}
		return nil
	})
	c.sends(strings.NewReader("1\n2\n3\n"))
	c.makeLarge(true)
	_, err := c.try("LOAD DATA LOCAL INFILE 'f' INTO TABLE t")
	require.Error(t, err)
	c.Close()
	e.close()
	e = openImports(t, dir)
	t.Cleanup(e.close)
	c = e.client()
	require.Eventually(t, func() bool { return c.one("SELECT COUNT(*) FROM mysql.fastddl_import_job") == "0" }, hangTimeout, 10*time.Millisecond)
	require.Equal(t, "0", c.one("SELECT COUNT(*) FROM t"))
	c.run("INSERT INTO t VALUES (1)")
	e.nothingLeft(c)
}

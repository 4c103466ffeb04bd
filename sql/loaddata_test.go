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
	"github.com/pingcap/tidb/pkg/kv"
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
	switch r.IntN(6) {
	case 4:
		s += " (id, @a, s, d) SET a = @@tidb_opt_write_row_id + @a"
	case 5:
		s += " (id, a, @s, d) SET s = (SELECT CONCAT('s', @@version_compile_os = '')), d = (SELECT MAX(DATE '2020-02-03'))"
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
			c.run("SET TIMESTAMP = 1700000000; SELECT LAST_INSERT_ID(1)") // a statement that panicked may have set another; TiDB ignores LAST_INSERT_ID(0)
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

// A file that cannot be imported is loaded by TiDB, whose limit decides whether it fits. It is read to its end.
func TestLargeLoadDataThatIsNotImported(t *testing.T) {
	e := newLoads(t)
	c := e.client()
	c.run("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE some (id INT PRIMARY KEY); INSERT INTO some VALUES (100)")
	c.run("CREATE TEMPORARY TABLE temporary (id INT PRIMARY KEY)")
	c.run("CREATE TABLE cached (id INT PRIMARY KEY); ALTER TABLE cached CACHE")
	limit := kv.TxnTotalSizeLimit.Load()
	defer kv.TxnTotalSizeLimit.Store(limit)
	for _, test := range []struct{ before, table, after, why string }{
		{"BEGIN", "t", "ROLLBACK", "a transaction is open"},
		{"SET autocommit = 0", "t", "ROLLBACK; SET autocommit = 1", "autocommit is off"},
		{"DO 1", "some", "DO 1", "not empty"},
		{"DO 1", "temporary", "DO 1", "temporary"},
		{"DO 1", "cached", "DO 1", "cached"},
	} {
		file := strings.NewReader("1\t10\n2\t20\n3\t30\n")
		c.sends(file)
		c.run("%s", test.before)
		before := len(c.run("SELECT * FROM " + test.table))
		c.makeLarge(true)
		c.run("LOAD DATA LOCAL INFILE 'f' INTO TABLE %s", test.table)
		c.makeLarge(false)
		require.Zero(t, file.Len(), "the client's file is not read")
		require.Len(t, c.run("SELECT * FROM "+test.table), before+3, "%s", test.why)
		if test.table == "some" { // whose transaction begins with the statement
			c.sends(numbered(20_000))
			c.makeLarge(true)
			kv.TxnTotalSizeLimit.Store(200_000)
			text := c.fails(8004, "LOAD DATA LOCAL INFILE 'f' INTO TABLE %s", test.table)
			kv.TxnTotalSizeLimit.Store(limit)
			c.makeLarge(false)
			require.Contains(t, text, test.why)
		}
		c.run("%s", test.after)
	}
	require.Zero(t, c.imports())
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

// A client that does not send holds nothing: neither its table nor what is deleted of the store.
func TestClientOfLargeLoadDataHoldsNothing(t *testing.T) {
	e := newLoads(t)
	c, other := e.client(), e.client()
	c.run("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20), KEY s (s))")
	lines := manyLines()
	seen := false
	f := &slowFile{rest: lines, at: len(lines) / 2, once: func() {
		seen = true
		require.Empty(t, other.run("SHOW IMPORT JOBS"))
		e.nothingLeft(other)
		other.run("INSERT INTO t VALUES (-1, ''); DELETE FROM t; ALTER TABLE t ADD COLUMN n INT DEFAULT 5")
		require.Equal(t, "0", other.one("SELECT COUNT(*) FROM information_schema.processlist WHERE txnstart <> '' AND id = %d", c.GetSessionVars().ConnectionID))
	}}
	c.sends(f)
	c.makeLarge(true)
	c.run("LOAD DATA LOCAL INFILE 'f' INTO TABLE t (id, s)")
	c.makeLarge(false)
	require.True(t, seen)
	require.Equal(t, "100000 5", c.one("SELECT COUNT(*), MIN(n) FROM t"))
	require.Equal(t, 1, c.imports())
	c.check("t")
	e.nothingLeft(c)
}

// A LOAD DATA that is killed, cancelled, or loses its client leaves nothing, and other sessions see no row before the end.
func TestLargeLoadDataEndsWithoutRows(t *testing.T) {
	r := randtest.Rand(t)
	e := newLoads(t)
	c, other := e.client(), e.client()
	c.run("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20), KEY s (s))")
	lines := manyLines()
	kill := func() { c.GetSessionVars().SQLKiller.SendKillSignal(sqlkiller.QueryInterrupted) }
	canceller := e.client()
	cancel := func() { // CANCEL waits for the end of the import, which waits for this
		const record = "SELECT * FROM mysql.fastddl_import_job"
		before, id := other.one(record), other.one("SELECT MAX(id) FROM mysql.tidb_import_jobs")
		go func() { _, _ = canceller.try("CANCEL IMPORT JOB %s", id) }()
		require.Eventually(t, func() bool { return other.one(record) != before }, hangTimeout, 5*time.Millisecond)
	}
	for name, test := range map[string]struct {
		sending   func() // when half of the file was sent
		importing func() // before rows are made
		lost      bool
	}{
		"killed while the client sends": {sending: kill},
		"killed":                        {importing: kill},
		"cancelled":                     {importing: cancel},
		"lost":                          {lost: true},
	} {
		var reached atomic.Bool
		f := &slowFile{rest: lines, at: len(lines) / 2}
		if test.importing == nil {
			f.once = func() {
				reached.Store(true)
				if test.sending != nil {
					test.sending()
				}
			}
		}
		e.hookImports(func(p jobs.HookPoint) error {
			if p.When == "before" && p.Step == jobs.StepLoading && test.importing != nil && !reached.Swap(true) {
				require.Equal(t, "0", other.one("SELECT COUNT(*) FROM t"))
				other.fails(8020, "INSERT INTO t VALUES (-1, '')")
				test.importing()
			}
			return nil
		})
		var file io.Reader = f
		if test.lost {
			file = io.MultiReader(io.LimitReader(f, int64(len(lines)*3/4)), failing{errors.New("the client is gone")})
		}
		c.sends(file)
		c.makeLarge(true)
		_, err := c.try("LOAD DATA LOCAL INFILE 'f' %s INTO TABLE t", []string{"REPLACE", "IGNORE"}[r.IntN(2)])
		c.makeLarge(false)
		require.Error(t, err, name)
		require.True(t, reached.Load(), name)
		if !test.lost {
			require.Empty(t, f.rest, name+": the client's file is not read to its end")
		}
		require.Equal(t, "0", c.one("SELECT COUNT(*) FROM t"), name)
		e.nothingLeft(c)
	}
	e.hookImports(nil)
	c.sends(strings.NewReader(lines))
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

package blackbox

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/internal/servertest"
)

// loadInto runs fastddl load against a server and returns what it printed.
func loadInto(n *node, args ...string) (string, error) {
	host, port, _ := strings.Cut(n.Addr, ":")
	out, err := exec.Command(binary, append([]string{"load", "--host", host, "--port", port}, args...)...).CombinedOutput()
	return string(out), err
}

// runScript executes a file of the tests by the statements in it.
func runScript(t *testing.T, n *node, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	db := n.open("")
	db.SetMaxOpenConns(1)
	defer db.Close()
	for _, statement := range strings.Split(string(text), ";\n") {
		if strings.TrimSpace(statement) != "" {
			mustExec(t, db, statement)
		}
	}
}

// shopTables are those of testdata/load/shop.sql, with what orders their rows.
var shopTables = map[string]string{
	"actor": "actor_id", "film": "film_id", "film_actor": "actor_id, film_id", "`every type`": "id", "`odd.name %1`": "`a b`", "parted": "id", "nothing": "id", "actor_names": "actor_id", "a_view_of_it": "c",
}

// shopRows returns all rows of the tables. TIMESTAMP is shown in UTC.
func shopRows(t *testing.T, n *node) map[string][][]string {
	t.Helper()
	db := n.open("shop")
	db.SetMaxOpenConns(1)
	mustExec(t, db, "SET time_zone = '+00:00'")
	rows := make(map[string][][]string)
	for table, order := range shopTables {
		rows[table] = queryAll(t, db, "SELECT * FROM "+table+" ORDER BY "+order)
	}
	return rows
}

// wantShop returns the rows of a server on which the script itself was executed.
func wantShop(t *testing.T) map[string][][]string {
	n := startNode(t, t.TempDir())
	runScript(t, n, filepath.Join("testdata", "load", "shop.sql"))
	rows := shopRows(t, n)
	require.Len(t, rows["`every type`"], 3)
	n.kill()
	return rows
}

// dumps are the outputs of real programs for shop.sql and mariadb.sql in testdata/load, unpacked. testdata/load/README.md has
// the commands.
func dumps(t *testing.T) string {
	dir := t.TempDir()
	unpack(t, filepath.Join("testdata", "load", "dumps.tar.gz"), dir)
	return dir
}

// TestLoadOfRealDumps: what each program has written is loaded, by INSERT and by IMPORT INTO, and equals the tables that
// were dumped. What TiDB has not is named.
func TestLoadOfRealDumps(t *testing.T) {
	randtest.SkipShort(t)
	want, dir := wantShop(t), dumps(t)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	for _, way := range []string{"auto", "insert"} {
		n := startNode(t, t.TempDir(), "--config", secureConfig(t, dir))
		db := n.open("")
		mustExec(t, db, "SET GLOBAL time_zone = '+03:00'")
		for i, e := range entries {
			if way == "insert" && i%3 != 0 && !randtest.Long() { // the same rows by the slower way
				continue
			}
			t.Run(way+"/"+e.Name(), func(t *testing.T) {
				mustExec(t, db, "DROP DATABASE IF EXISTS shop")
				zone := "--time-zone=+00:00" // of Dumpling, which says none
				plan, err := loadInto(n, "--dry-run", filepath.Join(dir, e.Name()))
				require.NoError(t, err, plan)
				require.Contains(t, plan, "shop.every type")
				require.Empty(t, queryAll(t, db, "SHOW DATABASES LIKE 'shop'"))
				out, err := loadInto(n, zone, "--way", way, filepath.Join(dir, e.Name()))
				require.NoError(t, err, out)
				require.Contains(t, out, "7 tables, 18 rows loaded in ")
				if strings.HasPrefix(e.Name(), "mariadb") || strings.HasPrefix(e.Name(), "mydumper") {
					require.Contains(t, out, "left out: trigger shop.ins_film: TiDB has none")
					require.Contains(t, out, "left out: FULLTEXT INDEX idx_text of table shop.film: TiDB builds none for this index")
				}
				if way == "auto" && !strings.HasPrefix(e.Name(), "mydumper") { // which does not escape a %
					require.NotContains(t, out, "INSERT")
				}
				require.Equal(t, want, shopRows(t, n))
				require.Empty(t, queryAll(t, db, "SHOW DATABASES LIKE 'fastddl_load'"))
				for table := range shopTables {
					if !strings.Contains(table, "name") && !strings.Contains(table, "view") {
						mustExec(t, db, "ADMIN CHECK TABLE shop."+table)
					}
				}
				mustExec(t, db, "INSERT INTO shop.actor (first_name, last_name) VALUES ('a', 'b')")
				require.Equal(t, "4", value(t, db, "SELECT COUNT(*) FROM shop.actor"), "AUTO_INCREMENT continues behind the loaded rows")
			})
		}
		n.kill()
	}
}

// secureConfig is a configuration whose server reads the files of a folder.
func secureConfig(t *testing.T, dir string) string {
	file := filepath.Join(t.TempDir(), "fastddl.toml")
	require.NoError(t, os.WriteFile(file, []byte("[security]\nsecure-file-priv = '"+dir+"'\n"), 0o600))
	return file
}

// dumpOf writes a dump of some tables with rows, as mysqldump does.
func dumpOf(t *testing.T, tables, statements, rows int) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("CREATE DATABASE big;\nUSE big;\n")
	for table := range tables {
		fmt.Fprintf(&b, "CREATE TABLE t%d (id INT PRIMARY KEY, k INT, c VARCHAR(60), KEY k (k));\n", table)
		for s := range statements {
			fmt.Fprintf(&b, "INSERT INTO t%d VALUES ", table)
			for r := range rows {
				if r > 0 {
					b.WriteByte(',')
				}
				id := s*rows + r
				fmt.Fprintf(&b, "(%d,%d,'%050d;')", id, id%977, id)
			}
			b.WriteString(";\n")
		}
	}
	file := filepath.Join(t.TempDir(), "big.sql")
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	return file
}

// requireBig checks that each table of dumpOf has each row once.
func requireBig(t *testing.T, db *sql.DB, tables, rows int) {
	t.Helper()
	for table := range tables {
		require.Equal(t, [][]string{{fmt.Sprint(rows), fmt.Sprint(rows * (rows - 1) / 2)}}, queryAll(t, db, fmt.Sprintf("SELECT COUNT(*), SUM(id) FROM big.t%d", table)))
		mustExec(t, db, fmt.Sprintf("ADMIN CHECK TABLE big.t%d", table))
	}
}

// loadedBefore reports whether a load has found all its tables loaded, and no state of an earlier one.
func loadedBefore(out string) bool {
	return strings.HasPrefix(out, "fastddl: table big.t0 has rows already") && strings.Contains(out, "table big.t3 has rows already")
}

// TestLoadResumes: a load that is killed at any moment goes on when it is started again, and no row is lost or there twice.
func TestLoadResumes(t *testing.T) {
	randtest.SkipShort(t)
	rng := randtest.Rand(t)
	const tables, statements, rows = 4, 60, 200
	file := dumpOf(t, tables, statements, rows)
	for _, way := range []string{"insert", "auto"} {
		secure := t.TempDir()
		n := startNode(t, t.TempDir(), "--config", secureConfig(t, secure))
		db := n.open("")
		host, port, _ := strings.Cut(n.Addr, ":")
		args := []string{"load", "--host", host, "--port", port, "--way", way, "--threads", "2", file}
		finished := false
		for range 6 {
			cmd := exec.Command(binary, args...)
			out := &servertest.Buffer{}
			cmd.Stdout, cmd.Stderr = out, out
			require.NoError(t, cmd.Start())
			done := make(chan error, 1)
			go func() { done <- cmd.Wait() }()
			select {
			case err := <-done: // before the kill: it has loaded all, or the one before had, and was killed at its very end
				require.True(t, err == nil || loadedBefore(out.String()), out.String())
				finished = true
			case <-time.After(time.Duration(rng.IntN(1500)) * time.Millisecond):
				_ = cmd.Process.Kill() // it may have ended
				<-done
			}
			if finished {
				break
			}
		}
		if !finished {
			// An import of the killed load may still be ending.
			require.Eventually(t, func() bool {
				out, err := exec.Command(binary, args...).CombinedOutput()
				if err != nil {
					t.Logf("%s", out)
				}
				return err == nil || loadedBefore(string(out))
			}, servertest.StartTimeout, pollInterval)
		}
		requireBig(t, db, tables, statements*rows)
		require.Empty(t, queryAll(t, db, "SHOW DATABASES LIKE 'fastddl_load'"))
		out, err := loadInto(n, "--way", way, file)
		require.Error(t, err, "the rows are no load's any more")
		require.Contains(t, out, "table big.t0 has rows already")
		n.kill()
	}
}

// TestLoadIntoAFolder: without a server; temporary files are gone afterwards, and nothing else.
func TestLoadIntoAFolder(t *testing.T) {
	randtest.SkipShort(t)
	dir := filepath.Join(t.TempDir(), "new")
	file := dumpOf(t, 2, 3, 100)
	mine := filepath.Join(dir+".load", "mine")
	require.NoError(t, os.Mkdir(dir+".load", 0o700))
	require.NoError(t, os.WriteFile(mine, nil, 0o600))
	notOurs, killed := dir+".load-17", dir+".load-18"
	for _, folder := range []string{notOurs, killed} {
		require.NoError(t, os.Mkdir(folder, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.sql"), nil, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(notOurs, "FASTDDL-LOAD"), []byte(dir+".load"), 0o600)) // of a load into that folder
	require.NoError(t, os.WriteFile(filepath.Join(killed, "FASTDDL-LOAD"), []byte(dir), 0o600))
	others := func() []string {
		beside, err := filepath.Glob(dir + ".*")
		require.NoError(t, err)
		return beside
	}
	out, err := exec.Command(binary, "load", "--path", dir, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "2 tables, 600 rows loaded")
	require.NotContains(t, string(out), "INSERT")
	require.Equal(t, []string{dir + ".load", notOurs}, others(), "what a killed load has left is removed, and nothing else")
	require.FileExists(t, mine)
	require.FileExists(t, filepath.Join(notOurs, "rows.sql"))
	n := startNode(t, dir)
	requireBig(t, n.open(""), 2, 300)
	out, err = exec.Command(binary, "load", "--path", dir, file).CombinedOutput()
	require.Error(t, err, "the store is the server's: %s", out)
	require.Equal(t, []string{dir + ".load", notOurs}, others())
	require.FileExists(t, mine)
}

// TestLoadNamesRowAndFile of what cannot be loaded; what was loaded stays, and the table that failed can be loaded again.
func TestLoadNamesRowAndFile(t *testing.T) {
	randtest.SkipShort(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"d-schema-create.sql": "CREATE DATABASE d;\n", "d.good-schema.sql": "CREATE TABLE good (a INT);\n", "d.good.sql": "INSERT INTO good VALUES (1);\n",
		"d.bad-schema.sql": "CREATE TABLE bad (a INT, b VARCHAR(3));\n", "d.bad.csv": "b,a\nabc,1\nlonger,2\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	n := startNode(t, t.TempDir())
	db := n.open("")
	out, err := loadInto(n, "--threads", "1", dir)
	require.Error(t, err)
	require.Contains(t, out, "by INSERT, not IMPORT INTO: 2 tables: secure-file-priv of the server is not set")
	require.Contains(t, out, "d.bad.csv, from row 1 on: INSERT INTO d.bad: Error 1406 (22001): Data too long for column 'b' at row 2")
	require.Empty(t, queryAll(t, db, "SELECT * FROM d.bad"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "d.bad.csv"), []byte("b,a\nabc,1\nlon,234567\n"), 0o600))
	out, err = loadInto(n, dir)
	require.NoError(t, err, out)
	require.Contains(t, out, "table d.good is loaded already")
	require.Equal(t, [][]string{{"1", "abc"}, {"234567", "lon"}}, queryAll(t, db, "SELECT * FROM d.bad ORDER BY a"))
}

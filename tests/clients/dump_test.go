package clients

import (
	"bytes"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
)

// TestDumpRoundTrip dumps a schema with every type by mysqldump, restores it on
// a second server, and compares definitions and rows.
func TestDumpRoundTrip(t *testing.T) {
	program, client := lookPath(t, "mysqldump", "mariadb-dump"), lookPath(t, "mysql", "mariadb")
	n, second := startServer(t), startServer(t)
	db := openMySQL(t, n, func(cfg *mysql.Config) { cfg.MultiStatements = true })
	schema, err := os.ReadFile(filepath.Join("testdata", "types.sql"))
	require.NoError(t, err)
	mustExec(t, db, string(schema)+insertComputed)
	d := dumper{n: n, program: program, from: text(t, db, "SELECT DATABASE()")}
	version, err := command(t, program, "--version").Output()
	require.NoError(t, err)
	d.mariaDB = strings.Contains(string(version), "MariaDB")
	original := describe(t, n, d.from)
	require.Greater(t, len(original), 10)

	// Not --single-transaction: UNLOCK TABLES, which mysqldump sends then, ends a
	// transaction of TiDB, and the savepoint that it wants to return to is gone.
	for name, how := range map[string][]string{
		"default":    nil,
		"hex":        {"--hex-blob", "--skip-lock-tables", "--no-autocommit"},
		"row by row": {"--skip-extended-insert", "--complete-insert", "--skip-add-locks", "--skip-opt", "--create-options", "--quick"},
	} {
		t.Run(name, func(t *testing.T) {
			dump := d.dump(t, how...)
			d.restore(t, second, func(*sql.DB) {
				restore := command(t, client, append(options(t, second), "--comments", d.from)...)
				restore.Stdin = strings.NewReader(dump)
				runClient(t, restore)
			})
			requireSame(t, original, describe(t, second, d.from))

			// The same in one packet: here the server reads the comments itself.
			d.restore(t, second, func(db *sql.DB) { mustExec(t, db, withoutClientCommands(dump)) })
			requireSame(t, original, describe(t, second, d.from))
		})
	}
}

// The table with generated columns, and its rows. MariaDB's program dumps the
// values of generated columns too, which only its own server takes.
const (
	computed       = "computed"
	insertComputed = `INSERT INTO computed (id, a, b, j) VALUES
		(1, 5, 'five', '{"tags": [1, 2, 3]}'), (2, NULL, 'none', NULL), (3, -7, 'ü', '{"tags": []}');`
)

// dumper dumps one database.
type dumper struct {
	n       *servertest.Node
	program string
	from    string
	mariaDB bool
}

// options name a server to a client.
func options(t *testing.T, n *servertest.Node) []string {
	t.Helper()
	host, port, err := net.SplitHostPort(n.Addr)
	require.NoError(t, err)
	return []string{"--host=" + host, "--port=" + port, "--user=root", "--default-character-set=utf8mb4"}
}

func (d dumper) dump(t *testing.T, how ...string) string {
	t.Helper()
	run := func(args ...string) string {
		cmd := command(t, d.program, append(append(options(t, d.n), how...), args...)...)
		var warnings bytes.Buffer
		cmd.Stderr = &warnings
		out, err := cmd.Output()
		require.NoError(t, err, "%s", warnings.String())
		require.Empty(t, warnings.String())
		return string(out)
	}
	if !d.mariaDB {
		return run(d.from)
	}
	return run("--ignore-table="+d.from+"."+computed, d.from) + withoutClientCommands(run("--no-data", d.from, computed))
}

// restore lets fill restore the database on another server, under its name: in
// TiDB's views their tables are named with it.
func (d dumper) restore(t *testing.T, to *servertest.Node, fill func(*sql.DB)) {
	t.Helper()
	admin := to.Open("")
	mustExec(t, admin, "DROP DATABASE IF EXISTS `"+d.from+"`")
	mustExec(t, admin, "CREATE DATABASE `"+d.from+"`")
	db := openMySQL(t, to, func(cfg *mysql.Config) { cfg.MultiStatements, cfg.DBName = true, d.from })
	fill(db)
	if d.mariaDB {
		mustExec(t, db, insertComputed)
	}
}

// TestMariaDBDump restores what MariaDB's own mysqldump has written of a MariaDB
// server: its comments are not for this one.
func TestMariaDBDump(t *testing.T) {
	n := startServer(t)
	dump, err := os.ReadFile(filepath.Join("testdata", "mariadb.sql"))
	require.NoError(t, err)
	db := openMySQL(t, n, func(cfg *mysql.Config) { cfg.MultiStatements = true })
	mustExec(t, db, string(dump))
	require.Equal(t, "3", text(t, db, "SELECT COUNT(*) FROM orders"))
	require.Equal(t, "Zoë; /*M! not a comment */", text(t, db, "SELECT customer FROM orders WHERE id = 1"))
	mustExec(t, db, "ADMIN CHECK TABLE orders")

	if client, err := exec.LookPath("mysql"); err == nil {
		to := target(t, n)
		restore := command(t, client, "--host="+to[0], "--port="+to[1], "--user=root", to[2])
		restore.Stdin = bytes.NewReader(dump)
		runClient(t, restore)
		require.Equal(t, "3", text(t, n.Open(to[2]), "SELECT COUNT(*) FROM orders"))
	}
}

// lookPath finds one of several names of a program, or skips the test.
func lookPath(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("%s is not installed", strings.Join(names, " or "))
	return ""
}

// withoutClientCommands removes the command to mysql in the first line of a dump
// by MariaDB.
func withoutClientCommands(dump string) string {
	if first, rest, ok := strings.Cut(dump, "\n"); ok && strings.Contains(first, `\-`) {
		return rest
	}
	return dump
}

// nextID is what SHOW CREATE TABLE says of the next generated id: they are taken
// in batches, so inserting rows moves it by an amount of its own.
var nextID = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// describe returns, for each table and view of a database, its definition and a
// checksum of its rows.
func describe(t *testing.T, n *servertest.Node, database string) map[string]string {
	t.Helper()
	db := n.Open(database)
	defer db.Close()
	all := make(map[string]string)
	for _, row := range table(t, db, "SHOW FULL TABLES") {
		name := "`" + strings.ReplaceAll(row[0], "`", "``") + "`"
		created := table(t, db, "SHOW CREATE TABLE "+name)[0]
		if row[1] == "BASE TABLE" {
			mustExec(t, db, "ADMIN CHECK TABLE "+name)
		}
		all[row[0]] = nextID.ReplaceAllString(created[1], "") + "\n" + checksum(t, db, name)
	}
	return all
}

// checksum covers all values of a table and their order within a row.
func checksum(t *testing.T, db *sql.DB, name string) string {
	t.Helper()
	var columns []string
	for _, column := range table(t, db, "SHOW COLUMNS FROM "+name) {
		columns = append(columns, fmt.Sprintf("COALESCE(HEX(`%s`), 'NULL')", strings.ReplaceAll(column[0], "`", "``")))
	}
	row := table(t, db, fmt.Sprintf("SELECT COUNT(*), BIT_XOR(CRC32(CONCAT_WS('|', %s))) FROM %s", strings.Join(columns, ", "), name))[0]
	return strings.Join(row, " rows, checksum ")
}

func requireSame(t *testing.T, want, got map[string]string) {
	t.Helper()
	for name, description := range want {
		require.Equal(t, description, got[name], "%s", name)
	}
	require.Len(t, got, len(want))
}

// table returns a result as text.
func table(t *testing.T, db *sql.DB, query string) [][]string {
	t.Helper()
	rows, err := db.Query(query)
	require.NoError(t, err, "%.300s", query)
	all, err := servertest.ReadRows(rows, "")
	require.NoError(t, err)
	return all
}

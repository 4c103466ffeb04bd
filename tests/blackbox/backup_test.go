package blackbox

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// takeBackup takes a backup and returns its timestamp.
func takeBackup(ctx context.Context, db *sql.DB, dir string) (ts string, err error) {
	var to, queued, begun string
	var size int64
	err = db.QueryRowContext(ctx, "BACKUP DATABASE * TO 'local://"+dir+"'").Scan(&to, &size, &ts, &queued, &begun)
	return ts, err
}

// fastddl runs a command of the binary, which has to succeed, and returns its output.
func fastddl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(binary, args...).CombinedOutput()
	require.NoError(t, err, "%v: %s", args, out)
	return string(out)
}

// refusedCommand runs a command of the binary that has to fail with one line.
func refusedCommand(t *testing.T, says string, args ...string) {
	t.Helper()
	out, err := exec.Command(binary, args...).CombinedOutput()
	require.Error(t, err, "%v", args)
	require.Equal(t, 1, strings.Count(string(out), "\n"), "%s", out)
	require.Contains(t, string(out), says)
}

// TestBackup: a backup of a store in use is restored beside the old one, and both run.
func TestBackup(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, filepath.Join(mkdir(t, dir, "data")), "--secure-file-priv", mkdir(t, dir, "backups"))
	db := n.db()
	mustExec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY v (v), KEY e ((v + 1)))")
	mustExec(t, db, "INSERT INTO t VALUES (1, 1), (2, 2)")
	mustExec(t, db, "CREATE USER app IDENTIFIED BY 'x'")
	mustExec(t, db, "GRANT SELECT ON test.* TO app")
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	to := filepath.Join(dir, "backups", "one")
	rows, err := conn.QueryContext(t.Context(), "BACKUP DATABASE * TO 'local://"+to+"' RATE_LIMIT = 100 MB/SECOND")
	require.NoError(t, err)
	columns, err := rows.Columns()
	require.NoError(t, err)
	require.Equal(t, []string{"Destination", "Size", "BackupTS", "Queue Time", "Execution Time"}, columns)
	require.True(t, rows.Next())
	var destination, ts, queued, begun string
	var size int64
	require.NoError(t, rows.Scan(&destination, &size, &ts, &queued, &begun))
	require.False(t, rows.Next())
	require.NoError(t, rows.Close())
	require.Equal(t, "local://"+to, destination)
	require.Positive(t, size)
	require.LessOrEqual(t, queued, begun)
	warnings := queryAll(t, conn, "SHOW WARNINGS")
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0][2], "by links")
	shown := queryAll(t, db, "SHOW BACKUPS")
	require.Len(t, shown, 1)
	require.Equal(t, []string{"1", "local://" + to, "Backup", "100"}, shown[0][:4])
	require.Empty(t, queryAll(t, db, "SHOW BACKUPS WHERE Destination = 'other'"))
	require.Len(t, queryAll(t, db, "SHOW BACKUPS LIKE '1'"), 1)
	mustExec(t, db, "UPDATE t SET v = 7")
	mustExec(t, db, "CREATE TABLE later (id INT)")

	require.Contains(t, fastddl(t, "backup", "verify", to, "--tables"), "tables: no damage")
	require.Equal(t, []string{"one"}, namesIn(t, filepath.Join(dir, "backups")), "what was made to check the tables stays")
	restored := filepath.Join(dir, "restored")
	out := fastddl(t, "restore", "--from", to, "--path", restored)
	require.Contains(t, out, ts)
	require.Contains(t, out, "start it: fastddl server --path "+restored)
	other := startNodeAsIs(t, restored)
	after := other.db()
	require.Equal(t, [][]string{{"1", "1"}, {"2", "2"}}, queryAll(t, after, "SELECT * FROM t"))
	require.Empty(t, queryAll(t, after, "SHOW TABLES LIKE 'later'"))
	require.Equal(t, "2", value(t, other.openAs("app", "x", "test"), "SELECT COUNT(*) FROM t"))
	_, err = after.Exec("SELECT * FROM t AS OF TIMESTAMP TIDB_PARSE_TSO(" + ts + " - (1 << 18))")
	require.ErrorContains(t, err, "older than the GC safe point")
	mustExec(t, after, "INSERT INTO t VALUES (3, 3)")
	mustExec(t, after, "ALTER TABLE t ADD INDEX w (v, id)")
	checkTable(t, after, "t")
	require.Equal(t, [][]string{{"1", "7"}, {"2", "7"}}, queryAll(t, db, "SELECT * FROM t"))
	require.Contains(t, fastddl(t, "backup", "verify", to), "no damage")

	refusedCommand(t, "is not empty", "restore", "--from", to, "--path", restored)
	refusedCommand(t, "has no FASTDDL-BACKUP", "restore", "--from", restored, "--path", filepath.Join(dir, "x"))
	refusedCommand(t, "--from is missing", "restore", "--path", restored)
	refusedCommand(t, "--path is missing", "restore", "--from", to)
	code, stderr := startAndFail(t, "--path", to, "-P", "0", "--status-port", "0")
	requireOneLine(t, code, stderr, "fastddl restore --from "+to)
	require.NoError(t, os.Remove(filepath.Join(to, "FASTDDL-BACKUP")))
	refusedCommand(t, "was interrupted", "backup", "verify", to)
}

func mkdir(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(path, 0o700))
	return path
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestBackupPrivileges: BACKUP_ADMIN takes backups, into new folders below secure-file-priv.
func TestBackupPrivileges(t *testing.T) {
	dir := t.TempDir()
	backups := mkdir(t, dir, "backups")
	n := startNode(t, mkdir(t, dir, "data"), "--secure-file-priv", backups)
	db := n.db()
	mustExec(t, db, "CREATE USER app, admin")
	mustExec(t, db, "GRANT ALL ON test.* TO app")
	mustExec(t, db, "GRANT FILE ON *.* TO app")
	mustExec(t, db, "GRANT BACKUP_ADMIN ON *.* TO admin")
	_, err := takeBackup(t.Context(), n.openAs("app", "", "test"), filepath.Join(backups, "app"))
	requireCode(t, err, 1227, "42000", "BACKUP_ADMIN")
	_, err = n.openAs("app", "", "test").Exec("SHOW BACKUPS")
	requireCode(t, err, 1227, "42000", "BACKUP_ADMIN")
	admin := n.openAs("admin", "", "")
	_, err = takeBackup(t.Context(), admin, filepath.Join(dir, "outside"))
	requireCode(t, err, 1290, "HY000", "a backup goes into a new folder below")
	_, err = takeBackup(t.Context(), admin, filepath.Join(backups, "admin"))
	require.NoError(t, err)
	_, err = takeBackup(t.Context(), admin, filepath.Join(backups, "admin"))
	requireCode(t, err, 8124, "HY000", "Backup failed: backup: "+filepath.Join(backups, "admin")+" is not empty")
	for query, says := range map[string]string{
		"BACKUP DATABASE test TO 'local://" + backups + "/x'":       "BACKUP DATABASE * takes all",
		"BACKUP TABLE test.t TO 'local://" + backups + "/x'":        "BACKUP DATABASE * takes all",
		"BACKUP DATABASE * TO 's3://bucket/x'":                      "copy the folder",
		"RESTORE DATABASE * FROM 'local://" + backups + "/admin'":   "fastddl restore --from",
		"BACKUP LOGS TO 'local://" + backups + "/x'":                "there are no log backups",
		"SHOW BACKUP METADATA FROM 'local://" + backups + "/admin'": "fastddl backup verify",
		"CANCEL BR JOB 1": "KILL QUERY",
		"BACKUP DATABASE * TO 'local://" + backups + "/x' CONCURRENCY = 4":      "the option CONCURRENCY",
		"BACKUP DATABASE * TO 'local://" + backups + "/x' SNAPSHOT = 44":        "the option SNAPSHOT",
		"BACKUP DATABASE * TO 'local://" + backups + "/x' LAST_BACKUP = 44":     "the option LAST_BACKUP",
		"BACKUP DATABASE * TO 'local://" + backups + "/x' COMPRESSION_LEVEL= 1": "the option COMPRESSION_LEVEL",
	} {
		_, err := db.Exec(query)
		requireCode(t, err, 1235, "42000", says)
	}
	require.Equal(t, []string{"admin"}, namesIn(t, backups))
}

// TestBackupsAtRandomMoments takes backups while clients transfer money, indexes are built and dropped, and a table is emptied and imported,
// and kills the server now and then. Each backup, also one whose server was killed before its client had the answer but after its end, is
// verified with all tables; the restored store is as the old one was at the timestamp, ends its builds, and has all rows of an import or
// none.
func TestBackupsAtRandomMoments(t *testing.T) {
	randtest.SkipShort(t)
	rng := crashSeed(t)
	dir := t.TempDir()
	data, backups := mkdir(t, dir, "data"), mkdir(t, dir, "backups")
	wanted, until := 20, time.Now().Add(24*time.Hour)
	if !longTests() {
		wanted, until = 2, time.Now().Add(randtest.Time(t, 5*time.Second, 0))
	}
	n := startNode(t, data, "--secure-file-priv", backups)
	b := &bank{}
	b.create(t, n.db())
	mustExec(t, n.db(), "CREATE TABLE filler (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(100))")
	mustExec(t, n.db(), "INSERT INTO filler (v) VALUES (UUID()), (UUID()), (UUID()), (UUID())")
	for range 13 {
		mustExec(t, n.db(), "INSERT INTO filler (v) SELECT MD5(CONCAT(v, id)) FROM filler")
	}
	mustExec(t, n.db(), "CREATE TABLE imported (id INT PRIMARY KEY, k INT, v VARCHAR(100), KEY k (k), UNIQUE KEY v (v))")
	rows := writeImported(t, backups)
	building, undone := 0, 0
	for taken := 0; taken < wanted && (taken == 0 || time.Now().Before(until)); {
		ctx, cancel := context.WithCancel(t.Context())
		clients := b.run(ctx, n.db(), 4)
		clients.Go(func() { buildIndexes(ctx, n.open("test")) })
		clients.Go(func() { importAgain(ctx, n.open("test"), rows) })
		time.Sleep(time.Duration(100+rng.IntN(1000)) * time.Millisecond)
		to := filepath.Join(backups, fmt.Sprint("b", taken, "-", rng.Uint32()))
		killed := rng.IntN(3) == 0
		if killed {
			time.AfterFunc(time.Duration(rng.IntN(100))*time.Millisecond, func() { _ = n.cmd.Process.Kill() })
		}
		ts, err := takeBackup(ctx, n.db(), to)
		if !killed {
			require.NoError(t, err)
		}
		cancel()
		if killed {
			clients.Wait()
			n.kill()
			n = startNode(t, data, "--secure-file-priv", backups)
			require.NoDirExists(t, filepath.Join(data, "checkpoint"))
			b.check(t, n.db())
			if !fileExists(filepath.Join(to, "FASTDDL-BACKUP")) {
				if fileExists(to) {
					refusedCommand(t, "does not hold a backup", "backup", "verify", to)
				}
				require.NoError(t, os.RemoveAll(to))
				continue
			}
			ts = "" // the client does not know it
		} else {
			clients.Wait()
		}
		taken++
		b, u := checkBackup(t, n, to, filepath.Join(dir, "restored"), ts)
		building, undone = building+b, undone+u
		require.NoError(t, os.RemoveAll(to))
	}
	t.Logf("%d transfers were acknowledged, %d restored stores had jobs to end, %d imports to undo", b.made(), building, undone)
	require.Positive(t, b.made())
}

// buildIndexes adds and drops indexes until ctx or the server ends.
func buildIndexes(ctx context.Context, db *sql.DB) {
	for i := 0; ctx.Err() == nil; i++ {
		for _, statement := range []string{
			"ALTER TABLE filler ADD INDEX v (v), ADD UNIQUE INDEX u (id, v)", "ALTER TABLE ledger ADD INDEX b (b, amount)",
			"ALTER TABLE filler DROP INDEX v, DROP INDEX u", "ALTER TABLE ledger DROP INDEX b",
		} {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				if _, ok := err.(net.Error); ok {
					return
				}
			}
		}
	}
}

// importedRows is the number of rows in the file of table imported.
const importedRows = 30_000

// writeImported writes the file of table imported to a folder, and returns its path.
func writeImported(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	for i := range importedRows {
		fmt.Fprintf(&text, "%d,%d,\"row %d\"\n", i, i*7919%importedRows, i)
	}
	path := filepath.Join(dir, "rows.csv")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// importAgain empties and imports a table until ctx or the server ends. A detached import goes on behind that.
func importAgain(ctx context.Context, db *sql.DB, path string) {
	for i := 0; ctx.Err() == nil; i++ {
		statements := []string{"TRUNCATE TABLE imported", "IMPORT INTO imported FROM '" + path + "'"}
		if i%2 == 1 {
			statements[1] += " WITH detached"
		}
		for _, statement := range statements {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				if _, ok := err.(net.Error); ok {
					return
				}
			}
		}
	}
}

// checkBackup verifies a backup, restores it and compares it with the old store at its timestamp, if that is known. It returns 1 if the restored store had a
// job to end, and how many imports it has undone.
func checkBackup(t *testing.T, n *node, backup, restored, ts string) (building, undone int) {
	t.Helper()
	require.Contains(t, fastddl(t, "backup", "verify", backup, "--tables"), "tables: no damage")
	fastddl(t, "restore", "--from", backup, "--path", restored)
	defer os.RemoveAll(restored)
	other := startNodeAsIs(t, restored)
	db := other.db()
	if value(t, db, "SELECT COUNT(*) FROM mysql.tidb_ddl_job") != "0" {
		building = 1
	}
	(&bank{}).check(t, db)
	if ts != "" {
		conn, err := n.db().Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.ExecContext(t.Context(), "SET tidb_snapshot = '"+ts+"'")
		require.NoError(t, err)
		for _, query := range []string{"SELECT * FROM account ORDER BY id", "SELECT * FROM ledger ORDER BY id", "SELECT COUNT(*), SUM(CRC32(CONCAT(id, v))) FROM filler", "SELECT COUNT(*), SUM(CRC32(CONCAT(id, k, v))) FROM imported"} {
			require.Equal(t, queryAll(t, conn, query), queryAll(t, db, query), "%s at %s", query, ts)
		}
	}
	require.Eventually(t, func() bool { return value(t, db, "SELECT COUNT(*) FROM mysql.tidb_ddl_job") == "0" }, startTimeout, pollInterval, "a job does not end")
	require.Equal(t, "0", value(t, db, "SELECT COUNT(*) FROM mysql.fastddl_import_job"))
	require.Contains(t, []string{"0", fmt.Sprint(importedRows)}, value(t, db, "SELECT COUNT(*) FROM imported"))
	undone = len(queryAll(t, db, "SELECT id FROM mysql.tidb_import_jobs WHERE error_message LIKE '%restored from a backup%'"))
	mustExec(t, db, "TRUNCATE TABLE imported")
	for _, table := range []string{"account", "ledger", "filler", "imported"} {
		checkTable(t, db, table)
	}
	mustExec(t, db, "ALTER TABLE account ADD INDEX restored (balance, id)")
	require.Zero(t, other.terminate())
	return building, undone
}

package blackbox

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

const onlySecureFiles = "The MySQL server is running with the --secure-file-priv option so it cannot execute this statement"

// requireFilesClosed checks that no statement reads or writes a file there.
func requireFilesClosed(t *testing.T, db *sql.DB, secret, target string) {
	t.Helper()
	for _, query := range []string{
		"LOAD DATA INFILE '" + secret + "' INTO TABLE f",
		"IMPORT INTO f FROM '" + secret + "' FORMAT 'csv'",
		"SELECT 'x' INTO OUTFILE '" + target + "'",
		"EXPLAIN ANALYZE SELECT 'x' INTO OUTFILE '" + target + "'",
		"SELECT 'x' UNION SELECT 'y' INTO OUTFILE '" + target + "'",
		"BACKUP DATABASE test TO 'local://" + target + "'",
	} {
		_, err := db.Exec(query)
		if strings.HasPrefix(query, "LOAD DATA") && err != nil && strings.Contains(err.Error(), "Error 8154") {
			continue // TiDB never reads files of the server by LOAD DATA
		}
		if strings.HasPrefix(query, "BACKUP") {
			requireCode(t, err, 1235, "42000", "is not supported on the embedded store")
			continue
		}
		requireCode(t, err, 1290, "HY000", onlySecureFiles)
	}
	require.Equal(t, "NULL", value(t, db, "SELECT LOAD_FILE('"+secret+"')"))
	require.Equal(t, "0", value(t, db, "SELECT COUNT(*) FROM f"))
	require.False(t, fileExists(target))
}

func TestServerFilesAreClosedByDefault(t *testing.T) {
	outside := t.TempDir()
	secret, target := filepath.Join(outside, "secret.csv"), filepath.Join(outside, "target")
	require.NoError(t, os.WriteFile(secret, []byte("1\n"), 0o600))
	n := startNode(t, t.TempDir())
	db := n.db()
	mustExec(t, db, "CREATE TABLE f (a INT)")
	requireFilesClosed(t, db, secret, target)
	requireFilesClosed(t, db, "secret.csv", "target")

	// What the client sends is the client's.
	mustExec(t, db, "SET GLOBAL local_infile = ON")
	mysql.RegisterLocalFile(secret)
	defer mysql.DeregisterLocalFile(secret)
	mustExec(t, db, "LOAD DATA LOCAL INFILE '"+secret+"' INTO TABLE f")
	require.Equal(t, "1", value(t, db, "SELECT a FROM f"))
}

func TestServerFilesInTheSecureFolder(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "files")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	// Its path begins as the folder's does.
	neighbour := filepath.Join(root, "files-of-others")
	require.NoError(t, os.MkdirAll(neighbour, 0o700))
	secret := filepath.Join(neighbour, "secret.csv")
	require.NoError(t, os.WriteFile(secret, []byte("1\n"), 0o600))
	require.NoError(t, os.Symlink(neighbour, filepath.Join(dir, "way-out")))
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "link.csv")))

	n := startNode(t, t.TempDir(), "--secure-file-priv", dir)
	db := n.db()
	mustExec(t, db, "CREATE TABLE f (a INT)")
	requireFilesClosed(t, db, secret, filepath.Join(neighbour, "target"))
	requireFilesClosed(t, db, filepath.Join(dir, "way-out", "secret.csv"), filepath.Join(dir, "way-out", "target"))
	requireFilesClosed(t, db, filepath.Join(dir, "link.csv"), filepath.Join(dir, "..", "target"))

	file := filepath.Join(dir, "sub", "out")
	mustExec(t, db, "SELECT 7 INTO OUTFILE '"+file+"'")
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "7\n", string(written))

	mustExec(t, db, "CREATE USER app@'%'")
	mustExec(t, db, "GRANT ALL ON test.* TO app@'%'")
	app := n.openAs("app", "", "test")
	for _, query := range []string{
		"SELECT 7 INTO OUTFILE '" + file + "2'", "LOAD DATA INFILE '" + file + "' INTO TABLE f", "IMPORT INTO f FROM '" + file + "' FORMAT 'csv'",
	} {
		_, err := app.Exec(query)
		require.Error(t, err, "%s without the privilege FILE", query)
	}
	require.False(t, fileExists(file+"2"))
	mustExec(t, db, "GRANT FILE ON *.* TO app@'%'")
	mustExec(t, n.openAs("app", "", "test"), "SELECT 7 INTO OUTFILE '"+file+"2'")
}

func TestSecureFolderMustExist(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{file, file + "-none"} {
		code, stderr := startAndFail(t, "--path", t.TempDir(), "-P", "0", "--status-port", "0", "--secure-file-priv", dir)
		requireOneLine(t, code, stderr, "secure-file-priv")
	}
}

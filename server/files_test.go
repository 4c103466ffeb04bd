package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/stretchr/testify/require"

	"fastddl/internal/asttree"
	"fastddl/sql"
)

func TestFileGuardAllows(t *testing.T) {
	folder, elsewhere := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(folder, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(folder, "..in"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "secret"), nil, 0o600))
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "secret"), filepath.Join(folder, "leak")))
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "new"), filepath.Join(folder, "dangling")))
	link := filepath.Join(elsewhere, "back")
	require.NoError(t, os.Symlink(folder, link))
	g, err := newFileGuard(nil, link, true)
	require.NoError(t, err)
	for name, want := range map[string]bool{
		filepath.Join(folder, "x"): true, filepath.Join(link, "x"): true, filepath.Join(folder, "..in", "x"): true,
		filepath.Join(folder, "leak"): false, filepath.Join(folder, "dangling"): false,
		filepath.Join(folder, "link", "x"): false, filepath.Join(elsewhere, "x"): false, folder: false, folder + "2/x": false,
		filepath.Join(folder, "no", "x"): false, folder + "/link/../x": true, folder + "/../x": false, "x": false, "": false,
	} {
		require.Equal(t, want, g.allows(name), name)
	}
	none, err := newFileGuard(nil, "", true)
	require.NoError(t, err)
	require.False(t, none.allows(filepath.Join(folder, "x")))
}

func TestLocalPath(t *testing.T) {
	for location, want := range map[string]string{
		"/a/b": "/a/b", "a": "a", "file:///a/b": "/a/b", "FILE:///a": "/a", "local:///a?x=1": "/a", "file:/a": "/a", "/%61": "/a",
		"s3://bucket/a": "", "gcs://b/a": "", "%zz": "%zz", "file:a": "file:a",
	} {
		require.Equal(t, want, sql.LocalPath(location), location)
	}
}

// TestSecureFilePriv: statements keep to the folder, however they are sent.
func TestSecureFilePriv(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Security.SecureFilePriv = t.TempDir()
	s := start(t, cfg)
	db := connect(t, s)
	db.SetMaxOpenConns(1)
	file := filepath.Join(t.TempDir(), "out")
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	refused := func(err error, query string) {
		t.Helper()
		var sqlErr *mysql.MySQLError
		require.ErrorAs(t, err, &sqlErr, query)
		// TiDB prepares few statements with files at all.
		require.Contains(t, []uint16{1290, 1295}, sqlErr.Number, query)
		require.NoFileExists(t, file)
	}
	for _, query := range []string{
		"SELECT 1 INTO OUTFILE '" + file + "'",
		"SELECT 1 UNION SELECT 2 INTO OUTFILE '" + file + "'",
		"EXPLAIN ANALYZE SELECT * FROM t INTO OUTFILE '" + file + "'",
		"PREPARE p FROM 'SELECT 1 INTO OUTFILE ''" + file + "'''",
		"LOAD DATA INFILE '" + file + "' INTO TABLE t",
		"IMPORT INTO t FROM '" + file + ".csv'", "IMPORT INTO t FROM 'file://" + file + ".csv'", "EXPLAIN ANALYZE IMPORT INTO t FROM '" + file + "'",
		"PLAN REPLAYER DUMP EXPLAIN SELECT * FROM t INTO OUTFILE '" + file + "'",
		"PLAN REPLAYER DUMP EXPLAIN ANALYZE SELECT * FROM t INTO OUTFILE '" + file + "'",
		"TRACE SELECT * FROM t INTO OUTFILE '" + file + "'",
	} {
		_, err := db.Exec(query)
		refused(err, query)
	}
	_, err := db.Exec("EXECUTE p")
	require.Error(t, err)
	_, err = db.Prepare("SELECT * FROM t INTO OUTFILE '" + file + "'")
	refused(err, "COM_STMT_PREPARE")

	_, err = db.Exec("BACKUP DATABASE * TO 'local://" + file + "'")
	refused(err, "BACKUP")

	// What the store cannot do is not a matter of files.
	for _, query := range []string{
		"EXPLAIN ANALYZE IMPORT INTO t FROM 's3://bucket/file'",
		"EXPLAIN ANALYZE IMPORT INTO t FROM SELECT * FROM t",
		"BACKUP DATABASE test TO 'local://" + file + "'",
		"BACKUP TABLE test.t TO 'local://" + file + "'",
		"BACKUP LOGS TO 'local://" + file + "'",
		"SHOW BACKUP METADATA FROM 'local://" + file + "'",
		"RESTORE DATABASE * FROM 'local://" + file + "'",
		"BACKUP DATABASE * TO 's3://bucket/file'",
	} {
		_, err := db.Exec(query)
		var sqlErr *mysql.MySQLError
		require.ErrorAs(t, err, &sqlErr, query)
		require.EqualValues(t, 1235, sqlErr.Number, query)
		require.NoFileExists(t, file)
	}
	var folder string
	require.NoError(t, db.QueryRow("SELECT @@secure_file_priv").Scan(&folder))
	require.Equal(t, cfg.Security.SecureFilePriv+"/", folder)
	require.Error(t, func() error { _, err := db.Exec("SET GLOBAL secure_file_priv = '/'"); return err }())

	// A pattern does not lead outside by a link.
	exec(t, db, "CREATE TABLE loaded (a INT)")
	write := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(filepath.Join(cfg.Security.SecureFilePriv, "in1.csv"), "7\n")
	write(file+".csv", "8\n")
	link := filepath.Join(cfg.Security.SecureFilePriv, "in2.csv")
	require.NoError(t, os.Symlink(file+".csv", link))
	_, err = db.Exec("IMPORT INTO loaded FROM '" + filepath.Join(cfg.Security.SecureFilePriv, "in*.csv") + "'")
	refused(err, "pattern")
	require.NoError(t, os.Remove(link))
	// Nor does a path by what would be the query, the fragment or an escape of a URL.
	for _, detour := range []string{"x?/../", "x#/../", "x%2Fy/../", "a/b/c?/../../../", "a b/", "ü/"} {
		path := cfg.Security.SecureFilePriv + "/" + detour + "../" + filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file) + ".csv"
		_, err = db.Exec("IMPORT INTO loaded FROM '" + path + "'")
		var sqlErr *mysql.MySQLError
		require.ErrorAs(t, err, &sqlErr, path)
		require.Contains(t, []uint16{1290, 8158}, sqlErr.Number, path)
	}
	folders, err := os.ReadDir(filepath.Dir(cfg.Security.SecureFilePriv))
	require.NoError(t, err)
	require.Len(t, folders, 3, "TiDB's reader has made a folder")
	exec(t, db, "IMPORT INTO loaded FROM '"+filepath.Join(cfg.Security.SecureFilePriv, "in*.csv")+"'")

	inside := filepath.Join(cfg.Security.SecureFilePriv, "out")
	exec(t, db, "SELECT * FROM t INTO OUTFILE '"+inside+"'")
	text, err := os.ReadFile(inside)
	require.NoError(t, err)
	require.Equal(t, "1\n", string(text))
}

// TestNoSecureFolder: the variable says that files are closed, as MySQL's does.
func TestNoSecureFolder(t *testing.T) {
	db := connect(t, start(t, testConfig(t.TempDir())))
	var name, folder string
	require.NoError(t, db.QueryRow("SHOW VARIABLES LIKE 'secure_file_priv'").Scan(&name, &folder))
	require.Equal(t, "NULL", folder)
}

// TestFilesOfACluster: what TiKV can do is a matter of files.
func TestFilesOfACluster(t *testing.T) {
	cluster, err := newFileGuard(nil, "", false)
	require.NoError(t, err)
	for query, want := range map[string]error{
		"IMPORT INTO t FROM '/file'": errSecureFilePriv, "BACKUP DATABASE * TO 'local:///file'": errSecureBackup,
		"IMPORT INTO t FROM 's3://bucket/file'": nil, "BACKUP DATABASE * TO 's3://bucket/file'": nil,
	} {
		stmt, err := parser.New().ParseOneStmt(query, "", "")
		require.NoError(t, err)
		require.ErrorIs(t, asttree.Visit(stmt, cluster.checkNode), want, query)
	}
}

package server

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-sql-driver/mysql"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/kv/embedded"
)

// TestBackupNeedsItsPrivilege: BACKUP_ADMIN, or SUPER.
func TestBackupNeedsItsPrivilege(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Security.SecureFilePriv = t.TempDir()
	s := start(t, cfg)
	db := connect(t, s)
	exec(t, db, "CREATE USER app", "GRANT ALL ON test.* TO app", "GRANT FILE ON *.* TO app")
	app := connectAs(t, s, "app", "")
	to := filepath.Join(cfg.Security.SecureFilePriv, "backup")
	_, err := app.Exec("BACKUP DATABASE * TO 'local://" + to + "'")
	var sqlErr *mysql.MySQLError
	require.ErrorAs(t, err, &sqlErr)
	require.EqualValues(t, 1227, sqlErr.Number)
	require.NoDirExists(t, to)
	exec(t, db, "GRANT BACKUP_ADMIN ON *.* TO app")
	exec(t, app, "BACKUP DATABASE * TO 'local://"+to+"'")
	require.DirExists(t, to)
}

// TestCheckTables finds an index that lacks an entry, and an entry with a wrong value of an expression, and nothing in what is whole.
func TestCheckTables(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := start(t, cfg)
	db := connect(t, s)
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY a (a))", "INSERT INTO t VALUES (1, 1), (2, 2)",
		"CREATE TABLE e (id INT PRIMARY KEY, a INT, KEY e ((a + 1)))", "INSERT INTO e VALUES (1, 1), (2, 2)")
	prefixes := make(map[string]tidbkv.Key)
	for _, table := range []string{"t", "e"} {
		var tableID, indexID int64
		require.NoError(t, db.QueryRow("SELECT tidb_table_id FROM information_schema.tables WHERE table_schema = 'test' AND table_name = ?", table).Scan(&tableID))
		require.NoError(t, db.QueryRow("SELECT index_id FROM information_schema.tidb_indexes WHERE table_schema = 'test' AND table_name = ? AND key_name <> 'PRIMARY'", table).Scan(&indexID))
		prefixes[table] = tablecodec.EncodeTableIndexPrefix(tableID, indexID)
	}
	shutdown(t, s)
	check := func() (n int, last string, err error) {
		n, err = CheckTables(t.Context(), NodeOptions{Config: cfg, Log: s.log}, func(db, table string) { last = db + "." + table })
		return n, last, err
	}
	n, _, err := check()
	require.NoError(t, err)
	require.Greater(t, n, 2)
	for table, prefix := range prefixes {
		var key, value, added []byte
		write(t, cfg.Path, func(txn tidbkv.Transaction) error { // the first entry is lost
			it, err := txn.Iter(prefix, prefix.PrefixNext())
			require.NoError(t, err)
			defer it.Close()
			require.True(t, it.Valid())
			key, value = slices.Clone(it.Key()), slices.Clone(it.Value())
			if table == "e" { // ... with another value, before the handle of nine bytes
				moved := slices.Clone(key)
				moved[len(moved)-10] ^= 0x40
				require.NoError(t, txn.Set(moved, value))
				added = moved
			}
			return txn.Delete(key)
		})
		_, last, err := check()
		require.ErrorContains(t, err, "ADMIN CHECK TABLE test."+table)
		require.Equal(t, "test."+table, last)
		write(t, cfg.Path, func(txn tidbkv.Transaction) error {
			if added != nil {
				require.NoError(t, txn.Delete(added))
			}
			return txn.Set(key, value)
		})
	}
	_, _, err = check()
	require.NoError(t, err)
}

// write commits what fn writes to a store that is not open.
func write(t *testing.T, path string, fn func(txn tidbkv.Transaction) error) {
	t.Helper()
	s, err := embedded.Open(path, embedded.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	txn, err := s.Storage().Begin()
	require.NoError(t, err)
	require.NoError(t, fn(txn))
	require.NoError(t, txn.Commit(t.Context()))
}

package server

import (
	"crypto/tls"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/config"
)

// openTLS connects as a user, over TLS with what the driver calls skip-verify.
func openTLS(t *testing.T, s *Server, user, password, mode string) *sql.DB {
	t.Helper()
	client := clientConfig(s)
	client.User, client.Passwd, client.TLSConfig, client.DBName = user, password, mode, ""
	connector, err := mysql.NewConnector(client)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// Without a certificate in the configuration clients may use TLS all the same, and accounts with caching_sha2_password log in. The
// certificate stays the same over a restart.
func TestAutoTLS(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := start(t, cfg)
	root := openTLS(t, s, "root", "", "false")
	exec(t, root, "CREATE USER sha2 IDENTIFIED WITH caching_sha2_password BY 'secret'")
	require.Error(t, openTLS(t, s, "sha2", "wrong", "skip-verify").Ping())
	for _, mode := range []string{"skip-verify", "preferred"} {
		db := openTLS(t, s, "sha2", "secret", mode)
		var name, cipher string
		require.NoError(t, db.QueryRow("SHOW STATUS LIKE 'Ssl_cipher'").Scan(&name, &cipher))
		require.NotEmpty(t, cipher)
	}
	file := certificateOf(t, root)
	require.Equal(t, filepath.Join(cfg.Path, "tls", "server-cert.pem"), file)
	first, err := os.ReadFile(file)
	require.NoError(t, err)
	shutdown(t, s)

	cfg.Security.RequireSecureTransport = true
	s = start(t, cfg)
	require.Error(t, openTLS(t, s, "root", "", "false").Ping())
	root = openTLS(t, s, "root", "", "skip-verify")
	require.Equal(t, file, certificateOf(t, root))
	again, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, first, again)
	exec(t, root, "ALTER INSTANCE RELOAD TLS")
	require.NoError(t, openTLS(t, s, "sha2", "secret", "skip-verify").Ping())
	shutdown(t, s)

	cfg.Security = config.Security{}
	s = start(t, cfg)
	require.Error(t, openTLS(t, s, "root", "", "skip-verify").Ping(), "auto-tls = false")
	require.NoError(t, openTLS(t, s, "root", "", "false").Ping())
}

func certificateOf(t *testing.T, db *sql.DB) string {
	t.Helper()
	var name, file string
	require.NoError(t, db.QueryRow("SHOW VARIABLES LIKE 'ssl_cert'").Scan(&name, &file))
	return file
}

// TestCertificatesAreRenewed: a certificate that expires soon or cannot be read is replaced. Certificates name the server.
func TestCertificatesAreRenewed(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "tls"), time.Now()
	ensure := func(now time.Time) tls.Certificate {
		cert, key, err := ensureCertificate(dir, "0.0.0.0", "db.example", now)
		require.NoError(t, err)
		pair, err := tls.LoadX509KeyPair(cert, key)
		require.NoError(t, err)
		for _, name := range []string{"localhost", "127.0.0.1", "db.example"} {
			require.NoError(t, pair.Leaf.VerifyHostname(name))
		}
		require.Error(t, pair.Leaf.VerifyHostname("0.0.0.0"))
		info, err := os.Stat(key)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		return pair
	}
	first := ensure(now)
	require.Equal(t, first.Leaf.Raw, ensure(now.Add(autoTLSValidity-autoTLSRenewBefore-time.Minute)).Leaf.Raw)
	second := ensure(now.Add(autoTLSValidity - autoTLSRenewBefore + time.Minute))
	require.NotEqual(t, first.Leaf.Raw, second.Leaf.Raw)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "server-key.pem"), []byte("half"), 0o600))
	require.NotEqual(t, second.Leaf.Raw, ensure(now.Add(autoTLSValidity-autoTLSRenewBefore+2*time.Minute)).Leaf.Raw)
}

package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pingcap/tidb/pkg/util"
	tidbtls "github.com/pingcap/tidb/pkg/util/tls"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fastddl/config"
)

func writeCertificate(t *testing.T, sec config.Security) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "fastddl test"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	writePEM(t, sec.SSLCert, "CERTIFICATE", cert)
	writePEM(t, sec.SSLKey, "PRIVATE KEY", der)
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(filepath.Join(dir, "data"))
	cfg.Security = config.Security{SSLCert: filepath.Join(dir, "cert.pem"), SSLKey: filepath.Join(dir, "key.pem"), RequireSecureTransport: true}
	writeCertificate(t, cfg.Security)
	s := start(t, cfg)
	require.Error(t, connect(t, s).Ping(), "without TLS")

	client := clientConfig(s)
	client.TLSConfig = "skip-verify"
	connector, err := mysql.NewConnector(client)
	require.NoError(t, err)
	secure := sql.OpenDB(connector)
	defer secure.Close()
	require.NoError(t, secure.Ping())
	// TiDB loads its variables again now and then; the setting stays.
	exec(t, secure, "SET GLOBAL tidb_mem_quota_query = 1073741825")
	require.Error(t, connect(t, s).Ping())
}

// TestClientsNeedCertificates: of clients that have to come by TLS TiDB wants a certificate, too, if
// there is an ssl-ca, from the next start on, or from ALTER INSTANCE RELOAD TLS. The log says so.
func TestClientsNeedCertificates(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(filepath.Join(dir, "data"))
	cfg.Security = config.Security{SSLCert: filepath.Join(dir, "cert.pem"), SSLKey: filepath.Join(dir, "key.pem"), SSLCA: filepath.Join(dir, "cert.pem")}
	writeCertificate(t, cfg.Security)
	s := start(t, cfg)
	secure := func(certificates ...tls.Certificate) *sql.DB {
		client := clientConfig(s)
		client.TLS = &tls.Config{InsecureSkipVerify: true, Certificates: certificates}
		connector, err := mysql.NewConnector(client)
		require.NoError(t, err)
		db := sql.OpenDB(connector)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return db
	}
	db := secure()
	exec(t, db, "SET GLOBAL require_secure_transport = ON")
	t.Cleanup(func() { tidbtls.RequireSecureTransport.Store(false) })
	require.NoError(t, secure().Ping(), "what was read at the start holds")
	exec(t, db, "ALTER INSTANCE RELOAD TLS")
	require.Error(t, secure().Ping(), "without a certificate")
	pair, err := tls.LoadX509KeyPair(cfg.Security.SSLCert, cfg.Security.SSLKey)
	require.NoError(t, err)
	require.NoError(t, secure(pair).Ping())
	exec(t, db, "SET GLOBAL require_secure_transport = OFF")
	exec(t, db, "ALTER INSTANCE RELOAD TLS")
	require.NoError(t, secure().Ping())
}

func TestWarnOfCertificates(t *testing.T) {
	dir := t.TempDir()
	sec := config.Security{SSLCert: filepath.Join(dir, "cert.pem"), SSLKey: filepath.Join(dir, "key.pem"), SSLCA: filepath.Join(dir, "cert.pem")}
	writeCertificate(t, sec)
	for name, tc := range map[string]struct {
		after    time.Duration
		required bool
		wants    []string
	}{
		"nothing":         {0, false, nil},
		"expired":         {2 * time.Hour, false, []string{"not valid now"}},
		"not yet valid":   {-2 * time.Hour, false, []string{"not valid now"}},
		"clients need it": {0, true, []string{"clients need a certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			tidbtls.RequireSecureTransport.Store(tc.required)
			defer tidbtls.RequireSecureTransport.Store(false)
			core, logged := observer.New(zap.WarnLevel)
			read, _, err := util.LoadTLSCertificates(sec.SSLCA, sec.SSLKey, sec.SSLCert, false, 0)
			require.NoError(t, err)
			warnOfCertificates(zap.New(core), read, sec, time.Now().Add(tc.after))
			require.Len(t, logged.All(), len(tc.wants))
			for i, want := range tc.wants {
				require.Contains(t, logged.All()[i].Message, want)
			}
		})
	}
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

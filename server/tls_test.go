package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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
	"github.com/stretchr/testify/require"

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
func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

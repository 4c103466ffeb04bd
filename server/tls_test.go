package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/config"
)

// writeCertificate writes a new self-signed certificate and its key.
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

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func TestTLSConfig(t *testing.T) {
	dir := t.TempDir()
	sec := config.Security{SSLCert: filepath.Join(dir, "cert.pem"), SSLKey: filepath.Join(dir, "key.pem")}
	writeCertificate(t, sec)

	none, err := tlsConfig(config.Security{})
	require.NoError(t, err)
	require.Nil(t, none)

	with, err := tlsConfig(sec)
	require.NoError(t, err)
	require.Len(t, with.Certificates, 1)
	require.Nil(t, with.ClientCAs)

	sec.SSLCA = sec.SSLCert
	with, err = tlsConfig(sec)
	require.NoError(t, err)
	require.NotNil(t, with.ClientCAs)

	sec.SSLCA = sec.SSLKey
	_, err = tlsConfig(sec)
	require.ErrorContains(t, err, "holds no certificate")
	sec.SSLCert = sec.SSLKey
	_, err = tlsConfig(sec)
	require.ErrorContains(t, err, "security: read certificate")
}

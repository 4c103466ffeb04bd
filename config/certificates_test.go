package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// certificate writes a certificate and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600))
	return cert, key
}

// TestValidateCertificates: files that no client could come in by are refused before a store is
// opened, and named.
func TestValidateCertificates(t *testing.T) {
	cert, key := certificate(t)
	_, otherKey := certificate(t)
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for name, tc := range map[string]struct {
		security Security
		wants    []string // none: it is right
	}{
		"required":          {Security{RequireSecureTransport: true, AutoTLS: true}, nil},
		"none":              {Security{RequireSecureTransport: true}, []string{"require-secure-transport needs ssl-cert and ssl-key, or auto-tls"}},
		"right":             {Security{SSLCert: cert, SSLKey: key, SSLCA: cert}, nil},
		"key of another":    {Security{SSLCert: cert, SSLKey: otherKey}, []string{cert, otherKey, "does not match"}},
		"swapped":           {Security{SSLCert: key, SSLKey: cert}, []string{cert, key, "switched"}},
		"missing":           {Security{SSLCert: missing, SSLKey: key}, []string{missing + ": no such file"}},
		"missing authority": {Security{SSLCert: cert, SSLKey: key, SSLCA: missing}, []string{"ssl-ca", missing + ": no such file"}},
		"no authority":      {Security{SSLCert: cert, SSLKey: key, SSLCA: key}, []string{"ssl-ca " + key + " has no certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := Default()
			c.Path, c.Security = "/data", tc.security
			c.EnsureDefaults()
			err := c.Validate()
			if tc.wants == nil {
				require.NoError(t, err)
			}
			for _, want := range tc.wants {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

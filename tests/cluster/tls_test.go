package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// certificates makes an authority and a certificate for this machine, for servers and
// clients, and returns their files and what a server is to be started with.
func certificates(t *testing.T) (ca, cert, key string, serve *tls.Config) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	ca, cert = write("ca.pem", "CERTIFICATE", der), write("cert.pem", "CERTIFICATE", der)
	key = write("key.pem", "EC PRIVATE KEY", keyDER)
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return ca, cert, key, &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

// TestTLS: within the cluster PD, TiKV and the nodes authenticate to each other.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, cert, key, serve := certificates(t)
	c := startCluster(t, serve)
	secure := []string{
		"[tidb.security]", fmt.Sprintf("cluster-ssl-ca = %q", ca), fmt.Sprintf("cluster-ssl-cert = %q", cert),
		fmt.Sprintf("cluster-ssl-key = %q", key),
	}
	n := startNode(t, c, secure...)
	a, b := n.open(), startNode(t, c, secure...).open()
	a.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
	b.exec("ALTER TABLE t ADD INDEX v (v)", "ADMIN CHECK TABLE t")
	require.Len(t, a.rows("SELECT DISTINCT instance FROM information_schema.cluster_processlist"), 2)
	require.Empty(t, a.rows("SHOW WARNINGS"), "the nodes reach each other")
	require.Len(t, a.rows("SELECT DISTINCT instance FROM information_schema.cluster_config WHERE type = 'tidb'"), 2)
	require.Empty(t, a.rows("SHOW WARNINGS"), "the nodes read each other's settings")
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	for want, shown := range map[int][]tls.Certificate{http.StatusOK: {pair}, http.StatusUnauthorized: nil} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: shown}}}
		resp, err := client.Get("https://" + n.Status + "/settings")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode, "a certificate of the cluster does for a login")
	}

	resp, err := http.Get("http://" + n.Status + "/status")
	if err == nil {
		require.NoError(t, resp.Body.Close())
		require.NotEqual(t, http.StatusOK, resp.StatusCode, "the status port is one of the cluster")
	}

	file := filepath.Join(t.TempDir(), "servers.toml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(secure, "\n")), 0o600))
	out, err := command(t, c, "bench", "addindex", "--rows", "500", "--runs", "1", "--config", file).CombinedOutput()
	require.NoError(t, err, string(out))

	// Without a certificate it is told from a cluster that is down.
	pd, err := c.Open()
	require.NoError(t, err)
	_, log, _ := launch(t, "--path", pd.Addr)
	eventually(t, "it says what is wrong", func() bool { return strings.Contains(log.String(), "failed to get cluster id") })
	require.Contains(t, refused(t, "--path", pd.Addr, "--config", badTLS(t, key)), "tidb.security: ")
}

// badTLS is a configuration whose certificate is no certificate.
func badTLS(t *testing.T, key string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fastddl.toml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil,
		"[tidb.security]\ncluster-ssl-ca = %q\ncluster-ssl-cert = %q\ncluster-ssl-key = %q\n", key, key, key), 0o600))
	return path
}

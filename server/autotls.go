package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	tidb "github.com/pingcap/tidb/pkg/config"
	"go.uber.org/zap"

	"fastddl/config"
)

const (
	// autoTLSValidity is how long a new certificate is valid, as MySQL's. A start renews one that is valid for less than
	// autoTLSRenewBefore.
	autoTLSValidity    = 10 * 365 * 24 * time.Hour
	autoTLSRenewBefore = 90 * 24 * time.Hour
)

// useAutoTLS gives TiDB's server a generated certificate if the configuration names none and allows it. The certificate is kept in
// a file, so that clients can pin it and later starts are fast: TiDB's own auto-tls makes an RSA key of 4096 bits at each start.
func (s *Server) useAutoTLS() error {
	security := s.opts.Config.Security
	if security.SSLCert != "" || !security.AutoTLS {
		return nil
	}
	cert, key, err := ensureCertificate(s.autoTLSDir(), s.opts.Config.Host, s.opts.Config.AdvertiseAddress, time.Now())
	if err != nil {
		if security.RequireSecureTransport {
			return fmt.Errorf("security.auto-tls: %w", err)
		}
		s.log.Warn("there is no TLS for clients: no certificate can be made", zap.Error(err)) // as on a full disk
		return nil
	}
	tidb.UpdateGlobal(func(t *tidb.Config) { t.Security.SSLCert, t.Security.SSLKey = cert, key })
	return nil
}

// autoTLSDir returns the folder of the certificate. It is in the embedded store's folder, as MySQL's is in its data directory. With a
// cluster as store it is beside the folder of temporary files, the only one that the server has.
func (s *Server) autoTLSDir() string {
	if cfg := s.opts.Config; cfg.Store == config.StorePebble {
		return filepath.Join(cfg.Path, "tls")
	}
	return filepath.Join(filepath.Dir(s.node.TempDir()), "tls")
}

// ensureCertificate returns the files of a certificate in dir. It makes them if they are missing, damaged, or valid for less than
// autoTLSRenewBefore.
func ensureCertificate(dir, host, advertised string, now time.Time) (cert, key string, err error) {
	cert, key = filepath.Join(dir, "server-cert.pem"), filepath.Join(dir, "server-key.pem")
	if pair, err := tls.LoadX509KeyPair(cert, key); err == nil && pair.Leaf.NotAfter.After(now.Add(autoTLSRenewBefore)) && !pair.Leaf.NotBefore.After(now) {
		return cert, key, nil
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return "", "", fmt.Errorf("make a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "fastddl auto-generated server certificate"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(autoTLSValidity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	names := []string{host, advertised}
	if machine, err := os.Hostname(); err == nil { // without it the other names suffice
		names = append(names, machine)
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip == nil && name != "" && name != "localhost" {
			template.DNSNames = append(template.DNSNames, name)
		} else if ip != nil && !ip.IsUnspecified() && !ip.IsLoopback() {
			template.IPAddresses = append(template.IPAddresses, ip)
		}
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return "", "", fmt.Errorf("make a certificate: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", fmt.Errorf("encode the key: %w", err)
	}
	err = errors.Join(os.MkdirAll(dir, 0o700), replacePEM(key, "PRIVATE KEY", encoded), replacePEM(cert, "CERTIFICATE", signed))
	if err != nil {
		return "", "", err
	}
	return cert, key, nil
}

// replacePEM replaces a file atomically. A crash between key and certificate leaves a pair that does not match, which the next start
// replaces.
func replacePEM(name, kind string, der []byte) error {
	if err := os.WriteFile(name+".tmp", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}

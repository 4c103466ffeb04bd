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
	// autoTLSFor is how long a certificate of ours is valid, as MySQL's; autoTLSLeast is how long it is used before it is renewed.
	autoTLSFor   = 10 * 365 * 24 * time.Hour
	autoTLSLeast = 90 * 24 * time.Hour
)

// useAutoTLS gives TiDB's server a certificate that this one makes if the configuration names none and allows it. It stays, so that
// clients may keep it, and a start takes no longer: TiDB's own auto-tls makes an RSA key of 4096 bits each time.
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

// autoTLSDir is the folder of the certificate: the embedded store's, as MySQL's is in its folder of data. Beside a cluster a server
// has no other folder than that for temporary files.
func (s *Server) autoTLSDir() string {
	if cfg := s.opts.Config; cfg.Store == config.StorePebble {
		return filepath.Join(cfg.Path, "tls")
	}
	return filepath.Join(filepath.Dir(s.node.TempDir()), "tls")
}

// ensureCertificate returns the files of a certificate in dir, and makes them if they are not there, damaged, or valid for too short a
// time.
func ensureCertificate(dir, host, advertised string, now time.Time) (cert, key string, err error) {
	cert, key = filepath.Join(dir, "server-cert.pem"), filepath.Join(dir, "server-key.pem")
	if pair, err := tls.LoadX509KeyPair(cert, key); err == nil && pair.Leaf.NotAfter.After(now.Add(autoTLSLeast)) && !pair.Leaf.NotBefore.After(now) {
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
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(autoTLSFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	names := []string{host, advertised}
	if machine, err := os.Hostname(); err == nil { // without one the others do
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

// replacePEM replaces a file atomically. A certificate without its key is made anew.
func replacePEM(name, kind string, der []byte) error {
	if err := os.WriteFile(name+".tmp", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}

package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"fastddl/config"
)

// tlsConfig reads the listener's certificates; nil without any.
func tlsConfig(sec config.Security) (*tls.Config, error) {
	if sec.SSLCert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(sec.SSLCert, sec.SSLKey)
	if err != nil {
		return nil, fmt.Errorf("security: read certificate: %w", err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if sec.SSLCA == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(sec.SSLCA)
	if err != nil {
		return nil, fmt.Errorf("security: read authorities: %w", err)
	}
	cfg.ClientCAs = x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("security: %s holds no certificate", sec.SSLCA)
	}
	cfg.ClientAuth = tls.VerifyClientCertIfGiven
	return cfg, nil
}

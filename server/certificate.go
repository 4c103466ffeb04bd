package server

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	tidbtls "github.com/pingcap/tidb/pkg/util/tls"
	"go.uber.org/zap"

	"fastddl/config"
)

// warnOfCertificates says of what TiDB's server has just read why clients may not come in by it.
func warnOfCertificates(log *zap.Logger, s config.Security, now time.Time) error {
	if s.SSLCert == "" {
		return nil
	}
	cert, err := leafOf(s.SSLCert)
	if err != nil {
		return fmt.Errorf("security: ssl-cert: %w", err)
	}
	if now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
		log.Warn("the server's certificate is not valid now: clients that verify it do not come in",
			zap.String("ssl-cert", s.SSLCert), zap.Time("from", cert.NotBefore), zap.Time("until", cert.NotAfter))
	}
	if s.SSLCA != "" && tidbtls.RequireSecureTransport.Load() {
		log.Warn("secure transport is required and there is an ssl-ca: clients need a certificate that it has signed", zap.String("ssl-ca", s.SSLCA))
	}
	return nil
}

// leafOf returns the first certificate of a file.
func leafOf(file string) (*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, fmt.Errorf("%s has no certificate", file)
		}
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
}

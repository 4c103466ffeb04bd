package server

import (
	"crypto/tls"
	"time"

	"go.uber.org/zap"

	"fastddl/config"
)

// warnOfCertificates logs why clients may be unable to connect by the certificates that TiDB's server has just read. It
// logs nothing without TLS.
func warnOfCertificates(log *zap.Logger, read *tls.Config, s config.Security, now time.Time) {
	if read == nil {
		return
	}
	if cert := read.Certificates[0].Leaf; now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
		log.Warn("the server's certificate is not valid now: clients that verify it do not come in",
			zap.String("ssl-cert", s.SSLCert), zap.Time("from", cert.NotBefore), zap.Time("until", cert.NotAfter))
	}
	if read.ClientAuth == tls.RequireAndVerifyClientCert {
		log.Warn("secure transport is required and there is an ssl-ca: clients need a certificate that it has signed", zap.String("ssl-ca", s.SSLCA))
	}
}

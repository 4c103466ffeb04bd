package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
)

// requireCommonName refuses peers whose certificate has none of the names; without names it changes nothing. It is what SetCNChecker
// of TiDB's server does, which is made too late for a status port that answers while the store opens.
func requireCommonName(config *tls.Config, names []string) {
	if len(names) == 0 {
		return
	}
	allowed := make([]string, len(names))
	for i, name := range names {
		allowed[i] = strings.TrimSpace(name)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.VerifyPeerCertificate = func(_ [][]byte, chains [][]*x509.Certificate) error {
		for _, chain := range chains {
			if len(chain) > 0 && slices.Contains(allowed, chain[0].Subject.CommonName) {
				return nil
			}
		}
		return fmt.Errorf("tidb.security.cluster-verify-cn: the certificate has none of the names %q", allowed)
	}
}

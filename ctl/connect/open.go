package connect

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/go-sql-driver/mysql"
)

func joinHostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// Config returns the driver's configuration of a connection. Program names the client in performance_schema.
func (o *Options) Config(program string) (*mysql.Config, error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.DBName = "tcp", o.Addr(), o.User, o.Password, o.Database
	cfg.InterpolateParams = true // one round trip for a statement
	cfg.MaxAllowedPacket = 0     // the server's
	cfg.Timeout = o.Timeout
	cfg.ConnectionAttributes = "program_name:" + program
	cfg.Logger = &mysql.NopLogger{} // the error itself says it
	if o.Socket != "" {
		cfg.Net = "unix"
		if o.Mode == Preferred {
			return cfg, nil // a socket of this machine needs none
		}
	}
	var err error
	if cfg.TLS, err = o.tls(); err != nil {
		return nil, err
	}
	cfg.AllowFallbackToPlaintext = o.Mode == Preferred
	return cfg, nil
}

// tls returns the settings of TLS, nil without.
func (o *Options) tls() (*tls.Config, error) {
	if o.Mode == Disabled {
		return nil, nil
	}
	cfg := &tls.Config{ServerName: o.Host, MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("ssl-ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ssl-ca: %s has no certificate", o.CA)
		}
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("ssl-cert, ssl-key: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	switch o.Mode {
	case VerifyIdentity:
	case VerifyCA:
		// The authority must be the given one, the name may be any.
		cfg.InsecureSkipVerify = true
		cfg.VerifyConnection = func(state tls.ConnectionState) error { return verifyAuthority(state, cfg.RootCAs) }
	default:
		cfg.InsecureSkipVerify = true // encrypted, as these modes say
	}
	return cfg, nil
}

func verifyAuthority(state tls.ConnectionState, roots *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server has no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
	return err
}

// Open returns connections to the server, at most conns. It does not connect yet.
func (o *Options) Open(program string, conns int) (*sql.DB, error) {
	cfg, err := o.Config(program)
	if err != nil {
		return nil, err
	}
	return Pool(cfg, conns)
}

// Pool returns connections by a configuration, at most conns, which stay open. It does not connect yet.
func Pool(cfg *mysql.Config, conns int) (*sql.DB, error) {
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

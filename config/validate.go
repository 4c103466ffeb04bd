package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"fastddl/internal/memory"
)

// Validate checks the settings after EnsureDefaults and lists every problem at
// once.
func (c *Config) Validate() error {
	var p problems
	c.validateStore(&p)
	c.validateMemory(&p)
	p.port("port", c.Port)
	p.port("status.status-port", c.Status.StatusPort)
	if c.Status.ReportStatus && c.Port != 0 && c.Port == c.Status.StatusPort && c.Host == c.Status.StatusHost {
		p.add("port and status.status-port are both %d", c.Port)
	}
	if c.MaxConnections < 0 || c.MaxConnections > math.MaxInt32 {
		p.add("max-connections %d is not between 0 and %d", c.MaxConnections, math.MaxInt32)
	}
	if c.ShutdownTimeout < 0 {
		p.add("shutdown-timeout %s is negative", c.ShutdownTimeout)
	}
	c.Log.validate(&p)
	c.Security.validate(&p)
	c.validateTiDB(&p)
	return p.err()
}

func (c *Config) validateStore(p *problems) {
	switch c.Store {
	case StorePebble:
		if c.Path == "" {
			p.add("path is not set: name the folder of the store with --path")
		}
	case StoreTiKV:
		if c.Path == "" {
			p.add("path is not set: name the PD servers with --path, such as pd1:2379,pd2:2379")
		}
		if c.TempDir == "" {
			p.add(`temp-dir is not set: store "tikv" has no folder that it could be in`)
		}
	default:
		p.add("store %q is not one of %s, %s", c.Store, StorePebble, StoreTiKV)
	}
}

func (c *Config) validateMemory(p *problems) {
	limit, machine := c.MemoryLimit, ByteSize(memory.Machine())
	switch {
	case limit == 0:
		limit = machine
	case limit < memory.Least:
		p.add("memory-limit %s is less than %s", limit, ByteSize(memory.Least))
	case limit > machine:
		p.add("memory-limit %s is more than the %s that the machine has", limit, machine)
	}
	if c.Pebble.CacheSize < 0 {
		p.add("pebble.cache-size %d is negative", c.Pebble.CacheSize)
	}
	if c.Pebble.CacheSize > limit/2 {
		p.add("pebble.cache-size %s is more than half of the memory of %s", c.Pebble.CacheSize, limit)
	}
}

func (l *Log) validate(p *problems) {
	p.oneOf("log.level", l.Level, "debug", "info", "warn", "error")
	p.oneOf("log.format", l.Format, "text", "json")
	if l.SlowThreshold < 0 {
		p.add("log.slow-threshold %d is negative", l.SlowThreshold)
	}
	if l.File.MaxSize < 1 {
		p.add("log.file.max-size %d is less than 1", l.File.MaxSize)
	}
	if l.File.MaxDays < 0 || l.File.MaxBackups < 0 {
		p.add("log.file: max-days and max-backups must not be negative")
	}
}

func (s *Security) validate(p *problems) {
	if (s.SSLCert == "") != (s.SSLKey == "") {
		p.add("security: ssl-cert and ssl-key must be set together")
	}
	if s.SSLCert == "" && s.SSLCA != "" {
		p.add("security: ssl-ca needs ssl-cert and ssl-key")
	}
	if s.SSLCert == "" && !s.AutoTLS && s.RequireSecureTransport {
		p.add("security: require-secure-transport needs ssl-cert and ssl-key, or auto-tls")
	}
	if s.SecureFilePriv != "" {
		if info, err := os.Stat(s.SecureFilePriv); err != nil {
			p.add("security.secure-file-priv: %v", err)
		} else if !info.IsDir() {
			p.add("security.secure-file-priv: %s is not a folder", s.SecureFilePriv)
		}
	}
	s.validateCertificates(p)
}

// validateCertificates reads the files of certificates. TiDB's server would do so too, but when the
// store is open and maybe new, without a word of which file it is, and it takes an ssl-ca without
// authorities for none.
func (s *Security) validateCertificates(p *problems) {
	if s.SSLCert != "" && s.SSLKey != "" {
		if _, err := tls.LoadX509KeyPair(s.SSLCert, s.SSLKey); err != nil {
			p.add("security: ssl-cert %s, ssl-key %s: %v", s.SSLCert, s.SSLKey, err)
		}
	} else if file := s.SSLCert + s.SSLKey; file != "" {
		if _, err := os.Stat(file); err != nil {
			p.add("security: %v", err)
		}
	}
	if s.SSLCA != "" {
		if authorities, err := os.ReadFile(s.SSLCA); err != nil {
			p.add("security: ssl-ca: %v", err)
		} else if !x509.NewCertPool().AppendCertsFromPEM(authorities) {
			p.add("security: ssl-ca %s has no certificate of an authority", s.SSLCA)
		}
	}
}

// problems collects what is wrong with a configuration.
type problems []string

func (p *problems) add(format string, args ...any) {
	*p = append(*p, fmt.Sprintf(format, args...))
}

func (p *problems) port(name string, port int) {
	if port < 0 || port > 65535 {
		p.add("%s %d is not a port", name, port)
	}
}

func (p *problems) oneOf(name, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		p.add("%s %q is not one of %s", name, value, strings.Join(allowed, ", "))
	}
}

func (p *problems) err() error {
	if len(*p) == 0 {
		return nil
	}
	return errors.New("configuration: " + strings.Join(*p, "; "))
}

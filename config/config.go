package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"fastddl/internal/memory"
)

// The drivers that Config.Store may name.
const (
	StorePebble = "pebble"
	StoreTiKV   = "tikv"
)

// Config is what an operator can set of a server when it starts. It is the
// image of the TOML file; where TiDB has the same setting, the key has the same
// name. Start from [Default]: some defaults (ports, booleans) cannot be told
// from a value that was set to zero.
type Config struct {
	// Host is the address the MySQL listener binds to; default 127.0.0.1.
	Host string `toml:"host"`
	// Port is the MySQL port; 0 takes a free one.
	Port int `toml:"port"`
	// Store is the storage driver; default "pebble".
	Store string `toml:"store"`
	// Path is the folder of the embedded store.
	Path string `toml:"path"`
	// TempDir is where index builds sort; default is the folder "tmp" inside
	// Path. It should lie on the store's file system: finished files are then
	// linked into the store, not copied.
	TempDir string `toml:"temp-dir"`
	// MemoryLimit is what the process may use of the memory, in bytes; 0 is three
	// quarters of what there is. It is divided as internal/memory says.
	MemoryLimit ByteSize `toml:"memory-limit"`
	// ShutdownTimeout is how long statements may run on after the server was
	// told to stop, before they are killed; default 10s.
	ShutdownTimeout time.Duration `toml:"shutdown-timeout"`

	Log      Log      `toml:"log"`
	Status   Status   `toml:"status"`
	Security Security `toml:"security"`
	Pebble   Pebble   `toml:"pebble"`
}

// Log says what is logged, how, and where.
type Log struct {
	// Level is the lowest level that is logged: debug, info, warn or error;
	// default info.
	Level string `toml:"level"`
	// Format is text or json; default text.
	Format string `toml:"format"`
	// SlowThreshold is the time in milliseconds above which a statement is
	// logged as slow; 0 logs none. Default 300.
	SlowThreshold int64 `toml:"slow-threshold"`

	File LogFile `toml:"file"`
}

// LogFile is the log file and its rotation.
type LogFile struct {
	// Filename is the log file; empty logs to standard error.
	Filename string `toml:"filename"`
	// MaxSize is the size in MiB at which the file is rotated; default 300.
	MaxSize int `toml:"max-size"`
	// MaxDays and MaxBackups bound the rotated files; 0 keeps all.
	MaxDays    int `toml:"max-days"`
	MaxBackups int `toml:"max-backups"`
}

// Status is the HTTP server for metrics, health and profiles.
type Status struct {
	// ReportStatus switches the HTTP server on; default true.
	ReportStatus bool `toml:"report-status"`
	// StatusHost is the address it binds to; default is Config.Host.
	StatusHost string `toml:"status-host"`
	// StatusPort is its port; 0 takes a free one. Default 10080.
	StatusPort int `toml:"status-port"`
}

// Security holds the certificates of the MySQL listener, and what clients may
// reach through the server.
type Security struct {
	// SSLCert and SSLKey are PEM files; both or none. With them, clients may
	// use TLS.
	SSLCert string `toml:"ssl-cert"`
	SSLKey  string `toml:"ssl-key"`
	// SSLCA is a PEM file of authorities; client certificates, if given, must
	// be signed by one of them.
	SSLCA string `toml:"ssl-ca"`
	// RequireSecureTransport refuses clients without TLS.
	RequireSecureTransport bool `toml:"require-secure-transport"`
	// SecureFilePriv is the folder that LOAD DATA, SELECT INTO OUTFILE and
	// LOAD_FILE are confined to. Empty or NULL, as by default, they cannot reach
	// files of the server at all; LOAD DATA LOCAL needs no leave.
	SecureFilePriv string `toml:"secure-file-priv"`
}

// Pebble tunes the embedded store.
type Pebble struct {
	// Sync makes a commit wait until it is on disk; default true. Without it a
	// crash of the machine may lose the last commits, never part of one.
	Sync bool `toml:"sync"`
	// CacheSize is the block cache in bytes; 0 is a quarter of the memory limit.
	CacheSize ByteSize `toml:"cache-size"`
}

const (
	defaultHost            = "127.0.0.1"
	defaultPort            = 4000
	defaultStatusPort      = 10080
	defaultShutdownTimeout = 10 * time.Second
	defaultSlowThreshold   = 300
	defaultLogMaxSizeMiB   = 300
	tempDirName            = "tmp"
)

// Default returns the configuration of a server that was told nothing, except
// for the settings that EnsureDefaults derives from others.
func Default() Config {
	return Config{
		Port:   defaultPort,
		Log:    Log{SlowThreshold: defaultSlowThreshold},
		Status: Status{ReportStatus: true, StatusPort: defaultStatusPort},
		Pebble: Pebble{Sync: true},
	}
}

// Load reads a TOML file over the defaults. Keys that do not exist are an
// error: a misspelt setting must not be silently without effect.
func Load(file string) (Config, error) {
	c := Default()
	md, err := toml.DecodeFile(file, &c)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration %s: %w", file, err)
	}
	if unknown := md.Undecoded(); len(unknown) > 0 {
		names := make([]string, len(unknown))
		for i, k := range unknown {
			names[i] = k.String()
		}
		slices.Sort(names)
		return Config{}, fmt.Errorf("read configuration %s: unknown settings: %s", file, strings.Join(names, ", "))
	}
	return c, nil
}

// EnsureDefaults fills in the settings that are empty and have a default.
func (c *Config) EnsureDefaults() {
	setDefault(&c.Host, defaultHost)
	setDefault(&c.Store, StorePebble)
	setDefault(&c.ShutdownTimeout, defaultShutdownTimeout)
	setDefault(&c.Log.Level, "info")
	setDefault(&c.Log.Format, "text")
	setDefault(&c.Log.File.MaxSize, defaultLogMaxSizeMiB)
	setDefault(&c.Status.StatusHost, c.Host)
	if strings.EqualFold(c.Security.SecureFilePriv, "NULL") {
		c.Security.SecureFilePriv = ""
	}
	if c.TempDir == "" && c.Path != "" && c.Store == StorePebble {
		c.TempDir = filepath.Join(c.Path, tempDirName)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate checks the settings after EnsureDefaults and lists every problem at
// once.
func (c *Config) Validate() error {
	var p problems
	c.validateStore(&p)
	p.port("port", c.Port)
	p.port("status.status-port", c.Status.StatusPort)
	if c.Status.ReportStatus && c.Port != 0 && c.Port == c.Status.StatusPort && c.Host == c.Status.StatusHost {
		p.add("port and status.status-port are both %d", c.Port)
	}
	if c.MemoryLimit != 0 && c.MemoryLimit < memory.Least {
		p.add("memory-limit %s is less than %s", c.MemoryLimit, ByteSize(memory.Least))
	}
	if c.ShutdownTimeout < 0 {
		p.add("shutdown-timeout %s is negative", c.ShutdownTimeout)
	}
	c.Log.validate(&p)
	c.Security.validate(&p)
	return p.err()
}

func (c *Config) validateStore(p *problems) {
	switch c.Store {
	case StorePebble:
		if c.Path == "" {
			p.add("path is not set: name the folder of the store with --path")
		}
	case StoreTiKV:
		p.add(`store "tikv": this build has no TiKV driver, only "pebble"`)
	default:
		p.add(`store %q is not known; it can be "pebble"`, c.Store)
	}
	if c.Pebble.CacheSize < 0 {
		p.add("pebble.cache-size %d is negative", c.Pebble.CacheSize)
	}
}

func (l *Log) validate(p *problems) {
	p.oneOf("log.level", l.Level, "debug", "info", "warn", "error")
	p.oneOf("log.format", l.Format, "text", "json")
	if l.SlowThreshold < 0 {
		p.add("log.slow-threshold %d is negative", l.SlowThreshold)
	}
	if l.File.MaxSize < 0 || l.File.MaxDays < 0 || l.File.MaxBackups < 0 {
		p.add("log.file: max-size, max-days and max-backups must not be negative")
	}
}

func (s *Security) validate(p *problems) {
	if (s.SSLCert == "") != (s.SSLKey == "") {
		p.add("security: ssl-cert and ssl-key must be set together")
	}
	if s.SSLCert == "" && s.SSLCA != "" {
		p.add("security: ssl-ca needs ssl-cert and ssl-key")
	}
	if s.SSLCert == "" && s.RequireSecureTransport {
		p.add("security: require-secure-transport needs ssl-cert and ssl-key")
	}
	if s.SecureFilePriv != "" {
		if info, err := os.Stat(s.SecureFilePriv); err != nil {
			p.add("security.secure-file-priv: %v", err)
		} else if !info.IsDir() {
			p.add("security.secure-file-priv: %s is not a folder", s.SecureFilePriv)
		}
	}
	for _, f := range []string{s.SSLCert, s.SSLKey, s.SSLCA} {
		if f == "" {
			continue
		}
		if _, err := os.Stat(f); err != nil {
			p.add("security: %v", err)
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

package config

import (
	"path/filepath"
	"strings"
	"time"
)

// The drivers that Config.Store may name.
const (
	StorePebble = "pebble"
	StoreTiKV   = "tikv"
)

// Config is what an operator can set of a server when it starts. It is the
// image of the TOML file; where TiDB has the same setting, the key has the same
// name. Start from [Default]: it has the defaults of numbers and booleans, whose
// zero is a value of its own.
type Config struct {
	// Host is the address the MySQL listener binds to; default 127.0.0.1.
	Host string `toml:"host"`
	// Port is the MySQL port; 0 takes a free one.
	Port int `toml:"port"`
	// Socket is the file of a Unix socket that clients may use as well; empty
	// for none.
	Socket string `toml:"socket"`
	// AdvertiseAddress is the address under which other servers of a cluster
	// reach this one; default is Host.
	AdvertiseAddress string `toml:"advertise-address"`
	// Store is the storage driver: "pebble", the default, or "tikv".
	Store string `toml:"store"`
	// Path is the folder of the embedded store, or the comma-separated addresses
	// of the PD servers of a cluster.
	Path string `toml:"path"`
	// TempDir is where index builds and large queries put temporary files, each
	// server in a folder of its own inside; default is the folder "tmp" inside
	// Path. It should lie on the store's file system: finished files are then
	// linked into the store, not copied.
	TempDir string `toml:"temp-dir"`
	// MemoryLimit is how much memory the process may use, in bytes; 0 is three
	// quarters of the machine's. internal/memory divides it.
	MemoryLimit ByteSize `toml:"memory-limit"`
	// MaxConnections is the number of clients at a time, as long as the variable
	// max_connections does not say otherwise; 0 is half of the file descriptors
	// that the process may have, at most 16384.
	MaxConnections int `toml:"max-connections"`
	// ShutdownTimeout is how long statements and transactions may run on after
	// the server was asked to stop, before they are ended; 0 ends them at once.
	// Default 10s.
	ShutdownTimeout Duration `toml:"shutdown-timeout"`

	Log      Log      `toml:"log"`
	Status   Status   `toml:"status"`
	Security Security `toml:"security"`
	Pebble   Pebble   `toml:"pebble"`

	// TiDB holds settings of TiDB's own configuration file, for which there is
	// none above, under their names there.
	TiDB map[string]any `toml:"tidb"`
}

// Log says what is logged, how, and where.
type Log struct {
	// Level is the lowest level that is logged: debug, info, warn or error;
	// default info.
	Level string `toml:"level"`
	// Format is text, which is TiDB's unified log format, or json; default text.
	Format string `toml:"format"`
	// SlowQueryFile receives the slow statements, in TiDB's format. Default is
	// "slow.log" beside the log file or, without one, in Path; beside a cluster,
	// in the working folder.
	SlowQueryFile string `toml:"slow-query-file"`
	// SlowThreshold is the time in milliseconds above which a statement is
	// slow, as long as the variable tidb_slow_log_threshold does not say
	// otherwise; 0 logs none. Default 300.
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

// Status is the HTTP server for metrics, health, profiles and TiDB's HTTP API.
type Status struct {
	// ReportStatus switches the HTTP server on; default true.
	ReportStatus bool `toml:"report-status"`
	// StatusHost is the address it binds to; default is Config.Host.
	StatusHost string `toml:"status-host"`
	// StatusPort is its port; 0 takes a free one. Default 10080.
	StatusPort int `toml:"status-port"`
	// EnableDebug serves profiles and TiDB's HTTP API, which shows rows and changes
	// settings, without a login. Without it they need an account of the database
	// that has SUPER and SELECT on *.*, by HTTP Basic authentication over TLS or
	// from this machine. Of the embedded store it also serves gRPC to other machines.
	EnableDebug bool `toml:"enable-debug"`
	// AllowedHosts are names by which clients may call the HTTP server, beside
	// addresses, localhost, the machine's own name and those that Host, StatusHost
	// and AdvertiseAddress say.
	AllowedHosts []string `toml:"allowed-hosts"`
}

// Security holds the certificates of the MySQL listener, and what clients may
// reach through the server.
type Security struct {
	// AutoTLS makes a certificate of its own, signed by no authority, where SSLCert is empty, so
	// that clients may use TLS; it stays in the folder tls of Path, of TempDir
	// beside a cluster. Default true.
	AutoTLS bool `toml:"auto-tls"`
	// SSLCert and SSLKey are PEM files; both or none. With them, clients may
	// use TLS.
	SSLCert string `toml:"ssl-cert"`
	SSLKey  string `toml:"ssl-key"`
	// SSLCA is a PEM file of authorities; client certificates, if given, must
	// be signed by one of them. Clients must give one if secure transport was
	// required when the files were read: that is TiDB's rule.
	SSLCA string `toml:"ssl-ca"`
	// RequireSecureTransport refuses clients without TLS.
	RequireSecureTransport bool `toml:"require-secure-transport"`
	// SecureFilePriv is the folder that SELECT INTO OUTFILE and IMPORT INTO are
	// confined to. Empty or NULL, as by default, they cannot reach files of the
	// server at all; LOAD DATA LOCAL needs no permission.
	SecureFilePriv string `toml:"secure-file-priv"`
}

// Pebble tunes the embedded store.
type Pebble struct {
	// Sync makes a commit wait until it is on disk; default true. Without it the
	// end of the process or of the machine may lose the last commits, never part
	// of one.
	Sync bool `toml:"sync"`
	// CacheSize is the block cache in bytes; 0 is a share of the memory limit.
	CacheSize ByteSize `toml:"cache-size"`
	// AllowDamagedLog opens a store whose log is damaged before its end, without
	// what lies behind the damage; the log is kept in the folder "damaged-logs".
	AllowDamagedLog bool `toml:"allow-damaged-log"`
}

const (
	defaultHost            = "127.0.0.1"
	defaultPort            = 4000
	defaultStatusPort      = 10080
	defaultShutdownTimeout = Duration(10 * time.Second)
	defaultSlowThreshold   = 300
	defaultLogMaxSizeMiB   = 300
	tempDirName            = "tmp"
	slowLogName            = "slow.log"
)

// Default returns the configuration of a server without any setting, except
// for the settings that EnsureDefaults derives from others.
func Default() Config {
	return Config{
		Port:            defaultPort,
		ShutdownTimeout: defaultShutdownTimeout,
		Log:             Log{SlowThreshold: defaultSlowThreshold, File: LogFile{MaxSize: defaultLogMaxSizeMiB}},
		Status:          Status{ReportStatus: true, StatusPort: defaultStatusPort},
		Security:        Security{AutoTLS: true},
		Pebble:          Pebble{Sync: true},
	}
}

// EnsureDefaults fills in the texts that are empty and have a default.
func (c *Config) EnsureDefaults() {
	setDefault(&c.Host, defaultHost)
	setDefault(&c.AdvertiseAddress, c.Host)
	setDefault(&c.Store, StorePebble)
	setDefault(&c.Log.Level, "info")
	setDefault(&c.Log.Format, "text")
	setDefault(&c.Log.SlowQueryFile, c.slowQueryFile())
	setDefault(&c.Status.StatusHost, c.Host)
	if strings.EqualFold(c.Security.SecureFilePriv, "NULL") {
		c.Security.SecureFilePriv = ""
	}
	if c.TempDir == "" && c.Path != "" && c.Store == StorePebble {
		c.TempDir = filepath.Join(c.Path, tempDirName)
	}
}

// slowQueryFile is where slow statements are logged by default.
func (c *Config) slowQueryFile() string {
	switch {
	case c.Log.File.Filename != "":
		return filepath.Join(filepath.Dir(c.Log.File.Filename), slowLogName)
	case c.Store == StorePebble:
		return filepath.Join(c.Path, slowLogName)
	}
	return slowLogName
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

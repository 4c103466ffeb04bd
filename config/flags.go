package config

import "github.com/spf13/pflag"

// Flags are the command-line flags of a server. A flag that is given overrides
// the configuration file.
type Flags struct {
	set    *pflag.FlagSet
	file   string
	values Config
	apply  map[string]func(dst, src *Config)
	// plainLog says that neither a flag nor the file has a setting of the log.
	plainLog bool
}

// PlainLog reports whether the configuration that was loaded has no setting of what is logged, how or where.
func (f *Flags) PlainLog() bool { return f.plainLog }

// BindFlags defines the flags in set. They take TiDB's names.
func BindFlags(set *pflag.FlagSet) *Flags {
	f := &Flags{set: set, values: Default(), apply: make(map[string]func(dst, src *Config))}
	v := &f.values

	set.StringVar(&f.file, "config", "", "configuration `FILE` (TOML); flags override it")
	set.StringVar(&v.Store, "store", StorePebble, "storage `DRIVER`: pebble, the embedded store, or tikv, an existing cluster")
	f.apply["store"] = func(d, s *Config) { d.Store = s.Store }
	set.StringVar(&v.Path, "path", "", "`FOLDER` of the store, created if it does not exist; or the PD servers of a cluster")
	f.apply["path"] = func(d, s *Config) { d.Path = s.Path }
	set.StringVar(&v.TempDir, "temp-dir", "", "`FOLDER` of temporary files (default PATH/"+tempDirName+"; none with --store tikv, which needs one)")
	f.apply["temp-dir"] = func(d, s *Config) { d.TempDir = s.TempDir }
	set.Var(&v.MemoryLimit, "memory-limit", "`SIZE` of the memory that the process may use (default: three quarters of the machine's)")
	f.apply["memory-limit"] = func(d, s *Config) { d.MemoryLimit = s.MemoryLimit }
	set.StringVar(&v.Host, "host", defaultHost, "`ADDRESS` of the MySQL listener")
	f.apply["host"] = func(d, s *Config) { d.Host = s.Host }
	set.IntVarP(&v.Port, "port", "P", defaultPort, "`PORT` of the MySQL listener; 0 takes a free one")
	f.apply["port"] = func(d, s *Config) { d.Port = s.Port }
	set.StringVar(&v.Socket, "socket", "", "Unix socket `FILE` for local clients (default: none)")
	f.apply["socket"] = func(d, s *Config) { d.Socket = s.Socket }
	set.StringVar(&v.AdvertiseAddress, "advertise-address", "", "`ADDRESS` for the other servers of a cluster (default: as --host)")
	f.apply["advertise-address"] = func(d, s *Config) { d.AdvertiseAddress = s.AdvertiseAddress }
	set.BoolVar(&v.Status.ReportStatus, "report-status", true, "serve metrics, health and profiles over HTTP")
	f.apply["report-status"] = func(d, s *Config) { d.Status.ReportStatus = s.Status.ReportStatus }
	set.StringVar(&v.Status.StatusHost, "status-host", "", "`ADDRESS` of the HTTP status server (default: as --host)")
	f.apply["status-host"] = func(d, s *Config) { d.Status.StatusHost = s.Status.StatusHost }
	set.IntVar(&v.Status.StatusPort, "status-port", defaultStatusPort, "`PORT` of the HTTP status server; 0 takes a free one")
	f.apply["status-port"] = func(d, s *Config) { d.Status.StatusPort = s.Status.StatusPort }
	set.StringVarP(&v.Log.Level, "log-level", "L", "info", "lowest `LEVEL` that is logged: debug, info, warn, error")
	f.apply["log-level"] = func(d, s *Config) { d.Log.Level = s.Log.Level }
	set.StringVar(&v.Log.Format, "log-format", "text", "`FORMAT` of log lines: text, json")
	f.apply["log-format"] = func(d, s *Config) { d.Log.Format = s.Log.Format }
	set.StringVar(&v.Log.File.Filename, "log-file", "", "log `FILE` (default: standard error)")
	f.apply["log-file"] = func(d, s *Config) { d.Log.File.Filename = s.Log.File.Filename }
	set.StringVar(&v.Security.SecureFilePriv, "secure-file-priv", "", "`FOLDER` in which statements may read and write files of the server (default: nowhere)")
	f.apply["secure-file-priv"] = func(d, s *Config) { d.Security.SecureFilePriv = s.Security.SecureFilePriv }
	set.Var(&v.ShutdownTimeout, "shutdown-timeout", "how long statements may run on after the signal to stop; 0s ends them at once")
	f.apply["shutdown-timeout"] = func(d, s *Config) { d.ShutdownTimeout = s.ShutdownTimeout }
	return f
}

// Load reads the configuration file, if one was named, puts the given flags
// over it, fills in defaults and validates the result.
func (f *Flags) Load() (Config, error) {
	c := Default()
	if f.file != "" {
		var err error
		if c, err = Load(f.file); err != nil {
			return Config{}, err
		}
	}
	f.set.Visit(func(flag *pflag.Flag) {
		if apply, ok := f.apply[flag.Name]; ok {
			apply(&c, &f.values)
		}
	})
	f.plainLog = c.Log.Level == "" && c.Log.Format == "" && c.Log.File.Filename == ""
	c.EnsureDefaults()
	if err := c.Validate(); err != nil {
		return Config{}, err
	}
	return c, nil
}

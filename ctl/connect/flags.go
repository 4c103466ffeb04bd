package connect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// Flags are the options of a command line.
type Flags struct {
	given                                      []setting
	defaultsFile, extraFile, suffix, loginPath string
	noDefaults                                 bool
}

// Environment is what options depend on beside the command line.
type Environment struct {
	// Getenv returns a variable, empty if it is not set.
	Getenv func(string) string
	// Home is the folder of the user; empty if there is none.
	Home string
	// Warn receives what is passed over.
	Warn func(string)
	// ReadPassword asks for a password.
	ReadPassword func() (string, error)
}

// value is an option on the command line.
type value struct {
	def   *definition
	flags *Flags
}

// String implements pflag.Value.
func (v *value) String() string { return "" }

// Set implements pflag.Value. It refuses a value that the option cannot have.
func (v *value) Set(text string) error {
	s := setting{name: v.def.name, value: text}
	if err := v.def.apply(&draft{}, s); err != nil {
		return err
	}
	v.flags.given = append(v.flags.given, s)
	return nil
}

// Type implements pflag.Value.
func (v *value) Type() string { return v.def.argument }

// Bind defines the options in set.
func Bind(set *pflag.FlagSet) *Flags {
	f := &Flags{}
	for i := range definitions {
		def := &definitions[i]
		added := set.VarPF(&value{def, f}, def.name, def.short, def.usage)
		added.NoOptDefVal = def.optional
	}
	set.StringVar(&f.defaultsFile, "defaults-file", "", "read options from this `FILE` only")
	set.StringVar(&f.extraFile, "defaults-extra-file", "", "read options from this `FILE` before ~/.my.cnf")
	set.StringVar(&f.suffix, "defaults-group-suffix", "", "read the groups [client`TEXT`] and [mysqlTEXT] too")
	set.BoolVar(&f.noDefaults, "no-defaults", false, "read no option files")
	set.StringVar(&f.loginPath, "login-path", "", "not supported")
	_ = set.MarkHidden("login-path") // it exists
	for _, name := range []string{askOption, "ssl", "ssl-verify-server-cert"} {
		_ = set.MarkHidden(name)
	}
	return f
}

// Args returns the arguments of a command line in a form that pflag reads as the mysql client reads them: -pPASSWORD is a password,
// -p without one asks for it, --skip-ssl is --ssl=0.
func Args(args []string) []string {
	out := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		switch {
		case i > 0 && takesNext(args[i-1]):
		case arg == "-p" || arg == "--password":
			arg = "--" + askOption
		case arg == "--skip-ssl":
			arg = "--ssl=0"
		case strings.HasPrefix(arg, "-p"):
			arg = "--password=" + arg[2:]
		}
		out = append(out, arg)
	}
	return out
}

// takesNext reports whether an argument is an option whose value is the next one.
func takesNext(arg string) bool {
	for i := range definitions {
		if d := &definitions[i]; d.optional == "" && d.name != "password" && (d.short != "" && arg == "-"+d.short || arg == "--"+d.name) {
			return true
		}
	}
	return false
}

// Resolve returns the options: of the environment, over them those of option files, over them those of the command line.
func (f *Flags) Resolve(env Environment) (Options, error) {
	if f.loginPath != "" {
		return Options{}, errors.New("--login-path is not supported: use an option file")
	}
	d := &draft{Options: Options{Port: defaultPort, User: defaultUser, Timeout: defaultTimeout}}
	for name, variable := range map[string]string{"host": "MYSQL_HOST", "port": "MYSQL_TCP_PORT", "socket": "MYSQL_UNIX_PORT", "password": "MYSQL_PWD"} {
		if text := env.Getenv(variable); text != "" {
			if err := lookup(name).apply(d, setting{name: name, value: text, where: "$" + variable}); err != nil {
				return Options{}, fmt.Errorf("$%s: %w", variable, err)
			}
		}
	}
	settings, err := f.readFiles(env)
	if err != nil {
		return Options{}, err
	}
	for _, s := range settings {
		if err := d.applyFile(s); err != nil {
			return Options{}, err
		}
	}
	for _, s := range f.given {
		if err := lookup(s.name).apply(d, s); err != nil {
			return Options{}, fmt.Errorf("--%s: %w", s.name, err)
		}
	}
	o, err := d.finish()
	if err == nil && d.askPassword {
		if o.Password, err = env.ReadPassword(); err != nil {
			err = fmt.Errorf("read the password: %w", err)
		}
	}
	return o, err
}

// readFiles reads the option files.
func (f *Flags) readFiles(env Environment) ([]setting, error) {
	if f.noDefaults {
		return nil, nil
	}
	groups := []string{"client", "mysql", "fastddl"}
	for _, suffix := range []string{env.Getenv("MYSQL_GROUP_SUFFIX"), f.suffix} {
		if suffix != "" {
			groups = append(groups, "client"+suffix, "mysql"+suffix, "fastddl"+suffix)
		}
	}
	files := &optionFiles{groups: groups, warn: env.Warn}
	if f.defaultsFile != "" {
		if err := files.read(f.defaultsFile); err != nil {
			return nil, fmt.Errorf("--defaults-file: %w", err)
		}
		return files.settings, nil
	}
	if f.extraFile != "" {
		if err := files.read(f.extraFile); err != nil {
			return nil, fmt.Errorf("--defaults-extra-file: %w", err)
		}
	}
	if env.Home == "" {
		return files.settings, nil
	}
	file := filepath.Join(env.Home, ".my.cnf")
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return files.settings, nil
	}
	if err := files.read(file); err != nil {
		return nil, err
	}
	return files.settings, nil
}

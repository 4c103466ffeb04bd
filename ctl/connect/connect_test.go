package connect_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"fastddl/ctl/connect"
)

// environment is one with a home folder, variables, and a password that is typed.
type environment struct {
	t         *testing.T
	home      string
	variables map[string]string
	warnings  []string
	asked     int
}

func newEnvironment(t *testing.T) *environment {
	return &environment{t: t, home: t.TempDir(), variables: map[string]string{}}
}

// write writes a file below the home folder and returns its path.
func (e *environment) write(name, text string) string {
	file := filepath.Join(e.home, name)
	require.NoError(e.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// resolve returns the options of a command line.
func (e *environment) resolve(args ...string) (connect.Options, error) {
	set := pflag.NewFlagSet("ctl", pflag.ContinueOnError)
	flags := connect.Bind(set)
	if err := set.Parse(connect.Args(args)); err != nil {
		return connect.Options{}, err
	}
	return flags.Resolve(connect.Environment{
		Getenv: func(name string) string { return e.variables[name] }, Home: e.home,
		Warn:         func(text string) { e.warnings = append(e.warnings, text) },
		ReadPassword: func() (string, error) { e.asked++; return "typed", nil },
	})
}

func (e *environment) must(args ...string) *connect.Options {
	e.t.Helper()
	o, err := e.resolve(args...)
	require.NoError(e.t, err)
	return &o
}

// TestOptionsAreThoseOfTheMysqlClient: files stand above the environment, the command line above files.
func TestOptionsAreThoseOfTheMysqlClient(t *testing.T) {
	e := newEnvironment(t)
	o := e.must()
	require.Equal(t, connect.Options{Host: "127.0.0.1", Port: 4000, User: "root", Mode: connect.Preferred, Timeout: 10 * time.Second}, *o)
	require.Equal(t, "127.0.0.1:4000", o.Addr())

	e.variables = map[string]string{"MYSQL_PWD": "variable", "MYSQL_TCP_PORT": "5", "MYSQL_HOST": "h0"}
	e.write(".my.cnf", "[mysqld]\nport=1\n[client]\nuser=u1\nport = 6\n[mysql]\ndatabase=d1\nprompt=x\nno-auto-rehash\n[fastddl]\nport=7\n")
	o = e.must("-ucli", "-D", "d2")
	require.Equal(t, []any{"h0", 7, "cli", "variable", "d2"}, []any{o.Host, o.Port, o.User, o.Password, o.Database})

	extra := e.write("extra.cnf", "[client]\nhost=h2\nport=8\n[clientstaging]\nhost=h3\n")
	o = e.must("--defaults-extra-file", extra)
	require.Equal(t, []any{"h2", 7}, []any{o.Host, o.Port}, "~/.my.cnf is read after it")
	o = e.must("--defaults-file", extra, "--defaults-group-suffix=staging", "-h", "h4", "-P9")
	require.Equal(t, []any{"h4", 9, "root"}, []any{o.Host, o.Port, o.User}, "of the other file nothing")
	require.Equal(t, "h3", e.must("--defaults-file", extra, "--defaults-group-suffix=staging").Host)
	require.Equal(t, "root", e.must("--no-defaults").User)
}

// TestPasswords: a value follows -p without a space, -p alone asks, an empty one is a password.
func TestPasswords(t *testing.T) {
	e := newEnvironment(t)
	e.write(".my.cnf", "[client]\npassword='of # file'\n")
	require.Equal(t, "of # file", e.must().Password)
	require.Equal(t, "secret", e.must("-psecret").Password)
	require.Equal(t, "a=b", e.must("-pa=b").Password)
	require.Equal(t, "x", e.must("--password=x").Password)
	require.Empty(t, e.must("--password=").Password)
	require.Zero(t, e.asked)
	for _, args := range [][]string{{"-p"}, {"--password"}, {"-u", "u", "-p", "-D", "d"}} {
		before := e.asked
		require.Equal(t, "typed", e.must(args...).Password)
		require.Equal(t, before+1, e.asked)
	}
	require.Equal(t, "-pinky", e.must("-u", "-pinky").User, "the value of another option")
	require.Equal(t, []string{"--", "-pure"}, connect.Args([]string{"--", "-pure"}), "what follows -- is no option")
	e.write(".my.cnf", "[client]\npassword\n")
	require.Equal(t, "typed", e.must().Password)
}

// TestSocketsAndPorts: a port of the command line is not passed over for a socket of an option file.
func TestSocketsAndPorts(t *testing.T) {
	e := newEnvironment(t)
	e.write(".my.cnf", "[client]\nsocket=/run/db.sock\n")
	require.Equal(t, "/run/db.sock", e.must().Addr())
	require.Equal(t, "/run/db.sock", e.must("-h", "localhost").Addr())
	require.Equal(t, "127.0.0.1:4001", e.must("-P", "4001").Addr())
	require.Equal(t, "db1:4000", e.must("-h", "db1").Addr())
	require.Equal(t, "127.0.0.1:4000", e.must("--protocol=tcp").Addr())
	require.Equal(t, "/other", e.must("-P", "4001", "-S", "/other").Addr())
	e.write(".my.cnf", "")
	_, err := e.resolve("--protocol=socket")
	require.ErrorContains(t, err, "--socket is not given")
}

// TestTLSIsAsSafeAsWasAskedFor: with an authority the certificate is verified, and what is not supported is refused.
func TestTLSIsAsSafeAsWasAskedFor(t *testing.T) {
	e := newEnvironment(t)
	for _, tc := range []struct {
		file string
		args []string
		want connect.Mode
	}{
		{"", []string{"--ssl-mode=required"}, connect.Required},
		{"", []string{"--ssl-mode", "Verify-Identity"}, connect.VerifyIdentity},
		{"", []string{"--ssl-ca=ca.pem"}, connect.VerifyCA},
		{"", []string{"--ssl"}, connect.Required},
		{"", []string{"--skip-ssl"}, connect.Disabled},
		{"", []string{"--ssl-verify-server-cert", "--ssl-ca=x"}, connect.VerifyIdentity},
		{"ssl_mode=REQUIRED", nil, connect.Required},
		{"skip-ssl", nil, connect.Disabled},
		{"ssl", nil, connect.Required},
		{"disable-ssl-verify-server-cert", nil, connect.Preferred},
		{"loose-ssl-verify-server-cert=ON", nil, connect.VerifyIdentity},
		{"ssl-mode=DISABLED", []string{"--ssl-mode=VERIFY_IDENTITY"}, connect.VerifyIdentity},
	} {
		e.write(".my.cnf", "[client]\n"+tc.file+"\n")
		require.Equal(t, tc.want, e.must(tc.args...).Mode, "%s %v", tc.file, tc.args)
	}
	for file, want := range map[string]string{
		"ssl-cipher=x": "line 2: option ssl-cipher is not supported", "tls-version=TLSv1.3": "option tls-version is not supported",
		"ssl-mode=maybe": `"maybe" is none of`, "ssl-mode": "option ssl-mode has no value", "ssl-cert=x": "ssl-cert and ssl-key must be given together",
		"ssl-mode=verify_ca": "needs --ssl-ca", "port=x": `"x" is not a port`, "ssl=maybe": "neither 1 nor 0",
	} {
		e.write(".my.cnf", "[client]\n"+file+"\n")
		_, err := e.resolve()
		require.ErrorContains(t, err, want)
	}
	e.write(".my.cnf", "")
	for _, args := range [][]string{{"--ssl-mode=maybe"}, {"-P", "0"}, {"-P", "70000"}, {"--connect-timeout=soon"}, {"--protocol=pipe"}, {"--login-path=x"}, {"--tls-version=1"}} {
		_, err := e.resolve(args...)
		require.Error(t, err, "%v", args)
	}
}

// TestLoginPathIsRefusedInWords: MySQL's own format of passwords is not read.
func TestLoginPathIsRefusedInWords(t *testing.T) {
	_, err := newEnvironment(t).resolve("--login-path=prod")
	require.ErrorContains(t, err, "--login-path is not supported: use an option file")
}

// TestOptionFilesThatCannotBeRead: one that was named must be there; ~/.my.cnf need not.
func TestOptionFilesThatCannotBeRead(t *testing.T) {
	e := newEnvironment(t)
	for _, option := range []string{"--defaults-file", "--defaults-extra-file"} {
		_, err := e.resolve(option, "/no/such.cnf")
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	require.NoError(t, os.Mkdir(filepath.Join(e.home, ".my.cnf"), 0o700))
	_, err := e.resolve()
	require.ErrorContains(t, err, "no regular file")
}

package connect

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Mode is how TLS is used, as the mysql client's --ssl-mode says.
type Mode string

// The modes of TLS.
const (
	Disabled       Mode = "DISABLED"
	Preferred      Mode = "PREFERRED"
	Required       Mode = "REQUIRED"
	VerifyCA       Mode = "VERIFY_CA"
	VerifyIdentity Mode = "VERIFY_IDENTITY"
)

const (
	defaultHost    = "127.0.0.1"
	defaultPort    = 4000
	defaultUser    = "root"
	defaultTimeout = 10 * time.Second

	protocolTCP    = "TCP"
	protocolSocket = "SOCKET"
)

// Options say which server to connect to, as whom, and how.
type Options struct {
	// Host and Port are those of TCP.
	Host string
	Port int
	// Socket is the file of a Unix socket; empty for TCP.
	Socket         string
	User, Password string
	// Database is the default database; empty for none.
	Database string
	// Mode is how TLS is used. CA, Cert and Key are PEM files, or empty.
	Mode          Mode
	CA, Cert, Key string
	// Timeout bounds the making of a connection.
	Timeout time.Duration
}

// Addr returns HOST:PORT or the socket, for people.
func (o *Options) Addr() string {
	if o.Socket != "" {
		return o.Socket
	}
	return joinHostPort(o.Host, o.Port)
}

// draft is Options while settings are applied in the order of their precedence.
type draft struct {
	Options
	protocol string
	// askPassword says that the password is to be read from the terminal.
	askPassword bool
	// ssl and verify are MariaDB's --ssl and --ssl-verify-server-cert, nil if not given.
	ssl, verify *bool
	// portGiven and socketGiven say that the command line has the option.
	portGiven, socketGiven bool
}

// definition is an option of the mysql client.
type definition struct {
	name, short, argument, usage string
	// optional is the value of the option without one on the command line; empty if it must have one.
	optional string
	apply    func(d *draft, s setting) error
}

func text(field func(d *draft) *string) func(*draft, setting) error {
	return func(d *draft, s setting) error {
		*field(d) = s.value
		return nil
	}
}

// askOption is what --password without a value becomes: pflag has no values that may be left out and are not shown in its help.
const askOption = "ask-password"

// definitions are all options, by name.
var definitions = []definition{
	{name: "host", short: "h", argument: "ADDRESS", usage: "address of the server (default 127.0.0.1)", apply: text(func(d *draft) *string { return &d.Host })},
	{name: "port", short: "P", argument: "PORT", usage: "port of the server (default 4000)", apply: func(d *draft, s setting) error {
		port, err := strconv.ParseUint(s.value, 10, 16)
		if err != nil || port == 0 {
			return fmt.Errorf("%q is not a port", s.value)
		}
		d.Port, d.portGiven = int(port), s.where == ""
		return nil
	}},
	{name: "user", short: "u", argument: "ACCOUNT", usage: "account (default root)", apply: text(func(d *draft) *string { return &d.User })},
	{name: "password", short: "p", argument: "PASSWORD", usage: "password; asked for without a value, which follows -p without a space (default: $MYSQL_PWD)", apply: func(d *draft, s setting) error {
		d.Password, d.askPassword = s.value, s.bare
		return nil
	}},
	{name: askOption, argument: "BOOL", usage: "as --password without a value", optional: "1", apply: func(d *draft, _ setting) error {
		d.Password, d.askPassword = "", true
		return nil
	}},
	{name: "socket", short: "S", argument: "FILE", usage: "Unix socket of the server", apply: func(d *draft, s setting) error {
		d.Socket, d.socketGiven = s.value, s.where == ""
		return nil
	}},
	{name: "database", short: "D", argument: "DATABASE", usage: "default database", apply: text(func(d *draft) *string { return &d.Database })},
	{name: "protocol", argument: "PROTOCOL", usage: "tcp or socket (default: socket if there is one, else tcp)", apply: func(d *draft, s setting) error {
		switch d.protocol = strings.ToUpper(s.value); d.protocol {
		case protocolTCP, protocolSocket:
			return nil
		}
		return fmt.Errorf("%q is neither tcp nor socket", s.value)
	}},
	{name: "ssl-mode", argument: "MODE", usage: "disabled, preferred, required, verify_ca or verify_identity (default preferred)", apply: func(d *draft, s setting) error {
		switch mode := Mode(strings.ReplaceAll(strings.ToUpper(s.value), "-", "_")); mode {
		case Disabled, Preferred, Required, VerifyCA, VerifyIdentity:
			d.Mode = mode
			return nil
		}
		return fmt.Errorf("%q is none of disabled, preferred, required, verify_ca, verify_identity", s.value)
	}},
	{name: "ssl-ca", argument: "FILE", usage: "PEM file of the authorities that sign servers' certificates", apply: text(func(d *draft) *string { return &d.CA })},
	{name: "ssl-cert", argument: "FILE", usage: "PEM file of the client's certificate", apply: text(func(d *draft) *string { return &d.Cert })},
	{name: "ssl-key", argument: "FILE", usage: "PEM file of its key", apply: text(func(d *draft) *string { return &d.Key })},
	{name: "ssl", argument: "BOOL", usage: "as MariaDB's: TLS is required, or not used", optional: "1", apply: flag(func(d *draft) **bool { return &d.ssl })},
	{name: "ssl-verify-server-cert", argument: "BOOL", usage: "as MariaDB's: --ssl-mode=verify_identity", optional: "1", apply: flag(func(d *draft) **bool { return &d.verify })},
	{name: "connect-timeout", argument: "SECONDS", usage: "time in which a connection is made (default 10)", apply: func(d *draft, s setting) error {
		seconds, err := strconv.ParseUint(s.value, 10, 24)
		if err != nil || seconds == 0 {
			return fmt.Errorf("%q is not a number of seconds", s.value)
		}
		d.Timeout = time.Duration(seconds) * time.Second
		return nil
	}},
}

func flag(field func(d *draft) **bool) func(*draft, setting) error {
	return func(d *draft, s setting) error {
		var on bool
		switch strings.ToUpper(s.value) {
		case "1", "ON", "TRUE":
			on = true
		case "0", "OFF", "FALSE":
		default:
			return fmt.Errorf("%q is neither 1 nor 0", s.value)
		}
		*field(d) = &on
		return nil
	}
}

func lookup(name string) *definition {
	for i := range definitions {
		if definitions[i].name == name {
			return &definitions[i]
		}
	}
	return nil
}

// applyFile applies a setting of an option file. Options of the mysql client that are not about the connection have no effect.
func (d *draft) applyFile(s setting) error {
	s.name = strings.ReplaceAll(s.name, "_", "-")
	s.name = strings.TrimPrefix(s.name, "loose-")
	for prefix, value := range map[string]string{"skip-": "0", "disable-": "0", "enable-": "1"} {
		if name, ok := strings.CutPrefix(s.name, prefix); ok && (name == "ssl" || name == "ssl-verify-server-cert") {
			s.name, s.value, s.bare = name, value, false
		}
	}
	def := lookup(s.name)
	switch {
	case def == nil && (strings.HasPrefix(s.name, "ssl") || strings.HasPrefix(s.name, "tls")):
		return fmt.Errorf("%s: option %s is not supported", s.where, s.name)
	case def == nil || s.name == askOption:
		return nil
	case s.bare && s.name == "password":
	case s.bare && def.optional != "":
		s.value, s.bare = def.optional, false
	case s.bare:
		return fmt.Errorf("%s: option %s has no value", s.where, s.name)
	}
	if err := def.apply(d, s); err != nil {
		return fmt.Errorf("%s: option %s: %w", s.where, s.name, err)
	}
	return nil
}

// finish derives what was not given.
func (d *draft) finish() (Options, error) {
	o := d.Options
	switch {
	case d.protocol == protocolSocket && o.Socket == "":
		return Options{}, fmt.Errorf("protocol socket: --socket is not given")
	case d.protocol == protocolTCP, d.protocol == "" && !d.socketGiven && (d.portGiven || o.Host != "" && o.Host != "localhost"):
		o.Socket = ""
	}
	if o.Host == "" {
		o.Host = defaultHost
	}
	if d.verify != nil && *d.verify && o.Mode == "" {
		o.Mode = VerifyIdentity
	}
	if d.ssl != nil && o.Mode == "" {
		if o.Mode = Required; !*d.ssl {
			o.Mode = Disabled
		}
	}
	switch {
	case o.Mode == "" && o.CA != "":
		o.Mode = VerifyCA // as the mysql client
	case o.Mode == "":
		o.Mode = Preferred
	case o.Mode == VerifyCA && o.CA == "":
		return Options{}, fmt.Errorf("ssl-mode verify_ca needs --ssl-ca")
	}
	if (o.Cert == "") != (o.Key == "") {
		return Options{}, fmt.Errorf("ssl-cert and ssl-key must be given together")
	}
	return o, nil
}

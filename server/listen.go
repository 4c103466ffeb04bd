package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"
)

// listen binds a TCP port and listens; 0 is a free one. The settings are those of the host and the port.
func listen(hostSetting, setting, host string, port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, blameSetting(hostSetting, setting, err)
	}
	return l, nil
}

// reservePort keeps a TCP port for a listener to come; 0 is a free one. The settings are those of the host and the port.
func reservePort(hostSetting, setting, host string, port int) (*reservation, error) {
	r, err := reserve(host, port)
	if err != nil {
		return nil, blameSetting(hostSetting, setting, err)
	}
	return r, nil
}

// blameSetting names the setting at fault where an address cannot be taken.
func blameSetting(hostSetting, setting string, err error) error {
	if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.As(err, new(*net.DNSError)) { // not of this machine
		setting = hostSetting
	}
	return fmt.Errorf("%s: %w", setting, err)
}

// errNotListening says that a server ended before it could be reached.
var errNotListening = errors.New("the listener did not start")

const (
	dialInterval = time.Millisecond
	dialTimeout  = 10 * time.Second
)

// awaitListener returns when something accepts connections at addr, or with what
// ended arrives on ended, which is to listen there.
func awaitListener(addr string, ended <-chan error) error {
	deadline := time.Now().Add(dialTimeout)
	for {
		conn, err := net.DialTimeout("tcp", addr, time.Until(deadline))
		if err == nil {
			return awaitGreeting(conn, deadline, ended)
		}
		select {
		case err := <-ended:
			return errors.Join(errNotListening, err)
		case <-time.After(dialInterval):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %w", errNotListening, err)
		}
	}
}

// awaitGreeting reads what a server says first, and closes the connection. A server that
// ends because its second listener cannot start leaves the first one open without
// accepting: then the error arrives on ended.
func awaitGreeting(conn net.Conn, deadline time.Time, ended <-chan error) error {
	greeted := make(chan error, 1)
	go func() { greeted <- readGreeting(conn, deadline) }()
	select {
	case err := <-greeted:
		return errors.Join(err, conn.Close())
	case err := <-ended:
		return errors.Join(errNotListening, err, conn.Close()) // which ends the reading
	}
}

// readGreeting reads the first packet of a server, so that the server takes the end of
// the connection for that of a client that has left.
func readGreeting(conn net.Conn, deadline time.Time) error {
	if err := conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	var header [4]byte // three bytes of length, and a number
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return fmt.Errorf("%w: %w", errNotListening, err)
	}
	length := int64(header[0]) | int64(header[1])<<8 | int64(header[2])<<16
	_, err := io.CopyN(io.Discard, conn, length)
	return err
}

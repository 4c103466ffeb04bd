package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// reservation keeps a TCP address from others while the server opens. The socket is bound and does not listen: the system
// refuses connections, as it does where MySQL or TiDB have not started yet, instead of letting clients wait for a greeting.
type reservation struct {
	addr *net.TCPAddr
	fd   int // -1 once it is released
}

// errReserved ends an attempt to listen after its socket was bound.
var errReserved = errors.New("the address is reserved")

// reserve binds the address; port 0 is a free one. Which address and protocol a host means is left to the net package: a
// copy of the descriptor of the socket that it makes outlives its attempt to listen.
func reserve(host string, port int) (*reservation, error) {
	r := &reservation{fd: -1}
	attempt := net.ListenConfig{Control: func(_, address string, c syscall.RawConn) error {
		var bindErr error
		if err := c.Control(func(fd uintptr) { bindErr = r.bind(int(fd), address) }); err != nil {
			return err
		}
		if bindErr != nil {
			return bindErr
		}
		return errReserved
	}}
	attempt.SetMultipathTCP(false) // where it fails, a second attempt follows
	l, err := attempt.Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	switch {
	case errors.Is(err, errReserved):
		return r, nil
	case err == nil: // the net package asks the function above for each socket
		err = errors.Join(errors.New("the address cannot be reserved"), l.Close())
	}
	r.release()
	return nil, err
}

// bind takes a copy of the descriptor and binds it. SO_REUSEADDR is set, so that connections of an earlier process
// that linger are no obstacle; without it from then on no other process can bind the address.
func (r *reservation) bind(fd int, address string) error {
	to, err := sockaddr(fd, address)
	if err != nil {
		return err
	}
	if r.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		r.fd = -1
		return os.NewSyscallError("fcntl", err)
	}
	if err := syscall.Bind(r.fd, to); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := r.setReuse(0); err != nil {
		return err
	}
	bound, err := syscall.Getsockname(r.fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	switch sa := bound.(type) {
	case *syscall.SockaddrInet4:
		r.addr = &net.TCPAddr{IP: sa.Addr[:], Port: sa.Port}
	case *syscall.SockaddrInet6:
		r.addr = &net.TCPAddr{IP: sa.Addr[:], Port: sa.Port, Zone: zoneName(sa.ZoneId)}
	default:
		return fmt.Errorf("a socket of type %T is none of TCP", bound)
	}
	return nil
}

// share lets a listener of this process have the address, too. At no time can another process take it.
func (r *reservation) share() error { return r.setReuse(1) }

func (r *reservation) setReuse(on int) error {
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(r.fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, on))
}

// release gives the address up. Releasing twice does nothing.
func (r *reservation) release() {
	if r.fd >= 0 {
		_ = syscall.Close(r.fd) // nothing was sent on it
		r.fd = -1
	}
}

// sockaddr is a numeric address as the socket's protocol has it. An IPv6 socket for all addresses takes those of IPv4, too.
func sockaddr(fd int, address string) (syscall.Sockaddr, error) {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	domain, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_DOMAIN)
	if err != nil {
		return nil, os.NewSyscallError("getsockopt", err)
	}
	everywhere := addr.IP == nil || addr.IP.IsUnspecified()
	if domain == syscall.AF_INET {
		sa := &syscall.SockaddrInet4{Port: addr.Port}
		if !everywhere {
			copy(sa.Addr[:], addr.IP.To4())
		}
		return sa, nil
	}
	sa := &syscall.SockaddrInet6{Port: addr.Port}
	if !everywhere {
		copy(sa.Addr[:], addr.IP.To16())
	}
	if addr.Zone != "" {
		iface, err := net.InterfaceByName(addr.Zone)
		if err != nil {
			return nil, err
		}
		sa.ZoneId = uint32(iface.Index)
	}
	return sa, nil
}

func zoneName(id uint32) string {
	if id == 0 {
		return ""
	}
	iface, err := net.InterfaceByIndex(int(id))
	if err != nil {
		return strconv.FormatUint(uint64(id), 10)
	}
	return iface.Name
}

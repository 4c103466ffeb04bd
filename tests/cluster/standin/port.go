package standin

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/soheilhy/cmux"
	"google.golang.org/grpc"
)

// port serves gRPC and HTTP at one address, as PD does.
type port struct {
	// Addr is host:port.
	Addr string

	grpc *grpc.Server
	http *http.Server
	mux  cmux.CMux
	lis  net.Listener
}

// listen takes a free port of this machine, with TLS if it is set. If wrap is not nil,
// connections pass through what it makes of the listener.
func listen(opts Options, wrap func(net.Listener) net.Listener) (lis net.Listener, addr string, err error) {
	lis, err = net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	addr = lis.Addr().String()
	if wrap != nil {
		lis = wrap(lis)
	}
	if opts.TLS != nil {
		lis = tls.NewListener(lis, opts.TLS)
	}
	return lis, addr, nil
}

// serve serves until close.
func (p *port) serve(lis net.Listener, addr string, server *grpc.Server, handler http.Handler) {
	p.lis, p.Addr, p.grpc = lis, addr, server
	p.http = &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	p.mux = cmux.New(lis)
	grpcListener := p.mux.Match(cmux.HTTP2())
	httpListener := p.mux.Match(cmux.Any())
	// The end of each of these is that of its listener.
	go func() { _ = p.http.Serve(httpListener) }()
	go func() { _ = p.grpc.Serve(grpcListener) }()
	go func() { _ = p.mux.Serve() }()
}

func (p *port) close() {
	p.mux.Close()
	_ = p.lis.Close() // the multiplexer may have closed it
	p.grpc.Stop()
	_ = p.http.Close()
}

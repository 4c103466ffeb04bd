package standin

import (
	"context"
	"net"
	"strings"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/meta_storagepb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	rmpb "github.com/pingcap/kvproto/pkg/resource_manager"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"google.golang.org/grpc"
)

// Endpoint is an address of PD, which a SQL server is given as its path. Its users see
// no other one.
type Endpoint struct {
	port
	all      gate // every connection
	etcd     gate // etcd's services
	keyspace string
}

// Path is the address as the path of a SQL server, which names its keyspace.
func (e *Endpoint) Path() string {
	if e.keyspace == "" {
		return e.Addr
	}
	return e.Addr + "?keyspaceName=" + e.keyspace
}

// Cut loses everything that is sent in either direction, until Heal.
func (e *Endpoint) Cut() { e.all.close() }

// CutEtcd holds up all requests to etcd, and etcd's messages, until Heal. Those
// to PD go on: a server that is cut off so loses its leases, but can read and write.
func (e *Endpoint) CutEtcd() { e.etcd.close() }

// Heal undoes Cut and CutEtcd. What was held up is delivered.
func (e *Endpoint) Heal() {
	e.all.open()
	e.etcd.open()
}

// openEndpoint serves PD on one more port.
func (c *Cluster) openEndpoint() (*Endpoint, error) {
	e := &Endpoint{}
	if c.keyspace != nil {
		e.keyspace = c.opts.Keyspaces[0].Name
	}
	lis, addr, err := listen(c.opts, func(l net.Listener) net.Listener { return gatedListener{l, &e.all} })
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if c.opts.TLS != nil {
		scheme = "https"
	}
	self := &pdpb.Member{Name: "pd", MemberId: uint64(c.etcd.Server.ID()), ClientUrls: []string{scheme + "://" + addr}}
	server := v3rpc.Server(c.etcd.Server, nil, e.unary(self), grpc.StatsHandler(&c.pd), grpc.ChainUnaryInterceptor(c.keyspace.unary), grpc.ChainStreamInterceptor(e.stream, c.keyspace.stream))
	pd := c.store.PDClient()
	pdpb.RegisterPDServer(server, &pdService{client: pd, self: self, store: c.tikv.Addr, tso: &c.tso})
	keyspacepb.RegisterKeyspaceServer(server, &keyspaces{client: pd, more: c.opts.Keyspaces})
	meta_storagepb.RegisterMetaStorageServer(server, &metaStorage{client: pd})
	rmpb.RegisterResourceManagerServer(server, &resourceManager{client: pd})
	e.serve(lis, addr, server, c.http.handler(self))
	return e, nil
}

func (e *Endpoint) close() {
	e.Heal()
	e.port.close()
}

// isEtcd reports whether a method is one of etcd's own.
func isEtcd(method string) bool { return strings.HasPrefix(method, "/etcdserverpb.") }

// unary holds requests to etcd up while it is cut off, and shows etcd's client this
// endpoint only: it would go round it otherwise.
func (e *Endpoint) unary(self *pdpb.Member) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if isEtcd(info.FullMethod) && !e.etcd.pass(ctx.Done()) {
			return nil, ctx.Err()
		}
		resp, err := handler(ctx, req)
		if list, ok := resp.(*etcdserverpb.MemberListResponse); ok && err == nil {
			for _, m := range list.Members {
				m.ClientURLs = self.ClientUrls
			}
		}
		return resp, err
	}
}

// stream does the same for leases and watches.
func (e *Endpoint) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if isEtcd(info.FullMethod) {
		stream = gatedStream{stream, &e.etcd}
	}
	return handler(srv, stream)
}

type gatedStream struct {
	grpc.ServerStream
	gate *gate
}

// RecvMsg implements grpc.ServerStream.
func (s gatedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.pass()
}

// SendMsg implements grpc.ServerStream.
func (s gatedStream) SendMsg(m any) error {
	if err := s.pass(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

func (s gatedStream) pass() error {
	if !s.gate.pass(s.Context().Done()) {
		return s.Context().Err()
	}
	return nil
}

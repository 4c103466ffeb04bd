package embedded

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/pingcap/kvproto/pkg/tikvpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// maxMessage is the size of the largest request or answer: a batch of a client's writes is far smaller.
const maxMessage = 1 << 30

// grpcServer serves the store to other processes.
type grpcServer struct {
	mu     sync.Mutex
	server *grpc.Server
}

// grpcService is the service on a network, where what it does not do is answered as such.
type grpcService struct {
	unimplemented
	*service
}

// unimplemented is one level further down than the service, so that the service's methods come first.
type unimplemented struct{ tikvpb.UnimplementedTikvServer }

// ServeGRPC serves TiKV's protocol on lis until StopGRPC is called, and closes lis.
func (s *Store) ServeGRPC(lis net.Listener) error {
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.UnaryInterceptor(s.recoverUnary),
	)
	s.RegisterGRPC(server)
	s.grpc.mu.Lock()
	if s.grpc.server != nil {
		s.grpc.mu.Unlock()
		return errors.New("embedded: the store is served already")
	}
	s.grpc.server = server
	s.grpc.mu.Unlock()
	return server.Serve(lis)
}

// RegisterGRPC adds TiKV's service to a gRPC server of the caller's, who takes care of it: it has to let messages of any
// size pass, to survive panics of requests, and to be stopped before the store is closed. With it comes the health service:
// a client that has lost its connection sends nothing until that answers.
func (s *Store) RegisterGRPC(server *grpc.Server) {
	tikvpb.RegisterTikvServer(server, &grpcService{service: s.service})
	healthpb.RegisterHealthServer(server, health.NewServer())
}

// recoverUnary turns the panic of a request into its error.
func (s *Store) recoverUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("request panicked", zap.String("method", info.FullMethod), zap.Any("panic", p), zap.Stack("stack"))
			err = status.Errorf(codes.Internal, "the request panicked: %v", p)
		}
	}()
	return handler(ctx, req)
}

// StopGRPC ends ServeGRPC. Requests that are under way are cancelled.
func (s *Store) StopGRPC() {
	s.grpc.mu.Lock()
	defer s.grpc.mu.Unlock()
	if s.grpc.server != nil {
		s.grpc.server.Stop()
		s.grpc.server = nil
	}
}

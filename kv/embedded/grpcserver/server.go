package grpcserver

import (
	"context"

	"github.com/pingcap/kvproto/pkg/tikvpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"fastddl/kv/embedded"
)

// maxMessage is the size of the largest request or answer: a batch of a client's writes is far smaller.
const maxMessage = 1 << 30

// service is the service on a network, where what it does not do is answered as such.
type service struct {
	unimplemented
	*embedded.Service
	log *zap.Logger
}

// unimplemented is one level further down than the service, so that the service's methods come first.
type unimplemented struct{ tikvpb.UnimplementedTikvServer }

// New returns a server of TiKV's protocol over the store. It must be stopped before the store is closed; requests that are
// under way are cancelled then.
func New(store *embedded.Store, log *zap.Logger) *grpc.Server {
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.UnaryInterceptor(recoverUnary(log)),
	)
	Register(server, store, log)
	return server
}

// Register adds TiKV's service to a gRPC server of the caller's, who takes care of it: it has to let messages of any
// size pass, to survive panics of requests, and to be stopped before the store is closed. With it comes the health service:
// a client that has lost its connection sends nothing until that answers.
func Register(server *grpc.Server, store *embedded.Store, log *zap.Logger) {
	tikvpb.RegisterTikvServer(server, &service{Service: store.Service(), log: log})
	healthpb.RegisterHealthServer(server, health.NewServer())
}

// recoverUnary turns the panic of a request into its error.
func recoverUnary(log *zap.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if p := recover(); p != nil {
				log.Error("request panicked", zap.String("method", info.FullMethod), zap.Any("panic", p), zap.Stack("stack"))
				err = status.Errorf(codes.Internal, "the request panicked: %v", p)
			}
		}()
		return handler(ctx, req)
	}
}

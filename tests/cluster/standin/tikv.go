package standin

import (
	"context"
	"fmt"
	"math"
	"net/http"

	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fastddl/kv/embedded"
	"fastddl/kv/embedded/grpcserver"
	"fastddl/tests/cluster/importsst"
)

// regionSplitKeys and regionSplitSize are what TiKV says of the size of its regions.
const (
	regionSplitKeys = 960_000
	regionSplitSize = "96MiB"
)

// storeServer serves the store as TiKV: its service, the one for imports, and its
// configuration over HTTP on the same port.
type storeServer struct {
	port
	imports *importsst.Server
	sent    meter
}

func serveStore(store *embedded.Store, faults *Faults, keyspace *keyspace, opts Options) (*storeServer, error) {
	lis, addr, err := listen(opts, nil)
	if err != nil {
		return nil, err
	}
	s := &storeServer{imports: importsst.New(store)}
	server := grpc.NewServer(
		grpc.StatsHandler(&s.sent),
		grpc.MaxRecvMsgSize(math.MaxInt32),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.ChainUnaryInterceptor(contain(opts.Logger), keyspace.unary, faults.unary),
		grpc.ChainStreamInterceptor(keyspace.stream, faults.stream),
	)
	grpcserver.Register(server, store, opts.Logger)
	import_sstpb.RegisterImportSSTServer(server, s.imports)
	s.serve(lis, addr, server, http.HandlerFunc(serveConfig))
	return s, nil
}

// serveConfig answers with what clients want to know of TiKV's configuration.
func serveConfig(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path != "/config" {
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"coprocessor":{"region-split-size":%q,"region-split-keys":%d}}`, regionSplitSize, regionSplitKeys)
}

// contain turns the panic of a request into its error.
func contain(log *zap.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if p := recover(); p != nil {
				log.Error("request panicked", zap.String("method", info.FullMethod), zap.Any("panic", p), zap.Stack("stack"))
				err = status.Error(codes.Internal, fmt.Sprint(p))
			}
		}()
		return handler(ctx, req)
	}
}

package sstimport

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tikv/client-go/v2/config"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// connectTimeout is the least that a connection is given to be made.
const connectTimeout = 5 * time.Second

// A store that writes files may be late with its answer to a ping, which would end all streams
// of the connection; that one does not go on is noticed by Options.CallTimeout. TiDB's
// imports have the same times (pkg/lightning/backend/local).
const keepAliveTime, keepAliveTimeout = 10 * time.Minute, 5 * time.Minute

// Dial connects to a store with the settings of the TiKV client of this process, as
// TiDB's driver has set them: TLS, flow control windows. It does not wait for the
// connection.
func Dial(_ context.Context, addr string) (*grpc.ClientConn, error) {
	cfg := config.GetGlobalConfig()
	creds := insecure.NewCredentials()
	if cfg.Security.ClusterSSLCA != "" {
		tlsConfig, err := cfg.Security.ToTLSConfig()
		if err != nil {
			return nil, fmt.Errorf("sstimport: TLS of the connection to %s: %w", addr, err)
		}
		creds = credentials.NewTLS(tlsConfig)
	}
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(creds),
		grpc.WithInitialWindowSize(cfg.TiKVClient.GrpcInitialWindowSize),
		grpc.WithInitialConnWindowSize(cfg.TiKVClient.GrpcInitialConnWindowSize),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second,
			},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAliveTime, Timeout: keepAliveTimeout}),
	)
	if err != nil {
		return nil, fmt.Errorf("sstimport: connect to %s: %w", addr, err)
	}
	return conn, nil
}

package standin

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// meter counts the bytes that a server sends, as they are on the wire.
type meter struct{ bytes atomic.Int64 }

// TagRPC implements stats.Handler.
func (*meter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (m *meter) HandleRPC(_ context.Context, s stats.RPCStats) {
	if out, ok := s.(*stats.OutPayload); ok {
		m.bytes.Add(int64(out.WireLength))
	}
}

// TagConn implements stats.Handler.
func (*meter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (*meter) HandleConn(context.Context, stats.ConnStats) {}

// Sent is the number of bytes that TiKV has sent to its clients.
func (c *Cluster) Sent() int64 { return c.tikv.sent.bytes.Load() }

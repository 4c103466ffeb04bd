package standin

import (
	"context"
	"maps"
	"sync"

	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc/stats"
)

// meter counts the bytes that a server sends, as they are on the wire, and the messages that it receives.
type meter struct {
	mu       sync.Mutex
	bytes    int64
	messages map[string]int64
}

// methodKey is the context's key of the name of the method.
type methodKey struct{}

// TagRPC implements stats.Handler.
func (*meter) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, methodKey{}, methodName(info.FullMethodName))
}

// HandleRPC implements stats.Handler.
func (m *meter) HandleRPC(ctx context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.OutPayload:
		m.mu.Lock()
		defer m.mu.Unlock()
		m.bytes += int64(s.WireLength)
	case *stats.InPayload:
		batch, ok := s.Payload.(*tikvpb.BatchCommandsRequest)
		if !ok {
			method, _ := ctx.Value(methodKey{}).(string)
			m.received(method)
			return
		}
		for _, req := range batch.Requests {
			command, _ := commandOf(req)
			m.received(command)
		}
	}
}

func (m *meter) received(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.messages == nil {
		m.messages = make(map[string]int64)
	}
	m.messages[name]++
}

// TagConn implements stats.Handler.
func (*meter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (*meter) HandleConn(context.Context, stats.ConnStats) {}

// Sent is the number of bytes that TiKV has sent to its clients.
func (c *Cluster) Sent() int64 {
	c.tikv.sent.mu.Lock()
	defer c.tikv.sent.mu.Unlock()
	return c.tikv.sent.bytes
}

// Received is the number of messages that TiKV has received, by their names in its batches ("Coprocessor") or of its
// methods ("MultiIngest"). Each message of a stream that sends a file counts ("Write").
func (c *Cluster) Received() map[string]int64 { return c.tikv.sent.counts() }

// ReceivedByPD is the number of messages that PD and its etcd have received at all endpoints.
func (c *Cluster) ReceivedByPD() map[string]int64 { return c.pd.counts() }

func (m *meter) counts() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.messages)
}

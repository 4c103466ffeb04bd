package standin

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Fault is what goes wrong with requests to TiKV.
type Fault struct {
	// Commands are the requests that it concerns, by their names in TiKV's batches
	// ("Get", "Prewrite", "Coprocessor") or of its methods ("SplitRegion"); none is all.
	Commands []string
	// Times is how many requests it happens to, and then no more; 0 is all.
	Times int
	// Delay holds a request up before it is answered.
	Delay time.Duration
	// Latency has the answer to a request that is executed come so much later. Unlike a delay
	// it holds up nothing else.
	Latency time.Duration
	// Region, if set, makes the error that a request is answered with instead of being
	// executed.
	Region func(*kvrpcpb.Context) *errorpb.Error
	// Break ends the connection's stream, with all requests on it, or the request.
	Break bool
	// Late has the request executed before it is answered with an error or broken, so that
	// its sender does not know. Batched requests are not executed late.
	Late bool
	// After is how many messages of a stream that sends a file (Write) come through before.
	After int
	// Before, if set, is called before anything else happens.
	Before func()
}

// NotLeader says that the region has no leader at the moment.
func NotLeader(rc *kvrpcpb.Context) *errorpb.Error {
	return &errorpb.Error{Message: "not leader", NotLeader: &errorpb.NotLeader{RegionId: rc.GetRegionId()}}
}

// EpochNotMatch says that the region has changed, and not how.
func EpochNotMatch(*kvrpcpb.Context) *errorpb.Error {
	return &errorpb.Error{Message: "epoch not match", EpochNotMatch: &errorpb.EpochNotMatch{}}
}

// RegionNotFound says that the region is not on the store.
func RegionNotFound(rc *kvrpcpb.Context) *errorpb.Error {
	return &errorpb.Error{Message: "region not found", RegionNotFound: &errorpb.RegionNotFound{RegionId: rc.GetRegionId()}}
}

// ServerIsBusy says that the store has too much to do.
func ServerIsBusy(*kvrpcpb.Context) *errorpb.Error {
	return &errorpb.Error{Message: "server is busy", ServerIsBusy: &errorpb.ServerIsBusy{Reason: "ordered by a test"}}
}

// Faults are the faults that are ordered at the moment.
type Faults struct {
	mu     sync.Mutex
	active []*Injected
}

// Injected is a fault that was ordered.
type Injected struct {
	Fault
	faults *Faults
	hits   int // guarded by faults.mu
}

// Inject orders a fault. Of several that concern a request, the first happens.
func (f *Faults) Inject(fault Fault) *Injected {
	i := &Injected{Fault: fault, faults: f}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = append(f.active, i)
	return i
}

// Hits is how many requests it has happened to.
func (i *Injected) Hits() int {
	i.faults.mu.Lock()
	defer i.faults.mu.Unlock()
	return i.hits
}

// Remove ends the fault. Requests that are held up stay so for their time.
func (i *Injected) Remove() {
	f := i.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = slices.DeleteFunc(f.active, func(a *Injected) bool { return a == i })
}

// take returns the fault that happens to a request, nil if none does.
func (f *Faults) take(command string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.active {
		if (len(i.Commands) == 0 || slices.Contains(i.Commands, command)) && (i.Times == 0 || i.hits < i.Times) {
			i.hits++
			return &i.Fault
		}
	}
	return nil
}

var errBroken = status.Error(codes.Unavailable, "the connection was broken by a test")

// unary makes faults happen to requests that come alone.
func (f *Faults) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	fault := f.take(methodName(info.FullMethod))
	if fault == nil {
		return handler(ctx, req)
	}
	if fault.Before != nil {
		fault.Before()
	}
	if err := pause(ctx, fault.Delay); err != nil {
		return nil, err
	}
	if fault.Late {
		if _, err := handler(ctx, req); err != nil {
			return nil, err
		}
	}
	if fault.Break {
		return nil, errBroken
	}
	if fault.Region != nil {
		if resp := regionErrorOf(methodName(info.FullMethod), fault.Region(contextOf(req))); resp != nil {
			return resp, nil
		}
	}
	resp, err := handler(ctx, req)
	if err := pause(ctx, fault.Latency); err != nil {
		return nil, err
	}
	return resp, err
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stream makes faults happen to requests that come in batches, and to files that are sent.
func (f *Faults) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	switch methodName(info.FullMethod) {
	case "BatchCommands":
		return handler(srv, &faultyBatches{ServerStream: stream, faults: f})
	case "Write":
		if fault := f.take("Write"); fault != nil {
			file := &faultyFile{ServerStream: stream, fault: fault}
			err := handler(srv, file)
			if file.end != nil {
				return file.end
			}
			return err
		}
	}
	return handler(srv, stream)
}

// faultyBatches answers some requests of a stream of batches itself.
type faultyBatches struct {
	grpc.ServerStream
	faults *Faults
	mu     sync.Mutex               // of the senders
	late   map[uint64]time.Duration // latencies of requests, by their ID
}

// RecvMsg implements grpc.ServerStream: it leaves the requests that no fault happens to.
// A delay holds up all that came in the same batch.
func (s *faultyBatches) RecvMsg(m any) error {
	for {
		if err := s.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		batch, ok := m.(*tikvpb.BatchCommandsRequest)
		if !ok {
			return nil
		}
		all := len(batch.Requests)
		if err := s.filter(batch); err != nil {
			return err
		}
		if len(batch.Requests) > 0 || all == 0 {
			return nil
		}
		batch.Reset()
	}
}

// filter takes those requests out of a batch that a fault has answered.
func (s *faultyBatches) filter(batch *tikvpb.BatchCommandsRequest) error {
	var requests []*tikvpb.BatchCommandsRequest_Request
	var ids []uint64
	for n, req := range batch.Requests {
		command, message := commandOf(req)
		fault := s.faults.take(command)
		if fault != nil {
			if err := pause(s.Context(), fault.Delay); err != nil {
				return err
			}
			if fault.Break {
				return errBroken
			}
			s.delay(batch.RequestIds[n], fault.Latency)
			if fault.Region != nil {
				if resp := batchedRegionError(command, fault.Region(contextOf(message))); resp != nil {
					if err := s.SendMsg(&tikvpb.BatchCommandsResponse{
						RequestIds: batch.RequestIds[n : n+1], Responses: []*tikvpb.BatchCommandsResponse_Response{resp},
					}); err != nil {
						return err
					}
					continue
				}
			}
		}
		requests, ids = append(requests, req), append(ids, batch.RequestIds[n])
	}
	batch.Requests, batch.RequestIds = requests, ids
	return nil
}

// delay has the answer to a request sent later.
func (s *faultyBatches) delay(id uint64, latency time.Duration) {
	if latency == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late == nil {
		s.late = make(map[uint64]time.Duration)
	}
	s.late[id] = latency
}

// SendMsg implements grpc.ServerStream. The store answers each request on its own.
func (s *faultyBatches) SendMsg(m any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if resp, ok := m.(*tikvpb.BatchCommandsResponse); ok && len(resp.RequestIds) == 1 {
		id := resp.RequestIds[0]
		if latency, late := s.late[id]; late {
			delete(s.late, id)
			time.AfterFunc(latency, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				_ = s.ServerStream.SendMsg(m) // a stream that has ended waits for no answer
			})
			return nil
		}
	}
	return s.ServerStream.SendMsg(m)
}

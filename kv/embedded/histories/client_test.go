package histories

import (
	"context"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/log"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/txnkv/transaction"
	"go.uber.org/zap"
)

const (
	// heartbeatTTL is the life of a pessimistic lock without a heartbeat, in milliseconds; optimistic locks live for
	// optimisticTTL. Both are shorter than in production, so that clients that die are cleaned up after in time.
	heartbeatTTL  = 1000
	optimisticTTL = 400
	// productionTTL is what client-go gives optimistic locks.
	productionTTL = 3000
)

func init() {
	atomic.StoreUint64(&transaction.ManagedLockTTL, heartbeatTTL)
	log.ReplaceGlobals(zap.NewNop(), &log.ZapProperties{}) // what client-go has to say of crashes
}

// faults are what the network does to requests, in thousandths.
type faults struct{ loseRequest, loseAnswer, repeat, delay int }

var badNetwork = faults{loseRequest: 3, loseAnswer: 6, repeat: 40, delay: 60}

// client is a client-go store, with a network of its own to the cluster.
type client struct {
	*tikv.KVStore
	c      *cluster
	remote tikv.Client // over gRPC; nil in process
	codec  tikv.Codec
	faults *atomic.Pointer[faults]
	dead   atomic.Bool

	mu  sync.Mutex
	rng *rand.Rand
	// repeats are requests that are under way a second time.
	repeats sync.WaitGroup
}

func (c *cluster) newClient(t *testing.T, remote bool, f *atomic.Pointer[faults]) *client {
	codecPD := tikv.NewCodecPDClient(tikv.ModeTxn, &placement{c.current().store.PDClient(), c})
	cl := &client{c: c, codec: codecPD.GetCodec(), faults: f, rng: rand.New(rand.NewPCG(c.seed.Add(1), 0))}
	if remote {
		cl.remote = tikv.NewRPCClient(tikv.WithCodec(cl.codec))
	}
	var err error
	cl.KVStore, err = tikv.NewKVStore("histories", codecPD, tikv.NewMockSafePointKV(), cl.link())
	require.NoError(t, err)
	return cl
}

// close ends a client, dead or alive.
func (cl *client) close() {
	_ = cl.KVStore.Close()
	cl.repeats.Wait()
	if cl.remote != nil {
		_ = cl.remote.Close()
	}
}

// link is the client's network.
func (cl *client) link() tikv.Client { return &link{cl} }

type link struct{ *client }

func (l *link) Close() error { return nil }

func (l *link) CloseAddr(string) error { return nil }

func (l *link) SetEventListener(tikv.ClientEventListener) {}

// happens decides what becomes of one request.
func (l *link) happens() (lose, loseAnswer, repeat bool, delay, later time.Duration) {
	f := l.faults.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rng.IntN(1000) < f.delay {
		delay = time.Duration(l.rng.IntN(3000)) * time.Microsecond
	}
	n := l.rng.IntN(1000)
	return n < f.loseRequest, n >= f.loseRequest && n < f.loseRequest+f.loseAnswer, l.rng.IntN(1000) < f.repeat,
		delay, time.Duration(l.rng.IntN(20)*l.rng.IntN(20)) * 100 * time.Microsecond
}

// SendRequest implements tikv.Client.
func (l *link) SendRequest(ctx context.Context, _ string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	lose, loseAnswer, repeat, delay, later := l.happens()
	shorten(req)
	time.Sleep(delay)
	if l.dead.Load() {
		return nil, context.Canceled
	}
	if lose {
		return nil, errLost
	}
	at := l.c.current()
	if repeat {
		again := copyOf(req)
		l.repeats.Go(func() {
			time.Sleep(later)
			_, _ = l.deliver(context.WithoutCancel(ctx), l.c.current(), again, timeout)
		})
	}
	// Not to a later store than the copy: the client would not know that the one before may have had its request, which
	// it does if it has sent it twice.
	resp, err := l.deliver(ctx, at, req, timeout)
	if l.dead.Load() {
		return nil, context.Canceled
	}
	if loseAnswer {
		return nil, errLost
	}
	return resp, err
}

// deliver brings a request to the store that was there when it was sent, and its answer back if the store is still there.
func (l *link) deliver(ctx context.Context, at *life, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	resp, err := l.send(ctx, at, req, timeout)
	if !l.c.alive(at) {
		return nil, errLost
	}
	return resp, err
}

func (l *link) send(ctx context.Context, at *life, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	if l.remote != nil {
		return l.remote.SendRequest(ctx, at.address, req, timeout)
	}
	req, err := l.codec.EncodeRequest(req)
	if err != nil {
		return nil, err
	}
	resp, err := at.store.Client().SendRequest(ctx, "", req, timeout)
	if err != nil {
		return nil, err
	}
	return l.codec.DecodeResponse(req, resp)
}

// shorten makes optimistic locks live for a short time only.
func shorten(req *tikvrpc.Request) {
	if r, ok := req.Req.(*kvrpcpb.PrewriteRequest); ok && r.LockTtl >= productionTTL {
		r.LockTtl -= productionTTL - optimisticTTL
	}
}

// copyOf copies a request with everything in it.
func copyOf(req *tikvrpc.Request) *tikvrpc.Request {
	type message interface {
		Marshal() ([]byte, error)
		Unmarshal([]byte) error
	}
	m, ok := req.Req.(message)
	if !ok {
		panic("a request that is no message")
	}
	data, err := m.Marshal()
	if err != nil {
		panic(err)
	}
	clone := reflect.New(reflect.TypeOf(m).Elem()).Interface().(message)
	if err := clone.Unmarshal(data); err != nil {
		panic(err)
	}
	again := *req
	again.Req = clone
	return &again
}

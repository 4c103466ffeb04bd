package member_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"fastddl/ddl/member"
)

// etcd is as much of one as is needed here, with the clock of the test. Requests arrive
// after a while, and answers take as long.
type etcd struct {
	clientv3.KV
	clientv3.Lease
	clientv3.Watcher

	mu       sync.Mutex
	delay    time.Duration
	cut      bool
	stale    bool // renewals are answered by one that has lost its quorum, and reads are not
	leases   map[clientv3.LeaseID]time.Time
	keys     map[string]clientv3.LeaseID
	watchers []chan clientv3.WatchResponse
	next     clientv3.LeaseID
}

const ttl = 10 * time.Second

func newEtcd() *etcd {
	return &etcd{leases: make(map[clientv3.LeaseID]time.Time), keys: make(map[string]clientv3.LeaseID)}
}

// Close closes both of what it is.
func (e *etcd) Close() error { return nil }

// request takes a request to etcd and back.
func (e *etcd) request(ctx context.Context, do func() error) error {
	e.mu.Lock()
	cut, delay := e.cut, e.delay
	e.mu.Unlock()
	if cut {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(delay)
	e.mu.Lock()
	e.expire()
	err := do()
	e.mu.Unlock()
	time.Sleep(delay)
	return errors.Join(err, ctx.Err())
}

// expire ends the leases whose time is over.
func (e *etcd) expire() {
	for id, at := range e.leases {
		if !time.Now().Before(at) {
			e.end(id)
		}
	}
}

func (e *etcd) end(id clientv3.LeaseID) {
	delete(e.leases, id)
	for key, lease := range e.keys {
		if lease == id {
			delete(e.keys, key)
			e.tell(clientv3.EventTypeDelete, key)
		}
	}
}

func (e *etcd) tell(kind mvccpb.Event_EventType, key string) {
	for _, w := range e.watchers {
		w <- clientv3.WatchResponse{Events: []*clientv3.Event{{Type: kind, Kv: &mvccpb.KeyValue{Key: []byte(key)}}}}
	}
}

func (e *etcd) Grant(ctx context.Context, seconds int64) (*clientv3.LeaseGrantResponse, error) {
	resp := &clientv3.LeaseGrantResponse{TTL: seconds}
	return resp, e.request(ctx, func() error {
		e.next++
		resp.ID = e.next
		e.leases[resp.ID] = time.Now().Add(time.Duration(seconds) * time.Second)
		return nil
	})
}

func (e *etcd) KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	resp := &clientv3.LeaseKeepAliveResponse{ID: id, TTL: int64(ttl / time.Second)}
	if e.isStale() {
		return resp, nil
	}
	return resp, e.request(ctx, func() error {
		if _, ok := e.leases[id]; !ok {
			return rpctypes.ErrLeaseNotFound
		}
		e.leases[id] = time.Now().Add(ttl)
		return nil
	})
}

func (e *etcd) Revoke(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	return nil, e.request(ctx, func() error {
		if _, ok := e.leases[id]; !ok {
			return rpctypes.ErrLeaseNotFound
		}
		e.end(id)
		return nil
	})
}

func (e *etcd) Put(ctx context.Context, key, _ string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	return nil, e.request(ctx, func() error {
		id := clientv3.LeaseID(0)
		if len(opts) > 0 {
			id = e.next // the one that was granted last
			if _, ok := e.leases[id]; !ok {
				return rpctypes.ErrLeaseNotFound
			}
		}
		e.keys[key] = id
		e.tell(clientv3.EventTypePut, key)
		return nil
	})
}

func (e *etcd) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	op := clientv3.OpGet(key, opts...)
	resp := &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{}}
	if e.isStale() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return resp, e.request(ctx, func() error {
		for k := range e.keys {
			if k == key || !op.IsCountOnly() && strings.HasPrefix(k, key) {
				resp.Count++
				resp.Kvs = append(resp.Kvs, &mvccpb.KeyValue{Key: []byte(k)})
			}
		}
		return nil
	})
}

func (e *etcd) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := make(chan clientv3.WatchResponse, 1000)
	e.watchers = append(e.watchers, w)
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		for i, other := range e.watchers {
			if other == w {
				e.watchers = append(e.watchers[:i:i], e.watchers[i+1:]...)
				close(w)
			}
		}
	})
	return w
}

func (e *etcd) setCut(cut bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cut = cut
}

func (e *etcd) setStale(stale bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stale = stale
}

func (e *etcd) isStale() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stale
}

// look is what etcd knows now.
func (e *etcd) look(name string) (is bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expire()
	_, is = e.keys["/fastddl/ddl/members/"+name]
	return is
}

func join(t *testing.T, e *etcd, node string) (*member.Etcd, member.Member) {
	t.Helper()
	c, err := member.Open(member.Options{Client: e, Node: node})
	require.NoError(t, err)
	m, err := c.Join(t.Context())
	require.NoError(t, err)
	return c, m
}

func leave(t *testing.T, c *member.Etcd, m member.Member) {
	t.Helper()
	require.NoError(t, m.Leave(t.Context()))
	require.NoError(t, c.Close())
}

// A member stays one while etcd answers, and others see it; after it has left none does.
func TestMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEtcd()
		a, first := join(t, e, "a:1")
		b, second := join(t, e, "b:1")
		require.NotEqual(t, first.Name(), second.Name())
		require.True(t, strings.HasPrefix(first.Name(), "a:1/"))
		for range 20 {
			time.Sleep(ttl / 2)
			require.True(t, first.Alive() && second.Alive())
		}
		members, err := a.Members(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]bool{first.Name(): true, second.Name(): true}, members)
		for len(b.Changed()) > 0 {
			<-b.Changed()
		}
		leave(t, a, first)
		synctest.Wait()
		require.Len(t, b.Changed(), 1, "the other is told")
		<-b.Changed()
		require.False(t, first.Alive())
		members, err = b.Members(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]bool{second.Name(): true}, members)
		b.Notify(t.Context())
		synctest.Wait()
		require.Len(t, b.Changed(), 1)
		leave(t, b, second)
	})
}

// A node that is cut off knows that it is no member before etcd does, however long requests
// and answers take, and comes back under another name.
func TestLeaseEndsHereFirst(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond, 300 * time.Millisecond, time.Second} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEtcd()
				e.delay = delay
				c, m := join(t, e, "a:1")
				time.Sleep(3*ttl + 777*time.Millisecond)
				require.True(t, m.Alive())
				e.setCut(true)
				lived := time.Now()
				for m.Alive() {
					require.True(t, e.look(m.Name()), "it believes to be a member, and is none")
					time.Sleep(time.Millisecond)
				}
				require.True(t, e.look(m.Name()), "it knows first")
				require.Greater(t, time.Since(lived), ttl/3, "it does not give up at once")
				require.Less(t, time.Since(lived), ttl)
				<-m.Gone()
				e.setCut(false)
				time.Sleep(ttl)
				require.False(t, m.Alive(), "it does not come to life again")
				again, err := c.Join(t.Context())
				require.NoError(t, err)
				require.NotEqual(t, m.Name(), again.Name())
				require.NoError(t, m.Leave(t.Context()))
				leave(t, c, again)
			})
		})
	}
}

// A process that was stopped for longer than its lease knows it from the clock, before any
// of its goroutines has looked.
func TestStoppedProcess(t *testing.T) {
	var mu sync.Mutex
	skew := time.Duration(0)
	now := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(skew)
	}
	synctest.Test(t, func(t *testing.T) {
		e := newEtcd()
		c, err := member.Open(member.Options{Client: e, Node: "a:1", Now: now})
		require.NoError(t, err)
		m, err := c.Join(t.Context())
		require.NoError(t, err)
		require.True(t, m.Alive())
		mu.Lock()
		skew = ttl
		mu.Unlock()
		require.False(t, m.Alive())
		time.Sleep(ttl) // a timer of its own, which the clock does not move
		<-m.Gone()
		leave(t, c, m)
	})
}

// A node whose key somebody has removed is no member any more, though its lease lives.
func TestRemovedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEtcd()
		c, m := join(t, e, "a:1")
		e.mu.Lock()
		delete(e.keys, "/fastddl/ddl/members/"+m.Name())
		e.mu.Unlock()
		time.Sleep(ttl / 3)
		require.False(t, m.Alive())
		<-m.Gone()
		leave(t, c, m)
	})
}

// A leader of etcd that has lost its quorum answers renewals from memory, while the others have
// ended the lease. It cannot answer reads, so the node does not believe it.
func TestStaleLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEtcd()
		c, m := join(t, e, "a:1")
		time.Sleep(3*ttl + 777*time.Millisecond)
		require.True(t, m.Alive())
		e.setStale(true)
		for m.Alive() {
			require.True(t, e.look(m.Name()), "it believes to be a member, and is none")
			time.Sleep(time.Millisecond)
		}
		<-m.Gone()
		e.setStale(false)
		leave(t, c, m)
	})
}

// A node joins when etcd answers again.
func TestJoinsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEtcd()
		e.setCut(true)
		time.AfterFunc(time.Minute, func() { e.setCut(false) })
		c, m := join(t, e, "a:1")
		require.True(t, m.Alive())
		require.True(t, e.look(m.Name()))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("told to end"))
		_, err := c.Join(ctx)
		require.ErrorContains(t, err, "told to end")
		leave(t, c, m)
	})
}

func TestOptionsListEveryProblem(t *testing.T) {
	_, err := member.Open(member.Options{Node: "a/b", TTL: time.Millisecond})
	require.Error(t, err)
	for _, want := range []string{"Client", "Node", "TTL"} {
		require.Contains(t, err.Error(), want, fmt.Sprint(err))
	}
}

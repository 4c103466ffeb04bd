package member

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"fastddl/internal/errs"
	"fastddl/internal/sleep"
)

const (
	// requestTimeout bounds one request to etcd.
	requestTimeout = 5 * time.Second
	// retryInterval is the pause before another attempt.
	retryInterval = 200 * time.Millisecond
)

// Etcd is the Cluster that etcd's leases make.
type Etcd struct {
	opts    Options
	changed chan struct{}
	cancel  context.CancelFunc
	watch   sync.WaitGroup
}

var _ Cluster = (*Etcd)(nil)

// Open begins to watch the members.
func Open(opts Options) (*Etcd, error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	e := &Etcd{opts: opts, changed: make(chan struct{}, 1)}
	var ctx context.Context
	ctx, e.cancel = context.WithCancel(context.Background())
	e.watch.Go(func() {
		for {
			err := e.watchOnce(ctx)
			if !sleep.For(ctx, retryInterval) {
				return
			}
			opts.Logger.Info("the watch over the other nodes begins again", zap.Error(err))
			e.signal() // something may have been missed
		}
	})
	return e, nil
}

// Close implements Cluster.
func (e *Etcd) Close() error {
	e.cancel()
	e.watch.Wait()
	return nil
}

func (e *Etcd) membersPrefix() string { return e.opts.Prefix + "members/" }
func (e *Etcd) noticeKey() string     { return e.opts.Prefix + "notice" }

// watchOnce reports changes until the watch fails.
func (e *Etcd) watchOnce(ctx context.Context) (err error) {
	defer errs.Contain(&err)
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range e.opts.Client.Watch(ctx, e.opts.Prefix, clientv3.WithPrefix()) {
		if err := resp.Err(); err != nil {
			return err
		}
		for _, ev := range resp.Events {
			if ev.Type == clientv3.EventTypeDelete || string(ev.Kv.Key) == e.noticeKey() {
				e.signal()
			}
		}
	}
	return context.Cause(ctx)
}

func (e *Etcd) signal() {
	select {
	case e.changed <- struct{}{}:
	default: // a notice is pending
	}
}

// Changed implements Cluster.
func (e *Etcd) Changed() <-chan struct{} { return e.changed }

// Notify implements Cluster.
func (e *Etcd) Notify(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := e.opts.Client.Put(ctx, e.noticeKey(), e.opts.Node); err != nil {
		e.opts.Logger.Info("other nodes learn late that there is something to do", zap.Error(err))
	}
}

// Members implements Cluster.
func (e *Etcd) Members(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := e.opts.Client.Get(ctx, e.membersPrefix(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, fmt.Errorf("ask for the members: %w", err)
	}
	members := make(map[string]bool, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		members[strings.TrimPrefix(string(kv.Key), e.membersPrefix())] = true
	}
	return members, nil
}

// Join implements Cluster.
func (e *Etcd) Join(ctx context.Context) (Member, error) {
	for {
		l, err := e.joinOnce(ctx)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e.opts.Logger.Warn("this node cannot become a member of the cluster", zap.Error(err))
		if !sleep.For(ctx, retryInterval) {
			return nil, context.Cause(ctx)
		}
	}
}

func (e *Etcd) joinOnce(ctx context.Context) (*lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	sent := e.opts.Now()
	granted, err := e.opts.Client.Grant(ctx, int64(e.opts.TTL/time.Second))
	if err != nil {
		return nil, fmt.Errorf("ask for a lease: %w", err)
	}
	suffix := make([]byte, 8)
	if _, err := rand.Read(suffix); err != nil {
		return nil, fmt.Errorf("make a name: %w", err)
	}
	l := newLease(e.opts, granted.ID, e.opts.Node+"/"+hex.EncodeToString(suffix))
	l.renewed(sent, granted.TTL)
	l.key = e.membersPrefix() + l.name
	if _, err := e.opts.Client.Put(ctx, l.key, e.opts.Node, clientv3.WithLease(granted.ID)); err != nil {
		return nil, fmt.Errorf("register: %w", err) // the lease ends by itself
	}
	l.start()
	return l, nil
}

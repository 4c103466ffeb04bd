package member

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"fastddl/internal/errs"
	"fastddl/internal/sleep"
)

// lease is a membership.
type lease struct {
	opts Options
	id   clientv3.LeaseID
	name string
	key  string

	// deadline is when the lease ends for this node, if it is not renewed.
	deadline atomic.Pointer[time.Time]
	lost     atomic.Bool
	losing   sync.Once
	gone     chan struct{}

	ctx    context.Context
	cancel context.CancelFunc
	keeper sync.WaitGroup
}

func newLease(opts Options, id clientv3.LeaseID, name string) *lease {
	l := &lease{opts: opts, id: id, name: name, gone: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// renewed says that a request which was sent at a time has made the lease last for some
// seconds from when it arrived. A tenth is for clocks that go at different speeds.
func (l *lease) renewed(sent time.Time, ttl int64) {
	d := time.Duration(ttl) * time.Second
	deadline := sent.Add(d - d/10)
	l.deadline.Store(&deadline)
}

// left is how long the lease lasts.
func (l *lease) left() time.Duration { return l.deadline.Load().Sub(l.opts.Now()) }

// Name implements Member.
func (l *lease) Name() string { return l.name }

// Alive implements Member.
func (l *lease) Alive() bool { return !l.lost.Load() && l.left() > 0 }

// Gone implements Member.
func (l *lease) Gone() <-chan struct{} { return l.gone }

// Leave implements Member.
func (l *lease) Leave(ctx context.Context) error {
	l.lose()
	l.cancel()
	l.keeper.Wait()
	_, err := l.opts.Client.Revoke(ctx, l.id)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}

func (l *lease) lose() {
	l.lost.Store(true)
	l.losing.Do(func() { close(l.gone) })
}

// start renews the lease until it is lost.
func (l *lease) start() {
	l.keeper.Go(func() {
		defer l.lose()
		var err error
		func() {
			defer errs.Contain(&err)
			err = l.keep()
		}()
		if l.ctx.Err() == nil {
			l.opts.Logger.Warn("this node is no member of the cluster any more", zap.String("member", l.name), zap.Error(err))
		}
	})
}

var (
	errLate    = errors.New("etcd has not answered in time")
	errRemoved = errors.New("its key was removed")
)

// keep returns why the lease is lost.
func (l *lease) keep() error {
	var last error
	for wait := l.opts.TTL / 4; ; {
		if !sleep.For(l.ctx, min(wait, max(l.left(), 0))) {
			return context.Cause(l.ctx)
		}
		if l.left() <= 0 {
			return errors.Join(errLate, last)
		}
		last = l.renew()
		switch {
		case errors.Is(last, rpctypes.ErrLeaseNotFound), errors.Is(last, errRemoved):
			return last
		case last != nil:
			wait = retryInterval
		default:
			wait = l.opts.TTL / 4
		}
	}
}

// renew renews the lease once. A leader of etcd that has lost its quorum may still answer
// renewals, from memory, while the others end the lease. It cannot answer a read, so the renewal
// counts only if a read that was sent no earlier finds the key.
func (l *lease) renew() error {
	sent := l.opts.Now()
	ctx, cancel := context.WithTimeout(l.ctx, min(l.left(), l.opts.TTL/3))
	defer cancel()
	found := make(chan error, 1)
	go func() { found <- l.checkKey(ctx) }()
	resp, err := l.opts.Client.KeepAliveOnce(ctx, l.id)
	if err == nil && resp.TTL <= 0 {
		err = rpctypes.ErrLeaseNotFound
	}
	if err = errors.Join(err, <-found); err != nil {
		return err
	}
	l.renewed(sent, resp.TTL)
	return nil
}

// checkKey fails with errRemoved if the key is not there: it was removed alone, or the
// lease has ended.
func (l *lease) checkKey(ctx context.Context) (err error) {
	defer errs.Contain(&err)
	found, err := l.opts.Client.Get(ctx, l.key, clientv3.WithCountOnly())
	if err == nil && found.Count == 0 {
		return errRemoved
	}
	return err
}

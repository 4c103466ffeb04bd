package ddl

import (
	"context"
	"errors"
	"fmt"

	sess "github.com/pingcap/tidb/pkg/ddl/session"
	"github.com/pingcap/tidb/pkg/domain"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/tikv/client-go/v2/util"
)

// txn is a transaction over system tables and schema metadata.
type txn struct {
	ctx  context.Context
	se   *sess.Session
	meta *meta.Mutator
	ts   uint64
}

// exec runs a statement. Values stand for %? in it.
func (t *txn) exec(query string, args ...any) error {
	_, err := t.query(query, args...)
	return err
}

func (t *txn) query(query string, args ...any) ([]chunk.Row, error) {
	return t.se.Execute(t.ctx, query, "index_build", args...)
}

// internal marks what is done with ctx as DDL in TiDB's metrics.
func internal(ctx context.Context) context.Context {
	return tidbkv.WithInternalSourceType(ctx, tidbkv.InternalTxnDDL)
}

// charged returns a context in which the stores' work is on the account of a resource
// group; empty is none.
func charged(ctx context.Context, resourceGroup string) context.Context {
	if resourceGroup == "" {
		return ctx
	}
	return util.WithResourceGroupName(ctx, resourceGroup)
}

// sessions runs statements and transactions in internal sessions of TiDB's.
type sessions struct {
	domain *domain.Domain
	// closed ends when no transaction may begin again.
	closed context.Context
}

// newSessions returns the sessions of a domain. After a conflict a transaction begins again until closed ends.
func newSessions(closed context.Context, dom *domain.Domain) *sessions {
	return &sessions{domain: dom, closed: closed}
}

// with runs fn with an internal session.
func (p *sessions) with(fn func(se *sess.Session) error) error {
	return p.withContext(func(sctx sessionctx.Context) error { return fn(sess.NewSession(sctx)) })
}

// withContext runs fn with an internal session of TiDB's. No other caller gets a session
// in which fn has failed.
func (p *sessions) withContext(fn func(sctx sessionctx.Context) error) error {
	pool := p.domain.SysSessionPool()
	resource, err := pool.Get()
	if err != nil {
		return fmt.Errorf("get a session: %w", err)
	}
	good := false
	defer func() {
		if good {
			pool.Put(resource)
		} else {
			pool.Destroy(resource)
		}
	}()
	sctx, ok := resource.(sessionctx.Context)
	if !ok {
		return fmt.Errorf("the session pool holds a %T", resource)
	}
	err = fn(sctx)
	good = err == nil
	return err
}

// inTxn runs fn in an optimistic transaction and commits it, again from the start
// after a write conflict, until ctx ends or the component is closed. An attempt
// that has begun is not interrupted: the caller that interrupts wants to know its outcome.
// Metadata is read and written only by optimistic transactions: pessimistic ones do
// not check keys that they have not locked.
func (p *sessions) inTxn(ctx context.Context, fn func(t *txn) error) error {
	attemptCtx := internal(context.WithoutCancel(ctx))
	for attempt := uint(0); ; attempt++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := p.with(func(se *sess.Session) error { return runTxn(attemptCtx, se, fn) })
		if err == nil || !tidbkv.IsTxnRetryableError(err) && !errors.Is(err, errRetry) {
			return err
		}
		if p.closed.Err() != nil {
			return context.Cause(p.closed)
		}
		tidbkv.BackOff(min(attempt, 10))
	}
}

// errRetry makes inTxn begin again.
var errRetry = errors.New("ddl: begin the transaction again")

func runTxn(ctx context.Context, se *sess.Session, fn func(t *txn) error) (err error) {
	if err := se.Begin(ctx); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	done := false
	defer func() {
		if !done {
			se.Rollback()
		}
	}()
	kvTxn, err := se.Txn()
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := fn(&txn{ctx: ctx, se: se, meta: meta.NewMutator(kvTxn), ts: kvTxn.StartTS()}); err != nil {
		return err
	}
	done = true
	return se.Commit(ctx)
}

// query runs a statement outside a transaction.
func (p *sessions) query(ctx context.Context, query string, args ...any) (rows []chunk.Row, err error) {
	err = p.with(func(se *sess.Session) error {
		rows, err = se.Execute(internal(ctx), query, "index_build", args...)
		return err
	})
	return rows, err
}

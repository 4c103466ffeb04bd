package session

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

// Txn is a transaction over system tables and schema metadata.
type Txn struct {
	// Ctx is that of the attempt.
	Ctx     context.Context
	Session *sess.Session
	// Meta reads and writes schema metadata, and TS is the transaction's start.
	Meta *meta.Mutator
	TS   uint64
}

// Exec runs a statement. Values stand for %? in it.
func (t *Txn) Exec(query string, args ...any) error {
	_, err := t.Query(query, args...)
	return err
}

// Query runs a statement and returns its rows. Values stand for %? in it.
func (t *Txn) Query(query string, args ...any) ([]chunk.Row, error) {
	return t.Session.Execute(t.Ctx, query, "index_build", args...)
}

// Internal marks what is done with ctx as DDL in TiDB's metrics.
func Internal(ctx context.Context) context.Context {
	return tidbkv.WithInternalSourceType(ctx, tidbkv.InternalTxnDDL)
}

// Charged returns a context in which the stores' work is on the account of a resource
// group; empty is none.
func Charged(ctx context.Context, resourceGroup string) context.Context {
	if resourceGroup == "" {
		return ctx
	}
	return util.WithResourceGroupName(ctx, resourceGroup)
}

// Pool runs statements and transactions in internal sessions of TiDB's.
type Pool struct {
	domain *domain.Domain
	// closed ends when no transaction may begin again.
	closed context.Context
}

// NewPool returns the sessions of a domain. After a conflict a transaction begins again until closed ends.
func NewPool(closed context.Context, dom *domain.Domain) *Pool {
	return &Pool{domain: dom, closed: closed}
}

// With runs fn with an internal session.
func (p *Pool) With(fn func(se *sess.Session) error) error {
	return p.WithContext(func(sctx sessionctx.Context) error { return fn(sess.NewSession(sctx)) })
}

// WithContext runs fn with an internal session of TiDB's. No other caller gets a session
// in which fn has failed.
func (p *Pool) WithContext(fn func(sctx sessionctx.Context) error) error {
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

// InTxn runs fn in an optimistic transaction and commits it, again from the start
// after a write conflict, until ctx ends or the component is closed. An attempt
// that has begun is not interrupted: the caller that interrupts wants to know its outcome.
// Metadata is read and written only by optimistic transactions: pessimistic ones do
// not check keys that they have not locked.
func (p *Pool) InTxn(ctx context.Context, fn func(t *Txn) error) error {
	attemptCtx := Internal(context.WithoutCancel(ctx))
	for attempt := uint(0); ; attempt++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := p.With(func(se *sess.Session) error { return runTxn(attemptCtx, se, fn) })
		if err == nil || !tidbkv.IsTxnRetryableError(err) && !errors.Is(err, ErrRetry) {
			return err
		}
		if p.closed.Err() != nil {
			return context.Cause(p.closed)
		}
		tidbkv.BackOff(min(attempt, 10))
	}
}

// ErrRetry makes InTxn begin again.
var ErrRetry = errors.New("ddl: begin the transaction again")

func runTxn(ctx context.Context, se *sess.Session, fn func(t *Txn) error) (err error) {
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
	if err := fn(&Txn{Ctx: ctx, Session: se, Meta: meta.NewMutator(kvTxn), TS: kvTxn.StartTS()}); err != nil {
		return err
	}
	done = true
	return se.Commit(ctx)
}

// Query runs a statement outside a transaction.
func (p *Pool) Query(ctx context.Context, query string, args ...any) (rows []chunk.Row, err error) {
	err = p.With(func(se *sess.Session) error {
		rows, err = se.Execute(Internal(ctx), query, "index_build", args...)
		return err
	})
	return rows, err
}

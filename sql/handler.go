package sql

import (
	"context"
	"math/rand/v2"
	"time"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/server"
	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"fastddl/config"
)

// ServerOptions returns what a protocol server of the engine needs, in order:
// append them to server.Config.Options.
func (e *Engine) ServerOptions() []server.Option {
	return []server.Option{
		func(g *sqle.Engine, sm *server.SessionManager, h mysql.Handler) (*sqle.Engine, *server.SessionManager, mysql.Handler) {
			return g, sm, &Handler{Handler: h, engine: e, sessions: sm}
		},
	}
}

// Handler runs a statement again that failed for a passing reason before any of
// its result was sent: a conflict at the commit of an autocommit statement, or a
// schema change between planning it and its first write.
type Handler struct {
	mysql.Handler
	engine   *Engine
	sessions *server.SessionManager
}

// session returns the connection's session, nil if it has none (any more).
func (h *Handler) session(c *mysql.Conn) *Session {
	var found *Session
	// The callback returns no error.
	_ = h.sessions.Iter(func(s gms.Session) (bool, error) {
		if s.ID() == c.ConnectionID {
			found, _ = s.(*Session)
		}
		return found != nil, nil
	})
	return found
}

// ComQuery implements mysql.Handler.
func (h *Handler) ComQuery(ctx context.Context, c *mysql.Conn, query string, callback mysql.ResultSpoolFn) error {
	return h.run(ctx, c, func(sent *bool) error {
		return h.Handler.ComQuery(ctx, c, query, h.marking(sent, callback))
	})
}

// ComMultiQuery implements mysql.Handler.
func (h *Handler) ComMultiQuery(ctx context.Context, c *mysql.Conn, query string, callback mysql.ResultSpoolFn) (remainder string, err error) {
	err = h.run(ctx, c, func(sent *bool) (err error) {
		remainder, err = h.Handler.ComMultiQuery(ctx, c, query, h.marking(sent, callback))
		return err
	})
	return remainder, err
}

// ComStmtExecute implements mysql.Handler.
func (h *Handler) ComStmtExecute(ctx context.Context, c *mysql.Conn, prepare *mysql.PrepareData, callback func(*sqltypes.Result) error) error {
	return h.run(ctx, c, func(sent *bool) error {
		return h.Handler.ComStmtExecute(ctx, c, prepare, func(r *sqltypes.Result) error {
			*sent = true
			h.engine.fixTimes(r)
			return callback(r)
		})
	})
}

func (h *Handler) marking(sent *bool, callback mysql.ResultSpoolFn) mysql.ResultSpoolFn {
	return func(r *sqltypes.Result, more bool) error {
		*sent = true
		h.engine.fixTimes(r)
		return callback(r, more)
	}
}

func (h *Handler) run(ctx context.Context, c *mysql.Conn, execute func(sent *bool) error) error {
	return h.engine.retrying(ctx, func() *Session { return h.session(c) }, func() (bool, error) {
		var sent bool
		err := execute(&sent)
		return sent, err
	})
}

const (
	retryFirstPause = 500 * time.Microsecond
	retryMaxPause   = 50 * time.Millisecond
)

// retrying runs execute again, at most tidb_retry_limit times, as long as its
// session says that this helps and nothing was sent.
func (e *Engine) retrying(ctx context.Context, session func() *Session, execute func() (sent bool, err error)) error {
	pause := retryFirstPause
	for attempt := int64(0); ; attempt++ {
		sent, err := execute()
		if err == nil || sent {
			return err
		}
		s := session()
		if s == nil || !s.retry || attempt >= e.globals.Int(config.RetryLimit) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		// Full jitter: sessions that collided must not collide again.
		case <-time.After(rand.N(pause)):
		}
		pause = min(2*pause, retryMaxPause)
	}
}

package sqlerr

import (
	"context"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
)

// ServerOption translates every error that a server sends: append it to
// server.Config.Options.
//
// The one error it cannot reach is a statement that vitess refuses in
// COM_STMT_PREPARE, before any handler is asked: that stays 1105.
func ServerOption() server.Option {
	return func(e *sqle.Engine, sm *server.SessionManager, h mysql.Handler) (*sqle.Engine, *server.SessionManager, mysql.Handler) {
		return e, sm, &handler{Handler: h, sessions: sm}
	}
}

// handler translates the errors of the handler it wraps.
type handler struct {
	mysql.Handler
	sessions *server.SessionManager
}

func (h *handler) translate(c *mysql.Conn, text string, err error) error {
	if err == nil {
		return nil
	}
	return Statement{DB: h.sessions.GetCurrentDB(c), Text: text}.Translate(err)
}

func (h *handler) ConnectionAuthenticated(c *mysql.Conn) error {
	if err := h.Handler.ConnectionAuthenticated(c); err != nil {
		return Translate(err)
	}
	return nil
}

func (h *handler) ComInitDB(c *mysql.Conn, schema string) error {
	if err := h.Handler.ComInitDB(c, schema); err != nil {
		return Translate(err)
	}
	return nil
}

func (h *handler) ComQuery(ctx context.Context, c *mysql.Conn, query string, callback mysql.ResultSpoolFn) error {
	return h.translate(c, query, h.Handler.ComQuery(ctx, c, query, callback))
}

func (h *handler) ComMultiQuery(ctx context.Context, c *mysql.Conn, query string, callback mysql.ResultSpoolFn) (string, error) {
	remainder, err := h.Handler.ComMultiQuery(ctx, c, query, callback)
	return remainder, h.translate(c, query[:len(query)-len(remainder)], err)
}

func (h *handler) ComPrepare(ctx context.Context, c *mysql.Conn, query string, prepare *mysql.PrepareData) ([]*querypb.Field, error) {
	fields, err := h.Handler.ComPrepare(ctx, c, query, prepare)
	return fields, h.translate(c, query, err)
}

func (h *handler) ComStmtExecute(ctx context.Context, c *mysql.Conn, prepare *mysql.PrepareData, callback func(*sqltypes.Result) error) error {
	return h.translate(c, prepare.PrepareStmt, h.Handler.ComStmtExecute(ctx, c, prepare, callback))
}

func (h *handler) ComResetConnection(c *mysql.Conn) error {
	if err := h.Handler.ComResetConnection(c); err != nil {
		return Translate(err)
	}
	return nil
}

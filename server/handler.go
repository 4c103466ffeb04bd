package server

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"go.uber.org/zap"

	"fastddl/internal/foreground"
)

// handler wraps the engine's protocol handler. It counts and times statements,
// logs slow ones and refuses statements while the server stops. It sits above
// the translation of errors and sees MySQL's numbers.
type handler struct {
	mysql.Handler
	conns   *connections
	metrics *metrics
	meter   *foreground.Meter
	log     *zap.Logger
	// slow is the time above which a statement is logged; 0 logs none.
	slow time.Duration
}

// NewConnection implements mysql.Handler.
func (h *handler) NewConnection(c *mysql.Conn) {
	h.metrics.connectionsTotal.Inc()
	h.conns.add(c)
	h.Handler.NewConnection(c)
}

// ConnectionClosed implements mysql.Handler.
func (h *handler) ConnectionClosed(c *mysql.Conn) {
	defer h.conns.remove(c)
	h.Handler.ConnectionClosed(c)
}

// ComInitDB implements mysql.Handler.
func (h *handler) ComInitDB(c *mysql.Conn, schema string) error {
	return h.run(c, "use "+schema, func() error { return h.Handler.ComInitDB(c, schema) })
}

// ComQuery implements mysql.Handler.
func (h *handler) ComQuery(ctx context.Context, c *mysql.Conn, query string, callback mysql.ResultSpoolFn) error {
	return h.run(c, query, func() error { return h.Handler.ComQuery(ctx, c, query, callback) })
}

// ComMultiQuery implements mysql.Handler.
func (h *handler) ComMultiQuery(ctx context.Context, c *mysql.Conn, query string, callback mysql.ResultSpoolFn) (remainder string, err error) {
	err = h.run(c, query, func() (err error) {
		remainder, err = h.Handler.ComMultiQuery(ctx, c, query, callback)
		return err
	})
	return remainder, err
}

// ComPrepare implements mysql.Handler.
func (h *handler) ComPrepare(ctx context.Context, c *mysql.Conn, query string, prepare *mysql.PrepareData) (fields []*querypb.Field, err error) {
	err = h.run(c, "prepare", func() (err error) {
		fields, err = h.Handler.ComPrepare(ctx, c, query, prepare)
		return err
	})
	return fields, err
}

// ComStmtExecute implements mysql.Handler.
func (h *handler) ComStmtExecute(ctx context.Context, c *mysql.Conn, prepare *mysql.PrepareData, callback func(*sqltypes.Result) error) error {
	return h.run(c, prepare.PrepareStmt, func() error { return h.Handler.ComStmtExecute(ctx, c, prepare, callback) })
}

// run executes one statement of a connection.
func (h *handler) run(c *mysql.Conn, query string, execute func() error) error {
	kind := statementKind(query)
	if err := h.conns.begin(c, kind); err != nil {
		return err
	}
	defer h.conns.end(c)
	if isForeground(kind) {
		defer h.meter.Begin()()
	}
	start := time.Now()
	err := execute()
	elapsed := time.Since(start)
	h.metrics.observeStatement(kind, elapsed, errorCode(err))
	if h.slow > 0 && elapsed >= h.slow {
		h.log.Warn("slow statement", zap.Duration("elapsed", elapsed), zap.Uint32("conn", c.ConnectionID),
			zap.String("sql", abbreviate(query)), zap.Error(err))
	}
	return err
}

// errorCode is the MySQL error number of err as text, "" for no error.
func errorCode(err error) string {
	if err == nil {
		return ""
	}
	var coded *mysql.SQLError
	if errors.As(err, &coded) {
		return strconv.Itoa(coded.Num)
	}
	return strconv.Itoa(mysql.ERUnknownError)
}

// maxLoggedSQL is the number of bytes of a statement that the log shows.
const maxLoggedSQL = 512

func abbreviate(query string) string {
	if len(query) <= maxLoggedSQL {
		return query
	}
	return query[:maxLoggedSQL] + "..."
}

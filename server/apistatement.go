package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/planner/core/resolve"
	tidbserver "github.com/pingcap/tidb/pkg/server"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"
	"github.com/pingcap/tidb/pkg/util/execdetails"
	"github.com/pingcap/tidb/pkg/util/sqlescape"
	"github.com/pingcap/tidb/pkg/util/sqlkiller"
	tikvutil "github.com/tikv/client-go/v2/util"

	"fastddl/api"
	"fastddl/ddl/job"
	"fastddl/ddl/status"
	"fastddl/internal/errs"
	"fastddl/sql"
)

const (
	// maxAPIRows and maxAPIBytes bound what a statement of the API may return.
	maxAPIRows  = 100_000
	maxAPIBytes = 64 << 20
)

var (
	errNotOneStatement = dbterror.ClassServer.NewStdErr(errno.ErrParse, mysql.Message("the text has to be one statement, and has %d", nil))
	errNoBuild         = dbterror.ClassServer.NewStdErr(errno.ErrNotSupportedYet,
		mysql.Message("only statements that add indexes are taken here: CREATE INDEX, and ALTER TABLE that adds one", nil))
	errTooManyRows = dbterror.ClassServer.NewStdErr(errno.ErrTooBigSelect, mysql.Message("the statement returns too much for an answer of the API", nil))
)

// Run implements api.Session.
func (s *apiSession) Run(ctx context.Context, statement string, args ...any) (*api.Result, error) {
	text, err := sqlescape.EscapeSQL(statement, args...)
	if err != nil {
		return nil, fmt.Errorf("write the statement %q: %w", statement, err)
	}
	return s.run(ctx, text, func(mode mysql.SQLMode) mysql.SQLMode { return mysql.DelSQLMode(mode, mysql.ModeNoBackslashEscapes) })
}

// RunOn implements api.Session.
func (s *apiSession) RunOn(ctx context.Context, needed api.Needed, statement string, args ...any) (*api.Result, error) {
	return s.Run(status.Needed(needed).With(ctx), statement, args...)
}

// RunText implements api.Session.
func (s *apiSession) RunText(ctx context.Context, text string) (result *api.Result, err error) {
	return s.run(ctx, text, func(mode mysql.SQLMode) mysql.SQLMode { return mode })
}

// run executes a statement in a changed SQL mode: one with arguments is written with backslashes, which are to be read as such.
func (s *apiSession) run(ctx context.Context, text string, mode func(mysql.SQLMode) mysql.SQLMode) (result *api.Result, err error) {
	err = s.during(ctx, func(ctx context.Context, c *tidbserver.TiDBContext) error {
		vars := c.GetSessionVars()
		own := vars.SQLMode
		vars.SQLMode = mode(own)
		defer func() { vars.SQLMode = own }()
		stmt, err := parseOne(ctx, c, text)
		if err != nil {
			return err
		}
		result, err = execute(ctx, c, stmt)
		return err
	})
	if err != nil {
		return nil, sqlErrorOf(err)
	}
	return result, nil
}

// CheckBuild implements api.Session.
func (s *apiSession) CheckBuild(ctx context.Context, text string) error {
	return sqlErrorOf(s.during(ctx, func(ctx context.Context, c *tidbserver.TiDBContext) error {
		stmt, err := parseOne(ctx, c, text)
		if err == nil && !sql.BuildsIndexes(stmt) {
			err = errNoBuild.GenWithStackByArgs()
		}
		return err
	}))
}

func parseOne(ctx context.Context, c *tidbserver.TiDBContext, text string) (ast.StmtNode, error) {
	stmts, err := c.Parse(ctx, text)
	if err != nil {
		return nil, err
	}
	if len(stmts) != 1 {
		return nil, errNotOneStatement.GenWithStackByArgs(len(stmts))
	}
	return stmts[0], nil
}

// during calls fn as TiDB's connection does with what a client sends (dispatch in pkg/server/conn.go), one at a time.
func (s *apiSession) during(ctx context.Context, fn func(ctx context.Context, c *tidbserver.TiDBContext) error) (err error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c := s.ctx.Load()
	if c == nil {
		return errKilled
	}
	defer errs.Contain(&err)
	vars := c.GetSessionVars()
	vars.SQLKiller.Reset()
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	s.cancel = cancel
	s.mu.Unlock()
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(told)
		s.interrupt(c)
	})
	begun := time.Now()
	c.SetCommandValue(mysql.ComQuery)
	defer func() {
		s.mu.Lock()
		s.cancel = nil
		s.mu.Unlock()
		if !stop() {
			<-told // else it would end the next statement
		}
		cancel(nil)
		vars.SQLKiller.Reset()
		c.SetProcessInfo("", begun, mysql.ComSleep, 0)
	}()
	if s.killed.Load() { // before cancel was there
		return errKilled
	}
	err = fn(ctx, c)
	if err != nil && vars.StmtCtx != nil {
		vars.StmtCtx.DetachMemDiskTracker() // as handleStmt in pkg/server/conn.go does
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return errors.Join(cause, err)
	}
	return err
}

// interrupt ends the statement that runs, as killQuery in pkg/server/server.go does.
func (s *apiSession) interrupt(c *tidbserver.TiDBContext) {
	killer := &c.GetSessionVars().SQLKiller
	killer.SendKillSignal(sqlkiller.QueryInterrupted)
	killer.FinishResultSet()
}

// kill ends the statement that runs, and unless it is query the session: its next statement fails.
func (s *apiSession) kill(query bool) {
	if !query {
		s.killed.Store(true)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel(exeerrors.ErrQueryInterrupted.FastGenByArgs())
	}
}

// execute returns what a statement returns.
func execute(ctx context.Context, c *tidbserver.TiDBContext, stmt ast.StmtNode) (result *api.Result, err error) {
	ctx = context.WithValue(ctx, execdetails.StmtExecDetailKey, &execdetails.StmtExecDetails{})
	ctx = context.WithValue(ctx, tikvutil.ExecDetailsKey, &tikvutil.ExecDetails{})
	ctx = context.WithValue(ctx, tikvutil.RUDetailsCtxKey, tikvutil.NewRUDetails())
	rs, err := c.Session.ExecuteStmt(ctx, stmt)
	if err != nil {
		return nil, err
	}
	result = &api.Result{}
	if rs != nil {
		defer func() {
			if closing := rs.Close(); err == nil {
				err = closing
			}
		}()
		fields := rs.Fields()
		kinds := make([]*types.FieldType, len(fields))
		for i, f := range fields {
			kinds[i] = &f.Column.FieldType
			result.Columns = append(result.Columns, columnLabel(f))
		}
		size := int64(0)
		for {
			req := rs.NewChunk(nil)
			if err := rs.Next(ctx, req); err != nil {
				return nil, err
			}
			if req.NumRows() == 0 {
				break
			}
			if size += req.MemoryUsage(); size > maxAPIBytes || len(result.Rows)+req.NumRows() > maxAPIRows {
				return nil, errTooManyRows.GenWithStackByArgs()
			}
			for i := range req.NumRows() {
				values := make([]any, len(fields))
				for k, d := range req.GetRow(i).GetDatumRow(kinds) {
					values[k] = jsonValue(&d)
				}
				result.Rows = append(result.Rows, values)
			}
		}
	}
	for _, w := range c.GetWarnings() {
		known := asSQLError(w.Err)
		result.Warnings = append(result.Warnings, api.Warning{Level: w.Level, Code: known.Code, Message: known.Message})
	}
	return result, nil
}

func columnLabel(f *resolve.ResultField) string {
	if f.ColumnAsName.O != "" {
		return f.ColumnAsName.O
	}
	return f.Column.Name.O
}

// jsonValue is a value as encoding/json encodes it. Times are those of a session in UTC.
func jsonValue(d *types.Datum) any {
	switch d.Kind() {
	case types.KindNull:
		return nil
	case types.KindInt64:
		return d.GetInt64()
	case types.KindUint64:
		return d.GetUint64()
	case types.KindFloat64, types.KindFloat32:
		return d.GetFloat64()
	case types.KindMysqlTime:
		t := d.GetMysqlTime()
		if t.IsZero() {
			return nil
		}
		if at, err := t.GoTime(time.UTC); err == nil {
			return at.Format(time.RFC3339Nano)
		}
		return t.String()
	case types.KindMysqlJSON:
		return json.RawMessage(d.GetMysqlJSON().String())
	case types.KindString, types.KindBytes:
		return d.GetString()
	}
	text, err := d.ToString()
	if err != nil {
		return nil
	}
	return text
}

// sqlErrorOf returns the error of a statement with its number; the end of a request and of a log-in stay what they are.
func sqlErrorOf(err error) error {
	var known *api.SQLError
	var contained *errs.PanicError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known), errors.As(err, &contained), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, api.ErrLoginEnded), errors.Is(err, api.ErrStopping):
		return err
	case errors.Is(err, errKilled):
		err = exeerrors.ErrQueryInterrupted.FastGenByArgs()
	}
	return asSQLError(err)
}

// asSQLError returns number, state and text of an error as a MySQL client gets them.
func asSQLError(err error) *api.SQLError {
	if te := job.FindTerror(err); te != nil {
		e := terror.ToSQLError(te)
		return &api.SQLError{Code: int(e.Code), State: e.State, Message: e.Message}
	}
	return &api.SQLError{Code: errno.ErrUnknown, State: mysql.DefaultMySQLState, Message: errs.OneLine(err).Error()}
}

package sql

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/sqlexec"

	"fastddl/ddl/session"
	"fastddl/ddl/status"
	"fastddl/event"
	"fastddl/internal/errs"
)

// TiDB's texts in the rows of ADMIN CANCEL, PAUSE and RESUME for the result of each job (CommandDDLJobsExec in
// pkg/executor/operate_ddl_jobs.go).
const (
	commandSuccess = "successful"
	commandFailure = "error: "
)

// emitCommand emits an event for each job of a command: its user, and the result. If the user may give it, it is kept in the history of
// the job.
func (s *clientSession) emitCommand(ctx context.Context, admin *ast.AdminStmt, ids []int64, outcome error, permitted bool) {
	vars := s.GetSessionVars()
	user, name, host := "the server", "", ""
	if vars.User != nil {
		user, name, host = vars.User.LoginString(), vars.User.Username, vars.User.Hostname
	}
	program, statement := session.ProgramOf(vars), strings.TrimSpace(admin.Text())
	result := status.CommandDone
	if outcome != nil {
		result = errs.OneLine(outcome).Error()
	}
	for _, id := range ids {
		s.layer.opts.Bus.Emit(event.Command{
			Job: event.Job{ID: id}, User: user, ConnID: vars.ConnectionID, Program: program, Statement: statement, Err: outcome,
		})
		if permitted && s.layer.ddl != nil {
			s.layer.ddl.RecordCommand(context.WithoutCancel(ctx), status.Command{
				JobID: id, Time: time.Now(), User: name, Host: host, ConnID: vars.ConnectionID, Program: program, Statement: statement, Outcome: result,
			})
		}
	}
}

// commandAnswer is the answer to a command, a row for each job. Its events are emitted while the client reads it: TiDB executes its own
// commands then.
type commandAnswer struct {
	sqlexec.RecordSet
	tell func(id int64, err error)
}

// Next implements sqlexec.RecordSet.
func (c *commandAnswer) Next(ctx context.Context, req *chunk.Chunk) error {
	if err := c.RecordSet.Next(ctx, req); err != nil {
		return err
	}
	for i := range req.NumRows() {
		row := req.GetRow(i)
		id, err := strconv.ParseInt(row.GetString(0), 10, 64)
		if err != nil {
			continue // no row of a command
		}
		var outcome error
		if text := row.GetString(1); text != commandSuccess {
			outcome = errors.New(strings.TrimPrefix(text, commandFailure))
		}
		c.tell(id, outcome)
	}
	return nil
}

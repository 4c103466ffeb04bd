package sql

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/sqlexec"

	"fastddl/event"
)

// TiDB's texts in the rows of ADMIN CANCEL, PAUSE and RESUME for the result of each job (CommandDDLJobsExec in
// pkg/executor/operate_ddl_jobs.go).
const (
	commandSuccess = "successful"
	commandFailure = "error: "
)

// emitCommand emits an event for each job of a command: its user, and the result.
func (s *clientSession) emitCommand(admin *ast.AdminStmt, ids []int64, outcome error) {
	vars := s.GetSessionVars()
	user := "the server"
	if vars.User != nil {
		user = vars.User.LoginString()
	}
	for _, id := range ids {
		s.layer.opts.Bus.Emit(event.Command{
			Job: event.Job{ID: id}, User: user, ConnID: vars.ConnectionID, Statement: strings.TrimSpace(admin.Text()), Err: outcome,
		})
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

package sql

import (
	"strings"
	"time"

	pingcaperrors "github.com/pingcap/errors"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/config"
	"fastddl/ddl"
	"fastddl/internal/asttree"
)

// What ADMIN ALTER DDL JOBS changes of a job that TiDB's jobs do not have. TiDB's parser takes any name, its planner refuses those that it
// does not know (buildAdminAlterDDLJob in pkg/planner/core/planbuilder.go), so it gets the others only.

// splitOptions returns the options of the statement that are ours, and a statement with those that are TiDB's.
func splitOptions(admin *ast.AdminStmt) (own []*ast.AlterJobOption, tidb *ast.AdminStmt) {
	rest := asttree.Copy(admin)
	rest.AlterJobOptions = nil
	for _, option := range admin.AlterJobOptions {
		switch option.Name {
		case config.DDLWindow, config.DDLMaxHold, config.DDLPublish:
			own = append(own, option)
		default:
			rest.AlterJobOptions = append(rest.AlterJobOptions, option)
		}
	}
	return own, &rest
}

// scheduleOf returns what options of ours change. The last of a name counts, as among TiDB's. The error is MySQL's 1231 for a value that is
// none.
func scheduleOf(options []*ast.AlterJobOption) (a ddl.Alteration, err error) {
	for _, option := range options {
		text, err := literalText(option)
		if err != nil {
			return a, err
		}
		wrong := variable.ErrWrongValueForVar.GenWithStackByArgs(option.Name, text)
		v, known := config.LookupSysVar(option.Name)
		if !known {
			return a, wrong
		}
		switch option.Name {
		case config.DDLWindow:
			window, err := windowText(text)
			if err != nil {
				return a, err
			}
			a.Window = &window
		case config.DDLMaxHold:
			value, clamped, err := v.Normalize(text)
			if err != nil || clamped {
				return a, wrong
			}
			hold, err := time.ParseDuration(value)
			if err != nil {
				return a, wrong
			}
			a.MaxHold = &hold
		case config.DDLPublish:
			value := config.PublishNow
			if !strings.EqualFold(strings.TrimSpace(text), value) {
				if value, _, err = v.Normalize(text); err != nil {
					return a, wrong
				}
			}
			a.Publish = &value
		}
	}
	return a, nil
}

// literalText returns the value of an option as text.
func literalText(option *ast.AlterJobOption) (string, error) {
	literal, ok := option.Value.(ast.ValueExpr)
	if !ok {
		var text strings.Builder
		if err := option.Value.Restore(format.NewRestoreCtx(format.DefaultRestoreFlags, &text)); err != nil {
			return "", err
		}
		return "", variable.ErrWrongValueForVar.GenWithStackByArgs(option.Name, text.String())
	}
	value := literal.GetValue()
	if value == nil {
		return "", variable.ErrWrongValueForVar.GenWithStackByArgs(option.Name, "NULL")
	}
	datum := types.NewDatum(value)
	return datum.ToString()
}

// noteWindow warns that a publication that was asked for has to wait for the job's window.
func (s *clientSession) noteWindow(id int64, a ddl.Alteration) {
	if a.Publish == nil || *a.Publish == config.PublishManual {
		return
	}
	if opens, closed := s.layer.ddl.WindowOpens(id); closed {
		s.GetSessionVars().StmtCtx.AppendWarning(pingcaperrors.NewNoStackErrorf(
			"the indexes become public when the window of job %d opens, at %s; without it at once: %s = ''", id, opens, config.DDLWindow))
	}
}

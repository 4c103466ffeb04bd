package server

import (
	"context"
	"strings"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util/dbterror"
)

var (
	errNotADigest   = dbterror.ClassServer.NewStdErr(errno.ErrWrongArguments, mysql.Message("Incorrect arguments to %s: '%s' is no digest", nil))
	errHiddenText   = dbterror.ClassServer.NewStdErr(errno.ErrWrongArguments, mysql.Message("Incorrect arguments to QUERY WATCH: write the statement out, or name a variable that has it", nil))
	errPlansOfAFile = dbterror.ClassServer.NewStdErr(errno.ErrNotSupportedYet,
		mysql.Message("PLAN REPLAYER DUMP of a file is not supported: dump the plans of its statements one by one", nil))
)

// checkTexts refuses texts of a node that TiDB parses and plans or executes by itself, where no guard sees them, as check does; and
// those that it puts between quotes into a statement of its own, unless they are digests (registerCaptureTask in
// pkg/executor/plan_replayer.go, fetchRecordFromClusterStmtSummary in pkg/planner/core/planbuilder.go).
func (s *guardedSession) checkTexts(n ast.Node) error {
	switch x := n.(type) {
	case *ast.PrepareStmt:
		if x.SQLVar != nil {
			return s.checkText(s.userVariable(x.SQLVar.Name))
		}
		return s.checkText(x.SQLText)
	case *ast.ExecuteStmt:
		return s.checkPrepared(x)
	case *ast.RecommendIndexStmt:
		return s.checkText(x.SQL)
	case *ast.QueryWatchOption:
		return s.checkWatched(x.TextOption)
	case *ast.PlanReplayerStmt:
		if x.Stmt == nil && x.File != "" && !x.Load {
			return errPlansOfAFile.GenWithStackByArgs()
		}
		if x.Capture || x.Remove {
			return checkDigests("PLAN REPLAYER CAPTURE", x.SQLDigest, x.PlanDigest)
		}
	case *ast.CreateBindingStmt:
		return checkDigests("CREATE BINDING", s.texts(x.PlanDigests)...)
	case *ast.DropBindingStmt:
		return checkDigests("DROP BINDING", s.texts(x.SQLDigests)...)
	}
	return nil
}

// checkText refuses the statements of a text as check does.
func (s *guardedSession) checkText(sql string) error {
	stmts, err := s.Session.Parse(context.Background(), sql)
	if err != nil {
		return err
	}
	for _, stmt := range stmts {
		if err := s.check(stmt); err != nil {
			return err
		}
	}
	return nil
}

// checkWatched refuses the statement whose plan QUERY WATCH asks for: TiDB explains it in a session that may do everything.
func (s *guardedSession) checkWatched(option *ast.QueryWatchTextOption) error {
	if option == nil || !option.TypeSpecified || option.Type != model.WatchPlan {
		return nil
	}
	switch x := option.PatternExpr.(type) {
	case *ast.VariableExpr:
		if !x.IsSystem && x.Value == nil {
			return s.checkText(s.userVariable(x.Name))
		}
	case ast.ValueExpr:
		return s.checkText(x.GetString())
	}
	return errHiddenText.GenWithStackByArgs()
}

// checkDigests refuses texts that are more than digests, or lists of them.
func checkDigests(command string, digests ...string) error {
	for _, digest := range digests {
		if strings.Trim(digest, "0123456789abcdefABCDEF*, ") != "" {
			return errNotADigest.GenWithStackByArgs(command, digest)
		}
	}
	return nil
}

// texts returns strings and the values of user variables.
func (s *guardedSession) texts(list []*ast.StringOrUserVar) (texts []string) {
	for _, x := range list {
		if x.UserVar == nil {
			texts = append(texts, x.StringLit)
		} else {
			texts = append(texts, s.userVariable(x.UserVar.Name))
		}
	}
	return texts
}

// userVariable returns the value of a user variable as text, "" if it has none.
func (s *guardedSession) userVariable(name string) string {
	value, ok := s.GetSessionVars().GetUserVarVal(strings.ToLower(name))
	if !ok {
		return ""
	}
	text, err := value.ToString()
	if err != nil { // TiDB has no text of it either
		return ""
	}
	return text
}

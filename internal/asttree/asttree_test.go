package asttree_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver"
	"github.com/stretchr/testify/require"

	"fastddl/internal/asttree"
)

func parse(t *testing.T, text string) ast.StmtNode {
	t.Helper()
	stmt, err := parser.New().ParseOneStmt(text, "", "")
	require.NoError(t, err, text)
	return stmt
}

// Each kind of statement that holds others shows them.
func TestVisitFindsStatementsInside(t *testing.T) {
	for text, want := range map[string][]string{
		"DELETE FROM t":                               {"*ast.DeleteStmt"},
		"EXPLAIN ANALYZE DELETE FROM t":               {"*ast.ExplainStmt", "*ast.DeleteStmt"},
		"EXPLAIN ANALYZE IMPORT INTO t FROM '/a.csv'": {"*ast.ExplainStmt", "*ast.ImportIntoStmt"},
		"TRACE DELETE FROM t":                         {"*ast.TraceStmt", "*ast.DeleteStmt"},
		"BATCH ON a LIMIT 1 DELETE FROM t":            {"*ast.NonTransactionalDMLStmt", "*ast.DeleteStmt"},
		"PLAN REPLAYER DUMP EXPLAIN DELETE FROM t":    {"*ast.PlanReplayerStmt", "*ast.DeleteStmt"},
		"INSERT INTO t SELECT 1 UNION SELECT 2":       {"*ast.InsertStmt", "*ast.SetOprStmt", "*ast.SelectStmt", "*ast.SelectStmt"},
		"SELECT (SELECT 1), EXISTS (SELECT 2)":        {"*ast.SelectStmt", "*ast.SelectStmt", "*ast.SelectStmt"},
		"WITH c AS (SELECT 1) SELECT * FROM c":        {"*ast.SelectStmt", "*ast.SelectStmt"},
	} {
		var found []string
		require.NoError(t, asttree.Visit(parse(t, text), func(n ast.Node) error {
			if _, ok := n.(ast.StmtNode); ok {
				found = append(found, fmt.Sprintf("%T", n))
			}
			return nil
		}))
		require.Equal(t, want, found, text)
	}
}

func TestVisitStopsAtAnError(t *testing.T) {
	wrong, calls := errors.New("wrong"), 0
	require.ErrorIs(t, asttree.Visit(parse(t, "SELECT 1, 2, 3"), func(ast.Node) error {
		calls++
		if calls == 2 {
			return wrong
		}
		return nil
	}), wrong)
	require.Equal(t, 2, calls)
}

func TestWalkLeavesOutWhatIsInside(t *testing.T) {
	var found []string
	asttree.Walk(parse(t, "EXPLAIN INSERT INTO t VALUES (1, 2)"), func(n ast.Node) bool {
		found = append(found, fmt.Sprintf("%T", n))
		_, insert := n.(*ast.InsertStmt)
		return !insert
	})
	require.Equal(t, []string{"*ast.ExplainStmt", "*ast.InsertStmt"}, found)
}

// Copies of a statement, and the statement, have its text in any order they are asked.
func TestCopyKeepsTheText(t *testing.T) {
	const text = "ADMIN ALTER DDL JOBS 1 THREAD = 2"
	stmt := parse(t, text).(*ast.AdminStmt)
	copied := asttree.Copy(stmt)
	copied.AlterJobOptions = nil
	require.Equal(t, text, copied.Text())
	require.Equal(t, text, stmt.Text())
	require.NotEmpty(t, stmt.AlterJobOptions)
}

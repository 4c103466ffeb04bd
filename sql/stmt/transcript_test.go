package stmt_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/stretchr/testify/require"

	"fastddl/sql/sqlerr"
)

// TestRouting reads statements and prints who takes them. Arguments:
//
//	multi          several statements may follow each other
//	sql-mode=X     the session's SQL mode
func TestRouting(t *testing.T) {
	f := newFixture(t)
	datadriven.RunTest(t, "testdata/routing", func(t *testing.T, d *datadriven.TestData) string {
		s := f.newSession("root")
		ctx := f.context(s, "")
		if d.HasArg("sql-mode") {
			var mode string
			d.ScanArgs(t, "sql-mode", &mode)
			require.NoError(t, s.SetSessionVariable(ctx, "sql_mode", mode))
		}
		var out strings.Builder
		for text := d.Input; text != ""; {
			parsed, one, rest, err := f.parser.Parse(ctx, text, d.HasArg("multi"))
			switch {
			case errors.Is(err, sqlparser.ErrEmpty):
				fmt.Fprintf(&out, "empty\n")
			case err != nil:
				e := sqlerr.Translate(err)
				fmt.Fprintf(&out, "error %d (%s): %s\n", e.Num, e.State, e.Message)
			default:
				who := fmt.Sprintf("engine: %T", parsed)
				if injected, ok := parsed.(sqlparser.InjectedStatement); ok {
					who = "ours: " + describe(t, ctx, injected)
				}
				fmt.Fprintf(&out, "%s\n  %s\n", who, strings.ReplaceAll(one, "\n", "\n  "))
			}
			out.WriteString(f.ddl.takeLog())
			text = rest
		}
		return out.String()
	})
}

func describe(t *testing.T, ctx *gms.Context, s sqlparser.InjectedStatement) string {
	node, err := s.Statement.WithResolvedChildren(ctx, nil)
	require.NoError(t, err)
	var cols []string
	for _, c := range node.(gms.Node).Schema(ctx) {
		cols = append(cols, c.Name)
	}
	name := fmt.Sprintf("%T", s.Statement)
	if len(cols) > 0 {
		name = strings.Join(cols[:min(3, len(cols))], ", ")
	}
	if name == "" {
		name = "no rows"
	}
	return name
}

// TestExecution executes statements and prints what they did.
func TestExecution(t *testing.T) {
	f := newFixture(t)
	s := f.newSession("root")
	s.SetCurrentDatabase("test")
	f.ddl.jobs = jobs()
	datadriven.RunTest(t, "testdata/execution", func(t *testing.T, d *datadriven.TestData) string {
		s.ClearWarnings()
		result, err := f.run(s, d.Input)
		out := f.ddl.takeLog() + result
		for _, w := range slices.Backward(s.Warnings()) {
			out += fmt.Sprintf("%s %d: %s\n", w.Level, w.Code, w.Message)
		}
		if err != nil {
			e := sqlerr.Statement{DB: "test", Text: d.Input}.Translate(err)
			out += fmt.Sprintf("error %d (%s): %s\n", e.Num, e.State, e.Message)
		}
		return out
	})
}

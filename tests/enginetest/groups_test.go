package enginetest

import (
	"testing"

	"github.com/dolthub/go-mysql-server/enginetest"
	"github.com/dolthub/go-mysql-server/enginetest/queries"
	"github.com/dolthub/go-mysql-server/enginetest/scriptgen/setup"
)

func TestGroups(t *testing.T) {
	for _, group := range []struct {
		name string
		run  func(*testing.T, enginetest.Harness)
	}{
		{"insert", enginetest.TestInsertInto},
		{"insert ignore", enginetest.TestInsertIgnoreInto},
		{"insert errors", enginetest.TestInsertIntoErrors},
		{"replace", enginetest.TestReplaceInto},
		{"replace errors", enginetest.TestReplaceIntoErrors},
		{"update", enginetest.TestUpdate},
		{"update ignore", enginetest.TestUpdateIgnore},
		{"delete", enginetest.TestDelete},
		{"transactions", transactions},
		{"queries", enginetest.TestQueries},
		{"joins", enginetest.TestJoinQueries},
		{"order by, group by", enginetest.TestOrderByGroupBy},
		{"ambiguous columns", enginetest.TestAmbiguousColumnResolution},
		{"composite indexes", enginetest.TestComplexIndexQueries},
		{"prefix indexes", enginetest.TestIndexPrefix},
		{"generated columns", scripts(queries.GeneratedColumnTests)},
		{"expression indexes", scripts(queries.IndexedExpressionsScriptTests)},
	} {
		t.Run(group.name, func(t *testing.T) { group.run(t, newHarness(t)) })
	}
}

func transactions(t *testing.T, h enginetest.Harness) {
	for _, script := range queries.TransactionTests {
		if !skipped(script.Name) {
			enginetest.TestTransactionScript(t, h, script)
		}
	}
}

// scripts runs those scripts that are not left out.
func scripts(all []queries.ScriptTest) func(*testing.T, enginetest.Harness) {
	return func(t *testing.T, h enginetest.Harness) {
		h.Setup(setup.MydbData)
		for _, script := range all {
			if !skipped(script.Name) {
				enginetest.TestScript(t, h, script)
			}
		}
	}
}

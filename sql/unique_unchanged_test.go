package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/ddl"
	"fastddl/sql"
)

// A unique index is compared with the rows only if one of the two was written since S.
func TestUniqueIndexIsComparedIfSomethingWasWritten(t *testing.T) {
	o := &overtaken{}
	e := newEnv(t, func(opts *sql.Options) {
		o.Backfiller = ddl.NewBackfiller(backfill.Options{Store: opts.Builds, Globals: opts.Globals, Bus: opts.Bus})
		opts.Backfiller = o
	})
	c, writer := e.client(), e.client()
	writer.run("CREATE TABLE other (a INT PRIMARY KEY, b INT)")
	for _, test := range []struct {
		name      string
		action    string
		write     string
		unchanged bool
	}{
		{"nothing", "", "", true},
		{"before S", "take-snapshot", "UPDATE t SET b = -1 WHERE a = 1", true},
		{"another table", "backfill", "INSERT INTO other VALUES (1, 1)", true},
		{"a row before the import", "backfill", "UPDATE t SET b = -1 WHERE a = 1", false},
		{"a column that has no index", "backfill", "UPDATE t SET c = 'x' WHERE a = 1", false},
		{"a row that comes and goes", "backfill", "INSERT INTO t VALUES (1000, 1000, ''); DELETE FROM t WHERE a = 1000", false},
		{"a row after the import", "compare", "DELETE FROM t WHERE a = 1", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.run("DROP TABLE IF EXISTS t")
			c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c VARCHAR(10))")
			c.run("INSERT INTO t VALUES (1,1,''),(2,2,''),(3,3,'')")
			var unchanged []bool
			o.after = func(result backfill.CompareResult) {
				require.True(t, result.Clean())
				unchanged = append(unchanged, result.Unchanged)
			}
			if test.write != "" {
				e.before(test.action, "", func() { writer.run(test.write) })
			}
			c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
			e.setHook(nil)
			require.Equal(t, []bool{test.unchanged}, unchanged)
			c.check("t")
		})
	}
}

package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/compare"
	"fastddl/ddl"
	"fastddl/sql"
)

// A unique index is compared with the rows in what was written since S.
func TestUniqueIndexIsComparedInWhatWasWritten(t *testing.T) {
	o := &overtaken{}
	e := newEnv(t, func(opts *sql.Options) {
		o.Backfiller = ddl.NewBackfiller(backfill.Options{Store: opts.Builds, Globals: opts.Globals, Bus: opts.Bus})
		opts.Backfiller = o
	})
	c, writer := e.client(), e.client()
	writer.run("CREATE TABLE other (a INT PRIMARY KEY, b INT)")
	for _, test := range []struct {
		name    string
		action  string
		write   string
		changes int64 // of rows and entries
	}{
		{"nothing", "", "", 0},
		{"before S", "take-snapshot", "UPDATE t SET b = -1 WHERE a = 1", 0},
		{"another table", "backfill", "INSERT INTO other VALUES (1, 1)", 0},
		{"a row before the import", "backfill", "UPDATE t SET b = -1 WHERE a = 1", 3},
		{"a column that has no index", "backfill", "UPDATE t SET c = 'x' WHERE a = 1", 1},
		{"a row that comes and goes", "backfill", "INSERT INTO t VALUES (1000, 1000, ''); DELETE FROM t WHERE a = 1000", 2},
		{"a row after the import", "compare", "DELETE FROM t WHERE a = 1", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.run("DROP TABLE IF EXISTS t")
			c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c VARCHAR(10))")
			c.run("INSERT INTO t VALUES (1,1,''),(2,2,''),(3,3,'')")
			var changes []int64
			o.after = func(result compare.Result) {
				require.True(t, result.Clean())
				require.True(t, result.OnlyChanges)
				changes = append(changes, result.Changes)
			}
			if test.write != "" {
				e.before(test.action, "", func() { writer.run(test.write) })
			}
			c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
			e.setHook(nil)
			require.Equal(t, []int64{test.changes}, changes)
			c.check("t")
		})
	}
}

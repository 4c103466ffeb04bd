package sql_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/compare"
	"fastddl/ddl"
	"fastddl/sql"
)

// overtaken is a backfiller whose comparisons are overtaken by what after does.
type overtaken struct {
	ddl.Backfiller
	after func(result compare.Result)
}

func (o *overtaken) Compare(ctx context.Context, t ddl.CompareTask) (compare.Result, error) {
	result, err := o.Backfiller.Compare(ctx, t)
	if err == nil {
		o.after(result)
	}
	return result, err
}

// A repair leaves a key alone that was written since the comparison: its
// entry may be that of a row which the comparison has not seen.
func TestRepairLeavesWhatWasWrittenSince(t *testing.T) {
	o := &overtaken{}
	e := newEnv(t, func(opts *sql.Options) {
		o.Backfiller = ddl.NewBackfiller(backfill.Options{Store: opts.Builds, Globals: opts.Globals, Bus: opts.Bus})
		opts.Backfiller = o
	})
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	c.run("INSERT INTO t VALUES (1,1),(2,2)")
	var found []int
	writer := e.client()
	o.after = func(result compare.Result) {
		if found = append(found, len(result.Differences)); len(found) == 1 {
			writer.run("UPDATE t SET b = NULL WHERE a = 1")
			writer.run("INSERT INTO t VALUES (3, 1)")
		}
	}
	e.holes(func() {}, func() {}, 1)
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	c.check("t")
	require.Equal(t, []int{1, 0}, found, "a repair has removed the entry of a row")
}

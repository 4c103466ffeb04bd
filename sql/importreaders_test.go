package sql_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/load"
	"fastddl/load/jobs"
	"fastddl/sql"
)

// checkpointed is a loader that calls saved after each checkpoint.
type checkpointed struct {
	jobs.Loader
	saved func()
}

func (l *checkpointed) Load(ctx context.Context, t jobs.Task) (jobs.Result, error) {
	save := t.SaveCheckpoint
	t.SaveCheckpoint = func(ctx context.Context, data []byte) error {
		err := save(ctx, data)
		l.saved()
		return err
	}
	return l.Loader.Load(ctx, t)
}

// Transactions that have begun between any two rounds of an import, and read the table first when it is swapped in, read all of its rows
// or none: TiDB gives a transaction the newest definition of a table at its first use, whenever the transaction began.
func TestTransactionsReadAllOrNothingOfAnImport(t *testing.T) {
	const rows = 4000
	var e *importEnv
	var readers []*client
	begin := func() {
		if len(readers) < 12 {
			reader := e.client()
			reader.run("BEGIN")
			reader.run("SELECT * FROM other") // takes the timestamp
			readers = append(readers, reader)
		}
	}
	e = openImports(t, t.TempDir(), func(o *sql.Options, opts load.Options) {
		opts.CheckpointInterval, opts.BatchRows, opts.MaxWorkers = 1, 200, 1
		o.Loader = &checkpointed{jobs.NewLoader(opts), begin}
	})
	t.Cleanup(e.close)
	c := e.client()
	c.run(importTable)
	c.run("CREATE TABLE other (a INT)")
	begin()
	c.run("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, rows))
	require.Greater(t, len(readers), 5, "rounds of the import")
	for i, reader := range readers {
		count := reader.one("SELECT COUNT(*) FROM t USE INDEX ()")
		require.Contains(t, []string{"0", fmt.Sprint(rows)}, count, "transaction %d", i)
		require.Equal(t, count, reader.one("SELECT COUNT(*) FROM t USE INDEX (n) WHERE n >= 0"), "transaction %d", i)
		reader.run("COMMIT")
	}
	require.EqualValues(t, fmt.Sprint(rows), c.one("SELECT COUNT(*) FROM t"))
}

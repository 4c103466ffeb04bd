package compare_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/backfill"
	"fastddl/backfill/backfilltest"
	"fastddl/backfill/encode"
)

var (
	benchRows   = flag.Int("rows", 200_000, "rows of the table in BenchmarkCompare")
	benchColumn = flag.Int("column", 1, "column whose index BenchmarkCompare compares: 1 is k, 2 is c")
)

// fixture is a table whose indexes are built and compared.
type fixture struct{ *backfilltest.Fixture }

func newFixture(t testing.TB, table *model.TableInfo, kinds []backfilltest.ColumnType) *fixture {
	return &fixture{backfilltest.NewFixture(t, table, kinds)}
}

func (f *fixture) options() backfill.Options {
	return backfill.Options{Store: f.Store, TempDir: f.Temp}
}

func (f *fixture) spec(indexes ...*model.IndexInfo) backfill.Spec {
	return backfill.Spec{Task: f.task(indexes...)}
}

func (f *fixture) task(indexes ...*model.IndexInfo) encode.Task {
	return encode.Task{JobID: 77, Table: f.Table, Indexes: indexes, TS: f.TS()}
}

// partitioned is a partitioned table, with a fixture for each partition.
type partitioned struct {
	*fixture
	parts backfilltest.Partitions
}

func newPartitioned(t testing.TB, r *rand.Rand, n, rowsEach int) *partitioned {
	f, parts := backfilltest.NewPartitions(t, r, n, rowsEach)
	return &partitioned{&fixture{f}, parts}
}

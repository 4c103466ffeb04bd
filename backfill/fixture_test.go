package backfill

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
)

// fixture is a table whose indexes are built.
type fixture struct{ *backfilltest.Fixture }

func newFixture(t testing.TB, table *model.TableInfo, kinds []backfilltest.ColumnType) *fixture {
	return newFixtureOn(t, nil, table, kinds)
}

func newFixtureOn(t testing.TB, fs vfs.FS, table *model.TableInfo, kinds []backfilltest.ColumnType) *fixture {
	return &fixture{backfilltest.NewFixtureOn(t, fs, table, kinds)}
}

// partitioned is a partitioned table in a store of its own, with a fixture for
// each partition.
type partitioned struct {
	*fixture
	parts backfilltest.Partitions
}

func newPartitioned(t testing.TB, r *rand.Rand, n, rowsEach int) *partitioned {
	f, parts := backfilltest.NewPartitions(t, r, n, rowsEach)
	return &partitioned{&fixture{f}, parts}
}

func (f *fixture) options() Options {
	return Options{Store: f.Store, TempDir: f.Temp}
}

func (f *fixture) spec(indexes ...*model.IndexInfo) Spec {
	return Spec{Task: f.task(indexes...)}
}

func (f *fixture) task(indexes ...*model.IndexInfo) encode.Task {
	return encode.Task{JobID: 77, Table: f.Table, Indexes: indexes, TS: f.TS()}
}

func (f *fixture) compare(indexes ...*model.IndexInfo) compare.Result {
	f.T.Helper()
	return f.compareWith(execution.Options{Store: f.Store}, compare.Verified{}, indexes...)
}

func (f *fixture) compareWith(opts execution.Options, verified compare.Verified, indexes ...*model.IndexInfo) compare.Result {
	f.T.Helper()
	res, err := compare.Since(f.Ctx, opts, f.task(indexes...), verified, compare.Built{})
	require.NoError(f.T, err)
	return res
}

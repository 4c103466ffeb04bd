package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/ddl"
	"github.com/pingcap/tidb/pkg/executor/importer"
	lkv "github.com/pingcap/tidb/pkg/lightning/backend/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	tidbparser "github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/table/tables"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/mock"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/internal/randtest"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
	"fastddl/load/rows"
)

// filesFixture is a table to load from files, and a store.
type filesFixture struct {
	t     testing.TB
	table *model.TableInfo
	plan  *importer.Plan
	store *pebblekv.Store
	temp  string
	spec  Spec
	opts  Options
	saved []byte
}

// newFilesFixture returns a table made by a CREATE TABLE, and CSV files of some texts.
func newFilesFixture(t testing.TB, create string, texts ...string) *filesFixture {
	node, err := tidbparser.New().ParseOneStmt(create, "", "")
	require.NoError(t, err)
	ctx := mock.NewContext()
	ctx.GetSessionVars().SQLMode = 0
	info, err := ddl.MockTableInfo(ctx, node.(*ast.CreateTableStmt), 142)
	require.NoError(t, err)
	info.State = model.StatePublic
	for _, idx := range info.Indices {
		idx.State = model.StatePublic
	}
	dir := t.TempDir()
	for i, text := range texts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.csv", i)), []byte(text), 0o600))
	}
	charset := "utf8mb4"
	f := &filesFixture{t: t, table: info, temp: filepath.Join(t.TempDir(), "tmp")}
	f.plan = &importer.Plan{
		DBName: "test", DBID: 1, TableInfo: info, DesiredTableInfo: info, Path: filepath.Join(dir, "*.csv"), Format: importer.DataFormatCSV,
		Restrictive: true, FieldNullDef: []string{`\N`},
		LineFieldsInfo: plannercore.LineFieldsInfo{FieldsTerminatedBy: ",", FieldsEnclosedBy: `"`, FieldsEscapedBy: `\`},
		Charset:        &charset, InImportInto: true, DataSourceType: importer.DataSourceTypeFile, ThreadCnt: 2,
		ImportantSysVars: map[string]string{"time_zone": "+00:00", "tidb_row_format_version": "2"},
	}
	f.store, err = pebblekv.Open(filepath.Join(t.TempDir(), "db"), pebblekv.Options{DisableSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.store.Close()) })
	f.spec = Spec{JobID: 8, Table: info}
	f.opts = Options{Store: f.store, TempDir: f.temp, SaveCheckpoint: func(_ context.Context, data []byte) error {
		f.saved = bytes.Clone(data)
		return nil
	}}
	return f
}

// open opens the files, as each run of a job does.
func (f *filesFixture) open() *rows.Source {
	tbl, err := tables.TableFromMeta(lkv.NewPanickingAllocators(f.table.SepAutoInc()), f.table)
	require.NoError(f.t, err)
	args, err := importer.ASTArgsFromStmt("import into t from '" + f.plan.Path + "'")
	require.NoError(f.t, err)
	c, err := importer.NewLoadDataController(f.plan, tbl, args)
	require.NoError(f.t, err)
	require.NoError(f.t, c.InitDataFiles(context.Background()))
	source, err := rows.Open(context.Background(), c, f.table)
	require.NoError(f.t, err)
	return source
}

func (f *filesFixture) run() (Result, error) {
	f.spec.Source, f.spec.Checkpoint = f.open(), f.saved
	return Run(context.Background(), f.opts, f.spec)
}

// records are the columns of all rows in the store, as text, sorted; entries is how many index entries there are.
func (f *filesFixture) records() (texts []string, entries int) {
	now, err := f.store.CurrentTS(context.Background())
	require.NoError(f.t, err)
	snap, err := f.store.Snapshot(context.Background(), now)
	require.NoError(f.t, err)
	defer snap.Close()
	iter, err := snap.Iter(kv.PrefixRange(tablecodec.EncodeTablePrefix(f.table.ID)))
	require.NoError(f.t, err)
	defer iter.Close()
	fields := make(map[int64]*types.FieldType)
	for _, c := range f.table.Columns {
		fields[c.ID] = &c.FieldType
	}
	for ; iter.Valid(); require.NoError(f.t, iter.Next()) {
		if !tablecodec.IsRecordKey(iter.Key()) {
			entries++
			continue
		}
		row, err := tablecodec.DecodeRowToDatumMap(iter.Value(), fields, time.UTC)
		require.NoError(f.t, err)
		var values []string
		for _, c := range f.table.Columns {
			if d, ok := row[c.ID]; ok {
				text, err := d.ToString()
				require.NoError(f.t, err)
				values = append(values, text)
			}
		}
		texts = append(texts, strings.Join(values, ","))
	}
	slices.Sort(texts)
	return texts, entries
}

// randomLines returns lines of a number and a string.
func randomLines(r *rand.Rand, n, long int) (lines []string) {
	for range n {
		lines = append(lines, fmt.Sprintf("%d,%s", r.Int32(), strings.Repeat("x", r.IntN(long))))
	}
	return lines
}

// Each row of many files is there once, with its entry, under a row ID of its own, although the load is interrupted and rows that were
// read before get other IDs.
func TestHiddenRowIDsOfManyFiles(t *testing.T) {
	r := randtest.Rand(t)
	for end := time.Now().Add(randtest.Time(t, 2*time.Second, time.Minute)); time.Now().Before(end); {
		var texts, want []string
		for range 8 {
			lines := randomLines(r, r.IntN(300), 1+r.IntN(200))
			want = append(want, lines...)
			texts = append(texts, strings.Join(lines, "\n"))
		}
		slices.Sort(want)
		f := newFilesFixture(t, "CREATE TABLE t (a INT, b VARCHAR(200), KEY (b), KEY (a, b))", texts...)
		f.opts.CheckpointInterval, f.opts.BatchRows, f.opts.MaxWorkers = time.Duration(1+r.IntN(1_000_000)), 1+r.IntN(100), 1+r.IntN(4)
		crash := fmt.Errorf("crash: %w", kv.ErrClosed) // which is not tried again
		keep := f.opts.SaveCheckpoint
		var result Result
		err := crash
		for runs := 0; errors.Is(err, crash); runs++ {
			var left atomic.Int64
			left.Store(1 << 60)
			if runs < 4 {
				left.Store(r.Int64N(8))
			}
			fail := func() error {
				if left.Add(-1) < 0 {
					return crash
				}
				return nil
			}
			f.opts.Store = &backfilltest.FaultyStore{Store: f.store, OnImport: func(int64) error { return fail() }}
			f.opts.SaveCheckpoint = func(ctx context.Context, data []byte) error {
				if err := fail(); err != nil {
					return err
				}
				return keep(ctx, data)
			}
			result, err = f.run()
		}
		require.NoError(t, err)
		got, entries := f.records()
		require.Equal(t, want, got)
		require.EqualValues(t, len(want), result.Rows)
		require.Equal(t, 2*len(want), entries)
		require.GreaterOrEqual(t, result.IDs.RowID, result.Rows)
	}
}

// The columns of a clustered primary key that are no single integer have statistics as those of any other index.
func TestStatisticsOfTheClusteredKey(t *testing.T) {
	f := newFilesFixture(t, "CREATE TABLE t (a INT, b VARCHAR(20), PRIMARY KEY (a, b) CLUSTERED)", "1,x\n1,y\n2,x\n")
	result, err := f.run()
	require.NoError(t, err)
	require.Len(t, f.table.Indices, 1)
	parts := result.Statistics[f.table.Indices[0].ID].Parts
	require.EqualValues(t, 3, parts[f.table.ID].Different)
}

// Duplicate rows of files are named with their lines.
func TestDuplicateLinesAreNamed(t *testing.T) {
	f := newFilesFixture(t, "CREATE TABLE t (id INT PRIMARY KEY, a INT, UNIQUE KEY u (a))", "1,10\n2,20\n3,30\n", "4,40\n5,20\n")
	_, err := f.run()
	require.ErrorContains(t, err, "Duplicate entry '20' for key 't.u'")
	require.ErrorContains(t, err, "0.csv, line 2")
	require.ErrorContains(t, err, "1.csv, line 2")
}

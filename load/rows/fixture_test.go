package rows

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/ddl"
	"github.com/pingcap/tidb/pkg/executor/importer"
	lkv "github.com/pingcap/tidb/pkg/lightning/backend/kv"
	"github.com/pingcap/tidb/pkg/lightning/common"
	"github.com/pingcap/tidb/pkg/meta/model"
	tidbparser "github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/table/tables"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/mock"
	"github.com/stretchr/testify/require"
)

// statement is an IMPORT INTO of a test.
type statement struct {
	create string // of the table
	// fields is what stands behind the table's name: columns, variables, SET.
	columns, set string
	format       string // csv if empty
	files        map[string]string
	path         string // a glob; * if empty
	plan         func(*importer.Plan)
	mode         mysql.SQLMode // the default if 0
	chunkBytes   int64
	ids          State
}

const defaultMode = mysql.ModeStrictTransTables | mysql.ModeNoZeroDate | mysql.ModeNoZeroInDate | mysql.ModeErrorForDivisionByZero | mysql.ModeNoEngineSubstitution

// newTable returns the definition that a CREATE TABLE makes.
func newTable(t testing.TB, create string) (*model.TableInfo, table.Table) {
	t.Helper()
	node, err := tidbparser.New().ParseOneStmt(create, "", "")
	require.NoError(t, err)
	ctx := mock.NewContext()
	ctx.GetSessionVars().SQLMode = 0
	info, err := ddl.MockTableInfo(ctx, node.(*ast.CreateTableStmt), 42)
	require.NoError(t, err)
	info.State = model.StatePublic
	for _, idx := range info.Indices {
		idx.State = model.StatePublic
	}
	tbl, err := tables.TableFromMeta(lkv.NewPanickingAllocators(info.SepAutoInc()), info)
	require.NoError(t, err)
	return info, tbl
}

// controller returns TiDB's plan of the statement, over files in a new folder.
func (s statement) controller(t testing.TB) (*importer.LoadDataController, *model.TableInfo) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range s.files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	info, tbl := newTable(t, s.create)
	charset := "utf8mb4"
	format := s.format
	if format == "" {
		format = importer.DataFormatCSV
	}
	path := s.path
	if path == "" {
		path = "*." + format
	}
	plan := &importer.Plan{
		DBName: "test", DBID: 1, TableInfo: info, DesiredTableInfo: info, Path: filepath.Join(dir, path), Format: format, Restrictive: true,
		FieldNullDef: []string{`\N`}, LineFieldsInfo: plannercore.LineFieldsInfo{FieldsTerminatedBy: ",", FieldsEnclosedBy: `"`, FieldsEscapedBy: `\`},
		SQLMode: s.mode, Charset: &charset, InImportInto: true, DataSourceType: importer.DataSourceTypeFile, ThreadCnt: 2,
		ImportantSysVars: map[string]string{"time_zone": "+00:00", "tidb_row_format_version": "2"},
	}
	if s.mode == 0 {
		plan.SQLMode = defaultMode
	}
	if s.plan != nil {
		s.plan(plan)
	}
	text := "import into t " + s.columns
	if s.set != "" {
		text += " set " + s.set
	}
	args, err := importer.ASTArgsFromStmt(text + " from '" + plan.Path + "'")
	require.NoError(t, err)
	c, err := importer.NewLoadDataController(plan, tbl, args)
	require.NoError(t, err)
	require.NoError(t, c.InitDataFiles(context.Background()))
	return c, info
}

func (s statement) tryOpen(t testing.TB) (*Source, error) {
	t.Helper()
	c, info := s.controller(t)
	source, err := newSource(c, info)
	require.NoError(t, err)
	if s.chunkBytes > 0 {
		source.chunkBytes = s.chunkBytes
	}
	return source, source.open(context.Background())
}

func (s statement) open(t testing.TB) *Source {
	t.Helper()
	source, err := s.tryOpen(t)
	require.NoError(t, err)
	return source
}

// read returns all rows, in the order of chunks.
func (s statement) read(t testing.TB) []string {
	t.Helper()
	rows, err := s.tryRead(t)
	require.NoError(t, err)
	return rows
}

// tryRead returns the rows before the first error.
func (s statement) tryRead(t testing.TB) ([]string, error) {
	t.Helper()
	source, err := s.tryOpen(t)
	if err != nil {
		return nil, err
	}
	return readChunks(t, source, NewIDs(s.ids))
}

func readChunks(t testing.TB, source *Source, ids *IDs) (rows []string, err error) {
	for _, c := range source.Chunks() {
		some, err := readChunk(t, source, c, ids)
		rows = append(rows, some...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

func readChunk(t testing.TB, source *Source, c Chunk, ids *IDs) (rows []string, err error) {
	t.Helper()
	ctx := context.Background()
	r, err := source.NewReader(ctx, c, ids)
	if err != nil {
		return nil, err
	}
	defer func() { require.NoError(t, r.Close()) }()
	for {
		pairs, err := r.Next(ctx)
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		rows = append(rows, rowText(t, source.table, pairs))
	}
}

// rowText writes the columns of the record among the pairs of a row.
func rowText(t testing.TB, info *model.TableInfo, pairs []common.KvPair) string {
	t.Helper()
	for _, pair := range pairs {
		if !tablecodec.IsRecordKey(pair.Key) {
			continue
		}
		_, handle, err := tablecodec.DecodeRecordKey(pair.Key)
		require.NoError(t, err)
		fields := make(map[int64]*types.FieldType)
		for _, c := range info.Columns {
			fields[c.ID] = &c.FieldType
		}
		row, err := tablecodec.DecodeRowToDatumMap(pair.Val, fields, time.UTC)
		require.NoError(t, err)
		var pk []int64
		if info.PKIsHandle {
			pk = []int64{info.GetPkColInfo().ID}
		} else if info.IsCommonHandle {
			for _, c := range tables.FindPrimaryIndex(info).Columns {
				pk = append(pk, info.Columns[c.Offset].ID)
			}
		}
		if pk != nil {
			row, err = tablecodec.DecodeHandleToDatumMap(handle, pk, fields, time.UTC, row)
			require.NoError(t, err)
		}
		var texts []string
		for _, c := range info.Columns {
			d, ok := row[c.ID]
			switch {
			case !ok || d.IsNull():
				texts = append(texts, "NULL")
			default:
				text, err := d.ToString()
				require.NoError(t, err)
				texts = append(texts, text)
			}
		}
		return strings.Join(texts, "|")
	}
	t.Fatal("a row without a record")
	return ""
}

// requireCode fails unless err has one of TiDB's errors in it with this code.
func requireCode(t testing.TB, code int, err error) {
	t.Helper()
	require.Error(t, err)
	var coded *terror.Error
	require.ErrorAs(t, err, &coded, "%v", err)
	require.Equal(t, code, int(terror.ToSQLError(coded).Code), "%v", err)
}

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

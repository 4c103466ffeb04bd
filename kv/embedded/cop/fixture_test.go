package cop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/tidb/pkg/expression"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"
)

const fixtureTable = 77

// fixture is a table (id bigint primary key, a bigint, v varchar(20)) with an index on a, in memory. Row id has a = id % 10,
// v = "v<id>".
type fixture struct {
	t      testing.TB
	reader *memReader
	dag    *tipb.DAGRequest
	ranges []*coprocessor.KeyRange
}

var fixtureColumns = []*tipb.ColumnInfo{
	{ColumnId: 1, Tp: int32(mysql.TypeLonglong), Flag: int32(mysql.PriKeyFlag | mysql.NotNullFlag), PkHandle: true, ColumnLen: 20, Collation: -63},
	{ColumnId: 2, Tp: int32(mysql.TypeLonglong), ColumnLen: 20, Collation: -63},
	{ColumnId: 3, Tp: int32(mysql.TypeVarchar), ColumnLen: 20, Collation: -46},
}

func newFixture(t testing.TB, rows int) *fixture {
	collate.SetNewCollationEnabledForTest(true)
	f := &fixture{t: t, reader: &memReader{}}
	enc := rowcodec.Encoder{Enable: true}
	for id := range rows {
		handle := tidbkv.IntHandle(id)
		values := []types.Datum{types.NewIntDatum(int64(id % 10)), types.NewStringDatum(fmt.Sprintf("v%d", id))}
		row, err := enc.Encode(time.UTC, []int64{2, 3}, values, nil, nil)
		require.NoError(t, err)
		f.reader.put(tablecodec.EncodeRowKeyWithHandle(fixtureTable, handle), row)
		entry, err := codec.EncodeKey(time.UTC, nil, values[0], types.NewIntDatum(int64(id)))
		require.NoError(t, err)
		f.reader.put(tablecodec.EncodeIndexSeekKey(fixtureTable, 1, entry), []byte{'0'})
	}
	f.reader.sort()
	f.dag = &tipb.DAGRequest{EncodeType: tipb.EncodeType_TypeChunk, Flags: model.FlagInSelectStmt | model.FlagTruncateAsWarning}
	f.dag.Executors = []*tipb.Executor{{
		Tp:      tipb.ExecType_TypeTableScan,
		TblScan: &tipb.TableScan{TableId: fixtureTable, Columns: fixtureColumns},
	}}
	f.dag.OutputOffsets = []uint32{0, 1, 2}
	prefix := tablecodec.GenTableRecordPrefix(fixtureTable)
	f.ranges = []*coprocessor.KeyRange{{Start: prefix, End: prefix.PrefixNext()}}
	return f
}

// useIndex makes the request read the index, columns (a, id).
func (f *fixture) useIndex() {
	f.dag.Executors[0] = &tipb.Executor{
		Tp:      tipb.ExecType_TypeIndexScan,
		IdxScan: &tipb.IndexScan{TableId: fixtureTable, IndexId: 1, Columns: []*tipb.ColumnInfo{fixtureColumns[1], fixtureColumns[0]}},
	}
	f.dag.OutputOffsets = []uint32{0, 1}
	prefix := tablecodec.EncodeTableIndexPrefix(fixtureTable, 1)
	f.ranges = []*coprocessor.KeyRange{{Start: prefix, End: prefix.PrefixNext()}}
}

func (f *fixture) then(e *tipb.Executor) *fixture {
	f.dag.Executors = append(f.dag.Executors, e)
	return f
}

func (f *fixture) request() *coprocessor.Request {
	data, err := f.dag.Marshal()
	require.NoError(f.t, err)
	return &coprocessor.Request{Tp: tidbkv.ReqTypeDAG, Data: data, Ranges: f.ranges, StartTs: 1}
}

// run answers the request, which must succeed.
func (f *fixture) run() *tipb.SelectResponse {
	f.t.Helper()
	return f.answer(Handle(context.Background(), f.reader, f.request()))
}

func (f *fixture) answer(resp *coprocessor.Response) *tipb.SelectResponse {
	f.t.Helper()
	require.Empty(f.t, resp.OtherError)
	require.Nil(f.t, resp.Locked)
	answer := &tipb.SelectResponse{}
	require.NoError(f.t, answer.Unmarshal(resp.Data))
	return answer
}

// rows decodes an answer. Each row is a string: its values, each followed by |.
func (f *fixture) rows(answer *tipb.SelectResponse) []string {
	f.t.Helper()
	require.Nil(f.t, answer.Error)
	run, err := newDAGRun(nil, f.request(), f.dag, Page{})
	require.NoError(f.t, err)
	var rows []string
	for _, row := range decodeRows(run, 0, answer) {
		text := ""
		for _, d := range row {
			s, err := d.ToString()
			if d.IsNull() {
				s, err = "NULL", nil
			}
			require.NoError(f.t, err)
			text += s + "|"
		}
		rows = append(rows, text)
	}
	return rows
}

// The expressions of the fixture's requests.

func bigint() *tipb.FieldType {
	return expression.ToPBFieldType(types.NewFieldType(mysql.TypeLonglong))
}

func columnRef(i int) *tipb.Expr {
	ft := fieldType(fixtureColumns[i])
	return &tipb.Expr{Tp: tipb.ExprType_ColumnRef, Val: codec.EncodeInt(nil, int64(i)), FieldType: expression.ToPBFieldType(ft)}
}

func integer(v int64) *tipb.Expr {
	return &tipb.Expr{Tp: tipb.ExprType_Int64, Val: codec.EncodeInt(nil, v), FieldType: bigint()}
}

func call(sig tipb.ScalarFuncSig, args ...*tipb.Expr) *tipb.Expr {
	return &tipb.Expr{Tp: tipb.ExprType_ScalarFunc, Sig: sig, Children: args, FieldType: bigint()}
}

func where(conditions ...*tipb.Expr) *tipb.Executor {
	return &tipb.Executor{Tp: tipb.ExecType_TypeSelection, Selection: &tipb.Selection{Conditions: conditions}}
}

func limitTo(n uint64, partitionBy ...*tipb.ByItem) *tipb.Executor {
	return &tipb.Executor{Tp: tipb.ExecType_TypeLimit, Limit: &tipb.Limit{Limit: n, PartitionBy: partitionBy}}
}

func countBy(groupBy ...*tipb.Expr) *tipb.Executor {
	count := &tipb.Expr{Tp: tipb.ExprType_Count, Children: []*tipb.Expr{integer(1)}, FieldType: bigint()}
	return &tipb.Executor{Tp: tipb.ExecType_TypeAggregation, Aggregation: &tipb.Aggregation{AggFunc: []*tipb.Expr{count}, GroupBy: groupBy}}
}

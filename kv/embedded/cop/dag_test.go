package cop

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/tidb/pkg/errno"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

func TestScans(t *testing.T) {
	f := newFixture(t, 3)
	require.Equal(t, []string{"0|0|v0|", "1|1|v1|", "2|2|v2|"}, f.rows(f.run()))
	f.dag.Executors[0].TblScan.Desc = true
	f.dag.OutputOffsets = []uint32{2, 0, 2}
	require.Equal(t, []string{"v2|2|v2|", "v1|1|v1|", "v0|0|v0|"}, f.rows(f.run()))
	f.dag.EncodeType = tipb.EncodeType_TypeDefault
	require.Equal(t, []string{"v2|2|v2|", "v1|1|v1|", "v0|0|v0|"}, f.rows(f.run()))

	f = newFixture(t, 12)
	f.useIndex()
	f.then(where(call(tipb.ScalarFuncSig_LTInt, columnRef(0), integer(2))))
	f.dag.Executors[1].Selection.Conditions[0].Children[0].FieldType = bigint()
	require.Equal(t, []string{"0|0|", "0|10|", "1|1|", "1|11|"}, f.rows(f.run()))
}

// TestPointRanges makes sure that a range which can hold one key is read as such, and one that only looks like it is not.
func TestPointRanges(t *testing.T) {
	f := newFixture(t, 30)
	f.ranges = nil
	for _, id := range []int64{3, 50, 7} {
		key := tablecodec.EncodeRowKeyWithHandle(fixtureTable, tidbkv.IntHandle(id))
		f.ranges = append(f.ranges, &coprocessor.KeyRange{Start: key, End: key.PrefixNext()})
	}
	require.Equal(t, []string{"3|3|v3|", "7|7|v7|"}, f.rows(f.run()))
	require.EqualValues(t, 3, f.reader.gets.Load())
	require.Zero(t, f.reader.scans.Load())

	// With an encoded handle the same range may hold longer keys.
	f.dag.Executors[0].TblScan.PrimaryColumnIds = []int64{1}
	ranges, err := scanRanges(f.ranges, true, noPoints)
	require.NoError(t, err)
	require.False(t, ranges[0].point)
	require.Equal(t, f.ranges[2].Start, ranges[0].start, "the last range comes first")
}

// TestPages reads the whole table page by page, in both directions and with all kinds of executors.
func TestPages(t *testing.T) {
	rnd := rand.New(rand.NewSource(int64(randtest.Seed(t))))
	for range 200 {
		f := newFixture(t, rnd.Intn(400))
		if rnd.Intn(2) == 0 {
			f.useIndex()
		}
		desc := rnd.Intn(2) == 0
		if s := f.dag.Executors[0]; s.Tp == tipb.ExecType_TypeTableScan {
			s.TblScan.Desc = desc
			f.splitRanges(rnd)
		} else {
			s.IdxScan.Desc = desc
		}
		if rnd.Intn(2) == 0 {
			f.then(where(call(tipb.ScalarFuncSig_LTInt, columnRef(1), integer(int64(rnd.Intn(8))))))
		}
		whole := f.rows(f.run())
		size := 1 + rnd.Intn(150)
		pages := f.pages(uint64(size), desc, 1000)
		for _, page := range pages {
			require.LessOrEqual(t, len(page), size+maxBatch)
		}
		require.Equal(t, whole, slices.Concat(pages...))
	}
}

// pages answers the request page by page; there have to be no more than most.
func (f *fixture) pages(size uint64, desc bool, most int) (pages [][]string) {
	f.t.Helper()
	req := f.request()
	req.PagingSize = size
	for len(req.Ranges) > 0 {
		require.Less(f.t, len(pages), most)
		resp := Handle(context.Background(), f.reader, req)
		pages = append(pages, f.rows(f.answer(resp)))
		req.Ranges = remaining(req.Ranges, resp.Range, desc)
	}
	return pages
}

// TestPagesOfGroups reads what an aggregation or a TopN makes of many rows page by page: nothing
// that was read is lost.
func TestPagesOfGroups(t *testing.T) {
	const rows = 5000
	executors := map[string]func() *tipb.Executor{
		"hash":   func() *tipb.Executor { return countBy(columnRef(0)) },
		"stream": func() *tipb.Executor { e := countBy(columnRef(0)); e.Tp = tipb.ExecType_TypeStreamAgg; return e },
	}
	for _, limit := range []uint64{1024, 1025, 3000} {
		executors[fmt.Sprintf("top %d", limit)] = func() *tipb.Executor {
			return &tipb.Executor{Tp: tipb.ExecType_TypeTopN, TopN: &tipb.TopN{Limit: limit, OrderBy: []*tipb.ByItem{{Expr: columnRef(0), Desc: true}}}}
		}
	}
	for name, executor := range executors {
		for _, page := range []uint64{1, 128, 1000, 1024, 1025, 2000} {
			f := newFixture(t, rows).then(executor())
			grouped := f.dag.Executors[1].TopN == nil
			if grouped {
				f.dag.OutputOffsets = []uint32{1, 0}
			}
			whole := f.rows(f.run())
			if grouped {
				require.Len(t, whole, rows)
			}
			require.ElementsMatch(t, whole, slices.Concat(f.pages(page, false, rows+1)...), "%s in pages of %d", name, page)
		}
	}
}

// splitRanges cuts the range of the table at random rows.
func (f *fixture) splitRanges(rnd *rand.Rand) {
	end := f.ranges[0].End
	for id := rnd.Intn(100); id < 400; id += 1 + rnd.Intn(100) {
		key := tablecodec.EncodeRowKeyWithHandle(fixtureTable, tidbkv.IntHandle(id))
		f.ranges[len(f.ranges)-1].End = key
		f.ranges = append(f.ranges, &coprocessor.KeyRange{Start: key.Next(), End: end})
	}
}

func TestLimitReadsNoMoreThanItNeeds(t *testing.T) {
	f := newFixture(t, 5000).then(limitTo(3))
	resp := Handle(context.Background(), f.reader, f.request())
	require.Len(t, f.rows(f.answer(resp)), 3)
	require.EqualValues(t, 3, resp.ExecDetailsV2.ScanDetailV2.ProcessedVersions)

	f = newFixture(t, 5000).then(where(call(tipb.ScalarFuncSig_GEInt, columnRef(0), integer(40)))).then(limitTo(3))
	resp = Handle(context.Background(), f.reader, f.request())
	require.Equal(t, []string{"40|0|v40|", "41|1|v41|", "42|2|v42|"}, f.rows(f.answer(resp)))
	require.Less(t, resp.ExecDetailsV2.ScanDetailV2.ProcessedVersions, uint64(200))
}

// TestPartitions limits the rows of each value of the index.
// TestNothingIsLeft: a page after which there is nothing to read has no range to go on from. With one, clients ask again.
func TestNothingIsLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		rows     int
		executor *tipb.Executor
		left     bool
	}{
		"limit in the first batch":   {5000, limitTo(3), false},
		"limit in a later batch":     {5000, limitTo(140), false},
		"limit is all rows":          {100, limitTo(100), false},
		"limit of each group":        {5000, limitTo(3, &tipb.ByItem{Expr: columnRef(0)}), true},
		"condition":                  {5000, where(columnRef(0)), true},
		"condition, to the end":      {100, where(columnRef(0)), false},
		"aggregation":                {5000, countBy(columnRef(1)), false},
		"limit that was not reached": {100, limitTo(200), false},
	} {
		f := newFixture(t, tc.rows).then(tc.executor)
		if tc.executor.Aggregation != nil {
			f.dag.OutputOffsets = []uint32{0, 1}
		}
		req := f.request()
		req.PagingSize = 150
		resp := Handle(context.Background(), f.reader, req)
		f.answer(resp)
		require.Equal(t, tc.left, resp.Range != nil, name)
	}
}

func TestPartitions(t *testing.T) {
	by := &tipb.ByItem{Expr: &tipb.Expr{Tp: tipb.ExprType_ColumnRef, Val: columnRef(0).Val, FieldType: bigint()}}
	byID := &tipb.ByItem{Expr: &tipb.Expr{Tp: tipb.ExprType_ColumnRef, Val: columnRef(1).Val, FieldType: bigint()}, Desc: true}
	for _, rows := range []int{30, 30_000} {
		var first, last []string
		for a := range 10 {
			first = append(first, fmt.Sprintf("%d|%d|", a, a), fmt.Sprintf("%d|%d|", a, a+10))
			last = append(last, fmt.Sprintf("%d|%d|", a, rows-10+a), fmt.Sprintf("%d|%d|", a, rows-20+a))
		}
		f := newFixture(t, rows)
		f.useIndex()
		f.then(limitTo(2, by))
		require.Equal(t, first, f.rows(f.run()))
		f.dag.Executors[1] = &tipb.Executor{
			Tp:   tipb.ExecType_TypeTopN,
			TopN: &tipb.TopN{Limit: 2, OrderBy: []*tipb.ByItem{byID}, PartitionBy: []*tipb.ByItem{by}},
		}
		require.Equal(t, last, f.rows(f.run()))
	}
}

func TestTopNKeepsTheFirst(t *testing.T) {
	f := newFixture(t, 20_000)
	f.then(&tipb.Executor{Tp: tipb.ExecType_TypeTopN, TopN: &tipb.TopN{Limit: 1500, OrderBy: []*tipb.ByItem{
		{Expr: call(tipb.ScalarFuncSig_UnaryMinusInt, columnRef(1))}, {Expr: columnRef(0), Desc: true},
	}}})
	rows := f.rows(f.run())
	require.Len(t, rows, 1500)
	for i, row := range rows {
		id := 19_999 - 10*i
		require.Equal(t, fmt.Sprintf("%d|9|v%d|", id, id), row)
	}
}

func TestAggregates(t *testing.T) {
	f := newFixture(t, 25_000).then(countBy(columnRef(1)))
	f.dag.OutputOffsets = []uint32{0, 1}
	var want []string
	for a := range 10 {
		want = append(want, fmt.Sprintf("2500|%d|", a))
	}
	require.Equal(t, want, f.rows(f.run()))

	// Many groups, all and one after the other.
	for _, tp := range []tipb.ExecType{tipb.ExecType_TypeAggregation, tipb.ExecType_TypeStreamAgg} {
		f = newFixture(t, 5000).then(countBy(columnRef(0)))
		f.dag.Executors[1].Tp = tp
		f.dag.OutputOffsets = []uint32{1, 0}
		rows := f.rows(f.run())
		require.Len(t, rows, 5000)
		for i, row := range rows {
			require.Equal(t, fmt.Sprintf("%d|1|", i), row)
		}
	}

	// No rows, no partial result.
	f = newFixture(t, 0).then(countBy())
	f.dag.OutputOffsets = []uint32{0}
	require.Empty(t, f.rows(f.run()))
}

func TestExecutorTree(t *testing.T) {
	f := newFixture(t, 100)
	cond := call(tipb.ScalarFuncSig_LTInt, columnRef(0), integer(50))
	f.dag.RootExecutor = countBy(columnRef(1))
	f.dag.RootExecutor.Aggregation.Child = where(cond)
	f.dag.RootExecutor.Aggregation.Child.Selection.Child = f.dag.Executors[0]
	f.dag.Executors = nil
	f.dag.OutputOffsets = []uint32{0, 1}
	rows := f.rows(f.run())
	require.Len(t, rows, 10)
	require.Equal(t, "5|0|", rows[0])
}

func TestSummaries(t *testing.T) {
	f := newFixture(t, 3000).then(where(call(tipb.ScalarFuncSig_LTInt, columnRef(1), integer(5)))).then(countBy(columnRef(1)))
	f.dag.OutputOffsets = []uint32{0, 1}
	collect, id := true, "scan"
	f.dag.CollectExecutionSummaries, f.dag.CollectRangeCounts = &collect, &collect
	f.dag.Executors[0].ExecutorId = &id
	answer := f.run()
	require.Len(t, answer.ExecutionSummaries, 3)
	for i, rows := range []uint64{3000, 1500, 5} {
		s := answer.ExecutionSummaries[i]
		require.Equal(t, rows, s.GetNumProducedRows())
		require.NotZero(t, s.GetTimeProcessedNs())
		require.NotZero(t, s.GetNumIterations())
		if i > 0 {
			require.GreaterOrEqual(t, s.GetTimeProcessedNs(), answer.ExecutionSummaries[i-1].GetTimeProcessedNs())
		}
	}
	require.Equal(t, "scan", answer.ExecutionSummaries[0].GetExecutorId())
	require.Equal(t, []int64{3000}, answer.OutputCounts)
}

func TestEvaluationErrorHasItsNumber(t *testing.T) {
	f := newFixture(t, 10).then(where(call(tipb.ScalarFuncSig_MultiplyInt, columnRef(0), integer(1<<62))))
	answer := f.run()
	require.EqualValues(t, errno.ErrDataOutOfRange, answer.Error.Code)
	require.Contains(t, answer.Error.Msg, "BIGINT value is out of range")
	require.Empty(t, answer.Chunks)
}

// TestWarnings casts strings to numbers: each row has a warning that quotes its own value, although the chunk that held the
// value was used again.
func TestWarnings(t *testing.T) {
	f := newFixture(t, 4000).then(where(call(tipb.ScalarFuncSig_CastStringAsInt, columnRef(2))))
	most := uint64(20)
	f.dag.MaxWarningCount = &most
	answer := f.run()
	require.Empty(t, f.rows(answer))
	require.EqualValues(t, 4000, answer.GetWarningCount())
	require.Len(t, answer.Warnings, 20)
	for i, w := range answer.Warnings {
		require.EqualValues(t, errno.ErrTruncatedWrongValue, w.Code)
		require.Contains(t, w.Msg, fmt.Sprintf("'v%d'", i))
	}
	f.dag.Flags = 0
	require.EqualValues(t, errno.ErrTruncatedWrongValue, f.run().Error.Code)
}

// TestDivisionByZero is a warning or an error, or nothing in DML without ERROR_FOR_DIVISION_BY_ZERO.
func TestDivisionByZero(t *testing.T) {
	const (
		warning  = model.FlagDividedByZeroAsWarning
		truncate = model.FlagTruncateAsWarning
	)
	for _, tc := range []struct {
		name     string
		flags    uint64
		warnings uint64
		code     int32
	}{
		{"SELECT", model.FlagInSelectStmt | truncate | warning, 10, 0},
		{"strict UPDATE", model.FlagInUpdateOrDeleteStmt, 0, errno.ErrDivisionByZero},
		{"strict INSERT", model.FlagInInsertStmt, 0, errno.ErrDivisionByZero},
		{"strict UPDATE without ERROR_FOR_DIVISION_BY_ZERO", model.FlagInUpdateOrDeleteStmt | warning, 0, 0},
		{"strict INSERT without ERROR_FOR_DIVISION_BY_ZERO", model.FlagInInsertStmt | warning, 0, 0},
		{"UPDATE IGNORE", model.FlagInUpdateOrDeleteStmt | truncate | warning, 10, 0},
		{"another statement", warning, 10, 0},
	} {
		f := newFixture(t, 100).then(where(call(tipb.ScalarFuncSig_ModIntSignedSigned, columnRef(0), columnRef(1))))
		f.dag.Flags = tc.flags
		answer := f.run()
		require.Equal(t, tc.code, answer.GetError().GetCode(), tc.name)
		require.Equal(t, tc.warnings, uint64(answer.GetWarningCount()), tc.name)
	}
}

func TestLocks(t *testing.T) {
	f := newFixture(t, 500)
	locked := tablecodec.EncodeRowKeyWithHandle(fixtureTable, tidbkv.IntHandle(300))
	f.reader.lockedKey = locked
	requests := map[string]*coprocessor.Request{"scan": f.request()}
	f.ranges = []*coprocessor.KeyRange{{Start: locked, End: locked.PrefixNext()}}
	requests["point"] = f.request()
	checksum, err := (&tipb.ChecksumRequest{}).Marshal()
	require.NoError(t, err)
	requests["checksum"] = &coprocessor.Request{Tp: tidbkv.ReqTypeChecksum, Data: checksum, Ranges: f.ranges}
	analyze, err := (&tipb.AnalyzeReq{
		Tp: tipb.AnalyzeType_TypeFullSampling, ColReq: &tipb.AnalyzeColumnsReq{ColumnsInfo: fixtureColumns, SampleSize: 10, SketchSize: 10},
	}).Marshal()
	require.NoError(t, err)
	requests["analyze"] = &coprocessor.Request{Tp: tidbkv.ReqTypeAnalyze, Data: analyze, Ranges: f.ranges}
	for name, req := range requests {
		resp := Handle(context.Background(), f.reader, req)
		require.NotNil(t, resp.Locked, name)
		require.Equal(t, []byte(locked), resp.Locked.Key, name)
		require.Empty(t, resp.OtherError, name)
		require.Empty(t, resp.Data, name)
	}
}

func TestCancelEndsScan(t *testing.T) {
	f := newFixture(t, 100_000)
	ctx, cancel := context.WithCancel(context.Background())
	read := 0
	f.reader.onPair = func() {
		if read++; read == 5000 {
			cancel()
		}
	}
	resp := Handle(ctx, f.reader, f.request())
	require.Contains(t, resp.OtherError, context.Canceled.Error())
	require.Less(t, read, 10_000)
}

type failingReader struct{ Reader }

func (failingReader) Scan(context.Context, []byte, []byte, bool, func(key, value []byte) (bool, error)) error {
	return errors.New("disk on fire")
}

func TestReadErrorIsNoAnswer(t *testing.T) {
	f := newFixture(t, 10)
	resp := Handle(context.Background(), failingReader{f.reader}, f.request())
	require.Contains(t, resp.OtherError, "disk on fire")
	f.reader.values[len(f.reader.values)-1] = []byte{128, 0} // half a row
	resp = Handle(context.Background(), f.reader, f.request())
	require.NotEmpty(t, resp.OtherError)
}

// TestNonsense sends requests that no client sends.
func TestNonsense(t *testing.T) {
	rnd := rand.New(rand.NewSource(int64(randtest.Seed(t))))
	f := newFixture(t, 10).then(where(call(tipb.ScalarFuncSig_LTInt, columnRef(0), integer(50)))).then(countBy(columnRef(1)))
	good := f.request()
	for range 3000 {
		req := *good
		req.Tp = int64(100 + rnd.Intn(8))
		req.Data = append([]byte(nil), good.Data...)
		for range 1 + rnd.Intn(4) {
			req.Data[rnd.Intn(len(req.Data))] = byte(rnd.Intn(256))
		}
		require.NotNil(t, Handle(context.Background(), f.reader, &req))
	}
	good.Ranges = nil
	require.NotEmpty(t, Handle(context.Background(), f.reader, good).OtherError)
}

func TestBatch(t *testing.T) {
	f := newFixture(t, 100)
	req := f.request()
	key := func(id int64) []byte { return tablecodec.EncodeRowKeyWithHandle(fixtureTable, tidbkv.IntHandle(id)) }
	req.PagingSize = 1
	req.Tasks = []*coprocessor.StoreBatchTask{
		{TaskId: 5, RegionId: 1, Ranges: []*coprocessor.KeyRange{{Start: key(10), End: key(60)}}},
		{TaskId: 6, RegionId: 2, Ranges: []*coprocessor.KeyRange{{Start: key(60), End: key(70)}}},
	}
	answers := HandleBatch(context.Background(), req, func(task *coprocessor.StoreBatchTask) (Reader, *errorpb.Error) {
		if task.RegionId == 2 {
			return nil, &errorpb.Error{Message: "moved"}
		}
		return f.reader, nil
	})
	require.Len(t, answers, 2)
	require.EqualValues(t, 5, answers[0].TaskId)
	require.Len(t, f.rows(f.answer(&coprocessor.Response{Data: answers[0].Data})), 50)
	require.EqualValues(t, 6, answers[1].TaskId)
	require.Equal(t, "moved", answers[1].RegionError.Message)
}

func TestSupports(t *testing.T) {
	require.True(t, Supports(tidbkv.ReqTypeDAG, int64(tipb.ExprType_MysqlTime)))
	require.True(t, Supports(tidbkv.ReqTypeSelect, int64(tipb.ExprType_Sum)))
	require.True(t, Supports(tidbkv.ReqTypeSelect, tidbkv.ReqSubTypeTopN))
	require.True(t, Supports(tidbkv.ReqTypeDAG, tidbkv.ReqSubTypeSignature))
	require.True(t, Supports(tidbkv.ReqTypeAnalyze, 0))
	require.False(t, Supports(tidbkv.ReqTypeSelect, int64(tipb.ExprType_RowNumber)))
	require.False(t, Supports(tidbkv.ReqTypeSelect, int64(tipb.ExprType_GroupConcat)))
	require.False(t, Supports(42, 0))
}

// TestHandleIsTheKeys: MODIFY COLUMN rewrites rows with all their columns, in the types of these. Of the handle only the key
// is read, as any requested type, in both formats of rows.
func TestHandleIsTheKeys(t *testing.T) {
	const id = 3019922805 // of an INT UNSIGNED, of which the row has four bytes
	values := []types.Datum{types.NewUintDatum(id), types.NewIntDatum(5), types.NewStringDatum("v")}
	for name, enc := range map[string]*rowcodec.Encoder{"new": {Enable: true}, "old": {}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 0)
			row, err := tablecodec.EncodeRow(time.UTC, values, []int64{1, 2, 3}, nil, nil, rowcodec.NoChecksum{}, enc)
			require.NoError(t, err)
			f.reader.put(tablecodec.EncodeRowKeyWithHandle(fixtureTable, tidbkv.IntHandle(id)), row)
			require.Equal(t, []string{"3019922805|5|v|"}, f.rows(f.run()))
		})
	}
}

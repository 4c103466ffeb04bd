package cop

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/log"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"
)

// fuzzRows is the number of rows of the fixture's table when requests are fuzzed.
const fuzzRows = 40

// seedRequests are valid requests of all kinds.
func seedRequests(t testing.TB) (requests []*coprocessor.Request) {
	add := func(change func(f *fixture)) {
		f := newFixture(t, fuzzRows)
		change(f)
		requests = append(requests, f.request())
	}
	add(func(*fixture) {})
	add(func(f *fixture) { f.useIndex() })
	add(func(f *fixture) {
		f.then(where(call(tipb.ScalarFuncSig_LTInt, columnRef(0), integer(7)))).then(limitTo(3))
	})
	add(func(f *fixture) { f.useIndex(); f.then(limitTo(5, &tipb.ByItem{Expr: columnRef(0)})) })
	add(func(f *fixture) { f.then(countBy(columnRef(1))); f.dag.OutputOffsets = []uint32{0, 1} })
	add(func(f *fixture) {
		greatest := &tipb.Expr{Tp: tipb.ExprType_Max, Children: []*tipb.Expr{columnRef(1)}, FieldType: bigint()}
		f.then(&tipb.Executor{Tp: tipb.ExecType_TypeStreamAgg, Aggregation: &tipb.Aggregation{AggFunc: []*tipb.Expr{greatest}}})
		f.dag.OutputOffsets = []uint32{0}
	})
	add(func(f *fixture) {
		f.then(&tipb.Executor{Tp: tipb.ExecType_TypeTopN, TopN: &tipb.TopN{Limit: 4, OrderBy: []*tipb.ByItem{{Expr: columnRef(2), Desc: true}}}})
	})
	add(func(f *fixture) {
		f.then(&tipb.Executor{Tp: tipb.ExecType_TypeProjection, Projection: &tipb.Projection{
			Exprs: []*tipb.Expr{call(tipb.ScalarFuncSig_PlusInt, columnRef(0), columnRef(1)), columnRef(2)}}})
		f.dag.OutputOffsets = []uint32{1, 0}
		f.dag.EncodeType = tipb.EncodeType_TypeDefault
	})
	return append(requests, seedStatistics(t)...)
}

// seedStatistics are requests for statistics and checksums.
func seedStatistics(t testing.TB) (requests []*coprocessor.Request) {
	prefix := tablecodec.GenTableRecordPrefix(fixtureTable)
	ranges := []*coprocessor.KeyRange{{Start: prefix, End: prefix.PrefixNext()}}
	collate.SetNewCollationEnabledForTest(true)
	size := int32(8)
	for tp, message := range map[int64]interface{ Marshal() ([]byte, error) }{
		tidbkv.ReqTypeAnalyze: &tipb.AnalyzeReq{Tp: tipb.AnalyzeType_TypeFullSampling, ColReq: &tipb.AnalyzeColumnsReq{
			ColumnsInfo: fixtureColumns, SampleSize: 5, SketchSize: 10, BucketSize: 4, CmsketchDepth: &size, CmsketchWidth: &size}},
		tidbkv.ReqTypeChecksum: &tipb.ChecksumRequest{ScanOn: tipb.ChecksumScanOn_Table, Algorithm: tipb.ChecksumAlgorithm_Crc64_Xor},
	} {
		data, err := message.Marshal()
		require.NoError(t, err)
		requests = append(requests, &coprocessor.Request{Tp: tp, Data: data, Ranges: ranges, StartTs: 1})
	}
	return requests
}

// TestSeedRequestsAreAnswered: what fuzzing begins with are requests that work.
func TestSeedRequestsAreAnswered(t *testing.T) {
	reader := newFixture(t, fuzzRows).reader
	for _, req := range seedRequests(t) {
		resp := Handle(context.Background(), reader, req)
		require.Empty(t, resp.OtherError)
		require.NotEmpty(t, resp.Data)
	}
}

// FuzzHandle: any request gets an answer in time, and the next one is answered as
// before.
func FuzzHandle(f *testing.F) {
	log.SetLevel(zapcore.FatalLevel) // panics inside are logged, and contained
	reader := newFixture(f, fuzzRows).reader
	seeds := seedRequests(f)
	for _, req := range seeds {
		f.Add(req.Tp, req.Data, []byte(req.Ranges[0].Start), []byte(req.Ranges[0].End), uint64(0))
		f.Add(req.Tp, req.Data, []byte(req.Ranges[0].Start), []byte(req.Ranges[0].End), uint64(3))
	}
	want := Handle(context.Background(), reader, seeds[0]).Data
	f.Fuzz(func(t *testing.T, tp int64, data, start, end []byte, paging uint64) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		resp := Handle(ctx, reader, &coprocessor.Request{
			Tp: tp, Data: data, Ranges: []*coprocessor.KeyRange{{Start: start, End: end}}, PagingSize: paging, StartTs: 1,
		})
		require.NotNil(t, resp)
		require.NoError(t, ctx.Err(), "took too long")
		require.True(t, bytes.Equal(want, Handle(context.Background(), reader, seeds[0]).Data), "a request has changed the answer to others")
	})
}

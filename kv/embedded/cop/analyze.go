package cop

import (
	"context"
	"fmt"
	"math/rand"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/sessionctx/stmtctx"
	"github.com/pingcap/tidb/pkg/statistics"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/pingcap/tipb/go-tipb"
)

// handleAnalyze answers an ANALYZE request with statistics of the request's ranges. The statistics themselves are made by
// TiDB's package, which also merges them.
func handleAnalyze(ctx context.Context, r Reader, req *coprocessor.Request, page Page) *coprocessor.Response {
	begin := time.Now()
	pb := &tipb.AnalyzeReq{}
	if err := pb.Unmarshal(req.Data); err != nil {
		return failed(fmt.Errorf("analyze request: %w", err))
	}
	sc := stmtctx.NewStmtCtx()
	sc.InitFromPBFlagAndTz(pb.Flags, time.FixedZone("UTC", int(pb.TimeZoneOffset)))
	ranges, err := scanRanges(req.Ranges, false, noPoints)
	if err != nil {
		return failed(err)
	}
	a := &analysis{ctx: ctx, sc: sc, req: pb, ranges: req.Ranges, reader: &countingReader{Reader: r}}
	a.rows = &rowSource{ctx: ctx, reader: a.reader, ranges: ranges}
	if page.Rest != nil {
		a.page = page.bytes()
	}
	answer, err := a.run()
	if err != nil {
		return failed(err)
	}
	data, err := answer.Marshal()
	if err != nil {
		return failed(fmt.Errorf("encode the answer: %w", err))
	}
	resp := &coprocessor.Response{Data: data}
	setDetails(resp, time.Since(begin), a.reader.keys, a.reader.bytes)
	if a.rows.full && len(a.rows.ranges) > 0 {
		page.Rest(a.rows.rest())
	}
	return resp
}

// analysis is one ANALYZE request being answered.
type analysis struct {
	ctx    context.Context
	sc     *stmtctx.StatementContext
	req    *tipb.AnalyzeReq
	ranges []*coprocessor.KeyRange
	reader *countingReader
	rows   *rowSource
	page   uint64 // bytes of samples after which the answer ends, 0 if it has no end
}

// marshaler is an answer of any kind.
type marshaler interface {
	Marshal() ([]byte, error)
}

func (a *analysis) run() (marshaler, error) {
	switch a.req.Tp {
	case tipb.AnalyzeType_TypeIndex, tipb.AnalyzeType_TypeCommonHandle:
		return a.index()
	case tipb.AnalyzeType_TypeColumn:
		return a.columns()
	case tipb.AnalyzeType_TypeMixed:
		return a.mixed()
	case tipb.AnalyzeType_TypeFullSampling:
		return a.fullSampling()
	}
	return nil, fmt.Errorf("analyze type %s is not supported", a.req.Tp)
}

// index makes a histogram and sketches of an index, or of a clustered key, whose columns are encoded in the row's key as an
// index's are in an entry's.
func (a *analysis) index() (*tipb.AnalyzeIndexResp, error) {
	if a.req.IdxReq == nil {
		return nil, fmt.Errorf("analyze request %s without its parameters", a.req.Tp)
	}
	stats := newIndexStats(a.sc, a.req.IdxReq)
	cut := tablecodec.CutIndexKeyNew
	if a.req.Tp == tipb.AnalyzeType_TypeCommonHandle {
		cut = tablecodec.CutCommonHandle
	}
	err := eachPair(a.ctx, a.reader, a.ranges, func(key, _ []byte) error {
		values, _, err := cut(key, stats.cols)
		if err != nil {
			return err
		}
		return stats.add(values)
	})
	if err != nil {
		return nil, err
	}
	return stats.response(), nil
}

// columns makes samples and sketches of each column, and a histogram of the handle if it is the first column.
func (a *analysis) columns() (*tipb.AnalyzeColumnsResp, error) {
	builder, err := a.sampleBuilder(nil)
	if err != nil {
		return nil, err
	}
	collectors, pk, err := builder.CollectColumnStats()
	if err != nil {
		return nil, err
	}
	resp := &tipb.AnalyzeColumnsResp{}
	if pk != nil {
		resp.PkHist = statistics.HistogramToProto(pk.Hist())
	}
	for _, c := range collectors {
		resp.Collectors = append(resp.Collectors, statistics.SampleCollectorToProto(c))
	}
	return resp, nil
}

// mixed does what columns and index do, for a table with a clustered key, in one scan.
func (a *analysis) mixed() (*tipb.AnalyzeMixedResp, error) {
	if a.req.IdxReq == nil {
		return nil, fmt.Errorf("analyze request %s without its parameters", a.req.Tp)
	}
	stats := newIndexStats(a.sc, a.req.IdxReq)
	builder, err := a.sampleBuilder(func(key []byte) error {
		values, _, err := tablecodec.CutCommonHandle(key, stats.cols)
		if err != nil {
			return err
		}
		return stats.add(values)
	})
	if err != nil {
		return nil, err
	}
	collectors, _, err := builder.CollectColumnStats()
	if err != nil {
		return nil, err
	}
	resp := &tipb.AnalyzeMixedResp{ColumnsResp: &tipb.AnalyzeColumnsResp{}, IndexResp: stats.response()}
	for _, c := range collectors {
		resp.ColumnsResp.Collectors = append(resp.ColumnsResp.Collectors, statistics.SampleCollectorToProto(c))
	}
	return resp, nil
}

// sampleBuilder prepares the sampling of single columns. onKey, if not nil, is called with the key of each row.
func (a *analysis) sampleBuilder(onKey func(key []byte) error) (*statistics.SampleBuilder, error) {
	col := a.req.ColReq
	if col == nil || len(col.ColumnsInfo) == 0 {
		return nil, fmt.Errorf("analyze request %s without columns", a.req.Tp)
	}
	a.rows.init(a.sc, col, onKey)
	builder := &statistics.SampleBuilder{
		RecordSet:       a.rows,
		Sc:              a.sc,
		MaxBucketSize:   col.BucketSize,
		MaxFMSketchSize: col.SketchSize,
		MaxSampleSize:   col.SampleSize,
		CMSketchWidth:   col.GetCmsketchWidth(),
		CMSketchDepth:   col.GetCmsketchDepth(),
	}
	sampled := a.rows.decoder.fields
	if first := col.ColumnsInfo[0]; first.PkHandle {
		sampled = sampled[1:]
		version := statsVersion(col.Version)
		builder.PkBuilder = statistics.NewSortedBuilder(a.sc, col.BucketSize, first.ColumnId, types.NewFieldType(mysql.TypeBlob), version)
	}
	builder.ColLen = len(sampled)
	builder.ColsFieldType = sampled
	builder.Collators = collators(sampled)
	return builder, nil
}

// fullSampling samples whole rows and makes sketches of columns and groups of columns.
func (a *analysis) fullSampling() (*tipb.AnalyzeColumnsResp, error) {
	col := a.req.ColReq
	if col == nil || len(col.ColumnsInfo) == 0 {
		return nil, fmt.Errorf("analyze request %s without columns", a.req.Tp)
	}
	if col.SampleSize <= 0 && col.GetSampleRate() <= 0 {
		return nil, fmt.Errorf("analyze request %s without a sample size or rate", a.req.Tp)
	}
	a.rows.init(a.sc, col, nil)
	groups := make([][]int64, 0, len(col.ColumnGroups))
	for _, g := range col.ColumnGroups {
		groups = append(groups, g.ColumnOffsets)
	}
	builder := &statistics.RowSampleBuilder{
		RecordSet:       a.rows,
		Sc:              a.sc,
		Rng:             rand.New(rand.NewSource(rand.Int63())),
		ColsFieldType:   a.rows.decoder.fields,
		Collators:       collators(a.rows.decoder.fields),
		ColGroups:       groups,
		MaxSampleSize:   int(col.SampleSize),
		SampleRate:      col.GetSampleRate(),
		MaxFMSketchSize: int(col.SketchSize),
	}
	// Samples can be merged in any order, so that a page of them can be an answer of its own.
	a.rows.most = a.page
	if rate := col.GetSampleRate(); rate > 0 && rate < 1 {
		a.rows.most = uint64(float64(a.page) / rate)
	}
	collector, err := builder.Collect()
	if err != nil {
		return nil, err
	}
	if !a.rows.mayCompute() {
		if err := cutSamples(a.sc, col.ColumnsInfo, collector.Base().Samples); err != nil {
			return nil, err
		}
	}
	return &tipb.AnalyzeColumnsResp{RowCollector: collector.Base().ToProto()}, nil
}

// collators returns the collators of the string columns, nil for the others.
func collators(fields []*types.FieldType) []collate.Collator {
	list := make([]collate.Collator, len(fields))
	for i, ft := range fields {
		if ft.EvalType() == types.ETString {
			list[i] = collate.GetCollator(ft.GetCollate())
		}
	}
	return list
}

// statsVersion returns the version of the statistics that a request wants.
func statsVersion(v *int32) int {
	if v == nil {
		return statistics.Version1
	}
	return int(*v)
}

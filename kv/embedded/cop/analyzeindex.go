package cop

import (
	"bytes"
	"slices"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/sessionctx/stmtctx"
	"github.com/pingcap/tidb/pkg/statistics"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/twmb/murmur3"
)

// indexStats makes the statistics of an index from its entries, which must come in their order.
type indexStats struct {
	sc      *stmtctx.StatementContext
	cols    int
	version int
	builder *statistics.SortedBuilder
	cms     *statistics.CMSketch // nil if not wanted
	fms     *statistics.FMSketch

	topN    int
	top     []statistics.TopNMeta // candidates, at most a few times topN
	current statistics.TopNMeta   // the value of the last entry
	key     []byte
}

func newIndexStats(sc *stmtctx.StatementContext, req *tipb.AnalyzeIndexReq) *indexStats {
	s := &indexStats{
		sc:      sc,
		cols:    int(req.NumColumns),
		version: statsVersion(req.Version),
		fms:     statistics.NewFMSketch(int(req.SketchSize)),
		topN:    int(req.GetTopNSize()),
	}
	s.builder = statistics.NewSortedBuilder(sc, req.BucketSize, 0, types.NewFieldType(mysql.TypeBlob), s.version)
	if req.CmsketchDepth != nil && req.CmsketchWidth != nil {
		s.cms = statistics.NewCMSketch(*req.CmsketchDepth, *req.CmsketchWidth)
	}
	return s
}

// add takes in one entry's encoded columns.
func (s *indexStats) add(values [][]byte) error {
	s.key = s.key[:0]
	for _, v := range values {
		s.key = append(s.key, v...)
		if s.cms != nil {
			s.cms.InsertBytes(s.key) // every prefix of the columns is counted
		}
	}
	entry := types.NewBytesDatum(bytes.Clone(s.key))
	if err := s.fms.InsertValue(s.sc, entry); err != nil {
		return err
	}
	if s.version >= statistics.Version2 {
		s.count(entry.GetBytes())
	}
	return s.builder.Iterate(entry)
}

// count counts the runs of equal values.
func (s *indexStats) count(key []byte) {
	if s.current.Count > 0 && bytes.Equal(s.current.Encoded, key) {
		s.current.Count++
		return
	}
	s.endRun()
	s.current = statistics.TopNMeta{Encoded: key, Count: 1}
}

// endRun makes the current value a candidate and drops the rarest candidates when there are too many.
func (s *indexStats) endRun() {
	if s.current.Count == 0 {
		return
	}
	s.top = append(s.top, s.current)
	s.current = statistics.TopNMeta{}
	if len(s.top) >= 2*s.topN+maxBatch {
		s.prune()
	}
}

func (s *indexStats) prune() {
	slices.SortFunc(s.top, statistics.TopnMetaCompare)
	if len(s.top) > s.topN {
		clear(s.top[s.topN:])
		s.top = s.top[:s.topN]
	}
}

// response returns the statistics. As the SQL layer expects, the most frequent values are not in the count-min sketch.
func (s *indexStats) response() *tipb.AnalyzeIndexResp {
	s.endRun()
	s.prune()
	resp := &tipb.AnalyzeIndexResp{
		Hist:      statistics.HistogramToProto(s.builder.Hist()),
		Collector: &tipb.SampleCollector{FmSketch: statistics.FMSketchToProto(s.fms)},
	}
	if s.cms == nil {
		return resp
	}
	for _, value := range s.top {
		h1, h2 := murmur3.Sum128(value.Encoded)
		s.cms.SubValue(h1, h2, value.Count)
	}
	resp.Cms = statistics.CMSketchToProto(s.cms, &statistics.TopN{TopN: s.top})
	return resp
}

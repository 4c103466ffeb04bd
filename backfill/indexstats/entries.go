package indexstats

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/sessionctx/stmtctx"
	"github.com/pingcap/tidb/pkg/statistics"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/ingest/distribution"
)

// BuildFromEntries returns the statistics of a multi-valued index. TiDB makes them from its entries in order, by other rules than those
// of other indexes (updateIndexResult in pkg/executor/analyze_idx.go, and the coprocessor's part). s is Whole; otherwise this is Build.
func BuildFromEntries(s *distribution.Summary, set Settings) (*Statistics, error) {
	if !s.Whole() || s.Rows == 0 {
		return Build(s, set), nil
	}
	builder := statistics.NewSortedBuilder(stmtctx.NewStmtCtx(), int64(set.Buckets), 0, types.NewFieldType(mysql.TypeBlob), statistics.Version2)
	top := make([]statistics.TopNMeta, 0, len(s.Buckets))
	for i := range s.Buckets {
		b := &s.Buckets[i]
		if err := builder.Iterate(types.NewBytesDatum(b.Upper)); err != nil {
			return nil, err
		}
		more := b.Rows - 1 // of the same value, which stay in one bucket
		last := &builder.Hist().Buckets[builder.Hist().Len()-1]
		last.Count += more
		last.Repeat += more
		builder.Count += more
		top = append(top, statistics.TopNMeta{Encoded: b.Upper, Count: uint64(b.Rows)})
	}
	slices.SortFunc(top, statistics.TopnMetaCompare)
	top = top[:min(len(top), set.TopN)]
	hist := builder.Hist()
	st := &Statistics{Different: hist.NDV, Nulls: s.Nulls, Rows: s.Rows + s.Nulls, Sample: s.Sample}
	for _, v := range top {
		st.Top = append(st.Top, distribution.Value{Key: v.Encoded, Rows: int64(v.Count)})
	}
	slices.SortFunc(top, func(a, b statistics.TopNMeta) int { return slices.Compare(a.Encoded, b.Encoded) })
	if len(top) > 0 {
		hist.RemoveVals(top)
	}
	hist.StandardizeForV2AnalyzeIndex()
	for i := range hist.Buckets {
		st.Buckets = append(st.Buckets, Bucket{
			Lower: slices.Clone(hist.GetLower(i).GetBytes()), Upper: slices.Clone(hist.GetUpper(i).GetBytes()),
			Rows: hist.BucketCount(i), Repeat: hist.Buckets[i].Repeat,
		})
	}
	return st, nil
}

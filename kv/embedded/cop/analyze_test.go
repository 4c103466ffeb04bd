package cop

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// TestAnalyzeAgainstUnistore analyzes tables of all kinds, in both versions of the statistics, and compares each answer with
// unistore's as far as it does not depend on chance.
func TestAnalyzeAgainstUnistore(t *testing.T) {
	seed := int64(randtest.Seed(t))
	g := &generator{rnd: rand.New(rand.NewSource(seed))}
	s := newSQLSession(t)
	s.exec("set tidb_enable_global_index = on")
	// TiDB saves statistics of several tables at once, which on unistore may end in "pessimistic lock retry limit reached".
	s.exec("set tidb_analyze_partition_concurrency = 1")
	s.exec("set tidb_build_stats_concurrency = 1")
	for i, table := range differentialTables {
		s.exec(fmt.Sprintf("set tidb_row_format_version = %d", 2-i%2))
		s.createTable(g, table, 100)
	}
	s.exec("split table t_int by (40), (80)")
	s.oracle.setMode(compareAnswers)
	var names []string
	for _, table := range differentialTables {
		names = append(names, table.name)
	}
	for _, version := range []string{"1", "2"} {
		s.exec("set tidb_analyze_version = " + version)
		before := s.oracle.requests
		s.exec("analyze table " + strings.Join(names, ", "))
		require.GreaterOrEqual(t, s.oracle.requests, before+len(names))
		require.Empty(t, s.oracle.take())
	}
	s.exec("set tidb_analyze_version = 1")
	s.exec("analyze table t_com index k_id, k_i, k_un")
	require.Empty(t, s.oracle.take())
	rows := s.exec("show stats_meta where table_name = 't_int'")
	require.Equal(t, "100", rows[0][5], "%v", rows)
}

// compareAnalyze compares two answers to an ANALYZE request; it returns "" if they agree.
func compareAnalyze(req *coprocessor.Request, mine, theirs *coprocessor.Response) string {
	if mine.OtherError != theirs.OtherError {
		return fmt.Sprintf("other error: mine %q, theirs %q", mine.OtherError, theirs.OtherError)
	}
	pb := &tipb.AnalyzeReq{}
	if err := pb.Unmarshal(req.Data); err != nil {
		panic(err)
	}
	a, b := analyzeText(pb.Tp, mine.Data), analyzeText(pb.Tp, theirs.Data)
	if a == b {
		return ""
	}
	return fmt.Sprintf("%s\nmine   %s\ntheirs %s", pb.Tp, a, b)
}

func analyzeText(tp tipb.AnalyzeType, data []byte) string {
	switch tp {
	case tipb.AnalyzeType_TypeIndex, tipb.AnalyzeType_TypeCommonHandle:
		return indexText(mustUnmarshal(data, &tipb.AnalyzeIndexResp{}), tp == tipb.AnalyzeType_TypeIndex)
	case tipb.AnalyzeType_TypeMixed:
		resp := mustUnmarshal(data, &tipb.AnalyzeMixedResp{})
		return columnsText(resp.ColumnsResp) + indexText(resp.IndexResp, true)
	}
	return columnsText(mustUnmarshal(data, &tipb.AnalyzeColumnsResp{}))
}

// indexText describes the statistics of an index; unistore makes some sketches only for what is really an index.
func indexText(resp *tipb.AnalyzeIndexResp, sketches bool) string {
	text := resp.Hist.String()
	if resp.Cms != nil {
		slices.SortFunc(resp.Cms.TopN, func(a, b *tipb.CMSketchTopN) int { return strings.Compare(string(a.Data), string(b.Data)) })
	}
	if sketches {
		text += resp.Cms.String() + sketchText(resp.Collector.FmSketch)
	}
	return text
}

func columnsText(resp *tipb.AnalyzeColumnsResp) string {
	var sb strings.Builder
	sb.WriteString(resp.PkHist.String())
	for _, c := range resp.Collectors {
		// All rows are sampled, in any order.
		slices.SortFunc(c.Samples, slices.Compare)
		fmt.Fprintf(&sb, "[%q %d %d %d %s %s]", c.Samples, c.NullCount, c.Count, c.GetTotalSize(), sketchText(c.FmSketch), c.CmSketch)
	}
	if c := resp.RowCollector; c != nil {
		var rows []string
		for _, s := range c.Samples {
			rows = append(rows, fmt.Sprintf("%q", s.Row))
		}
		slices.Sort(rows)
		fmt.Fprintf(&sb, "%v %v %v %v", rows, c.NullCounts, c.Count, c.TotalSize)
		for _, f := range c.FmSketch {
			sb.WriteString(sketchText(f))
		}
	}
	return sb.String()
}

func sketchText(f *tipb.FMSketch) string {
	slices.Sort(f.Hashset)
	return f.String()
}

func mustUnmarshal[T interface{ Unmarshal([]byte) error }](data []byte, msg T) T {
	if err := msg.Unmarshal(data); err != nil {
		panic(err)
	}
	return msg
}

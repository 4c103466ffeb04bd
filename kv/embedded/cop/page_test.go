package cop

import (
	"context"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/statistics"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// fixtureKey is the key of a row.
func fixtureKey(id int) []byte {
	return tablecodec.EncodeRowKeyWithHandle(fixtureTable, tidbkv.IntHandle(id))
}

// withLongRows is a table of n rows with values of size bytes.
func withLongRows(t *testing.T, n, size int) *fixture {
	f := newFixture(t, 0)
	enc := rowcodec.Encoder{Enable: true}
	for id := range n {
		v := types.NewStringDatum(strings.Repeat(string(rune('a'+id%26)), size))
		row, err := enc.Encode(time.UTC, []int64{2, 3}, []types.Datum{types.NewIntDatum(int64(id % 10)), v}, nil, nil)
		require.NoError(t, err)
		f.reader.put(fixtureKey(id), row)
	}
	f.reader.sort()
	return f
}

// TestPagesEndByTheirBytes reads a table of long rows page by page, in both directions. A page is larger than the requested
// size by at most a batch, and has at least one row.
func TestPagesEndByTheirBytes(t *testing.T) {
	const rows, size = 60, 100 << 10
	rnd := rand.New(rand.NewSource(int64(randtest.Seed(t))))
	for _, executors := range [][]*tipb.Executor{
		nil,
		{where(columnRef(0))},
		{{Tp: tipb.ExecType_TypeTopN, TopN: &tipb.TopN{Limit: rows, OrderBy: []*tipb.ByItem{{Expr: columnRef(0)}}}}},
	} {
		for _, bytes := range []uint64{1, 150 << 10, 2 << 20} {
			desc := rnd.Intn(2) == 0
			f := withLongRows(t, rows, size)
			f.dag.Executors[0].TblScan.Desc = desc
			for _, e := range executors {
				f.then(e)
			}
			whole := f.rows(f.run())
			req := f.request()
			req.PagingSize = 1 << 40
			var got []string
			for len(req.Ranges) > 0 {
				resp := HandlePage(context.Background(), f.reader, req, Page{Bytes: bytes})
				require.LessOrEqual(t, uint64(len(resp.Data)), bytes+maxBatchBytes+2*size)
				page := f.rows(f.answer(resp))
				require.True(t, len(page) > 0 || executors != nil)
				got = append(got, page...)
				req.Ranges = remaining(req.Ranges, resp.Range, desc)
			}
			require.ElementsMatch(t, whole, got)
		}
	}
}

// TestAnswersWithoutPagesAreWhole: a client that cannot go on from where a page ends gets all.
func TestAnswersWithoutPagesAreWhole(t *testing.T) {
	f := withLongRows(t, 40, 100<<10)
	resp := HandlePage(context.Background(), f.reader, f.request(), Page{Bytes: 1})
	require.Nil(t, resp.Range)
	require.Len(t, f.rows(f.answer(resp)), 40)
}

// TestPagesCountTheRowsThatTopNKeeps: rows that are replaced end no page, or each page would give the SQL layer its first rows.
func TestPagesCountTheRowsThatTopNKeeps(t *testing.T) {
	const rows, size = 60, 100 << 10
	f := withLongRows(t, rows, size)
	f.then(&tipb.Executor{Tp: tipb.ExecType_TypeTopN, TopN: &tipb.TopN{Limit: 5, OrderBy: []*tipb.ByItem{{Expr: columnRef(0), Desc: true}}}})
	req := f.request()
	req.PagingSize = 1 << 40
	resp := HandlePage(context.Background(), f.reader, req, Page{Bytes: 7 * size})
	require.Len(t, f.rows(f.answer(resp)), 5)
	require.Empty(t, remaining(req.Ranges, resp.Range, false))
}

// TestRestsOfPages: ranges may come again and in any order. What a page leaves is what was not read.
func TestRestsOfPages(t *testing.T) {
	rnd := rand.New(rand.NewSource(int64(randtest.Seed(t))))
	for range 20 {
		f := withLongRows(t, 20, 100<<10)
		f.dag.Executors[0].TblScan.Desc = rnd.Intn(2) == 0
		f.ranges = nil
		for range 1 + rnd.Intn(30) {
			from := rnd.Intn(20)
			to := from + 1 + rnd.Intn(3)*rnd.Intn(3)
			f.ranges = append(f.ranges, &coprocessor.KeyRange{Start: fixtureKey(from), End: fixtureKey(to)})
		}
		whole := f.rows(f.run())
		req := f.request()
		var got []string
		pages := 0
		for len(req.Ranges) > 0 {
			var rest []*coprocessor.KeyRange
			page := Page{Bytes: 300 << 10, Rest: func(ranges []*coprocessor.KeyRange) { rest = ranges }}
			resp := HandlePage(context.Background(), f.reader, req, page)
			require.Nil(t, resp.Range, "the request has no PagingSize")
			got = append(got, f.rows(f.answer(resp))...)
			req.Ranges = rest
			pages++
		}
		require.Equal(t, whole, got)
		require.GreaterOrEqual(t, pages, len(whole)/25)
	}
}

// samples answers a request for samples of all rows, in pages of so many bytes.
func samples(t *testing.T, f *fixture, bytes uint64) (collectors []*tipb.RowSampleCollector) {
	rate, version := 1.0, int32(2)
	pb := &tipb.AnalyzeReq{Tp: tipb.AnalyzeType_TypeFullSampling, ColReq: &tipb.AnalyzeColumnsReq{
		BucketSize: 256, SampleRate: &rate, SketchSize: 1000, ColumnsInfo: fixtureColumns, Version: &version,
		ColumnGroups: []*tipb.AnalyzeColumnGroup{{ColumnOffsets: []int64{1, 2}}},
	}}
	data, err := pb.Marshal()
	require.NoError(t, err)
	req := &coprocessor.Request{Tp: tidbkv.ReqTypeAnalyze, Data: data, Ranges: f.ranges, StartTs: 1}
	for len(req.Ranges) > 0 {
		var rest []*coprocessor.KeyRange
		resp := HandlePage(context.Background(), f.reader, req, Page{Bytes: bytes, Rest: func(r []*coprocessor.KeyRange) { rest = r }})
		require.Empty(t, resp.OtherError)
		collectors = append(collectors, mustUnmarshal(resp.Data, &tipb.AnalyzeColumnsResp{}).RowCollector)
		req.Ranges = rest
	}
	return collectors
}

// TestSamplesComeInPages: together they have each row once.
func TestSamplesComeInPages(t *testing.T) {
	const rows, size = 150, 20 << 10
	f := withLongRows(t, rows, size)
	pages := samples(t, f, 100<<10)
	require.Greater(t, len(pages), 1)
	handles := make(map[string]bool)
	total := int64(0)
	for _, c := range pages {
		require.Len(t, c.Samples, int(c.Count))
		require.Less(t, c.Count, int64(rows), "a page is no more than a batch of %d bytes", maxBatchBytes)
		for _, s := range c.Samples {
			require.Len(t, s.Row[2], size+4)
			handles[string(s.Row[0])] = true
		}
		total += c.Count
	}
	require.EqualValues(t, rows, total)
	require.Len(t, handles, rows)
}

// TestLongSamplesAreCut: TiDB leaves them out of its histograms by their length. Their sizes, and how many there are, are
// those of the whole values. What a virtual column may be computed from is not cut.
func TestLongSamplesAreCut(t *testing.T) {
	const rows, size = 10, 100 << 10
	f := withLongRows(t, rows, size)
	c := samples(t, f, 0)[0]
	require.EqualValues(t, rows*(size+3), c.TotalSize[2])
	require.Len(t, c.FmSketch[2].Hashset, rows)
	for _, s := range c.Samples {
		_, v, err := codec.DecodeOne(s.Row[2])
		require.NoError(t, err)
		require.Len(t, v.GetBytes(), statistics.MaxSampleValueLength+1)
	}

	saved := fixtureColumns
	defer func() { fixtureColumns = saved }()
	virtual := *fixtureColumns[1]
	virtual.ColumnId = 4
	fixtureColumns = append(slices.Clone(fixtureColumns), &virtual)
	for _, s := range samples(t, f, 0)[0].Samples {
		_, v, err := codec.DecodeOne(s.Row[2])
		require.NoError(t, err)
		require.Equal(t, size, len(v.GetBytes()), "a sample that a column may be computed from")
	}
}

package cop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/tipb/go-tipb"
)

// handleDAG answers a DAG request.
func handleDAG(ctx context.Context, r Reader, req *coprocessor.Request, page Page) *coprocessor.Response {
	begin := time.Now()
	dag := &tipb.DAGRequest{}
	if err := dag.Unmarshal(req.Data); err != nil {
		return failed(fmt.Errorf("DAG request: %w", err))
	}
	run, err := newDAGRun(r, req, dag, page)
	if err != nil {
		return failed(err)
	}
	err = run.execute(ctx)
	var storage *storageError
	if errors.As(err, &storage) {
		return failed(err)
	}
	resp := run.respond(err, time.Since(begin))
	if err == nil && req.PagingSize == 0 && run.scan.stoppedAt != nil {
		page.Rest(run.scan.rest())
	}
	run.env.recycle(run.scan.keys, run.scan.bytes)
	return resp
}

// dagRun is one DAG request being answered.
type dagRun struct {
	req  *coprocessor.Request
	dag  *tipb.DAGRequest
	env  *evalEnv
	scan *scan
	sink *sink
	took time.Duration // of reading and executing
}

func newDAGRun(r Reader, req *coprocessor.Request, dag *tipb.DAGRequest, page Page) (*dagRun, error) {
	env, err := newEvalEnv(dag)
	if err != nil {
		return nil, err
	}
	list, err := executorList(dag)
	if err != nil {
		return nil, err
	}
	source, err := buildScan(env, list[0])
	if err != nil {
		return nil, err
	}
	top, err := buildChain(env, source.node, list[1:])
	if err != nil {
		return nil, err
	}
	source.reader = r
	if source.ranges, err = scanRanges(req.Ranges, source.desc, source.keyLen); err != nil {
		return nil, err
	}
	if dag.GetCollectRangeCounts() {
		source.counts = make([]int64, len(source.ranges))
	}
	source.bound(list, req.PagingSize)
	out, err := newSink(env, dag, top.fields, req.PagingSize)
	if err != nil {
		return nil, err
	}
	top.sink = out.push
	most := page.limit(req)
	// It is the scan that stops where a page is full, between two batches: what has been read goes through the chain to its
	// end, since it is not read again. An aggregation that was told to stop would lose groups.
	source.full = func() bool {
		return out.full() || most > 0 && out.bytes+source.node.held() >= most
	}
	for n := source.node; n != nil; n = n.next {
		n.measure = dag.GetCollectExecutionSummaries()
	}
	return &dagRun{req: req, dag: dag, env: env, scan: source, sink: out}, nil
}

// execute reads all that the request asks for, or one page of it.
func (d *dagRun) execute(ctx context.Context) error {
	begin := time.Now()
	defer func() { d.took = time.Since(begin) }()
	if err := d.scan.run(ctx); err != nil {
		return err
	}
	if err := d.scan.node.finish(); err != nil {
		return err
	}
	d.sink.finish()
	return nil
}

// respond makes the answer; failure is what an expression failed with, nil if none did.
func (d *dagRun) respond(failure error, total time.Duration) *coprocessor.Response {
	answer := &tipb.SelectResponse{EncodeType: d.dag.EncodeType}
	resp := &coprocessor.Response{}
	if failure != nil {
		answer.Error = errorToPB(failure)
	} else {
		answer.Chunks = d.sink.chunks
		answer.OutputCounts = d.scan.counts
		if d.req.PagingSize > 0 {
			resp.Range = d.scan.consumed(d.req.Ranges)
		}
	}
	d.env.warnings.fill(answer)
	if d.dag.GetCollectExecutionSummaries() {
		answer.ExecutionSummaries = d.scan.node.summaries(d.took)
	}
	data, err := answer.Marshal()
	if err != nil {
		return failed(fmt.Errorf("encode the answer: %w", err))
	}
	resp.Data = data
	setDetails(resp, total, d.scan.keys, d.scan.bytes)
	return resp
}

// setDetails reports what the request cost: keys and bytes are those of the pairs that were read.
func setDetails(resp *coprocessor.Response, took time.Duration, keys, bytes uint64) {
	ms := uint64(took / time.Millisecond)
	resp.ExecDetails = &kvrpcpb.ExecDetails{
		TimeDetail: &kvrpcpb.TimeDetail{ProcessWallTimeMs: ms, TotalRpcWallTimeNs: uint64(took)},
	}
	resp.ExecDetailsV2 = &kvrpcpb.ExecDetailsV2{
		TimeDetail:   resp.ExecDetails.TimeDetail,
		TimeDetailV2: &kvrpcpb.TimeDetailV2{ProcessWallTimeNs: uint64(took), TotalRpcWallTimeNs: uint64(took)},
		ScanDetailV2: &kvrpcpb.ScanDetailV2{ProcessedVersions: keys, ProcessedVersionsSize: bytes, TotalVersions: keys},
	}
}

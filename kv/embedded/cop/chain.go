package cop

import (
	"errors"
	"fmt"
	"math"

	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tipb/go-tipb"
)

// executorList returns the executors of a request from the scan up, whichever of the two forms it has.
func executorList(req *tipb.DAGRequest) ([]*tipb.Executor, error) {
	if req.RootExecutor == nil {
		if len(req.Executors) == 0 {
			return nil, errors.New("the request has no executor")
		}
		return req.Executors, nil
	}
	var list []*tipb.Executor
	for e := req.RootExecutor; e != nil; {
		list = append([]*tipb.Executor{e}, list...)
		switch e.Tp {
		case tipb.ExecType_TypeTableScan, tipb.ExecType_TypeIndexScan:
			return list, nil
		case tipb.ExecType_TypeSelection:
			e = e.Selection.Child
		case tipb.ExecType_TypeProjection:
			e = e.Projection.Child
		case tipb.ExecType_TypeAggregation, tipb.ExecType_TypeStreamAgg:
			e = e.Aggregation.Child
		case tipb.ExecType_TypeTopN:
			e = e.TopN.Child
		case tipb.ExecType_TypeLimit:
			e = e.Limit.Child
		default:
			return nil, fmt.Errorf("executor %s is not supported", e.Tp)
		}
	}
	return nil, errors.New("the executors end without a scan")
}

// buildScan makes the source of the chain and its node.
func buildScan(env *evalEnv, pb *tipb.Executor) (*scan, error) {
	s := &scan{limit: firstBatch, most: maxBatch, keyLen: noPoints, node: &node{id: pb.GetExecutorId()}}
	switch pb.Tp {
	case tipb.ExecType_TypeTableScan:
		ts := pb.TblScan
		d := newRowDecoder(ts.Columns, ts.PrimaryColumnIds, env.loc)
		s.decoder, s.node.fields = d, d.fields
		s.desc = ts.Desc
		if len(ts.PrimaryColumnIds) == 0 {
			s.keyLen = tablecodec.RecordRowKeyLen
		}
	case tipb.ExecType_TypeIndexScan:
		d, err := newIndexDecoder(pb.IdxScan, env.loc)
		if err != nil {
			return nil, err
		}
		s.decoder, s.node.fields = d, d.fields
		s.desc = pb.IdxScan.Desc
		if pb.IdxScan.GetUnique() { // and the ranges name all columns where they are points
			s.keyLen = indexPrefixLen + 1
		}
	default:
		return nil, fmt.Errorf("scan %s is not supported", pb.Tp)
	}
	if len(s.node.fields) == 0 {
		return nil, errors.New("scan without columns")
	}
	s.batch = env.newChunk(s.node.fields, smallBatch)
	return s, nil
}

// buildChain puts the executors above the scan and returns the last node.
func buildChain(env *evalEnv, scan *node, list []*tipb.Executor) (*node, error) {
	top := scan
	for _, pb := range list {
		exec, fields, err := buildExecutor(env, pb, top.fields)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pb.Tp, err)
		}
		top.next = &node{exec: exec, fields: fields, id: pb.GetExecutorId()}
		top = top.next
	}
	return top, nil
}

// buildExecutor makes one executor over input of the given types and returns the types of its output.
func buildExecutor(env *evalEnv, pb *tipb.Executor, fields []*types.FieldType) (executor, []*types.FieldType, error) {
	switch pb.Tp {
	case tipb.ExecType_TypeSelection:
		conds, err := env.buildExprs(pb.Selection.Conditions, fields)
		if err != nil {
			return nil, nil, err
		}
		return newSelection(env, conds, fields), fields, nil
	case tipb.ExecType_TypeProjection:
		exprs, err := env.buildExprs(pb.Projection.Exprs, fields)
		if err != nil {
			return nil, nil, err
		}
		return &projection{env: env, view: newView(env, exprs)}, exprTypes(env, exprs), nil
	case tipb.ExecType_TypeLimit:
		l := &limit{env: env, count: pb.Limit.Limit, left: pb.Limit.Limit}
		var err error
		if l.partitions, err = partitionKeys(env, pb.Limit.PartitionBy, fields); err != nil {
			return nil, nil, err
		}
		if l.partitions != nil {
			l.out = env.newChunk(fields, smallBatch)
		}
		return l, fields, nil
	case tipb.ExecType_TypeTopN:
		t, err := buildTopN(env, pb.TopN, fields)
		return t, fields, err
	case tipb.ExecType_TypeAggregation, tipb.ExecType_TypeStreamAgg:
		return buildAggregate(env, pb.Aggregation, pb.Tp == tipb.ExecType_TypeStreamAgg, fields)
	}
	return nil, nil, errors.New("the executor is not supported")
}

func buildTopN(env *evalEnv, pb *tipb.TopN, fields []*types.FieldType) (*topN, error) {
	exprs := make([]expression.Expression, len(pb.OrderBy))
	desc := make([]bool, len(pb.OrderBy))
	for i, item := range pb.OrderBy {
		var err error
		if exprs[i], err = env.buildExpr(item.Expr, fields); err != nil {
			return nil, err
		}
		desc[i] = item.Desc
	}
	limit := int(min(pb.Limit, math.MaxInt32))
	t, err := newTopN(env, limit, fields, newColumns(env, exprs), desc)
	if err != nil {
		return nil, err
	}
	t.partitions, err = partitionKeys(env, pb.PartitionBy, fields)
	return t, err
}

// partitionKeys returns the encoder of the partition columns of a limit or top-N, nil if it has none.
func partitionKeys(env *evalEnv, items []*tipb.ByItem, fields []*types.FieldType) (*keyEncoder, error) {
	if len(items) == 0 {
		return nil, nil
	}
	exprs := make([]expression.Expression, len(items))
	for i, item := range items {
		var err error
		if exprs[i], err = env.buildExpr(item.Expr, fields); err != nil {
			return nil, err
		}
	}
	return newKeyEncoder(env, exprs), nil
}

func buildAggregate(env *evalEnv, pb *tipb.Aggregation, streamed bool, fields []*types.FieldType) (executor, []*types.FieldType, error) {
	var funcs []aggregator
	var output []*types.FieldType
	for _, f := range pb.AggFunc {
		agg, fts, err := newAggregator(env, f, fields, len(output))
		if err != nil {
			return nil, nil, err
		}
		funcs = append(funcs, agg)
		output = append(output, fts...)
	}
	var groupBy *keyEncoder
	if len(pb.GroupBy) > 0 {
		exprs, err := env.buildExprs(pb.GroupBy, fields)
		if err != nil {
			return nil, nil, err
		}
		groupBy = newKeyEncoder(env, exprs)
		output = append(output, exprTypes(env, exprs)...)
	}
	if len(output) == 0 {
		return nil, nil, errors.New("there is nothing to aggregate")
	}
	return newAggregate(env, funcs, groupBy, streamed, output), output, nil
}

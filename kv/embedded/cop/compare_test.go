package cop

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/pingcap/tipb/go-tipb"
)

// compareDAG compares two answers to a DAG request, of which mine may be a first page; it returns "" if they agree.
func compareDAG(ctx context.Context, r *rpcReader, req *coprocessor.Request, dag *tipb.DAGRequest,
	mine, theirs *coprocessor.Response) string {
	if mine.OtherError != "" || theirs.OtherError != "" {
		if (mine.OtherError == "") != (theirs.OtherError == "") {
			return fmt.Sprintf("other error: mine %q, theirs %q", mine.OtherError, theirs.OtherError)
		}
		return ""
	}
	a, errA := decodeAll(ctx, r, req, dag, mine)
	b, errB := decodeAll(ctx, nil, req, dag, theirs)
	if errA != nil || errB != nil {
		if (errA == nil || errB == nil) && limited(dag) {
			return "" // one of them has looked at more rows than the limit needs
		}
		if errA == nil || errB == nil || errA.Code != errB.Code {
			return fmt.Sprintf("error: mine %v, theirs %v: %s", errA, errB, describe(dag))
		}
		return ""
	}
	rowsA, rowsB := canonical(dag, a), canonical(dag, b)
	if slices.Equal(rowsA, rowsB) {
		return ""
	}
	return fmt.Sprintf("rows: mine %d, theirs %d: %s\nmine   %s\ntheirs %s", len(rowsA), len(rowsB), describe(dag),
		firstDifference(rowsA, rowsB), firstDifference(rowsB, rowsA))
}

// limited says that a coprocessor may end before it has seen all rows, at a place of its own choice.
func limited(dag *tipb.DAGRequest) bool {
	return slices.ContainsFunc(dag.Executors, func(e *tipb.Executor) bool { return e.Tp == tipb.ExecType_TypeLimit })
}

// canonical returns the rows as text, such that two right answers have the same: partial results are merged, because two
// coprocessors may split a group differently, and sorted where their order does not matter.
func canonical(dag *tipb.DAGRequest, rows [][]types.Datum) []string {
	last := dag.Executors[len(dag.Executors)-1]
	switch last.Tp {
	case tipb.ExecType_TypeAggregation, tipb.ExecType_TypeStreamAgg:
		rows = mergeGroups(dag, last.Aggregation, rows)
	case tipb.ExecType_TypeLimit: // of each page
		rows = rows[:min(len(rows), int(last.Limit.Limit))]
	}
	text := make([]string, len(rows))
	for i, row := range rows {
		text[i] = rowText(row)
	}
	for _, e := range dag.Executors {
		switch e.Tp {
		case tipb.ExecType_TypeAggregation, tipb.ExecType_TypeStreamAgg, tipb.ExecType_TypeTopN:
			slices.Sort(text)
			return text
		}
	}
	return text
}

// mergeGroups merges the partial results of equal groups, as the SQL layer does.
func mergeGroups(dag *tipb.DAGRequest, agg *tipb.Aggregation, rows [][]types.Datum) [][]types.Datum {
	if len(dag.OutputOffsets) != len(agg.AggFunc)+len(agg.GroupBy) {
		panic("some columns of an aggregation are not wanted")
	}
	groups := map[string][]types.Datum{}
	var keys []string
	for _, row := range rows {
		values, group := row[:len(agg.AggFunc)], slices.Clone(row[len(agg.AggFunc):])
		for i, d := range group {
			if d.Kind() == types.KindString {
				group[i] = collationKey(agg.GroupBy[i], d)
			}
		}
		key := rowText(group)
		known, ok := groups[key]
		if !ok {
			known = slices.Clone(values)
			for i, f := range agg.AggFunc {
				if f.Tp == tipb.ExprType_First {
					known[i] = types.NewStringDatum("any")
				}
			}
			groups[key] = append(known, group...)
			keys = append(keys, key)
			continue
		}
		for i, f := range agg.AggFunc {
			mergeValue(f, &known[i], values[i])
		}
	}
	merged := make([][]types.Datum, 0, len(keys))
	for _, key := range keys {
		for i, f := range agg.AggFunc {
			if d := &groups[key][i]; (f.Tp == tipb.ExprType_Max || f.Tp == tipb.ExprType_Min) && d.Kind() == types.KindString {
				*d = collationKey(f, *d) // any of the equal ones
			}
			round(&groups[key][i], expression.FieldTypeFromPB(f.FieldType).GetDecimal())
		}
		merged = append(merged, groups[key])
	}
	return merged
}

// collationKey returns what strings that are equal under the expression's collation have in common.
func collationKey(e *tipb.Expr, d types.Datum) types.Datum {
	collation := expression.FieldTypeFromPB(e.FieldType).GetCollate()
	return types.NewBytesDatum(collate.GetCollator(collation).Key(d.GetString()))
}

func mergeValue(f *tipb.Expr, known *types.Datum, value types.Datum) {
	if f.Tp == tipb.ExprType_First || value.IsNull() {
		return
	}
	if known.IsNull() {
		*known = value
		return
	}
	switch f.Tp {
	case tipb.ExprType_Count, tipb.ExprType_Sum:
		sum, err := calculateSum(*known, value)
		if err != nil {
			panic(err)
		}
		*known = sum
	case tipb.ExprType_Max, tipb.ExprType_Min:
		collation := expression.FieldTypeFromPB(f.FieldType).GetCollate()
		c, err := value.Compare(types.DefaultStmtNoWarningContext, known, collate.GetCollator(collation))
		if err != nil {
			panic(err)
		}
		if (f.Tp == tipb.ExprType_Max) == (c > 0) && c != 0 {
			*known = value
		}
	case tipb.ExprType_Agg_BitAnd:
		known.SetUint64(known.GetUint64() & value.GetUint64())
	case tipb.ExprType_Agg_BitOr:
		known.SetUint64(known.GetUint64() | value.GetUint64())
	case tipb.ExprType_Agg_BitXor:
		known.SetUint64(known.GetUint64() ^ value.GetUint64())
	default:
		panic(f.Tp.String())
	}
}

func calculateSum(a, b types.Datum) (types.Datum, error) {
	switch a.Kind() {
	case types.KindInt64:
		return types.NewIntDatum(a.GetInt64() + b.GetInt64()), nil
	case types.KindFloat64:
		return types.NewFloat64Datum(a.GetFloat64() + b.GetFloat64()), nil
	}
	sum := new(types.MyDecimal)
	err := types.DecimalAdd(a.GetMysqlDecimal(), b.GetMysqlDecimal(), sum)
	return types.NewDecimalDatum(sum), err
}

func firstDifference(a, b []string) string {
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return fmt.Sprintf("[%d] %s", i, a[i])
		}
	}
	return "(prefix)"
}

func describe(dag *tipb.DAGRequest) string {
	var parts []string
	for _, e := range dag.Executors {
		parts = append(parts, e.String())
	}
	return strings.Join(parts, " -> ")
}

// decodeAll returns the rows of an answer as text, and of the pages after it if r is given.
func decodeAll(ctx context.Context, r *rpcReader, req *coprocessor.Request, dag *tipb.DAGRequest,
	resp *coprocessor.Response) ([][]types.Datum, *tipb.Error) {
	run, err := newDAGRun(nil, req, dag, Page{})
	if err != nil {
		panic(err)
	}
	var rows [][]types.Datum
	for {
		answer := &tipb.SelectResponse{}
		if err := answer.Unmarshal(resp.Data); err != nil {
			panic(err)
		}
		if answer.Error != nil {
			return nil, answer.Error
		}
		rows = append(rows, decodeRows(run, partial(dag), answer)...)
		if r == nil || resp.Range == nil {
			return rows, nil
		}
		next := *req
		next.Ranges = remaining(req.Ranges, resp.Range, run.scan.desc)
		if len(next.Ranges) == 0 {
			return rows, nil
		}
		next.Data = req.Data
		req = &next
		resp = Handle(ctx, r, req)
		if resp.OtherError != "" || resp.Locked != nil {
			panic(fmt.Sprint(resp))
		}
	}
}

// remaining returns what is left of the ranges after the consumed part: nothing if it is nil.
func remaining(ranges []*coprocessor.KeyRange, consumed *coprocessor.KeyRange, desc bool) []*coprocessor.KeyRange {
	if consumed == nil {
		return nil
	}
	var left []*coprocessor.KeyRange
	for _, r := range ranges {
		start, end := string(r.Start), string(r.End)
		if desc {
			end = min(end, string(consumed.Start))
		} else {
			start = max(start, string(consumed.End))
		}
		if start < end {
			left = append(left, &coprocessor.KeyRange{Start: []byte(start), End: []byte(end)})
		}
	}
	return left
}

// partial is the number of columns, the first ones, that are merged later.
func partial(dag *tipb.DAGRequest) int {
	if agg := dag.Executors[len(dag.Executors)-1].Aggregation; agg != nil {
		return len(agg.AggFunc)
	}
	return 0
}

// round makes decimals as precise as their type, which clients do, so coprocessors need not.
func round(d *types.Datum, decimals int) {
	if d.Kind() != types.KindMysqlDecimal || decimals < 0 {
		return
	}
	rounded := new(types.MyDecimal)
	if err := d.GetMysqlDecimal().Round(rounded, decimals, types.ModeHalfUp); err != nil {
		panic(err)
	}
	*d = types.NewDecimalDatum(rounded)
}

// decodeRows returns the rows of an answer. Of the first partial columns the decimals are not rounded yet.
func decodeRows(run *dagRun, partial int, answer *tipb.SelectResponse) [][]types.Datum {
	fields := run.sink.fields
	var rows [][]types.Datum
	for _, c := range answer.Chunks {
		if len(c.RowsData) == 0 {
			continue
		}
		chk := chunk.NewChunkWithCapacity(fields, 0)
		if answer.EncodeType == tipb.EncodeType_TypeChunk {
			got, rest := chunk.NewCodec(fields).Decode(c.RowsData)
			if len(rest) > 0 {
				panic("bytes after a chunk")
			}
			chk = got
		} else {
			dec := codec.NewDecoder(chk, run.env.loc)
			for data := []byte(c.RowsData); len(data) > 0; {
				for i, ft := range fields {
					var err error
					if data, err = dec.DecodeOne(data, i, ft); err != nil {
						panic(err)
					}
				}
			}
		}
		for i := range chk.NumRows() {
			row := chk.GetRow(i).GetDatumRow(fields)
			for k := partial; k < len(row); k++ {
				round(&row[k], fields[k].GetDecimal())
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func rowText(row []types.Datum) string {
	var sb strings.Builder
	for _, d := range row {
		if d.Kind() == types.KindFloat64 && !math.IsInf(d.GetFloat64(), 0) {
			fmt.Fprintf(&sb, "%.9g|", d.GetFloat64()+0) // sums depend on the order; -0 is 0
			continue
		}
		fmt.Fprintf(&sb, "%s|", d.String())
	}
	return sb.String()
}

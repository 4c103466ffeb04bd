package cop

import (
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/executor/aggfuncs"
	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/expression/aggregation"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tipb/go-tipb"
)

// newAggregator makes the states of a function whose partial result goes to the columns that begin at col. It returns the
// columns' types too.
//
// The planner sends arguments of any type: what a function does not take as it is must be cast here.
func newAggregator(env *evalEnv, pb *tipb.Expr, fields []*types.FieldType, col int) (aggregator, []*types.FieldType, error) {
	args, err := env.buildExprs(pb.Children, fields)
	if err != nil {
		return nil, nil, err
	}
	if len(args) == 0 {
		return nil, nil, fmt.Errorf("aggregate function %s without argument", pb.Tp)
	}
	result := expression.FieldTypeFromPB(pb.FieldType)
	for i, arg := range args {
		if arg.GetType(env.eval).GetType() == mysql.TypeNull {
			args[i] = &expression.Constant{RetType: result}
		}
	}
	longlong := types.NewFieldType(mysql.TypeLonglong)
	switch pb.Tp {
	case tipb.ExprType_Count:
		return newCount(env, args), []*types.FieldType{longlong}, nil
	case tipb.ExprType_Sum:
		sum, err := newSum(env, args[0], result)
		return sum, []*types.FieldType{result}, err
	case tipb.ExprType_Avg:
		sum, err := newSum(env, args[0], result)
		return &pair{newCount(env, args), sum}, []*types.FieldType{longlong, result}, err
	}
	name, ok := generalFuncs[pb.Tp]
	if !ok {
		return nil, nil, fmt.Errorf("aggregate function %s is not supported", pb.Tp)
	}
	g := &general{view: newView(env, args)}
	desc := &aggregation.AggFuncDesc{Mode: aggregation.Partial1Mode}
	desc.Name, desc.RetTp, desc.Args = name, result, g.view.refs(env)
	desc.WrapCastForAggArgs(env.expr)
	if g.fn = aggfuncs.Build(env.expr, desc, col); g.fn == nil {
		return nil, nil, fmt.Errorf("aggregate function %s of type %s is not supported", name, result)
	}
	return g, []*types.FieldType{result}, nil
}

// generalFuncs are the functions that TiDB's executor computes.
var generalFuncs = map[tipb.ExprType]string{
	tipb.ExprType_First:      ast.AggFuncFirstRow,
	tipb.ExprType_Max:        ast.AggFuncMax,
	tipb.ExprType_Min:        ast.AggFuncMin,
	tipb.ExprType_Agg_BitAnd: ast.AggFuncBitAnd,
	tipb.ExprType_Agg_BitOr:  ast.AggFuncBitOr,
	tipb.ExprType_Agg_BitXor: ast.AggFuncBitXor,
}

// count counts the rows in which no argument is null.
type count struct {
	args   *columns
	states []int64
}

func newCount(env *evalEnv, args []expression.Expression) *count {
	return &count{args: newColumns(env, args)}
}

func (c *count) width() int { return 1 }

func (c *count) grow(n int) { c.states = growTo(c.states, n) }

func (c *count) drop(n int) { c.states = slices.Delete(c.states, 0, n) }

func (c *count) update(env *evalEnv, batch *chunk.Chunk, groups []int) error {
	if err := c.args.eval(env, batch); err != nil {
		return err
	}
	if len(c.args.exprs) == 1 {
		col := c.args.column(batch, 0)
		for i, g := range groups {
			if !col.IsNull(i) {
				c.states[g]++
			}
		}
		return nil
	}
	for i, g := range groups {
		null := false
		for k := range c.args.exprs {
			null = null || c.args.column(batch, k).IsNull(i)
		}
		if !null {
			c.states[g]++
		}
	}
	return nil
}

func (c *count) result(_ *evalEnv, from, to int, out *chunk.Chunk, col int) error {
	for _, n := range c.states[from:to] {
		out.AppendInt64(col, n)
	}
	return nil
}

// pair is two functions side by side: an average is a count and a sum.
type pair [2]aggregator

func (p *pair) width() int { return p[0].width() + p[1].width() }

func (p *pair) grow(n int) { p[0].grow(n); p[1].grow(n) }

func (p *pair) drop(n int) { p[0].drop(n); p[1].drop(n) }

func (p *pair) update(env *evalEnv, batch *chunk.Chunk, groups []int) error {
	if err := p[0].update(env, batch, groups); err != nil {
		return err
	}
	return p[1].update(env, batch, groups)
}

func (p *pair) result(env *evalEnv, from, to int, out *chunk.Chunk, col int) error {
	if err := p[0].result(env, from, to, out, col); err != nil {
		return err
	}
	return p[1].result(env, from, to, out, col+p[0].width())
}

// general runs a function of TiDB's executor: those that compare or combine values of any type.
type general struct {
	fn     aggfuncs.AggFunc
	view   *view
	states []aggfuncs.PartialResult
	rows   []chunk.Row
}

func (g *general) width() int { return 1 }

func (g *general) grow(n int) {
	for len(g.states) < n {
		state, _ := g.fn.AllocPartialResult()
		g.states = append(g.states, state)
	}
}

func (g *general) drop(n int) { g.states = slices.Delete(g.states, 0, n) }

func (g *general) update(env *evalEnv, batch *chunk.Chunk, groups []int) error {
	args, err := g.view.eval(env, batch)
	if err != nil {
		return err
	}
	g.rows = g.rows[:0]
	for i := range groups {
		g.rows = append(g.rows, args.GetRow(i))
	}
	for from := 0; from < len(groups); {
		to := from + 1
		for to < len(groups) && groups[to] == groups[from] {
			to++
		}
		if _, err := g.fn.UpdatePartialResult(env.eval, g.rows[from:to], g.states[groups[from]]); err != nil {
			return err
		}
		from = to
	}
	return nil
}

func (g *general) result(env *evalEnv, from, to int, out *chunk.Chunk, _ int) error {
	for _, state := range g.states[from:to] {
		if err := g.fn.AppendFinalResult2Chunk(env.eval, state, out); err != nil {
			return err
		}
	}
	return nil
}

// growTo returns the slice with zero values appended until its length is n.
func growTo[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	return append(s, make([]T, n-len(s))...)
}

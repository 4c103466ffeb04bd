package cop

import (
	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
)

// projection replaces each row by the values of expressions.
type projection struct {
	env  *evalEnv
	view *view
}

// push implements executor.
func (p *projection) push(batch *chunk.Chunk, emit emitFunc) (bool, error) {
	out, err := p.view.eval(p.env, batch)
	if err != nil {
		return false, err
	}
	return emit(out)
}

// finish implements executor.
func (p *projection) finish(emitFunc) error { return nil }

// columns evaluates expressions over batches, one column per expression. An expression that only names a column of the batch
// is not evaluated: it is that column.
type columns struct {
	exprs  []expression.Expression
	source []int // per expression: the batch's column if it is not negative, else column ^source of computed
	suite  *expression.EvaluatorSuite
	comp   *chunk.Chunk
}

func newColumns(env *evalEnv, exprs []expression.Expression) *columns {
	c := &columns{exprs: exprs, source: make([]int, len(exprs))}
	var computed []expression.Expression
	for i, e := range exprs {
		if col, ok := e.(*expression.Column); ok {
			c.source[i] = col.Index
			continue
		}
		c.source[i] = ^len(computed)
		computed = append(computed, e)
	}
	if len(computed) > 0 {
		c.suite = expression.NewEvaluatorSuite(computed, true)
		c.comp = env.newChunk(exprTypes(env, computed), smallBatch)
	}
	return c
}

// eval evaluates what must be computed.
func (c *columns) eval(env *evalEnv, batch *chunk.Chunk) error {
	if c.suite == nil {
		return nil
	}
	c.comp.Reset()
	return c.suite.Run(env.eval, true, batch, c.comp)
}

// column returns the values of expression i after eval; they live as long as the batch does.
func (c *columns) column(batch *chunk.Chunk, i int) *chunk.Column {
	if at := c.source[i]; at >= 0 {
		return batch.Column(at)
	}
	return c.comp.Column(^c.source[i])
}

// view is a chunk of the values of expressions. Other expressions can be built over it that could not be built over the
// expressions themselves: a function that came in a request does not know what the planner must know to cast it.
type view struct {
	exprs *columns
	chk   *chunk.Chunk
}

func newView(env *evalEnv, exprs []expression.Expression) *view {
	return &view{exprs: newColumns(env, exprs), chk: chunk.NewEmptyChunk(exprTypes(env, exprs))}
}

// refs returns expressions that name the view's columns. A constant is itself: the number behind one that is also a string (an
// ENUM, a literal in hex digits) may not be in its column.
func (v *view) refs(env *evalEnv) []expression.Expression {
	refs := make([]expression.Expression, len(v.exprs.exprs))
	for i, e := range v.exprs.exprs {
		if _, ok := e.(*expression.Constant); ok {
			refs[i] = e
			continue
		}
		refs[i] = &expression.Column{Index: i, RetType: e.GetType(env.eval)}
	}
	return refs
}

// eval evaluates the expressions; the chunk lives as long as the batch does.
func (v *view) eval(env *evalEnv, batch *chunk.Chunk) (*chunk.Chunk, error) {
	if err := v.exprs.eval(env, batch); err != nil {
		return nil, err
	}
	for i := range v.exprs.exprs {
		v.chk.SetCol(i, v.exprs.column(batch, i))
	}
	return v.chk, nil
}

// exprTypes returns the types of the expressions' values.
func exprTypes(env *evalEnv, exprs []expression.Expression) []*types.FieldType {
	fts := make([]*types.FieldType, len(exprs))
	for i, e := range exprs {
		fts[i] = e.GetType(env.eval)
	}
	return fts
}

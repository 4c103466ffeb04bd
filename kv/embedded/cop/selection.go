package cop

import (
	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
)

// selection passes on the rows for which every condition is true. As in TiKV, a condition is evaluated for the rows only
// for which all conditions before it are true, and not at all where none is left: an expression of constants alone can
// fail without any row.
type selection struct {
	env        *evalEnv
	conditions []expression.Expression
	truth      *chunk.Column
	rows       []int
	out        *chunk.Chunk
}

func newSelection(env *evalEnv, conditions []expression.Expression, fields []*types.FieldType) *selection {
	return &selection{
		env: env, conditions: conditions, out: env.newChunk(fields, smallBatch),
		truth: chunk.NewColumn(types.NewFieldType(mysql.TypeLonglong), smallBatch),
	}
}

// push implements executor.
func (s *selection) push(batch *chunk.Chunk, emit emitFunc) (bool, error) {
	total := batch.NumRows()
	s.rows = s.rows[:0]
	for i := range total {
		s.rows = append(s.rows, i)
	}
	for _, condition := range s.conditions {
		if err := s.keep(condition, batch, total); err != nil {
			return false, err
		}
		if len(s.rows) == 0 {
			return true, nil
		}
	}
	if len(s.rows) == total {
		return emit(batch)
	}
	s.out.Reset()
	for _, i := range s.rows {
		s.out.AppendRow(batch.GetRow(i))
	}
	return emit(s.out)
}

// keep reduces s.rows to those for which condition is true.
func (s *selection) keep(condition expression.Expression, batch *chunk.Chunk, total int) error {
	if len(s.rows) < total {
		batch.SetSel(s.rows)
		defer batch.SetSel(nil)
	}
	if condition.GetType(s.env.eval).EvalType() != types.ETInt {
		return s.keepEach(condition, batch)
	}
	if err := expression.EvalExpr(s.env.eval, true, condition, types.ETInt, batch, s.truth); err != nil {
		return err
	}
	// The evaluation is over, so s.rows may be written while it is the batch's selection.
	kept := s.rows[:0]
	values := s.truth.Int64s()
	for i, row := range s.rows {
		if values[i] != 0 && !s.truth.IsNull(i) {
			kept = append(kept, row)
		}
	}
	s.rows = kept
	return nil
}

// keepEach is keep for a condition that is no integer, which TiDB pushes down seldom.
func (s *selection) keepEach(condition expression.Expression, batch *chunk.Chunk) error {
	each := expression.CNFExprs{condition}
	kept := make([]int, 0, len(s.rows))
	for i, row := range s.rows {
		hit, _, err := expression.EvalBool(s.env.eval, each, batch.GetRow(i))
		if err != nil {
			return err
		}
		if hit {
			kept = append(kept, row)
		}
	}
	s.rows = kept
	return nil
}

// finish implements executor.
func (s *selection) finish(emitFunc) error { return nil }

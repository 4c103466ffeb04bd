package cop

import (
	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/util/chunk"
)

// selection passes on the rows for which every condition is true.
type selection struct {
	env        *evalEnv
	conditions []expression.Expression
	iter       *chunk.Iterator4Chunk
	selected   []bool
	out        *chunk.Chunk
}

// push implements executor.
func (s *selection) push(batch *chunk.Chunk, emit emitFunc) (bool, error) {
	s.iter.ResetChunk(batch)
	var err error
	s.selected, err = expression.VectorizedFilter(s.env.eval, true, s.conditions, s.iter, s.selected[:0])
	if err != nil {
		return false, err
	}
	hits := 0
	for _, hit := range s.selected {
		if hit {
			hits++
		}
	}
	switch hits {
	case 0:
		return true, nil
	case batch.NumRows():
		return emit(batch)
	}
	s.out.Reset()
	for i, hit := range s.selected {
		if hit {
			s.out.AppendRow(batch.GetRow(i))
		}
	}
	return emit(s.out)
}

// finish implements executor.
func (s *selection) finish(emitFunc) error { return nil }

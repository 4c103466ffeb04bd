package cop

import (
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
)

// aggregate folds its input into one row per group: the functions' partial results, then the values that the group was made
// by. The SQL layer merges the partial results of all requests of a query.
//
// A stream aggregation gets the rows of a group one after the other, so it keeps only a batch of groups; a hash aggregation
// keeps all. Both emit the groups in the order in which they appeared. Without a group-by list all rows are one group; if
// there is no row there is no group, which the SQL layer takes as nothing to merge.
type aggregate struct {
	env      *evalEnv
	streamed bool
	funcs    []aggregator
	groupBy  *keyEncoder // nil without a group-by list
	index    *groupIndex // of a hash aggregation
	last     []byte      // key of the newest group of a stream aggregation

	groups int          // known groups
	bytes  uint64       // of the keys of a hash aggregation's groups
	values *chunk.Chunk // the groups' values of the group-by list
	rows   []int        // group of each row of the batch
	out    *chunk.Chunk
}

// aggregator keeps the states of one function, one per group.
type aggregator interface {
	// width is the number of columns of a partial result.
	width() int
	// grow adds states until there are n.
	grow(n int)
	// update folds each row of the batch into the state of its group.
	update(env *evalEnv, batch *chunk.Chunk, groups []int) error
	// result appends the partial results of the groups [from, to) to the columns of out that begin at col.
	result(env *evalEnv, from, to int, out *chunk.Chunk, col int) error
	// drop forgets the first n groups; the others move down.
	drop(n int)
}

func newAggregate(env *evalEnv, funcs []aggregator, groupBy *keyEncoder, streamed bool, fields []*types.FieldType) *aggregate {
	a := &aggregate{env: env, streamed: streamed, funcs: funcs, groupBy: groupBy}
	a.out = env.newChunk(fields, smallBatch)
	if groupBy != nil {
		a.values = env.newChunk(exprTypes(env, groupBy.values.exprs), smallBatch)
		if !streamed {
			a.index = &groupBy.memory.index
		}
	}
	return a
}

// push implements executor.
func (a *aggregate) push(batch *chunk.Chunk, emit emitFunc) (bool, error) {
	if err := a.assign(batch); err != nil {
		return false, err
	}
	for _, f := range a.funcs {
		f.grow(a.groups)
		if err := f.update(a.env, batch, a.rows); err != nil {
			return false, err
		}
	}
	if a.streamed && a.groups > maxBatch {
		return a.flush(a.groups-1, emit)
	}
	return true, nil
}

// assign finds the group of every row.
func (a *aggregate) assign(batch *chunk.Chunk) error {
	n := batch.NumRows()
	if cap(a.rows) < n {
		a.rows = make([]int, n)
	}
	a.rows = a.rows[:n]
	if a.groupBy == nil {
		a.groups = 1
		return nil // all rows are in group 0, and no row was ever put elsewhere
	}
	keys, err := a.groupBy.encode(a.env, batch)
	if err != nil {
		return err
	}
	for i, key := range keys {
		a.rows[i] = a.group(batch, i, key)
	}
	return nil
}

// group returns the group with the key, which row i of the batch starts if it is new.
func (a *aggregate) group(batch *chunk.Chunk, i int, key []byte) int {
	if a.streamed {
		if a.groups > 0 && string(key) == string(a.last) {
			return a.groups - 1
		}
		a.last = append(a.last[:0], key...)
	} else if g, isNew := a.index.find(key); !isNew {
		return g
	} else {
		a.bytes += uint64(len(key))
	}
	for k := range a.groupBy.values.exprs {
		a.values.Column(k).AppendCellNTimes(a.groupBy.values.column(batch, k), i, 1)
	}
	a.groups++
	return a.groups - 1
}

// held implements holder. It counts half of what the groups take, in their keys and their values, so that their pages are
// larger than others: a group that is in several has to be put together again by the SQL layer.
func (a *aggregate) held() uint64 { return a.bytes / 2 }

// finish implements executor.
func (a *aggregate) finish(emit emitFunc) error {
	_, err := a.flush(a.groups, emit)
	return err
}

// flush emits the first n groups and forgets them.
func (a *aggregate) flush(n int, emit emitFunc) (more bool, err error) {
	more = true
	for from := 0; from < n && more; from += maxBatch {
		if err := a.fill(from, min(from+maxBatch, n)); err != nil {
			return false, err
		}
		if more, err = emit(a.out); err != nil {
			return false, err
		}
	}
	for _, f := range a.funcs {
		f.drop(n)
	}
	if a.values != nil {
		rest := a.values.CloneEmpty(a.groups - n)
		rest.Append(a.values, n, a.groups)
		a.values = rest
	}
	a.groups -= n
	return more, nil
}

// fill makes a batch of the groups [from, to).
func (a *aggregate) fill(from, to int) error {
	a.out.Reset()
	col := 0
	for _, f := range a.funcs {
		if err := f.result(a.env, from, to, a.out, col); err != nil {
			return err
		}
		col += f.width()
	}
	if a.values == nil {
		return nil
	}
	for k := range a.values.NumCols() {
		if from == 0 && to == a.groups {
			a.out.SetCol(col+k, a.values.Column(k)) // flush forgets these columns next
			continue
		}
		for g := from; g < to; g++ {
			a.out.Column(col+k).AppendCellNTimes(a.values.Column(k), g, 1)
		}
	}
	return nil
}

package cop

import (
	"container/heap"
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
)

// topN keeps the first rows in an order, of the whole input or of every partition: a run of rows with equal partition
// columns. What it keeps is bounded by the limit and not by the input.
type topN struct {
	env   *evalEnv
	limit int
	order *columns
	desc  []bool
	keyAt []int // per order item: its column in view and store
	less  []chunk.CompareFunc

	width int          // columns of the input
	view  *chunk.Chunk // the current batch with the computed order items beside it
	store *chunk.Chunk // rows like those of view: the kept ones and those that they replaced
	bytes uint64       // of the rows in store
	kept  uint64       // of those that are not replaced
	rows  []int        // heap of the kept rows' places in store, the last in the order on top
	out   *chunk.Chunk

	partitions *keyEncoder // nil if the whole input is one partition
	last       []byte
	seen       bool
}

func newTopN(env *evalEnv, limit int, fields []*types.FieldType, order *columns, desc []bool) (*topN, error) {
	t := &topN{env: env, limit: limit, order: order, desc: desc, width: len(fields)}
	wide := slices.Clone(fields)
	for i, ft := range exprTypes(env, order.exprs) {
		at := order.source[i]
		if at < 0 {
			at = len(wide)
			wide = append(wide, ft)
		}
		cmp := chunk.GetCompareFunc(ft)
		if cmp == nil {
			return nil, fmt.Errorf("values of type %s have no order", ft)
		}
		t.keyAt = append(t.keyAt, at)
		t.less = append(t.less, cmp)
	}
	t.view = chunk.NewEmptyChunk(wide)
	t.store = env.newChunk(wide, min(limit, smallBatch))
	t.out = env.newChunk(fields, min(limit, smallBatch))
	return t, nil
}

// push implements executor.
func (t *topN) push(batch *chunk.Chunk, emit emitFunc) (bool, error) {
	if t.limit == 0 {
		return false, nil
	}
	if err := t.order.eval(t.env, batch); err != nil {
		return false, err
	}
	for i := range t.width {
		t.view.SetCol(i, batch.Column(i))
	}
	for i, at := range t.keyAt {
		t.view.SetCol(at, t.order.column(batch, i))
	}
	if t.partitions != nil {
		return t.pushPartitioned(batch, emit)
	}
	for i := range batch.NumRows() {
		t.offer(t.view.GetRow(i))
	}
	return true, nil
}

func (t *topN) pushPartitioned(batch *chunk.Chunk, emit emitFunc) (bool, error) {
	keys, err := t.partitions.encode(t.env, batch)
	if err != nil {
		return false, err
	}
	for i, key := range keys {
		if !t.seen || string(key) != string(t.last) {
			if more, err := t.flush(emit); err != nil || !more {
				return false, err
			}
			t.seen = true
			t.last = append(t.last[:0], key...)
		}
		t.offer(t.view.GetRow(i))
	}
	return true, nil
}

// offer keeps the row if it is among the first.
func (t *topN) offer(row chunk.Row) {
	if len(t.rows) < t.limit {
		t.keep(row)
		heap.Push((*topNHeap)(t), t.store.NumRows()-1)
		return
	}
	if t.compare(row, t.store.GetRow(t.rows[0])) >= 0 {
		return
	}
	t.kept -= size(t.store.GetRow(t.rows[0]))
	t.keep(row)
	t.rows[0] = t.store.NumRows() - 1
	heap.Fix((*topNHeap)(t), 0)
	n := t.store.NumRows()
	if n >= 2*t.limit+maxBatch || t.bytes >= maxBatchBytes && t.bytes >= 2*t.kept {
		t.compact()
	}
}

// keep appends a row to the store.
func (t *topN) keep(row chunk.Row) {
	t.store.AppendRow(row)
	n := size(row)
	t.bytes += n
	t.kept += n
}

// size returns the bytes of a row's values.
func size(row chunk.Row) (n uint64) {
	for i := range row.Len() {
		n += uint64(len(row.GetRaw(i)))
	}
	return n
}

// held implements holder: a page that ended by rows which are replaced would make the SQL layer sort more.
func (t *topN) held() uint64 { return t.kept }

// compact drops the replaced rows from the store.
func (t *topN) compact() {
	all := t.store
	t.store, t.bytes, t.kept = all.CloneEmpty(len(t.rows)), 0, 0
	for i, at := range t.rows {
		t.keep(all.GetRow(at))
		t.rows[i] = i
	}
}

func (t *topN) compare(a, b chunk.Row) int {
	for i, at := range t.keyAt {
		c := t.less[i](a, at, b, at)
		if c == 0 {
			continue
		}
		if t.desc[i] {
			return -c
		}
		return c
	}
	return 0
}

// finish implements executor.
func (t *topN) finish(emit emitFunc) error {
	_, err := t.flush(emit)
	return err
}

// flush emits the kept rows in their order and forgets them.
func (t *topN) flush(emit emitFunc) (more bool, err error) {
	slices.SortFunc(t.rows, func(a, b int) int { return t.compare(t.store.GetRow(a), t.store.GetRow(b)) })
	input := make([]int, t.width)
	for i := range input {
		input[i] = i
	}
	kept := t.store.Prune(input)
	more = true
	for part := range slices.Chunk(t.rows, maxBatch) {
		t.out.Reset()
		for _, at := range part {
			t.out.AppendRow(kept.GetRow(at))
		}
		if more, err = emit(t.out); err != nil || !more {
			return false, err
		}
	}
	t.rows = t.rows[:0]
	t.store.Reset()
	t.bytes, t.kept = 0, 0
	return more, nil
}

// topNHeap is a topN as a heap of its kept rows.
type topNHeap topN

func (h *topNHeap) Len() int { return len(h.rows) }

func (h *topNHeap) Less(i, j int) bool {
	t := (*topN)(h)
	return t.compare(t.store.GetRow(t.rows[i]), t.store.GetRow(t.rows[j])) > 0
}

func (h *topNHeap) Swap(i, j int) { h.rows[i], h.rows[j] = h.rows[j], h.rows[i] }

func (h *topNHeap) Push(x any) { h.rows = append(h.rows, x.(int)) }

func (h *topNHeap) Pop() any {
	last := h.rows[len(h.rows)-1]
	h.rows = h.rows[:len(h.rows)-1]
	return last
}

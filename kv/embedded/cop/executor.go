package cop

import (
	"time"

	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tipb/go-tipb"
)

const (
	// Each batch of a scan is twice as large as the one before, up to maxBatch rows, or less if they have maxBatchBytes. The
	// first has firstBatch rows, or smallBatch if a limit may end the scan early. Chunks are made for smallBatch rows and grow.
	smallBatch    = 32
	firstBatch    = 256
	maxBatch      = 1024
	maxBatchBytes = 1 << 20
)

// emitFunc hands a batch to the executor above. It returns false if no more rows are wanted.
type emitFunc func(batch *chunk.Chunk) (more bool, err error)

// executor is one step of a chain above the scan.
type executor interface {
	// push takes a batch of the executor below and emits what follows from it. It returns false if it wants no more.
	push(batch *chunk.Chunk, emit emitFunc) (more bool, err error)
	// finish is called once, after the last batch.
	finish(emit emitFunc) error
}

// holder is an executor that may hold much of what was pushed until it is finished.
type holder interface {
	// held is how many bytes it holds.
	held() uint64
}

// node is an executor's place in the chain, with the figures for its execution summary. The scan is the chain's first node
// and has no executor.
type node struct {
	exec    executor
	next    *node    // the node above, nil for the last
	sink    emitFunc // where the last node's batches go
	fields  []*types.FieldType
	id      string
	measure bool

	rows, batches uint64
	above         time.Duration // spent in the executors above
}

// emit counts the batch and hands it to the node above.
func (n *node) emit(batch *chunk.Chunk) (bool, error) {
	n.rows += uint64(batch.NumRows())
	n.batches++
	if !n.measure {
		return n.forward(batch)
	}
	begin := time.Now()
	more, err := n.forward(batch)
	n.above += time.Since(begin)
	return more, err
}

func (n *node) forward(batch *chunk.Chunk) (bool, error) {
	if n.next == nil {
		return n.sink(batch)
	}
	return n.next.exec.push(batch, n.next.emit)
}

// held is how many bytes the executors above n hold.
func (n *node) held() (bytes uint64) {
	for up := n.next; up != nil; up = up.next {
		if h, ok := up.exec.(holder); ok {
			bytes += h.held()
		}
	}
	return bytes
}

// finish lets every node above n emit what it still holds, from the lowest to the highest.
func (n *node) finish() error {
	for up := n.next; up != nil; up = up.next {
		begin := time.Now()
		if err := up.exec.finish(up.emit); err != nil {
			return err
		}
		spent := time.Since(begin)
		for below := n; below != up; below = below.next {
			below.above += spent
		}
	}
	return nil
}

// summaries returns the execution summaries of the chain that begins at n. As in TiKV the time of an executor includes that
// of the executors below it.
func (n *node) summaries(total time.Duration) []*tipb.ExecutorExecutionSummary {
	var list []*tipb.ExecutorExecutionSummary
	for ; n != nil; n = n.next {
		spent := uint64(max(total-n.above, 0))
		rows, batches := n.rows, n.batches
		s := &tipb.ExecutorExecutionSummary{TimeProcessedNs: &spent, NumProducedRows: &rows, NumIterations: &batches}
		if n.id != "" {
			id := n.id
			s.ExecutorId = &id
		}
		list = append(list, s)
	}
	return list
}

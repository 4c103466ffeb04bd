package cop

import (
	"github.com/pingcap/tidb/pkg/util/chunk"
)

// limit passes on the first rows, or the first of every partition: a run of rows with equal partition columns.
type limit struct {
	env        *evalEnv
	count      uint64
	left       uint64
	partitions *keyEncoder // nil if the whole input is one partition
	last       []byte      // key of the partition that the last row was in
	seen       bool
	out        *chunk.Chunk
}

// push implements executor.
func (l *limit) push(batch *chunk.Chunk, emit emitFunc) (bool, error) {
	if l.partitions != nil {
		return l.pushPartitioned(batch, emit)
	}
	n := uint64(batch.NumRows())
	if n < l.left {
		l.left -= n
		return emit(batch)
	}
	if n > l.left {
		batch.TruncateTo(int(l.left))
	}
	l.left = 0
	if batch.NumRows() > 0 {
		if _, err := emit(batch); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (l *limit) pushPartitioned(batch *chunk.Chunk, emit emitFunc) (bool, error) {
	keys, err := l.partitions.encode(l.env, batch)
	if err != nil {
		return false, err
	}
	l.out.Reset()
	for i, key := range keys {
		if !l.seen || string(key) != string(l.last) {
			l.seen, l.left = true, l.count
			l.last = append(l.last[:0], key...)
		}
		if l.left > 0 {
			l.left--
			l.out.AppendRow(batch.GetRow(i))
		}
	}
	if l.out.NumRows() == 0 {
		return true, nil
	}
	return emit(l.out)
}

// finish implements executor.
func (l *limit) finish(emitFunc) error { return nil }

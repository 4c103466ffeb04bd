package sql

import (
	"bytes"
	"context"

	"fastddl/kv"
)

// maxStatementBytes bounds what one statement writes; a transaction's own limit
// is checked when the statement ends.
const maxStatementBytes = 1 << 30

// statementBuffer holds the writes of one statement apart from its transaction
// until the statement ends, so that what the statement reads does not change
// under it: a join may read a table again for every row of another. Get sees the
// buffered writes, for checks of unique keys and for rows that the statement
// changes twice; so does Written. Iterators do not.
type statementBuffer struct {
	kv.Txn
	ops []bufferedWrite
	// latest is, for each key, one more than the position of its last write.
	latest map[string]int
	size   int
}

// bufferedWrite is one write; a nil value is a tombstone.
type bufferedWrite struct {
	key    string
	value  []byte
	flags  kv.KeyFlag
	before int
}

func newStatementBuffer(txn kv.Txn) *statementBuffer {
	return &statementBuffer{Txn: txn, latest: make(map[string]int)}
}

// Get implements kv.Retriever.
func (b *statementBuffer) Get(ctx context.Context, key []byte) ([]byte, error) {
	at, ok := b.latest[string(key)]
	if !ok {
		return b.Txn.Get(ctx, key)
	}
	if value := b.ops[at-1].value; value != nil {
		return bytes.Clone(value), nil
	}
	return nil, kv.ErrNotExist
}

// Set implements kv.Txn.
func (b *statementBuffer) Set(key, value []byte, flags ...kv.KeyFlag) error {
	if len(value) == 0 {
		return kv.ErrEmptyValue
	}
	return b.write(key, bytes.Clone(value), flags)
}

// Delete implements kv.Txn.
func (b *statementBuffer) Delete(key []byte, flags ...kv.KeyFlag) error {
	return b.write(key, nil, flags)
}

func (b *statementBuffer) write(key, value []byte, flags []kv.KeyFlag) error {
	if b.size+len(key)+len(value) > maxStatementBytes {
		return kv.ErrTxnTooLarge
	}
	op := bufferedWrite{key: string(key), value: value}
	for _, f := range flags {
		op.flags |= f
	}
	if op.before = b.latest[op.key]; op.before > 0 {
		op.flags = op.flags.After(b.ops[op.before-1].flags)
	}
	b.ops = append(b.ops, op)
	b.latest[op.key] = len(b.ops)
	b.size += len(key) + len(value)
	return nil
}

// Written implements kv.Txn.
func (b *statementBuffer) Written(key []byte) bool {
	if at, ok := b.latest[string(key)]; ok {
		return b.ops[at-1].flags&kv.Withdrawn == 0
	}
	return b.Txn.Written(key)
}

// Checkpoint implements kv.Txn.
func (b *statementBuffer) Checkpoint() kv.Checkpoint { return kv.Checkpoint(len(b.ops)) }

// RevertTo implements kv.Txn.
func (b *statementBuffer) RevertTo(c kv.Checkpoint) {
	for len(b.ops) > int(c) {
		last := len(b.ops) - 1
		op := b.ops[last]
		if op.before > 0 {
			b.latest[op.key] = op.before
		} else {
			delete(b.latest, op.key)
		}
		b.size -= len(op.key) + len(op.value)
		b.ops[last] = bufferedWrite{}
		b.ops = b.ops[:last]
	}
}

// flush moves the writes into the transaction: all of them, or none if it fails.
func (b *statementBuffer) flush() error {
	undo := b.Txn.Checkpoint()
	for i, op := range b.ops {
		if b.latest[op.key] != i+1 {
			continue
		}
		var err error
		if op.value == nil {
			err = b.Txn.Delete([]byte(op.key), op.flags)
		} else {
			err = b.Txn.Set([]byte(op.key), op.value, op.flags)
		}
		if err != nil {
			b.Txn.RevertTo(undo)
			return err
		}
	}
	b.ops, b.size = b.ops[:0], 0
	clear(b.latest)
	return nil
}

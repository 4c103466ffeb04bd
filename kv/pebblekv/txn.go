package pebblekv

import (
	"bytes"
	"context"
	"fmt"

	"fastddl/kv"
)

// txn implements kv.Txn.
type txn struct {
	view
	buffer      writeBuffer
	locks       [][]byte
	commitCheck func(commitTS uint64) error
	commitTS    uint64
	done        bool
}

// Begin implements kv.Store.
func (s *Store) Begin(ctx context.Context) (kv.Txn, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.exit()
	ts, err := s.timeline.beginRead()
	if err != nil {
		return nil, err
	}
	return &txn{view: view{s, ts}}, nil
}

func (t *txn) StartTS() uint64 { return t.ts }

func (t *txn) Get(ctx context.Context, key []byte) ([]byte, error) {
	if t.done {
		return nil, kv.ErrTxnDone
	}
	if e, ok := t.buffer.get(key); ok {
		if e.value == nil {
			return nil, kv.ErrNotExist
		}
		return bytes.Clone(e.value), nil
	}
	return t.get(ctx, key)
}

// Iter implements kv.Retriever. The iterator shows the transaction's writes as
// of now, so that a scan does not run into what is written while it goes on.
func (t *txn) Iter(r kv.KeyRange) (kv.Iterator, error) { return t.open(r, false) }

// IterReverse is Iter in descending order.
func (t *txn) IterReverse(r kv.KeyRange) (kv.Iterator, error) { return t.open(r, true) }

func (t *txn) open(r kv.KeyRange, reverse bool) (kv.Iterator, error) {
	if t.done {
		return nil, kv.ErrTxnDone
	}
	stored, err := t.iter(r, reverse)
	if err != nil || r.Empty() {
		return stored, err
	}
	buffered := t.buffer.iter(r, reverse)
	if buffered == nil {
		return stored, nil
	}
	return newMergedIter(stored, buffered)
}

func (t *txn) Set(key, value []byte, flags ...kv.KeyFlag) error {
	if len(value) == 0 {
		return kv.ErrEmptyValue
	}
	return t.write(key, value, false, flags)
}

func (t *txn) Delete(key []byte, flags ...kv.KeyFlag) error {
	return t.write(key, nil, true, flags)
}

func (t *txn) write(key, value []byte, tombstone bool, flags []kv.KeyFlag) error {
	if t.done {
		return kv.ErrTxnDone
	}
	if err := checkUserKey(key); err != nil {
		return err
	}
	if size := t.buffer.size + len(key) + len(value); size > t.store.opts.TxnSizeLimit {
		return fmt.Errorf("%w: %d bytes, the limit is %d", kv.ErrTxnTooLarge, size, t.store.opts.TxnSizeLimit)
	}
	var all kv.KeyFlag
	for _, f := range flags {
		all |= f
	}
	t.buffer.put(key, value, tombstone, all)
	return nil
}

func (t *txn) LockKeys(keys ...[]byte) error {
	if t.done {
		return kv.ErrTxnDone
	}
	for _, key := range keys {
		if err := checkUserKey(key); err != nil {
			return err
		}
		t.locks = append(t.locks, bytes.Clone(key))
	}
	return nil
}

func (t *txn) Checkpoint() kv.Checkpoint { return kv.Checkpoint(len(t.buffer.undo)) }

func (t *txn) RevertTo(c kv.Checkpoint) { t.buffer.revertTo(int(c)) }

func (t *txn) Written(key []byte) bool {
	e, ok := t.buffer.get(key)
	return ok && !e.withdrawn()
}

func (t *txn) Len() int { return t.buffer.len() }

func (t *txn) Size() int { return t.buffer.size }

func (t *txn) SetCommitCheck(fn func(commitTS uint64) error) { t.commitCheck = fn }

func (t *txn) CommitTS() uint64 { return t.commitTS }

func (t *txn) Rollback() error {
	t.end()
	return nil
}

// end releases the transaction's snapshot, once.
func (t *txn) end() {
	if t.done {
		return
	}
	t.done = true
	t.buffer, t.locks, t.commitCheck = writeBuffer{}, nil, nil
	t.store.timeline.endRead(t.ts)
}

// mergedIter shows the store's keys with a transaction's writes laid over
// them, in either direction.
type mergedIter struct {
	stored   kv.Iterator
	buffered *bufferIter
	// onBuffer says which of the two the current entry comes from.
	onBuffer bool
	valid    bool
}

func newMergedIter(stored kv.Iterator, buffered *bufferIter) (kv.Iterator, error) {
	m := &mergedIter{stored: stored, buffered: buffered}
	if err := m.settle(); err != nil {
		_ = stored.Close()
		return nil, err
	}
	return m, nil
}

// settle finds the next entry to show from the positions of the two iterators.
func (m *mergedIter) settle() error {
	m.valid = false
	for m.buffered.valid() {
		b := m.buffered.current()
		if m.stored.Valid() {
			order := bytes.Compare(b.key, m.stored.Key())
			if m.buffered.reverse {
				order = -order
			}
			if order > 0 {
				m.onBuffer, m.valid = false, true
				return nil
			}
			if order == 0 {
				// The write shadows what is stored.
				if err := m.stored.Next(); err != nil {
					return err
				}
			}
		}
		if b.value != nil {
			m.onBuffer, m.valid = true, true
			return nil
		}
		m.buffered.next()
	}
	m.onBuffer, m.valid = false, m.stored.Valid()
	return nil
}

func (m *mergedIter) Valid() bool { return m.valid }

func (m *mergedIter) Key() []byte {
	if m.onBuffer {
		return m.buffered.current().key
	}
	return m.stored.Key()
}

func (m *mergedIter) Value() []byte {
	if m.onBuffer {
		return m.buffered.current().value
	}
	return m.stored.Value()
}

func (m *mergedIter) Next() error {
	if !m.valid {
		return nil
	}
	if m.onBuffer {
		m.buffered.next()
	} else if err := m.stored.Next(); err != nil {
		m.valid = false
		return err
	}
	return m.settle()
}

func (m *mergedIter) Close() error {
	m.valid = false
	return m.stored.Close()
}

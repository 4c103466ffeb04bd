package cop

import (
	"bytes"
	"context"
	"sort"
	"sync/atomic"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// memReader is a snapshot in memory: pairs in the order of their keys.
type memReader struct {
	keys, values [][]byte
	// lockedKey is locked if it is not nil.
	lockedKey []byte
	// onPair is called before each pair that Scan hands out, if it is not nil.
	onPair func()
	gets   atomic.Int64
	scans  atomic.Int64
}

// put adds a pair; pairs may come in any order before sort.
func (m *memReader) put(key, value []byte) {
	m.keys = append(m.keys, bytes.Clone(key))
	m.values = append(m.values, bytes.Clone(value))
}

func (m *memReader) sort() { sort.Sort(byKey{m}) }

type byKey struct{ *memReader }

func (b byKey) Len() int           { return len(b.keys) }
func (b byKey) Less(i, j int) bool { return bytes.Compare(b.keys[i], b.keys[j]) < 0 }
func (b byKey) Swap(i, j int) {
	b.keys[i], b.keys[j] = b.keys[j], b.keys[i]
	b.values[i], b.values[j] = b.values[j], b.values[i]
}

func (m *memReader) seek(key []byte) int {
	return sort.Search(len(m.keys), func(i int) bool { return bytes.Compare(m.keys[i], key) >= 0 })
}

// Get implements Reader.
func (m *memReader) Get(_ context.Context, key []byte) ([]byte, error) {
	m.gets.Add(1)
	if err := m.locked(key); err != nil {
		return nil, err
	}
	if i := m.seek(key); i < len(m.keys) && bytes.Equal(m.keys[i], key) {
		return m.values[i], nil
	}
	return nil, nil
}

// Scan implements Reader.
func (m *memReader) Scan(_ context.Context, start, end []byte, desc bool, fn func(key, value []byte) (bool, error)) error {
	m.scans.Add(1)
	from, to, step := m.seek(start), m.seek(end), 1
	if desc {
		from, to, step = to-1, from-1, -1
	}
	for i := from; i != to; i += step {
		if err := m.locked(m.keys[i]); err != nil {
			return err
		}
		if m.onPair != nil {
			m.onPair()
		}
		if more, err := fn(m.keys[i], m.values[i]); err != nil || !more {
			return err
		}
	}
	return nil
}

func (m *memReader) locked(key []byte) error {
	if m.lockedKey == nil || !bytes.Equal(key, m.lockedKey) {
		return nil
	}
	return &LockedError{Info: &kvrpcpb.LockInfo{Key: key, LockVersion: 7}}
}

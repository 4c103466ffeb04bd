package pebblekv

import (
	"context"
	"strings"
)

// recordMeta is the prefix of records that the layer above keeps in the store.
const recordMeta = "meta/"

// SaveMeta stores a small named record of the layer above, durably; a nil value
// removes it. Records have no versions and no effect on readers and writers of data.
func (s *Store) SaveMeta(ctx context.Context, name string, value []byte) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.gate.exit()
	if value == nil {
		return s.deleteRecord(recordMeta + name)
	}
	return s.setRecord(recordMeta+name, value)
}

// LoadMeta returns a record stored by SaveMeta, nil if there is none.
func (s *Store) LoadMeta(ctx context.Context, name string) ([]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.exit()
	return s.record(recordMeta + name)
}

// EachMeta calls fn for all records whose names begin with prefix, by name. The
// value is valid during the call.
func (s *Store) EachMeta(ctx context.Context, prefix string, fn func(name string, value []byte) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.gate.exit()
	return s.eachRecord(recordMeta+prefix, func(name string, value []byte) error {
		return fn(strings.TrimPrefix(name, recordMeta), value)
	})
}

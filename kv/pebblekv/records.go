package pebblekv

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"fastddl/kv"
)

// Names of the store's own records.
const (
	recordTSBound   = "ts/bound"     // no timestamp at or above it was handed out
	recordSafePoint = "gc/safepoint" // nothing below it can be read
	recordGCDone    = "gc/done"      // garbage below it has been collected
	recordHolds     = "gc/hold/"     // prefix: one record per hold
)

// setRecord stores a record durably.
func (s *Store) setRecord(name string, value []byte) error {
	return s.writeRecord(ownWrite, func(b *pebble.Batch) error { return b.Set(recordKey(name), value, nil) })
}

// deleteRecord removes a record durably.
func (s *Store) deleteRecord(name string) error {
	return s.writeRecord(ownWrite, func(b *pebble.Batch) error { return b.Delete(recordKey(name), nil) })
}

// writeRecord writes what fill puts into a batch, durably.
func (s *Store) writeRecord(class writeClass, fill func(*pebble.Batch) error) error {
	if err := s.admit(class, 0); err != nil {
		return err
	}
	b := s.db.NewBatch()
	if err := fill(b); err != nil {
		return errors.Join(err, b.Close())
	}
	return s.applyDurably(b)
}

// record returns the value of a record, nil if there is none.
func (s *Store) record(name string) ([]byte, error) {
	v, closer, err := s.db.Get(recordKey(name))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pebblekv: reading record %s: %w", name, err)
	}
	out := append([]byte{}, v...)
	return out, closer.Close()
}

// eachRecord calls fn for the records whose names have the prefix.
func (s *Store) eachRecord(prefix string, fn func(name string, value []byte) error) (err error) {
	start := append([]byte{reservedByte}, prefix...)
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: appendBare(nil, start),
		UpperBound: appendBare(nil, kv.PrefixNext(start)),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.First(); it.Valid(); it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := fn(recordName(it.Key()), value); err != nil {
			return err
		}
	}
	return it.Error()
}

// tsRecord reads a record that holds a timestamp, 0 if there is none.
func (s *Store) tsRecord(name string) (uint64, error) {
	v, err := s.record(name)
	if err != nil || v == nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("pebblekv: record %s has %d bytes, not 8", name, len(v))
	}
	return binary.BigEndian.Uint64(v), nil
}

func encodeTS(ts uint64) []byte { return binary.BigEndian.AppendUint64(nil, ts) }

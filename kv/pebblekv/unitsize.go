package pebblekv

import (
	"context"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2/sstable"

	"fastddl/kv"
)

// unitSizeBatch is how many pairs are added between two checks of the context.
const unitSizeBatch = 1024

// UnitSize implements kv.UnitSizer: it writes a file as NewImportWriter does, to nowhere.
func (s *Store) UnitSize(ctx context.Context, opts kv.ImportOptions, pairs iter.Seq2[[]byte, []byte]) (uint64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.gate.exit()
	suffix := appendVersion(nil, nil, opts.Version)
	w := sstable.NewWriter(discard{}, s.importFileOptions(opts))
	var key []byte
	n := 0
	for k, value := range pairs {
		key = append(append(key[:0], k...), suffix...)
		err := w.Set(key, value)
		if n++; err == nil && n%unitSizeBatch == 0 {
			err = ctx.Err()
		}
		if err != nil {
			_ = w.Close() // of a file that is thrown away
			return 0, fmt.Errorf("pebblekv: size of a unit: %w", err)
		}
	}
	return blockBytesOf(w)
}

// blockBytesOf ends a file and returns the bytes of what grows with its pairs.
func blockBytesOf(w *sstable.Writer) (uint64, error) {
	if err := w.Close(); err != nil {
		return 0, fmt.Errorf("pebblekv: size of a unit: %w", err)
	}
	meta, err := w.Metadata()
	if err != nil {
		return 0, fmt.Errorf("pebblekv: size of a unit: %w", err)
	}
	p := &meta.Properties
	return p.DataSize + p.IndexSize + p.FilterSize + p.ValueBlocksSize, nil
}

// discard is an objstorage.Writable that keeps nothing.
type discard struct{}

func (discard) Write([]byte) error          { return nil }
func (discard) Finish() error               { return nil }
func (discard) Abort()                      {}
func (discard) StartMetadataPortion() error { return nil }

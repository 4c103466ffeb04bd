package tikv

import (
	"context"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/pingcap/tidb/pkg/util/codec"

	"fastddl/kv"
)

const (
	// storeBlockBytes is TiKV's default size of blocks of the column families default and write.
	storeBlockBytes = 32 << 10
	// shortValueMax is up to how many bytes a value is in the write record itself (SHORT_VALUE_MAX_LEN of TiKV).
	shortValueMax = 255
	// recordOverhead is what a write record has beside a short value: its type, the start timestamp as a varint, and the
	// value's flag and length.
	recordOverhead = 1 + 9 + 2
	unitSizeBatch  = 1024
)

// UnitSize implements kv.UnitSizer: it writes records as TiKV's column family write has them into blocks of its default
// size, compressed as on its last levels by default (zstd).
func (s *Store) UnitSize(ctx context.Context, opts kv.ImportOptions, pairs iter.Seq2[[]byte, []byte]) (uint64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.exit()
	w := sstable.NewWriter(discard{}, sstable.WriterOptions{
		BlockSize: storeBlockBytes, TableFormat: sstable.TableFormatPebblev4, Compression: sstable.ZstdCompression,
	})
	var key, record []byte
	var long uint64 // bytes of column family default
	n := 0
	for k, value := range pairs {
		key = codec.EncodeUintDesc(codec.EncodeBytes(key[:0], k), opts.Version)
		record = append(record[:0], make([]byte, recordOverhead)...)
		if len(value) > shortValueMax {
			long += uint64(len(key) + len(value))
		} else {
			record = append(record, value...)
		}
		err := w.Set(key, record)
		if n++; err == nil && n%unitSizeBatch == 0 {
			err = ctx.Err()
		}
		if err != nil {
			_ = w.Close() // of a file that is thrown away
			return 0, fmt.Errorf("tikv: size of a unit: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return 0, fmt.Errorf("tikv: size of a unit: %w", err)
	}
	meta, err := w.Metadata()
	if err != nil {
		return 0, fmt.Errorf("tikv: size of a unit: %w", err)
	}
	return meta.Properties.DataSize + meta.Properties.IndexSize + long, nil
}

// discard is an objstorage.Writable that keeps nothing.
type discard struct{}

func (discard) Write([]byte) error { return nil }
func (discard) Finish() error      { return nil }
func (discard) Abort()             {}

package check

import (
	"context"
	"hash/crc64"
	"sync"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/catalog"
	"fastddl/internal/errs"
	"fastddl/kv"
	"fastddl/table"
)

// TableChecksum is what ADMIN CHECKSUM TABLE prints: over all row keys and all
// entries of public indexes the XOR of the CRC-64 (ECMA) of each key and value,
// their number and their bytes. It is the checksum that TiDB computes.
type TableChecksum struct {
	CRC64XOR   uint64
	TotalKVs   uint64
	TotalBytes uint64
}

func (s *TableChecksum) add(o TableChecksum) {
	s.CRC64XOR ^= o.CRC64XOR
	s.TotalKVs += o.TotalKVs
	s.TotalBytes += o.TotalBytes
}

var crcTable = crc64.MakeTable(crc64.ECMA)

// Checksum computes a table's checksum at a fresh timestamp.
func Checksum(ctx context.Context, store kv.Store, t *catalog.Table, opts Options) (total TableChecksum, err error) {
	opts.EnsureDefaults()
	snap, err := freshSnapshot(ctx, store)
	if err != nil {
		return TableChecksum{}, err
	}
	defer func() { err = errs.Also(err, snap.Close()) }()
	c := &checker{store: store, snap: snap, tbl: t.Info, workers: opts.Workers}
	ranges := []kv.KeyRange{table.RecordRange(t.Info.ID)}
	for _, idx := range t.Info.Indices {
		if idx.State == model.StatePublic && !isClustered(t.Info, idx) {
			ranges = append(ranges, table.IndexRange(t.Info.ID, idx.ID))
		}
	}
	var mu sync.Mutex
	for _, r := range ranges {
		err := c.eachRange(ctx, r, func(ctx context.Context, _ int, r kv.KeyRange) error {
			var part TableChecksum
			err := scan(ctx, snap, r, func(key, value []byte) error {
				crc := crc64.Update(crc64.Update(0, crcTable, key), crcTable, value)
				part.add(TableChecksum{crc, 1, uint64(len(key) + len(value))})
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			total.add(part)
			return err
		})
		if err != nil {
			return TableChecksum{}, err
		}
	}
	return total, nil
}

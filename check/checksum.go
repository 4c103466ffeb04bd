package check

import (
	"context"
	"errors"
	"fmt"
	"hash/crc64"
	"sync"

	"fastddl/catalog"
	"fastddl/kv"
	"fastddl/table"
)

// ChecksumResult is a row of ADMIN CHECKSUM TABLE.
type ChecksumResult struct {
	// CRC64XOR is the exclusive or of the CRC-64 (ECMA) of every pair, key and
	// value one after the other.
	CRC64XOR uint64
	// TotalKVs and TotalBytes count the pairs and the bytes of their keys and
	// values.
	TotalKVs, TotalBytes uint64
}

var ecma = crc64.MakeTable(crc64.ECMA)

// Checksum sums up the rows and the entries of all public indexes of a table at
// a timestamp, as TiDB does.
func Checksum(ctx context.Context, store kv.Store, t *catalog.Table, ts uint64, opts Options) (ChecksumResult, error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return ChecksumResult{}, err
	}
	snap, err := store.Snapshot(ctx, ts)
	if err != nil {
		return ChecksumResult{}, fmt.Errorf("checksum table %s: %w", t.Info.Name.O, err)
	}
	c := &checker{store: store, snap: snap, name: t.Info.Name.O, workers: opts.Workers}
	ranges := []kv.KeyRange{table.RecordRange(t.Info.ID)}
	for _, idx := range publicIndexes(t.Info) {
		ranges = append(ranges, table.IndexRange(t.Info.ID, idx.ID))
	}
	var mu sync.Mutex
	var parts []*ChecksumResult
	newVisitor := func() visitor {
		part := new(ChecksumResult)
		mu.Lock()
		defer mu.Unlock()
		parts = append(parts, part)
		return part.add
	}
	for _, r := range ranges {
		if err := c.scan(ctx, r, newVisitor); err != nil {
			return ChecksumResult{}, errors.Join(err, snap.Close())
		}
	}
	var total ChecksumResult
	for _, part := range parts {
		total.CRC64XOR ^= part.CRC64XOR
		total.TotalKVs += part.TotalKVs
		total.TotalBytes += part.TotalBytes
	}
	return total, snap.Close()
}

func (r *ChecksumResult) add(key, value []byte) error {
	r.CRC64XOR ^= crc64.Update(crc64.Update(0, ecma, key), ecma, value)
	r.TotalKVs++
	r.TotalBytes += uint64(len(key) + len(value))
	return nil
}

package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"

	"fastddl/internal/errs"
	"fastddl/kv"
	"fastddl/table"
)

// locate returns an error that names the first wrong row, or if all rows have
// their entries the first wrong entry. If it finds none the sums were wrong,
// which is an error too.
func (c *checker) locate(ctx context.Context, suspects map[*model.IndexInfo]*buckets) error {
	if err := c.locateByRows(ctx, suspects); err != nil {
		return err
	}
	for _, idx := range c.indexes {
		if suspects[idx] == nil {
			continue
		}
		if err := c.locateByEntries(ctx, idx, suspects[idx]); err != nil {
			return err
		}
	}
	return fmt.Errorf("check table %s: index and row digests differ, but every row and entry agrees", c.tbl.Name.O)
}

// firstFinding keeps the finding of the first range in key order.
type firstFinding struct {
	mu  sync.Mutex
	at  int
	err error
}

func (f *firstFinding) report(at int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil || at < f.at {
		f.at, f.err = at, err
	}
}

// errFound ends the scan of a range in which something was found.
var errFound = errors.New("found")

// find scans the pieces of r with fn, which returns what is wrong with a pair,
// and returns the first finding in key order.
func (c *checker) find(ctx context.Context, r kv.KeyRange, fn func(ctx context.Context, key, value []byte) (finding, err error)) error {
	var first firstFinding
	err := c.eachRange(ctx, r, func(ctx context.Context, i int, r kv.KeyRange) error {
		err := scan(ctx, c.snap, r, func(key, value []byte) error {
			finding, err := fn(ctx, key, value)
			if finding != nil {
				first.report(i, finding)
				return errFound
			}
			return err
		})
		if errors.Is(err, errFound) {
			return nil
		}
		return err
	})
	return errs.Also(first.err, err)
}

// locateByRows looks each row's entries up in the indexes.
func (c *checker) locateByRows(ctx context.Context, suspects map[*model.IndexInfo]*buckets) error {
	return c.find(ctx, table.RecordRange(c.tbl.ID), func(ctx context.Context, key, value []byte) (error, error) {
		h, row, err := c.cols.decode(key, value)
		if err != nil {
			return nil, err
		}
		for _, idx := range c.indexes {
			if suspects[idx] == nil {
				continue
			}
			finding, err := c.compareRow(ctx, idx, suspects[idx], h, row)
			if finding != nil || err != nil {
				return finding, err
			}
		}
		return nil, nil
	})
}

func (c *checker) compareRow(ctx context.Context, idx *model.IndexInfo, in *buckets, h tkv.Handle, row []types.Datum) (finding, err error) {
	key, want, err := c.cols.entry(idx, h, row)
	if err != nil || !in[bucketOf(key)] {
		return nil, err
	}
	got, err := c.snap.Get(ctx, key)
	if errors.Is(err, kv.ErrNotExist) {
		return inconsistent(c.tbl, idx, h, nil, indexed(idx, row)), nil
	}
	if err != nil || bytes.Equal(got, want) {
		return nil, err
	}
	// The key is taken by another row, or the entry's restored data is wrong.
	other, err := tablecodec.DecodeIndexHandle(key, got, len(idx.Columns))
	if err != nil || other.Equal(h) {
		return inconsistent(c.tbl, idx, h, []types.Datum{types.NewBytesDatum(got)}, indexed(idx, row)), nil
	}
	return inconsistent(c.tbl, idx, other, indexed(idx, row), nil), nil
}

// locateByEntries looks each entry's row up in the table.
func (c *checker) locateByEntries(ctx context.Context, idx *model.IndexInfo, in *buckets) error {
	return c.find(ctx, table.IndexRange(c.tbl.ID, idx.ID), func(ctx context.Context, key, value []byte) (error, error) {
		if !in[bucketOf(key)] {
			return nil, nil
		}
		h, err := tablecodec.DecodeIndexHandle(key, value, len(idx.Columns))
		if err != nil {
			return fmt.Errorf("table %s: entry %x of index %s cannot be decoded: %w", c.tbl.Name.O, key, idx.Name.O, err), nil
		}
		stored, err := c.snap.Get(ctx, tablecodec.EncodeRowKeyWithHandle(c.tbl.ID, h))
		if errors.Is(err, kv.ErrNotExist) {
			return inconsistent(c.tbl, idx, h, entryValues(idx, key), nil), nil
		}
		if err != nil {
			return nil, err
		}
		row, err := c.cols.decodeRow(h, stored)
		if err != nil {
			return nil, err
		}
		want, _, err := c.cols.entry(idx, h, row)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(want, key) {
			return inconsistent(c.tbl, idx, h, entryValues(idx, key), indexed(idx, row)), nil
		}
		return nil, nil
	})
}

// entryValues decodes the column values in an entry's key for a message; what
// cannot be decoded is left out.
func entryValues(idx *model.IndexInfo, key []byte) []types.Datum {
	values := []types.Datum{}
	parts, _, err := tablecodec.CutIndexKeyNew(key, len(idx.Columns))
	if err != nil {
		return values
	}
	for _, p := range parts {
		_, d, err := codec.DecodeOne(p)
		if err != nil {
			return values
		}
		values = append(values, d)
	}
	return values
}

package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"

	"fastddl/kv"
	"fastddl/table"
)

// locate finds the first row or entry that is wrong, given the buckets that
// differ. It begins with the side that has more, because there the search ends
// sooner.
func (c *checker) locate(ctx context.Context, idx *model.IndexInfo, wrong []bool, expected, actual *sums) error {
	searches := []func(context.Context, *model.IndexInfo, []bool) error{c.locateRow, c.locateEntry}
	if actual.count() > expected.count() {
		searches[0], searches[1] = searches[1], searches[0]
	}
	for _, search := range searches {
		if err := search(ctx, idx, wrong); err != nil {
			return err
		}
	}
	return errAdminCheck.FastGen("TiDB admin check table failed: index %s of table %s differs from the rows", idx.Name.O, c.name)
}

// locateRow finds the first row, in key order, whose entry is missing or wrong.
func (c *checker) locateRow(ctx context.Context, idx *model.IndexInfo, wrong []bool) error {
	reader, enc := c.layout.reader(), newEntryOf(c.layout, idx)
	return c.visit(ctx, table.RecordRange(c.layout.tbl.ID), func(key, value []byte) error {
		h, err := reader.read(key, value)
		if err != nil {
			return err
		}
		want, wantValue, err := enc.encode(h, reader.row)
		if err != nil || !wrong[bucketOf(want)] {
			return err
		}
		got, err := c.snap.Get(ctx, want)
		switch {
		case errors.Is(err, kv.ErrNotExist):
			return inconsistent(c.name, idx.Name.O, h, "", text(h, enc.values))
		case err != nil:
			return fmt.Errorf("check table %s: %w", c.name, err)
		case bytes.Equal(got, wantValue):
			return nil
		}
		return inconsistent(c.name, idx.Name.O, h, c.entryText(idx, want, got), text(h, enc.values))
	})
}

// locateEntry finds the first entry, in key order, that no row has.
func (c *checker) locateEntry(ctx context.Context, idx *model.IndexInfo, wrong []bool) error {
	reader, enc := c.layout.reader(), newEntryOf(c.layout, idx)
	return c.visit(ctx, table.IndexRange(c.layout.tbl.ID, idx.ID), func(key, value []byte) error {
		if !wrong[bucketOf(key)] {
			return nil
		}
		h, err := entryHandle(idx, key, value)
		if err != nil {
			return undecodable("entry of index "+idx.Name.O, key, err)
		}
		rowKey := tablecodec.EncodeRowKeyWithHandle(c.layout.tbl.ID, h)
		row, err := c.snap.Get(ctx, rowKey)
		switch {
		case errors.Is(err, kv.ErrNotExist):
			return inconsistent(c.name, idx.Name.O, h, c.entryText(idx, key, value), "")
		case err != nil:
			return fmt.Errorf("check table %s: %w", c.name, err)
		}
		if _, err := reader.read(rowKey, row); err != nil {
			return err
		}
		want, wantValue, err := enc.encode(h, reader.row)
		if err != nil || bytes.Equal(want, key) && bytes.Equal(wantValue, value) {
			return err
		}
		return inconsistent(c.name, idx.Name.O, h, c.entryText(idx, key, value), text(h, enc.values))
	})
}

// entryText prints an entry as far as it can be decoded.
func (c *checker) entryText(idx *model.IndexInfo, key, value []byte) string {
	h, err := entryHandle(idx, key, value)
	if err != nil {
		return fmt.Sprintf("key: %x, value: %x", key, value)
	}
	values, err := entryValues(idx, key)
	if err != nil {
		return fmt.Sprintf("handle: %s, key: %x, value: %x", h, key, value)
	}
	return text(h, values)
}

func entryHandle(idx *model.IndexInfo, key, value []byte) (h tkv.Handle, err error) {
	err = guard(func() (err error) {
		h, err = tablecodec.DecodeIndexHandle(key, value, len(idx.Columns))
		return err
	})
	return h, err
}

// entryValues decodes the values in an index key as they are stored in it:
// strings are collation keys.
func entryValues(idx *model.IndexInfo, key []byte) (values []types.Datum, err error) {
	values = make([]types.Datum, len(idx.Columns))
	err = guard(func() (err error) {
		rest := tablecodec.CutIndexPrefix(key)
		for i := range values {
			if rest, values[i], err = codec.DecodeOne(rest); err != nil {
				return err
			}
		}
		return nil
	})
	return values, err
}

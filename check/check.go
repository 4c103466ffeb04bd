package check

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/pingcap/tidb/pkg/meta/model"
	"golang.org/x/sync/errgroup"

	"fastddl/catalog"
	"fastddl/kv"
	"fastddl/table"
)

// Options configures a check.
type Options struct {
	// Workers is the number of ranges read at a time; 0 is the number of cores.
	Workers int
}

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
}

// Validate lists everything that is wrong with the options.
func (o *Options) Validate() error {
	if o.Workers < 0 {
		return errors.New("check: invalid options: Workers must not be negative")
	}
	return nil
}

// Table compares all public indexes of a table with its rows, at a timestamp
// that is not below the version of the definition. It returns an
// *InconsistentError for the first difference it finds.
func Table(ctx context.Context, store kv.Store, t *catalog.Table, ts uint64, opts Options) error {
	return compare(ctx, store, t, publicIndexes(t.Info), ts, opts)
}

// Index compares one public index of a table with its rows.
func Index(ctx context.Context, store kv.Store, t *catalog.Table, index string, ts uint64, opts Options) error {
	for _, idx := range publicIndexes(t.Info) {
		if idx.Name.L == strings.ToLower(index) {
			return compare(ctx, store, t, []*model.IndexInfo{idx}, ts, opts)
		}
	}
	if strings.EqualFold(index, "primary") && (t.Info.PKIsHandle || t.Info.IsCommonHandle) {
		// The rows themselves are the primary key.
		return compare(ctx, store, t, nil, ts, opts)
	}
	return errKeyNotExists.FastGenByArgs(index, t.Info.Name.O)
}

// publicIndexes are the indexes that have entries of their own.
func publicIndexes(tbl *model.TableInfo) []*model.IndexInfo {
	var out []*model.IndexInfo
	for _, idx := range tbl.Indices {
		if idx.State == model.StatePublic && !(idx.Primary && tbl.IsCommonHandle) {
			out = append(out, idx)
		}
	}
	return out
}

// checker compares some indexes of a table with its rows in one snapshot.
type checker struct {
	store   kv.Store
	snap    kv.Snapshot
	name    string
	layout  *layout
	indexes []*model.IndexInfo
	workers int
}

func compare(ctx context.Context, store kv.Store, t *catalog.Table, indexes []*model.IndexInfo, ts uint64, opts Options) error {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return err
	}
	l, err := newLayout(t, indexes)
	if err != nil {
		return err
	}
	snap, err := store.Snapshot(ctx, ts)
	if err != nil {
		return fmt.Errorf("check table %s: %w", t.Info.Name.O, err)
	}
	c := &checker{store: store, snap: snap, name: t.Info.Name.O, layout: l, indexes: indexes, workers: opts.Workers}
	return errors.Join(c.run(ctx), snap.Close())
}

func (c *checker) run(ctx context.Context) error {
	expected, err := c.sumRows(ctx)
	if err != nil {
		return err
	}
	for i, idx := range c.indexes {
		actual := new(sums)
		err := c.scan(ctx, table.IndexRange(c.layout.tbl.ID, idx.ID), func() visitor {
			return func(key, value []byte) error {
				actual.add(key, value)
				return nil
			}
		})
		if err != nil {
			return err
		}
		if wrong := differing(expected[i], actual); wrong != nil {
			return c.locate(ctx, idx, wrong, expected[i], actual)
		}
	}
	return nil
}

// sumRows adds up the entries that the rows must have, for each index.
func (c *checker) sumRows(ctx context.Context) ([]*sums, error) {
	expected := make([]*sums, len(c.indexes))
	for i := range expected {
		expected[i] = new(sums)
	}
	err := c.scan(ctx, table.RecordRange(c.layout.tbl.ID), func() visitor {
		reader := c.layout.reader()
		encoders := make([]*entryOf, len(c.indexes))
		for i, idx := range c.indexes {
			encoders[i] = newEntryOf(c.layout, idx)
		}
		return func(key, value []byte) error {
			h, err := reader.read(key, value)
			if err != nil {
				return err
			}
			for i, enc := range encoders {
				k, v, err := enc.encode(h, reader.row)
				if err != nil {
					return err
				}
				expected[i].add(k, v)
			}
			return nil
		}
	})
	return expected, err
}

// visitor is called with each pair of a part of a range; it belongs to one
// goroutine.
type visitor func(key, value []byte) error

// scan visits all pairs of a range, in parallel over its parts. It returns the
// error of the first part that has one.
func (c *checker) scan(ctx context.Context, r kv.KeyRange, newVisitor func() visitor) error {
	parts, err := c.store.Ranges(ctx, r)
	if err != nil {
		return fmt.Errorf("check table %s: %w", c.name, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.workers)
	for _, part := range parts {
		g.Go(func() error { return c.visit(ctx, part.KeyRange, newVisitor()) })
	}
	return g.Wait()
}

// cancelInterval is how many pairs are visited between looks at the context.
const cancelInterval = 1024

func (c *checker) visit(ctx context.Context, r kv.KeyRange, v visitor) (err error) {
	it, err := c.snap.Iter(r)
	if err != nil {
		return fmt.Errorf("check table %s: %w", c.name, err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for n := 0; it.Valid(); n++ {
		if n%cancelInterval == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := v(it.Key(), it.Value()); err != nil {
			return err
		}
		if err := it.Next(); err != nil {
			return fmt.Errorf("check table %s: %w", c.name, err)
		}
	}
	return nil
}

package check

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/pingcap/tidb/pkg/meta/model"
	"golang.org/x/sync/errgroup"

	"fastddl/catalog"
	"fastddl/internal/errs"
	"fastddl/kv"
)

// Options are the parameters of a check. The zero value is ready to use.
type Options struct {
	// Workers is how many ranges are read at the same time; 0 is the number of
	// processors.
	Workers int
}

// EnsureDefaults fills in what is unset.
func (o *Options) EnsureDefaults() {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
}

// Table compares all public indexes of a table with its rows, at a fresh
// timestamp. It returns ErrInconsistent (8223), naming the first row or entry
// that is wrong, or nil.
func Table(ctx context.Context, store kv.Store, t *catalog.Table, opts Options) error {
	var indexes []*model.IndexInfo
	for _, idx := range t.Info.Indices {
		if idx.State == model.StatePublic && !isClustered(t.Info, idx) {
			indexes = append(indexes, idx)
		}
	}
	return run(ctx, store, t.Info, indexes, opts)
}

// Index compares one public index of a table with its rows. See Table.
func Index(ctx context.Context, store kv.Store, t *catalog.Table, name string, opts Options) error {
	idx := t.Info.FindIndexByName(strings.ToLower(name))
	if idx == nil || idx.State != model.StatePublic {
		return ErrNoIndex.FastGenByArgs(name, t.Info.Name.O)
	}
	if isClustered(t.Info, idx) {
		return nil
	}
	return run(ctx, store, t.Info, []*model.IndexInfo{idx}, opts)
}

// isClustered says that an index is the table's own order and has no entries.
func isClustered(tbl *model.TableInfo, idx *model.IndexInfo) bool {
	return idx.Primary && tbl.IsCommonHandle
}

func run(ctx context.Context, store kv.Store, tbl *model.TableInfo, indexes []*model.IndexInfo, opts Options) (err error) {
	if len(indexes) == 0 {
		return nil
	}
	opts.EnsureDefaults()
	snap, err := freshSnapshot(ctx, store)
	if err != nil {
		return err
	}
	defer func() { err = errs.Also(err, snap.Close()) }()
	c := &checker{store: store, snap: snap, tbl: tbl, indexes: indexes, workers: opts.Workers}
	if c.cols, err = newColumns(tbl); err != nil {
		return err
	}
	suspects, err := c.compareSums(ctx)
	if err != nil || suspects == nil {
		return err
	}
	return c.locate(ctx, suspects)
}

func freshSnapshot(ctx context.Context, store kv.Store) (kv.Snapshot, error) {
	ts, err := store.CurrentTS(ctx)
	if err != nil {
		return nil, err
	}
	return store.Snapshot(ctx, ts)
}

// checker compares some indexes of a table with its rows at one snapshot.
type checker struct {
	store   kv.Store
	snap    kv.Snapshot
	tbl     *model.TableInfo
	indexes []*model.IndexInfo
	workers int
	cols    *columns
}

// eachRange calls fn for the pieces of r, several at a time, with the piece's
// position in key order, until one fails.
func (c *checker) eachRange(ctx context.Context, r kv.KeyRange, fn func(ctx context.Context, i int, r kv.KeyRange) error) error {
	pieces, err := c.store.Ranges(ctx, r)
	if err != nil {
		return fmt.Errorf("split %s: %w", r, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.workers)
	for i, p := range pieces {
		g.Go(func() error { return fn(ctx, i, p.KeyRange) })
	}
	return g.Wait()
}

// scan calls fn for each pair in r. The slices are valid during the call.
func scan(ctx context.Context, snap kv.Snapshot, r kv.KeyRange, fn func(key, value []byte) error) (err error) {
	it, err := snap.Iter(r)
	if err != nil {
		return err
	}
	defer func() { err = errs.Also(err, it.Close()) }()
	for n := 0; it.Valid(); n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := fn(it.Key(), it.Value()); err != nil {
			return err
		}
		if err := it.Next(); err != nil {
			return err
		}
	}
	return nil
}

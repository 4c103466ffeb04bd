package stmt

import (
	"context"

	"github.com/pingcap/tidb/pkg/errno"

	"fastddl/catalog"
	"fastddl/check"
	"fastddl/sql/sqlerr"
)

// NewChecker returns the Checker that compares the tables of a catalog with
// their indexes through package check.
func NewChecker(cat *catalog.Catalog, opts check.Options) Checker {
	return &checker{cat: cat, opts: opts}
}

type checker struct {
	cat  *catalog.Catalog
	opts check.Options
}

func (c *checker) table(db, name string) (*catalog.Table, error) {
	t, ok := c.cat.Current().Table(db, name)
	if !ok {
		return nil, sqlerr.New(errno.ErrNoSuchTable, db, name)
	}
	return t, nil
}

// CheckTable implements Checker. A schema change meanwhile may take an index
// away under the check, which then finds a difference that is none; it is done
// again with the new schema.
func (c *checker) CheckTable(ctx context.Context, db, table, index string) error {
	for {
		t, err := c.table(db, table)
		if err != nil {
			return err
		}
		err = c.checkOnce(ctx, t, index)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if now, ok := c.cat.Current().TableByID(t.Info.ID); ok && now.SchemaVersion == t.SchemaVersion {
			return err
		}
	}
}

func (c *checker) checkOnce(ctx context.Context, t *catalog.Table, index string) error {
	// After the schema was taken: what is public in it is complete at ts.
	ts, err := c.cat.Store().CurrentTS(ctx)
	if err != nil {
		return err
	}
	if index == "" {
		return check.Table(ctx, c.cat.Store(), t, ts, c.opts)
	}
	return check.Index(ctx, c.cat.Store(), t, index, ts, c.opts)
}

// Checksum implements Checker.
func (c *checker) Checksum(ctx context.Context, db, table string) (Checksum, error) {
	t, err := c.table(db, table)
	if err != nil {
		return Checksum{}, err
	}
	ts, err := c.cat.Store().CurrentTS(ctx)
	if err != nil {
		return Checksum{}, err
	}
	sum, err := check.Checksum(ctx, c.cat.Store(), t, ts, c.opts)
	if err != nil {
		return Checksum{}, err
	}
	return Checksum{CRC64Xor: sum.CRC64XOR, TotalKVs: sum.TotalKVs, TotalBytes: sum.TotalBytes}, nil
}

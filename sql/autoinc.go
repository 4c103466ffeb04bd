package sql

import (
	"fmt"

	gms "github.com/dolthub/go-mysql-server/sql"
	gmstypes "github.com/dolthub/go-mysql-server/sql/types"

	"fastddl/catalog"
	"fastddl/sql/sqlerr"
)

func (t *Table) autoID() *catalog.AutoID { return t.engine.catalog.AutoID(t.def.catalog) }

// GetNextAutoIncrementValue implements sql.AutoIncrementTable.
func (t *Table) GetNextAutoIncrementValue(ctx *gms.Context, given any) (uint64, error) {
	if given == nil {
		id, err := t.autoID().Alloc(ctx, 1)
		if err != nil {
			return 0, sqlerr.Translate(err)
		}
		return id, nil
	}
	v, inRange, err := gmstypes.Uint64.Convert(ctx, given)
	if err != nil {
		return 0, err
	}
	used, ok := v.(uint64)
	if !ok || inRange != gms.InRange {
		return 0, gms.ErrValueOutOfRange.New(given, t.def.schema[t.def.autoInc].Type)
	}
	if err := t.autoID().Rebase(ctx, used); err != nil {
		return 0, sqlerr.Translate(err)
	}
	return used, nil
}

// PeekNextAutoIncrementValue implements sql.AutoIncrementGetter.
func (t *Table) PeekNextAutoIncrementValue(ctx *gms.Context) (uint64, error) {
	if t.def.autoInc < 0 {
		return 0, gms.ErrNoAutoIncrementCol
	}
	next, err := t.autoID().Next(ctx)
	if err != nil {
		return 0, sqlerr.Translate(err)
	}
	return next, nil
}

// AutoIncrementSetter implements sql.AutoIncrementTable.
func (t *Table) AutoIncrementSetter(*gms.Context) gms.AutoIncrementSetter { return autoIncSetter{t} }

type autoIncSetter struct{ table *Table }

// SetAutoIncrementValue implements sql.AutoIncrementSetter.
func (s autoIncSetter) SetAutoIncrementValue(ctx *gms.Context, next uint64) error {
	if next == 0 {
		return fmt.Errorf("AUTO_INCREMENT of table %s must be positive", s.table.Name())
	}
	if err := s.table.autoID().Rebase(ctx, next-1); err != nil {
		return sqlerr.Translate(err)
	}
	return nil
}

// AcquireAutoIncrementLock implements sql.AutoIncrementSetter. Values are given
// out one by one, as with innodb_autoinc_lock_mode 2, the only mode there is.
func (autoIncSetter) AcquireAutoIncrementLock(*gms.Context) (func(), error) { return func() {}, nil }

// Close implements sql.Closer.
func (autoIncSetter) Close(*gms.Context) error { return nil }

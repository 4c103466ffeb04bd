package catalog

import (
	"context"
	"fmt"
	"sync"

	"github.com/pingcap/tidb/pkg/meta"
)

// autoIDStep is how many IDs are reserved at a time. A restart skips what is
// left of a reservation.
const autoIDStep = 4000

type autoIDs struct {
	mu       sync.Mutex
	counters map[counter]*AutoID
}

// counter names a durable counter: of a table's hidden row IDs, or of its
// AUTO_INCREMENT values if those are counted apart.
type counter struct {
	tableID   int64
	increment bool
}

// AutoID allocates values of one counter of a table. It belongs to the table ID
// and outlives definitions.
type AutoID struct {
	catalog *Catalog
	dbID    int64
	tableID int64
	// version is the table's, if AUTO_INCREMENT values are counted apart; else 0.
	version uint16

	mu sync.Mutex
	// IDs in (used, reserved] are ours to give out.
	used, reserved uint64
	loaded         bool
}

// AutoID returns the allocator of a table's AUTO_INCREMENT values. As in TiDB
// they are counted apart from row IDs only if the table says so
// (model.TableInfo.SepAutoInc).
func (c *Catalog) AutoID(t *Table) *AutoID { return c.allocator(t, t.Info.SepAutoInc()) }

// RowID returns the allocator of a table's hidden row IDs.
func (c *Catalog) RowID(t *Table) *AutoID { return c.allocator(t, false) }

func (c *Catalog) allocator(t *Table, increment bool) *AutoID {
	c.autoIDs.mu.Lock()
	defer c.autoIDs.mu.Unlock()
	if c.autoIDs.counters == nil {
		c.autoIDs.counters = make(map[counter]*AutoID)
	}
	name := counter{t.Info.ID, increment}
	a, ok := c.autoIDs.counters[name]
	if !ok {
		// The counter stays under the database the table was created in.
		dbID := t.Info.AutoIDSchemaID
		if dbID == 0 {
			dbID = t.DB.ID
		}
		a = &AutoID{catalog: c, dbID: dbID, tableID: t.Info.ID}
		if increment {
			a.version = t.Info.Version
		}
		c.autoIDs.counters[name] = a
	}
	return a
}

// Alloc returns the first of n consecutive IDs that nobody else gets.
func (a *AutoID) Alloc(ctx context.Context, n uint64) (first uint64, err error) {
	if n == 0 {
		return 0, fmt.Errorf("allocate auto IDs of table %d: count must be positive", a.tableID)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reserved-a.used < n {
		if err := a.reserveLocked(ctx, a.used, n); err != nil {
			return 0, err
		}
	}
	first = a.used + 1
	a.used += n
	return first, nil
}

// Rebase makes all IDs allocated from now on greater than used.
func (a *AutoID) Rebase(ctx context.Context, used uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loaded && used <= a.used {
		return nil
	}
	if used > a.reserved {
		if err := a.reserveLocked(ctx, used, 1); err != nil {
			return err
		}
	}
	a.used = max(a.used, used)
	return nil
}

// Next returns the ID that Alloc would give out next.
func (a *AutoID) Next(ctx context.Context) (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.loaded {
		var counter int64
		err := a.catalog.View(ctx, func(_ context.Context, m *Mutation) (err error) {
			counter, err = a.accessor(m).Get()
			return err
		})
		return uint64(counter) + 1, err
	}
	return a.used + 1, nil
}

func (a *AutoID) accessor(m *Mutation) meta.AutoIDAccessor {
	accessors := m.GetAutoIDAccessors(a.dbID, a.tableID)
	if a.version != 0 {
		return accessors.IncrementID(a.version)
	}
	return accessors.RowID()
}

// reserveLocked reserves at least n IDs above used and above everything
// reserved by anybody.
func (a *AutoID) reserveLocked(ctx context.Context, used, n uint64) error {
	var from, to uint64
	err := a.catalog.mutate(ctx, func(_ context.Context, m *Mutation) error {
		stored, err := a.accessor(m).Get()
		if err != nil {
			return err
		}
		// If nobody else reserved meanwhile, what is left of our own
		// reservation is continued without a gap.
		from = max(uint64(stored), used)
		if a.loaded && uint64(stored) == a.reserved {
			from = max(a.used, used)
		}
		to = from + max(n, autoIDStep)
		if to < from {
			return fmt.Errorf("auto IDs of table %d are used up", a.tableID)
		}
		return a.accessor(m).Put(int64(to))
	})
	if err != nil {
		return fmt.Errorf("reserve auto IDs of table %d: %w", a.tableID, err)
	}
	a.used, a.reserved, a.loaded = from, to, true
	return nil
}

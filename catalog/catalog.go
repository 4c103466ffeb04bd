package catalog

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util/collate"

	"fastddl/generated"
	"fastddl/internal/errs"
	"fastddl/kv"
)

// TiDB's collation switch is global to the process. New collations are what
// TiDB clusters have been bootstrapped with since 6.0; the key encoding
// depends on it.
func init() { collate.SetNewCollationEnabledForTest(true) }

// bootstrapVersion marks a store as initialised. It is TiDB's key, so that a
// TiDB server does not bootstrap over our schemas; the value is the bootstrap
// version of TiDB 8.5.
const bootstrapVersion = 218

// Catalog is the schema store of one node. All methods may be called
// concurrently.
type Catalog struct {
	store   kv.Store
	exprs   generated.Compiler
	current atomic.Pointer[InfoSchema]

	// updateMu makes this node's schema changes queue up here and not conflict
	// at commit; publishMu makes versions appear in order.
	updateMu  sync.Mutex
	publishMu sync.Mutex

	autoIDs autoIDs
}

// Option is a choice made when a catalog is opened.
type Option func(*Catalog)

// WithExpressions says who understands the expressions of generated columns.
// Without, tables that have such columns can be neither made nor used.
func WithExpressions(c generated.Compiler) Option {
	return func(cat *Catalog) { cat.exprs = c }
}

// Open loads the schema, and initialises an empty store with the databases
// mysql and test.
func Open(ctx context.Context, store kv.Store, opts ...Option) (*Catalog, error) {
	c := &Catalog{store: store}
	for _, opt := range opts {
		opt(c)
	}
	if err := c.bootstrap(ctx); err != nil {
		return nil, fmt.Errorf("bootstrap catalog: %w", err)
	}
	if err := c.Reload(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Store returns the store the catalog lives in.
func (c *Catalog) Store() kv.Store { return c.store }

// Current returns the newest published schema.
func (c *Catalog) Current() *InfoSchema { return c.current.Load() }

func (c *Catalog) bootstrap(ctx context.Context) error {
	return c.mutate(ctx, func(_ context.Context, m *Mutation) error {
		version, err := m.GetBootstrapVersion()
		if err != nil || version != 0 {
			return err
		}
		if _, err := m.CreateMySQLDatabaseIfNotExists(); err != nil {
			return err
		}
		id, err := m.GenGlobalID()
		if err != nil {
			return err
		}
		err = m.CreateDatabase(&model.DBInfo{
			ID:      id,
			Name:    pmodel.NewCIStr("test"),
			Charset: mysql.UTF8MB4Charset,
			Collate: mysql.UTF8MB4DefaultCollation,
			State:   model.StatePublic,
		})
		if err != nil {
			return err
		}
		if _, err := m.GenSchemaVersion(); err != nil {
			return err
		}
		return m.FinishBootstrap(bootstrapVersion)
	})
}

// View runs fn over a read-only metadata snapshot.
func (c *Catalog) View(ctx context.Context, fn func(ctx context.Context, m *Mutation) error) error {
	txn, err := c.store.Begin(ctx)
	if err != nil {
		return err
	}
	m := newMutation(txn)
	return errs.Also(fn(ctx, m), m.txn.closeIters(), txn.Rollback())
}

// mutate runs fn in a metadata transaction, again from the start on a write
// conflict.
func (c *Catalog) mutate(ctx context.Context, fn func(ctx context.Context, m *Mutation) error) error {
	return kv.Retrying(ctx, c.store, func(ctx context.Context, txn kv.Txn) error {
		m := newMutation(txn)
		return errs.Also(fn(ctx, m), m.txn.closeIters())
	})
}

// Update runs fn in a metadata transaction, again from the start on a write
// conflict, and returns the newest schema, published. If fn sets a schema diff
// the change gets a schema version of its own.
func (c *Catalog) Update(ctx context.Context, fn func(ctx context.Context, m *Mutation) error) (*InfoSchema, error) {
	c.updateMu.Lock()
	defer c.updateMu.Unlock()
	var changed bool
	err := c.mutate(ctx, func(ctx context.Context, m *Mutation) error {
		if err := fn(ctx, m); err != nil {
			return err
		}
		changed = m.diff != nil
		if !changed {
			return nil
		}
		version, err := m.GenSchemaVersion()
		if err != nil {
			return err
		}
		diff := *m.diff
		diff.Version = version
		return m.SetSchemaDiff(&diff)
	})
	if err != nil {
		return nil, err
	}
	if changed {
		// The change is committed: it has to appear even if the caller gave up.
		if err := c.Reload(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
	}
	return c.Current(), nil
}

// Reload publishes the newest committed schema.
func (c *Catalog) Reload(ctx context.Context) error {
	c.publishMu.Lock()
	defer c.publishMu.Unlock()
	err := c.View(ctx, func(ctx context.Context, m *Mutation) error {
		is, err := c.load(ctx, m)
		if err != nil {
			return err
		}
		c.current.Store(is)
		return nil
	})
	if err != nil {
		return fmt.Errorf("load schema: %w", err)
	}
	return nil
}

func (c *Catalog) load(ctx context.Context, m *Mutation) (*InfoSchema, error) {
	version, err := m.GetSchemaVersion()
	if err != nil {
		return nil, err
	}
	old := c.Current()
	if old == nil {
		return c.loadAll(ctx, m, version)
	}
	is := old
	for v := old.version + 1; v <= version; v++ {
		diff, err := m.GetSchemaDiff(v)
		if err != nil {
			return nil, err
		}
		if diff == nil || diff.RegenerateSchemaMap {
			return c.loadAll(ctx, m, version)
		}
		if is, err = is.apply(m, diff); err != nil {
			return nil, err
		}
	}
	return is, nil
}

func (c *Catalog) loadAll(ctx context.Context, m *Mutation, version int64) (*InfoSchema, error) {
	is := newInfoSchema(version, c.exprs)
	dbs, err := m.ListDatabases()
	if err != nil {
		return nil, err
	}
	for _, db := range dbs {
		is.putDB(db)
		tables, err := m.ListTables(ctx, db.ID)
		if err != nil {
			return nil, err
		}
		for _, t := range tables {
			if err := is.putTable(db.ID, t); err != nil {
				return nil, err
			}
		}
	}
	return is, nil
}

// apply returns the schema after the change that diff names. The changed
// records are read from m, which may be newer than the diff: later diffs then
// find nothing left to do.
func (is *InfoSchema) apply(m *Mutation, diff *model.SchemaDiff) (*InfoSchema, error) {
	out := is.next(diff.Version)
	affected := append([]*model.AffectedOption{{
		SchemaID: diff.SchemaID, TableID: diff.TableID,
		OldSchemaID: diff.OldSchemaID, OldTableID: diff.OldTableID,
	}}, diff.AffectedOpts...)
	// Names change hands within one diff (swaps by RENAME TABLE), so all
	// affected tables go before any comes.
	for _, a := range affected {
		out.dropTable(a.OldTableID)
		out.dropTable(a.TableID)
	}
	for _, a := range affected {
		if err := out.refresh(m, a.SchemaID, a.TableID); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// refresh brings one database's definition and, if tableID is not 0, one
// table's up to date.
func (is *InfoSchema) refresh(m *Mutation, dbID, tableID int64) error {
	if dbID == 0 {
		return nil
	}
	db, err := m.GetDatabase(dbID)
	if err != nil {
		return err
	}
	if db == nil {
		is.dropDB(dbID)
		return nil
	}
	if _, known := is.byDBID[dbID]; !known || tableID == 0 {
		is.putDB(db)
	}
	if tableID == 0 {
		return nil
	}
	info, err := m.GetTable(dbID, tableID)
	if err != nil || info == nil {
		return err
	}
	return is.putTable(dbID, info)
}

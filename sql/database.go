package sql

import (
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"

	"fastddl/catalog"
	"fastddl/sql/sqltype"
)

// provider shows the catalog's databases to go-mysql-server.
type provider struct{ engine *Engine }

var (
	_ gms.DatabaseProvider = (*provider)(nil)
	_ gms.FunctionProvider = (*provider)(nil)
)

// Function implements sql.FunctionProvider: functions in place of those of
// go-mysql-server.
func (p *provider) Function(_ *gms.Context, _, name string) (gms.Function, bool) {
	if strings.EqualFold(name, loadFileName) {
		return p.engine.files.function(), true
	}
	return nil, false
}

// schema returns the schema that the session's transaction has pinned, or else
// the newest one.
func (p *provider) schema(ctx *gms.Context) *catalog.InfoSchema {
	if s, err := sessionOf(ctx); err == nil {
		if t := s.current(); t != nil && t.schema != nil {
			return t.schema
		}
	}
	return p.engine.catalog.Current()
}

// Database implements sql.DatabaseProvider.
func (p *provider) Database(ctx *gms.Context, name string) (gms.Database, error) {
	info, ok := p.schema(ctx).Schema(name)
	if !ok {
		return nil, gms.ErrDatabaseNotFound.New(name)
	}
	return &database{engine: p.engine, info: info}, nil
}

// HasDatabase implements sql.DatabaseProvider.
func (p *provider) HasDatabase(ctx *gms.Context, name string) bool {
	_, ok := p.schema(ctx).Schema(name)
	return ok
}

// AllDatabases implements sql.DatabaseProvider. The database mysql is left out:
// it is go-mysql-server's own, with the grant tables.
func (p *provider) AllDatabases(ctx *gms.Context) []gms.Database {
	infos := p.schema(ctx).Schemas()
	out := make([]gms.Database, 0, len(infos))
	for _, info := range infos {
		if info.Name.L == mysql.SystemDB {
			continue
		}
		out = append(out, &database{engine: p.engine, info: info})
	}
	return out
}

// database is one database of the catalog.
type database struct {
	engine *Engine
	info   *model.DBInfo
}

var (
	_ gms.Database         = (*database)(nil)
	_ gms.CollatedDatabase = (*database)(nil)
)

// Name implements sql.Database.
func (d *database) Name() string { return d.info.Name.O }

// GetTableInsensitive implements sql.Database. Naming a table is what makes a
// transaction pin its snapshot, so that plan and data belong together.
func (d *database) GetTableInsensitive(ctx *gms.Context, name string) (gms.Table, bool, error) {
	s, err := sessionOf(ctx)
	if err != nil {
		return nil, false, err
	}
	tx, err := s.begun(ctx)
	if err != nil {
		return nil, false, err
	}
	t, ok := tx.schema.Table(d.info.Name.L, name)
	if !ok {
		return nil, false, nil
	}
	def, err := defOf(t)
	if err != nil {
		return nil, false, err
	}
	return d.engine.table(def), true, nil
}

type sqlTableKey struct{}

// table returns the unprojected table of a definition, which is the same for
// all sessions.
func (e *Engine) table(def *tableDef) *Table {
	return def.catalog.Derived(sqlTableKey{}, func(*catalog.Table) any {
		return &Table{def: def, engine: e, schema: def.schema}
	}).(*Table)
}

// GetTableNames implements sql.Database.
func (d *database) GetTableNames(ctx *gms.Context) ([]string, error) {
	p := provider{d.engine}
	tables := p.schema(ctx).Tables(d.info.Name.L)
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.Info.Name.O
	}
	return names, nil
}

// GetCollation implements sql.CollatedDatabase.
func (d *database) GetCollation(*gms.Context) gms.CollationID {
	coll, err := sqltype.Collation(d.info.Collate)
	if err != nil {
		return gms.Collation_Default
	}
	return coll
}

// SetCollation implements sql.CollatedDatabase. ALTER DATABASE is a DDL job and
// never gets here.
func (d *database) SetCollation(*gms.Context, gms.CollationID) error {
	return gms.ErrUnsupportedFeature.New("changing a database's collation this way")
}

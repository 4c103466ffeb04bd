package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/generated"
)

// Table is one table's definition at a schema version. It is immutable, and so
// is what it points to.
type Table struct {
	DB   *model.DBInfo
	Info *model.TableInfo
	// SchemaVersion is the version at which this table last changed.
	SchemaVersion int64
	// Expressions understands the expressions of generated columns; nil if the
	// catalog was opened without.
	Expressions generated.Compiler

	derived sync.Map
}

// Derived returns the object that build makes of the table, computing it once
// per key for this definition. Two callers that race may both build; all get
// the same object.
func (t *Table) Derived(key any, build func(*Table) any) any {
	if v, ok := t.derived.Load(key); ok {
		return v
	}
	v, _ := t.derived.LoadOrStore(key, build(t))
	return v
}

// InfoSchema is one immutable version of all schemas. Names are looked up
// case-insensitively.
type InfoSchema struct {
	version int64
	exprs   generated.Compiler
	dbs     map[string]*schema
	byDBID  map[int64]*schema
	byID    map[int64]*Table
}

type schema struct {
	info   *model.DBInfo
	tables map[string]*Table
}

// Version is the schema version.
func (is *InfoSchema) Version() int64 { return is.version }

// Expressions understands the expressions of generated columns; nil if the
// catalog was opened without.
func (is *InfoSchema) Expressions() generated.Compiler { return is.exprs }

// Schema returns a database.
func (is *InfoSchema) Schema(name string) (*model.DBInfo, bool) {
	s, ok := is.dbs[strings.ToLower(name)]
	if !ok {
		return nil, false
	}
	return s.info, true
}

// SchemaByID returns a database.
func (is *InfoSchema) SchemaByID(id int64) (*model.DBInfo, bool) {
	s, ok := is.byDBID[id]
	if !ok {
		return nil, false
	}
	return s.info, true
}

// Schemas returns all databases, sorted by name.
func (is *InfoSchema) Schemas() []*model.DBInfo {
	out := make([]*model.DBInfo, 0, len(is.dbs))
	for _, s := range is.dbs {
		out = append(out, s.info)
	}
	slices.SortFunc(out, func(a, b *model.DBInfo) int { return cmp.Compare(a.Name.L, b.Name.L) })
	return out
}

// Table returns a table by name.
func (is *InfoSchema) Table(db, name string) (*Table, bool) {
	s, ok := is.dbs[strings.ToLower(db)]
	if !ok {
		return nil, false
	}
	t, ok := s.tables[strings.ToLower(name)]
	return t, ok
}

// TableByID returns a table by ID.
func (is *InfoSchema) TableByID(id int64) (*Table, bool) {
	t, ok := is.byID[id]
	return t, ok
}

// Tables returns the tables of a database, sorted by name; nil if there is no
// such database.
func (is *InfoSchema) Tables(db string) []*Table {
	s, ok := is.dbs[strings.ToLower(db)]
	if !ok {
		return nil
	}
	return slices.SortedFunc(maps.Values(s.tables), func(a, b *Table) int {
		return cmp.Compare(a.Info.Name.L, b.Info.Name.L)
	})
}

func newInfoSchema(version int64, exprs generated.Compiler) *InfoSchema {
	return &InfoSchema{
		version: version,
		exprs:   exprs,
		dbs:     make(map[string]*schema),
		byDBID:  make(map[int64]*schema),
		byID:    make(map[int64]*Table),
	}
}

// next returns a copy for the given version that can be changed by putDB,
// dropDB, putTable and dropTable. Tables and the contents of unchanged
// databases are shared.
func (is *InfoSchema) next(version int64) *InfoSchema {
	return &InfoSchema{
		version: version,
		exprs:   is.exprs,
		dbs:     maps.Clone(is.dbs),
		byDBID:  maps.Clone(is.byDBID),
		byID:    maps.Clone(is.byID),
	}
}

func (is *InfoSchema) replaceDB(s *schema) {
	is.dbs[s.info.Name.L] = s
	is.byDBID[s.info.ID] = s
}

// putDB adds a database or replaces its definition; its tables stay.
func (is *InfoSchema) putDB(info *model.DBInfo) {
	s := &schema{info: info, tables: make(map[string]*Table)}
	if old, ok := is.byDBID[info.ID]; ok {
		for name, t := range old.tables {
			moved := &Table{DB: info, Info: t.Info, SchemaVersion: t.SchemaVersion, Expressions: t.Expressions}
			s.tables[name] = moved
			is.byID[t.Info.ID] = moved
		}
	}
	is.replaceDB(s)
}

func (is *InfoSchema) dropDB(id int64) {
	s, ok := is.byDBID[id]
	if !ok {
		return
	}
	for _, t := range s.tables {
		delete(is.byID, t.Info.ID)
	}
	delete(is.dbs, s.info.Name.L)
	delete(is.byDBID, id)
}

func (is *InfoSchema) putTable(dbID int64, info *model.TableInfo) error {
	if _, ok := is.byDBID[dbID]; !ok {
		return fmt.Errorf("table %d (%s) belongs to database %d, which does not exist", info.ID, info.Name.O, dbID)
	}
	is.dropTable(info.ID)
	s := is.byDBID[dbID] // dropTable may have replaced it
	info.DBID = dbID
	t := &Table{DB: s.info, Info: info, SchemaVersion: is.version, Expressions: is.exprs}
	tables := maps.Clone(s.tables)
	tables[info.Name.L] = t
	is.replaceDB(&schema{info: s.info, tables: tables})
	is.byID[info.ID] = t
	return nil
}

func (is *InfoSchema) dropTable(id int64) {
	t, ok := is.byID[id]
	if !ok {
		return
	}
	delete(is.byID, id)
	s := is.byDBID[t.DB.ID]
	tables := maps.Clone(s.tables)
	// The name may have been taken over by another table in the same change.
	if tables[t.Info.Name.L] == t {
		delete(tables, t.Info.Name.L)
	}
	is.replaceDB(&schema{info: s.info, tables: tables})
}

package perftables

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/ngaut/pools"
	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	"github.com/pingcap/tidb/pkg/infoschema"
	"github.com/pingcap/tidb/pkg/infoschema/perfschema"
	"github.com/pingcap/tidb/pkg/meta/autoid"
	"github.com/pingcap/tidb/pkg/meta/metabuild"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/util"
)

// firstTableID is the ID of our first table, far from those of TiDB's (tableIDMap in pkg/infoschema/perfschema/tables.go) and below those
// of metrics_schema.
const firstTableID = autoid.PerformanceSchemaDBID + 5000

// Register adds the tables to performance_schema, for the whole process. It is called before TiDB's domain is made.
//
// TiDB has one driver of a virtual schema, and no way to add a table to it. So a driver of ours takes its place, which has TiDB's tables
// and ours. It is registered before TiDB's, as infoschemaV2 keeps the first of a name (addSpecialDB), and once more after it, as infoSchema
// keeps the last (addSchema).
var Register = sync.OnceValue(func() error {
	ours := &model.DBInfo{
		ID: autoid.PerformanceSchemaDBID, Name: util.PerformanceSchemaName, Charset: mysql.DefaultCharset, Collate: mysql.DefaultCollationName,
	}
	tables := make(map[string]table.Table)
	driver := func(_ autoid.Allocators, _ func() (pools.Resource, error), meta *model.TableInfo) (table.Table, error) {
		if t, ok := tables[meta.Name.L]; ok {
			return t, nil
		}
		return nil, fmt.Errorf("performance_schema has no table %s", meta.Name.O)
	}
	infoschema.RegisterVirtualTable(ours, driver)
	perfschema.Init()
	tidbs, err := registered()
	if err != nil {
		return fmt.Errorf("read TiDB's performance_schema: %w", err)
	}
	infoschema.RegisterVirtualTable(ours, driver)
	metas := make([]*model.TableInfo, 0, len(tidbs))
	for _, t := range tidbs {
		metas = append(metas, t.Meta())
		tables[t.Meta().Name.L] = t
	}
	for i, from := range allSources {
		meta, err := describe(from)
		if err != nil {
			return fmt.Errorf("define performance_schema.%s: %w", from.name, err)
		}
		meta.ID = firstTableID + int64(i)
		metas = append(metas, meta)
		tables[meta.Name.L] = newJobTable(from, meta)
	}
	ours.Deprecated.Tables = metas
	return nil
})

// registered returns the tables of performance_schema as a domain would have them now: in a cache of schemas of its own.
func registered() ([]table.Table, error) {
	builder := infoschema.NewBuilder(nil, nil, infoschema.NewData(), false)
	if err := builder.InitWithDBInfos(nil, nil, nil, 1); err != nil {
		return nil, err
	}
	schema := builder.Build(0)
	metas, err := schema.SchemaTableInfos(context.Background(), util.PerformanceSchemaName)
	if err != nil {
		return nil, err
	}
	tables := make([]table.Table, 0, len(metas))
	for _, meta := range metas {
		t, err := schema.TableByName(context.Background(), util.PerformanceSchemaName, meta.Name)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	if len(tables) == 0 {
		return nil, fmt.Errorf("it has no tables")
	}
	return tables, nil
}

// describe returns the definition of a table of ours, as perfschema.Init makes TiDB's.
func describe(from source) (*model.TableInfo, error) {
	text := fmt.Sprintf("CREATE TABLE performance_schema.%s (%s)", from.name, strings.Join(from.columns, ", "))
	stmt, err := parser.New().ParseOneStmt(text, "", "")
	if err != nil {
		return nil, err
	}
	meta, err := tidbddl.BuildTableInfoFromAST(metabuild.NewNonStrictContext(), stmt.(*ast.CreateTableStmt))
	if err != nil {
		return nil, err
	}
	for i, c := range meta.Columns {
		c.ID = int64(i) + 1
	}
	meta.MaxColumnID = int64(len(meta.Columns))
	meta.DBID = autoid.PerformanceSchemaDBID
	meta.State = model.StatePublic
	return meta, nil
}

// IsJobTable says that a table is one of ours. Names are in any case.
func IsJobTable(db, name string) bool {
	if !strings.EqualFold(db, util.PerformanceSchemaName.L) {
		return false
	}
	for _, from := range allSources {
		if strings.EqualFold(from.name, name) {
			return true
		}
	}
	return false
}

var allSources = sources()

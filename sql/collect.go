package sql

import (
	"context"
	"fmt"

	"github.com/pingcap/tidb/pkg/infoschema"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ddl/schema"
)

// TiDB's executor checks a statement and makes jobs of it. While MultiSchemaInfo is
// set it collects them instead of queueing them, which is how it executes an ALTER
// TABLE of several parts (pkg/ddl/executor.go, AlterTable and DoDDLJobWrapper).

// tidbAlterer is the part of TiDB's executor that its interface does not have.
type tidbAlterer interface {
	CreatePrimaryKey(sessionctx.Context, ast.Ident, pmodel.CIStr, []*ast.IndexPartSpecification, *ast.IndexOption) error
	AddColumn(sessionctx.Context, ast.Ident, *ast.AlterTableSpec) error
	DropColumn(sessionctx.Context, ast.Ident, *ast.AlterTableSpec) error
	ModifyColumn(context.Context, sessionctx.Context, ast.Ident, *ast.AlterTableSpec) error
	ChangeColumn(context.Context, sessionctx.Context, ast.Ident, *ast.AlterTableSpec) error
	RenameColumn(sessionctx.Context, ast.Ident, *ast.AlterTableSpec) error
	AlterColumn(sessionctx.Context, ast.Ident, *ast.AlterTableSpec) error
	RenameIndex(sessionctx.Context, ast.Ident, *ast.AlterTableSpec) error
	AlterIndexVisibility(sessionctx.Context, ast.Ident, pmodel.CIStr, ast.IndexVisibility) error
	AlterTableComment(sessionctx.Context, ast.Ident, *ast.AlterTableSpec) error
	OrderByColumns(sessionctx.Context, ast.Ident) error
}

// collector collects the parts of one statement.
type collector struct {
	e     *executor
	tidb  tidbAlterer
	sctx  sessionctx.Context
	name  *ast.TableName
	table *model.TableInfo

	collected *model.MultiSchemaInfo
	// taken are the names of the indexes that the statement adds.
	taken map[string]bool
}

// collect has TiDB's executor check the parts, and name the indexes.
func (e *executor) collect(
	ctx context.Context, sctx sessionctx.Context, name *ast.TableName, table *model.TableInfo, parts []part,
) (*model.MultiSchemaInfo, error) {
	tidb, ok := e.Executor.(tidbAlterer)
	if !ok {
		return nil, leftToTiDB(fmt.Sprintf("unknown executor %T", e.Executor))
	}
	c := collector{
		e: e, tidb: tidb, sctx: sctx, name: name, table: table, collected: model.NewMultiSchemaInfo(), taken: make(map[string]bool),
	}
	mixed := false
	for _, p := range parts {
		mixed = mixed || p.alter != nil
	}
	if len(parts) > 1 && (sctx.GetSessionVars().EnableRowLevelChecksum || variable.EnableRowLevelChecksum.Load()) {
		return nil, leftToTiDB("") // which refuses it
	}
	stmtCtx := sctx.GetSessionVars().StmtCtx
	stmtCtx.MultiSchemaInfo = c.collected
	defer func() { stmtCtx.MultiSchemaInfo = nil }()
	for _, p := range parts {
		var err error
		if p.index != nil {
			err = c.addIndex(*p.index)
		} else {
			err = c.alter(ctx, p.alter)
		}
		if err != nil {
			return nil, err
		}
	}
	if mixed {
		if err := checkMixed(c.collected, table); err != nil {
			return nil, err
		}
	}
	return c.collected, nil
}

// addIndex adds one index to those collected. TiDB names an index without a name
// so that no other of the table has it; here it gets one that no other of the
// statement has either, as in MySQL.
func (c *collector) addIndex(spec indexSpec) error {
	before := *c.collected
	named, name := spec.name != "", pmodel.NewCIStr(spec.name)
	if spec.primary {
		named, name = true, pmodel.NewCIStr(mysql.PrimaryKeyName)
	}
	if named && schema.BeingBuilt(c.table, name.L) != nil {
		return c.beingBuilt(spec, name)
	}
	base := ""
	for n := 2; ; n++ {
		if err := c.check(&spec); err != nil {
			// TiDB takes the name of an expression index that is being built, whose hidden columns are there.
			taken := infoschema.ErrColumnExists.Equal(err) && !named && schema.BuildsIndexes(c.table)
			if base == "" && taken {
				base = anonymous(spec.parts)
			} else if base == "" || !taken && !dbterror.ErrDupKeyName.Equal(err) {
				return err
			}
			*c.collected = before
			spec.name, spec.ifNotExists = numberedName(base, n), false
			continue
		}
		if len(c.collected.AddIndexes) == len(before.AddIndexes) {
			return nil // it exists, and the statement says that this is no error
		}
		index := c.collected.AddIndexes[len(c.collected.AddIndexes)-1]
		if !c.taken[index.L] && schema.BeingBuilt(c.table, index.L) == nil {
			c.taken[index.L] = true
			return nil
		}
		if named {
			return dbterror.ErrOperateSameIndex.GenWithStackByArgs(index.L)
		}
		if base == "" {
			base = anonymous(spec.parts)
		}
		*c.collected = before
		spec.name, spec.ifNotExists = numberedName(base, n), false
	}
}

// numberedName is the n-th name of an index that is called by a column. MySQL cuts the column's name to make room for the number
// (make_unique_key_name in its sql/sql_table.cc).
func numberedName(base string, n int) string {
	suffix := fmt.Sprintf("_%d", n)
	name := []rune(base)
	return string(name[:min(len(name), mysql.MaxIndexIdentifierLen-len(suffix))]) + suffix
}

// anonymous is what the name of an index that has none begins with (checkIndexNameAndColumns in pkg/ddl/executor.go).
func anonymous(parts []*ast.IndexPartSpecification) string {
	if parts[0].Column != nil {
		return parts[0].Column.Name.O
	}
	return "expression_index"
}

// beingBuilt is what TiDB says of an index that is there, but not public yet: it does not
// find those that we build (pkg/ddl/executor.go, checkIndexNameAndColumns and CreatePrimaryKey).
func (c *collector) beingBuilt(spec indexSpec, name pmodel.CIStr) error {
	if spec.primary {
		return infoschema.ErrMultiplePriKey
	}
	err := dbterror.ErrDupKeyName.GenWithStack("index already exist %s; a background job is trying to add the same index, "+
		"please check by `ADMIN SHOW DDL JOBS`", name)
	if spec.ifNotExists {
		c.sctx.GetSessionVars().StmtCtx.AppendNote(err)
		return nil
	}
	return err
}

func (c *collector) check(spec *indexSpec) error {
	// TiDB writes into what it is given; if the index turns out to be TiDB's to
	// build it is given the statement again.
	parts := make([]*ast.IndexPartSpecification, len(spec.parts))
	for i, p := range spec.parts {
		part := *p
		parts[i] = &part
	}
	var option *ast.IndexOption
	if spec.option != nil {
		o := *spec.option
		option = &o
	}
	if spec.primary {
		return c.tidb.CreatePrimaryKey(c.sctx, c.ident(), pmodel.NewCIStr(spec.name), parts, option)
	}
	return c.e.Executor.CreateIndex(c.sctx, &ast.CreateIndexStmt{
		KeyType: spec.keyType, IfNotExists: spec.ifNotExists, IndexName: spec.name, Table: c.name,
		IndexPartSpecifications: parts, IndexOption: option,
	})
}

func (c *collector) ident() ast.Ident { return ast.Ident{Schema: c.name.Schema, Name: c.name.Name} }

// alter adds another part of an ALTER TABLE.
func (c *collector) alter(ctx context.Context, spec *ast.AlterTableSpec) error {
	before := len(c.collected.SubJobs)
	if err := c.alterOne(ctx, spec); err != nil {
		return err
	}
	for _, sub := range c.collected.SubJobs[before:] {
		if reason := c.unsupported(sub); reason != "" {
			return leftToTiDB(reason)
		}
	}
	return nil
}

func (c *collector) alterOne(ctx context.Context, spec *ast.AlterTableSpec) error {
	switch spec.Tp {
	case ast.AlterTableAddColumns:
		return c.tidb.AddColumn(c.sctx, c.ident(), spec)
	case ast.AlterTableDropColumn:
		return c.tidb.DropColumn(c.sctx, c.ident(), spec)
	case ast.AlterTableModifyColumn:
		return c.tidb.ModifyColumn(ctx, c.sctx, c.ident(), spec)
	case ast.AlterTableChangeColumn:
		return c.tidb.ChangeColumn(ctx, c.sctx, c.ident(), spec)
	case ast.AlterTableRenameColumn:
		return c.tidb.RenameColumn(c.sctx, c.ident(), spec)
	case ast.AlterTableAlterColumn:
		return c.tidb.AlterColumn(c.sctx, c.ident(), spec)
	case ast.AlterTableDropIndex:
		return c.e.Executor.DropIndex(c.sctx, &ast.DropIndexStmt{IfExists: spec.IfExists, IndexName: spec.Name, Table: c.name})
	case ast.AlterTableDropPrimaryKey:
		return c.e.Executor.DropIndex(c.sctx, &ast.DropIndexStmt{IfExists: spec.IfExists, IndexName: mysql.PrimaryKeyName, Table: c.name})
	case ast.AlterTableRenameIndex:
		return c.tidb.RenameIndex(c.sctx, c.ident(), spec)
	case ast.AlterTableIndexInvisible:
		return c.tidb.AlterIndexVisibility(c.sctx, c.ident(), spec.IndexName, spec.Visibility)
	case ast.AlterTableOption:
		for _, option := range spec.Options {
			if option.Tp != ast.TableOptionComment {
				continue // it has no effect in TiDB
			}
			spec.Comment = option.StrValue
			if err := c.tidb.AlterTableComment(c.sctx, c.ident(), spec); err != nil {
				return err
			}
		}
		return nil
	case ast.AlterTableOrderByColumns:
		return c.tidb.OrderByColumns(c.sctx, c.ident())
	case ast.AlterTableDisableKeys, ast.AlterTableEnableKeys:
		return nil
	case ast.AlterTableWithValidation:
		c.sctx.GetSessionVars().StmtCtx.AppendWarning(dbterror.ErrUnsupportedAlterTableWithValidation)
		return nil
	case ast.AlterTableWithoutValidation:
		c.sctx.GetSessionVars().StmtCtx.AppendWarning(dbterror.ErrUnsupportedAlterTableWithoutValidation)
		return nil
	}
	return leftToTiDB(kindOf(spec.Tp))
}

// unsupported says why a change cannot be made together with an index build.
func (c *collector) unsupported(sub *model.SubJob) string {
	if !schema.SupportsChange(sub.Type) {
		return "the statement does more than can be done together with it (" + sub.Type.String() + ")"
	}
	args, ok := sub.JobArgs.(*model.ModifyColumnArgs)
	if !ok {
		return ""
	}
	old := model.FindColumnInfo(c.table.Columns, args.OldColumnName.L)
	referred := c.e.layer.dom.InfoSchema().GetTableReferredForeignKeys(c.name.Schema.L, c.name.Name.L)
	switch {
	case old == nil || args.NewShardBits != 0 || len(sub.CtxVars) > 0 && sub.CtxVars[0] != false:
		return "the statement changes values of column " + args.OldColumnName.O
	case mysql.HasNotNullFlag(args.Column.GetFlag()) && !mysql.HasNotNullFlag(old.GetFlag()):
		return "the statement makes column " + args.OldColumnName.O + " NOT NULL"
	case args.Column.Name.L != args.OldColumnName.L && len(c.table.ForeignKeys)+len(referred) > 0:
		return "the statement renames a column of a table with foreign keys"
	}
	return ""
}

// checkMixed refuses what TiDB refuses of an ALTER TABLE of several parts
// (pkg/ddl/multi_schema_change.go, checkMultiSchemaInfo): to do two things to one
// column or index, and to drop all columns.
func checkMixed(info *model.MultiSchemaInfo, table *model.TableInfo) error {
	columns, indexes := make(map[string]bool), make(map[string]bool)
	check := func(seen map[string]bool, names []pmodel.CIStr, mark bool, twice func(name string) error) error {
		for _, name := range names {
			if seen[name.L] {
				return twice(name.L)
			}
			if mark {
				seen[name.L] = true
			}
		}
		return nil
	}
	sameColumn := func(name string) error { return dbterror.ErrOperateSameColumn.GenWithStackByArgs(name) }
	sameIndex := func(name string) error { return dbterror.ErrOperateSameIndex.GenWithStackByArgs(name) }
	for _, c := range []struct {
		seen  map[string]bool
		names []pmodel.CIStr
		mark  bool
		twice func(name string) error
	}{
		{columns, info.AddColumns, true, sameColumn}, {columns, info.DropColumns, true, sameColumn},
		{columns, info.PositionColumns, false, sameColumn}, {columns, info.ModifyColumns, true, sameColumn},
		{columns, info.RelativeColumns, false, sameColumn},
		{indexes, info.AddIndexes, true, sameIndex}, {indexes, info.DropIndexes, true, sameIndex}, {indexes, info.AlterIndexes, true, sameIndex},
	} {
		if err := check(c.seen, c.names, c.mark, c.twice); err != nil {
			return err
		}
	}
	visible := 0
	for _, col := range table.Columns {
		if !col.Hidden {
			visible++
		}
	}
	switch {
	case visible+len(info.AddColumns) > len(info.DropColumns):
		return nil
	case len(table.Columns) > visible:
		return dbterror.ErrTableMustHaveColumns
	}
	return dbterror.ErrCantRemoveAllFields
}

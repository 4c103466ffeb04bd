package ddl

import (
	"math"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/catalog"
	"fastddl/ddl/builder"
	"fastddl/ddl/job"
)

// alterTable plans all clauses of an ALTER TABLE as one job.
func (p *planner) alterTable(s *ast.AlterTableStmt) (*job.Job, error) {
	t, err := p.table(s.Table)
	if err != nil {
		return nil, err
	}
	specs := effective(s.Specs)
	if len(specs) == 1 && specs[0].Tp == ast.AlterTableRenameTable {
		return p.alterRename(s.Table, t, specs[0].NewTable)
	}
	p.primary = primaryColumns(specs)
	var changes []job.Change
	for _, spec := range specs {
		c, err := p.changes(t, spec)
		if err != nil {
			return nil, err
		}
		changes = append(changes, c...)
	}
	return p.alterJob(t, changes)
}

// effective leaves out the clauses that have no effect here: how MySQL is to do
// it, and what is of other engines.
func effective(specs []*ast.AlterTableSpec) []*ast.AlterTableSpec {
	var out []*ast.AlterTableSpec
	for _, spec := range specs {
		switch spec.Tp {
		case ast.AlterTableAlgorithm, ast.AlterTableLock, ast.AlterTableForce,
			ast.AlterTableEnableKeys, ast.AlterTableDisableKeys, ast.AlterTableOrderByColumns,
			ast.AlterTableWithValidation, ast.AlterTableWithoutValidation:
		default:
			out = append(out, spec)
		}
	}
	return out
}

func (p *planner) alterRename(name *ast.TableName, t *catalog.Table, to *ast.TableName) (*job.Job, error) {
	toDB, err := p.dbOf(to)
	if err != nil {
		return nil, err
	}
	if same, ok := p.is.Table(toDB, to.Name.O); ok && same.Info.ID == t.Info.ID {
		return nil, nil
	}
	return p.renameTables([]*ast.TableToTable{{OldTable: name, NewTable: to}})
}

func (p *planner) createIndex(s *ast.CreateIndexStmt) (*job.Job, error) {
	var unique bool
	switch s.KeyType {
	case ast.IndexKeyTypeNone:
	case ast.IndexKeyTypeUnique:
		unique = true
	default:
		return nil, dbterror.ErrUnsupportedIndexType.FastGen("FULLTEXT and SPATIAL index is not supported")
	}
	c, err := p.addIndex(s.IndexName, s.IndexPartSpecifications, s.IndexOption, unique, s.IfNotExists)
	if err != nil {
		return nil, err
	}
	return p.alter(s.Table, []job.Change{c})
}

func (p *planner) alter(name *ast.TableName, changes []job.Change) (*job.Job, error) {
	t, err := p.table(name)
	if err != nil {
		return nil, err
	}
	return p.alterJob(t, changes)
}

// alterJob makes a job of changes, after trying them on a copy of the table: a
// statement that cannot work is refused before it is queued.
func (p *planner) alterJob(t *catalog.Table, changes []job.Change) (*job.Job, error) {
	if err := p.resolveExpressions(t, changes); err != nil {
		return nil, err
	}
	tbl := t.Info.Clone()
	bound, _, notes, err := job.Bind(tbl, changes)
	if err != nil {
		return nil, err
	}
	if err := builder.CheckGenerated(&p.env, tbl, len(t.Info.Columns)); err != nil {
		return nil, err
	}
	for _, n := range notes {
		p.env.Note(n)
	}
	if len(bound) == 0 {
		return nil, nil
	}
	tp := model.ActionMultiSchemaChange
	if len(bound) == 1 {
		tp = bound[0].Type
	}
	j := tableJob(tp, t)
	j.Changes = bound
	return j, nil
}

// resolveExpressions finds out the types of new indexes' expressions, which may
// be over new columns.
func (p *planner) resolveExpressions(t *catalog.Table, changes []job.Change) error {
	tbl := t.Info.Clone()
	for _, c := range changes {
		if c.Type == model.ActionAddColumn && model.FindColumnInfo(tbl.Columns, c.Column.Name.L) == nil {
			col := c.Column.Clone()
			col.Offset = len(tbl.Columns)
			builder.AppendColumns(tbl, []*model.ColumnInfo{col})
		}
	}
	for _, c := range changes {
		if c.Index == nil {
			continue
		}
		if err := c.Index.Resolve(&p.env, tbl); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) addIndex(name string, keys []*ast.IndexPartSpecification, opt *ast.IndexOption,
	unique, ifNotExists bool) (job.Change, error) {
	if opt != nil && opt.PrimaryKeyTp != pmodel.PrimaryKeyTypeDefault {
		return job.Change{}, dbterror.ErrUnsupportedClusteredSecondaryKey
	}
	spec, err := builder.NewIndexSpec(&p.env, name, keys, opt)
	if err != nil {
		return job.Change{}, err
	}
	spec.Unique = unique
	return job.Change{Type: model.ActionAddIndex, Index: spec, IfExists: ifNotExists}, nil
}

func dropIndex(name string, ifExists bool) job.Change {
	return job.Change{Type: model.ActionDropIndex, Name: name, IfExists: ifExists}
}

// changes plans one clause; ADD COLUMN (a INT, b INT, INDEX (a)) is several.
func (p *planner) changes(t *catalog.Table, spec *ast.AlterTableSpec) ([]job.Change, error) {
	one := func(c job.Change, err error) ([]job.Change, error) { return []job.Change{c}, err }
	switch spec.Tp {
	case ast.AlterTableAddColumns:
		return p.addColumns(t, spec)
	case ast.AlterTableAddConstraint:
		return p.addConstraint(spec.Constraint)
	case ast.AlterTableDropColumn:
		return one(job.Change{Type: model.ActionDropColumn, Name: spec.OldColumnName.Name.O, IfExists: spec.IfExists}, nil)
	case ast.AlterTableDropIndex:
		return one(dropIndex(spec.Name, spec.IfExists), nil)
	case ast.AlterTableDropPrimaryKey:
		return one(job.Change{Type: model.ActionDropPrimaryKey, Name: mysql.PrimaryKeyName}, nil)
	case ast.AlterTableRenameIndex:
		return one(job.Change{Type: model.ActionRenameIndex, Name: spec.FromKey.O, NewName: spec.ToKey.O}, nil)
	case ast.AlterTableIndexInvisible:
		return one(job.Change{
			Type: model.ActionAlterIndexVisibility, Name: spec.IndexName.O,
			Invisible: spec.Visibility == ast.IndexVisibilityInvisible,
		}, nil)
	case ast.AlterTableOption:
		return p.tableOptions(t, spec.Options)
	case ast.AlterTableRenameTable:
		return nil, dbterror.ErrRunMultiSchemaChanges.FastGenByArgs(model.ActionRenameTable.String())
	case ast.AlterTableModifyColumn, ast.AlterTableChangeColumn, ast.AlterTableRenameColumn:
		return nil, dbterror.ErrUnsupportedModifyColumn.FastGenByArgs("changing existing columns")
	}
	return nil, dbterror.ErrUnsupportedAlterTableSpec
}

func (p *planner) addColumns(t *catalog.Table, spec *ast.AlterTableSpec) ([]job.Change, error) {
	var out []job.Change
	for _, def := range spec.NewColumns {
		col, err := builder.NewColumn(&p.env, def, t.Info, t.DB, p.primary[def.Name.Name.L])
		if err != nil {
			return nil, err
		}
		c := job.Change{Type: model.ActionAddColumn, Column: col, IfExists: spec.IfNotExists}
		if pos := spec.Position; pos != nil {
			c.Position.First = pos.Tp == ast.ColumnPositionFirst
			if pos.Tp == ast.ColumnPositionAfter {
				c.Position.After = pos.RelativeColumn.Name.O
			}
		}
		out = append(out, c)
	}
	for _, constraint := range spec.NewConstraints {
		c, err := p.addConstraint(constraint)
		if err != nil {
			return nil, err
		}
		out = append(out, c...)
	}
	return out, nil
}

func (p *planner) addConstraint(c *ast.Constraint) ([]job.Change, error) {
	switch c.Tp {
	case ast.ConstraintKey, ast.ConstraintIndex, ast.ConstraintUniq, ast.ConstraintUniqIndex, ast.ConstraintUniqKey:
		unique := c.Tp != ast.ConstraintKey && c.Tp != ast.ConstraintIndex
		change, err := p.addIndex(c.Name, c.Keys, c.Option, unique, c.IfNotExists)
		return []job.Change{change}, err
	case ast.ConstraintPrimaryKey:
		change, err := p.addPrimaryKey(c)
		return []job.Change{change}, err
	}
	return nil, builder.CheckConstraint(&p.env, c)
}

// addPrimaryKey plans a primary key on a table that exists. Rows are stored
// under the key of a clustered one, so only a nonclustered one can be added, and
// that is what it is if the statement does not say.
func (p *planner) addPrimaryKey(c *ast.Constraint) (job.Change, error) {
	if c.Option != nil && c.Option.PrimaryKeyTp == pmodel.PrimaryKeyTypeClustered {
		return job.Change{}, dbterror.ErrUnsupportedModifyPrimaryKey.FastGen(
			"Adding clustered primary key is not supported. Please consider adding NONCLUSTERED primary key instead")
	}
	if err := builder.CheckIndexName(c.Name); err != nil {
		return job.Change{}, err
	}
	spec, err := builder.NewPrimaryKeySpec(&p.env, c.Keys, c.Option)
	return job.Change{Type: model.ActionAddPrimaryKey, Index: spec}, err
}

// primaryColumns are the columns of the primary key that an ALTER TABLE adds, in
// lower case.
func primaryColumns(specs []*ast.AlterTableSpec) map[string]bool {
	columns := make(map[string]bool)
	for _, spec := range specs {
		constraints := spec.NewConstraints
		if spec.Constraint != nil {
			constraints = append(constraints, spec.Constraint)
		}
		for _, c := range constraints {
			if c.Tp != ast.ConstraintPrimaryKey {
				continue
			}
			for _, key := range c.Keys {
				if key.Expr == nil {
					columns[key.Column.Name.L] = true
				}
			}
		}
	}
	return columns
}

func (p *planner) tableOptions(t *catalog.Table, options []*ast.TableOption) ([]job.Change, error) {
	var out []job.Change
	for _, opt := range options {
		switch opt.Tp {
		case ast.TableOptionComment:
			c := job.Change{Type: model.ActionModifyTableComment, Comment: opt.StrValue}
			if err := builder.CheckTableComment(&p.env, t.Info.Name.O, &c.Comment); err != nil {
				return nil, err
			}
			out = append(out, c)
		case ast.TableOptionAutoIncrement:
			if opt.UintValue > math.MaxInt64 {
				return nil, builder.Unsupported("AUTO_INCREMENT above 9223372036854775807")
			}
			out = append(out, job.Change{Type: model.ActionRebaseAutoID, AutoIncID: int64(opt.UintValue)})
		case ast.TableOptionEngine, ast.TableOptionRowFormat:
		default:
			return nil, dbterror.ErrUnsupportedAlterTableOption
		}
	}
	return out, nil
}

package schema

import (
	"reflect"
	"slices"
	"strings"
	"time"

	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	"github.com/pingcap/tidb/pkg/domain"
	"github.com/pingcap/tidb/pkg/infoschema"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ddl/job"
)

// The changes of columns do what TiDB's own do (pkg/ddl/add_column.go, column.go and
// modify_column.go).

// addColumn is ADD COLUMN.
type addColumn struct {
	model.TableColumnArgs
}

func (a *addColumn) begin(s Subject, c *job.Change) error {
	if model.FindColumnInfo(s.Columns, a.Col.Name.L) != nil {
		if a.IgnoreExistenceErr {
			return nil
		}
		return infoschema.ErrColumnExists.GenWithStackByArgs(a.Col.Name)
	}
	col := tidbddl.InitAndAddColumnToTable(s.TableInfo, a.Col.Clone())
	col.State = model.StateDeleteOnly
	c.ColumnID = col.ID
	return nil
}

func (a *addColumn) follow(table *model.TableInfo, c *job.Change, state model.SchemaState) {
	col := model.FindColumnInfoByID(table.Columns, c.ColumnID)
	if col == nil || col.Name.L != a.Col.Name.L || col.State == model.StatePublic {
		return // FLASHBACK CLUSTER has taken the column away, as it does indexes, and another may have got its ID
	}
	col.State = state
	if state == model.StateNone {
		removeColumn(table, col)
	}
}

func (a *addColumn) publish(table *model.TableInfo, c *job.Change) error {
	col := model.FindColumnInfoByID(table.Columns, c.ColumnID)
	if col == nil {
		return nil
	}
	to, err := tidbddl.LocateOffsetToMove(col.Offset, a.Pos, table)
	if err != nil {
		return err
	}
	table.MoveColumnInfo(col.Offset, to)
	col.State = model.StatePublic
	return nil
}

func (*addColumn) drop(*model.TableInfo, *job.Change, model.SchemaState) {}

// removeColumn takes a column out of the table.
func removeColumn(table *model.TableInfo, col *model.ColumnInfo) {
	last := len(table.Columns) - 1
	table.MoveColumnInfo(col.Offset, last)
	table.Columns = table.Columns[:last]
}

// dropColumn is DROP COLUMN, with the indexes on the column alone.
type dropColumn struct {
	model.TableColumnArgs
}

func (d *dropColumn) begin(s Subject, c *job.Change) error {
	name := d.Col.Name
	col := model.FindColumnInfo(s.Columns, name.L)
	if col == nil || col.Hidden {
		if d.IgnoreExistenceErr {
			return nil
		}
		return dbterror.ErrCantDropFieldOrKey.GenWithStack("column %s doesn't exist", name)
	}
	if err := checkDroppable(s, col); err != nil {
		return err
	}
	c.ColumnID = col.ID
	for _, idx := range s.Indices {
		if len(idx.Columns) == 1 && idx.Columns[0].Name.L == name.L {
			c.IndexIDs = append(c.IndexIDs, idx.ID)
		}
	}
	return nil
}

// checkDroppable says why a column cannot be dropped. What cannot have changed since
// TiDB's executor has looked is not looked at again.
func checkDroppable(s Subject, col *model.ColumnInfo) error {
	name := col.Name
	for _, other := range s.Columns {
		if _, depends := other.Dependences[name.L]; depends && other.Hidden {
			return dbterror.ErrDependentByFunctionalIndex.GenWithStackByArgs(name.L)
		} else if depends {
			return dbterror.ErrDependentByGeneratedColumn.GenWithStackByArgs(name.L)
		}
	}
	for _, idx := range s.Indices {
		covers := idx.FindColumnByName(name.L) != nil
		if covers && (idx.Primary || len(idx.Columns) > 1 || idx.VectorInfo != nil) {
			return dbterror.ErrCantDropColWithIndex.GenWithStack(
				"can't drop column %s with composite index covered or Primary Key covered now", name)
		}
	}
	if err := tidbddl.IsColumnDroppableWithCheckConstraint(name, s.TableInfo); err != nil {
		return err
	}
	if s.TTLInfo != nil && s.TTLInfo.ColumnName.L == name.L {
		return dbterror.ErrTTLColumnCannotDrop.GenWithStackByArgs(name.L)
	}
	if fk := tidbddl.GetColumnForeignKeyInfo(name.L, s.ForeignKeys); fk != nil {
		return dbterror.ErrFkColumnCannotDrop.GenWithStackByArgs(name.L, fk.Name)
	}
	for _, fk := range s.Referred {
		for _, c := range fk.Cols {
			if c.L == name.L {
				return dbterror.ErrFkColumnCannotDropChild.GenWithStackByArgs(name.L, fk.ChildFKName, fk.ChildTable)
			}
		}
	}
	return nil
}

func (*dropColumn) follow(*model.TableInfo, *job.Change, model.SchemaState) {}

func (*dropColumn) publish(table *model.TableInfo, c *job.Change) error {
	col := model.FindColumnInfoByID(table.Columns, c.ColumnID)
	if col == nil {
		return nil
	}
	col.State = model.StateWriteOnly
	setIndexStates(table, c.IndexIDs, model.StateWriteOnly)
	table.MoveColumnInfo(col.Offset, len(table.Columns)-1)
	// Rows that are written from now on have no value of it; a server that still shows
	// it gives them this one.
	if col.GetOriginDefaultValue() == nil && mysql.HasNotNullFlag(col.GetFlag()) {
		value, err := originDefault(col)
		if err != nil {
			return err
		}
		return col.SetOriginDefaultValue(value)
	}
	return nil
}

func (*dropColumn) drop(table *model.TableInfo, c *job.Change, state model.SchemaState) {
	col := model.FindColumnInfoByID(table.Columns, c.ColumnID)
	if col == nil {
		return
	}
	col.State = state
	// Who reads rows to delete them does not see the column any more, so its indexes go
	// with that state.
	for _, id := range c.IndexIDs {
		removeIndex(table, id)
	}
	table.MoveColumnInfo(col.Offset, len(table.Columns)-1)
	if state == model.StateNone {
		removeColumn(table, col)
	}
}

// originDefault is the value of a NOT NULL column in rows that have none, if its
// definition does not say one; see generateOriginDefaultValue in pkg/ddl/column.go.
func originDefault(col *model.ColumnInfo) (any, error) {
	value := col.GetDefaultValue()
	now := value == strings.ToUpper(ast.CurrentTimestamp)
	switch {
	case now && col.GetType() == mysql.TypeTimestamp:
		return types.NewTime(types.FromGoTime(time.Now().UTC()), col.GetType(), col.GetDecimal()).String(), nil
	case now && col.GetType() == mysql.TypeDatetime:
		return types.NewTime(types.FromGoTime(time.Now()), col.GetType(), col.GetDecimal()).String(), nil
	case value != nil && !col.DefaultIsExpr:
		return value, nil
	case col.GetType() == mysql.TypeEnum:
		first, err := types.ParseEnumValue(col.GetElems(), 1)
		if err != nil {
			return nil, err
		}
		zero := types.NewCollateMysqlEnumDatum(first, col.GetCollate())
		return zero.ToString()
	}
	zero := table.GetZeroValue(col)
	return zero.ToString()
}

// modifyColumn is CHANGE, MODIFY or RENAME COLUMN that leaves rows and indexes as
// they are.
type modifyColumn struct {
	plainChange
	model.ModifyColumnArgs
}

// begin refuses a new name where there are foreign keys, which would have to be changed with
// it: such statements are left to TiDB, so a job that was before this one has added them. It
// also refuses a new type where others use the column than the statement was checked with:
// entries may be wrong for the new collation, or not allowed with the new type.
func (m *modifyColumn) begin(s Subject, c *job.Change) error {
	if err := unchangedColumn(s.TableInfo, c); err != nil {
		return err
	}
	if m.changesValues(c.Was) && hasNewUsers(s, c) {
		return domain.ErrInfoSchemaChanged.GenWithStackByArgs()
	}
	if m.Column.Name.L != c.Was.Name.L && len(s.ForeignKeys)+len(s.Referred) > 0 {
		return domain.ErrInfoSchemaChanged.GenWithStackByArgs()
	}
	return nil
}

// changesValues says that values of the column may compare, be stored or be computed in another
// way than those of was.
func (m *modifyColumn) changesValues(was *model.ColumnInfo) bool {
	before, after := was.FieldType.Clone(), m.Column.FieldType.Clone()
	before.SetFlag(before.GetFlag() & mysql.UnsignedFlag)
	after.SetFlag(after.GetFlag() & mysql.UnsignedFlag)
	return !reflect.DeepEqual(before, after) || was.GeneratedExprString != m.Column.GeneratedExprString
}

// usersOf returns who uses a column.
func usersOf(table *model.TableInfo, column string) job.Users {
	var users job.Users
	for _, idx := range table.Indices {
		if idx.FindColumnByName(column) != nil {
			users.Indexes = append(users.Indexes, idx.ID)
		}
	}
	for _, col := range table.Columns {
		if _, ok := col.Dependences[column]; ok {
			users.Columns = append(users.Columns, col.ID)
		}
	}
	return users
}

// hasNewUsers says that an index or column uses the column that the statement has not found. The job's
// own indexes, and their hidden columns, are no news.
func hasNewUsers(s Subject, c *job.Change) bool {
	if c.Users == nil {
		return false
	}
	indexes, columns := append(slices.Clone(c.Users.Indexes), s.own...), slices.Clone(c.Users.Columns)
	for _, id := range s.own {
		for _, ic := range model.FindIndexInfoByID(s.Indices, id).Columns {
			columns = append(columns, s.Columns[ic.Offset].ID)
		}
	}
	isNew := func(known []int64) func(id int64) bool {
		return func(id int64) bool { return !slices.Contains(known, id) }
	}
	now := usersOf(s.TableInfo, c.Was.Name.L)
	return slices.ContainsFunc(now.Indexes, isNew(indexes)) || slices.ContainsFunc(now.Columns, isNew(columns))
}

// unchangedColumn fails if the column is not what the statement has found: a job that
// was before it in the queue has changed it.
func unchangedColumn(table *model.TableInfo, c *job.Change) error {
	if c.Was == nil {
		return domain.ErrInfoSchemaChanged.GenWithStackByArgs()
	}
	col := model.FindColumnInfoByID(table.Columns, c.Was.ID)
	if col == nil || col.Name.L != c.Was.Name.L || !reflect.DeepEqual(col.FieldType, c.Was.FieldType) ||
		col.GeneratedExprString != c.Was.GeneratedExprString {
		return domain.ErrInfoSchemaChanged.GenWithStackByArgs()
	}
	c.ColumnID = col.ID
	return nil
}

func (m *modifyColumn) publish(table *model.TableInfo, c *job.Change) error {
	old := model.FindColumnInfoByID(table.Columns, c.ColumnID)
	if old == nil {
		return domain.ErrInfoSchemaChanged.GenWithStackByArgs()
	}
	if other := model.FindColumnInfo(table.Columns, m.Column.Name.L); other != nil && other.ID != old.ID {
		return infoschema.ErrColumnExists.GenWithStackByArgs(m.Column.Name)
	}
	col := m.Column.Clone()
	col.Offset, col.State = old.Offset, old.State
	if m.Position != nil && m.Position.RelativeColumn != nil && m.Position.RelativeColumn.Name.L == old.Name.L {
		return infoschema.ErrColumnNotExists.GenWithStackByArgs(old.Name, table.Name)
	}
	to, err := tidbddl.LocateOffsetToMove(old.Offset, m.Position, table)
	if err != nil {
		return infoschema.ErrColumnNotExists.GenWithStackByArgs(old.Name, table.Name)
	}
	table.Columns[old.Offset] = col
	table.MoveColumnInfo(old.Offset, to)
	for _, idx := range table.Indices {
		for _, ic := range idx.Columns {
			if ic.Name.L == old.Name.L {
				tidbddl.UpdateIndexCol(ic, col)
			}
		}
	}
	if table.TTLInfo != nil && table.TTLInfo.ColumnName.L == old.Name.L {
		table.TTLInfo.ColumnName = col.Name
	}
	return nil
}

// setDefault is ALTER COLUMN SET or DROP DEFAULT.
type setDefault struct {
	plainChange
	model.SetDefaultValueArgs
}

func (d *setDefault) begin(s Subject, c *job.Change) error {
	if err := unchangedColumn(s.TableInfo, c); err != nil {
		return err
	}
	// What the statement's sql_mode lets pass is refused by TiDB's job all the same
	// (updateColumnDefaultValue in pkg/ddl/column.go).
	switch tp := d.Col.GetType(); {
	case d.Col.DefaultValue == nil:
		return nil
	case d.Col.DefaultValue == "" && (tp == mysql.TypeTinyBlob || tp == mysql.TypeMediumBlob):
		return nil
	case d.Col.DefaultValue == "" && types.IsTypeBlob(tp):
		return dbterror.ErrInvalidDefaultValue.GenWithStackByArgs(d.Col.Name)
	case types.IsTypeBlob(tp), tp == mysql.TypeJSON, tp == mysql.TypeTiDBVectorFloat32:
		return dbterror.ErrBlobCantHaveDefault.GenWithStackByArgs(d.Col.Name.O)
	}
	return nil
}

func (d *setDefault) publish(table *model.TableInfo, c *job.Change) error {
	col := model.FindColumnInfoByID(table.Columns, c.ColumnID)
	if col == nil {
		return domain.ErrInfoSchemaChanged.GenWithStackByArgs()
	}
	col.DefaultValue, col.DefaultValueBit, col.DefaultIsExpr = d.Col.DefaultValue, d.Col.DefaultValueBit, d.Col.DefaultIsExpr
	if mysql.HasNoDefaultValueFlag(d.Col.GetFlag()) {
		col.AddFlag(mysql.NoDefaultValueFlag)
	} else {
		col.DelFlag(mysql.NoDefaultValueFlag)
	}
	return nil
}

package job

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ddl/builder"
)

// Change is one clause of an ALTER TABLE.
type Change struct {
	// Type says what changes, in TiDB's numbering.
	Type model.ActionType `json:"type"`
	// Index is the index to add.
	Index *builder.IndexSpec `json:"index,omitempty"`
	// Column is the column to add, Position where.
	Column   *model.ColumnInfo `json:"column,omitempty"`
	Position Position          `json:"position"`
	// Name is the index or column to drop, rename or alter.
	Name string `json:"name,omitempty"`
	// NewName is the index's new name.
	NewName string `json:"new_name,omitempty"`
	// Invisible is the index's new visibility.
	Invisible bool `json:"invisible,omitempty"`
	// Comment is the table's new comment.
	Comment string `json:"comment,omitempty"`
	// AutoIncID is the table's next AUTO_INCREMENT value.
	AutoIncID int64 `json:"auto_inc_id,omitempty"`
	// IfExists turns "does not exist" (and, for additions, "exists") into a note.
	IfExists bool `json:"if_exists,omitempty"`
}

// Position is where a column is added: first, after another, or last.
type Position struct {
	First bool   `json:"first,omitempty"`
	After string `json:"after,omitempty"`
}

// binder checks changes against a table and adds to the table what they add.
type binder struct {
	tbl   *model.TableInfo
	elems Elements
	// bound are the changes that remain: those that IF [NOT] EXISTS makes void
	// are left out.
	bound []Change
	notes []error

	// columns and indexes are the names that a change has used.
	columns, indexes map[string]bool
}

// Bind checks changes against the table's definition, all against what it is
// before any of them, and adds new columns (write-only) and indexes
// (delete-only) to tbl. It returns the changes that have an effect, the elements
// they are about, and notes on those that have none. On error tbl is undefined.
func Bind(tbl *model.TableInfo, changes []Change) (bound []Change, elems Elements, notes []error, err error) {
	b := &binder{tbl: tbl, columns: make(map[string]bool), indexes: make(map[string]bool)}
	// Columns come before the indexes on them, and go after those.
	for _, pass := range []func(Change) error{b.addColumn, b.dropIndex, b.dropColumn, b.other, b.addIndex} {
		for _, c := range changes {
			if err := pass(c); err != nil {
				return nil, Elements{}, nil, err
			}
		}
	}
	return b.bound, b.elems, b.notes, b.checkResult()
}

func (b *binder) keep(c Change) error {
	b.bound = append(b.bound, c)
	return nil
}

// void drops a change whose reason for failing the statement's IF [NOT] EXISTS
// takes away.
func (b *binder) void(c Change, err error) error {
	if !c.IfExists {
		return err
	}
	b.notes = append(b.notes, err)
	return nil
}

func (b *binder) useColumn(name string) error {
	if name = strings.ToLower(name); b.columns[name] {
		return dbterror.ErrOperateSameColumn.FastGenByArgs(name)
	}
	b.columns[name] = true
	return nil
}

func (b *binder) useIndex(name string) error {
	if name = strings.ToLower(name); b.indexes[name] {
		return dbterror.ErrOperateSameIndex.FastGenByArgs(name)
	}
	b.indexes[name] = true
	return nil
}

func (b *binder) addColumn(c Change) error {
	if c.Type != model.ActionAddColumn {
		return nil
	}
	col := *c.Column
	if err := b.useColumn(col.Name.L); err != nil {
		return err
	}
	if model.FindColumnInfo(b.tbl.Columns, col.Name.L) != nil {
		return b.void(c, builder.ErrColumnExists.FastGenByArgs(col.Name.O))
	}
	if after := c.Position.After; after != "" && model.FindColumnInfo(b.tbl.Columns, strings.ToLower(after)) == nil {
		return builder.ErrColumnNotExists.FastGenByArgs(after, b.tbl.Name.O)
	}
	b.tbl.MaxColumnID++
	col.ID, col.Offset, col.State = b.tbl.MaxColumnID, len(b.tbl.Columns), model.StateWriteOnly
	b.tbl.Columns = append(b.tbl.Columns, &col)
	b.elems.AddColumns = append(b.elems.AddColumns, col.ID)
	if err := b.keep(c); err != nil {
		return err
	}
	return builder.CheckColumnCount(b.tbl)
}

func (b *binder) addIndex(c Change) error {
	if c.Type != model.ActionAddIndex && c.Type != model.ActionAddPrimaryKey {
		return nil
	}
	for _, part := range c.Index.Columns {
		col := model.FindColumnInfo(b.tbl.Columns, strings.ToLower(part.Name))
		if col != nil && slices.Contains(b.elems.DropColumns, col.ID) {
			return dbterror.ErrKeyColumnDoesNotExits.FastGenByArgs(part.Name)
		}
	}
	idx, hidden, err := builder.NewIndex(b.withoutDropped(), c.Index, model.StateDeleteOnly)
	if err != nil {
		if dbterror.ErrDupKeyName.Equal(err) {
			return b.void(c, err)
		}
		return err
	}
	if !b.dropsIndex(idx.Name.L) {
		if err := b.useIndex(idx.Name.L); err != nil {
			return err
		}
	}
	builder.AppendColumns(b.tbl, hidden)
	b.tbl.MaxIndexID++
	idx.ID = b.tbl.MaxIndexID
	b.tbl.Indices = append(b.tbl.Indices, idx)
	b.elems.AddIndexes = append(b.elems.AddIndexes, idx.ID)
	if err := b.keep(c); err != nil {
		return err
	}
	if err := builder.CheckColumnCount(b.tbl); err != nil {
		return err
	}
	return builder.CheckIndexCount(b.tbl)
}

// withoutDropped is the table without the indexes that the changes drop: an
// index that is added may have the name of one of them.
func (b *binder) withoutDropped() *model.TableInfo {
	tbl := *b.tbl
	tbl.Indices = slices.DeleteFunc(slices.Clone(tbl.Indices), func(idx *model.IndexInfo) bool {
		return slices.Contains(b.elems.DropIndexes, idx.ID)
	})
	return &tbl
}

// dropsIndex says that the changes drop an index of that name.
func (b *binder) dropsIndex(name string) bool {
	return slices.ContainsFunc(b.tbl.Indices, func(idx *model.IndexInfo) bool {
		return idx.Name.L == name && slices.Contains(b.elems.DropIndexes, idx.ID)
	})
}

func (b *binder) dropIndex(c Change) error {
	if c.Type != model.ActionDropIndex && c.Type != model.ActionDropPrimaryKey {
		return nil
	}
	isPrimary := strings.EqualFold(c.Name, mysql.PrimaryKeyName)
	if isPrimary && (b.tbl.PKIsHandle || b.tbl.IsCommonHandle) {
		return dbterror.ErrUnsupportedModifyPrimaryKey.FastGen("Unsupported drop primary key when the table is using clustered index")
	}
	idx := b.tbl.FindIndexByName(strings.ToLower(c.Name))
	if idx == nil {
		return b.void(c, dbterror.ErrCantDropFieldOrKey.FastGenByArgs(c.Name))
	}
	if err := b.useIndex(c.Name); err != nil {
		return err
	}
	if !slices.Contains(b.elems.DropIndexes, idx.ID) {
		b.elems.DropIndexes = append(b.elems.DropIndexes, idx.ID)
	}
	return b.keep(c)
}

func (b *binder) dropColumn(c Change) error {
	if c.Type != model.ActionDropColumn {
		return nil
	}
	if err := b.useColumn(c.Name); err != nil {
		return err
	}
	col := model.FindColumnInfo(b.tbl.Columns, strings.ToLower(c.Name))
	if col == nil || col.Hidden {
		return b.void(c, dbterror.ErrCantDropFieldOrKey.FastGenByArgs(c.Name))
	}
	switch {
	case b.tbl.PKIsHandle && mysql.HasPriKeyFlag(col.GetFlag()):
		return dbterror.ErrUnsupportedPKHandle
	case mysql.HasAutoIncrementFlag(col.GetFlag()):
		return dbterror.ErrCantDropColWithAutoInc
	}
	for _, idx := range b.tbl.Indices {
		if !idx.HasColumnInIndexColumns(b.tbl, col.ID) || slices.Contains(b.elems.DropIndexes, idx.ID) {
			continue
		}
		if idx.Primary || len(idx.Columns) > 1 {
			return dbterror.ErrCantDropColWithIndex.FastGen(
				"can't drop column %s with composite index covered or Primary Key covered now", c.Name)
		}
		b.elems.DropIndexes = append(b.elems.DropIndexes, idx.ID)
	}
	b.elems.DropColumns = append(b.elems.DropColumns, col.ID)
	return b.keep(c)
}

// other binds the changes that only the switch applies.
func (b *binder) other(c Change) error {
	switch c.Type {
	case model.ActionRenameIndex:
		return b.renameIndex(c)
	case model.ActionAlterIndexVisibility:
		return b.indexVisibility(c)
	case model.ActionModifyTableComment, model.ActionRebaseAutoID:
		return b.keep(c)
	}
	return nil
}

func (b *binder) renameIndex(c Change) error {
	idx := b.tbl.FindIndexByName(strings.ToLower(c.Name))
	if idx == nil {
		return builder.ErrKeyNotExists.FastGenByArgs(c.Name, b.tbl.Name.O)
	}
	if strings.EqualFold(c.Name, mysql.PrimaryKeyName) || strings.EqualFold(c.NewName, mysql.PrimaryKeyName) {
		return dbterror.ErrWrongNameForIndex.FastGenByArgs(mysql.PrimaryKeyName)
	}
	if c.Name == c.NewName {
		return nil
	}
	sameName := strings.EqualFold(c.Name, c.NewName)
	if other := b.tbl.FindIndexByName(strings.ToLower(c.NewName)); other != nil && !sameName {
		return builder.ErrKeyNameDuplicate.FastGenByArgs(other.Name.O)
	}
	if err := builder.CheckIndexName(c.NewName); err != nil {
		return err
	}
	if err := b.useIndex(c.Name); err != nil {
		return err
	}
	if !sameName {
		if err := b.useIndex(c.NewName); err != nil {
			return err
		}
	}
	return b.keep(c)
}

func (b *binder) indexVisibility(c Change) error {
	idx := b.tbl.FindIndexByName(strings.ToLower(c.Name))
	if idx == nil {
		if strings.EqualFold(c.Name, mysql.PrimaryKeyName) && b.tbl.PKIsHandle && c.Invisible {
			return dbterror.ErrPKIndexCantBeInvisible
		}
		return builder.ErrKeyNotExists.FastGenByArgs(c.Name, b.tbl.Name.O)
	}
	if idx.Primary && c.Invisible {
		return dbterror.ErrPKIndexCantBeInvisible
	}
	if err := b.useIndex(c.Name); err != nil {
		return err
	}
	if idx.Invisible == c.Invisible {
		return nil
	}
	return b.keep(c)
}

// checkResult checks what only all changes together can violate.
func (b *binder) checkResult() error {
	if err := b.checkDroppedColumns(); err != nil {
		return err
	}
	auto := b.tbl.GetAutoIncrementColInfo()
	if auto == nil || len(b.elems.DropIndexes) == 0 || b.tbl.PKIsHandle && mysql.HasPriKeyFlag(auto.GetFlag()) {
		return nil
	}
	for _, idx := range b.tbl.Indices {
		if idx.Columns[0].Offset == auto.Offset && !slices.Contains(b.elems.DropIndexes, idx.ID) {
			return nil
		}
	}
	return builder.ErrWrongAutoKey.FastGenByArgs()
}

// checkDroppedColumns refuses to drop all columns, and columns that others which
// stay are computed from.
func (b *binder) checkDroppedColumns() error {
	if len(b.elems.DropColumns) == 0 {
		return nil
	}
	going := make(map[int64]bool)
	for _, id := range b.elems.DropColumns {
		going[id] = true
	}
	for _, id := range b.elems.DropIndexes {
		for _, col := range builder.HiddenColumns(b.tbl, indexByID(b.tbl, id)) {
			going[col.ID] = true
		}
	}
	staying := slices.DeleteFunc(slices.Clone(b.tbl.Columns), func(col *model.ColumnInfo) bool { return going[col.ID] })
	if !slices.ContainsFunc(staying, func(col *model.ColumnInfo) bool { return !col.Hidden }) {
		return dbterror.ErrCantRemoveAllFields
	}
	for _, id := range b.elems.DropColumns {
		dropped := b.tbl.FindColumnByID(id).Name
		for _, col := range staying {
			if _, needed := col.Dependences[dropped.L]; !needed {
				continue
			}
			if col.Hidden {
				return dbterror.ErrDependentByFunctionalIndex.FastGenByArgs(dropped.O)
			}
			return dbterror.ErrDependentByGeneratedColumn.FastGenByArgs(dropped.O)
		}
	}
	return nil
}

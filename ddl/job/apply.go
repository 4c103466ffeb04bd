package job

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"

	"fastddl/ddl/builder"
)

// Apply changes tbl, the definition of the job's table at the step before, to
// what it is at the job's step. The step after StepStart binds the changes.
func (j *Job) Apply(from Step, tbl *model.TableInfo) error {
	if from == StepStart {
		bound, elems, notes, err := Bind(tbl, j.Changes)
		if err != nil {
			return err
		}
		j.Changes, j.Elements = bound, elems
		var env builder.Env
		for _, n := range notes {
			env.Note(n)
		}
		j.Warnings = append(j.Warnings, env.Warnings...)
		setBackfillState(tbl, elems.AddIndexes, model.BackfillStateRunning)
	}
	e := &j.Elements
	switch j.Step {
	case StepDeleteOnly:
		setIndexState(tbl, e.AddIndexes, model.StateDeleteOnly)
	case StepUndoDeleteOnly:
		setIndexState(tbl, e.AddIndexes, model.StateDeleteOnly)
		allowNulls(tbl, e.AddIndexes)
	case StepWriteOnly:
		setIndexState(tbl, e.AddIndexes, model.StateWriteOnly)
		preventNulls(tbl, e.AddIndexes)
	case StepWriteReorg:
		setIndexState(tbl, e.AddIndexes, model.StateWriteReorganization)
	case StepComplete:
		setBackfillState(tbl, e.AddIndexes, model.BackfillStateReadyToMerge)
	case StepSwitched:
		return j.applySwitch(tbl)
	case StepDropDeleteOnly:
		setIndexState(tbl, e.DropIndexes, model.StateDeleteOnly)
		setColumnState(tbl, e.DropColumns, model.StateDeleteOnly)
	case StepDropped:
		remove(tbl, e.DropIndexes, e.DropColumns)
	case StepUndone:
		remove(tbl, e.AddIndexes, e.AddColumns)
	}
	return nil
}

func (j *Job) applySwitch(tbl *model.TableInfo) error {
	for _, id := range j.Elements.DropIndexes {
		builder.DropKeyFlags(tbl, indexByID(tbl, id))
	}
	setIndexState(tbl, j.Elements.DropIndexes, model.StateWriteOnly)
	for _, id := range j.Elements.DropIndexes {
		for _, col := range builder.HiddenColumns(tbl, indexByID(tbl, id)) {
			// Columns that are not public come last.
			tbl.MoveColumnInfo(col.Offset, len(tbl.Columns)-1)
		}
	}
	for _, id := range j.Elements.DropColumns {
		col := tbl.FindColumnByID(id)
		col.State = model.StateWriteOnly
		if err := builder.SetZeroOriginDefault(col); err != nil {
			return err
		}
		tbl.MoveColumnInfo(col.Offset, len(tbl.Columns)-1)
	}
	j.publishColumns(tbl)
	publishIndexes(tbl, j.Elements.AddIndexes)
	becomeNotNull(tbl, j.Elements.AddIndexes)
	for _, c := range j.Changes {
		j.applyOption(tbl, c)
	}
	return nil
}

// publishColumns makes new columns public and moves them where they belong, in
// the statement's order, since one may be placed after another.
func (j *Job) publishColumns(tbl *model.TableInfo) {
	for _, c := range j.Changes {
		if c.Type != model.ActionAddColumn {
			continue
		}
		col := model.FindColumnInfo(tbl.Columns, c.Column.Name.L)
		to := publicColumns(tbl)
		col.State = model.StatePublic
		switch {
		case c.Position.First:
			to = 0
		case c.Position.After != "":
			after := model.FindColumnInfo(tbl.Columns, strings.ToLower(c.Position.After))
			if to = after.Offset + 1; col.Offset < after.Offset {
				to--
			}
		}
		tbl.MoveColumnInfo(col.Offset, to)
	}
}

// publishIndexes makes new indexes public, and moves their hidden columns behind
// the other public ones.
func publishIndexes(tbl *model.TableInfo, ids []int64) {
	for _, id := range ids {
		idx := indexByID(tbl, id)
		idx.BackfillState = model.BackfillStateInapplicable
		for _, col := range builder.HiddenColumns(tbl, idx) {
			tbl.MoveColumnInfo(col.Offset, publicColumns(tbl))
			col.State = model.StatePublic
		}
		idx.State = model.StatePublic
		builder.AddKeyFlags(tbl, idx)
	}
}

func publicColumns(tbl *model.TableInfo) int {
	n := 0
	for _, col := range tbl.Columns {
		if col.State == model.StatePublic {
			n++
		}
	}
	return n
}

func (j *Job) applyOption(tbl *model.TableInfo, c Change) {
	switch c.Type {
	case model.ActionRenameIndex:
		idx := tbl.FindIndexByName(strings.ToLower(c.Name))
		idx.Name = pmodel.NewCIStr(c.NewName)
		builder.RenameHiddenColumns(tbl, idx)
	case model.ActionAlterIndexVisibility:
		tbl.FindIndexByName(strings.ToLower(c.Name)).Invisible = c.Invisible
	case model.ActionModifyTableComment:
		tbl.Comment = c.Comment
	case model.ActionRebaseAutoID:
		tbl.AutoIncID = c.AutoIncID
	}
}

func indexByID(tbl *model.TableInfo, id int64) *model.IndexInfo {
	for _, idx := range tbl.Indices {
		if idx.ID == id {
			return idx
		}
	}
	return nil
}

// setIndexState changes the state of indexes together with that of their hidden
// columns.
func setIndexState(tbl *model.TableInfo, ids []int64, state model.SchemaState) {
	for _, id := range ids {
		idx := indexByID(tbl, id)
		idx.State = state
		for _, col := range builder.HiddenColumns(tbl, idx) {
			col.State = state
		}
	}
}

// setBackfillState says of unique indexes how complete they are: package table
// leaves markers while it is BackfillStateRunning.
func setBackfillState(tbl *model.TableInfo, ids []int64, state model.BackfillState) {
	for _, id := range ids {
		if idx := indexByID(tbl, id); idx.Unique {
			idx.BackfillState = state
		}
	}
}

func setColumnState(tbl *model.TableInfo, ids []int64, state model.SchemaState) {
	for _, id := range ids {
		tbl.FindColumnByID(id).State = state
	}
}

// remove takes indexes, with their hidden columns, and columns out of a table.
func remove(tbl *model.TableInfo, indexes, columns []int64) {
	kept := tbl.Indices[:0:0]
	columns = slices.Clone(columns)
	for _, idx := range tbl.Indices {
		if !slices.Contains(indexes, idx.ID) {
			kept = append(kept, idx)
			continue
		}
		for _, col := range builder.HiddenColumns(tbl, idx) {
			columns = append(columns, col.ID)
		}
	}
	tbl.Indices = kept
	for _, id := range columns {
		col := tbl.FindColumnByID(id)
		tbl.MoveColumnInfo(col.Offset, len(tbl.Columns)-1)
		tbl.Columns = tbl.Columns[:len(tbl.Columns)-1]
	}
}

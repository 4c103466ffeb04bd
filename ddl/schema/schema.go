package schema

import (
	"fmt"
	"slices"
	"strings"

	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
)

// The state changes of indexes. They do what TiDB's own do
// (pkg/ddl/index.go, onCreateIndex and onDropIndex), but for BackfillState, which
// stays Inapplicable: then DML writes plain entries and plain tombstones.

// Apply makes the table what it is at the record's step.
func Apply(t *session.Txn, after *job.Record, s Subject) error {
	table := s.TableInfo
	switch after.Step {
	case job.StepDeleteOnly:
		condemned, err := condemnedIndexes(t, after, table)
		if err != nil {
			return err
		}
		if err := addIndexes(after, table, condemned); err != nil {
			return job.Permanent(err)
		}
		if err := beginChanges(after, s); err != nil {
			return job.Permanent(err)
		}
		nameIndexes(after, table)
		return nil
	case job.StepWriteOnly, job.StepWriteReorg, job.StepUndoDeleteOnly:
		if after.Step == job.StepUndoDeleteOnly {
			keepNumbers(after, table)
		}
		for _, idx := range IndexesOf(after, table) {
			idx.State = after.SchemaState()
			if after.Step == job.StepWriteOnly {
				preventNulls(table, idx)
			}
		}
		nameIndexes(after, table)
		return followChanges(after, table, after.SchemaState())
	case job.StepPublic:
		return publishIndexes(t, after, table, s.Analyzed)
	case job.StepDropDeleteOnly, job.StepDropReorg:
		return dropChanges(after, table, after.DropState())
	case job.StepDropped:
		if err := dropChanges(after, table, after.DropState()); err != nil {
			return err
		}
		return deleteDropped(t, after, table)
	case job.StepUndone:
		if err := followChanges(after, table, model.StateNone); err != nil {
			return err
		}
		return removeIndexes(t, after, table)
	}
	return nil
}

// IndexesOf returns the job's indexes that the table has. While the job is undone an index that has the ID of one of them
// may be another: when the job's row was taken, FLASHBACK CLUSTER may have taken the table's counter back, and
// TiDB have added an index.
func IndexesOf(r *job.Record, table *model.TableInfo) []*model.IndexInfo {
	var indexes []*model.IndexInfo
	for i, id := range r.IndexIDs {
		if idx := model.FindIndexInfoByID(table.Indices, id); idx != nil && (!r.RollingBack() || builds(r, i, idx)) {
			indexes = append(indexes, idx)
		}
	}
	return indexes
}

// builds says that an index with the ID of the record's i-th, which is not public yet, is that one.
func builds(r *job.Record, i int, idx *model.IndexInfo) bool {
	return idx.Name.O == r.Indexes[i].IndexName.O && idx.State != model.StatePublic &&
		(r.Protocol < markProtocol || strings.HasSuffix(idx.Name.L, BuildingMark))
}

// BuildingMark ends the name by which TiDB looks an index up while it is not public. No
// name that a statement gives has this character.
//
// A transaction that first uses a table when it has changed since the transaction began
// takes the newest definition, with those indexes as write-reorg that it does not know
// (tryLockMDLAndUpdateSchemaIfNecessary in pkg/planner/core/preprocess.go). It knows them by
// name and ID, in any state. So one that began during the build would read
// through the index at its beginning, when there were no entries yet.
const BuildingMark = "\x00"

// markProtocol is the first one whose jobs have marked names. A node of an earlier version may go
// on with an earlier job, and would publish what is marked.
const markProtocol = 2

// nameIndexes gives the job's indexes the names that TiDB looks them up by: their own when
// they are public, and others before.
func nameIndexes(r *job.Record, table *model.TableInfo) {
	for _, idx := range IndexesOf(r, table) {
		idx.Name = pmodel.NewCIStr(idx.Name.O)
		if idx.State != model.StatePublic && r.Protocol >= markProtocol {
			idx.Name.L += BuildingMark
		}
	}
}

// BeingBuilt returns the index of a name, in lower case, that is being built in the table; nil if
// there is none. TiDB does not find it.
func BeingBuilt(table *model.TableInfo, name string) *model.IndexInfo {
	return table.FindIndexByName(name + BuildingMark)
}

// BuildsIndexes says that the table has indexes that TiDB does not find because they are being built.
func BuildsIndexes(table *model.TableInfo) bool {
	return slices.ContainsFunc(table.Indices, func(idx *model.IndexInfo) bool { return strings.HasSuffix(idx.Name.L, BuildingMark) })
}

// addIndexes adds the job's indexes in state delete-only, and the hidden columns
// of expressions. None gets an ID that is condemned.
func addIndexes(after *job.Record, table *model.TableInfo, condemned map[int64]bool) error {
	if table.TableCacheStatusType != model.TableCacheStatusDisable {
		return errCached
	}
	after.IndexIDs = nil
	for _, arg := range after.Indexes {
		for condemned[table.MaxIndexID+1] {
			table.MaxIndexID++
		}
		idx, err := AddIndex(table, arg)
		if err != nil {
			return err
		}
		idx.State = model.StateDeleteOnly
		after.IndexIDs = append(after.IndexIDs, idx.ID)
	}
	for _, idx := range IndexesOf(after, table) {
		showHiddenColumns(table, idx)
	}
	// What is wrong with the definition shows here at the latest.
	return checkDefinition(table)
}

// showHiddenColumns makes the hidden columns of an index known to DML: they are
// computed, so they need no states of their own.
func showHiddenColumns(table *model.TableInfo, idx *model.IndexInfo) {
	for _, ic := range idx.Columns {
		col := table.Columns[ic.Offset]
		if !col.Hidden || col.State == model.StatePublic {
			continue
		}
		to := col.Offset
		for i, c := range table.Columns {
			if c.State != model.StatePublic {
				to = i
				break
			}
		}
		col.State = model.StatePublic
		table.MoveColumnInfo(col.Offset, to)
	}
}

// preventNulls forbids NULLs in the columns of a new primary key from now on. That
// there is none already is seen by the backfill.
func preventNulls(table *model.TableInfo, idx *model.IndexInfo) {
	if !idx.Primary {
		return
	}
	for _, ic := range idx.Columns {
		if col := table.Columns[ic.Offset]; !mysql.HasNotNullFlag(col.GetFlag()) {
			col.AddFlag(mysql.PreventNullInsertFlag)
		}
	}
}

// publishIndexes makes all indexes of the job public at once, with what else the
// statement changes. analyzed says that TiDB has statistics of them.
func publishIndexes(t *session.Txn, after *job.Record, table *model.TableInfo, analyzed bool) error {
	indexes := IndexesOf(after, table)
	if len(indexes) != len(after.IndexIDs) {
		return job.Permanent(fmt.Errorf("table %s has lost an index that was being built", table.Name.O))
	}
	for _, idx := range indexes {
		tidbddl.AddIndexColumnFlag(table, idx)
		if idx.Primary {
			if err := tidbddl.UpdateColsNull2NotNull(table, idx); err != nil {
				return err
			}
		}
		idx.State = model.StatePublic
	}
	nameIndexes(after, table)
	if err := publishChanges(after, table); err != nil {
		return job.Permanent(err)
	}
	if err := publishAddColumnEvents(t, after, table); err != nil {
		return err
	}
	return publishAddIndexEvent(t, after, table, indexes, analyzed)
}

// keepNumbers lets no other index or column get the IDs of the job's, also if FLASHBACK CLUSTER has taken
// the table's counter back: it waits for jobs in TiDB's queue, but not for one whose row was
// just taken.
func keepNumbers(r *job.Record, table *model.TableInfo) {
	for _, id := range r.IndexIDs {
		table.MaxIndexID = max(table.MaxIndexID, id)
	}
	for i := range r.Changes {
		table.MaxColumnID = max(table.MaxColumnID, r.Changes[i].ColumnID)
	}
}

// removeIndexes takes the job's indexes out of the table and gives their entries
// to garbage collection, but for those under the ID of another index.
func removeIndexes(t *session.Txn, after *job.Record, table *model.TableInfo) error {
	keepNumbers(after, table)
	for _, idx := range IndexesOf(after, table) {
		if idx.Primary {
			for _, ic := range idx.Columns {
				table.Columns[ic.Offset].DelFlag(mysql.PreventNullInsertFlag)
			}
		}
		tidbddl.RemoveDependentHiddenColumns(table, idx)
		removeIndex(table, idx.ID)
	}
	gone := *after
	gone.Indexes, gone.IndexIDs = nil, nil
	for i, id := range after.IndexIDs {
		if model.FindIndexInfoByID(table.Indices, id) == nil {
			gone.Indexes, gone.IndexIDs = append(gone.Indexes, after.Indexes[i]), append(gone.IndexIDs, id)
		}
	}
	if len(gone.IndexIDs) == 0 {
		return nil
	}
	return deleteEntries(t, &gone, table)
}

package ddl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	"github.com/pingcap/tidb/pkg/meta"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"

	"fastddl/ddl/job"
)

// The state changes of indexes. They do what TiDB's own do
// (pkg/ddl/index.go, onCreateIndex and onDropIndex), but for BackfillState, which
// stays Inapplicable: then DML writes plain entries and plain tombstones.

// applySchema makes the table what it is at the record's step.
func applySchema(t *txn, after *job.Record, s subject) error {
	table := s.TableInfo
	switch after.Step {
	case job.StepDeleteOnly:
		condemned, err := t.condemned(after, table)
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
		for _, idx := range indexesOf(after, table) {
			idx.State = after.SchemaState()
			if after.Step == job.StepWriteOnly {
				preventNulls(table, idx)
			}
		}
		nameIndexes(after, table)
		return followChanges(after, table, after.SchemaState())
	case job.StepPublic:
		return publishIndexes(t, after, table)
	case job.StepDropDeleteOnly, job.StepDropReorg:
		return dropChanges(after, table, after.DropState())
	case job.StepDropped:
		if err := dropChanges(after, table, after.DropState()); err != nil {
			return err
		}
		return t.deleteDropped(after, table)
	case job.StepUndone:
		if err := followChanges(after, table, model.StateNone); err != nil {
			return err
		}
		return removeIndexes(t, after, table)
	}
	return nil
}

// indexesOf returns the job's indexes that the table has. While the job is undone an index that has the ID of one of them
// may be another: when somebody has taken the job's row, FLASHBACK CLUSTER may have taken the table's counter back, and
// TiDB have added an index.
func indexesOf(r *job.Record, table *model.TableInfo) []*model.IndexInfo {
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
		(r.Protocol < markProtocol || strings.HasSuffix(idx.Name.L, buildingMark))
}

// buildingMark ends the name by which TiDB looks an index up while it is not public. No
// name that a statement gives has this character.
//
// A transaction that first uses a table when it has changed since the transaction began
// takes the newest definition, with those indexes as write-reorg that it does not know
// (tryLockMDLAndUpdateSchemaIfNecessary in pkg/planner/core/preprocess.go). It knows them by
// name and ID, whatever their state was. So one that began during the build would read
// through the index at its beginning, when there were no entries yet.
const buildingMark = "\x00"

// markProtocol is the first one whose jobs have marked names. A node of an earlier version may go
// on with an earlier job, and would publish what is marked.
const markProtocol = 2

// nameIndexes gives the job's indexes the names that TiDB looks them up by: their own when
// they are public, and others before.
func nameIndexes(r *job.Record, table *model.TableInfo) {
	for _, idx := range indexesOf(r, table) {
		idx.Name = pmodel.NewCIStr(idx.Name.O)
		if idx.State != model.StatePublic && r.Protocol >= markProtocol {
			idx.Name.L += buildingMark
		}
	}
}

// BeingBuilt returns the index of a name, in lower case, that is being built in the table; nil if
// there is none. TiDB does not find it.
func BeingBuilt(table *model.TableInfo, name string) *model.IndexInfo {
	return table.FindIndexByName(name + buildingMark)
}

// BuildsIndexes says that the table has indexes that TiDB does not find because they are being built.
func BuildsIndexes(table *model.TableInfo) bool {
	return slices.ContainsFunc(table.Indices, func(idx *model.IndexInfo) bool { return strings.HasSuffix(idx.Name.L, buildingMark) })
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
	for _, idx := range indexesOf(after, table) {
		showHiddenColumns(table, idx)
	}
	// Whatever is wrong with the definition shows here at the latest.
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
// statement changes.
func publishIndexes(t *txn, after *job.Record, table *model.TableInfo) error {
	indexes := indexesOf(after, table)
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
	return publishAddIndexEvent(t, after, table, indexes)
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
func removeIndexes(t *txn, after *job.Record, table *model.TableInfo) error {
	keepNumbers(after, table)
	for _, idx := range indexesOf(after, table) {
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
	return t.deleteEntries(&gone, table)
}

// publishVersion writes the table under the next schema version, and asks all servers to tell when nobody uses an older one.
//
// A version must not be taken while the diff of the one before is missing: TiDB's
// owner takes versions in a transaction before the one that writes the diff, and
// servers that see a later diff first skip the missing one for good. A diff stays
// missing for ever if an owner has died in between; that is so if no job is left
// that could be about to write it.
func (d *DDL) publishVersion(t *txn, after *job.Record, table *model.TableInfo) error {
	newest, err := t.meta.GetSchemaVersion()
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	diff, err := t.meta.GetSchemaDiff(newest)
	if err != nil {
		return fmt.Errorf("read schema version %d: %w", newest, err)
	}
	if diff == nil && newest > 0 {
		if busy, err := t.ownerIsBusy(); err != nil || busy {
			return errors.Join(err, errRetry)
		}
	}
	version, err := t.meta.GenSchemaVersion()
	if err != nil {
		return fmt.Errorf("take schema version: %w", err)
	}
	after.SchemaVersion = version
	table.UpdateTS = t.ts
	if err := t.meta.UpdateTable(after.DBID, table); err != nil {
		return fmt.Errorf("write table %s: %w", table.Name.O, err)
	}
	if err := t.meta.SetSchemaDiff(schemaDiff(after)); err != nil {
		return fmt.Errorf("write schema version %d: %w", version, err)
	}
	return t.exec(`REPLACE INTO mysql.tidb_mdl_info (job_id, version, table_ids, owner_id) VALUES (%?, %?, %?, %?)`,
		after.RowID, version, strconv.FormatInt(after.TableID, 10), d.opts.Domain.DDL().OwnerManager().ID())
}

// schemaDiff is what servers are told of a version: which table to read again.
func schemaDiff(r *job.Record) *model.SchemaDiff {
	diff := &model.SchemaDiff{Version: r.SchemaVersion, Type: model.ActionAddIndex, SchemaID: r.DBID, TableID: r.TableID}
	if r.Mixed() {
		diff.Type, diff.SubActionTypes = model.ActionMultiSchemaChange, []model.ActionType{addedType(r)}
		for i := range r.Changes {
			diff.SubActionTypes = append(diff.SubActionTypes, r.Changes[i].Type)
		}
	}
	return diff
}

// ownerIsBusy says that a job of TiDB's own may be running: one that no earlier
// job keeps from it.
func (t *txn) ownerIsBusy() (bool, error) {
	queue, foreign, err := t.queued()
	for _, f := range foreign {
		if job.Ahead(queue, f.ID, f.Involving) == 0 {
			return true, err
		}
	}
	return false, err
}

// errUnlocked ends a build whose schema versions nobody can be waited for with.
var errUnlocked = errors.New("tidb_enable_metadata_lock was switched OFF when the index build had begun; the statement can be run again")

// requireLock says, as a permanent error, that the metadata lock is off. It was on when the
// statement was taken, and TiDB refuses to switch it while its queue has a job; but it looks
// at the queue before it switches. What is undone or public goes on by TiDB's older protocol.
func requireLock(r *job.Record) error {
	if variable.EnableMDL.Load() || r.RollingBack() || !r.Step.Revertible() {
		return nil
	}
	return job.Permanent(errUnlocked)
}

// awaitVersion waits until every server, and every transaction that uses the
// table, has the record's schema version. Without the metadata lock TiDB waits for servers
// only, so that it is looked for on both sides of the wait.
func (d *DDL) awaitVersion(ctx context.Context, r *job.Record) error {
	if err := requireLock(r); err != nil {
		return err
	}
	syncer := d.versions.syncer
	if err := syncer.OwnerUpdateGlobalVersion(ctx, r.SchemaVersion); err != nil {
		return fmt.Errorf("announce schema version %d: %w", r.SchemaVersion, err)
	}
	if err := syncer.WaitVersionSynced(ctx, r.RowID, r.SchemaVersion); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("wait for schema version %d: %w", r.SchemaVersion, err)
	}
	return requireLock(r)
}

// forgetVersion ends the servers' looking for transactions of versions older than the
// record's. A version that a later owner of the job has published stays.
func (t *task) forgetVersion(ctx context.Context, r *job.Record) error {
	return t.inOwnTxn(ctx, func(x *txn) error {
		return x.exec(`DELETE FROM mysql.tidb_mdl_info WHERE job_id = %? AND version <= %?`, r.RowID, r.SchemaVersion)
	})
}

// readTable returns the newest definition of the job's table, nil if it is gone.
func (t *txn) readTable(r *job.Record) (*model.TableInfo, error) {
	table, err := t.meta.GetTable(r.DBID, r.TableID)
	if err != nil {
		if meta.ErrDBNotExists.Equal(err) || meta.ErrTableNotExists.Equal(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read table %d: %w", r.TableID, err)
	}
	return table, nil
}

// followTable returns the newest definition of the job's table if that has got another ID, or lies in another database, since
// the record's schema version, and nil if it is gone. That can be when somebody has taken the job's row: TiDB's queue
// goes on with what was behind it. The record is about the table as it is now.
func (t *txn) followTable(r *job.Record) (*model.TableInfo, error) {
	newest, err := t.meta.GetSchemaVersion()
	if err != nil {
		return nil, fmt.Errorf("read schema version: %w", err)
	}
	at := *r
	for version := r.SchemaVersion + 1; r.SchemaVersion != 0 && version <= newest; version++ {
		diff, err := t.meta.GetSchemaDiff(version)
		if err != nil {
			return nil, fmt.Errorf("read schema version %d: %w", version, err)
		}
		if diff != nil {
			at.DBID, at.TableID = movedBy(diff, at.DBID, at.TableID)
		}
	}
	table, err := t.readTable(&at)
	if err != nil || table == nil {
		return nil, err
	}
	db, err := t.meta.GetDatabase(at.DBID)
	if err != nil {
		return nil, fmt.Errorf("read database %d: %w", at.DBID, err)
	}
	r.DBID, r.TableID, r.DB, r.Table = at.DBID, at.TableID, lower(db.Name.L), lower(table.Name.L)
	return table, nil
}

// movedBy returns where a table is after a schema version (pkg/ddl/schema_version.go).
func movedBy(diff *model.SchemaDiff, dbID, tableID int64) (toDB, toTable int64) {
	switch diff.Type {
	case model.ActionTruncateTable, model.ActionAlterTablePartitioning, model.ActionRemovePartitioning:
		if diff.OldTableID == tableID {
			return dbID, diff.TableID
		}
	case model.ActionRenameTable, model.ActionRenameTables:
		if diff.TableID == tableID {
			return diff.SchemaID, tableID
		}
		for _, also := range diff.AffectedOpts {
			if also.TableID == tableID {
				return also.SchemaID, tableID
			}
		}
	}
	return dbID, tableID
}

package schema

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
)

// Publish writes the table under the next schema version, and asks all servers to report when no transaction of theirs uses an
// older one. ownerID is that of TiDB's DDL on this server.
//
// A version must not be taken while the diff of the one before is missing: TiDB's
// owner takes versions in a transaction before the one that writes the diff, and
// servers that see a later diff first skip the missing one for good. A diff stays
// missing for ever if an owner has died in between; that is so if no job is left
// that could be about to write it.
func Publish(t *session.Txn, after *job.Record, table *model.TableInfo, ownerID string) error {
	version, err := takeVersion(t)
	if err != nil {
		return err
	}
	after.SchemaVersion = version
	table.UpdateTS = t.TS
	if err := t.Meta.UpdateTable(after.DBID, table); err != nil {
		return fmt.Errorf("write table %s: %w", table.Name.O, err)
	}
	return announce(t, after.RowID, schemaDiff(after), ownerID, after.TableID)
}

// takeVersion returns the next schema version, whose diff the caller writes in the same transaction.
func takeVersion(t *session.Txn) (int64, error) {
	newest, err := t.Meta.GetSchemaVersion()
	if err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	diff, err := t.Meta.GetSchemaDiff(newest)
	if err != nil {
		return 0, fmt.Errorf("read schema version %d: %w", newest, err)
	}
	if diff == nil && newest > 0 {
		if busy, err := ownerIsBusy(t); err != nil || busy {
			return 0, errors.Join(err, session.ErrRetry)
		}
	}
	version, err := t.Meta.GenSchemaVersion()
	if err != nil {
		return 0, fmt.Errorf("take schema version: %w", err)
	}
	return version, nil
}

// announce writes the diff of a version, and asks all servers to report when no transaction of theirs uses the table under an older one.
func announce(t *session.Txn, rowID int64, diff *model.SchemaDiff, ownerID string, tableID int64) error {
	if err := t.Meta.SetSchemaDiff(diff); err != nil {
		return fmt.Errorf("write schema version %d: %w", diff.Version, err)
	}
	return t.Exec(`REPLACE INTO mysql.tidb_mdl_info (job_id, version, table_ids, owner_id) VALUES (%?, %?, %?, %?)`,
		rowID, diff.Version, strconv.FormatInt(tableID, 10), ownerID)
}

// schemaDiff is what a version says to servers: which table to read again.
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
func ownerIsBusy(t *session.Txn) (bool, error) {
	queue, foreign, err := readQueue(t)
	for _, f := range foreign {
		if job.Ahead(queue, f.ID, f.Involving) == 0 {
			return true, err
		}
	}
	return false, err
}

// errUnlocked ends a build of which no schema version can be waited for.
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

// Await waits until every server, and every transaction that uses the
// table, has the record's schema version. Without the metadata lock TiDB waits for servers
// only, so that it is looked for on both sides of the wait.
func (v *Versions) Await(ctx context.Context, r *job.Record) error {
	if err := requireLock(r); err != nil {
		return err
	}
	if err := v.syncer.OwnerUpdateGlobalVersion(ctx, r.SchemaVersion); err != nil {
		return fmt.Errorf("announce schema version %d: %w", r.SchemaVersion, err)
	}
	if err := v.syncer.WaitVersionSynced(ctx, r.RowID, r.SchemaVersion); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("wait for schema version %d: %w", r.SchemaVersion, err)
	}
	return requireLock(r)
}

// ForgetVersion ends the servers' looking for transactions of versions older than the
// record's. A version that a later owner of the job has published stays.
func ForgetVersion(t *session.Txn, r *job.Record) error {
	return t.Exec(`DELETE FROM mysql.tidb_mdl_info WHERE job_id = %? AND version <= %?`, r.RowID, r.SchemaVersion)
}

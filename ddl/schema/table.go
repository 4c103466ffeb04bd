package schema

import (
	"fmt"

	"github.com/pingcap/tidb/pkg/meta"
	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
)

// ReadTable returns the newest definition of the job's table, nil if it is gone.
func ReadTable(t *session.Txn, r *job.Record) (*model.TableInfo, error) {
	table, err := t.Meta.GetTable(r.DBID, r.TableID)
	if err != nil {
		if meta.ErrDBNotExists.Equal(err) || meta.ErrTableNotExists.Equal(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read table %d: %w", r.TableID, err)
	}
	return table, nil
}

// FollowTable returns the newest definition of the job's table if that has got another ID, or lies in another database, since
// the record's schema version, and nil if it is gone. That can be when the job's row was taken: TiDB's queue
// goes on with what was behind it. The record is about the table as it is now.
func FollowTable(t *session.Txn, r *job.Record) (*model.TableInfo, error) {
	newest, err := t.Meta.GetSchemaVersion()
	if err != nil {
		return nil, fmt.Errorf("read schema version: %w", err)
	}
	at := *r
	for version := r.SchemaVersion + 1; r.SchemaVersion != 0 && version <= newest; version++ {
		diff, err := t.Meta.GetSchemaDiff(version)
		if err != nil {
			return nil, fmt.Errorf("read schema version %d: %w", version, err)
		}
		if diff != nil {
			at.DBID, at.TableID = movedBy(diff, at.DBID, at.TableID)
		}
	}
	table, err := ReadTable(t, &at)
	if err != nil || table == nil {
		return nil, err
	}
	db, err := t.Meta.GetDatabase(at.DBID)
	if err != nil {
		return nil, fmt.Errorf("read database %d: %w", at.DBID, err)
	}
	r.DBID, r.TableID, r.DB, r.Table = at.DBID, at.TableID, QueueName(db.Name.L), QueueName(table.Name.L)
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

package sql

import (
	"fmt"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/sessionctx"
)

// TiDB brings a table back as it was when the statement that dropped it was put into the queue (executeRecoverTable and
// getRecoverTableByTableName in pkg/executor/ddl.go). What was before it in the queue changed the table after that. An index that was
// being built then would never become public, and could not be dropped; one that was built after that would be missing, and its entries
// would be found in the next index, which gets its ID. So the table is brought back as it was when the statement began to be
// executed.

// RecoverTable implements ddl.Executor.
func (e *executor) RecoverTable(sctx sessionctx.Context, info *model.RecoverTableInfo) error {
	began, then, err := e.droppedAt(info.DropJobID, info.SnapshotTS)
	if err != nil {
		return err
	}
	table, err := then.GetTable(info.SchemaID, info.TableInfo.ID)
	if err != nil {
		return fmt.Errorf("read table %s as it was dropped: %w", info.TableInfo.Name, err)
	}
	if table != nil {
		ids, err := then.GetAutoIDAccessors(info.SchemaID, table.ID).Get()
		if err != nil {
			return fmt.Errorf("read IDs of table %s as it was dropped: %w", info.TableInfo.Name, err)
		}
		table.Name = info.TableInfo.Name
		info.TableInfo, info.AutoIDs, info.SnapshotTS = table, ids, began
	}
	return e.Executor.RecoverTable(sctx, info)
}

// RecoverSchema implements ddl.Executor.
func (e *executor) RecoverSchema(sctx sessionctx.Context, info *model.RecoverSchemaInfo) error {
	began, _, err := e.droppedAt(info.DropJobID, info.SnapshotTS)
	if err != nil {
		return err
	}
	info.SnapshotTS = began
	return e.Executor.RecoverSchema(sctx, info)
}

// droppedAt returns when a statement that has dropped something began to be executed, and the metadata of that moment. It was put into
// the queue at queued.
func (e *executor) droppedAt(jobID int64, queued uint64) (began uint64, then meta.Reader, err error) {
	now, err := e.layer.dom.Store().CurrentVersion(tidbkv.GlobalTxnScope)
	if err != nil {
		return 0, nil, fmt.Errorf("take timestamp: %w", err)
	}
	job, err := e.layer.dom.GetSnapshotMeta(now.Ver).GetHistoryDDLJob(jobID)
	if err != nil {
		return 0, nil, fmt.Errorf("read DDL job %d: %w", jobID, err)
	}
	began = queued
	if job != nil {
		began = max(queued, job.RealStartTS)
	}
	return began, e.layer.dom.GetSnapshotMeta(began), nil
}

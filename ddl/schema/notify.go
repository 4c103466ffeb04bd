package schema

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	"github.com/pingcap/tidb/pkg/ddl/notifier"
	sess "github.com/pingcap/tidb/pkg/ddl/session"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/tikv/client-go/v2/oracle"

	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
)

// noSubJob is the sub-job of an event that is about a whole job; see
// pkg/ddl/ddl.go.
const noSubJob = -1

// publishAddIndexEvent publishes the new indexes to TiDB's statistics, as TiDB's owner
// does, which are not to be analyzed if they were.
func publishAddIndexEvent(t *session.Txn, r *job.Record, table *model.TableInfo, indexes []*model.IndexInfo, analyzed bool) error {
	store := notifier.OpenTableStore("mysql", tidbddl.NotifierTableName)
	err := notifier.PubSchemeChangeToStore(t.Ctx, t.Session, r.ID, noSubJob, notifier.NewAddIndexEvent(table, indexes, analyzed), store)
	if err != nil {
		return fmt.Errorf("tell statistics of the indexes: %w", err)
	}
	return nil
}

// publishAddColumnEvents publishes new columns to TiDB's statistics.
func publishAddColumnEvents(t *session.Txn, r *job.Record, table *model.TableInfo) error {
	store := notifier.OpenTableStore("mysql", tidbddl.NotifierTableName)
	for i := range r.Changes {
		col := model.FindColumnInfoByID(table.Columns, r.Changes[i].ColumnID)
		if r.Changes[i].Type != model.ActionAddColumn || col == nil {
			continue
		}
		event := notifier.NewAddColumnEvent(table, []*model.ColumnInfo{col})
		if err := notifier.PubSchemeChangeToStore(t.Ctx, t.Session, r.ID, int64(i), event, store); err != nil {
			return fmt.Errorf("tell statistics of column %s: %w", col.Name.O, err)
		}
	}
	return nil
}

// deleteEntries gives the entries of the job's indexes to TiDB's garbage
// collection, which deletes the ranges when no transaction can read them any more.
func deleteEntries(t *session.Txn, r *job.Record, table *model.TableInfo) error {
	j := tidbJob(r, job.Settings{})
	j.ID, j.Type, j.State = r.ID, addedType(r), model.JobStateRollbackDone
	j.FillFinishedArgs(finishedArgs(r, table))
	return deleteRanges(t, j)
}

// condemnedIndexes are the IDs of indexes whose entries garbage collection is still to delete, or to delete once
// more after a day, where the table's would be stored. The table counts its indexes, so none of its own
// gets an ID of before; but EXCHANGE PARTITION swaps the IDs that entries are stored under and not the
// counters (onExchangeTablePartition in pkg/ddl/partition.go), and nothing else checks them. And FLASHBACK CLUSTER
// takes the counter back: those of a job that is still to be undone are condemned as well.
func condemnedIndexes(t *session.Txn, r *job.Record, table *model.TableInfo) (map[int64]bool, error) {
	physical := append(PartitionIDs(table), table.ID)
	slices.Sort(physical)
	from := hex.EncodeToString(tablecodec.EncodeTablePrefix(physical[0]))
	to := hex.EncodeToString(tablecodec.EncodeTablePrefix(physical[len(physical)-1] + 1))
	rows, err := t.Query(`SELECT start_key FROM mysql.gc_delete_range WHERE start_key >= %? AND start_key < %?
		UNION ALL SELECT start_key FROM mysql.gc_delete_range_done WHERE start_key >= %? AND start_key < %?`, from, to, from, to)
	if err != nil {
		return nil, fmt.Errorf("read delete ranges: %w", err)
	}
	ids := make(map[int64]bool)
	for _, row := range rows {
		start, err := hex.DecodeString(row.GetString(0))
		if err != nil {
			return nil, fmt.Errorf("decode a delete range: %w", err)
		}
		tableID, indexID, isRecord, err := tablecodec.DecodeKeyHead(start)
		if err != nil || isRecord {
			continue // it is of a table, not of an index
		}
		if _, ours := slices.BinarySearch(physical, tableID); ours {
			ids[indexID] = true
		}
	}
	jobs, err := records.Load(t)
	if err != nil {
		return nil, err
	}
	for _, other := range jobs {
		if other.Record.TableID == table.ID && other.Record.ID != r.ID {
			for _, id := range other.Record.IndexIDs {
				ids[id] = true
			}
		}
	}
	return ids, nil
}

// deleteRanges has the ranges deleted that a job of TiDB's leaves behind.
func deleteRanges(t *session.Txn, j *model.Job) error {
	if err := tidbddl.AddDelRangeJobInternal(t.Ctx, &rangeWriter{se: t.Session}, j); err != nil {
		return fmt.Errorf("write delete ranges: %w", err)
	}
	return nil
}

// rangeWriter implements TiDB's DelRangeExecWrapper in a transaction of ours.
type rangeWriter struct {
	se   *sess.Session
	ts   uint64
	args []any
}

// UpdateTSOForJob implements ddl.DelRangeExecWrapper.
func (w *rangeWriter) UpdateTSOForJob() error {
	version, err := w.se.GetStore().CurrentVersion(oracle.GlobalTxnScope)
	w.ts = version.Ver
	return err
}

// PrepareParamsList implements ddl.DelRangeExecWrapper.
func (w *rangeWriter) PrepareParamsList(n int) { w.args = make([]any, 0, n) }

// RewriteTableID implements ddl.DelRangeExecWrapper.
func (*rangeWriter) RewriteTableID(id int64) (int64, bool) { return id, true }

// AppendParamsList implements ddl.DelRangeExecWrapper.
func (w *rangeWriter) AppendParamsList(jobID, elementID int64, start, end string) {
	w.args = append(w.args, jobID, elementID, start, end, w.ts)
}

// ConsumeDeleteRange implements ddl.DelRangeExecWrapper.
func (w *rangeWriter) ConsumeDeleteRange(ctx context.Context, query string) error {
	_, err := w.se.Execute(ctx, query, "index_build", w.args...)
	return err
}

package schema

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	ddlutil "github.com/pingcap/tidb/pkg/ddl/util"
	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
)

// This file leans on what TiDB does with the rows of its queue:
//
//   - pkg/ddl/job_scheduler.go: jobs run in order of job_id, those after one that
//     involves the same table wait for it, and one in state paused stays where it
//     is (processJobDuringUpgrade). IDs come from the counter of global IDs in the
//     transaction that inserts the row, so that rows appear in order of ID.
//   - pkg/ddl/job_worker.go: a job of a type that TiDB does not know ends as
//     cancelled, if it is cancelled or resumed.
//   - pkg/domain/domain.go (refreshMDLCheckTableInfo): the metadata lock of a job
//     is looked at while mysql.tidb_mdl_info and mysql.tidb_ddl_job have its rows.
//
// TestQueueRow fails when a version of TiDB changes that.

// actionFastIndex and actionFastAlter are the types of our rows in TiDB's queue, of
// jobs that add indexes and of those that do more: types that no version of TiDB
// runs.
const (
	actionFastIndex model.ActionType = 250
	actionFastAlter model.ActionType = 251
)

func init() {
	// What ADMIN SHOW DDL JOBS and information_schema.ddl_jobs call the types.
	model.ActionMap[actionFastIndex] = model.ActionMap[model.ActionAddIndex]
	model.ActionMap[actionFastAlter] = model.ActionMap[model.ActionMultiSchemaChange]
}

// rowType is the type of a job's row in TiDB's queue.
func rowType(r *job.Record) model.ActionType {
	if r.Mixed() {
		return actionFastAlter
	}
	return actionFastIndex
}

// tidbJob is the job as TiDB's queue and history show it.
func tidbJob(r *job.Record, s job.Settings) *model.Job {
	j := &model.Job{
		ID: r.RowID, Type: rowType(r), SchemaID: r.DBID, TableID: r.TableID, SchemaName: r.DB, TableName: r.Table,
		// Paused by an operator that TiDB does not know: RESUME of a plain server, which would cancel the job, is refused, and
		// so is that of a smooth upgrade (resumePausedJob in pkg/ddl/ddl.go).
		State: model.JobStatePaused, AdminOperator: model.AdminCommandByNotKnown,
		SchemaState: r.SchemaState(), RowCount: r.RowCount, ErrorCount: r.ErrorCount, SnapshotVer: r.SnapshotTS,
		StartTS: r.CreateTS, RealStartTS: r.StartTS, Query: r.Query, BinlogInfo: new(model.HistoryInfo),
		Version: model.GetJobVerInUse(), SQLMode: r.SQLMode, Charset: r.Charset, Collate: r.Collate,
		ReorgMeta: &model.DDLReorgMeta{
			SQLMode: r.SQLMode, Location: r.Location, ReorgTp: model.ReorgTypeIngest, IsFastReorg: true, Version: model.CurrentReorgMetaVersion,
			ResourceGroupName: r.ResourceGroup,
		},
	}
	if s.Threads > 0 {
		j.ReorgMeta.SetConcurrency(s.Threads)
	}
	if s.BatchSize > 0 {
		j.ReorgMeta.SetBatchSize(s.BatchSize)
	}
	j.ReorgMeta.SetMaxWriteSpeed(int(s.MaxWriteSpeed))
	j.FillArgs(&model.EmptyArgs{})
	return j
}

// involving is what a job excludes others from.
func involving(r *job.Record) []model.InvolvingSchemaInfo {
	return []model.InvolvingSchemaInfo{{Database: r.DB, Table: r.Table}}
}

// InsertRow puts the job into TiDB's queue.
func InsertRow(t *session.Txn, r *job.Record, s job.Settings) error {
	meta, err := tidbJob(r, s).Encode(true)
	if err != nil {
		return fmt.Errorf("encode job: %w", err)
	}
	return t.Exec(fmt.Sprintf(`INSERT INTO mysql.tidb_ddl_job (job_id, reorg, schema_ids, table_ids, job_meta, type, processing)
		VALUES (%%?, 1, %%?, %%?, %s, %%?, 0)`, ddlutil.WrapKey2String(meta)),
		r.RowID, strconv.FormatInt(r.DBID, 10), strconv.FormatInt(r.TableID, 10), int(rowType(r)))
}

// RowIntact says whether the job's row is as we left it: paused, and ours.
func RowIntact(t *session.Txn, r *job.Record) (bool, error) {
	rows, err := t.Query(`SELECT job_meta FROM mysql.tidb_ddl_job WHERE job_id = %?`, r.RowID)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	return OwnPausedRow(rows[0].GetBytes(0))
}

// OwnPausedRow says whether a row of TiDB's queue is ours and paused.
func OwnPausedRow(meta []byte) (bool, error) {
	var stored model.Job
	if err := stored.Decode(meta); err != nil {
		return false, fmt.Errorf("decode a job in the queue: %w", err)
	}
	ours := stored.Type == actionFastIndex || stored.Type == actionFastAlter || stored.Type == ActionImport
	return ours && stored.State == model.JobStatePaused, nil
}

// ErrRowTaken says that a user, or TiDB, has cancelled or resumed the job's row in TiDB's
// queue, which we take as a wish to cancel.
var ErrRowTaken = errors.New("ddl: the job's row in TiDB's queue was taken")

// EnsureRow fails with ErrRowTaken if the job's row was taken. A job that
// is being undone, or cannot be undone because it was public before, needs one all
// the same, so that the table stays its own: it gets another ID, for a row to be
// inserted.
func EnsureRow(t *session.Txn, r *job.Record, public bool) (intact bool, err error) {
	intact, err = RowIntact(t, r)
	if err != nil || intact {
		return intact, err
	}
	if public {
		return false, renewRow(t, r)
	}
	if !r.RollingBack() {
		return false, ErrRowTaken
	}
	return false, renewRow(t, r)
}

// renewRow gives the job another ID for its row, which is not there yet. A row that was
// taken stays, and the version that was published with it: a worker of TiDB's may be waiting
// until all servers have reported that version, which they do as long as both are there. It
// ends the row as that of a job which it does not know.
func renewRow(t *session.Txn, r *job.Record) error {
	id, err := t.Meta.GenGlobalID()
	if err != nil {
		return fmt.Errorf("generate ID: %w", err)
	}
	r.TakenRows = append(r.TakenRows, r.RowID)
	r.RowID = id
	return nil
}

// UpdateRow writes the job's row anew. This shows progress, and makes the
// transaction fail if the row is touched meanwhile.
func UpdateRow(t *session.Txn, r *job.Record, s job.Settings) error {
	meta, err := tidbJob(r, s).Encode(true)
	if err != nil {
		return fmt.Errorf("encode job: %w", err)
	}
	return t.Exec(fmt.Sprintf(`UPDATE mysql.tidb_ddl_job SET job_meta = %s WHERE job_id = %%?`, ddlutil.WrapKey2String(meta)), r.RowID)
}

// DeleteTakenVersions deletes the versions of rows that TiDB has ended after our jobs.
const DeleteTakenVersions = `DELETE FROM mysql.tidb_mdl_info WHERE job_id IN (SELECT job_id FROM mysql.fastddl_ddl_record_history)
	AND job_id NOT IN (SELECT job_id FROM mysql.tidb_ddl_job)`

// deleteRow deletes the job's row, and the versions of rows that TiDB has ended.
func deleteRow(t *session.Txn, r *job.Record) error {
	for _, id := range r.TakenRows {
		err := t.Exec(`DELETE FROM mysql.tidb_mdl_info WHERE job_id = %? AND job_id NOT IN (SELECT job_id FROM mysql.tidb_ddl_job)`, id)
		if err != nil {
			return err
		}
	}
	if err := t.Exec(`DELETE FROM mysql.tidb_mdl_info WHERE job_id = %?`, r.RowID); err != nil {
		return err
	}
	return t.Exec(`DELETE FROM mysql.tidb_ddl_job WHERE job_id = %?`, r.RowID)
}

// ArchiveRow moves the job from TiDB's queue to its history, as one of TiDB's types.
func ArchiveRow(t *session.Txn, r *job.Record, s job.Settings, table *model.TableInfo) error {
	if err := deleteRow(t, r); err != nil {
		return err
	}
	j := tidbJob(r, s)
	j.ID, j.Type, j.State, j.Error, j.AdminOperator = r.ID, r.Type, r.State, r.ErrorForAll(), 0
	if table != nil {
		j.BinlogInfo.AddTableInfo(r.SchemaVersion, table)
	}
	j.BinlogInfo.FinishedTS = r.EndTS
	if r.Mixed() {
		subs, err := subJobs(r, table)
		if err != nil {
			return err
		}
		j.SchemaState = model.StateNone
		j.MultiSchemaInfo = &model.MultiSchemaInfo{SubJobs: subs, Revertible: r.State != model.JobStateSynced}
	} else {
		j.FillFinishedArgs(finishedArgs(r, table))
	}
	// TiDB may have ended the row as that of a job which it does not know, and keeps in the table what comes first.
	if err := t.Exec(`DELETE FROM mysql.tidb_ddl_history WHERE job_id = %?`, j.ID); err != nil {
		return err
	}
	return tidbddl.AddHistoryDDLJob(t.Ctx, t.Session, t.Meta, j, true)
}

// finishedArgs are the arguments of a job of TiDB's that has ended.
func finishedArgs(r *job.Record, table *model.TableInfo) *model.ModifyIndexArgs {
	args := &model.ModifyIndexArgs{OpType: model.OpAddIndex}
	if table != nil {
		args.PartitionIDs = PartitionIDs(table)
	}
	for i, id := range r.IndexIDs {
		arg := r.Indexes[i]
		args.IndexArgs = append(args.IndexArgs, &model.IndexArg{
			IndexID: id, IndexName: arg.IndexName, Unique: arg.Unique, IsGlobal: arg.IndexOption != nil && arg.IndexOption.Global,
		})
	}
	return args
}

// PartitionIDs are the physical IDs of the partitions of a table.
func PartitionIDs(table *model.TableInfo) []int64 {
	partition := table.GetPartitionInfo()
	if partition == nil {
		return nil
	}
	ids := make([]int64, len(partition.Definitions))
	for i, def := range partition.Definitions {
		ids[i] = def.ID
	}
	return ids
}

// readQueue returns TiDB's queue in order of ID. Foreign holds those jobs that are
// not ours and not paused.
func readQueue(t *session.Txn) (queue []job.Queued, foreign []job.Queued, err error) {
	rows, err := t.Query(`SELECT job_meta FROM mysql.tidb_ddl_job ORDER BY job_id`)
	if err != nil {
		return nil, nil, err
	}
	for _, row := range rows {
		var j model.Job
		if err := j.Decode(row.GetBytes(0)); err != nil {
			return nil, nil, fmt.Errorf("decode a job in the queue: %w", err)
		}
		q := job.Queued{ID: j.ID, Involving: j.GetInvolvingSchemaInfo()}
		queue = append(queue, q)
		if !j.IsPaused() {
			foreign = append(foreign, q)
		}
	}
	return queue, foreign, nil
}

// JobAhead returns the ID of the job that the given one waits for, 0 if it is its
// turn.
func JobAhead(ctx context.Context, s *session.Pool, r *job.Record) (ahead int64, err error) {
	err = s.InTxn(ctx, func(t *session.Txn) error {
		queue, _, err := readQueue(t)
		ahead = job.Ahead(queue, r.RowID, involving(r))
		return err
	})
	return ahead, err
}

// JobsAhead returns the IDs of the jobs in TiDB's queue that a new one on a table would wait for.
func JobsAhead(ctx context.Context, s *session.Pool, db, table string) (ahead []int64, err error) {
	r := &job.Record{DB: QueueName(db), Table: QueueName(table)}
	err = s.InTxn(ctx, func(t *session.Txn) error {
		queue, _, err := readQueue(t)
		ahead = job.AllAhead(queue, involving(r))
		return err
	})
	return ahead, err
}

// IsQueued says that a job is in TiDB's queue.
func IsQueued(ctx context.Context, s *session.Pool, id int64) (bool, error) {
	rows, err := s.Query(ctx, `SELECT 1 FROM mysql.tidb_ddl_job WHERE job_id = %?`, id)
	return len(rows) > 0, err
}

// RefuseFlashback fails, in TiDB's words, while a flashback of the whole cluster
// is under way.
func RefuseFlashback(t *session.Txn) error {
	rows, err := t.Query(`SELECT 1 FROM mysql.tidb_ddl_job WHERE type = %? LIMIT 1`, int(model.ActionFlashbackCluster))
	if err == nil && len(rows) > 0 {
		return errors.New("Can't add ddl job, have flashback cluster job")
	}
	return err
}

// QueueName is the form of a name in TiDB's queue.
func QueueName(name string) string { return strings.ToLower(name) }

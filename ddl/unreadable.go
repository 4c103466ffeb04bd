package ddl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"go.uber.org/zap"

	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/member"
	"fastddl/ddl/records"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/ddl/status"
)

// A job whose record cannot be decoded is set aside: nothing runs it, other jobs go on, and the server starts. Its row in TiDB's queue,
// behind which other DDL on the table waits, names the statement and the table. ADMIN CANCEL DDL JOBS undoes it by that row and by the
// indexes of the table that are being built: there are no others, because jobs of one table run one at a time. What is not certain from this
// is not undone.

// identify completes the record of a job that cannot be read by its row in TiDB's queue or, if that was taken, in TiDB's history.
// It returns nil if there is neither.
func identify(t *session.Txn, r *job.Record) (*model.Job, error) {
	rows, err := t.Query(`SELECT job_meta FROM mysql.tidb_ddl_job WHERE job_id = %? UNION ALL SELECT job_meta FROM mysql.tidb_ddl_history WHERE job_id = %?`,
		r.RowID, r.RowID)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	j := new(model.Job)
	if err := j.Decode(rows[0].GetBytes(0)); err != nil {
		return nil, fmt.Errorf("decode the row of job %d in TiDB's queue: %w", r.ID, err)
	}
	r.Type = model.ActionAddIndex // what else it does is not known
	r.DBID, r.TableID, r.DB, r.Table, r.Query = j.SchemaID, j.TableID, j.SchemaName, j.TableName, j.Query
	r.SQLMode, r.Charset, r.Collate, r.CreateTS, r.StartTS = j.SQLMode, j.Charset, j.Collate, j.StartTS, j.RealStartTS
	if j.ReorgMeta != nil {
		r.Location, r.ResourceGroup = j.ReorgMeta.Location, j.ReorgMeta.ResourceGroupName
	}
	return j, nil
}

// identified is what is shown of a job that its row in TiDB's queue identifies.
func (d *DDL) identified(ctx context.Context, r *job.Record) status.JobInfo {
	d.reports.Unreported(d.sessions.InTxn(ctx, func(x *session.Txn) error {
		_, err := identify(x, r)
		return err
	}))
	return status.Describe(r)
}

// unreadableInfo is what is shown of a job whose record cannot be decoded.
func (d *DDL) unreadableInfo(ctx context.Context, r *job.Record) status.JobInfo {
	info := d.identified(ctx, r)
	info.WaitReason = fmt.Sprintf("ADMIN CANCEL DDL JOBS %d: its record in mysql.fastddl_ddl_record cannot be read (%s)", r.ID, r.Unreadable)
	return info
}

// warnUnreadable logs a job that is set aside.
func (d *DDL) warnUnreadable(r *job.Record) {
	info := d.unreadableInfo(d.ctx, r)
	d.opts.Logger.Error("an index build is set aside, because its record cannot be read", zap.Int64("job", info.ID),
		zap.String("table", info.DB+"."+info.Table), zap.String("statement", info.Query), zap.Error(r.Unreadable))
}

// errUnreadable answers requests to a job that is set aside.
func errUnreadable(r *job.Record) error {
	return fmt.Errorf("the record of index build %d cannot be read, so that it can only be cancelled: %w", r.ID, r.Unreadable)
}

// undoUnreadable has a job undone whose record cannot be decoded: it writes a record of what is known. Where several nodes are, the one
// that finds it first takes it over, and has the stores refuse late imports before it removes anything.
func (d *DDL) undoUnreadable(ctx context.Context, id int64) error {
	now, err := d.opts.Builds.CurrentTS(ctx)
	if err != nil {
		return fmt.Errorf("take timestamp: %w", err)
	}
	var members map[string]bool
	if d.clustered() {
		if members, err = d.opts.Cluster.Members(ctx); err != nil {
			return fmt.Errorf("look whether somebody runs job %d: %w", id, err)
		}
	}
	var found records.Job
	err = d.sessions.InTxn(ctx, func(x *session.Txn) error {
		stored, _, err := records.Lock(x, id)
		switch {
		case err != nil || stored == nil:
			return err
		case stored.Later():
			return laterError(stored)
		case stored.Unreadable == nil:
			return fmt.Errorf("job %d can be read again: %w", id, records.ErrLost)
		case members[stored.Owner]:
			return fmt.Errorf("%s runs job %d: end it first", member.NodeOf(stored.Owner), id)
		}
		found = records.Unreadable(id, nil, nil)
		if d.clustered() {
			found.Record.Epoch = time.Now().Unix() // more owners than it can have had
		}
		if err := reconstruct(x, found.Record, d.clustered(), now); err != nil {
			return err
		}
		return records.Update(x, found.Record)
	})
	switch {
	case err != nil:
		return fmt.Errorf("undo an index build whose record cannot be read: %w", err)
	case found.Record == nil:
		return errGone
	case d.clustered():
		d.opts.Cluster.Notify(ctx)
		return nil
	}
	return d.launch(newTask(d, d.node.Lease(), job.ResumeMachine(found.Record), found.Settings))
}

// reconstruct makes r, of which only the ID is known, the record of a job that is to be undone. It fails if it is not certain
// what the job has done.
func reconstruct(t *session.Txn, r *job.Record, clustered bool, now uint64) error {
	j, err := identify(t, r)
	if err != nil {
		return err
	}
	if j == nil {
		return fmt.Errorf("job %d is neither in TiDB's queue nor in its history: nothing tells which table it is of", r.ID)
	}
	r.Protocol, r.Step, r.State = job.Protocol, job.StepQueued, model.JobStateRollingback
	r.Error = job.ErrorOf(dbterror.ErrCancelledDDLJob.FastGenByArgs())
	table, err := schema.ReadTable(t, r)
	if err != nil {
		return err
	}
	if table == nil {
		table = &model.TableInfo{} // which took its indexes along
	}
	unclear := func(what, name string) error {
		return fmt.Errorf("%s %s of table %s.%s is not public, and nothing else tells what was to become of it", what, name, r.DB, r.Table)
	}
	for _, column := range table.Columns {
		if column.State != model.StatePublic && !column.Hidden {
			return unclear("column", column.Name.O)
		}
	}
	for _, index := range table.Indices {
		switch {
		case index.State == model.StatePublic:
		case !strings.HasSuffix(index.Name.L, schema.BuildingMark):
			return unclear("index", index.Name.O)
		default:
			add(r, index)
			r.Step, r.SnapshotTS = job.StepSnapshot, now // as if imports were under way
		}
	}
	if len(r.IndexIDs) == 0 && j.SchemaState == model.StatePublic {
		// There is nothing left to do. Which of the indexes are the job's is not known; a restore of the table to a point in
		// time adds those again that the history lists.
		for _, index := range table.Indices {
			if index.Primary {
				return fmt.Errorf("nothing tells whether the primary key of table %s.%s is the job's", r.DB, r.Table)
			}
			add(r, index)
		}
		r.Step, r.State, r.Error, r.SnapshotTS = job.StepPublic, model.JobStateRunning, nil, j.SnapshotVer
	}
	if !clustered {
		return nil
	}
	parts, err := t.Query(`SELECT 1 FROM mysql.fastddl_build_parts WHERE job_id = %? LIMIT 1`, r.ID)
	if err != nil || len(parts) == 0 {
		return err
	}
	if r.Step != job.StepSnapshot {
		return dist.DeleteSubtasks(t, r.ID)
	}
	r.Nodes = job.Nodes{Shared: true, Max: 1} // their holders are waited for
	return nil
}

// add makes an index of the table one of the job's.
func add(r *job.Record, index *model.IndexInfo) {
	r.Indexes = append(r.Indexes, &model.IndexArg{
		IndexName: pmodel.NewCIStr(index.Name.O), Unique: index.Unique, IsPK: index.Primary, IndexOption: &ast.IndexOption{Global: index.Global},
	})
	r.IndexIDs = append(r.IndexIDs, index.ID)
}

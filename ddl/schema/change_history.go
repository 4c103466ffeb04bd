package schema

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
)

// How the changes of a job are written for TiDB's history and TiDB's garbage collection:
// as sub-jobs of one, with the arguments that jobs have when they have ended
// (pkg/ddl/delete_range.go reads them).

// subJobs are the job's changes and, in their place, its indexes.
func subJobs(r *job.Record, table *model.TableInfo) ([]*model.SubJob, error) {
	state := r.State
	if state == model.JobStateSynced {
		state = model.JobStateDone // no sub-job of TiDB's is ever synced
	}
	var subs []*model.SubJob
	for i := range r.Changes {
		c := &r.Changes[i]
		sub := &model.SubJob{Type: c.Type, State: state, SchemaState: r.SchemaState(), RealStartTS: r.StartTS, SchemaVer: r.SchemaVersion}
		if c.Drops() {
			sub.SchemaState = r.DropState()
		}
		args, err := endedArgs(c, table)
		if err != nil {
			return nil, err
		}
		if sub.RawArgs, err = rawArgs(c.Type, args); err != nil {
			return nil, err
		}
		subs = append(subs, sub)
	}
	sub := &model.SubJob{
		Type: addedType(r), State: state, SchemaState: r.SchemaState(), RealStartTS: r.StartTS, SchemaVer: r.SchemaVersion,
		RowCount: r.RowCount, ReorgTp: model.ReorgTypeIngest,
	}
	raw, err := rawArgs(sub.Type, finishedArgs(r, table))
	sub.RawArgs = raw
	return slices.Insert(subs, r.IndexesAt, sub), err
}

// addedType is the type of the job's indexes alone.
func addedType(r *job.Record) model.ActionType {
	if len(r.Indexes) == 1 && r.Indexes[0].IsPK {
		return model.ActionAddPrimaryKey
	}
	return model.ActionAddIndex
}

// endedArgs are the arguments of a change that has been made; table is the table
// then, or nil.
func endedArgs(c *job.Change, table *model.TableInfo) (model.JobArgs, error) {
	ch, err := openChange(c)
	if err != nil {
		return nil, err
	}
	var partitions []int64
	if table != nil {
		partitions = PartitionIDs(table)
	}
	switch ch := ch.(type) {
	case *addColumn:
		return &ch.TableColumnArgs, nil
	case *dropColumn:
		ch.IndexIDs, ch.PartitionIDs = c.IndexIDs, partitions
		return &ch.TableColumnArgs, nil
	case *modifyColumn:
		return &model.ModifyColumnArgs{}, nil // no entries of it are to be deleted
	case *setDefault:
		return &ch.SetDefaultValueArgs, nil
	case *dropIndex:
		ch.OpType = model.OpDropIndex
		if len(c.IndexIDs) > 0 {
			ch.IndexArgs[0].IndexID = c.IndexIDs[0]
		}
		if !c.Global {
			ch.PartitionIDs = partitions
		}
		return &ch.ModifyIndexArgs, nil
	case *renameIndex:
		return &ch.ModifyIndexArgs, nil
	case *alterVisibility:
		return &ch.AlterIndexVisibilityArgs, nil
	case *alterComment:
		return &ch.ModifyTableCommentArgs, nil
	}
	return nil, fmt.Errorf("arguments of a change of type %s", c.Type)
}

// rawArgs are arguments as a job of a type has them when it has ended.
func rawArgs(tp model.ActionType, args model.JobArgs) (json.RawMessage, error) {
	j := &model.Job{Type: tp, Version: model.GetJobVerInUse()}
	switch tp {
	case model.ActionAddIndex, model.ActionAddPrimaryKey, model.ActionDropIndex, model.ActionDropPrimaryKey, model.ActionModifyColumn:
		ended, ok := args.(model.FinishedJobArgs)
		if !ok {
			return nil, fmt.Errorf("arguments of %s that has ended: %T", tp, args)
		}
		j.FillFinishedArgs(ended)
	default:
		j.FillArgs(args)
	}
	if _, err := j.Encode(true); err != nil {
		return nil, fmt.Errorf("encode arguments of %s: %w", tp, err)
	}
	return j.RawArgs, nil
}

// deleteDropped gives the entries of what the job has dropped to TiDB's garbage
// collection, in one go: TiDB numbers the ranges of a job from one on, and passes
// over numbers that it has.
func deleteDropped(t *session.Txn, r *job.Record, table *model.TableInfo) error {
	subs, err := subJobs(r, table)
	if err != nil {
		return err
	}
	j := tidbJob(r, job.Settings{})
	j.ID, j.Type, j.State = r.ID, r.Type, model.JobStateDone
	j.MultiSchemaInfo = model.NewMultiSchemaInfo()
	for i, sub := range slices.Delete(subs, r.IndexesAt, r.IndexesAt+1) {
		if c := &r.Changes[i]; c.Drops() && len(c.IndexIDs) > 0 {
			j.MultiSchemaInfo.SubJobs = append(j.MultiSchemaInfo.SubJobs, sub)
		}
	}
	return deleteRanges(t, j)
}

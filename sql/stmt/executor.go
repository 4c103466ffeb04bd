package stmt

import (
	"context"
	"fmt"

	"fastddl/ddl"
)

// NewDDL returns the DDL interface over the component that runs the jobs.
func NewDDL(d *ddl.DDL) DDL { return executor{d} }

type executor struct{ *ddl.DDL }

func (e executor) Execute(ctx context.Context, req Request) ([]Warning, error) {
	warnings, err := e.DDL.Execute(ctx, ddl.Request(req))
	out := make([]Warning, len(warnings))
	for i, w := range warnings {
		out[i] = Warning(w)
	}
	return out, err
}

func (e executor) Jobs(ctx context.Context) ([]JobInfo, error) {
	jobs, err := e.DDL.Jobs(ctx)
	out := make([]JobInfo, len(jobs))
	for i, j := range jobs {
		out[i] = JobInfo{
			ID: j.ID, Schema: j.DB, Table: j.Table, SchemaID: j.SchemaID, TableID: j.TableID,
			Type: j.Type, SchemaState: j.SchemaState, State: j.State, Query: j.Query,
			RowCount: j.RowCount, Percent: j.Percent, RowsPerSecond: j.RowsPerSecond,
			Created: j.CreateTime, Started: j.StartTime, Ended: j.EndTime, Done: !j.EndTime.IsZero(),
			Comments: comments(&j), Stage: j.Stage, WaitReason: j.WaitReason, ETA: -1,
		}
		if j.HasRemaining {
			out[i].ETA = j.Remaining
		}
		for _, d := range j.Duplicates {
			out[i].Duplicates = append(out[i].Duplicates, Duplicate(d))
		}
	}
	return out, err
}

// comments is what a job has failed with, and where to read more about that.
func comments(j *ddl.JobInfo) string {
	if n := len(j.Duplicates); n > 0 {
		return fmt.Sprintf("%s (values listed in information_schema.ddl_duplicate_entries: %d)", j.Error, n)
	}
	return j.Error
}

func (e executor) Owner(context.Context) (OwnerInfo, error) {
	o := e.DDL.Owner()
	return OwnerInfo{SchemaVersion: o.SchemaVersion, OwnerID: o.ID, OwnerAddress: o.Address, SelfID: o.ID}, nil
}

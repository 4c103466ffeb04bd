package stmt

import (
	"context"
	"fmt"
	"strings"

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
			Priority: j.Priority, Building: building(j.Building),
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

func building(b *ddl.Building) *Building {
	if b == nil {
		return nil
	}
	return &Building{
		Workers: b.Workers, MaxWorkers: b.Threads, MemoryBytes: b.MemoryBytes, MaxMemoryBytes: b.MemoryPart,
		TempBytes: b.TempBytes, MaxTempBytes: b.TempPart, BatchSize: b.BatchSize, MaxWriteSpeed: b.WriteSpeed,
	}
}

// comments are how a job builds indexes and the settings it was given, in TiDB's
// words, and what it has failed with and where to read more about that.
func comments(j *ddl.JobInfo) string {
	var labels []string
	add := func(set bool, format string, value any) {
		if set {
			labels = append(labels, fmt.Sprintf(format, value))
		}
	}
	s := &j.Settings
	add(j.ReorgType != "", "%s", j.ReorgType)
	add(s.Threads != 0, "thread=%d", s.Threads)
	add(s.BatchSize != 0, "batch_size=%d", s.BatchSize)
	add(s.MaxWriteSpeed != 0, "max_write_speed=%d", s.MaxWriteSpeed)
	add(j.Error != "", "%s", j.Error)
	add(len(j.Duplicates) > 0, "values listed in information_schema.ddl_duplicate_entries: %d", len(j.Duplicates))
	return strings.Join(labels, ", ")
}

// Alter implements DDL.
func (e executor) Alter(ctx context.Context, id int64, a Alteration) error {
	return e.DDL.Alter(ctx, id, ddl.Alteration(a))
}

func (e executor) Owner(context.Context) (OwnerInfo, error) {
	o := e.DDL.Owner()
	return OwnerInfo{SchemaVersion: o.SchemaVersion, OwnerID: o.ID, OwnerAddress: o.Address, SelfID: o.ID}, nil
}

package sql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/planner/core/resolve"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/sqlexec"

	"fastddl/config"
	"fastddl/ddl"
	"fastddl/ddl/status"
	"fastddl/load/jobs"
)

// memoryRows is a result that is there already.
type memoryRows struct {
	fields []*resolve.ResultField
	rows   [][]types.Datum
	at     int
}

func resultField(name string, ft types.FieldType) *resolve.ResultField {
	return &resolve.ResultField{
		Column:       &model.ColumnInfo{Name: pmodel.NewCIStr(name), FieldType: ft},
		ColumnAsName: pmodel.NewCIStr(name), EmptyOrgName: true,
	}
}

// Fields implements sqlexec.RecordSet.
func (m *memoryRows) Fields() []*resolve.ResultField { return m.fields }

// Next implements sqlexec.RecordSet.
func (m *memoryRows) Next(_ context.Context, req *chunk.Chunk) error {
	req.Reset()
	for ; m.at < len(m.rows) && !req.IsFull(); m.at++ {
		for i := range m.rows[m.at] {
			req.AppendDatum(i, &m.rows[m.at][i])
		}
	}
	return nil
}

// NewChunk implements sqlexec.RecordSet.
func (m *memoryRows) NewChunk(alloc chunk.Allocator) *chunk.Chunk {
	fields := fieldTypes(m.fields)
	const rows = 32
	if alloc == nil {
		return chunk.New(fields, rows, rows)
	}
	return alloc.Alloc(fields, rows, rows)
}

// Close implements sqlexec.RecordSet.
func (m *memoryRows) Close() error { return nil }

func fieldTypes(fields []*resolve.ResultField) []*types.FieldType {
	out := make([]*types.FieldType, len(fields))
	for i, f := range fields {
		out[i] = &f.Column.FieldType
	}
	return out
}

// jobRows is the result of ADMIN SHOW DDL JOBS. Our jobs lie in TiDB's queue as
// paused; this shows what they do.
type jobRows struct {
	sqlexec.RecordSet
	ddl *ddl.DDL
	// imports are the IMPORT INTO that have not ended, by their rows in TiDB's queue.
	imports map[int64]jobs.Unfinished
	// condition, if it is set, is what shown rows have to meet.
	condition expression.Expression
	evalCtx   expression.EvalContext
	// sees says that the user sees the jobs of a table.
	sees func(db, table string) bool
}

// Next implements sqlexec.RecordSet.
func (r *jobRows) Next(ctx context.Context, req *chunk.Chunk) error {
	for {
		if err := r.RecordSet.Next(ctx, req); err != nil || req.NumRows() == 0 {
			return err
		}
		if err := r.show(ctx, req); err != nil {
			return err
		}
		if err := r.keepShown(req); err != nil || req.NumRows() > 0 {
			return err
		}
	}
}

// show replaces the rows of our jobs by what they do, and removes those of tables that the user may not see.
func (r *jobRows) show(ctx context.Context, req *chunk.Chunk) error {
	columns := make(map[string]int)
	for i, f := range r.Fields() {
		columns[strings.ToLower(f.ColumnAsName.O)] = i
	}
	at, ok := columns["job_id"]
	if !ok {
		return nil
	}
	unfinished, err := r.ddl.AllUnfinished(ctx)
	if err != nil {
		return err
	}
	jobs := make(map[int64]status.JobInfo, len(unfinished))
	for _, info := range unfinished {
		jobs[info.RowID] = info
	}
	fields := fieldTypes(r.Fields())
	db, hasDB := columns["db_name"]
	table, hasTable := columns["table_name"]
	was := req.CopyConstruct()
	req.Reset()
	for i := range was.NumRows() {
		row := was.GetRow(i)
		if !hasDB || !hasTable || !r.sees(strings.ToLower(row.GetString(db)), strings.ToLower(row.GetString(table))) {
			continue
		}
		info, ours := jobs[row.GetInt64(at)]
		if state, ok := columns["state"]; ok && !ours && row.GetString(state) == model.JobStatePaused.String() {
			// TiDB has read its queue before; the job may have ended since.
			if info, ours, err = r.ddl.Ended(ctx, row.GetInt64(at)); err != nil {
				return err
			}
		}
		shown := r.shownImport(row.GetInt64(at))
		if ours {
			shown = r.shownOf(&info)
		}
		if shown == nil {
			req.AppendRow(row)
			continue
		}
		values := row.GetDatumRow(fields)
		for name, value := range shown {
			if c, ok := columns[name]; ok {
				values[c] = types.NewDatum(value)
			}
		}
		for c := range values {
			req.AppendDatum(c, &values[c])
		}
	}
	return nil
}

// keepShown removes the rows that do not meet the condition.
func (r *jobRows) keepShown(req *chunk.Chunk) error {
	if r.condition == nil {
		return nil
	}
	was := req.CopyConstruct()
	req.Reset()
	for i := range was.NumRows() {
		meets, _, err := expression.EvalBool(r.evalCtx, expression.CNFExprs{r.condition}, was.GetRow(i))
		if err != nil {
			return err
		}
		if meets {
			req.AppendRow(was.GetRow(i))
		}
	}
	return nil
}

// shownImport is what ADMIN SHOW DDL JOBS shows of a row in TiDB's queue that is an import, by column; nil of others.
func (r *jobRows) shownImport(rowID int64) map[string]any {
	i, ok := r.imports[rowID]
	if !ok {
		return nil
	}
	state := model.JobStateRunning
	switch i.Step {
	case jobs.StepQueued:
		state = model.JobStateQueueing
	case jobs.StepUndoing:
		state = model.JobStateRollingback
	}
	comment := string(i.Step)
	if i.ImportID != 0 {
		comment = fmt.Sprintf("import job %d, %s", i.ImportID, i.Step)
	}
	if i.Step == jobs.StepLoading && i.Progress.Percent > 0 {
		comment += fmt.Sprintf(", %.0f%%", i.Progress.Percent)
	}
	return map[string]any{"state": state.String(), "row_count": i.Progress.Rows, "comments": comment}
}

// shownOf is what ADMIN SHOW DDL JOBS shows of a job, by column.
func (r *jobRows) shownOf(info *status.JobInfo) map[string]any {
	shown := map[string]any{
		"job_id": info.ID, "job_type": info.Type, "schema_state": info.SchemaState, "row_count": info.RowCount, "state": info.State,
	}
	if info.Ended() {
		shown["end_time"] = types.NewTime(types.FromGoTime(info.EndTime.In(r.evalCtx.Location())), mysql.TypeDatetime, types.MaxFsp)
	} else {
		shown["comments"] = comments(info)
	}
	return shown
}

// comments says in words what a running job does.
func comments(info *status.JobInfo) string {
	parts := []string{"ingest"}
	if info.Node != "" {
		parts = append(parts, "on "+info.Node)
	}
	if s := info.Settings; s.Threads > 0 {
		parts = append(parts, fmt.Sprintf("thread=%d", s.Threads))
	}
	if s := info.Settings; s.MaxWriteSpeed > 0 {
		parts = append(parts, fmt.Sprintf("max_write_speed=%d", s.MaxWriteSpeed))
	}
	if info.Verify == config.VerifyFull {
		parts = append(parts, "verify="+info.Verify)
	}
	if info.Stage != "" {
		parts = append(parts, fmt.Sprintf("%s %.0f%%", info.Stage, info.Percent))
	}
	if info.HasRemaining {
		parts = append(parts, "ETA "+info.Remaining.Round(time.Second).String())
	}
	if info.WaitReason != "" {
		parts = append(parts, waiting(info.WaitReason))
	}
	return strings.Join(parts, ", ")
}

// waiting makes a comment of a wait reason, which names what the job waits for or says what
// it does.
func waiting(reason string) string {
	for _, does := range []string{"paused", "throttled: ", "yielding ", "waiting for "} {
		if strings.HasPrefix(reason, does) {
			return reason
		}
	}
	return "waits for " + reason
}

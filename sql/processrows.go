package sql

import (
	"context"
	"fmt"
	"strings"

	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/sqlexec"

	"fastddl/ddl"
	"fastddl/ddl/status"
)

// processRows is the result of SHOW PROCESSLIST. The state of a statement that waits for an index build is what the build does.
type processRows struct {
	sqlexec.RecordSet
	ddl *ddl.DDL
}

// Next implements sqlexec.RecordSet.
func (r *processRows) Next(ctx context.Context, req *chunk.Chunk) error {
	if err := r.RecordSet.Next(ctx, req); err != nil || req.NumRows() == 0 {
		return err
	}
	id, state := -1, -1
	for i, f := range r.Fields() {
		switch strings.ToLower(f.ColumnAsName.O) {
		case "id":
			id = i
		case "state":
			state = i
		}
	}
	if id < 0 || state < 0 {
		return nil
	}
	fields := fieldTypes(r.Fields())
	was := req.CopyConstruct()
	req.Reset()
	for i := range was.NumRows() {
		row := was.GetRow(i)
		info, ok := r.ddl.WaitedForBy(row.GetUint64(id))
		if !ok || info.Ended() {
			req.AppendRow(row)
			continue
		}
		values := row.GetDatumRow(fields)
		values[state] = types.NewStringDatum(processState(&info))
		for c := range values {
			req.AppendDatum(c, &values[c])
		}
	}
	return nil
}

// processState says in a few words what a job does.
func processState(info *status.JobInfo) string {
	doing := info.State
	if info.Stage != "" && info.WaitReason == "" {
		doing = fmt.Sprintf("%s %.0f%%", info.Stage, info.Percent)
	} else if info.WaitReason != "" {
		reason, _, _ := strings.Cut(info.WaitReason, ",")
		doing = waiting(reason)
	}
	return fmt.Sprintf("index build %d: %s", info.ID, doing)
}

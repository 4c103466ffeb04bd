package cop

import (
	"context"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/errorpb"
)

// HandleBatch answers the tasks that a client put into one request with others for the same store (Request.Tasks); the
// answers go to Response.BatchResponses. open returns the snapshot of a task's region, or the region's error.
//
// Tasks may also be left out of a response, all of them: then the client sends each alone.
func HandleBatch(ctx context.Context, req *coprocessor.Request,
	open func(task *coprocessor.StoreBatchTask) (Reader, *errorpb.Error)) []*coprocessor.StoreBatchTaskResponse {
	answers := make([]*coprocessor.StoreBatchTaskResponse, 0, len(req.Tasks))
	for _, task := range req.Tasks {
		answer := &coprocessor.StoreBatchTaskResponse{TaskId: task.TaskId}
		answers = append(answers, answer)
		reader, regionErr := open(task)
		if regionErr != nil {
			answer.RegionError = regionErr
			continue
		}
		// An answer to a task cannot say where a page ended, so tasks are not paged.
		single := &coprocessor.Request{
			Context: req.Context, Tp: req.Tp, Data: req.Data, StartTs: req.StartTs, Ranges: task.Ranges, SchemaVer: req.SchemaVer,
		}
		resp := Handle(ctx, reader, single)
		answer.Data, answer.Locked, answer.OtherError = resp.Data, resp.Locked, resp.OtherError
		answer.ExecDetailsV2 = resp.ExecDetailsV2
	}
	return answers
}

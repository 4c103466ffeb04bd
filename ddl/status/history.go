package status

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ddl/job"
)

// jsonOrNull is a list as a column of type JSON takes it; NULL if it is empty.
func jsonOrNull[T any](list []T) (any, error) {
	if len(list) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(list)
	return string(data), err
}

// History returns how a job went as the last report of an earlier process says, which is newer than its record; ok is false
// if there is none. Its row may be of a version that did not know the columns, or be gone.
func (r *Tables) History(ctx context.Context, jobID int64) (h job.History, ok bool, err error) {
	rows, err := r.Sessions.Query(ctx, `SELECT stages, percent FROM mysql.fastddl_ddl_jobs WHERE job_id = %?`, jobID)
	if err != nil || len(rows) == 0 || rows[0].IsNull(0) {
		return h, false, err
	}
	if err := json.Unmarshal([]byte(rows[0].GetJSON(0).String()), &h.Stages); err != nil {
		return job.History{}, false, fmt.Errorf("decode the history of job %d: %w", jobID, err)
	}
	if !rows[0].IsNull(1) {
		h.Percent = rows[0].GetFloat64(1)
	}
	return h, true, nil
}

// priorBuilds is how many of the last builds say what the next one costs.
const priorBuilds = 8

// Prior returns what the last builds have cost.
func (r *Tables) Prior(ctx context.Context) (job.Prior, error) {
	rows, err := r.Sessions.Query(ctx, `SELECT stages FROM mysql.fastddl_ddl_jobs WHERE state = %? AND stages IS NOT NULL
		ORDER BY job_id DESC LIMIT %?`, model.JobStateSynced.String(), priorBuilds)
	if err != nil {
		return job.Prior{}, err
	}
	builds := make([][]job.StageTime, 0, len(rows))
	for _, row := range rows {
		var stages []job.StageTime
		if err := json.Unmarshal([]byte(row.GetJSON(0).String()), &stages); err != nil {
			return job.Prior{}, fmt.Errorf("decode what a build has cost: %w", err)
		}
		builds = append(builds, stages)
	}
	return job.PriorOf(builds), nil
}

// fillHistory completes what is known of a job of another node.
func (r *Tables) fillHistory(ctx context.Context, info *JobInfo) error {
	h, ok, err := r.History(ctx, info.ID)
	if ok {
		info.History = h
	}
	return err
}

package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
	"fastddl/kv"
)

// jsonOrNull is a value as a column of type JSON takes it; NULL if it is empty.
func jsonOrNull(v any, empty bool) (any, error) {
	if empty {
		return nil, nil
	}
	data, err := json.Marshal(v)
	return string(data), err
}

// historyValues are the values of the columns of a job's history, from stages on.
func historyValues(j JobInfo) ([]any, error) {
	stages, err1 := jsonOrNull(j.Stages, len(j.Stages) == 0)
	settings, err2 := jsonOrNull(j.Settings, j.Settings == job.Settings{})
	held, err3 := jsonOrNull(j.Held, len(j.Held) == 0)
	waited, err4 := jsonOrNull(j.Waited, len(j.Waited) == 0)
	requests, cpu, costs, err5 := storeColumns(j.Stores)
	var age, now any
	if !j.Ended() {
		now = session.OrNull(session.ShortNumber(j.Foreground.Now, 3))
		if j.Snapshot != 0 {
			age = session.ShortNumber(max(0, time.Since(timeOf(j.Snapshot)).Seconds()), 1)
		}
	}
	return []any{
		stages, session.OrNull(j.Verify),
		session.OrNull(session.Shortened(j.Client.User, 320)), session.OrNull(j.Client.ConnID), session.OrNull(j.Client.Program), settings,
		j.Costs.ReadBytes, j.Costs.SortedBytes, j.Costs.WrittenBytes,
		requests, cpu,
		session.OrNull(j.IndexBytes), age,
		session.OrNull(session.ShortNumber(j.Foreground.Before, 3)), now, session.OrNull(session.ShortNumber(j.Foreground.During, 3)),
		held, waited, session.OrNull(j.Verified), session.OrNull(j.LastError), costs,
		session.OrNull(j.SubmitKey),
	}, errors.Join(err1, err2, err3, err4, err5)
}

// storeColumns are what a job has cost the stores of a cluster; all NULL if that is not known, as on the embedded store.
func storeColumns(c kv.Costs) (requests, cpuSeconds, costs any, err error) {
	if c == (kv.Costs{}) {
		return nil, nil, nil, nil
	}
	data, err := json.Marshal(c)
	return c.Requests.All(), session.ShortNumber(c.StoreTime.Seconds(), 3), string(data), err
}

// History returns how a job went as the last report of an earlier process says, which is newer than its record; ok is false
// if there is none. Its row may be of a version that did not know the columns, or be gone.
func (r *Tables) History(ctx context.Context, jobID int64) (h job.History, ok bool, err error) {
	rows, err := r.Sessions.Query(ctx, `SELECT stages, held_seconds, waited_for, percent, read_bytes, sorted_bytes, written_bytes, store_costs,
		foreground_p99_before_ms, foreground_p99_during_ms, verified, last_error, foreground_p99_ms
		FROM mysql.fastddl_ddl_jobs WHERE job_id = %?`, jobID)
	if err != nil || len(rows) == 0 || rows[0].IsNull(0) {
		return h, false, err
	}
	row := rows[0]
	for i, into := range map[int]any{0: &h.Stages, 1: &h.Held, 2: &h.Waited, 7: &h.Stores} {
		if row.IsNull(i) {
			continue
		}
		if err := json.Unmarshal([]byte(row.GetJSON(i).String()), into); err != nil {
			return job.History{}, false, fmt.Errorf("decode the history of job %d: %w", jobID, err)
		}
	}
	for i, into := range map[int]*int64{4: &h.Costs.ReadBytes, 5: &h.Costs.SortedBytes, 6: &h.Costs.WrittenBytes} {
		if !row.IsNull(i) {
			*into = row.GetInt64(i)
		}
	}
	for i, into := range map[int]*float64{
		3: &h.Percent, 8: &h.Foreground.Before, 9: &h.Foreground.During, 12: &h.Foreground.Now,
	} {
		if !row.IsNull(i) {
			*into = row.GetFloat64(i)
		}
	}
	h.Verified, h.LastError = session.TextAt(row, 10), session.TextAt(row, 11)
	return h, true, nil
}

// reportPoints writes points of a job's throughput, over all that there are if they are all.
func reportPoints(t *session.Txn, jobID int64, points []job.Point, all bool) error {
	if all {
		if err := t.Exec(`DELETE FROM mysql.fastddl_ddl_points WHERE job_id = %?`, jobID); err != nil {
			return err
		}
	}
	if len(points) == 0 {
		return nil
	}
	var values []any
	for _, p := range points {
		values = append(values, jobID, int64(math.Ceil(p.Second)), session.ShortNumber(p.Seconds, 3), session.OrNull(p.Stage), p.Rows, p.Bytes,
			session.OrNull(session.ShortNumber(p.P99, 3)))
	}
	return t.Exec(pointsTable.replaceRows(len(points)), values...)
}

// Points returns the throughput of a job over time, as far as it is written.
func (r *Tables) Points(ctx context.Context, jobID int64) ([]job.Point, error) {
	rows, err := r.Sessions.Query(ctx, `SELECT second, seconds, stage, row_count, bytes, p99_ms FROM mysql.fastddl_ddl_points
		WHERE job_id = %? ORDER BY second`, jobID)
	if err != nil {
		return nil, err
	}
	points := make([]job.Point, len(rows))
	for i, row := range rows {
		points[i] = job.Point{Second: float64(row.GetInt64(0)), Seconds: row.GetFloat64(1), Stage: session.TextAt(row, 2), Rows: row.GetInt64(3), Bytes: row.GetInt64(4)}
		if !row.IsNull(5) {
			points[i].P99 = row.GetFloat64(5)
		}
	}
	return points, nil
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

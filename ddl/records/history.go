package records

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/tikv/client-go/v2/oracle"

	"fastddl/ddl/session"
)

// trimmedAtOnce is how many jobs one transaction deletes from the history.
const trimmedAtOnce = 100

// Trim says what to delete of the history.
type Trim struct {
	// Keep is how many jobs stay, those that have ended last.
	Keep int64
	// GraceSeconds is for how long after its end a job stays in any case: statements of other nodes may wait for its result.
	GraceSeconds int64
	// Ends is a table that has the end_time of jobs, by job_id, and Others are the tables that have rows of jobs beside the history, by
	// job_id. All are in schema mysql.
	Ends   string
	Others []string
}

// ended is a job of the history.
type ended struct {
	id int64
	// ago is for how long it has ended, in microseconds.
	ago int64
}

// past returns the jobs beyond those that a history keeps: the last of them by ID, and those to be deleted, the oldest first.
func (trim Trim) past(jobs []ended) (last int64, past []int64) {
	slices.SortFunc(jobs, func(a, b ended) int { return cmp.Or(cmp.Compare(a.ago, b.ago), cmp.Compare(b.id, a.id)) })
	for _, j := range jobs[min(trim.Keep, int64(len(jobs))):] {
		last = max(last, j.id)
		if j.ago >= trim.GraceSeconds*time.Second.Microseconds() {
			past = append(past, j.id)
		}
	}
	slices.Reverse(past)
	return last, past
}

// history returns the jobs that have ended, if there are more than are kept. Of one whose end no report has its record says it, and one
// that nothing is known of has ended first.
func (t *Tables) history(ctx context.Context, trim Trim) ([]ended, error) {
	rows, err := t.Sessions.Query(ctx, `SELECT job_id FROM mysql.fastddl_ddl_record_history ORDER BY job_id DESC LIMIT %?, 1`, trim.Keep)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	rows, err = t.Sessions.Query(ctx, `SELECT h.job_id, TIMESTAMPDIFF(MICROSECOND, e.end_time, NOW(6)), IF(e.end_time IS NULL, h.record, NULL)
		FROM mysql.fastddl_ddl_record_history AS h LEFT JOIN mysql.%n AS e ON e.job_id = h.job_id`, trim.Ends)
	if err != nil {
		return nil, err
	}
	jobs := make([]ended, len(rows))
	for i, row := range rows {
		jobs[i] = ended{row.GetInt64(0), math.MaxInt64}
		if !row.IsNull(1) {
			jobs[i].ago = row.GetInt64(1)
		} else if r, _, err := Decode(row.GetBytes(2), nil); err == nil && r.EndTS != 0 {
			jobs[i].ago = time.Since(oracle.GetTimeFromTS(r.EndTS)).Microseconds()
		}
	}
	return jobs, nil
}

// TrimHistory deletes the jobs that have ended first from the history, each from all tables at once, and what the tables have of older jobs
// that are not in the history. A job that has not ended keeps its rows.
func (t *Tables) TrimHistory(ctx context.Context, trim Trim) error {
	jobs, err := t.history(ctx, trim)
	if err != nil || len(jobs) == 0 {
		return err
	}
	last, past := trim.past(jobs)
	for ids := range slices.Chunk(past, trimmedAtOnce) {
		if err := t.deleteJobs(ctx, ids, append([]string{"fastddl_ddl_record_history"}, trim.Others...)); err != nil {
			return err
		}
	}
	for _, table := range trim.Others {
		for {
			rows, err := t.Sessions.Query(ctx, `SELECT DISTINCT job_id FROM mysql.%n WHERE job_id <= %? AND job_id NOT IN (SELECT job_id FROM mysql.fastddl_ddl_record)
				AND job_id NOT IN (SELECT job_id FROM mysql.fastddl_ddl_record_history) LIMIT %?`, table, last, trimmedAtOnce)
			if err != nil {
				return err
			}
			if err := t.deleteJobs(ctx, idsOf(rows), []string{table}); err != nil {
				return err
			}
			if len(rows) < trimmedAtOnce {
				break
			}
		}
	}
	return nil
}

func idsOf(rows []chunk.Row) []int64 {
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.GetInt64(0)
	}
	return ids
}

// deleteJobs deletes all rows of jobs from tables.
func (t *Tables) deleteJobs(ctx context.Context, jobs []int64, tables []string) error {
	if len(jobs) == 0 {
		return nil
	}
	ids := make([]any, len(jobs))
	for i, id := range jobs {
		ids[i] = id
	}
	list := strings.TrimSuffix(strings.Repeat("%?, ", len(ids)), ", ")
	return t.Sessions.InTxn(ctx, func(x *session.Txn) error {
		for _, table := range tables {
			if err := x.Exec(`DELETE FROM mysql.%n WHERE job_id IN (`+list+`)`, append([]any{table}, ids...)...); err != nil {
				return fmt.Errorf("trim mysql.%s: %w", table, err)
			}
		}
		return nil
	})
}

// Known says that a job is there or in the history.
func Known(t *session.Txn, id int64) (bool, error) {
	rows, err := t.Query(`SELECT job_id FROM mysql.fastddl_ddl_record WHERE job_id = %?
		UNION ALL SELECT job_id FROM mysql.fastddl_ddl_record_history WHERE job_id = %?`, id, id)
	return len(rows) > 0, err
}

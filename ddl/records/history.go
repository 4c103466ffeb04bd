package records

import (
	"context"
	"fmt"
	"strings"

	"github.com/pingcap/tidb/pkg/util/chunk"

	"fastddl/ddl/session"
)

// trimmedAtOnce is how many jobs one transaction deletes from the history.
const trimmedAtOnce = 100

// Trim says what to delete of the history.
type Trim struct {
	// Keep is how many jobs stay, the newest ones.
	Keep int64
	// GraceSeconds is for how long after its end a job stays in any case: statements of other nodes may wait for its result.
	GraceSeconds int64
	// Ends is a table that has the end_time of jobs, by job_id, and Others are the tables that have rows of jobs beside the history, by
	// job_id. All are in schema mysql.
	Ends   string
	Others []string
}

// TrimHistory deletes the oldest jobs from the history, each from all tables at once, and what the tables have of older jobs that are not
// in the history. A job that has not ended keeps its rows.
func (t *Tables) TrimHistory(ctx context.Context, trim Trim) error {
	rows, err := t.Sessions.Query(ctx, `SELECT job_id FROM mysql.fastddl_ddl_record_history ORDER BY job_id DESC LIMIT %?, 1`, trim.Keep)
	if err != nil || len(rows) == 0 {
		return err
	}
	oldest := rows[0].GetInt64(0)
	for {
		rows, err := t.Sessions.Query(ctx, `SELECT h.job_id FROM mysql.fastddl_ddl_record_history AS h LEFT JOIN mysql.%n AS e ON e.job_id = h.job_id
			WHERE h.job_id <= %? AND (e.end_time IS NULL OR e.end_time <= NOW(6) - INTERVAL %? SECOND) ORDER BY h.job_id LIMIT %?`,
			trim.Ends, oldest, trim.GraceSeconds, trimmedAtOnce)
		if err != nil {
			return err
		}
		if err := t.deleteJobs(ctx, rows, append([]string{"fastddl_ddl_record_history"}, trim.Others...)); err != nil {
			return err
		}
		if len(rows) < trimmedAtOnce {
			break
		}
	}
	for _, table := range trim.Others {
		for {
			rows, err := t.Sessions.Query(ctx, `SELECT DISTINCT job_id FROM mysql.%n WHERE job_id <= %? AND job_id NOT IN (SELECT job_id FROM mysql.fastddl_ddl_record)
				AND job_id NOT IN (SELECT job_id FROM mysql.fastddl_ddl_record_history) LIMIT %?`, table, oldest, trimmedAtOnce)
			if err != nil {
				return err
			}
			if err := t.deleteJobs(ctx, rows, []string{table}); err != nil {
				return err
			}
			if len(rows) < trimmedAtOnce {
				break
			}
		}
	}
	return nil
}

// deleteJobs deletes all rows of jobs, of which rows have the IDs, from tables.
func (t *Tables) deleteJobs(ctx context.Context, rows []chunk.Row, tables []string) error {
	if len(rows) == 0 {
		return nil
	}
	ids := make([]any, len(rows))
	for i, row := range rows {
		ids[i] = row.GetInt64(0)
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

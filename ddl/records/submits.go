package records

import (
	"context"
	"fmt"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
)

// SubmitsTable has the keys of submitted statements, as long as their jobs are there or in the history. What decides that a key has one
// job is its primary key.
const SubmitsTable = "fastddl_ddl_submits"

// CreateSubmits makes the table. A key is one of an account.
const CreateSubmits = `CREATE TABLE IF NOT EXISTS mysql.fastddl_ddl_submits (
		submit_key VARBINARY(64) NOT NULL, account VARBINARY(512) NOT NULL, job_id BIGINT NOT NULL,
		PRIMARY KEY (submit_key, account) CLUSTERED)`

// Submit is a key that an account has given a statement.
type Submit struct{ Key, Account string }

// Take notes that the job of a key is id. If the key has a job already it returns that, and notes nothing.
func (s Submit) Take(t *session.Txn, id int64) (existing int64, err error) {
	existing, err = s.find(t)
	if err != nil || existing != 0 {
		return existing, err
	}
	if err := t.Exec(`INSERT INTO mysql.fastddl_ddl_submits (submit_key, account, job_id) VALUES (%?, %?, %?)`, s.Key, s.Account, id); err != nil {
		return 0, fmt.Errorf("note the key of job %d: %w", id, err)
	}
	return 0, nil
}

func (s Submit) find(t *session.Txn) (id int64, err error) {
	rows, err := t.Query(`SELECT job_id FROM mysql.fastddl_ddl_submits WHERE submit_key = %? AND account = %?`, s.Key, s.Account)
	if err != nil {
		return 0, fmt.Errorf("look for the job of a key: %w", err)
	}
	if len(rows) == 0 {
		return 0, nil
	}
	return rows[0].GetInt64(0), nil
}

// Submitted returns the job of a key, which may have ended; nil if there is none.
func (t *Tables) Submitted(ctx context.Context, s Submit) (r *job.Record, err error) {
	err = t.Sessions.InTxn(ctx, func(x *session.Txn) error {
		r = nil
		id, err := s.find(x)
		if err != nil || id == 0 {
			return err
		}
		rows, err := x.Query(`SELECT record FROM mysql.fastddl_ddl_record WHERE job_id = %?
			UNION ALL SELECT record FROM mysql.fastddl_ddl_record_history WHERE job_id = %?`, id, id)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return fmt.Errorf("job %d, which has the key, is not known any more", id)
		}
		decoded, _, err := Decode(rows[0].GetBytes(0), nil)
		if err != nil {
			return fmt.Errorf("job %d, which has the key, cannot be read: %w", id, err)
		}
		r = decoded
		return nil
	})
	return r, err
}

package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
)

// Our own tables. They lie in schema mysql, so that they are not dropped by accident
// and only those who may read it see the statements in them. These are ours alone;
// others are for people, see package status.
var CreateTables = []string{
	`CREATE TABLE IF NOT EXISTS mysql.fastddl_ddl_record (
		job_id BIGINT NOT NULL PRIMARY KEY CLUSTERED,
		record LONGBLOB NOT NULL,
		settings BLOB NOT NULL,
		checkpoint LONGBLOB)`,
	`CREATE TABLE IF NOT EXISTS mysql.fastddl_ddl_record_history (
		job_id BIGINT NOT NULL PRIMARY KEY CLUSTERED,
		record LONGBLOB NOT NULL)`,
	CreateSubmits,
}

// Tables reads the jobs outside transactions. Logger receives what cannot be read.
type Tables struct {
	Sessions *session.Pool
	Logger   *zap.Logger
}

// ErrLost says that another process has taken the job.
var ErrLost = errors.New("ddl: the job's record was changed by somebody else")

// Insert writes the record of a new job.
func Insert(t *session.Txn, r *job.Record, s job.Settings) error {
	record, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	settings, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode settings: %w", err)
	}
	return t.Exec(`INSERT INTO mysql.fastddl_ddl_record (job_id, record, settings) VALUES (%?, %?, %?)`, r.ID, record, settings)
}

// Replace writes a record over the one with the revision before, of the same
// owner; it fails with ErrLost if there is another.
func Replace(t *session.Txn, r *job.Record) error {
	stored, _, err := Read(t, r.ID)
	if err != nil {
		return err
	}
	// No other node takes over an Unreadable record, so its owner replaces it.
	if stored == nil || stored.Unreadable == nil && stored.Revision != r.Revision-1 || !stored.OwnedLike(r) {
		return ErrLost
	}
	return Update(t, r)
}

// Update writes a record over any other of its job.
func Update(t *session.Txn, r *job.Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	return t.Exec(`UPDATE mysql.fastddl_ddl_record SET record = %? WHERE job_id = %?`, data, r.ID)
}

// Archive moves a record to our history. Its subtasks are the caller's to delete, in the same transaction.
func Archive(t *session.Txn, r *job.Record) error {
	if err := Replace(t, r); err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	if err := t.Exec(`DELETE FROM mysql.fastddl_ddl_record WHERE job_id = %?`, r.ID); err != nil {
		return err
	}
	return t.Exec(`REPLACE INTO mysql.fastddl_ddl_record_history (job_id, record) VALUES (%?, %?)`, r.ID, data)
}

// Read returns the record of a job that has not ended, nil if there is none. One that cannot be decoded is Unreadable.
func Read(t *session.Txn, id int64) (*job.Record, job.Settings, error) {
	return find(t, id, "")
}

// Lock is Read for a transaction that is to fail if another one writes or locks
// the record meanwhile.
func Lock(t *session.Txn, id int64) (*job.Record, job.Settings, error) {
	return find(t, id, " FOR UPDATE")
}

// find reads a row of the records, with what follows the condition.
func find(t *session.Txn, id int64, lock string) (*job.Record, job.Settings, error) {
	rows, err := t.Query(`SELECT job_id, record, settings FROM mysql.fastddl_ddl_record WHERE job_id = %?`+lock, id)
	if err != nil || len(rows) == 0 {
		return nil, job.Settings{}, err
	}
	j := decodeJob(rows[0])
	return j.Record, j.Settings, nil
}

// selectJobs reads the jobs that have not ended, in order of ID.
const selectJobs = `SELECT job_id, record, settings FROM mysql.fastddl_ddl_record ORDER BY job_id`

// Load returns the jobs that have not ended, in order of ID.
func (t *Tables) Load(ctx context.Context) ([]Job, error) {
	rows, err := t.Sessions.Query(ctx, selectJobs)
	if err != nil {
		return nil, err
	}
	return decodeJobs(rows), nil
}

// Load returns the jobs as of the transaction.
func Load(t *session.Txn) ([]Job, error) {
	rows, err := t.Query(selectJobs)
	if err != nil {
		return nil, err
	}
	return decodeJobs(rows), nil
}

// MaxShownHistory is how many jobs are shown of the history.
const MaxShownHistory = 1024

// History returns the jobs that have ended, newest first, 1024 at most.
func (t *Tables) History(ctx context.Context, most int) ([]*job.Record, error) {
	rows, err := t.Sessions.Query(ctx, `SELECT record FROM mysql.fastddl_ddl_record_history ORDER BY job_id DESC LIMIT %?`, most)
	if err != nil {
		return nil, err
	}
	records := make([]*job.Record, 0, len(rows))
	for _, row := range rows {
		r, _, err := Decode(row.GetBytes(0), nil)
		if err != nil { // the others are shown
			t.Logger.Warn("an index build of the history cannot be read", zap.Error(err))
			continue
		}
		records = append(records, r)
	}
	return records, nil
}

// Ended returns the record of a job in our history, nil if it is not there.
func (t *Tables) Ended(ctx context.Context, id int64) (*job.Record, error) {
	rows, err := t.Sessions.Query(ctx, `SELECT record FROM mysql.fastddl_ddl_record_history WHERE job_id = %?`, id)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	r, _, err := Decode(rows[0].GetBytes(0), nil)
	return r, err
}

// Find returns the record of a job that has not ended, by its ID or that of its row in
// TiDB's queue; nil if there is none.
func (t *Tables) Find(ctx context.Context, id int64) (*job.Record, error) {
	jobs, err := t.Load(ctx)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if j.Record.ID == id || j.Record.RowID == id {
			return j.Record, nil
		}
	}
	return nil, nil
}

// errDeleted is the error of a statement whose job is neither there nor in the history.
var errDeleted = errors.New("the record of the index build was deleted; nobody can say what has become of it")

// Outcome returns whether a job has ended that another node was to end, and with what
// error. That its records cannot be read at the moment says nothing.
func (t *Tables) Outcome(ctx context.Context, id int64) (ended bool, err error) {
	// One statement, which sees one moment: the record moves from one table to the other.
	rows, err := t.Sessions.Query(ctx, `SELECT NULL FROM mysql.fastddl_ddl_record WHERE job_id = %?
		UNION ALL SELECT record FROM mysql.fastddl_ddl_record_history WHERE job_id = %?`, id, id)
	if err != nil {
		return false, nil
	}
	if len(rows) == 0 {
		return true, errDeleted
	}
	record := rows[len(rows)-1]
	if record.IsNull(0) {
		return false, nil
	}
	r, _, err := Decode(record.GetBytes(0), nil)
	if err != nil {
		return true, fmt.Errorf("job %d has ended, and its result cannot be read: %w", id, err)
	}
	if r.Error != nil {
		return true, r.Error
	}
	return true, nil
}

// WriteSettings makes a job's settings durable.
func WriteSettings(t *session.Txn, id int64, s job.Settings) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode settings: %w", err)
	}
	return t.Exec(`UPDATE mysql.fastddl_ddl_record SET settings = %? WHERE job_id = %?`, data, id)
}

// WriteCheckpoint makes the progress of a job's build durable; nil forgets it.
func WriteCheckpoint(t *session.Txn, id int64, data []byte) error {
	if data == nil {
		return t.Exec(`UPDATE mysql.fastddl_ddl_record SET checkpoint = NULL WHERE job_id = %?`, id)
	}
	return t.Exec(`UPDATE mysql.fastddl_ddl_record SET checkpoint = %? WHERE job_id = %?`, data, id)
}

// Checkpoint returns what was saved last, nil if nothing was.
func (t *Tables) Checkpoint(ctx context.Context, id int64) ([]byte, error) {
	rows, err := t.Sessions.Query(ctx, `SELECT checkpoint FROM mysql.fastddl_ddl_record WHERE job_id = %?`, id)
	if err != nil || len(rows) == 0 || rows[0].IsNull(0) {
		return nil, err
	}
	return rows[0].GetBytes(0), nil
}

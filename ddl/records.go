package ddl

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/util/chunk"
	"go.uber.org/zap"

	"fastddl/ddl/job"
)

// Our own tables. They lie in schema mysql, so that nobody drops them by accident
// and only those who may read it see the statements in them. These are ours alone;
// others are for people, see report.go.
var ownTables = []string{
	`CREATE TABLE IF NOT EXISTS mysql.fastddl_ddl_record (
		job_id BIGINT NOT NULL PRIMARY KEY CLUSTERED,
		record LONGBLOB NOT NULL,
		settings BLOB NOT NULL,
		checkpoint LONGBLOB)`,
	`CREATE TABLE IF NOT EXISTS mysql.fastddl_ddl_record_history (
		job_id BIGINT NOT NULL PRIMARY KEY CLUSTERED,
		record LONGBLOB NOT NULL)`,
}

const (
	// historyLimit is the number of jobs that stay in our history when it is cut: at the start, and when
	// historySlack more have ended.
	historyLimit = 1024
	historySlack = 8
)

// prepareTables makes our tables and shortens the history.
func (d *DDL) prepareTables(ctx context.Context) error {
	if err := d.makeReportTables(ctx); err != nil {
		return err
	}
	d.unreported(d.widenReportTables(ctx))
	statements := append(slices.Clone(ownTables), `DELETE FROM mysql.fastddl_ddl_blockers`) // nobody waits yet
	if d.clustered() {
		statements = append(slices.Clone(ownTables), createPartsTable, createRequestsTable, forgetOldRequests, forgetTakenVersions)
	}
	for _, create := range statements {
		if _, err := d.sessions.query(ctx, create); err != nil {
			return fmt.Errorf("create system table: %w", err)
		}
	}
	return d.shortenHistory(ctx)
}

// shortenHistory takes the oldest jobs out of the history, and what the tables for people say of them.
func (d *DDL) shortenHistory(ctx context.Context) error {
	rows, err := d.sessions.query(ctx, `SELECT job_id FROM mysql.fastddl_ddl_record_history ORDER BY job_id DESC LIMIT %?, 1`, historyLimit)
	if err != nil || len(rows) == 0 {
		return err
	}
	oldest := rows[0].GetInt64(0)
	for _, table := range []string{"fastddl_ddl_record_history", jobsTable.name, duplicatesTable.name, errorRowsTable.name} {
		if _, err := d.sessions.query(ctx, `DELETE FROM mysql.%n WHERE job_id <= %? AND job_id NOT IN (SELECT job_id FROM mysql.fastddl_ddl_record)`,
			table, oldest); err != nil {
			return fmt.Errorf("shorten mysql.%s: %w", table, err)
		}
	}
	return nil
}

// keepHistoryShort is called when a job has ended.
func (d *DDL) keepHistoryShort(ctx context.Context) {
	if d.ends.Add(1)%historySlack == 0 {
		d.unreported(d.contained("the cut of the history", func() error { return d.shortenHistory(ctx) }))
	}
}

// insertRecord writes the record of a new job.
func (t *txn) insertRecord(r *job.Record, s job.Settings) error {
	record, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	settings, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode settings: %w", err)
	}
	return t.exec(`INSERT INTO mysql.fastddl_ddl_record (job_id, record, settings) VALUES (%?, %?, %?)`, r.ID, record, settings)
}

// replaceRecord writes a record over the one with the revision before, of the same
// owner; it fails with errLost if there is another.
func (t *txn) replaceRecord(r *job.Record) error {
	stored, _, err := t.readRecord(r.ID)
	if err != nil {
		return err
	}
	// No other node takes over an Unreadable record, so its owner replaces it.
	if stored == nil || stored.Unreadable == nil && stored.Revision != r.Revision-1 || !stored.OwnedLike(r) {
		return errLost
	}
	return t.updateRecord(r)
}

func (t *txn) updateRecord(r *job.Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	return t.exec(`UPDATE mysql.fastddl_ddl_record SET record = %? WHERE job_id = %?`, data, r.ID)
}

// archiveRecord moves a record to our history.
func (t *txn) archiveRecord(r *job.Record) error {
	if err := t.replaceRecord(r); err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	if err := t.exec(`DELETE FROM mysql.fastddl_ddl_record WHERE job_id = %?`, r.ID); err != nil {
		return err
	}
	if r.Nodes.Shared {
		if err := t.deleteParts(r.ID); err != nil {
			return err
		}
	}
	return t.exec(`REPLACE INTO mysql.fastddl_ddl_record_history (job_id, record) VALUES (%?, %?)`, r.ID, data)
}

// readRecord returns the record of a job that has not ended, nil if there is none. One that cannot be decoded is Unreadable.
func (t *txn) readRecord(id int64) (*job.Record, job.Settings, error) { return t.findRecord(id, "") }

// lockRecord is readRecord for a transaction that is to fail if somebody writes or locks
// the record meanwhile.
func (t *txn) lockRecord(id int64) (*job.Record, job.Settings, error) {
	return t.findRecord(id, " FOR UPDATE")
}

func (t *txn) findRecord(id int64, lock string) (*job.Record, job.Settings, error) {
	rows, err := t.query(`SELECT job_id, record, settings FROM mysql.fastddl_ddl_record WHERE job_id = %?`+lock, id)
	if err != nil || len(rows) == 0 {
		return nil, job.Settings{}, err
	}
	j := decodeJob(rows[0])
	return j.record, j.settings, nil
}

func decodeRecord(record, settings []byte) (*job.Record, job.Settings, error) {
	r, s := new(job.Record), job.Settings{}
	if err := json.Unmarshal(record, r); err != nil {
		return nil, s, fmt.Errorf("decode record: %w", err)
	}
	if settings != nil && json.Unmarshal(settings, &s) != nil {
		s = job.Settings{} // those of the global variables
	}
	return r, s, nil
}

// storedJob is a job as it was found; its record may be Unreadable.
type storedJob struct {
	record   *job.Record
	settings job.Settings
}

// selectJobs reads the jobs that have not ended, in order of ID.
const selectJobs = `SELECT job_id, record, settings FROM mysql.fastddl_ddl_record ORDER BY job_id`

// loadJobs returns the jobs that have not ended, in order of ID.
func (d *DDL) loadJobs(ctx context.Context) ([]storedJob, error) {
	rows, err := d.sessions.query(ctx, selectJobs)
	if err != nil {
		return nil, err
	}
	return decodeJobs(rows), nil
}

// loadJobs returns the jobs as of the transaction.
func (t *txn) loadJobs() ([]storedJob, error) {
	rows, err := t.query(selectJobs)
	if err != nil {
		return nil, err
	}
	return decodeJobs(rows), nil
}

func decodeJobs(rows []chunk.Row) []storedJob {
	jobs := make([]storedJob, len(rows))
	for i, row := range rows {
		jobs[i] = decodeJob(row)
	}
	return jobs
}

// loadHistory returns the jobs that have ended, newest first.
func (d *DDL) loadHistory(ctx context.Context) ([]*job.Record, error) {
	rows, err := d.sessions.query(ctx, `SELECT record FROM mysql.fastddl_ddl_record_history ORDER BY job_id DESC LIMIT %?`, historyLimit)
	if err != nil {
		return nil, err
	}
	records := make([]*job.Record, 0, len(rows))
	for _, row := range rows {
		r, _, err := decodeRecord(row.GetBytes(0), nil)
		if err != nil { // the others are shown
			d.opts.Logger.Warn("an index build of the history cannot be read", zap.Error(err))
			continue
		}
		records = append(records, r)
	}
	return records, nil
}

// ended returns the record of a job in our history, nil if it is not there.
func (d *DDL) ended(ctx context.Context, id int64) (*job.Record, error) {
	rows, err := d.sessions.query(ctx, `SELECT record FROM mysql.fastddl_ddl_record_history WHERE job_id = %?`, id)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	r, _, err := decodeRecord(rows[0].GetBytes(0), nil)
	return r, err
}

// saveSettings makes a job's settings durable, with what also does.
func (t *task) saveSettings(ctx context.Context, s job.Settings, also func(x *txn) error) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode settings: %w", err)
	}
	return t.inOwnTxn(ctx, func(x *txn) error {
		if err := x.exec(`UPDATE mysql.fastddl_ddl_record SET settings = %? WHERE job_id = %?`, data, t.id); err != nil {
			return err
		}
		return also(x)
	})
}

// storedSettings returns the job's settings as its row says.
func (t *task) storedSettings(ctx context.Context) (s job.Settings, err error) {
	err = t.d.sessions.inTxn(ctx, func(x *txn) error {
		r, stored, err := x.readRecord(t.id)
		s = stored
		return t.owned(r, stored, err)
	})
	return s, err
}

// saveCheckpoint makes the progress of a build durable.
func (t *task) saveCheckpoint(ctx context.Context, data []byte) error {
	err := t.inOwnTxn(ctx, func(x *txn) error {
		return x.exec(`UPDATE mysql.fastddl_ddl_record SET checkpoint = %? WHERE job_id = %?`, data, t.id)
	})
	if err == nil {
		t.progressed.Store(true)
	}
	return err
}

// loadCheckpoint returns what was saved last, nil if nothing was.
func (d *DDL) loadCheckpoint(ctx context.Context, id int64) ([]byte, error) {
	rows, err := d.sessions.query(ctx, `SELECT checkpoint FROM mysql.fastddl_ddl_record WHERE job_id = %?`, id)
	if err != nil || len(rows) == 0 || rows[0].IsNull(0) {
		return nil, err
	}
	return rows[0].GetBytes(0), nil
}

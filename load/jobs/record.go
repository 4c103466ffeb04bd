package jobs

import (
	"encoding/json"
	"fmt"

	"github.com/pingcap/tidb/pkg/executor/importer"

	"fastddl/ddl/schema"
	"fastddl/ddl/session"
)

// Step is how far an import is.
type Step string

// The steps of an import, in their order. Undoing is reached from each before Swapped.
const (
	// StepQueued: the import waits for the DDL that is ahead of it.
	StepQueued Step = "queued"
	// StepDraining: writers are refused, and transactions that used the table before are waited for.
	StepDraining Step = "draining"
	// StepLoading: the table is empty and stays so; the rows are written under the new IDs.
	StepLoading Step = "loading"
	// StepSwapped: the table is that with the new IDs.
	StepSwapped Step = "swapped"
	// StepUndoing: what was written is to be given to garbage collection.
	StepUndoing Step = "undoing"
)

// recordFormat is the format of the records that this version writes, and the newest that it reads.
const recordFormat = 1

// Record is the durable state of an import, a row of mysql.fastddl_import_job.
type Record struct {
	Format int `json:"format"`
	// Revision counts the writes.
	Revision int64 `json:"revision"`
	Step     Step  `json:"step"`
	// Store names the store that the import was queued in. One that is restored from a backup has another name. Empty in records of
	// versions without it.
	Store string `json:"store,omitempty"`
	// Import is what TiDB's metadata knows of it. Its RowID identifies the import here.
	Import schema.Import `json:"import"`
	// ImportID is its ID in mysql.tidb_import_jobs; 0 if it is not there, as an import from a query.
	ImportID int64 `json:"import_id,omitempty"`
	// Statement is the whole statement, and Charset and Collation are those of its client.
	Statement string `json:"statement"`
	Charset   string `json:"charset"`
	Collation string `json:"collation"`
	// Plan is TiDB's importer.Plan without the definition of the table.
	Plan json.RawMessage `json:"plan"`
	// FromQuery says that the rows come from the session, and are lost with it.
	FromQuery bool `json:"from_query,omitempty"`
	// Threads is the option thread; 0 if it was not given.
	Threads int `json:"threads,omitempty"`
	// Verify is config.VerifyAuto or config.VerifyFull.
	Verify string `json:"verify"`
	// Rows is the number of rows that were imported, from SourceBytes of files, since StepSwapped.
	Rows        int64 `json:"rows,omitempty"`
	SourceBytes int64 `json:"source_bytes,omitempty"`
	// Cancelled and Error say why the import is undone.
	Cancelled bool   `json:"cancelled,omitempty"`
	Error     string `json:"error,omitempty"`
}

// excludesWriters says that statements that add rows to the table are refused.
func (r *Record) excludesWriters() bool { return r.Step != StepQueued && r.Step != StepUndoing }

// cancellable says that the import can still be undone.
func (r *Record) cancellable() bool { return r.Step != StepSwapped && r.Step != StepUndoing }

// undo is the record of the import when it is to be undone. An error is kept from a first failure.
func (r *Record) undo(cancelled bool, why error) {
	r.Step, r.Cancelled = StepUndoing, cancelled
	if why != nil {
		r.Error = why.Error()
	}
}

// failed returns the record after an action has failed: an import that can still be undone is; what is undone or swapped goes on.
func (r *Record) failed(why error) (undo bool) {
	if !r.cancellable() {
		return false
	}
	r.undo(false, why)
	return true
}

// createTable makes the table of the records. The checkpoint is that of package load.
const createTable = `CREATE TABLE IF NOT EXISTS mysql.fastddl_import_job (
	job_id BIGINT NOT NULL PRIMARY KEY CLUSTERED,
	record LONGBLOB NOT NULL,
	checkpoint LONGBLOB)`

func encode(r *Record) ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the record of import %d: %w", r.Import.RowID, err)
	}
	return data, nil
}

func decode(id int64, data []byte) (*Record, error) {
	r := new(Record)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("decode the record of import %d: %w", id, err)
	}
	if r.Format != recordFormat {
		return nil, fmt.Errorf("the record of import %d has format %d, this version reads %d", id, r.Format, recordFormat)
	}
	return r, nil
}

func insert(t *session.Txn, r *Record) error {
	data, err := encode(r)
	if err != nil {
		return err
	}
	return t.Exec(`INSERT INTO mysql.fastddl_import_job (job_id, record) VALUES (%?, %?)`, r.Import.RowID, data)
}

// read returns the record of an import, nil if it has ended.
func read(t *session.Txn, id int64) (*Record, error) {
	rows, err := t.Query(`SELECT record FROM mysql.fastddl_import_job WHERE job_id = %?`, id)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return decode(id, rows[0].GetBytes(0))
}

// update writes a record, with the next revision.
func update(t *session.Txn, r *Record) error {
	r.Revision++
	data, err := encode(r)
	if err != nil {
		return err
	}
	return t.Exec(`UPDATE mysql.fastddl_import_job SET record = %? WHERE job_id = %?`, data, r.Import.RowID)
}

// undoOthers has the imports of another store undone, that can be: the store in use was restored from a backup of it.
func undoOthers(t *session.Txn, all []*Record, store string) error {
	for _, r := range all {
		if r.Store == "" || r.Store == store || !r.cancellable() {
			continue
		}
		r.undo(false, errRestored)
		if err := update(t, r); err != nil {
			return err
		}
	}
	return nil
}

// loadAll returns the records of all imports that have not ended, and why others cannot be read.
func loadAll(t *session.Txn) (all []*Record, unreadable map[int64]error, err error) {
	rows, err := t.Query(`SELECT job_id, record FROM mysql.fastddl_import_job ORDER BY job_id`)
	if err != nil {
		return nil, nil, err
	}
	unreadable = make(map[int64]error)
	for _, row := range rows {
		r, err := decode(row.GetInt64(0), row.GetBytes(1))
		if err != nil {
			unreadable[row.GetInt64(0)] = err
			continue
		}
		all = append(all, r)
	}
	return all, unreadable, nil
}

// decodePlan returns TiDB's plan of the import.
func (r *Record) decodePlan() (*importer.Plan, error) {
	p := new(importer.Plan)
	if err := json.Unmarshal(r.Plan, p); err != nil {
		return nil, fmt.Errorf("decode the plan of import %d: %w", r.Import.RowID, err)
	}
	return p, nil
}

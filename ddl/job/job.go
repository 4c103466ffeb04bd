package job

import (
	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ddl/builder"
)

// Job is the durable record of one DDL statement. Exactly one of the argument
// fields is set, according to Type.
type Job struct {
	ID int64 `json:"id"`
	// Revision counts the writes of the record, so that it can be told whether one
	// that failed was made.
	Revision int64            `json:"revision"`
	Type     model.ActionType `json:"type"`
	// State is what ADMIN SHOW DDL JOBS shows.
	State model.JobState `json:"state"`
	Step  Step           `json:"step"`
	// Request is what a client has asked for and the job has not done yet.
	Request Request `json:"request,omitempty"`

	DBID    int64  `json:"db_id"`
	TableID int64  `json:"table_id"`
	DB      string `json:"db"`
	Table   string `json:"table"`
	Query   string `json:"query"`
	// TimeZone is the session's.
	TimeZone TimeZone `json:"time_zone"`
	Settings Settings `json:"settings"`
	// Objects are what the job excludes others from.
	Objects []Object `json:"objects"`

	CreateDatabase *CreateDatabase `json:"create_database,omitempty"`
	AlterDatabase  *AlterDatabase  `json:"alter_database,omitempty"`
	DropDatabase   *DropDatabase   `json:"drop_database,omitempty"`
	CreateTable    *CreateTable    `json:"create_table,omitempty"`
	DropTables     []TableRef      `json:"drop_tables,omitempty"`
	// IfExists is DROP TABLE's.
	IfExists      bool      `json:"if_exists,omitempty"`
	TruncateTable *TableRef `json:"truncate_table,omitempty"`
	RenameTables  []Rename  `json:"rename_tables,omitempty"`
	Changes       []Change  `json:"changes,omitempty"`

	// Elements are what Changes have been bound to.
	Elements Elements `json:"elements"`

	// SchemaVersion is the version of the job's last schema change.
	SchemaVersion int64 `json:"schema_version"`
	// SnapshotTS is the backfill's timestamp S, 0 before it is taken.
	SnapshotTS uint64 `json:"snapshot_ts,omitempty"`
	// FastReorg is tidb_ddl_enable_fast_reorg when S was taken: the two ways of
	// building an index must not be mixed.
	FastReorg bool `json:"fast_reorg,omitempty"`

	RowCount   int64  `json:"row_count"`
	ErrorCount int64  `json:"error_count"`
	Error      *Error `json:"error,omitempty"`
	// Duplicates are listed when the job has failed because of them.
	Duplicates []Duplicate       `json:"duplicates,omitempty"`
	Warnings   []builder.Warning `json:"warnings,omitempty"`

	// CreateTS is when the job was queued, StartTS when it began to run, EndTS
	// when it ended; 0 if it has not.
	CreateTS uint64 `json:"create_ts"`
	StartTS  uint64 `json:"start_ts"`
	EndTS    uint64 `json:"end_ts"`
}

// TimeZone is a session's time zone. The zero value is UTC.
type TimeZone struct {
	// Name is the name of a known zone, or of an offset.
	Name string `json:"name,omitempty"`
	// Offset is that of a zone that is nothing else, in seconds east of UTC.
	Offset int `json:"offset,omitempty"`
}

// Request is what a client has asked of a job.
type Request string

// The requests.
const (
	RequestNone   Request = ""
	RequestCancel Request = "cancel"
	RequestPause  Request = "pause"
)

// Error is the error a job ended with.
type Error struct {
	Code    uint16 `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// Range is a range of keys.
type Range struct {
	Start []byte `json:"start"`
	End   []byte `json:"end"`
}

// TableRef names a table by ID and, for display, by name.
type TableRef struct {
	DBID int64  `json:"db_id"`
	ID   int64  `json:"id"`
	DB   string `json:"db"`
	Name string `json:"name"`
}

// Rename gives a table a new name, perhaps in another database.
type Rename struct {
	TableRef
	ToDBID int64  `json:"to_db_id"`
	ToDB   string `json:"to_db"`
	ToName string `json:"to_name"`
}

// CreateDatabase are the arguments of CREATE DATABASE.
type CreateDatabase struct {
	Info        *model.DBInfo `json:"info"`
	IfNotExists bool          `json:"if_not_exists,omitempty"`
}

// AlterDatabase are the arguments of ALTER DATABASE.
type AlterDatabase struct {
	Charset string `json:"charset"`
	Collate string `json:"collate"`
}

// DropDatabase are the arguments of DROP DATABASE.
type DropDatabase struct {
	// TableIDs are the tables that went with it.
	TableIDs []int64 `json:"table_ids,omitempty"`
}

// CreateTable are the arguments of CREATE TABLE.
type CreateTable struct {
	Info        *model.TableInfo `json:"info"`
	IfNotExists bool             `json:"if_not_exists,omitempty"`
}

// Elements are the IDs of what an ALTER adds and drops.
type Elements struct {
	AddIndexes  []int64 `json:"add_indexes,omitempty"`
	AddColumns  []int64 `json:"add_columns,omitempty"`
	DropIndexes []int64 `json:"drop_indexes,omitempty"`
	DropColumns []int64 `json:"drop_columns,omitempty"`
}

// Ended says that the job is history.
func (j *Job) Ended() bool { return j.Step == StepFinished }

// RollingBack says that the job is being undone.
func (j *Job) RollingBack() bool { return j.State == model.JobStateRollingback }

// ShownState is the state to show: a request shows before it has its effect. A
// job that has not begun has nothing to stop, so it is paused at once.
func (j *Job) ShownState() model.JobState {
	switch {
	case j.State == model.JobStatePaused, j.Ended(), j.RollingBack():
		return j.State
	case j.Request == RequestCancel:
		return model.JobStateCancelling
	case j.Request == RequestPause && j.State == model.JobStateQueueing:
		return model.JobStatePaused
	case j.Request == RequestPause:
		return model.JobStatePausing
	}
	return j.State
}

package job

import (
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"

	"fastddl/config"
	"fastddl/ingest"
)

// Protocol is the version of what is written down of jobs and their subtasks, and of how their entries are
// made: the format of their records, settings, subtasks and results. It grows with every change by which a node
// that does not know it would go on with a job wrongly. A field of which that is not so may be added without:
// a node that does not know the field ignores it, and drops it with its next write. Checkpoints have a format
// of their own.
const Protocol = 4

// Record is the durable record of a job: one statement that adds indexes to one
// table.
type Record struct {
	ID int64 `json:"id"`
	// Unreadable is why the stored record could not be decoded; nil if it was. Then little else is known.
	Unreadable error `json:"-"`
	// Protocol is that of the node which has queued the job; 0 in records of before there was one.
	Protocol int `json:"protocol,omitempty"`
	// RowID is the ID of the row that stands for the job in TiDB's queue: the job's
	// own, until somebody takes the row.
	RowID int64 `json:"row_id"`
	// TakenRows are the IDs of rows that somebody has taken.
	TakenRows []int64 `json:"taken_rows,omitempty"`
	// Revision counts the writes of the record. A writer that holds an older one
	// has lost the job.
	Revision int64 `json:"revision"`
	// Owner is the member of the cluster that runs the job, and Epoch counts the owners:
	// each one that takes the job over adds one. No other node writes the record. Without
	// a cluster they stay zero.
	Owner string `json:"owner,omitempty"`
	Epoch int64  `json:"epoch,omitempty"`
	// Type is shown: ActionAddIndex, ActionAddPrimaryKey, or ActionMultiSchemaChange if
	// there are changes.
	Type model.ActionType `json:"type"`
	// State is what ADMIN SHOW DDL JOBS shows.
	State model.JobState `json:"state"`
	Step  Step           `json:"step"`
	// Request is what a client has asked for and the job has not done yet.
	Request Request `json:"request,omitempty"`

	DBID    int64 `json:"db_id"`
	TableID int64 `json:"table_id"`
	// DB and Table are names in lower case.
	DB    string `json:"db"`
	Table string `json:"table"`
	Query string `json:"query"`
	// Client executed the statement; zero in records of earlier versions.
	Client Client `json:"client,omitzero"`

	// SubmitKey is the key that the client has given the statement, so that it makes one job if it is sent again; empty if it has none.
	SubmitKey string `json:"submit_key,omitempty"`

	// SQLMode and Location are the session's, by which expressions are evaluated
	// and duplicates shown.
	SQLMode  mysql.SQLMode           `json:"sql_mode"`
	Location *model.TimeZoneLocation `json:"location"`
	// Functions are the session's, too; nil is TiDB's defaults, as in records of earlier versions.
	Functions *config.FunctionSettings `json:"functions,omitempty"`
	// ResourceGroup is the session's, which pays for the build's requests.
	ResourceGroup string `json:"resource_group,omitempty"`
	// Charset and Collate are the session's connection's.
	Charset string `json:"charset"`
	Collate string `json:"collate"`

	// Indexes are what the statement asked for. IndexIDs are what has become of them,
	// in the same order; empty before StepDeleteOnly.
	Indexes  []*model.IndexArg `json:"indexes"`
	IndexIDs []int64           `json:"index_ids,omitempty"`
	// Changes are what else the statement does, in its order, and IndexesAt is how many
	// of them TiDB's history lists before the indexes.
	Changes   []Change `json:"changes,omitempty"`
	IndexesAt int      `json:"indexes_at,omitempty"`
	// Nodes says which nodes of a cluster build the entries together.
	Nodes Nodes `json:"nodes,omitzero"`
	// Verify is config.VerifyAuto or config.VerifyFull, as the session had it; empty is full, as in records of earlier versions.
	Verify string `json:"verify,omitempty"`
	// Compare says that the indexes are compared with the rows before they become
	// public: one of them is unique, or somebody writes the table whom the metadata
	// lock does not see.
	Compare bool `json:"compare"`

	// SchemaVersion is the version of the job's last schema change, 0 before the
	// first.
	SchemaVersion int64 `json:"schema_version"`
	// SnapshotTS is S, 0 before it is taken.
	SnapshotTS uint64 `json:"snapshot_ts,omitempty"`
	// Leftovers says that S was taken before, so that entries imported at an older one may
	// be left which no row has any more.
	Leftovers bool `json:"leftovers,omitempty"`

	// Deferred says that the entries at S were not summed up: the comparison does that for them
	// at its own timestamp. Differed says that it has found a difference, so that they are to be
	// verified at S before anything is repaired.
	Deferred bool `json:"deferred,omitempty"`
	Differed bool `json:"differed,omitempty"`
	// Given are the totals of the entries that the rows gave at S, by index, if the job is Deferred. A node that drops
	// them has the rows read anew.
	Given []ingest.Totals `json:"given,omitempty"`

	// PausedTS is when the job was paused, 0 while it is not.
	PausedTS uint64 `json:"paused_ts,omitempty"`
	// Restarts is how often the job has given its S up because it was parked for too long. Overdue is how often that was for its window,
	// with the settings OverdueUnder.
	Restarts     int64  `json:"restarts,omitempty"`
	Overdue      int64  `json:"overdue,omitempty"`
	OverdueUnder string `json:"overdue_under,omitempty"`
	// Cuts is how many comparisons in a row the window has cut short, with the same settings.
	Cuts int64 `json:"cuts,omitempty"`

	// RowCount is the number of rows that were read; Counted says that they were counted by
	// their keys as well. Compared and Repaired count the comparisons of unique indexes and the
	// keys repaired after them.
	RowCount int64 `json:"row_count"`
	Counted  bool  `json:"counted,omitempty"`
	Compared int64 `json:"compared,omitempty"`
	Repaired int64 `json:"repaired,omitempty"`

	// History is how the job went so far, as of its last step.
	History History `json:"history,omitzero"`

	// ErrorCount is the number of failures, Error what the job is undone for.
	ErrorCount int64         `json:"error_count"`
	Error      *terror.Error `json:"error,omitempty"`
	// ShownError is Error without values of rows, for all who have not executed the statement; nil if Error has none.
	ShownError *terror.Error `json:"shown_error,omitempty"`
	// Duplicates and BadRows are the rows that are at fault, if some are.
	Duplicates []Duplicate `json:"duplicates,omitempty"`
	BadRows    []BadRow    `json:"bad_rows,omitempty"`

	// CreateTS is when the job was queued, StartTS when it began to run, EndTS
	// when it ended; 0 if it has not.
	CreateTS uint64 `json:"create_ts"`
	StartTS  uint64 `json:"start_ts"`
	EndTS    uint64 `json:"end_ts"`
}

// Nodes says which nodes of a cluster build the entries of a job together. It is settled
// when the statement is queued.
type Nodes struct {
	// Shared is false if the job's owner builds alone.
	Shared bool `json:"shared,omitempty"`
	// Scope is the tidb_service_scope that they have.
	Scope string `json:"scope,omitempty"`
	// Max is how many there may be, at least 1.
	Max int `json:"max,omitempty"`
}

// Request is what a client has asked of a job.
type Request string

// The requests.
const (
	RequestNone   Request = ""
	RequestCancel Request = "cancel"
	RequestPause  Request = "pause"
)

// Known says that this version knows the request.
func (r Request) Known() bool { return r == RequestNone || r == RequestCancel || r == RequestPause }

// Known says that this version knows all that the record may say.
func (r *Record) Known() bool { return r.Unreadable == nil && !r.Later() }

// Later says that a later version has written the record.
func (r *Record) Later() bool { return r.Protocol > Protocol }

// Ended says that the job is history.
func (r *Record) Ended() bool { return r.Step == StepFinished }

// RollingBack says that the job is being undone.
func (r *Record) RollingBack() bool { return r.State == model.JobStateRollingback }

// NeedsHold says that garbage collection has to be held at S: an import at S may still come or, in a
// store whose LOCK records hide what is older than they are, a comparison is to see what they hide. If such
// a record were collected before, it would not see what a transaction that has believed the record, and goes on
// to hide the entry, has not seen.
func (r *Record) NeedsHold(hiding bool) bool {
	switch r.Step {
	case StepSnapshot:
		return r.SnapshotTS != 0
	case StepBackfilled, StepDrained:
		return r.SnapshotTS != 0 && hiding && r.Compare
	}
	return false
}

// ForgetSnapshot makes the job take another S. What was imported at this one stays. Nearly
// all of it is right at another one too, or shadowed by what was written since; but a
// transaction that inserts an entry and deletes it again writes no tombstone, although it
// has deleted the row that the entry was imported for.
func (r *Record) ForgetSnapshot() {
	r.SnapshotTS, r.Counted, r.Leftovers = 0, false, true
	r.Deferred, r.Differed, r.Given = false, false, nil
}

// MakeReady makes a job ready to be published later. Garbage collection is not held at S any more, so nothing may be concluded from what is
// known of S: the comparison before the publication reads everything. Nodes of versions that do not know the step are kept from the job.
func (r *Record) MakeReady() {
	r.Counted, r.Deferred, r.Given = false, false, nil
	r.Protocol = max(r.Protocol, ScheduleProtocol)
}

// VerifyBuild makes a job whose comparison has found a difference go back to what it has
// imported at S, which was not summed up. It may be built again, so the job drains again.
func (r *Record) VerifyBuild() {
	r.Deferred, r.Differed, r.Given = false, true, nil
}

// OwnedLike says that the record has the owner that it has in another version of it, and
// that no other node has had the job in between.
func (r *Record) OwnedLike(other *Record) bool {
	return r.Owner == other.Owner && r.Epoch == other.Epoch
}

// TakenBy returns a copy of the record with another owner.
func (r *Record) TakenBy(owner string) *Record {
	after := *r
	after.Owner = owner
	after.Epoch++
	after.Revision++
	return &after
}

// MayHaveImported says that an owner of the job may have sent imports.
func (r *Record) MayHaveImported() bool { return r.SnapshotTS != 0 && !r.Ended() }

// Importing says that an owner of the job may have imports under way, which may come late if
// it is gone. A job goes on from StepSnapshot, forward or backward, only when all of its own
// have ended, and is paused only then.
func (r *Record) Importing() bool {
	return r.Step == StepSnapshot && r.State != model.JobStatePaused
}

// ShownState is the state to show: a request shows before it has its effect. A
// job that has not begun has nothing to stop, so it is paused at once.
func (r *Record) ShownState() model.JobState {
	switch {
	case r.State == model.JobStatePaused, r.Ended(), r.RollingBack():
		return r.State
	case r.Request == RequestCancel:
		return model.JobStateCancelling
	case r.Request == RequestPause && r.State == model.JobStateQueueing:
		return model.JobStatePaused
	case r.Request == RequestPause:
		return model.JobStatePausing
	}
	return r.State
}

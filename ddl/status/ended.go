package status

import (
	"fmt"
	"time"

	"github.com/pingcap/errors"
	"github.com/pingcap/tidb/pkg/parser"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
	"fastddl/event"
	"fastddl/kv"
)

// JobEnded: a job is in the history.
type JobEnded struct {
	event.Job
	// Info is the job as its last row in mysql.fastddl_ddl_jobs has it.
	Info JobInfo
}

func (e JobEnded) String() string {
	s := fmt.Sprintf("job %d on %s.%s has ended: %s, %d rows read", e.ID, e.Info.DB, e.Info.Table, e.Info.State, e.Info.RowCount)
	if took := e.Info.Took(); took > 0 {
		s += " in " + took.Round(time.Millisecond).String()
	}
	return s
}

// Took is how long a job was under way; 0 if it has not ended, or was never begun.
func (i *JobInfo) Took() time.Duration {
	if !i.Ended() || i.StartTime.IsZero() {
		return 0
	}
	return i.EndTime.Sub(i.StartTime)
}

// DescribeEnd describes a job that has ended, with the settings that it had.
func DescribeEnd(r *job.Record, s job.Settings) JobInfo {
	info := Describe(r)
	info.Settings = s
	return info
}

// Summary is a job that has ended, for the log: what its row in mysql.fastddl_ddl_jobs says, under the names of the columns there. Values of
// rows are not in it; those in the statement are hidden if tidb_redact_log hides them.
type Summary struct {
	JobID   int64  `json:"job_id"`
	DB      string `json:"db_name"`
	Table   string `json:"table_name"`
	Indexes string `json:"indexes"`
	Type    string `json:"job_type"`
	State   string `json:"state"`
	Query   string `json:"query"`
	Error   string `json:"error,omitempty"`

	User    string `json:"user_name,omitempty"`
	ConnID  uint64 `json:"conn_id,omitempty"`
	Program string `json:"program_name,omitempty"`
	Node    string `json:"node,omitempty"`

	CreateTime time.Time `json:"create_time,omitzero"`
	StartTime  time.Time `json:"start_time,omitzero"`
	EndTime    time.Time `json:"end_time,omitzero"`
	Seconds    float64   `json:"seconds"`
	Rows       int64     `json:"row_count"`

	job.Costs
	Stages     []job.StageTime    `json:"stages,omitempty"`
	IndexBytes int64              `json:"index_bytes,omitempty"`
	Stores     kv.Costs           `json:"store_costs,omitzero"`
	Held       map[string]float64 `json:"held_seconds,omitempty"`
	Waited     []job.Waited       `json:"waited_for,omitempty"`
	P99Before  float64            `json:"foreground_p99_before_ms,omitempty"`
	P99During  float64            `json:"foreground_p99_during_ms,omitempty"`

	Verify      string       `json:"verify,omitempty"`
	Verified    string       `json:"verified,omitempty"`
	Comparisons int64        `json:"comparisons,omitempty"`
	Repaired    int64        `json:"repaired_keys,omitempty"`
	Restarts    int64        `json:"restarts,omitempty"`
	ErrorCount  int64        `json:"error_count,omitempty"`
	LastError   string       `json:"last_error,omitempty"`
	Settings    job.Settings `json:"settings,omitzero"`
}

// Summary returns the job for the log.
func (e JobEnded) Summary() Summary {
	i := &e.Info
	return Summary{
		JobID: e.ID, DB: i.DB, Table: i.Table, Indexes: i.Indexes, Type: i.Type, State: i.State, Query: loggedStatement(i.Query), Error: i.Error,
		User: i.Client.User, ConnID: i.Client.ConnID, Program: i.Client.Program, Node: i.Node,
		CreateTime: i.CreateTime, StartTime: i.StartTime, EndTime: i.EndTime, Seconds: session.ShortNumber(i.Took().Seconds(), 3), Rows: i.RowCount,
		Stages: i.Stages, Costs: i.Costs, IndexBytes: i.IndexBytes, Stores: i.Stores, Held: i.Held, Waited: i.Waited,
		P99Before: session.ShortNumber(i.Foreground.Before, 3), P99During: session.ShortNumber(i.Foreground.During, 3),
		Verify: i.Verify, Verified: i.Verified, Comparisons: i.Compared, Repaired: i.Repaired, Restarts: i.Restarts,
		ErrorCount: i.ErrorCount, LastError: i.LastError, Settings: i.Settings,
	}
}

// loggedStatement is a statement as TiDB logs it, of maxShown bytes at most.
func loggedStatement(sql string) string {
	return session.Shortened(parser.Normalize(session.Shortened(sql, maxNormalized), errors.RedactLogEnabled.Load()), maxShown)
}

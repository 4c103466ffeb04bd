package status

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pingcap/tidb/pkg/domain"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"go.uber.org/zap"

	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
)

// reportTable is a table for people, who may add columns to it or drop it: statements name
// its columns, and that one fails keeps no job from going on.
type reportTable struct {
	name string
	// columns are their definitions, each of which begins with the name. One that a later
	// release adds comes last, and may be NULL: earlier releases leave it out.
	columns []string
	key     string
}

// TiDB's own tables have no columns for what these show: fastddl_ddl_jobs has a row for each
// job of ours, and is brought up to date every reportInterval, as is fastddl_ddl_blockers,
// the transactions that jobs wait for; fastddl_ddl_points has their throughput over time; fastddl_ddl_error_rows has the rows that indexes were not
// built for, which verdict.ErrorsView shows, and fastddl_ddl_duplicates those with equal values by value.
var (
	jobsTable = reportTable{
		name: "fastddl_ddl_jobs", key: "job_id",
		columns: []string{
			"job_id BIGINT NOT NULL",
			"db_name VARCHAR(64)", "table_name VARCHAR(64)", "job_type VARCHAR(64)", "schema_state VARCHAR(64)", "state VARCHAR(64)",
			"step VARCHAR(32)", "stage VARCHAR(32)", "wait_reason VARCHAR(1024)",
			"row_count BIGINT", "percent DOUBLE", "rows_per_second DOUBLE", "eta_seconds DOUBLE",
			"threads BIGINT", "workers BIGINT", "memory_bytes BIGINT", "temp_bytes BIGINT", "max_write_speed BIGINT", "write_speed BIGINT",
			"priority VARCHAR(32)", "snapshot_ts BIGINT UNSIGNED", "comparisons BIGINT", "repaired_keys BIGINT",
			"create_time TIMESTAMP(6) NULL", "start_time TIMESTAMP(6) NULL", "end_time TIMESTAMP(6) NULL",
			"error_count BIGINT", "error TEXT", "query LONGTEXT",
			"job_window VARCHAR(128)", "publish VARCHAR(16)", "restarts BIGINT",
			"stages JSON", "verify VARCHAR(16)",
			"user_name VARCHAR(320)", "conn_id BIGINT UNSIGNED", "program_name VARCHAR(128)", "settings JSON",
			"read_bytes BIGINT", "sorted_bytes BIGINT", "written_bytes BIGINT", "store_requests BIGINT", "store_cpu_seconds DOUBLE",
			"index_bytes BIGINT", "snapshot_age_seconds DOUBLE",
			"foreground_p99_before_ms DOUBLE", "foreground_p99_ms DOUBLE", "foreground_p99_during_ms DOUBLE",
			"held_seconds JSON", "waited_for JSON", "verified VARCHAR(32)", "last_error TEXT", "store_costs JSON",
			"submit_key VARCHAR(64)",
		},
	}
	pointsTable = reportTable{
		name: "fastddl_ddl_points", key: "job_id, second",
		columns: []string{
			"job_id BIGINT NOT NULL", "second BIGINT NOT NULL", "seconds DOUBLE", "stage VARCHAR(32)",
			"row_count BIGINT", "bytes BIGINT", "p99_ms DOUBLE",
		},
	}
	duplicatesTable = reportTable{
		name: "fastddl_ddl_duplicates", key: "job_id, number",
		columns: []string{
			"job_id BIGINT NOT NULL", "number BIGINT NOT NULL",
			"db_name VARCHAR(64)", "table_name VARCHAR(64)", "index_name VARCHAR(64)",
			"entry LONGTEXT", "row_count BIGINT", "row_handles LONGTEXT",
		},
	}
	errorRowsTable = reportTable{
		name: "fastddl_ddl_error_rows", key: "job_id, number",
		columns: []string{
			"job_id BIGINT NOT NULL", "number BIGINT NOT NULL",
			"db_name VARCHAR(64)", "table_name VARCHAR(64)", "index_name VARCHAR(64)",
			"error_code BIGINT", "message LONGTEXT", "shown_message LONGTEXT",
			"column_name LONGTEXT", "partition_name VARCHAR(64)", "row_handle LONGTEXT", "value LONGTEXT", "row_count BIGINT",
			"time TIMESTAMP(6) NULL",
		},
	}
	blockersTable = reportTable{
		name: "fastddl_ddl_blockers", key: "job_id, number",
		columns: []string{
			"job_id BIGINT NOT NULL", "number BIGINT NOT NULL",
			"conn_id BIGINT UNSIGNED", "user_name VARCHAR(64)", "db_name VARCHAR(64)", "start_time TIMESTAMP(6) NULL",
			"age_seconds DOUBLE", "idle_seconds DOUBLE", "written_keys BIGINT UNSIGNED", "verdict VARCHAR(256)", "statement LONGTEXT",
		},
	}
	// EndsTable has the end_time of jobs, HistoryTables have rows of jobs that have ended.
	EndsTable     = jobsTable.name
	HistoryTables = []string{jobsTable.name, pointsTable.name, duplicatesTable.name, errorRowsTable.name, commandsTable.name, records.SubmitsTable}
	reportTables  = []*reportTable{&jobsTable, &pointsTable, &duplicatesTable, &errorRowsTable, &blockersTable, &commandsTable}
)

// MaxWaitReason is the number of bytes of a reason that are shown.
const MaxWaitReason = 1024

func (r *reportTable) create() string {
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS mysql.%s (%s, PRIMARY KEY (%s) CLUSTERED)", r.name, strings.Join(r.columns, ", "), r.key)
}

// replace writes a row with values for all columns, in their order.
func (r *reportTable) replace() string { return r.replaceRows(1) }

// replaceRows is replace for several rows.
func (r *reportTable) replaceRows(n int) string {
	names, marks := make([]string, len(r.columns)), make([]string, len(r.columns))
	for i, definition := range r.columns {
		names[i], marks[i] = columnName(definition), "%?"
	}
	rows := make([]string, n)
	for i := range rows {
		rows[i] = "(" + strings.Join(marks, ", ") + ")"
	}
	return fmt.Sprintf("REPLACE INTO mysql.%s (%s) VALUES %s", r.name, strings.Join(names, ", "), strings.Join(rows, ", "))
}

// columnName is the name that a definition begins with.
func columnName(definition string) string {
	name, _, _ := strings.Cut(definition, " ")
	return name
}

// Tables are the tables for people.
type Tables struct {
	Sessions *session.Pool
	Domain   *domain.Domain
	Logger   *zap.Logger
}

// Make makes those that are not there. That is seen without asking the store.
func (r *Tables) Make(ctx context.Context) error {
	for _, t := range reportTables {
		if r.Domain.InfoSchema().TableExists(mysqlSchema, pmodel.NewCIStr(t.name)) {
			continue
		}
		if _, err := r.Sessions.Query(ctx, t.create()); err != nil {
			return fmt.Errorf("create mysql.%s: %w", t.name, err)
		}
	}
	return r.makeErrorsView(ctx)
}

// Widen adds the columns that an earlier release did not know.
func (r *Tables) Widen(ctx context.Context) error {
	for _, t := range reportTables {
		table, err := r.Domain.InfoSchema().TableByName(ctx, mysqlSchema, pmodel.NewCIStr(t.name))
		if err != nil {
			return err
		}
		for _, definition := range t.columns {
			if table.Meta().FindPublicColumnByName(columnName(definition)) != nil {
				continue
			}
			if _, err := r.Sessions.Query(ctx, "ALTER TABLE mysql."+t.name+" ADD COLUMN IF NOT EXISTS "+definition); err != nil {
				return fmt.Errorf("add a column to mysql.%s: %w", t.name, err)
			}
		}
	}
	return nil
}

var mysqlSchema = pmodel.NewCIStr(mysql.SystemDB)

// Unreported logs that tables for people cannot be used; what they were to show goes
// on.
func (r *Tables) Unreported(err error) {
	if err != nil {
		r.Logger.Warn("what shows index builds cannot be written or read; they go on", zap.Error(err))
	}
}

// ReportJob writes the job's row.
func ReportJob(t *session.Txn, j JobInfo) error {
	var eta, threads, workers, memory, temp, speed any
	if j.HasRemaining {
		eta = session.ShortNumber(j.Remaining.Seconds(), 1)
	}
	if b := j.Building; b != nil {
		threads, workers, memory, temp, speed = b.Threads, b.Workers, b.MemoryBytes, b.TempBytes, b.WriteSpeed
	}
	wait := j.WaitReason
	if j.HasRemaining && j.RemainingReason != "" {
		wait = strings.TrimPrefix(wait+"; "+j.RemainingReason, "; ")
	}
	if len(wait) > MaxWaitReason {
		wait = strings.ToValidUTF8(wait[:MaxWaitReason], "")
	}
	history, err := historyValues(j)
	if err != nil {
		return fmt.Errorf("encode the history of job %d: %w", j.ID, err)
	}
	loc := t.Session.GetSessionVars().Location()
	values := []any{
		j.ID, j.DB, j.Table, j.Type, j.SchemaState, j.State, j.Step, session.OrNull(j.Stage), session.OrNull(wait),
		j.RowCount, session.ShortNumber(j.Percent, 2), session.ShortNumber(j.RowsPerSecond, 1), eta,
		threads, workers, memory, temp, j.Settings.MaxWriteSpeed, speed,
		session.OrNull(j.Priority), session.OrNull(j.Snapshot), j.Compared, j.Repaired,
		session.TimeOrNull(j.CreateTime, loc), session.TimeOrNull(j.StartTime, loc), session.TimeOrNull(j.EndTime, loc),
		j.ErrorCount, session.OrNull(j.Error), j.Query,
		session.OrNull(j.Settings.Window), session.OrNull(j.Settings.Publish), j.Restarts,
	}
	return t.Exec(jobsTable.replace(), append(values, history...)...)
}

// reportBlockers writes the rows of the transactions that the job waits for.
func reportBlockers(t *session.Txn, j JobInfo) error {
	if err := t.Exec(`DELETE FROM mysql.fastddl_ddl_blockers WHERE job_id = %?`, j.ID); err != nil {
		return err
	}
	for i, b := range j.Blockers {
		if err := t.Exec(blockersTable.replace(),
			j.ID, i+1, b.ConnID, b.User, session.OrNull(b.DB), session.TimeOrNull(b.Started, t.Session.GetSessionVars().Location()),
			session.ShortNumber(b.Age.Seconds(), 3), session.ShortNumber(b.Idle.Seconds(), 3), b.Keys, b.Why, session.OrNull(strings.ToValidUTF8(b.SQL, "?"))); err != nil {
			return err
		}
	}
	return nil
}

// reportDuplicates writes the rows that a unique index was not built for.
func reportDuplicates(t *session.Txn, r *job.Record) error {
	for i, dup := range r.Duplicates {
		handles := strings.Join(dup.Handles, ", ")
		if int(dup.Rows) > len(dup.Handles) {
			handles += ", ..."
		}
		if err := t.Exec(duplicatesTable.replace(),
			r.ID, i+1, r.DB, r.Table, dup.Index, strings.ToValidUTF8(dup.Entry, "?"), dup.Rows, strings.ToValidUTF8(handles, "?")); err != nil {
			return err
		}
	}
	return nil
}

// ReportEnd writes the last row of a job, and the rows that it has failed for. It waits for no
// transaction any more.
func ReportEnd(t *session.Txn, r *job.Record, s job.Settings, v *View) error {
	info := DescribeEnd(r, s)
	if took := info.Took(); took > 0 {
		v.endPoints(took, r.History)
	}
	points, all := v.changedPoints()
	return errors.Join(reportDuplicates(t, r), reportErrorRows(t, r), reportBlockers(t, info), reportPoints(t, r.ID, points, all), ReportJob(t, info))
}

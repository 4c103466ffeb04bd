package sql

import (
	"slices"
	"strings"
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/information_schema"
	gmstypes "github.com/dolthub/go-mysql-server/sql/types"

	"fastddl/ddl/mdl"
	"fastddl/sql/sqlerr"
	"fastddl/sql/stmt"
)

const (
	ddlJobsName = "ddl_jobs"
	mdlViewName = "tidb_mdl_view"
)

// infoSchema is go-mysql-server's information_schema with tables of ours.
type infoSchema struct {
	gms.Database
	engine *Engine
	own    map[string]gms.Table
}

func (e *Engine) informationSchema(base gms.Database) gms.Database {
	return &infoSchema{Database: base, engine: e, own: map[string]gms.Table{
		ddlJobsName: &information_schema.InformationSchemaTable{
			TableName:   ddlJobsName,
			TableSchema: ddlJobsSchema,
			Reader:      func(ctx *gms.Context, _ gms.Catalog) (gms.RowIter, error) { return e.ddlJobs(ctx) },
		},
		duplicateEntriesName: &information_schema.InformationSchemaTable{
			TableName:   duplicateEntriesName,
			TableSchema: duplicateEntriesSchema,
			Reader:      func(ctx *gms.Context, _ gms.Catalog) (gms.RowIter, error) { return e.duplicateEntries(ctx) },
		},
		information_schema.StatisticsTableName: statisticsTable(),
		mdlViewName: &information_schema.InformationSchemaTable{
			TableName:   mdlViewName,
			TableSchema: mdlViewSchema,
			Reader:      func(ctx *gms.Context, _ gms.Catalog) (gms.RowIter, error) { return e.mdlView(ctx) },
		},
	}}
}

// GetTableInsensitive implements sql.Database.
func (d *infoSchema) GetTableInsensitive(ctx *gms.Context, name string) (gms.Table, bool, error) {
	if t, ok := d.own[strings.ToLower(name)]; ok {
		return t, true, nil
	}
	t, ok, err := d.Database.GetTableInsensitive(ctx, name)
	if err != nil || !ok {
		return nil, false, err
	}
	return d.engine.withGenerated(t), true, nil
}

// GetTableNames implements sql.Database.
func (d *infoSchema) GetTableNames(ctx *gms.Context) ([]string, error) {
	names, err := d.Database.GetTableNames(ctx)
	for name := range d.own {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

func ownSchema(table string, columns ...*gms.Column) gms.Schema {
	for _, c := range columns {
		c.Source = table
		c.DatabaseSource = gms.InformationSchemaDatabaseName
		c.Nullable = true
	}
	return columns
}

var ddlJobsSchema = ownSchema(ddlJobsName,
	&gms.Column{Name: "JOB_ID", Type: gmstypes.Int64},
	&gms.Column{Name: "DB_NAME", Type: gmstypes.LongText},
	&gms.Column{Name: "TABLE_NAME", Type: gmstypes.LongText},
	&gms.Column{Name: "JOB_TYPE", Type: gmstypes.LongText},
	&gms.Column{Name: "SCHEMA_STATE", Type: gmstypes.LongText},
	&gms.Column{Name: "SCHEMA_ID", Type: gmstypes.Int64},
	&gms.Column{Name: "TABLE_ID", Type: gmstypes.Int64},
	&gms.Column{Name: "ROW_COUNT", Type: gmstypes.Int64},
	&gms.Column{Name: "CREATE_TIME", Type: gmstypes.DatetimeMaxPrecision},
	&gms.Column{Name: "START_TIME", Type: gmstypes.DatetimeMaxPrecision},
	&gms.Column{Name: "END_TIME", Type: gmstypes.DatetimeMaxPrecision},
	&gms.Column{Name: "STATE", Type: gmstypes.LongText},
	&gms.Column{Name: "QUERY", Type: gmstypes.LongText},
	&gms.Column{Name: "COMMENTS", Type: gmstypes.LongText},
	&gms.Column{Name: "PERCENT", Type: gmstypes.Float64},
	&gms.Column{Name: "ROWS_PER_SECOND", Type: gmstypes.Int64},
	&gms.Column{Name: "ETA_SECONDS", Type: gmstypes.Float64},
	&gms.Column{Name: "STAGE", Type: gmstypes.LongText},
	&gms.Column{Name: "WAIT_REASON", Type: gmstypes.LongText},
	&gms.Column{Name: "PRIORITY", Type: gmstypes.LongText},
	&gms.Column{Name: "WORKERS", Type: gmstypes.Int64},
	&gms.Column{Name: "MAX_WORKERS", Type: gmstypes.Int64},
	&gms.Column{Name: "MEMORY_BYTES", Type: gmstypes.Int64},
	&gms.Column{Name: "MAX_MEMORY_BYTES", Type: gmstypes.Int64},
	&gms.Column{Name: "TEMP_BYTES", Type: gmstypes.Int64},
	&gms.Column{Name: "MAX_TEMP_BYTES", Type: gmstypes.Int64},
	&gms.Column{Name: "MAX_WRITE_SPEED", Type: gmstypes.Int64},
	&gms.Column{Name: "BATCH_SIZE", Type: gmstypes.Int64},
)

func (e *Engine) ddlJobs(ctx *gms.Context) (gms.RowIter, error) {
	jobs, err := e.ddl.Jobs(ctx)
	if err != nil {
		return nil, sqlerr.Translate(err)
	}
	rows := make([]gms.Row, 0, len(jobs))
	for _, j := range jobs {
		var eta any
		if j.ETA >= 0 && !j.Done {
			eta = j.ETA.Seconds()
		}
		rows = append(rows, append(gms.Row{
			j.ID, j.Schema, j.Table, j.Type, j.SchemaState, j.SchemaID, j.TableID, j.RowCount,
			localTime(ctx, j.Created), localTime(ctx, j.Started), localTime(ctx, j.Ended),
			j.State, j.Query, j.Comments, j.Percent, int64(j.RowsPerSecond), eta, j.Stage, j.WaitReason,
		}, buildingRow(&j)...))
	}
	return gms.RowsToRowIter(rows...), nil
}

// buildingRow is what a job has, for the columns from PRIORITY on; NULL where it
// is none that builds indexes.
func buildingRow(j *stmt.JobInfo) gms.Row {
	row := make(gms.Row, 9)
	if j.Priority != "" {
		row[0] = j.Priority
	}
	if b := j.Building; b != nil {
		copy(row[1:], gms.Row{
			int64(b.Workers), int64(b.MaxWorkers), b.MemoryBytes, part(b.MaxMemoryBytes),
			b.TempBytes, part(b.MaxTempBytes), b.MaxWriteSpeed, int64(b.BatchSize),
		})
	}
	return row
}

// part is a job's part of something, NULL while it has none.
func part(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

// mdlViewSchema has TiDB's columns, then ours.
var mdlViewSchema = ownSchema(mdlViewName,
	&gms.Column{Name: "job_id", Type: gmstypes.Int64},
	&gms.Column{Name: "db_name", Type: gmstypes.LongText},
	&gms.Column{Name: "table_name", Type: gmstypes.LongText},
	&gms.Column{Name: "query", Type: gmstypes.LongText},
	&gms.Column{Name: "session_id", Type: gmstypes.Uint64},
	&gms.Column{Name: "start_time", Type: gmstypes.DatetimeMaxPrecision},
	&gms.Column{Name: "SQL_DIGESTS", Type: gmstypes.LongText},
	&gms.Column{Name: "age_seconds", Type: gmstypes.Float64},
	&gms.Column{Name: "idle_seconds", Type: gmstypes.Float64},
	&gms.Column{Name: "state", Type: gmstypes.LongText},
)

// mdlView lists the transactions that DDL jobs wait for. Its column SQL_DIGESTS
// has the session's current or last statement, and state says whether it is
// running or the session is idle.
func (e *Engine) mdlView(ctx *gms.Context) (gms.RowIter, error) {
	blockers := e.locks.Blockers()
	if len(blockers) == 0 {
		return gms.RowsToRowIter(), nil
	}
	jobs, err := e.ddl.Jobs(ctx)
	if err != nil {
		return nil, sqlerr.Translate(err)
	}
	queries := make(map[int64]string, len(jobs))
	for _, j := range jobs {
		queries[j.ID] = j.Query
	}
	rows := make([]gms.Row, 0, len(blockers))
	for _, b := range blockers {
		rows = append(rows, gms.Row{
			b.JobID, b.DB, b.Table, queries[b.JobID], b.ConnID, localTime(ctx, b.TxnStart),
			b.SQL, b.Age.Seconds(), b.Idle.Seconds(), blockerState(b),
		})
	}
	return gms.RowsToRowIter(rows...), nil
}

func blockerState(b mdl.Blocker) string {
	switch {
	case b.Committing:
		return "committing"
	case b.Idle > 0:
		return "idle"
	}
	return "running"
}

// localTime is a time as the session's clock shows it; NULL for the zero time.
func localTime(ctx *gms.Context, t time.Time) any {
	if t.IsZero() {
		return nil
	}
	loc := time.UTC
	if s, err := sessionOf(ctx); err == nil {
		loc = s.Location()
	}
	t = t.In(loc)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond()/1000*1000, time.UTC)
}

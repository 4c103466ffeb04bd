package stmt

import (
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

func intColumn(name string) *gms.Column {
	return &gms.Column{Name: name, Type: types.Int64, Nullable: true}
}

func uintColumn(name string) *gms.Column { return &gms.Column{Name: name, Type: types.Uint64} }

func floatColumn(name string) *gms.Column {
	return &gms.Column{Name: name, Type: types.Float64, Nullable: true}
}

func textColumn(name string) *gms.Column {
	return &gms.Column{Name: name, Type: types.LongText, Nullable: true}
}

func timeColumn(name string) *gms.Column {
	return &gms.Column{Name: name, Type: types.Datetime, Nullable: true}
}

func textColumns(names ...string) gms.Schema {
	out := make(gms.Schema, 0, len(names))
	for _, name := range names {
		out = append(out, textColumn(name))
	}
	return out
}

// JobColumns are the columns of ADMIN SHOW DDL JOBS: TiDB's, then ours.
var JobColumns = gms.Schema{
	intColumn("JOB_ID"), textColumn("DB_NAME"), textColumn("TABLE_NAME"), textColumn("JOB_TYPE"),
	textColumn("SCHEMA_STATE"), intColumn("SCHEMA_ID"), intColumn("TABLE_ID"), intColumn("ROW_COUNT"),
	timeColumn("CREATE_TIME"), timeColumn("START_TIME"), timeColumn("END_TIME"), textColumn("STATE"), textColumn("COMMENTS"),
	floatColumn("PERCENT"), intColumn("ROWS_PER_SECOND"), textColumn("ETA"), textColumn("STAGE"), textColumn("WAIT_REASON"),
}

// JobRow is a job as a row of JobColumns, with times in the given zone.
func JobRow(j JobInfo, loc *time.Location) gms.Row {
	var eta any
	if j.ETA >= 0 && !j.Done {
		eta = j.ETA.Round(time.Second).String()
	}
	return gms.Row{
		j.ID, j.Schema, j.Table, j.Type,
		j.SchemaState, j.SchemaID, j.TableID, j.RowCount,
		wallTime(j.Created, loc), wallTime(j.Started, loc), wallTime(j.Ended, loc), j.State, j.Comments,
		j.Percent, int64(j.RowsPerSecond), eta, j.Stage, j.WaitReason,
	}
}

// wallTime is a time as a DATETIME value: what clocks show in loc, to the second,
// kept as UTC. The zero time is NULL.
func wallTime(t time.Time, loc *time.Location) any {
	if t.IsZero() {
		return nil
	}
	if loc != nil {
		t = t.In(loc)
	}
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

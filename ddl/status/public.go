package status

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/sqlexec"

	"fastddl/ddl/session"
	"fastddl/ddl/verdict"
)

// Public is a table for people as accounts see it that may not read schema mysql: some of its rows, and some of its values.
type Public struct {
	Name string
	// Columns are their definitions, each of which begins with the name.
	Columns []string

	source *reportTable
	// table are the names of the job's schema and table, as expressions over t, the table, and j, its job.
	table [2]string
	// needs are columns that hide reads.
	needs []string
	// hide takes away what the viewer may not see of a row. nil takes away nothing.
	hide func(v Viewer, r *publicRow)
}

// Viewer answers what the account may see that reads a public table.
type Viewer interface {
	// SeesTable says that it has a privilege on a table.
	SeesTable(db, table string) bool
	// MayRead says that it may SELECT from a table.
	MayRead(db, table string) bool
	// SeesSessions says that it sees the statements of an account.
	SeesSessions(user string) bool
}

const shownMessage = "shown_message"

// PublicTables returns the tables that all accounts may read.
func PublicTables() []*Public {
	ofRow, ofJob := [2]string{"t.db_name", "t.table_name"}, [2]string{"j.db_name", "j.table_name"}
	return []*Public{
		{Name: jobsTable.name, Columns: jobsTable.columns, source: &jobsTable, table: ofRow},
		{Name: pointsTable.name, Columns: pointsTable.columns, source: &pointsTable, table: ofJob},
		{
			Name: blockersTable.name, Columns: blockersTable.columns, source: &blockersTable, table: ofJob,
			needs: []string{"user_name"}, hide: hideSession,
		},
		{
			Name: verdict.ErrorsView, source: &errorRowsTable, table: ofRow,
			Columns: slices.DeleteFunc(slices.Clone(errorRowsTable.columns), func(c string) bool { return columnName(c) == shownMessage }),
			needs:   []string{"message", shownMessage, "row_handle", "value"}, hide: hideValues,
		},
		{Name: commandsTable.name, Columns: commandsTable.columns, source: &commandsTable, table: ofRow},
	}
}

// publicRow is a row that is read for an account.
type publicRow struct {
	db, table string
	values    []types.Datum
	at        map[string]int
}

func (r *publicRow) text(column string) string {
	if d := &r.values[r.at[column]]; !d.IsNull() {
		return d.GetString()
	}
	return ""
}

// conceal replaces the value of a column that is read by a question mark, unless it is NULL.
func (r *publicRow) conceal(column string) {
	if i, ok := r.at[column]; ok && !r.values[i].IsNull() {
		r.values[i] = types.NewStringDatum("?")
	}
}

// hideSession hides what a session does that a job waits for.
func hideSession(v Viewer, r *publicRow) {
	if v.SeesSessions(r.text("user_name")) {
		return
	}
	r.conceal("statement")
	r.conceal("db_name")
}

// hideValues hides values of rows.
func hideValues(v Viewer, r *publicRow) {
	if v.MayRead(r.db, r.table) {
		return
	}
	r.values[r.at["message"]] = r.values[r.at[shownMessage]]
	r.conceal("row_handle")
	r.conceal("value")
}

// rowsAtOnce is how many rows are read by one statement.
const rowsAtOnce = 500

// Needed says which rows a statement needs. Read leaves out others, of which there may be thousands, where that is cheap.
type Needed struct {
	// Job is the number of the only job; 0 is all.
	Job int64
	// Newest is how many jobs the statement returns, the newest first, of those below the number Before and in the state State, active or ended;
	// 0 is all. It is for the table of jobs.
	Newest, Before int64
	State          string
}

type neededKey struct{}

// With returns a context of a statement that needs these rows only.
func (n Needed) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, neededKey{}, n)
}

// leastPage is how many jobs are read at once at least: the account may not see all of them.
const leastPage = 50

// Read calls row for each row that the viewer sees, with the values of the columns, in order of the table's key, or the newest jobs first. Times are in loc. It
// stops when row returns an error, which it returns.
func (p *Public) Read(ctx context.Context, sessions *session.Pool, columns []string, v Viewer, loc *time.Location, row func(values []types.Datum, size int64) error) error {
	names := append([]string{}, columns...)
	at := make(map[string]int, len(columns))
	for _, name := range slices.Concat(columns, p.needs) {
		if _, ok := at[name]; !ok {
			if !slices.ContainsFunc(p.source.columns, func(c string) bool { return columnName(c) == name }) {
				return fmt.Errorf("%s has no column %s", p.Name, name)
			}
			at[name] = len(at)
			if len(at) > len(names) {
				names = append(names, name)
			}
		}
	}
	needed, _ := ctx.Value(neededKey{}).(Needed) // all without
	newest := needed.Newest > 0 && p.source == &jobsTable
	last, page, shown := []any{int64(math.MinInt64), int64(math.MinInt64)}, int64(rowsAtOnce), int64(0)
	switch {
	case needed.Job != 0:
		last[0] = needed.Job
	case newest:
		last[0], page = cmp.Or(needed.Before, math.MaxInt64), min(page, max(needed.Newest, leastPage))
	}
	text := p.query(names, needed, newest) + fmt.Sprintf(" LIMIT %d", page)
	for {
		n := int64(0)
		err := sessions.WithContext(func(sctx sessionctx.Context) error {
			rs, err := sctx.GetSQLExecutor().ExecuteInternal(session.Internal(ctx), text, last[:len(p.keys())]...)
			if err != nil {
				return err
			}
			chunks, err := sqlexec.DrainRecordSet(ctx, rs, rowsAtOnce)
			fields := rs.Fields()
			if err != nil {
				return closed(rs, err)
			}
			kinds := make([]*types.FieldType, len(fields))
			for i, f := range fields {
				kinds[i] = &f.Column.FieldType
			}
			here := sctx.GetSessionVars().Location()
			for _, c := range chunks {
				n++
				d := c.GetDatumRow(kinds)
				last[0] = d[0].GetInt64()
				last[1] = d[1].GetInt64()
				r := publicRow{db: textOf(d[2]), table: textOf(d[3]), values: d[4:], at: at}
				if d[2].IsNull() || d[3].IsNull() || !v.SeesTable(r.db, r.table) {
					continue
				}
				if p.hide != nil {
					p.hide(v, &r)
				}
				var size int64
				for i := range r.values[:len(columns)] {
					if err := inZone(&r.values[i], here, loc); err != nil {
						return closed(rs, err)
					}
					size += r.values[i].MemUsage()
				}
				if err := row(r.values[:len(columns)], size); err != nil {
					return closed(rs, err)
				}
				if shown++; newest && shown == needed.Newest {
					break
				}
			}
			return rs.Close()
		})
		if err != nil {
			return fmt.Errorf("read mysql.%s: %w", p.source.name, err)
		}
		if n < page || newest && shown == needed.Newest {
			return nil
		}
	}
}

func closed(rs sqlexec.RecordSet, err error) error {
	if closing := rs.Close(); err == nil {
		return closing
	}
	return err
}

func textOf(d types.Datum) string {
	if d.IsNull() {
		return ""
	}
	return d.GetString()
}

// inZone makes a time of one zone one of another.
func inZone(d *types.Datum, from, to *time.Location) error {
	if d.Kind() != types.KindMysqlTime {
		return nil
	}
	t := d.GetMysqlTime()
	if t.Type() != mysql.TypeTimestamp || t.IsZero() {
		return nil
	}
	if err := t.ConvertTimeZone(from, to); err != nil {
		return err
	}
	d.SetMysqlTime(t)
	return nil
}

// keys are the columns of the table's key: job_id, and maybe a second one.
func (p *Public) keys() []string { return strings.Split(p.source.key, ", ") }

// query reads rows that come after a key, or before that of a job: the key, the job's table, and columns. Without ORDER BY and another
// condition TiDB gets the only row of a job without its optimizer.
func (p *Public) query(names []string, needed Needed, newest bool) string {
	keys := p.keys()
	second, where := "t."+keys[len(keys)-1], "t.job_id > %? ORDER BY t.job_id"
	switch {
	case needed.Job != 0 && len(keys) == 1:
		where = "t.job_id = %?"
	case newest:
		where = map[string]string{"active": "t.end_time IS NULL AND ", "ended": "t.end_time IS NOT NULL AND "}[needed.State] + "t.job_id < %? ORDER BY t.job_id DESC"
	case needed.Job != 0:
		where = fmt.Sprintf("t.job_id = %%? AND %s > %%? ORDER BY %[1]s", second)
	case len(keys) > 1:
		where = fmt.Sprintf("(t.job_id, %s) > (%%?, %%?) ORDER BY t.job_id, %[1]s", second)
	}
	var list strings.Builder
	for _, name := range names {
		list.WriteString(", t.`" + name + "`")
	}
	join := ""
	if strings.HasPrefix(p.table[0], "j.") {
		join = " JOIN mysql." + jobsTable.name + " AS j ON j.job_id = t.job_id"
	}
	return fmt.Sprintf("SELECT t.job_id, %s, %s, %s%s FROM mysql.%s AS t%s WHERE %s",
		second, p.table[0], p.table[1], list.String(), p.source.name, join, where)
}

package api

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The statements of routes that ask. Tables of performance_schema show what the account may see.
const (
	selectJob      = "SELECT * FROM performance_schema.fastddl_ddl_jobs WHERE job_id = %?"
	selectPoints   = "SELECT * FROM performance_schema.fastddl_ddl_points WHERE job_id = %? ORDER BY second"
	selectErrors   = "SELECT * FROM performance_schema.fastddl_ddl_errors WHERE job_id = %? ORDER BY number"
	selectCommands = "SELECT * FROM performance_schema.fastddl_ddl_commands WHERE job_id = %? ORDER BY number"
	selectBlockers = "SELECT * FROM performance_schema.fastddl_ddl_blockers ORDER BY job_id, number"
	selectParts    = `SELECT part, round, state, holder, failures, stage, wait_reason, row_count, imported_rows, percent, rows_per_second,
	workers, error, updated FROM mysql.fastddl_build_parts WHERE job_id = %? ORDER BY part`
	selectLoad  = "SELECT * FROM performance_schema.fastddl_server_load ORDER BY time"
	selectNodes = `SELECT type, instance, status_address, version, git_hash, start_time, uptime FROM information_schema.cluster_info
	WHERE type = 'tidb' ORDER BY instance`
)

var (
	partColumns = []string{
		"part BIGINT", "round BIGINT", "state VARCHAR(16)", "holder VARCHAR(256)", "failures BIGINT", "stage VARCHAR(32)",
		"wait_reason VARCHAR(1024)", "row_count BIGINT", "imported_rows BIGINT", "percent DOUBLE", "rows_per_second DOUBLE", "workers BIGINT",
		"error TEXT", "updated TIMESTAMP",
	}
	nodeColumns = []string{
		"type VARCHAR(64)", "instance VARCHAR(64)", "status_address VARCHAR(64)", "version VARCHAR(64)", "git_hash VARCHAR(64)",
		"start_time VARCHAR(32)", "uptime VARCHAR(32)",
	}
	backupColumns = []string{
		"id BIGINT", "destination TEXT", "state VARCHAR(64)", "progress DOUBLE", "queue_time TIMESTAMP", "execution_time TIMESTAMP",
		"finish_time TIMESTAMP", "connection BIGINT", "message TEXT",
	}
	importColumns = []string{
		"job_id BIGINT", "data_source TEXT", "target_table TEXT", "table_id BIGINT", "phase TEXT", "status TEXT", "source_file_size TEXT",
		"imported_rows BIGINT", "result_message TEXT", "create_time TIMESTAMP", "start_time TIMESTAMP", "end_time TIMESTAMP", "created_by TEXT",
	}
)

// openInUTC opens a session whose times are those of UTC.
func openInUTC(ctx context.Context, account Account) (Session, error) {
	s, err := account.Open(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.Run(ctx, "SET SESSION time_zone = '+00:00'"); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// on calls fn with a session of the log-in.
func (c *call) on(fn func(s Session) error) error {
	leave, err := c.enter()
	if err != nil {
		return err
	}
	defer leave()
	s, err := c.api.logins.session(c.ctx, c.login)
	if err != nil {
		return err
	}
	if err := fn(s); err != nil {
		s.Close() // what it was doing is not known
		return err
	}
	c.api.logins.keep(c.login, s)
	return nil
}

// alone calls fn with a session that is not used again.
func (c *call) alone(fn func(s Session) error) error {
	leave, err := c.enter()
	if err != nil {
		return err
	}
	defer leave()
	s, err := c.login.account.Open(c.ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return fn(s)
}

// rows returns the rows of a statement.
func (c *call) rows(statement string, args ...any) ([]Row, error) {
	return c.rowsOn(Needed{}, statement, args...)
}

// rowsOn is rows for a statement that needs some rows only.
func (c *call) rowsOn(needed Needed, statement string, args ...any) (rows []Row, err error) {
	err = c.on(func(s Session) error {
		r, err := s.RunOn(c.ctx, needed, statement, args...)
		if err == nil {
			rows = r.objects()
		}
		return err
	})
	return rows, err
}

// run executes a statement that returns nothing to show.
func (c *call) run(statement string, args ...any) error {
	_, err := c.rows(statement, args...)
	return err
}

// first returns the only row of a statement that may return none.
func first(rows []Row) Row {
	if len(rows) == 0 {
		return Row{}
	}
	return rows[0]
}

// listOf is a route that returns the rows of a statement.
func listOf(statement string) func(c *call) (*answer, error) {
	return func(c *call) (*answer, error) {
		rows, err := c.rows(statement)
		return ok(rows), err
	}
}

// partsOf is the route of subtasks. Only a cluster has their table.
func partsOf(c *call) (*answer, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	if _, err := c.job(id); err != nil {
		return nil, err
	}
	rows, err := c.rows(selectParts, id)
	if known := new(SQLError); errors.As(err, &known) && known.Code == noSuchTable {
		return ok([]Row{}), nil
	}
	return ok(rows), err
}

// noSuchTable is ER_NO_SUCH_TABLE.
const noSuchTable = 1146

// rowsOfJob is a route that returns the rows of a job. One without rows may be none.
func rowsOfJob(statement string) func(c *call) (*answer, error) {
	return func(c *call) (*answer, error) {
		id, err := c.number("id")
		if err != nil {
			return nil, err
		}
		rows, err := c.rowsOn(Needed{Job: id}, statement, id)
		if err == nil && len(rows) == 0 {
			_, err = c.job(id)
		}
		return ok(rows), err
	}
}

// number is a part of the path.
func (c *call) number(name string) (int64, error) {
	text := c.r.PathValue(name)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, refuse(http.StatusNotFound, "%q is no number", text)
	}
	return n, nil
}

// jobRows returns the row of a job, or none.
func (c *call) jobRows(id int64) ([]Row, error) {
	return c.rowsOn(Needed{Job: id}, selectJob, id)
}

// job returns a job.
func (c *call) job(id int64) (Row, error) {
	rows, err := c.jobRows(id)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, refuse(http.StatusNotFound, "there is no index build %d, or the account has no privilege on its table", id)
	}
	return rows[0], nil
}

func (c *call) getJob() (*answer, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	row, err := c.job(id)
	return ok(row), err
}

func (c *call) listJobs() (*answer, error) {
	query := c.r.URL.Query()
	limit, before := int64(100), int64(-1)
	var err error
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.ParseInt(text, 10, 64); err != nil || limit < 1 || limit > 1000 {
			return nil, refuse(http.StatusBadRequest, "limit: %q is not a number from 1 to 1000", text)
		}
	}
	if text := query.Get("before"); text != "" {
		if before, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, refuse(http.StatusBadRequest, "before: %q is no number", text)
		}
	}
	where, args, needed := "TRUE", []any{}, Needed{Newest: limit, State: query.Get("state")}
	switch needed.State {
	case "":
	case "active":
		where = "end_time IS NULL"
	case "ended":
		where = "end_time IS NOT NULL"
	default:
		where, args, needed.Newest = "state = %?", []any{needed.State}, 0
	}
	if before >= 0 {
		where, args, needed.Before = where+" AND job_id < %?", append(args, before), before
	}
	rows, err := c.rowsOn(needed, "SELECT * FROM performance_schema.fastddl_ddl_jobs WHERE "+where+" ORDER BY job_id DESC LIMIT %?", append(args, limit)...)
	return ok(rows), err
}

func (c *call) followJob() (*answer, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	if _, err := c.job(id); err != nil {
		return nil, err
	}
	return nil, c.stream(id)
}

// command is a route that commands a job.
func command(statement string) func(c *call) (*answer, error) {
	return func(c *call) (*answer, error) {
		id, err := c.number("id")
		if err != nil {
			return nil, err
		}
		if err := c.on(func(s Session) error {
			r, err := s.Run(c.ctx, statement, id)
			if err != nil {
				return err
			}
			return commandError(r)
		}); err != nil {
			return nil, err
		}
		return c.shown(id)
	}
}

// shown is the answer with a job that was commanded. It may be one of TiDB's, which is not shown here.
func (c *call) shown(id int64) (*answer, error) {
	rows, err := c.jobRows(id)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return ok(Row{"job_id": id}), nil
	}
	return ok(rows[0]), nil
}

// alter executes ADMIN ALTER DDL JOBS.
func (c *call) alter(id int64, change alteration) (*answer, error) {
	var options []string
	args := []any{id}
	add := func(option string, value any) {
		options = append(options, option+" = %?")
		args = append(args, value)
	}
	if change.Thread != nil {
		add("THREAD", *change.Thread)
	}
	if change.BatchSize != nil {
		add("BATCH_SIZE", *change.BatchSize)
	}
	if change.MaxWriteSpeed != nil {
		add("MAX_WRITE_SPEED", *change.MaxWriteSpeed)
	}
	for name, value := range map[string]*string{"fastddl_ddl_window": change.Window, "fastddl_ddl_max_hold": change.MaxHold, "fastddl_ddl_publish": change.Publish} {
		if value != nil {
			add(name, *value)
		}
	}
	if len(options) == 0 {
		return nil, refuse(http.StatusBadRequest, "the body names no setting")
	}
	if err := c.run("ADMIN ALTER DDL JOBS %? "+strings.Join(options, ", "), args...); err != nil {
		return nil, err
	}
	return c.shown(id)
}

func (c *call) alterJob() (*answer, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	return c.alter(id, *c.body.(*alteration))
}

func (c *call) publishJob() (*answer, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	now := "now"
	return c.alter(id, alteration{Publish: &now})
}

func (c *call) getSettings() (*answer, error) {
	names := make([]string, len(c.api.opts.Settings))
	for i, s := range c.api.opts.Settings {
		names[i] = s.Name
	}
	values := make(map[string]string, len(names))
	if err := c.on(func(s Session) error {
		r, err := s.Run(c.ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN (%?)", names)
		if err != nil {
			return err
		}
		for _, row := range r.Rows {
			name, _ := row[0].(string)
			values[name], _ = row[1].(string)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	out := make([]SettingValue, 0, len(names))
	for _, s := range c.api.opts.Settings {
		if value, ok := values[s.Name]; ok {
			out = append(out, SettingValue{Name: s.Name, Value: value, Default: s.Default, Kind: s.Kind, Values: s.Values, Doc: s.Doc})
		}
	}
	return ok(out), nil
}

func (c *call) setSettings() (*answer, error) {
	var assignments []string
	var args []any
	for name, value := range *c.body.(*settingValues) {
		if !slices.ContainsFunc(c.api.opts.Settings, func(s Setting) bool { return s.Name == name }) {
			return nil, refuse(http.StatusBadRequest, "%q is no setting of builds: see GET %ssettings", name, Prefix)
		}
		if value == nil {
			return nil, refuse(http.StatusBadRequest, "the value of %s is null", name)
		}
		assignments = append(assignments, "GLOBAL %n = %?")
		args = append(args, name, *value)
	}
	if len(args) == 0 {
		return nil, refuse(http.StatusBadRequest, "the body names no setting")
	}
	if err := c.run("SET "+strings.Join(assignments, ", "), args...); err != nil {
		return nil, err
	}
	return c.getSettings()
}

func (c *call) endBlocker() (*answer, error) {
	id, err := c.number("connection")
	if err != nil {
		return nil, err
	}
	rows, err := c.rows(selectBlockers)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(rows, func(r Row) bool { return connection(r["conn_id"]) == id }) {
		return nil, refuse(http.StatusNotFound, "no index build waits for connection %d, or the account has no privilege on its table", id)
	}
	if err := c.run("KILL TIDB %?", id); err != nil {
		return nil, err
	}
	return ok(Done{true}), nil
}

// connection is a connection's number in a row.
func connection(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case uint64:
		return int64(n)
	}
	return -1
}

func (c *call) getImport() (*answer, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	rows, err := c.rows("SHOW IMPORT JOB %?", id)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, refuse(http.StatusNotFound, "there is no import %d", id)
	}
	return ok(rows[0]), nil
}

// optionName is a name of an option of IMPORT INTO.
var optionName = regexp.MustCompile(`^[a-zA-Z_]{1,64}$`)

// numberOptions are the options of IMPORT INTO that take a number; others take text, though it looks like one.
var numberOptions = []string{"skip_rows", "thread", "record_errors"}

func (c *call) startImport() (*answer, error) {
	b := c.body.(*importing)
	text, args := "IMPORT INTO %n.%n FROM %?", []any{b.Schema, b.Table, b.Source}
	if b.Format != "" {
		text, args = text+" FORMAT %?", append(args, b.Format)
	}
	text += " WITH DETACHED"
	for name, value := range b.Options {
		if !optionName.MatchString(name) {
			return nil, refuse(http.StatusBadRequest, "%q is no option of IMPORT INTO", name)
		}
		if strings.EqualFold(name, "detached") {
			continue
		}
		text += ", " + name
		if value == "" {
			continue
		}
		var literal any = value
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && slices.Contains(numberOptions, strings.ToLower(name)) {
			literal = n
		}
		text, args = text+" = %?", append(args, literal)
	}
	rows, err := c.rows(text, args...)
	return &answer{http.StatusAccepted, first(rows)}, err
}

func (c *call) cancelImport() (*answer, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	if err := c.run("CANCEL IMPORT JOB %?", id); err != nil {
		return nil, err
	}
	return ok(Done{true}), nil
}

func (c *call) takeBackup() (*answer, error) {
	b := c.body.(*backingUp)
	text, args := "BACKUP DATABASE * TO %?", []any{b.Destination}
	if b.RateLimit != 0 {
		text, args = text+" RATE_LIMIT = %? MB/SECOND", append(args, b.RateLimit)
	}
	rows, err := c.rows(text, args...)
	return ok(first(rows)), err
}

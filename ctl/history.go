package ctl

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"fastddl/internal/terminal"
)

// History lists the builds that have ended, the latest first, at most limit.
func (c *Client) History(ctx context.Context, limit int) error {
	condition := "end_time IS NOT NULL"
	if c.JSON {
		return c.objects(ctx, fmt.Sprintf("SELECT * FROM %s WHERE %s ORDER BY job_id DESC LIMIT %d", jobsTable, condition, limit))
	}
	r, err := ask(ctx, c.db, fmt.Sprintf("SELECT job_id, CONCAT(db_name, '.', table_name), state, DATE_FORMAT(start_time, '%%Y-%%m-%%d %%H:%%i:%%s'), "+
		"TIMESTAMPDIFF(MICROSECOND, start_time, end_time) / 1e6, row_count, index_bytes, COALESCE(error, query) FROM %s WHERE %s ORDER BY job_id DESC LIMIT %d", jobsTable, condition, limit))
	if err != nil {
		return err
	}
	if len(r.rows) == 0 {
		c.say("no index build has ended")
		return nil
	}
	rows := r.text()
	for _, row := range rows {
		for i, show := range map[int]func(float64) string{4: span, 5: count, 6: size} {
			if n, err := strconv.ParseFloat(row[i], 64); err == nil {
				row[i] = show(n)
			}
		}
	}
	c.table([]string{"JOB", "TABLE", "STATE", "STARTED", "TOOK", "ROWS", "INDEX", "ERROR OR STATEMENT"}, rows)
	return nil
}

// details are queries about one job, with the name of each in JSON and for people.
var details = []struct{ key, title, query string }{
	{"errors", "rows that the index cannot have", "SELECT index_name, error_code, message, column_name, row_handle, value, row_count FROM performance_schema.fastddl_ddl_errors WHERE job_id = ? ORDER BY number"},
	{"commands", "commands", "SELECT * FROM performance_schema.fastddl_ddl_commands WHERE job_id = ?"},
	{"points", "", "SELECT * FROM performance_schema.fastddl_ddl_points WHERE job_id = ? ORDER BY second"},
}

// Show shows all that the server has kept of a build.
func (c *Client) Show(ctx context.Context, id int64) error {
	job, err := ask(ctx, c.db, "SELECT * FROM "+jobsTable+" WHERE job_id = ?", id)
	if err != nil {
		return err
	}
	if len(job.rows) == 0 {
		return fmt.Errorf("job %d is no index build, or none that this user may see", id)
	}
	all := map[string]any{"job": object{job, 0}}
	if !c.JSON {
		width := 0
		for _, name := range job.columns {
			width = max(width, len(name))
		}
		for i, name := range job.columns {
			if cell := job.rows[0][i]; cell.Valid && cell.String != "" {
				_, _ = fmt.Fprintf(c.Out, "%*s: %s\n", width, name, terminal.Clean(cell.String))
			}
		}
	}
	for _, d := range details {
		r, err := ask(ctx, c.db, d.query, id)
		if err != nil {
			return fmt.Errorf("%s: %w", d.key, err)
		}
		if all[d.key] = r.objects(); !c.JSON && d.title != "" && len(r.rows) > 0 {
			c.say("")
			c.say("%s:", d.title)
			header := make([]string, len(r.columns))
			for i, name := range r.columns {
				header[i] = strings.ToUpper(name)
			}
			c.table(header, r.text())
		}
	}
	if c.JSON {
		return writeJSON(c.Out, all)
	}
	return nil
}

package demo

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
)

// buildResult is what the client saw of the index build.
type buildResult struct {
	elapsed time.Duration // from sending the ALTER to its OK
	rows    int64         // rows the job says it has read
}

const (
	pollEvery  = 100 * time.Millisecond
	plainEvery = time.Second
)

// addIndex runs the ALTER and shows how far it is until it ends.
func (d *demo) addIndex(ctx context.Context) (buildResult, error) {
	d.say("%s", addIndexSQL)
	start := time.Now()
	done := make(chan error, 1)
	go func() {
		_, err := d.db.ExecContext(ctx, addIndexSQL)
		done <- err
	}()
	show := d.progressView()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			elapsed := time.Since(start)
			if err != nil {
				show.end(false)
				return buildResult{}, err
			}
			show.end(true)
			job, err := d.lastJob(ctx)
			return buildResult{elapsed: elapsed, rows: job.rows}, err
		case <-ticker.C:
			// The job may not be in the queue yet, or the server be stopping;
			// the end of the ALTER says what happened.
			if job, err := d.lastJob(ctx); err == nil && job.rows > 0 {
				show.update(job)
			}
		}
	}
}

// jobProgress is one look at a job in information_schema.ddl_jobs.
type jobProgress struct {
	state   string
	rows    int64
	percent float64
	speed   string
	eta     string
}

// lastJob looks at the newest ADD INDEX job.
func (d *demo) lastJob(ctx context.Context) (jobProgress, error) {
	rows, err := queryRows(ctx, d.db, "ADMIN SHOW DDL JOBS 1")
	if err != nil {
		return jobProgress{}, err
	}
	if len(rows) == 0 {
		return jobProgress{}, sql.ErrNoRows
	}
	r := rows[0]
	n, err := strconv.ParseInt(r.get("ROW_COUNT"), 10, 64)
	if err != nil {
		return jobProgress{}, fmt.Errorf("ROW_COUNT of the job: %w", err)
	}
	percent, _ := strconv.ParseFloat(strings.TrimSuffix(r.get("PERCENT"), "%"), 64) // empty until known
	return jobProgress{state: r.get("SCHEMA_STATE"), rows: n, percent: percent, speed: r.get("ROWS_PER_SECOND"), eta: r.get("ETA")}, nil
}

// progressView shows the progress of the build.
type progressView interface {
	update(jobProgress)
	end(ok bool)
}

func (d *demo) progressView() progressView {
	if d.Terminal {
		return &barView{out: d.Out, bar: progressbar.NewOptions64(int64(d.Rows),
			progressbar.OptionSetWriter(d.Out),
			progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(true),
			progressbar.OptionThrottle(pollEvery),
			progressbar.OptionShowCount(),
		)}
	}
	return &plainView{d: d}
}

// barView is a bar that moves on a terminal.
type barView struct {
	out io.Writer
	bar *progressbar.ProgressBar
}

func (v *barView) update(j jobProgress) {
	v.bar.Describe(fmt.Sprintf("%s, %s rows/s, ETA %s", j.state, j.speed, j.eta))
	_ = v.bar.Set64(min(j.rows, v.bar.GetMax64())) // fails only past the maximum
}

func (v *barView) end(ok bool) {
	if ok {
		_ = v.bar.Finish()
	} else {
		_ = v.bar.Exit()
	}
	fmt.Fprintln(v.out)
}

// plainView prints a line now and then.
type plainView struct {
	d    *demo
	last time.Time
}

func (v *plainView) update(j jobProgress) {
	if time.Since(v.last) < plainEvery {
		return
	}
	v.last = time.Now()
	v.d.say("  %s: %d of %d rows (%.0f%%), %s rows/s, ETA %s", j.state, j.rows, v.d.Rows, j.percent, j.speed, j.eta)
}

func (v *plainView) end(bool) {}

// namedRow is a row of a result set with its column names.
type namedRow struct {
	columns []string
	values  []string
}

// get returns a column's value by case-insensitive name, "" if it is NULL or
// not there.
func (r namedRow) get(name string) string {
	for i, c := range r.columns {
		if strings.EqualFold(c, name) {
			return r.values[i]
		}
	}
	return ""
}

// queryRows runs a query whose columns are not known beforehand.
func queryRows(ctx context.Context, db *sql.DB, query string) ([]namedRow, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var out []namedRow
	for rows.Next() {
		cells := make([]sql.NullString, len(columns))
		dest := make([]any, len(columns))
		for i := range cells {
			dest[i] = &cells[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		values := make([]string, len(columns))
		for i := range cells {
			values[i] = cells[i].String
		}
		out = append(out, namedRow{columns: columns, values: values})
	}
	return out, rows.Err()
}

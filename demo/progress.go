package demo

import (
	"context"
	"database/sql"
	"fmt"
	"io"
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
	plainEvery = 500 * time.Millisecond
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
			if job, err := d.lastJob(ctx); err == nil && job.rowsPerSecond > 0 {
				show.update(job)
			}
		}
	}
}

// jobProgress is one look at a job in information_schema.ddl_jobs.
type jobProgress struct {
	// stage is what the build does, or the schema state when it does nothing.
	stage         string
	rows          int64
	percent       float64
	rowsPerSecond float64
	eta           string
}

const lastJobSQL = `SELECT CASE WHEN STAGE <> '' THEN STAGE ELSE SCHEMA_STATE END, ROW_COUNT, PERCENT, ROWS_PER_SECOND, ETA_SECONDS
	FROM information_schema.ddl_jobs ORDER BY JOB_ID DESC LIMIT 1`

// lastJob looks at the newest job.
func (d *demo) lastJob(ctx context.Context) (jobProgress, error) {
	var (
		j   jobProgress
		eta sql.NullFloat64
	)
	err := d.db.QueryRowContext(ctx, lastJobSQL).Scan(&j.stage, &j.rows, &j.percent, &j.rowsPerSecond, &eta)
	if err != nil {
		return jobProgress{}, fmt.Errorf("look at the job: %w", err)
	}
	j.eta = "unknown"
	if eta.Valid {
		j.eta = fmt.Sprintf("%.1f s", eta.Float64)
	}
	return j, nil
}

// progressView shows the progress of the build.
type progressView interface {
	update(jobProgress)
	end(ok bool)
}

func (d *demo) progressView() progressView {
	if d.Terminal {
		return &barView{out: d.Out, rows: d.Rows, bar: progressbar.NewOptions(barSteps,
			progressbar.OptionSetWriter(d.Out),
			progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(false), // the job predicts it
			progressbar.OptionSetElapsedTime(false),
			progressbar.OptionUseANSICodes(true),
		)}
	}
	return &plainView{d: d}
}

// barSteps is how fine the bar is.
const barSteps = 1000

// barView is a bar that moves on a terminal.
type barView struct {
	out  io.Writer
	rows int
	bar  *progressbar.ProgressBar
}

func (v *barView) update(j jobProgress) {
	v.bar.Describe(fmt.Sprintf("  %-6s %d of %d rows, %.0f rows/s, ETA %s", j.stage, j.rows, v.rows, j.rowsPerSecond, j.eta))
	_ = v.bar.Set(min(int(j.percent/100*barSteps), barSteps)) // fails only past the maximum
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
	v.d.say("  %s: %d of %d rows (%.0f%%), %.0f rows/s, ETA %s", j.stage, j.rows, v.d.Rows, j.percent, j.rowsPerSecond, j.eta)
}

func (v *plainView) end(bool) {}

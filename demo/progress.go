package demo

import (
	"context"
	"fmt"
	"time"

	"fastddl/internal/terminal"
)

// buildResult is what the client saw of the index build.
type buildResult struct {
	elapsed time.Duration // from sending the ALTER to its OK
	rows    int64         // rows the build says it has read
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
			return buildResult{elapsed: elapsed, rows: d.server.LastBuild().Rows}, nil
		case <-ticker.C:
			if job, ok := d.progress(); ok {
				show.update(job)
			}
		}
	}
}

// jobProgress is how far an index build is.
type jobProgress struct {
	// stage is what the build does, or the schema state when it does nothing.
	stage         string
	rows          int64
	percent       float64
	rowsPerSecond float64
	eta           string
}

// progress is how far the index build is; false if there is none.
func (d *demo) progress() (jobProgress, bool) {
	jobs := d.server.Node().UnfinishedJobs()
	if len(jobs) == 0 {
		return jobProgress{}, false
	}
	j := jobs[len(jobs)-1]
	p := jobProgress{stage: j.Stage, rows: j.RowCount, percent: j.Percent, rowsPerSecond: j.RowsPerSecond, eta: "unknown"}
	if p.stage == "" {
		p.stage = j.SchemaState
	}
	if j.HasRemaining {
		p.eta = fmt.Sprintf("%.1f s", j.Remaining.Seconds())
	}
	return p, true
}

// progressView shows the progress of the build.
type progressView interface {
	update(jobProgress)
	end(ok bool)
}

func (d *demo) progressView() progressView {
	if d.Terminal {
		return &barView{rows: d.Rows, bar: terminal.NewBar(d.Out)}
	}
	return &plainView{d: d}
}

// barView is a bar that moves on a terminal.
type barView struct {
	rows int
	bar  *terminal.Bar
}

func (v *barView) update(j jobProgress) {
	v.bar.Draw(j.percent/100, fmt.Sprintf("  %-6s", j.stage), fmt.Sprintf("%d rows, ETA %s", j.rows, j.eta))
}

// end leaves one line: the whole bar, or where the build has ended with an error.
func (v *barView) end(ok bool) {
	if ok {
		v.bar.Draw(1, "  done  ", fmt.Sprintf("%d rows", v.rows))
	}
	v.bar.End()
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

package demo

import (
	"context"
	"fmt"
	"time"

	"fastddl/internal/errs"
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
	elapsed, err := d.watched("done", func() error {
		_, err := d.db.ExecContext(ctx, addIndexSQL)
		return err
	}, d.progress)
	if err != nil {
		return buildResult{}, err
	}
	return buildResult{elapsed: elapsed, rows: d.server.LastBuild().Rows}, nil
}

// watched runs something and shows how far it is until it ends: what progress returns, if that is true, and at the end the word done.
func (d *demo) watched(done string, run func() error, progress func() (jobProgress, bool)) (elapsed time.Duration, err error) {
	start := time.Now()
	result := make(chan error, 1)
	go func() {
		result <- func() (err error) {
			defer errs.Contain(&err)
			return run()
		}()
	}()
	show := d.progressView(done)
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-result:
			show.end(err == nil)
			return time.Since(start), err
		case <-ticker.C:
			if job, ok := progress(); ok {
				job.fill(time.Since(start))
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

// fill adds an average and an estimate where a job has none of its own.
func (p *jobProgress) fill(elapsed time.Duration) {
	if p.eta != "" {
		return
	}
	p.rowsPerSecond, p.eta = float64(p.rows)/elapsed.Seconds(), "unknown"
	if p.percent > 0 {
		p.eta = fmt.Sprintf("%.1f s", elapsed.Seconds()*max(0, 100-p.percent)/p.percent)
	}
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

func (d *demo) progressView(done string) progressView {
	if d.Terminal {
		return &barView{done: done, rows: d.Rows, bar: terminal.NewBar(d.Out)}
	}
	return &plainView{d: d}
}

// barView is a bar that moves on a terminal.
type barView struct {
	done string
	rows int
	bar  *terminal.Bar
}

func (v *barView) update(j jobProgress) {
	v.bar.Draw(j.percent/100, barTitle(j.stage), fmt.Sprintf("%d rows, ETA %s", j.rows, j.eta))
}

// barTitle is the title of a bar; those of stages are as wide.
func barTitle(stage string) string { return fmt.Sprintf("  %-6s", stage) }

// end leaves one line: the whole bar, or where the build has ended with an error.
func (v *barView) end(ok bool) {
	if ok {
		v.bar.Draw(1, barTitle(v.done), fmt.Sprintf("%d rows", v.rows))
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

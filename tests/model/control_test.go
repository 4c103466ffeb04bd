package model

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pingcap/tidb/pkg/errno"

	"fastddl/config"
	"fastddl/ddl"
	"fastddl/ddl/builder"
	"fastddl/internal/errs"
)

// control does to running jobs what operators and misfortune do. When ctx has
// ended it only lets the jobs end, until finished is closed.
func (n *node) control(ctx context.Context, finished <-chan struct{}) error {
	background := context.WithoutCancel(ctx)
	for {
		select {
		case <-finished:
			return nil
		case <-time.After(time.Duration(n.dice.intn(int(n.unrest)))):
		}
		if n.down() {
			if err := n.restart(background); err != nil {
				return err
			}
		}
		var err error
		if ctx.Err() == nil {
			err = n.interfere(background)
		} else {
			n.faulty.off.Store(true)
			_, err = n.resumeAll(background)
		}
		if err != nil {
			return err
		}
	}
}

func (n *node) interfere(ctx context.Context) error {
	switch x := n.dice.intn(100); {
	case x < 20:
		return n.pauseAndResume(ctx)
	case x < 22:
		return n.request(ctx, (*ddl.DDL).Cancel)
	case x < 50:
		n.changeVariable()
	case x < 53 && n.mayCrash:
		return n.restart(ctx)
	case x < 55 && n.mayLoseFiles:
		n.journal.add("the temp folder is removed")
		// Builds may put new files in meanwhile, so that it fails.
		_ = os.RemoveAll(n.tempDir)
	}
	return nil
}

// pauseAndResume pauses a job for a moment.
func (n *node) pauseAndResume(ctx context.Context) error {
	if err := n.request(ctx, (*ddl.DDL).Pause); err != nil {
		return err
	}
	time.Sleep(time.Duration(n.dice.intn(30)) * time.Millisecond)
	for start := time.Now(); time.Since(start) < patience; {
		paused, err := n.resumeAll(ctx)
		if err != nil || !paused {
			return err
		}
	}
	jobs, _, err := n.jobs(ctx)
	return errs.Also(fmt.Errorf("jobs stay paused: %+v", jobs), err)
}

// resumeAll resumes all jobs that are paused, or about to be, and says whether
// there may be some.
func (n *node) resumeAll(ctx context.Context) (some bool, err error) {
	if n.down() {
		if err := n.restart(ctx); err != nil {
			return false, err
		}
	}
	jobs, known, err := n.jobs(ctx)
	if err != nil {
		return false, err
	}
	some = !known
	for _, j := range jobs {
		if j.State == "paused" || j.State == "pausing" {
			some = true
			err = errors.Join(err, n.requestOf(ctx, (*ddl.DDL).Resume, j.ID))
		}
	}
	return some, err
}

type request func(d *ddl.DDL, ctx context.Context, ids []int64) []error

// request asks something of a job that has not ended.
func (n *node) request(ctx context.Context, r request) error {
	jobs, _, err := n.jobs(ctx)
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(j ddl.JobInfo) bool { return ended(&j) })
	if len(jobs) == 0 {
		return nil
	}
	return n.requestOf(ctx, r, jobs[n.dice.intn(len(jobs))].ID)
}

// refusals are the errors of requests that come at the wrong time: the job has
// ended, or cannot be undone any more, or is on its way back.
var refusals = []int{
	errno.ErrCancelFinishedDDLJob, errno.ErrCannotCancelDDLJob, errno.ErrDDLJobNotFound,
	errno.ErrCannotPauseDDLJob, errno.ErrPausedDDLJob, errno.ErrCannotResumeDDLJob, errno.ErrNotOwner,
}

func (n *node) requestOf(ctx context.Context, r request, id int64) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	err := r(n.ddl, ctx, []int64{id})[0]
	if err == nil || errors.Is(err, errInjected) || errors.Is(err, ddl.ErrClosed) {
		return nil
	}
	if te, ok := builder.AsTerror(err); ok && slices.Contains(refusals, int(te.Code())) {
		return nil
	}
	return err
}

// changeVariable sets a global variable.
func (n *node) changeVariable() {
	switch n.dice.intn(5) {
	case 0:
		n.setRandomly(config.ReorgWorkerCount, "1", "2", "4", "16")
	case 1:
		n.setRandomly(config.EnableFastReorg, "ON", "ON", "ON", "OFF")
	case 2:
		n.setRandomly(config.EnableMetadataLock, "ON", "ON", "OFF")
	case 3:
		n.setRandomly(config.ReorgMaxWriteSpeed, "0", "0", "1MiB", "100KiB")
	case 4:
		n.setRandomly(config.ReorgBatchSize, "32", "256")
	}
}

// setRandomly sets a variable to one of the values, which are all valid.
func (n *node) setRandomly(name string, values ...string) {
	if _, _, err := n.globals.Set(name, values[n.dice.intn(len(values))]); err != nil {
		panic(err)
	}
}

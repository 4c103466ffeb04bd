package runner

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"fastddl/benchmarks/peer"
	"fastddl/benchmarks/result"
	"fastddl/benchmarks/usage"
)

// measureAlone adds the indexes of each case once, with nothing beside it.
func (r *runner) measureAlone(ctx context.Context, h *host, s peer.System, round int) error {
	if err := s.Prepare(ctx); err != nil {
		return fmt.Errorf("prepare %s: %w", s.Name(), err)
	}
	cases := r.Cases
	if s.Traits().Baseline {
		cases = cases[:1]
	}
	for _, name := range cases {
		c, err := peer.CaseNamed(name)
		if err != nil {
			return err
		}
		if r.outOfTime() || r.hasFailed(s, h.rows, name) {
			continue
		}
		run := result.Run{System: s.Name(), Rows: h.rows, Case: name, Round: round}
		if err := r.addAlone(ctx, h, s, c, &run); err != nil {
			return err
		}
		if err := r.keep(run); err != nil {
			return err
		}
	}
	return nil
}

// hasFailed reports whether the system has failed at this before: it would take
// the time once more.
func (r *runner) hasFailed(s peer.System, rows int, name string) bool {
	return slices.ContainsFunc(r.res.Runs, func(run result.Run) bool {
		return run.System == s.Name() && run.Rows == rows && run.Case == name && run.Failed != ""
	})
}

// addAlone fills in the run. Its error is one of the server; one of the
// statement is in the run.
func (r *runner) addAlone(ctx context.Context, h *host, s peer.System, c peer.Case, run *result.Run) error {
	if err := usage.WaitIdle(ctx, h.PID(), r.IdleTime); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, r.StatementTime)
	defer cancel()
	tools := childrenCPU()
	used, err := usage.Measure(h.PID(), func() error {
		start := time.Now()
		err := s.AddIndex(limited, c)
		run.Seconds = []float64{time.Since(start).Seconds()}
		return err
	})
	if err != nil {
		run.Seconds, run.Failed = nil, err.Error()
		r.say("%s: %s: failed: %v", s.Name(), c.Name, err)
	} else {
		run.CPUSeconds = (used.CPU + childrenCPU() - tools).Seconds()
		run.PeakMemoryBytes = used.PeakMemory
		r.say("%s: %s: %.2f s, CPU %.2f s, %d MiB", s.Name(), c.Name, run.Seconds[0], run.CPUSeconds, run.PeakMemoryBytes>>20)
	}
	if err := s.DropIndex(ctx, c); err != nil {
		return fmt.Errorf("drop the indexes of %s: %w", c.Name, err)
	}
	return nil
}

// childrenCPU is the CPU time of the processes that the benchmark has waited
// for: what a tool that adds the index from outside takes.
func childrenCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0 // it has no way to fail but wrong arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// keep puts a run into the result, and saves that.
func (r *runner) keep(run result.Run) error {
	r.res.Runs = append(r.res.Runs, run)
	return r.Save(r.res)
}

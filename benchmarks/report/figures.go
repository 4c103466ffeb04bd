package report

import (
	"fastddl/benchmarks/result"
	"fastddl/internal/stats"
)

// own is the system that the others are compared with, plainest the case that
// the others are compared with.
const (
	own      = "fastddl"
	plainest = "int"
)

// figures looks up medians in a result.
type figures struct {
	*result.Peers
}

// alone are the runs without load.
func (f figures) alone(system string, rows int, name string) (runs []result.Run) {
	for _, r := range f.Runs {
		if r.System == system && r.Rows == rows && r.Case == name && r.Load == nil {
			runs = append(runs, r)
		}
	}
	return runs
}

// loaded are the runs under a share of the capacity.
func (f figures) loaded(system string, rows int, name string, share float64) (runs []result.Run) {
	for _, r := range f.Runs {
		if r.System == system && r.Rows == rows && r.Case == name && r.Load != nil && r.Load.Share == share {
			runs = append(runs, r)
		}
	}
	return runs
}

// spread sums up a figure of the runs that did not fail.
func spread(runs []result.Run, figure func(result.Run) float64) stats.Spread {
	var values []float64
	for _, r := range runs {
		if r.Failed == "" {
			values = append(values, figure(r))
		}
	}
	return stats.SpreadOf(values)
}

// seconds sums up all ADD INDEX of the runs that did not fail.
func seconds(runs []result.Run) stats.Spread {
	var values []float64
	for _, r := range runs {
		if r.Failed == "" {
			values = append(values, r.Seconds...)
		}
	}
	return stats.SpreadOf(values)
}

// failure is why the runs failed, where any did.
func failure(runs []result.Run) string {
	for _, r := range runs {
		if r.Failed != "" {
			return r.Failed
		}
	}
	return ""
}

// secondsAlone is the median without load.
func (f figures) secondsAlone(system string, rows int, name string) float64 {
	return seconds(f.alone(system, rows, name)).Median
}

// measured are the systems that were not skipped.
func (f figures) measured() (systems []result.System) {
	for _, s := range f.Systems {
		if s.Skipped == "" {
			systems = append(systems, s)
		}
	}
	return systems
}

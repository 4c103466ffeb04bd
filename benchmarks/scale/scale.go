package scale

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"fastddl/benchmarks/result"
	"fastddl/internal/stats"
)

// Options say what is measured. The zero value of each field is its default.
type Options struct {
	// FastDDL is the project's binary; needed.
	FastDDL string
	// Dir is where temporary folders are made; default is the system's.
	Dir string
	// Rows are the sizes at one worker per core; default is 1, 2, 5, 10, 20 and 50
	// million.
	Rows []int
	// Workers are the numbers of workers at the size WorkersRows; default is 1, 2
	// and 4, at 2 million rows.
	Workers     []int
	WorkersRows int
	// Runs is how often each point is measured; default is 3.
	Runs int
	// Extra are further arguments of `fastddl bench addindex`.
	Extra []string
	// Progress receives, in one line, what begins; nil drops it.
	Progress func(line string)
	// Save is given all there is after each point; nil drops it.
	Save func(*result.Scale) error
}

// EnsureDefaults fills in what is not set.
func (o *Options) EnsureDefaults() {
	if len(o.Rows) == 0 {
		o.Rows = []int{1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000}
	}
	if len(o.Workers) == 0 {
		o.Workers = []int{1, 2, 4}
	}
	if o.WorkersRows == 0 {
		o.WorkersRows = 2_000_000
	}
	if o.Runs == 0 {
		o.Runs = 3
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Save == nil {
		o.Save = func(*result.Scale) error { return nil }
	}
}

// Validate lists every problem of the options at once.
func (o *Options) Validate() error {
	var errs []error
	for _, n := range slices.Concat(o.Rows, o.Workers, []int{o.WorkersRows, o.Runs}) {
		if n < 1 {
			errs = append(errs, fmt.Errorf("%d rows, workers or runs: at least one is needed", n))
		}
	}
	if _, err := os.Stat(o.FastDDL); err != nil {
		errs = append(errs, fmt.Errorf("%s is not built: run make build", filepath.Base(o.FastDDL)))
	}
	return errors.Join(errs...)
}

// Run measures all points. It returns what was measured also with an error.
func Run(ctx context.Context, opts Options) (*result.Scale, error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	machine, err := result.ThisMachine()
	if err != nil {
		return nil, err
	}
	res := &result.Scale{Machine: machine}
	for _, workers := range opts.Workers {
		if err := opts.measure(ctx, res, &res.ByWorkers, opts.WorkersRows, workers); err != nil {
			return res, err
		}
	}
	for _, rows := range opts.Rows {
		if err := opts.measure(ctx, res, &res.BySize, rows, runtime.NumCPU()); err != nil {
			return res, err
		}
	}
	res.Complete = true
	return res, opts.Save(res)
}

// measure adds a point.
func (o *Options) measure(ctx context.Context, res *result.Scale, points *[]result.ScalePoint, rows, workers int) error {
	o.Progress(fmt.Sprintf("%d rows, %d workers", rows, workers))
	m, err := o.addIndex(ctx, rows, workers)
	if err != nil {
		return fmt.Errorf("%d rows, %d workers: %w", rows, workers, err)
	}
	res.Version, res.Index = m.Version, m.Index
	p := result.ScalePoint{Rows: rows, Workers: workers, FloorSeconds: m.Floor.Seconds, Runs: m.Runs}
	*points = append(*points, p)
	seconds := make([]float64, len(p.Runs))
	for i, run := range p.Runs {
		seconds[i] = run.Seconds
	}
	median := stats.Median(seconds)
	o.Progress(fmt.Sprintf("%d rows, %d workers: %.2f s, %.0f ns per row, %.2f times the floor",
		rows, workers, median, 1e9*median/float64(rows), stats.Ratio(median, p.FloorSeconds)))
	return o.Save(res)
}

// measured is what is used of the JSON that the project's benchmark prints.
type measured struct {
	Version string            `json:"version"`
	Index   string            `json:"index"`
	Runs    []result.ScaleRun `json:"runs"`
	Floor   struct {
		Seconds float64 `json:"seconds"`
	} `json:"floor"`
}

// endTime is what the benchmark gets to remove its files when it is stopped.
const endTime = 30 * time.Second

func (o *Options) addIndex(ctx context.Context, rows, workers int) (m measured, err error) {
	args := []string{"bench", "addindex", "--rows", strconv.Itoa(rows), "--workers", strconv.Itoa(workers), "--runs", strconv.Itoa(o.Runs)}
	cmd := exec.CommandContext(ctx, o.FastDDL, append(args, o.Extra...)...)
	if o.Dir != "" {
		cmd.Env = append(os.Environ(), "TMPDIR="+o.Dir)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endTime
	var out, log bytes.Buffer
	told := &lineWriter{tell: o.Progress, log: &log}
	cmd.Stdout, cmd.Stderr = &out, told
	if err := cmd.Run(); err != nil {
		return m, fmt.Errorf("%w: %s", errors.Join(ctx.Err(), err), log.String())
	}
	if err := json.Unmarshal(out.Bytes(), &m); err != nil {
		return m, fmt.Errorf("read what fastddl bench printed: %w", err)
	}
	if len(m.Runs) == 0 {
		return m, errors.New("fastddl bench printed no run")
	}
	return m, nil
}

// lineWriter passes on whole lines.
type lineWriter struct {
	tell func(line string)
	log  *bytes.Buffer // all that was written
	rest []byte        // a line that has begun
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.log.Write(p)
	w.rest = append(w.rest, p...)
	for {
		advance, line, _ := bufio.ScanLines(w.rest, false) // it never fails
		if advance == 0 {
			return len(p), nil
		}
		w.tell("  " + string(line))
		w.rest = w.rest[advance:]
	}
}

package loads

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"fastddl/benchmarks/peer"
	"fastddl/benchmarks/result"
	"fastddl/benchmarks/usage"
	"fastddl/sbtest"
)

// Options say what is measured. The zero value of each field is its default.
type Options struct {
	// FastDDL is the project's binary; needed. ServerFlags are further flags of its server.
	FastDDL     string
	ServerFlags []string
	// Dir is where a temporary folder is made; default is the system's.
	Dir string
	// Rows of the file; default is 10,000,000. Rounds is how often each server loads it; default is 3.
	Rows, Rounds int
	// Systems are the names of the servers; default is all.
	Systems []string
	// Seed makes the rows.
	Seed uint64
	// LoadTime bounds one load; default is 30 minutes.
	LoadTime time.Duration
	// Progress receives, in one line, what was found; nil drops it.
	Progress func(line string)
}

// EnsureDefaults fills in what is not set.
func (o *Options) EnsureDefaults() {
	if o.Rows == 0 {
		o.Rows = 10_000_000
	}
	if o.Rounds == 0 {
		o.Rounds = 3
	}
	if o.LoadTime == 0 {
		o.LoadTime = 30 * time.Minute
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
}

// Validate lists every problem of the options at once.
func (o *Options) Validate() error {
	var errs []error
	if o.Rows < 1 || o.Rounds < 1 {
		errs = append(errs, fmt.Errorf("%d rows, %d rounds: at least one is needed", o.Rows, o.Rounds))
	}
	if _, err := os.Stat(o.FastDDL); err != nil {
		errs = append(errs, fmt.Errorf("%s is not built: run make build", filepath.Base(o.FastDDL)))
	}
	return errors.Join(errs...)
}

// Load is one load of a server.
type Load struct {
	Time time.Duration
	usage.Usage
}

// Figures are the loads of a server. Unavailable says why there are none.
type Figures struct {
	Name, Version, Statement string
	Settings                 []string
	Loads                    []Load
	Unavailable              error
}

// Run measures all servers. It returns what was measured also with an error.
func Run(ctx context.Context, opts Options) (found []Figures, fileBytes int64, err error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, 0, err
	}
	dir, err := os.MkdirTemp(opts.Dir, "fastddl-loads-")
	if err != nil {
		return nil, 0, fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // servers run as other users
		return nil, 0, err
	}
	files := filepath.Join(dir, "files")
	if err := os.Mkdir(files, 0o755); err != nil {
		return nil, 0, err
	}
	file := filepath.Join(files, sbtest.Table+".csv")
	if fileBytes, err = writeFile(file, sbtest.Generator{Rows: opts.Rows, Seed: opts.Seed}); err != nil {
		return nil, 0, err
	}
	machine, err := result.ThisMachine()
	if err != nil {
		return nil, 0, err
	}
	servers := peer.Loaders(peer.Options{
		Dir: dir, FastDDL: opts.FastDDL, FastDDLFlags: append([]string{"--secure-file-priv", files}, opts.ServerFlags...), Rows: opts.Rows,
		Cores: runtime.NumCPU(), MemoryBytes: machine.MemoryBytes,
	})
	if len(opts.Systems) > 0 {
		servers = slices.DeleteFunc(servers, func(s peer.Loader) bool { return !slices.Contains(opts.Systems, s.Name()) })
	}
	found = make([]Figures, len(servers))
	for i, s := range servers {
		found[i] = Figures{Name: s.Name(), Statement: s.LoadStatement(), Settings: s.Settings(), Unavailable: s.Available()}
	}
	for round := range opts.Rounds {
		for k := range servers {
			i := (round + k) % len(servers) // another one begins each round
			if found[i].Unavailable != nil {
				continue
			}
			if err := opts.measure(ctx, servers[i], file, &found[i]); err != nil {
				return found, fileBytes, fmt.Errorf("%s: %w", found[i].Name, err)
			}
		}
	}
	return found, fileBytes, nil
}

// measure loads the file into a new store of a server.
func (o *Options) measure(ctx context.Context, s peer.Loader, file string, f *Figures) (err error) {
	ctx, cancel := context.WithTimeout(ctx, o.LoadTime)
	defer cancel()
	defer func() { err = errors.Join(err, s.Remove()) }()
	defer s.Kill()
	if err := s.Start(ctx); err != nil {
		return err
	}
	if f.Version, err = s.Version(ctx); err != nil {
		return err
	}
	if err := s.CreateTable(ctx); err != nil {
		return err
	}
	if err := usage.WaitIdle(ctx, s.PID(), time.Minute); err != nil {
		return err
	}
	began := time.Now()
	u, err := usage.Measure(s.PID(), func() error { return s.LoadFile(ctx, file) })
	took := time.Since(began)
	if err != nil {
		return err
	}
	rows, err := s.CountRows(ctx)
	if err != nil {
		return err
	}
	if rows != o.Rows {
		return fmt.Errorf("%d rows are there of %d", rows, o.Rows)
	}
	f.Loads = append(f.Loads, Load{took, u})
	o.Progress(fmt.Sprintf("%-10s %.1f s, %.1f s of processor time, %d MiB", f.Name, took.Seconds(), u.CPU.Seconds(), u.PeakMemory>>20))
	return nil
}

// writeFile writes the rows as CSV, readable for all users.
func writeFile(path string, g sbtest.Generator) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, fmt.Errorf("make the file of rows: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	var rows []byte
	for b := range g.Blocks() {
		rows = g.AppendBlock(rows[:0], b)
		n, err := w.Write(bytes.ReplaceAll(rows, []byte("\t"), []byte(",")))
		if size += int64(n); err != nil {
			return size, fmt.Errorf("write the file of rows: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return size, fmt.Errorf("write the file of rows: %w", err)
	}
	return size, nil
}

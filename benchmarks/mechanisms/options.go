package mechanisms

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"fastddl/benchmarks/peer"
	"fastddl/benchmarks/result"
	"fastddl/sbtest"
)

// Server is what is measured: peer.Tunable, or a test's.
type Server interface {
	Start(ctx context.Context) error
	PID() int
	Version(ctx context.Context) (string, error)
	Load(ctx context.Context, g sbtest.Generator, loaded func(rows int)) error
	Warm(ctx context.Context) error
	Session(ctx context.Context) (sbtest.Session, error)
	Stop(ctx context.Context) error
	Kill()
	AddIndex(ctx context.Context, c peer.Case) error
	DropIndex(ctx context.Context, c peer.Case) error
	SetGlobal(ctx context.Context, name, value string) (known bool, err error)
}

// Options say what is measured. The zero value of each field is its default.
type Options struct {
	// FastDDL is the project's binary, built with the tag benchflow; needed.
	FastDDL string
	// Dir is where the temporary folder is made; default is the system's.
	Dir string
	// Rows is the size of the table; default is 1,000,000.
	Rows int
	// Case is what is added; default is int.
	Case string
	// Shares are the loads, as parts of the server's capacity; 0 is a closed loop. Default is 0.05, 0.4 and 0.
	Shares []float64
	// Variants are the names of those to measure; default is all.
	Variants []string
	// Rounds is how often each variant is visited; default is 5.
	Rounds int
	// Builds is how many indexes are added at least in a slot, one variant beside one load in one round; default is 4. A slot
	// lasts SlotTime at least; after MaxSlotTime no ADD INDEX begins. Defaults are 6 s and 40 s.
	Builds                int
	SlotTime, MaxSlotTime time.Duration
	// Seed makes the order of the variants, the rows and the loads; default is a random one.
	Seed uint64
	// Threads is the number of sessions of the load; default is 4 per core.
	Threads int
	// CapacityTime is how long the closed loop runs that finds the capacity; default is 10 s. RampUp is how long a load runs
	// before it counts; default is 2 s.
	CapacityTime, RampUp time.Duration
	// IdleTime is what the server gets to finish its own work before each slot; default is 3 s.
	IdleTime time.Duration
	// MaxTime bounds the whole run: no round begins that would end after it. Default is 2 hours. StatementTime bounds one
	// ADD INDEX; default is 5 minutes.
	MaxTime, StatementTime time.Duration
	// Progress receives, in one line, what begins; nil drops it.
	Progress func(line string)
	// Save is given all results after each slot; nil drops them. An error ends the run.
	Save func(*result.Flow) error
	// NewServer makes the server, with further variables of its environment; default is peer.FastDDL.
	NewServer func(opts peer.Options) Server
}

// EnsureDefaults fills in what is not set, but for the seed.
func (o *Options) EnsureDefaults() {
	if len(o.Shares) == 0 {
		o.Shares = []float64{0.05, 0.4, 0}
	}
	setValue(&o.Rows, 1_000_000)
	setValue(&o.Case, "int")
	setValue(&o.Rounds, 5)
	setValue(&o.Builds, 4)
	setValue(&o.SlotTime, 6*time.Second)
	setValue(&o.MaxSlotTime, 40*time.Second)
	setValue(&o.Threads, 4*runtime.NumCPU())
	setValue(&o.CapacityTime, 10*time.Second)
	setValue(&o.RampUp, 2*time.Second)
	setValue(&o.IdleTime, 3*time.Second)
	setValue(&o.MaxTime, 2*time.Hour)
	setValue(&o.StatementTime, 5*time.Minute)
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Save == nil {
		o.Save = func(*result.Flow) error { return nil }
	}
}

func setValue[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// prepare draws the seed, and has the servers made from the binary unless the caller makes them.
func (o *Options) prepare() error {
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.NewServer != nil {
		return nil
	}
	o.NewServer = func(opts peer.Options) Server { return peer.FastDDL(opts) }
	return checkBinary(o.FastDDL)
}

// buildTag is the tag without which a server leaves out nothing.
const buildTag = "benchflow"

func checkBinary(path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s is not built: run make bench-flow: %w", filepath.Base(path), err)
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" && slices.Contains(strings.Split(s.Value, ","), buildTag) {
			return nil
		}
	}
	return fmt.Errorf("%s is not built with the tag %s: it leaves out no mechanism", filepath.Base(path), buildTag)
}

// Validate lists every problem of the options at once.
func (o *Options) Validate() error {
	var errs []error
	if _, err := peer.CaseNamed(o.Case); err != nil {
		errs = append(errs, err)
	}
	for _, s := range o.Shares {
		if s < 0 || s > 1 {
			errs = append(errs, fmt.Errorf("share %v: not in [0, 1]", s))
		}
	}
	for name, n := range map[string]int{"rows": o.Rows, "rounds": o.Rounds, "builds": o.Builds, "threads": o.Threads} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("%s %d: at least one is needed", name, n))
		}
	}
	if o.MaxSlotTime < o.SlotTime {
		errs = append(errs, fmt.Errorf("a slot lasts %v at least and %v at most", o.SlotTime, o.MaxSlotTime))
	}
	var known []string
	for _, v := range variants() {
		known = append(known, v.Name)
	}
	for _, name := range o.Variants {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("variant %q is none of %s", name, strings.Join(known, ", ")))
		}
	}
	return errors.Join(errs...)
}

package runner

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"fastddl/benchmarks/peer"
	"fastddl/benchmarks/result"
)

// Options say what is measured. The zero value of each field is its default.
type Options struct {
	// FastDDL is the project's binary; needed.
	FastDDL string
	// Dir is where the temporary folder is made; default is the system's.
	Dir string

	// Rows are the sizes of the table; default is 2,000,000.
	Rows []int
	// Cases are what is added without load; default is int, unique and eight.
	Cases []string
	// LoadCases are what is added under load, to the smallest table; default is
	// int. Shares are the parts of the server's capacity at which the load runs;
	// default is 0.05 and 0.4. NoLoad leaves both out.
	LoadCases []string
	Shares    []float64
	NoLoad    bool
	// Systems are the names of those to measure; default is all.
	Systems []string
	// Rounds is how often each figure is measured, SlowRounds how often with
	// systems that are slow; default is 3 and 1.
	Rounds, SlowRounds int
	// Seed makes the rows and the load; default is 1.
	Seed uint64

	// Threads is the number of sessions of the load; default is 4 per core.
	Threads int
	// CapacityTime is how long the closed loop runs that finds the capacity;
	// default is 10 s. RampUp is how long a load runs before it counts; default is
	// 2 s. Before is how long it runs before the first ADD INDEX; default is 8 s.
	CapacityTime, RampUp, Before time.Duration
	// During is how long indexes are added under load at least: they are
	// dropped and added again, up to MaxRepeats times, until it has passed. The
	// defaults are 5 s and 8.
	During     time.Duration
	MaxRepeats int
	// Pause follows each ADD INDEX under load before its index is dropped, and
	// each drop; default is a second.
	Pause time.Duration

	// IdleTime is what a server gets to finish its own work, such as compactions,
	// before each measurement; default is a minute.
	IdleTime time.Duration
	// MaxTime bounds the whole run: after it no measurement begins. Default is 25
	// minutes. StatementTime bounds one ADD INDEX; default is 10 minutes.
	MaxTime, StatementTime time.Duration

	// Progress receives, in one line, what begins; nil drops it.
	Progress func(line string)
	// Save is given all there is after each measurement; nil drops it. An error
	// ends the run.
	Save func(*result.Peers) error
	// Peers makes the peers; default is peer.All.
	Peers func(peer.Options) []peer.Peer
}

// EnsureDefaults fills in what is not set.
func (o *Options) EnsureDefaults() {
	setList(&o.Rows, 2_000_000)
	setList(&o.Cases, "int", "unique", "eight")
	setList(&o.LoadCases, "int")
	setList(&o.Shares, 0.05, 0.4)
	setValue(&o.Rounds, 3)
	setValue(&o.SlowRounds, 1)
	setValue(&o.Seed, 1)
	setValue(&o.Threads, 4*runtime.NumCPU())
	setValue(&o.CapacityTime, 10*time.Second)
	setValue(&o.RampUp, 2*time.Second)
	setValue(&o.Before, 8*time.Second)
	setValue(&o.During, 5*time.Second)
	setValue(&o.MaxRepeats, 8)
	setValue(&o.Pause, time.Second)
	setValue(&o.IdleTime, time.Minute)
	setValue(&o.MaxTime, 25*time.Minute)
	setValue(&o.StatementTime, 10*time.Minute)
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Save == nil {
		o.Save = func(*result.Peers) error { return nil }
	}
	if o.Peers == nil {
		o.Peers = peer.All
	}
}

func setList[T any](list *[]T, defaults ...T) {
	if len(*list) == 0 {
		*list = defaults
	}
}

func setValue[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Validate lists every problem of the options at once.
func (o *Options) Validate() error {
	var errs []error
	for _, n := range o.Rows {
		if n < 1 {
			errs = append(errs, fmt.Errorf("rows %d: at least one is needed", n))
		}
	}
	for _, name := range slices.Concat(o.Cases, o.LoadCases) {
		if _, err := peer.CaseNamed(name); err != nil {
			errs = append(errs, err)
		}
	}
	for _, s := range o.Shares {
		if s <= 0 || s > 1 {
			errs = append(errs, fmt.Errorf("share %v: not in (0, 1]", s))
		}
	}
	for name, n := range map[string]int{"rounds": o.Rounds, "slow-rounds": o.SlowRounds, "threads": o.Threads, "repeats": o.MaxRepeats} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("%s %d: at least one is needed", name, n))
		}
	}
	known := systemNames(o.Peers(peer.Options{FastDDL: o.FastDDL}))
	for _, name := range o.Systems {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("system %q is none of %v", name, known))
		}
	}
	return errors.Join(errs...)
}

func systemNames(peers []peer.Peer) (names []string) {
	for _, p := range peers {
		for _, s := range p.Systems {
			names = append(names, s.Name())
		}
	}
	return names
}

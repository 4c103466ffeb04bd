package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"fastddl/benchmarks/peer"
	"fastddl/benchmarks/result"
)

// Run measures. It returns what was measured also with an error, such as the one of
// a context that ended; a system that fails is noted in the result and ends
// nothing else.
func Run(ctx context.Context, opts Options) (res *result.Peers, err error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	machine, err := result.ThisMachine()
	if err != nil {
		return nil, err
	}
	slices.Sort(opts.Rows)
	r := &runner{Options: opts, begin: time.Now(), res: &result.Peers{Machine: machine, Setup: opts.setup()}}
	dir, err := os.MkdirTemp(opts.Dir, "fastddl-peers-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// Servers under other accounts have folders in it.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	for i, rows := range opts.Rows {
		if err := r.size(ctx, filepath.Join(dir, fmt.Sprint(rows)), rows, i == 0); err != nil {
			return r.res, err
		}
	}
	r.res.Complete = !r.cutShort
	return r.res, r.Save(r.res)
}

func (o *Options) setup() result.Setup {
	s := result.Setup{
		Rows: o.Rows, Cases: o.Cases, LoadCases: o.LoadCases, Shares: o.Shares, Threads: o.Threads,
		Rounds: o.Rounds, SlowRounds: o.SlowRounds, Seed: o.Seed,
	}
	if o.NoLoad {
		s.LoadCases, s.Shares = nil, nil
	}
	return s
}

type runner struct {
	Options
	begin    time.Time
	res      *result.Peers
	cutShort bool // for want of time
}

// host is a server on which systems are measured, at one size.
type host struct {
	peer.Server
	systems  []peer.System
	rows     int
	smallest bool
	info     result.Server
	failed   error // why it was given up
}

func (r *runner) say(format string, args ...any) {
	elapsed := time.Since(r.begin).Round(time.Second)
	r.Progress(fmt.Sprintf("[%3d:%02d] ", int(elapsed.Minutes()), int(elapsed.Seconds())%60) + fmt.Sprintf(format, args...))
}

// size measures everything with a table of so many rows.
func (r *runner) size(ctx context.Context, dir string, rows int, smallest bool) (err error) {
	if err := os.Mkdir(dir, 0o711); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	peers := r.Peers(peer.Options{
		Dir: dir, FastDDL: r.FastDDL, Rows: rows, Cores: r.res.Machine.Cores, MemoryBytes: r.res.Machine.MemoryBytes,
	})
	var hosts []*host
	for _, p := range peers {
		h := &host{Server: p.Server, rows: rows, smallest: smallest, info: result.Server{Name: p.Server.Name(), Rows: rows, Settings: p.Server.Settings()}}
		defer h.Kill()
		if h.systems = r.wanted(p); len(h.systems) > 0 {
			hosts = append(hosts, h)
		}
	}
	for _, h := range hosts {
		if err := r.guard(ctx, h, r.fill); err != nil {
			return err
		}
	}
	return r.rounds(ctx, hosts)
}

// wanted are the systems to be measured; what is skipped is noted.
func (r *runner) wanted(p peer.Peer) (systems []peer.System) {
	down := p.Server.Available()
	for _, s := range p.Systems {
		if len(r.Systems) > 0 && !slices.Contains(r.Systems, s.Name()) {
			continue
		}
		reason := down
		if reason == nil {
			reason = s.Available()
		}
		r.note(p.Server, s, reason)
		if reason == nil {
			systems = append(systems, s)
		}
	}
	return systems
}

// note lists a system once, however many sizes it is measured at.
func (r *runner) note(server peer.Server, s peer.System, skipped error) {
	if slices.ContainsFunc(r.res.Systems, func(known result.System) bool { return known.Name == s.Name() }) {
		return
	}
	noted := result.System{
		Name: s.Name(), Title: s.Title(), Server: server.Name(), Statement: s.Statement(), BlocksWrites: s.Traits().BlocksWrites,
	}
	if skipped != nil {
		noted.Skipped = skipped.Error()
		r.say("%s: skipped: %v", s.Name(), skipped)
	}
	r.res.Systems = append(r.res.Systems, noted)
}

// rounds runs all rounds, as far as the time goes.
func (r *runner) rounds(ctx context.Context, hosts []*host) error {
	var last time.Duration
	for round := 1; round <= r.Rounds; round++ {
		if left := r.MaxTime - time.Since(r.begin); last > left {
			r.say("%d rows: the time left is too short for round %d", hosts[0].rows, round)
			r.cutShort = true
			return nil
		}
		start := time.Now()
		for i := range hosts {
			h := hosts[(i+round-1)%len(hosts)]
			if h.failed != nil || !r.hasWork(h, round) {
				continue
			}
			if err := r.guard(ctx, h, func(ctx context.Context, h *host) error { return r.visit(ctx, h, round) }); err != nil {
				return err
			}
		}
		last = time.Since(start)
	}
	return nil
}

func (r *runner) hasWork(h *host, round int) bool {
	return slices.ContainsFunc(h.systems, func(s peer.System) bool { return r.due(h, s, round) })
}

// due reports whether the system is measured in this round.
func (r *runner) due(h *host, s peer.System, round int) bool {
	t := s.Traits()
	return (!t.Slow || round <= r.SlowRounds) && (!t.Baseline || h.smallest)
}

// outOfTime notes that something is left out.
func (r *runner) outOfTime() bool {
	if time.Since(r.begin) < r.MaxTime {
		return false
	}
	if !r.cutShort {
		r.say("the time is over: what is left is left out")
	}
	r.cutShort = true
	return true
}

// guard runs one stretch of work on a server. If it fails, the server is given
// up with all that was to be measured on it, and the others go on.
func (r *runner) guard(ctx context.Context, h *host, work func(context.Context, *host) error) error {
	err := work(ctx, h)
	if err != nil {
		h.Kill()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.say("%s: given up: %v", h.Name(), err)
		h.failed, h.info.Failed = err, err.Error()
		r.remember(h)
	}
	return r.Save(r.res)
}

// remember puts what is known of a server into the result.
func (r *runner) remember(h *host) {
	for i, s := range r.res.Servers {
		if s.Name == h.info.Name && s.Rows == h.rows {
			r.res.Servers[i] = h.info
			return
		}
	}
	r.res.Servers = append(r.res.Servers, h.info)
}

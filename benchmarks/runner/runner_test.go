package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/benchmarks/peer"
	"fastddl/benchmarks/result"
	"fastddl/benchmarks/runner"
	"fastddl/sbtest"
)

// diary is what servers and systems were asked to do, in order.
type diary struct {
	lines   []string
	running int // servers
}

func (d *diary) note(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// server is one without a store. Its process is the test's.
type server struct {
	*diary
	name    string
	missing error
	broken  error // what Load returns
	running bool
	blocked atomic.Bool // transactions wait
}

func (s *server) Name() string       { return s.name }
func (s *server) Available() error   { return s.missing }
func (s *server) Settings() []string { return []string{"a=1"} }
func (s *server) PID() int           { return os.Getpid() }

func (s *server) Start(context.Context) error {
	s.note("start %s", s.name)
	if s.running {
		return errors.New("it runs already")
	}
	s.running = true
	if s.diary.running++; s.diary.running > 1 {
		return errors.New("it is not alone")
	}
	return nil
}
func (s *server) Version(context.Context) (string, error) { return "1.0", nil }
func (s *server) Warm(context.Context) error              { return nil }
func (s *server) Stop(context.Context) error {
	s.note("stop %s", s.name)
	s.Kill()
	return nil
}
func (s *server) Kill() {
	if s.running {
		s.running = false
		s.diary.running--
	}
}
func (s *server) Load(_ context.Context, g sbtest.Generator, loaded func(int)) error {
	loaded(g.Rows)
	return s.broken
}
func (s *server) Session(context.Context) (sbtest.Session, error) { return session{s}, nil }

type session struct{ *server }

func (s session) Run(ctx context.Context, _ sbtest.Statement, _ ...any) error {
	time.Sleep(100 * time.Microsecond)
	for s.blocked.Load() {
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}
func (session) Retryable(error) bool { return false }
func (session) Close() error         { return nil }

// system adds an index by sleeping.
type system struct {
	*server
	name   string
	traits peer.Traits
	takes  time.Duration
	fails  error
}

func (s system) Name() string                  { return s.name }
func (s system) Title() string                 { return strings.ToUpper(s.name) }
func (s system) Statement() string             { return "ADD" }
func (s system) Traits() peer.Traits           { return s.traits }
func (s system) Available() error              { return nil }
func (s system) Prepare(context.Context) error { return nil }
func (s system) AddIndex(ctx context.Context, c peer.Case) error {
	s.note("%s adds %s", s.name, c.Name)
	s.blocked.Store(s.traits.BlocksWrites)
	defer s.blocked.Store(false)
	select {
	case <-time.After(s.takes):
		return s.fails
	case <-ctx.Done():
		return ctx.Err()
	}
}
func (s system) DropIndex(_ context.Context, c peer.Case) error {
	s.note("%s drops %s", s.name, c.Name)
	return nil
}

func options(t *testing.T, peers ...peer.Peer) runner.Options {
	return runner.Options{
		Dir: t.TempDir(), Rows: []int{10}, Cases: []string{"int"}, NoLoad: true, Rounds: 1, IdleTime: time.Millisecond,
		Peers: func(peer.Options) []peer.Peer { return peers }, Progress: func(line string) { t.Log(line) },
	}
}

func TestRoundsAlternate(t *testing.T) {
	d := &diary{}
	a, b := &server{diary: d, name: "a"}, &server{diary: d, name: "b"}
	slow := system{server: b, name: "b2", traits: peer.Traits{Slow: true}}
	opts := options(t,
		peer.Peer{Server: a, Systems: []peer.System{system{server: a, name: "a1"}}},
		peer.Peer{Server: b, Systems: []peer.System{system{server: b, name: "b1"}, slow}})
	opts.Rounds, opts.SlowRounds = 2, 1
	res, err := runner.Run(t.Context(), opts)
	require.NoError(t, err)
	require.True(t, res.Complete)
	require.Equal(t, strings.Split("start a, stop a, start b, stop b, "+
		"start a, a1 adds int, a1 drops int, a1 adds int, a1 drops int, stop a, "+
		"start b, b1 adds int, b1 drops int, b1 adds int, b1 drops int, b2 adds int, b2 drops int, stop b, "+
		"start b, b1 adds int, b1 drops int, b1 adds int, b1 drops int, stop b, "+
		"start a, a1 adds int, a1 drops int, a1 adds int, a1 drops int, stop a", ", "), d.lines)
	require.Len(t, res.Runs, 5)
	for _, r := range res.Runs {
		require.Len(t, r.Seconds, 1)
		require.Positive(t, r.PeakMemoryBytes)
	}
	left, err := os.ReadDir(opts.Dir)
	require.NoError(t, err)
	require.Empty(t, left, "folders are removed")
}

func TestBaselineRunsOnTheSmallestTableOnly(t *testing.T) {
	a := &server{diary: &diary{}, name: "a"}
	opts := options(t, peer.Peer{Server: a, Systems: []peer.System{
		system{server: a, name: "a1"}, system{server: a, name: "base", traits: peer.Traits{Baseline: true}},
	}})
	opts.Rows, opts.Cases = []int{200, 100}, []string{"int", "unique"}
	res, err := runner.Run(t.Context(), opts)
	require.NoError(t, err)
	var got []string
	for _, r := range res.Runs {
		got = append(got, fmt.Sprint(r.System, " ", r.Rows, " ", r.Case))
	}
	require.Equal(t, []string{"a1 100 int", "a1 100 unique", "base 100 int", "a1 200 int", "a1 200 unique"}, got)
	require.Len(t, res.Servers, 2)
	require.Len(t, res.Systems, 2)
}

func TestMissingAndBrokenServersAreSkipped(t *testing.T) {
	d := &diary{}
	missing := &server{diary: d, name: "missing", missing: errors.New("it is not installed")}
	broken := &server{diary: d, name: "broken", broken: errors.New("disk full")}
	good := &server{diary: d, name: "good"}
	opts := options(t,
		peer.Peer{Server: missing, Systems: []peer.System{system{server: missing, name: "m"}}},
		peer.Peer{Server: broken, Systems: []peer.System{system{server: broken, name: "b"}}},
		peer.Peer{Server: good, Systems: []peer.System{
			system{server: good, name: "g"}, system{server: good, name: "bad", fails: errors.New("log is too big")},
		}})
	opts.Rounds = 2
	saved := 0
	opts.Save = func(*result.Peers) error { saved++; return nil }
	res, err := runner.Run(t.Context(), opts)
	require.NoError(t, err)
	require.Equal(t, "it is not installed", res.Systems[0].Skipped)
	require.NotContains(t, d.lines, "start missing")
	require.False(t, broken.running)
	require.ErrorContains(t, errors.New(res.Servers[0].Failed), "disk full")

	var failed, done int
	for _, r := range res.Runs {
		if r.Failed != "" {
			require.Equal(t, "bad", r.System)
			require.Equal(t, "log is too big", r.Failed)
			require.Empty(t, r.Seconds)
			failed++
		} else {
			done++
		}
	}
	require.Equal(t, 1, failed, "it is not tried again")
	require.Equal(t, 2, done)
	require.GreaterOrEqual(t, saved, 4, "after each measurement")
}

func TestSystemsAreChosen(t *testing.T) {
	a := &server{diary: &diary{}, name: "a"}
	opts := options(t, peer.Peer{Server: a, Systems: []peer.System{system{server: a, name: "a1"}, system{server: a, name: "a2"}}})
	opts.Systems = []string{"a2"}
	res, err := runner.Run(t.Context(), opts)
	require.NoError(t, err)
	require.Len(t, res.Systems, 1)
	require.Equal(t, "a2", res.Systems[0].Name)

	opts.Systems, opts.Cases, opts.Shares, opts.Rows = []string{"a3"}, []string{"huge"}, []float64{2}, []int{-1}
	_, err = runner.Run(t.Context(), opts)
	for _, problem := range []string{"a3", "huge", "share 2", "rows -1"} {
		require.ErrorContains(t, err, problem)
	}
}

func TestTimeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &server{diary: &diary{}, name: "a"}
		opts := options(t, peer.Peer{Server: a, Systems: []peer.System{system{server: a, name: "a1", takes: 200 * time.Millisecond}}})
		opts.Rounds, opts.MaxTime = 1000, 1500*time.Millisecond
		start := time.Now()
		res, err := runner.Run(t.Context(), opts)
		require.NoError(t, err)
		require.Less(t, time.Since(start), 30*time.Second)
		require.False(t, res.Complete)
		require.Less(t, len(res.Runs), 1000)

		// Warming up and the first case take it all.
		opts.Rounds, opts.MaxTime, opts.Cases = 1, 300*time.Millisecond, []string{"int", "char", "composite", "unique", "eight"}
		res, err = runner.Run(t.Context(), opts)
		require.NoError(t, err)
		require.False(t, res.Complete)
		require.LessOrEqual(t, len(res.Runs), 1, "no measurement begins after it")
	})
}

func TestStatementThatHangsIsBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &server{diary: &diary{}, name: "a"}
		hangs := system{server: a, name: "hangs", takes: time.Hour, traits: peer.Traits{Slow: true}}
		opts := options(t, peer.Peer{Server: a, Systems: []peer.System{system{server: a, name: "a1"}, hangs}})
		opts.StatementTime = 50 * time.Millisecond
		start := time.Now()
		res, err := runner.Run(t.Context(), opts)
		require.NoError(t, err)
		require.Less(t, time.Since(start), 10*time.Second)
		require.Len(t, res.Runs, 2)
		require.Contains(t, res.Runs[1].Failed, context.DeadlineExceeded.Error())
		require.Contains(t, a.lines, "hangs drops int", "what it left is taken away")
	})
}

func TestEndOfContextStopsServersAndKeepsResults(t *testing.T) {
	a := &server{diary: &diary{}, name: "a"}
	opts := options(t, peer.Peer{Server: a, Systems: []peer.System{system{server: a, name: "a1"}}})
	opts.Rounds = 1000
	ctx, cancel := context.WithCancel(t.Context())
	opts.Save = func(res *result.Peers) error {
		if len(res.Runs) == 2 {
			cancel()
		}
		return nil
	}
	res, err := runner.Run(ctx, opts)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, res.Runs, 2)
	require.False(t, res.Complete)
	require.False(t, a.running)
	left, err := os.ReadDir(opts.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &server{diary: &diary{}, name: "a"}
		opts := options(t, peer.Peer{Server: a, Systems: []peer.System{
			system{server: a, name: "online", takes: 300 * time.Millisecond},
			system{server: a, name: "blocks", takes: 300 * time.Millisecond, traits: peer.Traits{BlocksWrites: true}},
		}})
		opts.NoLoad, opts.Threads, opts.Shares = false, 2, []float64{0.1}
		opts.CapacityTime, opts.RampUp, opts.Before = 200*time.Millisecond, 100*time.Millisecond, 500*time.Millisecond
		opts.During, opts.MaxRepeats, opts.Pause = 500*time.Millisecond, 2, 100*time.Millisecond
		res, err := runner.Run(t.Context(), opts)
		require.NoError(t, err)
		require.Positive(t, res.Servers[0].Capacity)

		loaded := make(map[string]*result.Load)
		for _, r := range res.Runs {
			if r.Load != nil {
				require.Len(t, r.Seconds, 2, "again until enough time has passed")
				require.InDelta(t, res.Servers[0].Capacity*0.1, r.Load.PerSecond, 1e-9)
				require.Len(t, r.Load.Adding, 2)
				require.NotEmpty(t, r.Load.Timeline)
				loaded[r.System] = r.Load
			}
		}
		require.Len(t, loaded, 2)
		require.Greater(t, loaded["blocks"].During.P99, 100.0, "those who came meanwhile waited")
		require.Less(t, loaded["online"].During.P99, loaded["blocks"].During.P99)
		require.Less(t, loaded["blocks"].During.PerSecond, loaded["online"].During.PerSecond)
		require.Zero(t, loaded["blocks"].During.Failed+loaded["blocks"].During.Unfinished)
	})
}

// TestFastDDL runs the comparison with the project's own server and few rows.
func TestFastDDL(t *testing.T) {
	comparePeers(t, []string{"int", "unique"}, "fastddl", "fastddl-tidb", "fastddl-tidb-txn")
}

// TestPeers runs it with all systems that are installed.
func TestPeers(t *testing.T) {
	if os.Getenv("FASTDDL_LONG") == "" {
		t.Skip("starts servers of other makers: runs with FASTDDL_LONG=1")
	}
	comparePeers(t, []string{"int", "char", "composite", "unique", "eight"})
}

// program is the server that FASTDDL_BIN names, or bin/fastddl.
func program(t *testing.T) string {
	binary := os.Getenv("FASTDDL_BIN")
	if binary == "" {
		binary = "../../bin/fastddl"
	}
	binary, err := filepath.Abs(binary)
	require.NoError(t, err)
	require.FileExists(t, binary, "run make build")
	return binary
}

func comparePeers(t *testing.T, cases []string, systems ...string) {
	opts := runner.Options{
		FastDDL: program(t), Dir: t.TempDir(), Systems: systems, Rows: []int{3000}, Cases: cases,
		Shares: []float64{0.5}, Rounds: 1, Threads: 2, CapacityTime: 3 * time.Second, RampUp: time.Second, Before: 5 * time.Second,
		During: time.Millisecond, MaxRepeats: 1, Pause: 10 * time.Millisecond, IdleTime: time.Millisecond, Progress: func(line string) { t.Log(line) },
	}
	require.NoError(t, os.Chmod(opts.Dir, 0o711), "servers under other accounts have folders in it")
	require.NoError(t, os.Chmod(filepath.Dir(opts.Dir), 0o711))
	res, err := runner.Run(t.Context(), opts)
	require.NoError(t, err)
	require.True(t, res.Complete)
	skipped := 0
	for _, s := range res.Systems {
		if s.Skipped != "" {
			t.Logf("%s skipped: %s", s.Name, s.Skipped)
			skipped++
		}
	}
	for _, s := range res.Servers {
		require.Empty(t, s.Failed)
		require.NotEmpty(t, s.Version)
		require.Positive(t, s.Capacity)
	}
	alone := 0
	for _, r := range res.Runs {
		require.Empty(t, r.Failed, "%s %s", r.System, r.Case)
		if r.Load == nil {
			alone++
			continue
		}
		require.Zero(t, r.Load.During.Failed, r.Load.Errors)
		require.Positive(t, r.Load.Before.Completed)
	}
	baselines := 0
	for _, s := range res.Systems {
		if strings.HasPrefix(s.Name, "fastddl-tidb") && s.Skipped == "" {
			baselines++
		}
	}
	require.Equal(t, (len(res.Systems)-skipped-baselines)*len(opts.Cases)+baselines, alone)
}

package mechanisms

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/benchmarks/peer"
	"fastddl/benchmarks/result"
	"fastddl/sbtest"
)

// fleet is what the servers of a run have in common.
type fleet struct {
	lines   []string
	running bool
	worker  bool // servers know workerVariable
	// builds is how long ADD INDEX takes; it fails with fails.
	builds time.Duration
	fails  error
}

// server answers each statement after 100 us. Its process is the test's.
type server struct {
	*fleet
	out string // what is left out
}

func (s *server) note(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *server) Start(context.Context) error {
	if s.running {
		return errors.New("another server has the store")
	}
	s.running = true
	s.note("start without %q", s.out)
	return nil
}

func (s *server) PID() int                                                { return os.Getpid() }
func (s *server) Version(context.Context) (string, error)                 { return "1.0", nil }
func (s *server) Load(context.Context, sbtest.Generator, func(int)) error { return nil }
func (s *server) Warm(context.Context) error                              { return nil }
func (s *server) Session(context.Context) (sbtest.Session, error)         { return session{}, nil }
func (s *server) Kill()                                                   { s.running = false }
func (s *server) DropIndex(context.Context, peer.Case) error              { return nil }

func (s *server) Stop(context.Context) error {
	s.running = false
	return nil
}

func (s *server) AddIndex(ctx context.Context, _ peer.Case) error {
	select {
	case <-time.After(s.builds):
		return s.fails
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *server) SetGlobal(_ context.Context, name, value string) (known bool, err error) {
	s.note("%s = %s", name, value)
	return s.worker, nil
}

type session struct{}

func (session) Run(ctx context.Context, _ sbtest.Statement, _ ...any) error {
	time.Sleep(100 * time.Microsecond)
	return ctx.Err()
}
func (session) Retryable(error) bool { return false }
func (session) Close() error         { return nil }

func options(t *testing.T, f *fleet) Options {
	return Options{
		Dir: t.TempDir(), Rows: 10, Rounds: 1, Builds: 2, SlotTime: 100 * time.Millisecond, MaxSlotTime: time.Second, Threads: 2, Seed: 5,
		CapacityTime: 100 * time.Millisecond, RampUp: 10 * time.Millisecond, IdleTime: time.Millisecond,
		Progress: func(line string) { t.Log(line) },
		NewServer: func(opts peer.Options) Server {
			_, out, _ := strings.Cut(strings.Join(opts.FastDDLEnv, ""), leaveOutVariable+"=")
			return &server{fleet: f, out: out}
		},
	}
}

// TestEveryVariantIsVisitedInEachRound, in an order that the seed makes, with what it leaves out, where it builds.
func TestEveryVariantIsVisitedInEachRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{worker: true, builds: 30 * time.Millisecond}
		opts := options(t, f)
		opts.Rounds = 2
		saved := 0
		opts.Save = func(*result.Flow) error { saved++; return nil }
		res, err := Run(t.Context(), opts)
		require.NoError(t, err)
		require.True(t, res.Complete)
		require.InDelta(t, 2/(20*100e-6), res.Capacity, 0.1*res.Capacity, "two sessions of twenty statements")

		require.Equal(t, len(variants()), len(res.Variants))
		count := make(map[string]int)
		for _, s := range res.Slots {
			count[fmt.Sprint(s.Variant, s.Round, s.Share)]++
			if s.Variant == "quiet" {
				require.Empty(t, s.BuildSeconds)
				continue
			}
			require.Len(t, s.BuildSeconds, 4, "until the time of the slot has passed")
			for _, took := range s.BuildSeconds {
				require.InDelta(t, 0.03, took, 1e-3)
			}
			require.Positive(t, s.During.Completed)
			require.Positive(t, s.During.Mean)
		}
		require.Len(t, res.Slots, len(res.Variants)*2*3)
		require.Len(t, count, len(res.Slots))
		require.Equal(t, len(res.Slots)+1, saved)

		visits := f.lines[2:] // after the load and the capacity
		for _, m := range mechanisms {
			for _, p := range places {
				if m.only != "" && m.only != p.name {
					continue
				}
				want := []string{fmt.Sprintf("start without %q", m.name), workerVariable + " = " + p.value}
				found := 0
				for i := range len(visits) - 1 {
					if slices.Equal(visits[i:i+2], want) {
						found++
					}
				}
				require.Equal(t, 2, found, want)
			}
		}
		again := &fleet{worker: true, builds: 30 * time.Millisecond}
		opts.NewServer = options(t, again).NewServer
		_, err = Run(t.Context(), opts)
		require.NoError(t, err)
		require.Equal(t, f.lines, again.lines, "the seed makes the order")
		left, err := os.ReadDir(opts.Dir)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

// TestServerWithoutAWorker: variants in the worker are skipped with a reason, all others are measured.
func TestServerWithoutAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := options(t, &fleet{builds: 30 * time.Millisecond})
		res, err := Run(t.Context(), opts)
		require.NoError(t, err)
		require.True(t, res.Complete)
		for _, v := range res.Variants {
			measured := slices.ContainsFunc(res.Slots, func(s result.FlowSlot) bool { return s.Variant == v.Name })
			require.Equal(t, v.Builds != "in the worker", measured, v.Name)
			require.Equal(t, v.Builds == "in the worker", strings.Contains(v.Skipped, workerVariable), v.Name)
		}
	})
}

// TestBuildsThatFailOrStarve: a slot ends with the first build that fails, and begins none after its time; the run goes on.
func TestBuildsThatFailOrStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := options(t, &fleet{builds: 700 * time.Millisecond})
		opts.Builds, opts.Variants, opts.Shares = 10, []string{"inside all"}, []float64{0.4}
		res, err := Run(t.Context(), opts)
		require.NoError(t, err)
		require.Len(t, res.Slots[0].BuildSeconds, 2)

		opts.StatementTime = 100 * time.Millisecond
		_, err = Run(t.Context(), opts)
		require.ErrorContains(t, err, "warm up", "without a load they must not")

		f := &fleet{builds: 10 * time.Millisecond}
		opts = options(t, f)
		opts.Variants, opts.Shares, opts.StatementTime = []string{"inside all"}, []float64{0.4, 0}, time.Second
		opts.Save = func(*result.Flow) error {
			f.builds = time.Hour
			return nil
		}
		res, err = Run(t.Context(), opts)
		require.NoError(t, err)
		require.Len(t, res.Slots, 2)
		require.Empty(t, res.Slots[0].Failed)
		require.Contains(t, res.Slots[1].Failed, context.DeadlineExceeded.Error())
	})
}

// TestTimeOfTheRunIsBounded: no round begins that would end after it.
func TestTimeOfTheRunIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := options(t, &fleet{builds: 30 * time.Millisecond})
		opts.Rounds, opts.MaxTime = 1000, 20*time.Second
		start := time.Now()
		res, err := Run(t.Context(), opts)
		require.NoError(t, err)
		require.False(t, res.Complete)
		require.Less(t, time.Since(start), 30*time.Second)
		require.NotEmpty(t, res.Slots)
	})
}

// TestEndOfContextKeepsResults: what was measured is returned and saved.
func TestEndOfContextKeepsResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{builds: 30 * time.Millisecond}
		opts := options(t, f)
		ctx, cancel := context.WithCancel(t.Context())
		opts.Save = func(res *result.Flow) error {
			if len(res.Slots) == 2 {
				cancel()
			}
			return nil
		}
		res, err := Run(ctx, opts)
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, res.Slots, 2)
		require.Equal(t, len(variants()), len(res.Variants))
		require.False(t, res.Complete)
		require.False(t, f.running)
	})
}

func TestProblemsOfOptionsAreListed(t *testing.T) {
	opts := options(t, &fleet{})
	opts.Case, opts.Shares, opts.Variants, opts.Rows, opts.MaxSlotTime = "huge", []float64{2}, []string{"outside"}, -1, time.Millisecond
	_, err := Run(t.Context(), opts)
	for _, problem := range []string{"huge", "share 2", "outside", "rows -1", "at most"} {
		require.ErrorContains(t, err, problem)
	}
}

// TestServerKnowsTheMechanisms: the server's names are these, which no compiler compares.
func TestServerKnowsTheMechanisms(t *testing.T) {
	source, err := os.ReadFile("../../flow/leaveout_benchflow.go")
	require.NoError(t, err)
	var want, got []string
	for _, m := range mechanisms {
		want = append(want, m.name)
	}
	for _, match := range regexp.MustCompile(`"(\w+)": +&[lL]eaveOut`).FindAllSubmatch(source, -1) {
		got = append(got, string(match[1]))
	}
	require.Equal(t, want, got)
	require.Contains(t, string(source), `"`+leaveOutVariable+`"`)
}

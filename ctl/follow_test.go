package ctl

import (
	"context"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/internal/servertest"
)

// fakeBuild is a build on a server that the test plays.
type fakeBuild struct {
	mu       sync.Mutex
	current  *Job
	err      error
	commands []string
	refuse   error
}

// show has the server show a build; fail has it not answer, until the error is nil.
func (b *fakeBuild) show(j *Job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = j
}

func (b *fakeBuild) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *fakeBuild) job(context.Context) (*Job, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current, b.err
}

func (b *fakeBuild) command(_ context.Context, verb string, _ *Job) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse != nil {
		return b.refuse
	}
	b.commands = append(b.commands, verb)
	return nil
}

// stage is a command in a bubble of synctest, whose server and user the test plays.
type stage struct {
	build     *fakeBuild
	statement chan error
	signals   chan os.Signal
	lines     chan string
	out       servertest.Buffer
	follower  *follower
	verdict   verdict
	err       error
	ended     chan struct{}
}

// follow begins to follow a build. Without a terminal nothing can be asked.
func follow(terminal bool) *stage {
	s := &stage{build: &fakeBuild{}, statement: make(chan error, 1), signals: make(chan os.Signal, 1), lines: make(chan string), ended: make(chan struct{})}
	c := &Client{Output: Output{Out: &s.out, Err: &s.out, Width: func() int { return 0 }}, Signals: s.signals, Every: DefaultEvery, PlainEvery: DefaultPlainEvery, GiveUp: DefaultGiveUp}
	if terminal {
		c.Lines = func() <-chan string { return s.lines }
	}
	s.follower = &follower{Client: c, builds: s.build, view: &askingView{plainView{c: c}}, statement: s.statement, manual: true, expectsJob: true}
	go func() {
		defer close(s.ended)
		s.verdict, s.err = s.follower.follow(context.Background())
	}()
	return s
}

// askingView shows questions as lines.
type askingView struct{ plainView }

func (v *askingView) ask(text string) { v.c.say("%s", text) }

// pass lets time pass.
func (s *stage) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *stage) result(t *testing.T) verdict {
	t.Helper()
	<-s.ended
	require.NoError(t, s.err)
	return s.verdict
}

func running112() *Job {
	return &Job{ID: 112, DB: "shop", Table: "orders", State: "running", Stage: "scan", Percent: 40, Rows: 1_200_000, RowsPerSecond: 1e6}
}

func ended112(state, text string) *Job {
	return &Job{ID: 112, DB: "shop", Table: "orders", State: state, Percent: 100, Error: text, Ended: true}
}

// TestRunShowsProgressAndEndsWithItsStatement: without a terminal by a line every three seconds.
func TestRunShowsProgressAndEndsWithItsStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := follow(false)
		s.build.show(running112())
		s.pass(7 * time.Second)
		s.build.show(ended112(stateSynced, ""))
		s.statement <- nil
		require.Equal(t, verdict{outcome: outcomeDone}, s.result(t))
		require.Equal(t, 3, strings.Count(s.out.String(), "job 112 on shop.orders: scan, 40%, 1.2M rows, 1.0M/s\n"), s.out.String())
	})
}

// TestBuildThatFailsBeforeALookIsNamed: the number of a build that failed at once is awaited, so that its rows can be asked for.
func TestBuildThatFailsBeforeALookIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := follow(false)
		failed := &mysql.MySQLError{Number: errno.ErrDupEntry, Message: "Duplicate entry (rows listed in mysql.fastddl_ddl_errors, job 112)"}
		s.statement <- failed
		synctest.Wait()
		s.build.show(ended112("rollback done", "1062"))
		require.Equal(t, verdict{outcome: outcomeFailed, err: failed}, s.result(t))
		require.EqualValues(t, 112, s.follower.seen.ID)
	})
}

// TestCtrlCAsks: the build goes on meanwhile, and only an answer does something to it.
func TestCtrlCAsks(t *testing.T) {
	for answer, want := range map[string]struct {
		commands []string
		outcome  outcome
	}{
		"l":      {nil, outcomeLeft},
		" Pause": {[]string{"PAUSE"}, outcomePaused},
		"c":      {[]string{"CANCEL"}, outcomeCancelled},
		"":       {nil, outcomeDone},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := follow(true)
			s.build.show(running112())
			s.pass(time.Second)
			s.signals <- os.Interrupt
			s.pass(time.Minute)
			require.Contains(t, s.out.String(), question)
			require.Empty(t, s.build.commands, "no answer yet")
			s.lines <- "what?"
			s.pass(time.Second)
			require.Equal(t, 2, strings.Count(s.out.String(), question), "asked again")
			s.lines <- answer
			s.pass(time.Second)
			require.Equal(t, want.commands, s.build.commands)
			switch want.outcome {
			case outcomeCancelled:
				s.statement <- &mysql.MySQLError{Number: errno.ErrCancelledDDLJob}
			case outcomeDone:
				s.build.show(ended112(stateSynced, ""))
				s.statement <- nil
			}
			require.Equal(t, want.outcome, s.result(t).outcome)
		})
	}
}

// TestSecondCtrlCLeaves, as do a signal that is no question, and Ctrl-C without a terminal. Nothing is cancelled.
func TestSecondCtrlCLeaves(t *testing.T) {
	for _, tc := range []struct {
		terminal bool
		signals  []os.Signal
	}{{true, []os.Signal{os.Interrupt, os.Interrupt}}, {true, []os.Signal{syscall.SIGTERM}}, {true, []os.Signal{syscall.SIGHUP}}, {false, []os.Signal{os.Interrupt}}} {
		synctest.Test(t, func(t *testing.T) {
			s := follow(tc.terminal)
			s.build.show(running112())
			for _, sig := range tc.signals {
				s.pass(time.Second)
				s.signals <- sig
			}
			require.Equal(t, outcomeLeft, s.result(t).outcome)
			require.Empty(t, s.build.commands)
		})
	}
}

// TestRefusedCommandIsSaid: the build is followed on.
func TestRefusedCommandIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := follow(true)
		s.build.refuse = &mysql.MySQLError{Number: 8121, Message: "privilege check fail"}
		s.build.show(running112())
		for _, answer := range []string{"c", "p"} {
			s.pass(time.Second)
			s.signals <- os.Interrupt
			s.lines <- answer
			s.pass(time.Second)
			require.Contains(t, s.out.String(), "ERROR 8121")
		}
		s.build.show(ended112(stateSynced, ""))
		s.statement <- nil
		require.Equal(t, outcomeDone, s.result(t).outcome)
	})
}

// TestLostConnectionIsSurvived: the build is followed by its number, through a restart of the server, and its end is the server's word.
func TestLostConnectionIsSurvived(t *testing.T) {
	for _, lost := range []error{driver.ErrBadConn, mysql.ErrInvalidConn, &mysql.MySQLError{Number: errno.ErrServerShutdown}} {
		for _, end := range []struct {
			job  *Job
			want outcome
		}{
			{ended112(stateSynced, ""), outcomeDone}, {ended112("rollback done", "Cancelled DDL job"), outcomeCancelled},
			{ended112("rollback done", "Duplicate entry '?'"), outcomeFailed}, {&Job{ID: 112, Step: stepReady}, outcomeReady},
		} {
			synctest.Test(t, func(t *testing.T) {
				s := follow(true)
				s.build.show(running112())
				s.pass(2 * time.Second)
				s.statement <- lost
				s.build.fail(errors.New("connection refused"))
				s.pass(5 * time.Minute)
				require.Equal(t, 1, strings.Count(s.out.String(), "trying again"))
				s.build.fail(nil)
				s.pass(time.Minute)
				require.Contains(t, s.out.String(), "connected again")
				s.build.show(end.job)
				v := s.result(t)
				require.Equal(t, end.want, v.outcome)
				require.Equal(t, end.want == outcomeFailed, v.err != nil)
			})
		}
	}
}

// TestDoneIsTheServersWordOnly: what is not known is not said to be done.
func TestDoneIsTheServersWordOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		play func(s *stage)
		want string
	}{
		"the statement was never queued": {func(s *stage) { s.statement <- driver.ErrBadConn }, "the server shows no build"},
		"the server never answers again": {func(s *stage) {
			s.statement <- driver.ErrBadConn
			s.build.fail(errors.New("refused"))
		}, "no answer for 10m"},
		"the user was dropped": {func(s *stage) { s.build.fail(&mysql.MySQLError{Number: errno.ErrAccessDenied}) }, "1045"},
		"the build has left the history": {func(s *stage) {
			s.build.show(running112())
			s.pass(time.Second)
			s.statement <- driver.ErrBadConn
			s.pass(time.Second)
			s.build.show(nil)
		}, "how it ended is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := follow(true)
				tc.play(s)
				<-s.ended
				require.ErrorContains(t, s.err, tc.want)
				require.Empty(t, s.verdict.outcome)
			})
		})
	}
}

// TestFollowerNeverLies: random servers, users and networks. A build is cancelled or paused only after an answer that says so, and the
// outcome is what the server has shown.
func TestFollowerNeverLies(t *testing.T) {
	seeds := randtest.Rand(t)
	for range 300 {
		rng := rand.New(rand.NewPCG(seeds.Uint64(), 1))
		synctest.Test(t, func(t *testing.T) {
			s := follow(rng.IntN(3) > 0)
			asked := map[string]bool{}
			live := func() bool {
				select {
				case <-s.ended:
					return false
				default:
					return true
				}
			}
			returned := false
			for step := 0; live() && step < 40; step++ {
				switch rng.IntN(9) {
				case 0:
					s.build.fail(errors.New("lost"))
				case 1:
					s.build.fail(nil)
				case 2:
					s.build.show(running112())
				case 3:
					select {
					case s.signals <- os.Interrupt:
					default:
					}
				case 4, 5:
					answer := []string{"c", "p", "x", ""}[rng.IntN(4)]
					select {
					case s.lines <- answer:
						asked[answer] = true
					default:
					}
				case 6:
					if !returned && rng.IntN(3) == 0 {
						returned = true
						s.statement <- driver.ErrBadConn
					}
				}
				s.pass(time.Duration(rng.IntN(2000)) * time.Millisecond)
			}
			want := outcomeDone
			if live() {
				end := ended112(stateSynced, "")
				if rng.IntN(2) == 0 {
					end, want = ended112("rollback done", cancelledText), outcomeCancelled
				}
				s.build.show(end)
				s.build.fail(nil)
				<-s.ended
			}
			for _, verb := range s.build.commands {
				require.True(t, asked[strings.ToLower(verb[:1])], "%s without an answer\n%s", verb, s.out.String())
			}
			switch s.verdict.outcome {
			case outcomeLeft:
			case outcomePaused:
				require.Contains(t, s.build.commands, "PAUSE")
			case "":
				require.Error(t, s.err)
			default:
				require.Equal(t, want, s.verdict.outcome, s.out.String())
			}
		})
	}
}

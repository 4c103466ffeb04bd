package ctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/errno"

	"fastddl/internal/errs"
	"fastddl/internal/sleep"
)

// builds is the server as a follower needs it.
type builds interface {
	// job returns the build that is followed; nil if the server shows none.
	job(ctx context.Context) (*Job, error)
	// command cancels or pauses the build; cancel ends the statement if no build is known.
	command(ctx context.Context, verb string, j *Job) error
}

// outcome is how a build was left.
type outcome string

const (
	outcomeDone      outcome = "done"      // its indexes are public
	outcomeReady     outcome = "ready"     // it is built, and waits for its publication
	outcomeFailed    outcome = "failed"    // it is undone, because of an error
	outcomeCancelled outcome = "cancelled" // it is undone, because a user wanted that
	outcomePaused    outcome = "paused"    // this command has paused it
	outcomeLeft      outcome = "left"      // it goes on without this command
)

func (o outcome) code() ExitCode {
	switch o {
	case outcomeDone, outcomeReady:
		return Done
	case outcomeCancelled:
		return Cancelled
	case outcomePaused, outcomeLeft:
		return Left
	}
	return Failed
}

const (
	// lookTime bounds one look at a build.
	lookTime = 10 * time.Second
	// lostLooks is how many looks must find no build, after the connection of its statement was lost, until it counts as never
	// queued, and lostTime the least time for that. The server shows a build a second after it was queued.
	lostLooks = 3
	lostTime  = 5 * time.Second
	// endedGrace is how long the statement of a build that has ended may take to return, until its connection counts as lost.
	endedGrace = time.Minute
	// shownTime is how long the end of a build is waited for in the table of jobs.
	shownTime = 3 * time.Second
)

// look is what the server has shown at a moment.
type look struct {
	job *Job
	err error
}

// follower watches a build until it ends or the user leaves it. It decides; others look, draw and execute.
type follower struct {
	*Client
	builds builds
	view   view
	// statement receives the result of the statement that began the build; nil if this command has not executed it, or no longer
	// waits for it.
	statement <-chan error
	// manual says that a build which waits for its publication is what was asked for.
	manual bool
	// expectsJob says that the statement is one of a build, which the table of jobs will have.
	expectsJob bool

	began time.Time
	// seen is the build at the last look that has found it.
	seen *Job
	// detached says that the statement's connection is lost.
	detached           bool
	detachedAt         time.Time
	looksWithoutJob    int
	lostSince, endedAt time.Time
	asking             bool
	lines              <-chan string // nil before the first question
}

// verdict ends the following: how, and the error of a build that has failed.
type verdict struct {
	outcome outcome
	err     error
}

// follow watches the build. An error says that it could not be watched to its end.
func (f *follower) follow(ctx context.Context) (verdict, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.began = time.Now()
	looks := make(chan look)
	go f.lookOn(ctx, looks)
	for {
		var v *verdict
		var err error
		select {
		case l := <-looks:
			v, err = f.looked(l)
		case result := <-f.statement:
			v, err = f.returned(ctx, looks, result)
		case sig := <-f.Signals:
			v = f.signalled(sig)
		case line := <-f.lines:
			v = f.answered(ctx, line)
		case <-ctx.Done():
			return verdict{}, ctx.Err()
		}
		if err != nil || v != nil {
			if f.asking {
				f.view.note("") // the line of the question
			}
			f.view.end()
			if v == nil {
				v = &verdict{}
			}
			return *v, err
		}
	}
}

// lookOn looks at the build from time to time until ctx ends.
func (f *follower) lookOn(ctx context.Context, looks chan<- look) {
	for {
		l := f.lookOnce(ctx)
		select {
		case looks <- l:
		case <-ctx.Done():
			return
		}
		if !sleep.For(ctx, f.Every) {
			return
		}
	}
}

func (f *follower) lookOnce(ctx context.Context) (l look) {
	defer errs.Contain(&l.err)
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	l.job, l.err = f.builds.job(ctx)
	return l
}

// looked takes a look into account.
func (f *follower) looked(l look) (*verdict, error) {
	if l.err != nil {
		return nil, f.failed(l.err)
	}
	if !f.lostSince.IsZero() {
		f.lostSince = time.Time{}
		f.note("connected again")
	}
	if l.job == nil {
		return nil, f.missed()
	}
	f.looksWithoutJob = 0
	f.seen = l.job
	if !f.asking {
		f.view.progress(l.job)
	}
	switch {
	case l.job.Ended && f.statement != nil:
		// The statement has the error with the values of rows. It returns when all servers know the new schema.
		if f.endedAt.IsZero() {
			f.endedAt = time.Now()
		}
		if time.Since(f.endedAt) < endedGrace {
			return nil, nil
		}
		return f.judged(), nil
	case l.job.Ended:
		return f.judged(), nil
	case f.manual && f.detached && l.job.Step == stepReady:
		return &verdict{outcome: outcomeReady}, nil
	}
	return nil, nil
}

// judged is the verdict by what the server shows of a build that has ended.
func (f *follower) judged() *verdict {
	switch {
	case f.seen.Published():
		return &verdict{outcome: outcomeDone}
	case f.seen.Cancelled():
		return &verdict{outcome: outcomeCancelled}
	}
	return &verdict{outcome: outcomeFailed, err: fmt.Errorf("job %d: %s", f.seen.ID, f.seen.Error)}
}

// failed notes a look that has failed. The build goes on meanwhile; what it needs is a server that answers.
func (f *follower) failed(err error) error {
	if denied(err) {
		return err
	}
	if f.lostSince.IsZero() {
		f.lostSince = time.Now()
		f.note("the server does not answer (%s): trying again", message(err))
	}
	if since := time.Since(f.lostSince); since > f.GiveUp {
		return fmt.Errorf("no answer for %s: %w", since.Round(time.Second), err)
	}
	return nil
}

// missed notes a look without a build.
func (f *follower) missed() error {
	if f.statement != nil {
		if !f.asking {
			f.view.waiting(time.Since(f.began))
		}
		return nil
	}
	if f.seen != nil {
		return fmt.Errorf("job %d is no longer in the history: how it ended is not known", f.seen.ID)
	}
	if f.looksWithoutJob++; f.detached && f.looksWithoutJob >= lostLooks && time.Since(f.detachedAt) >= lostTime {
		return errors.New("the connection was lost, and the server shows no build of this statement: it was not queued, or this user may no longer see it")
	}
	return nil
}

// returned takes the result of the statement into account.
func (f *follower) returned(ctx context.Context, looks <-chan look, result error) (*verdict, error) {
	if result == nil {
		v := &verdict{outcome: outcomeDone}
		if f.expectsJob {
			f.awaitEnd(ctx, looks)
		}
		if f.seen != nil && !f.seen.Ended && f.seen.Step == stepReady {
			v.outcome = outcomeReady
		}
		return v, nil
	}
	if theirs, ok := refused(result); ok {
		switch theirs.Number {
		case errno.ErrCancelledDDLJob, errno.ErrQueryInterrupted:
			return &verdict{outcome: outcomeCancelled}, nil
		}
		if f.seen == nil && listsRows(result) { // a build that failed before a look: the last lines name its number
			f.awaitEnd(ctx, looks)
		}
		return &verdict{outcome: outcomeFailed, err: result}, nil
	}
	f.statement, f.detached, f.detachedAt = nil, true, time.Now()
	f.note("the connection of the statement is lost (%s): the build goes on at the server, and is followed", message(result))
	return nil, nil
}

// listsRows reports whether the error of a build says that the server lists the rows that it is about.
func listsRows(err error) bool { return strings.Contains(err.Error(), "fastddl_ddl_errors") }

// awaitEnd waits until the server shows the end of a build whose statement has returned, or for shownTime.
func (f *follower) awaitEnd(ctx context.Context, looks <-chan look) {
	timer := time.NewTimer(shownTime)
	defer timer.Stop()
	for {
		select {
		case l := <-looks:
			if l.job == nil {
				continue
			}
			f.seen = l.job
			f.view.progress(l.job)
			if l.job.Ended || l.job.Step == stepReady {
				return
			}
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (f *follower) note(format string, args ...any) {
	f.view.note(fmt.Sprintf(format, args...))
	if f.asking {
		f.view.ask(question) // it has scrolled away
	}
}

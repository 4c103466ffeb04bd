package sstimport

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fastddl/internal/backoff"
	"fastddl/kv"
)

// stage is a step of the import of a region's data.
type stage int

const (
	// locating asks PD for the region.
	locating stage = iota
	// writing sends files to the peers' stores.
	writing
	// ingesting tells the leader to take them.
	ingesting
)

func (s stage) String() string {
	return [...]string{"looking up the region", "writing to it", "ingesting into it"}[s]
}

// action is what is done after an error.
type action int

const (
	// giveUp ends the import.
	giveUp action = iota
	// ingestAgain has the leader told again to take what was written.
	ingestAgain
	// writeAgain sends new files to the same peers.
	writeAgain
	// locateAgain looks the region up first.
	locateAgain
)

// verdict is the judgement of an error.
type verdict struct {
	next action
	// busy says that the store has too much to do: it is left alone for a while, and
	// that is not counted as an attempt.
	busy bool
	// wait is how long the store wants to be left alone, 0 if it does not say.
	wait time.Duration
	// err is the error to give up with.
	err error
}

// regionError is an error that TiKV has answered with.
type regionError struct{ pb *errorpb.Error }

func (e regionError) Error() string {
	if e.pb.Message != "" {
		return e.pb.Message
	}
	return e.pb.String()
}

// writeError is what TiKV has said of data that it was sent. It has no types for that.
type writeError struct{ message string }

func (e writeError) Error() string { return e.message }

var (
	errNoRegion = errors.New("PD does not know the region")
	errNoLeader = errors.New("the region has no leader")
	errStalled  = errors.New("the store does not go on")
)

// leaseError is the end of the lease.
type leaseError struct{ err error }

func (e *leaseError) Error() string { return e.err.Error() }
func (e *leaseError) Unwrap() error { return e.err }

// judge says what is to be done after an error in a stage. Whatever is not known to be
// final is tried again from the beginning, which is harmless.
func judge(at stage, err error) verdict {
	var (
		lease  *leaseError
		source *sourceError
		region regionError
		write  writeError
	)
	switch {
	case errors.As(err, &lease), errors.As(err, &source), errors.Is(err, kv.ErrClosed), errors.Is(err, kv.ErrDiskFull):
		return verdict{next: giveUp, err: err}
	case errors.As(err, &region):
		return judgeRegion(at, region.pb, err)
	case errors.As(err, &write):
		return judgeText(write.message, err)
	case at == locating, errors.Is(err, errNoLeader), errors.Is(err, errNoRegion), errors.Is(err, errStalled):
		return verdict{next: locateAgain, err: err}
	}
	return judgeStatus(at, err)
}

// ingestConflict is what TiKV says, without a type, of files that it is taking at the moment.
const ingestConflict = "ingest file conflict"

// judgeRegion judges an error of TiKV's: most have a type.
func judgeRegion(at stage, e *errorpb.Error, err error) verdict {
	again := writeAgain
	if at == ingesting {
		again = ingestAgain
	}
	switch {
	case e.ServerIsBusy != nil:
		return verdict{next: again, busy: true, wait: time.Duration(e.ServerIsBusy.BackoffMs) * time.Millisecond, err: err}
	case e.DiskFull != nil:
		return verdict{next: giveUp, err: fmt.Errorf("%w: %w", kv.ErrDiskFull, err)}
	case e.FlashbackInProgress != nil, e.FlashbackNotPrepared != nil:
		return verdict{next: giveUp, err: err}
	case e.ReadIndexNotReady != nil, e.ProposalInMergingMode != nil, e.RecoveryInProgress != nil, e.MaxTimestampNotSynced != nil:
		// The region is about to change, or its leader to be ready. What was written is
		// of use if it has not changed: the epoch tells.
		return verdict{next: again, err: err}
	case at == ingesting && strings.Contains(e.Message, ingestConflict):
		// It is still taking the files, as it was told before. They must not be sent anew for
		// that: it says so again, or that they are gone, when it has taken them.
		return verdict{next: ingestAgain, busy: true, err: err}
	case e.StaleCommand != nil:
		// The files are not there: imported already, or lost.
		return verdict{next: writeAgain, err: err}
	}
	// NotLeader, RegionNotFound, EpochNotMatch, KeyNotInRegion, StoreNotMatch,
	// MismatchPeerId, RegionNotInitialized: the region is not what it was. And all others.
	return verdict{next: locateAgain, err: err}
}

// judgeText judges an error that has only a text.
func judgeText(message string, err error) verdict {
	switch {
	case strings.Contains(message, "RequestTooNew"):
		// The peer has not heard yet of the change that PD knows.
		return verdict{next: writeAgain, err: err}
	case strings.Contains(message, "ResourceNotEnough"):
		// It has too little memory left to make files.
		return verdict{next: writeAgain, busy: true, err: err}
	case strings.Contains(message, "DiskSpaceNotEnough"):
		return verdict{next: giveUp, err: fmt.Errorf("%w: %w", kv.ErrDiskFull, err)}
	case strings.Contains(message, "IncompatibleApiVersion"):
		return verdict{next: giveUp, err: err}
	}
	return verdict{next: locateAgain, err: err}
}

// judgeStatus judges an error of gRPC, or of nobody in particular.
func judgeStatus(at stage, err error) verdict {
	s, ok := status.FromError(err)
	if !ok {
		return verdict{next: locateAgain, err: err}
	}
	switch s.Code() {
	case codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated:
		return verdict{next: giveUp, err: err}
	case codes.Unknown:
		return judgeText(s.Message(), err)
	case codes.Unavailable, codes.DeadlineExceeded:
		if at == ingesting {
			// What was written is there still, unless it was taken: then the store says that it
			// is gone.
			return verdict{next: ingestAgain, err: err}
		}
	}
	// Unavailable, DeadlineExceeded, Canceled and the like: the request may have been
	// carried out or not, and the store may be another one by now.
	return verdict{next: locateAgain, err: err}
}

// patience counts what has failed since data was last imported into a region.
type patience struct {
	failures int // all
	counted  int // without answers that a store is busy
	since    time.Time
	excused  time.Duration // of the time since then
	first    error
}

// limits bound patience.
type limits struct {
	attempts int
	total    time.Duration
	backoff  func(failures int) time.Duration
}

// maxWait bounds how long a store is left alone at a time, whatever it says: its reason
// may be gone earlier.
const maxWait = 10 * time.Second

// maxBusyPause bounds how long a store is left alone that only says that it is too busy to
// take files that it has. TiKV does so until it has compacted some; to be asked costs it
// next to nothing.
const maxBusyPause = 500 * time.Millisecond

// failed notes an error and returns the pause after it, or the error to give up with.
func (p *patience) failed(now time.Time, v verdict, l limits) (pause time.Duration, err error) {
	if v.next == giveUp {
		return 0, v.err
	}
	if p.failures == 0 {
		p.since, p.excused, p.first = now, 0, v.err
	}
	p.failures++
	if !v.busy {
		p.counted++
	}
	if spent := now.Sub(p.since) - p.excused; p.counted >= l.attempts || spent >= l.total {
		return 0, p.giveUp(spent, v.err)
	}
	pause = l.backoff(p.failures)
	if v.busy && v.next == ingestAgain {
		pause = min(pause, maxBusyPause)
	}
	return min(max(pause, v.wait), maxWait), nil
}

// giveUp tells what it began with, which is mostly the cause, and what it ended with.
func (p *patience) giveUp(spent time.Duration, last error) error {
	if p.first.Error() == last.Error() {
		return fmt.Errorf("sstimport: gave up after %d errors in %s: %w", p.failures, spent.Round(time.Millisecond), p.first)
	}
	return fmt.Errorf("sstimport: gave up after %d errors in %s: %w, and at last: %w", p.failures, spent.Round(time.Millisecond), p.first, last)
}

// excuse leaves a time out of that which is bounded.
func (p *patience) excuse(d time.Duration) { p.excused += d }

// progress forgets what has failed.
func (p *patience) progress() { *p = patience{} }

func exponentialBackoff(failures int) time.Duration {
	return backoff.Exponential(failures, 50*time.Millisecond, 5*time.Second)
}

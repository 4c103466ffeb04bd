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
	// ingesting requests the leader to ingest them.
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
	// ingestAgain requests the leader again to ingest the files.
	ingestAgain
	// writeAgain sends new files to the same peers.
	writeAgain
	// locateAgain looks the region up first.
	locateAgain
)

// decision is how the import goes on after an error.
type decision struct {
	next action
	// busy says that the store is overloaded: the import backs off from it, and the
	// error is not counted as an attempt.
	busy bool
	// wait is the backoff that the store asks for, 0 if it asks for none.
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

// classifyError decides how to go on after an error in a stage. Errors that are not known to
// be final are retried from the beginning, which is harmless.
func classifyError(at stage, err error) decision {
	var (
		lease  *leaseError
		source *sourceError
		region regionError
		write  writeError
		wrong  *kv.ImportAccountError
	)
	switch {
	case errors.As(err, &lease), errors.As(err, &source), errors.As(err, &wrong), errors.Is(err, kv.ErrClosed), errors.Is(err, kv.ErrDiskFull):
		return decision{next: giveUp, err: err}
	case errors.As(err, &region):
		return classifyRegionError(at, region.pb, err)
	case errors.As(err, &write):
		return classifyMessage(write.message, err)
	case at == locating, errors.Is(err, errNoLeader), errors.Is(err, errNoRegion), errors.Is(err, errStalled):
		return decision{next: locateAgain, err: err}
	}
	return classifyStatus(at, err)
}

// ingestConflict is what TiKV says, without a type, of files that it is taking at the moment.
const ingestConflict = "ingest file conflict"

// classifyRegionError classifies an error of TiKV's: most have a type.
func classifyRegionError(at stage, e *errorpb.Error, err error) decision {
	again := writeAgain
	if at == ingesting {
		again = ingestAgain
	}
	switch {
	case e.ServerIsBusy != nil:
		return decision{next: again, busy: true, wait: time.Duration(e.ServerIsBusy.BackoffMs) * time.Millisecond, err: err}
	case e.DiskFull != nil:
		return decision{next: giveUp, err: fmt.Errorf("%w: %w", kv.ErrDiskFull, err)}
	case e.FlashbackInProgress != nil, e.FlashbackNotPrepared != nil:
		return decision{next: giveUp, err: err}
	case e.ReadIndexNotReady != nil, e.ProposalInMergingMode != nil, e.RecoveryInProgress != nil, e.MaxTimestampNotSynced != nil:
		// The region is about to change, or its leader to be ready. The files are still
		// valid if it has not changed, which TiKV checks by the epoch.
		return decision{next: again, err: err}
	case at == ingesting && strings.Contains(e.Message, ingestConflict):
		// It is still ingesting the files because of an earlier request. They must not be sent
		// anew for that: the next answer is the same, or that they are gone, once they are
		// ingested.
		return decision{next: ingestAgain, busy: true, err: err}
	case e.StaleCommand != nil:
		// The files are not there: imported already, or lost.
		return decision{next: writeAgain, err: err}
	}
	// NotLeader, RegionNotFound, EpochNotMatch, KeyNotInRegion, StoreNotMatch,
	// MismatchPeerId, RegionNotInitialized: the region is not what it was. And all others.
	return decision{next: locateAgain, err: err}
}

// classifyMessage classifies an error that has only a text.
func classifyMessage(message string, err error) decision {
	switch {
	case strings.Contains(message, "RequestTooNew"):
		// The peer has not applied the change yet that PD knows.
		return decision{next: writeAgain, err: err}
	case strings.Contains(message, "ResourceNotEnough"):
		// It has too little memory left to make files.
		return decision{next: writeAgain, busy: true, err: err}
	case strings.Contains(message, "DiskSpaceNotEnough"):
		return decision{next: giveUp, err: fmt.Errorf("%w: %w", kv.ErrDiskFull, err)}
	case strings.Contains(message, "IncompatibleApiVersion"):
		return decision{next: giveUp, err: err}
	}
	return decision{next: locateAgain, err: err}
}

// classifyStatus classifies an error of gRPC, or one of unknown origin.
func classifyStatus(at stage, err error) decision {
	s, ok := status.FromError(err)
	if !ok {
		return decision{next: locateAgain, err: err}
	}
	switch s.Code() {
	case codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated:
		return decision{next: giveUp, err: err}
	case codes.Unknown:
		return classifyMessage(s.Message(), err)
	case codes.Unavailable, codes.DeadlineExceeded:
		if at == ingesting {
			// The files are there still, unless they were ingested: then the store answers that
			// they are gone.
			return decision{next: ingestAgain, err: err}
		}
	}
	// Unavailable, DeadlineExceeded, Canceled and the like: the request may have been
	// carried out or not, and the store may be another one by now.
	return decision{next: locateAgain, err: err}
}

// retryBudget counts errors since data was last imported into a region.
type retryBudget struct {
	failures int // all
	counted  int // without answers that a store is busy
	since    time.Time
	excluded time.Duration // of the time since then
	first    error
}

// limits bound a retryBudget.
type limits struct {
	attempts int
	total    time.Duration
	backoff  func(failures int) time.Duration
}

// maxWait bounds the backoff from a store, even if it asks for more: its reason may be gone
// earlier.
const maxWait = 10 * time.Second

// maxBusyPause bounds the backoff from a store that is only too busy to ingest files that it
// has. TiKV is so until it has compacted some; the request costs it next to nothing.
const maxBusyPause = 500 * time.Millisecond

// failed notes an error and returns the pause after it, or the error to give up with.
func (b *retryBudget) failed(now time.Time, d decision, l limits) (pause time.Duration, err error) {
	if d.next == giveUp {
		return 0, d.err
	}
	if b.failures == 0 {
		b.since, b.excluded, b.first = now, 0, d.err
	}
	b.failures++
	if !d.busy {
		b.counted++
	}
	if spent := now.Sub(b.since) - b.excluded; b.counted >= l.attempts || spent >= l.total {
		return 0, b.giveUp(spent, d.err)
	}
	pause = l.backoff(b.failures)
	if d.busy && d.next == ingestAgain {
		pause = min(pause, maxBusyPause)
	}
	return min(max(pause, d.wait), maxWait), nil
}

// giveUp returns the first error, which is mostly the cause, and the last one.
func (b *retryBudget) giveUp(spent time.Duration, last error) error {
	if b.first.Error() == last.Error() {
		return fmt.Errorf("sstimport: gave up after %d errors in %s: %w", b.failures, spent.Round(time.Millisecond), b.first)
	}
	return fmt.Errorf("sstimport: gave up after %d errors in %s: %w, and at last: %w", b.failures, spent.Round(time.Millisecond), b.first, last)
}

// exclude leaves a time out of the bounded one.
func (b *retryBudget) exclude(d time.Duration) { b.excluded += d }

// reset forgets the errors.
func (b *retryBudget) reset() { *b = retryBudget{} }

func exponentialBackoff(failures int) time.Duration {
	return backoff.Exponential(failures, 50*time.Millisecond, 5*time.Second)
}

package sstimport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tikv/client-go/v2/oracle"
	"go.uber.org/zap"

	"fastddl/internal/parallel"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

// maxRegions bounds the regions that one import writes to at a time.
const maxRegions = 16

// Importer imports units. All methods may be called concurrently.
type Importer struct {
	opts       Options
	log        *zap.Logger
	stores     *stores
	warnLabels sync.Once

	running sync.RWMutex // read-locked by imports
	closed  atomic.Bool
}

// New returns an importer, which must be closed. It connects to nothing yet.
func New(opts Options) (*Importer, error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	im := &Importer{opts: opts, log: opts.Logger.Named("sstimport")}
	im.stores = newStores(&im.opts)
	return im, nil
}

// Close waits for imports that are running, and ends the connections.
func (im *Importer) Close() error {
	im.closed.Store(true)
	im.running.Lock()
	defer im.running.Unlock()
	return im.stores.close()
}

// Busy says whether the importer backs off from a store now because it is overloaded or
// suspended.
func (im *Importer) Busy() bool { return im.stores.busy(time.Now()) }

// Import imports units and consumes those of which all pairs have been imported, as
// kv.Store says. On error the others are to be imported again, or discarded.
func (im *Importer) Import(ctx context.Context, units []kv.ImportUnit) (err error) {
	im.running.RLock()
	defer im.running.RUnlock()
	if im.closed.Load() {
		return kv.ErrClosed
	}
	fresh, err := im.fresh(units)
	if err != nil || len(fresh) == 0 {
		return err
	}
	if err := im.checkVersions(ctx, fresh); err != nil {
		return err
	}
	src, err := openSource(ctx, fresh)
	if err != nil {
		return err
	}
	if err = im.importAll(ctx, src); err == nil {
		err = src.account.close()
	}
	// Files are removed after the source has closed them.
	problems := []error{err, src.close()}
	for _, u := range src.account.complete() {
		problems = append(problems, u.consume())
	}
	return errors.Join(problems...)
}

// importAll imports what a source holds.
func (im *Importer) importAll(ctx context.Context, src *source) error {
	regions, err := im.regions(ctx, src.units)
	if err != nil {
		return err
	}
	if im.opts.Labels != nil && src.bytes() >= im.opts.SplitBytes {
		defer im.pauseScheduling(ctx, regions)()
	}
	ranges, err := im.plan(ctx, src, starts(regions))
	if err != nil {
		return err
	}
	files := max(1, im.opts.StoreStreams/max(1, len(ranges)))
	if src.overlaps() {
		files = 1 // RocksDB takes each into the uppermost level, and TiKV refuses more than 20 there
	}
	return parallel.Do(ctx, len(ranges), func() int { return maxRegions }, func(ctx context.Context, i int) error {
		return im.importRange(ctx, src, ranges[i], files)
	})
}

// lease asks whether the caller may still import. The region that a request goes to must
// have been looked up before.
func (im *Importer) lease(ctx context.Context) error {
	if err := im.opts.Lease(ctx); err != nil {
		return &leaseError{err}
	}
	return nil
}

// fresh checks units and returns those that are not consumed yet, in key order. Of those
// that are, it removes files that could not be removed then.
func (im *Importer) fresh(units []kv.ImportUnit) ([]*unit, error) {
	var fresh []*unit
	for _, x := range units {
		u, ok := x.(*unit)
		if !ok || u.im != im {
			return nil, errForeign
		}
		u.mu.Lock()
		consumed, discarded := u.consumed, u.discarded
		u.mu.Unlock()
		switch {
		case discarded:
			return nil, errDiscarded
		case !consumed:
			fresh = append(fresh, u)
		default:
			if err := u.Discard(); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(fresh, func(a, b *unit) int { return bytes.Compare(a.keys.Start, b.keys.Start) })
	for i := 1; i < len(fresh); i++ {
		if bytes.Compare(fresh[i].keys.Start, fresh[i-1].keys.End) < 0 {
			return nil, fmt.Errorf("%w: %s and %s", errOverlap, fresh[i-1].keys, fresh[i].keys)
		}
	}
	return fresh, nil
}

// checkVersions refuses versions that PD has not handed out yet: a transaction could get
// the same one.
func (im *Importer) checkVersions(ctx context.Context, units []*unit) error {
	var physical, logical int64
	err := im.retryPD(ctx, func() (err error) {
		physical, logical, err = im.opts.PD.GetTS(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("sstimport: timestamp: %w", err)
	}
	now := oracle.ComposeTS(physical, logical)
	for _, u := range units {
		if u.version >= now {
			return fmt.Errorf("%w: %d", errVersion, u.version)
		}
	}
	return nil
}

// retryPD asks PD until it answers, with the retry budget of a region.
func (im *Importer) retryPD(ctx context.Context, ask func() error) error {
	for b := (retryBudget{}); ; {
		err := ask()
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		pause, err := b.failed(im.stores.now(), classifyError(locating, err), im.limits())
		if err != nil {
			return err
		}
		if !sleep.For(ctx, pause) {
			return ctx.Err()
		}
	}
}

func (im *Importer) limits() limits {
	return limits{attempts: im.opts.MaxAttempts, total: im.opts.GiveUpAfter, backoff: im.opts.Backoff}
}

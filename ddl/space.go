package ddl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fastddl/internal/backoff"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

// spaceInterval is how often a build looks at the room on the store's disk.
const spaceInterval = 200 * time.Millisecond

// A build that has found no room in the temp folder waits for minTempPause, then for twice as
// long each time, up to maxTempPause: what it has scanned since its checkpoint is scanned again.
const minTempPause, maxTempPause = time.Second, time.Minute

// errNoSpace ends a build that would fill the disk, or that has found the temp folder's full. It
// goes on from its checkpoint when there is room again, which is no error of the job's.
var errNoSpace = errors.New("ddl: the store's disk is nearly full")

// lowSpace says what is free on the store's disk, and what a build needs, if that is less. It is
// empty if there is room, or the store does not know.
func (t *task) lowSpace() string {
	reporter, ok := t.d.opts.Builds.(kv.SpaceReporter)
	if !ok {
		return ""
	}
	free, _, state := reporter.Space()
	if state < kv.SpaceLow {
		return ""
	}
	needed := reporter.SpaceForBuilds()
	return fmt.Sprintf("%d MiB are free on the store's disk, builds need %d MiB", free>>20, (needed+1<<20-1)>>20)
}

// awaitSpace waits until there is room on the store's disk for an index build, and for a
// while if there was none in the temp folder.
func (t *task) awaitSpace(ctx context.Context) error {
	defer t.view.SetWait("")
	if t.tempFull > 0 {
		pause := backoff.Exponential(t.tempFull, minTempPause, maxTempPause)
		t.view.SetWait(fmt.Sprintf("disk space: the temp folder's disk is full, next attempt after %s", pause))
		if !sleep.For(ctx, pause) {
			return context.Cause(ctx)
		}
	}
	for {
		low := t.lowSpace()
		if low == "" {
			return nil
		}
		t.view.SetWait("disk space: " + low)
		if !sleep.For(ctx, spaceInterval) {
			return context.Cause(ctx)
		}
	}
}

// whileSpace runs fn, and ends it with errNoSpace when the disk is nearly full.
func (t *task) whileSpace(ctx context.Context, fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		_ = t.d.contained("the watch of the disk", func() error {
			for sleep.For(ctx, spaceInterval) {
				if t.lowSpace() != "" {
					cancel(errNoSpace)
				}
			}
			return nil
		})
	}()
	err := fn(ctx)
	cancel(nil)
	<-watching
	if err != nil && errors.Is(context.Cause(ctx), errNoSpace) {
		return errNoSpace
	}
	return err
}

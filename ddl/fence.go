package ddl

import (
	"context"
	"fmt"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"go.uber.org/zap"

	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

// fence makes sure, where the store can, that no import of an earlier owner of the job
// comes late. Nothing is done for the job before that but to hold garbage collection, which
// the hold of that owner does not do for ever, and to take requests: a store may take long.
func (t *task) fence(ctx context.Context) error {
	store, ok := t.d.opts.Builds.(kv.Fencer)
	r := t.machine.Record()
	if !ok || r.Epoch == 0 || !r.Importing() {
		return nil
	}
	if err := t.holdAt(ctx, r.SnapshotTS); err != nil { // resumeHold sees to it
		t.d.opts.Logger.Info("an index build that was taken over does not hold garbage collection yet", zap.Int64("job", t.id), zap.Error(err))
	}
	if err := t.pauseTakeover(ctx); err != nil {
		return err
	}
	for attempt := int64(1); ; attempt++ {
		err := t.whileAnswering(ctx, func(ctx context.Context) error {
			gone, err := t.scheduler.LostSubtasks(ctx)
			if err != nil {
				return err
			}
			if err := t.FenceOnce(ctx, store, r); err != nil {
				return err
			}
			t.scheduler.FencedOff(gone)
			return nil
		}, func() {})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errStopped
		}
		if err := t.retryLater(ctx, "fence off late imports", attempt, err); err != nil {
			return err
		}
	}
}

// pauseTakeover waits for a while if the job has changed its owner often: owners may die of what they
// build. To undo it is no danger, nor to stop it, so nothing waits for that, and a job whose row is
// taken will be undone.
func (t *task) pauseTakeover(ctx context.Context) error {
	builds := func() bool {
		r := t.machine.Record()
		return r.Request == job.RequestNone && !r.RollingBack()
	}
	epoch := t.machine.Record().Epoch
	pause := dist.TakeoverPause(epoch)
	if pause == 0 || !builds() {
		return nil
	}
	t.view.SetWait(fmt.Sprintf("%s: it has changed hands %d times, and owners may die of what they build", pause, epoch))
	defer t.view.SetWait("")
	resting, end := context.WithCancel(ctx)
	defer end()
	err := t.whileAnswering(resting, func(ctx context.Context) error {
		return t.waiting(ctx, func(ctx context.Context) error {
			if !sleep.For(ctx, pause) {
				return context.Cause(ctx)
			}
			return nil
		})
	}, func() {
		if !builds() {
			end()
		}
	})
	switch {
	case ctx.Err() != nil:
		return errStopped
	case resting.Err() != nil || job.IsPermanent(err):
		return nil // the job sees by itself that its row is taken
	}
	return err
}

// whileAnswering runs fn, which must not look at the record, and complies with requests
// meanwhile, after each of which it calls then.
func (t *task) whileAnswering(ctx context.Context, fn func(context.Context) error, then func()) error {
	result := make(chan error, 1)
	go func() {
		result <- t.d.contained("what a job does between its actions", func() error { return fn(ctx) })
	}()
	for {
		select {
		case err := <-result:
			return err
		case m := <-t.inbox:
			m.answer <- t.comply(ctx, m)
			then()
		}
	}
}

// FenceOnce has the store refuse late imports into the job's indexes. All ranges go to it in one
// call: those of the partitions of a table may lie in few regions.
func (t *task) FenceOnce(ctx context.Context, store kv.Fencer, r *job.Record) error {
	var table *model.TableInfo
	err := t.d.sessions.InTxn(ctx, func(x *session.Txn) (err error) {
		table, err = schema.ReadTable(x, r)
		return err
	})
	if err != nil {
		return err
	}
	return store.Fence(ctx, indexRanges(r.TableID, table, r.IndexIDs)...)
}

// indexRanges are all keys of indexes. The table is nil if it is gone.
func indexRanges(tableID int64, table *model.TableInfo, indexIDs []int64) []kv.KeyRange {
	physical := []int64{tableID} // a global index is the table's
	if table != nil {
		physical = append(physical, schema.PartitionIDs(table)...)
	}
	ranges := make([]kv.KeyRange, 0, len(physical)*len(indexIDs))
	for _, id := range physical {
		for _, index := range indexIDs {
			ranges = append(ranges, kv.PrefixRange(tablecodec.EncodeTableIndexPrefix(id, index)))
		}
	}
	return ranges
}

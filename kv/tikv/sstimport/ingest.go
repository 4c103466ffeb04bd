package sstimport

import (
	"context"
	"slices"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"
	pd "github.com/tikv/pd/client"
	"go.uber.org/zap"

	"fastddl/internal/parallel"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

// maxIngestAttempts is how often a leader that is not busy is requested to ingest the same files.
const maxIngestAttempts = 4

// job imports what the units hold in a key range, region by region.
type job struct {
	im   *Importer
	src  *source
	left kv.KeyRange // what is not imported yet
	most int         // the limit of files that are sent to a region at one time

	region *pd.Region // nil if it is to be looked up
	files  *written   // nil if they are to be sent
	at     stage
	budget retryBudget
}

// importRange imports the pairs in r, at most so many files at a time.
func (im *Importer) importRange(ctx context.Context, src *source, r kv.KeyRange, most int) error {
	j := &job{im: im, src: src, left: r, most: most}
	for {
		done, err := j.step(ctx)
		if err == nil {
			if done {
				return nil
			}
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d := classifyError(j.at, err)
		pause, err := j.budget.failed(im.stores.now(), d, im.limits())
		if err != nil {
			return err
		}
		if err := j.prepare(ctx, d, pause); err != nil {
			return err
		}
	}
}

// step imports what one region is sent at a time, or goes on with it after an error. It
// is done when nothing is left.
func (j *job) step(ctx context.Context) (done bool, err error) {
	j.at = locating
	if j.region == nil {
		if j.region, err = j.im.locate(ctx, j.left.Start); err != nil {
			return false, err
		}
	}
	here := j.left.Intersect(rangeOf(j.region))
	list := j.im.stores.of(j.region.Meta.Peers)
	if err := awaitBackoff(ctx, list); err != nil {
		return false, err
	}
	began := j.im.stores.now()
	streams, release, err := acquire(ctx, list, j.streams(here))
	if err != nil {
		return false, err
	}
	defer release()
	if j.files == nil {
		err = j.send(ctx, here, list, streams)
	}
	// The time for sending depends on the amount and the speed, not on errors.
	j.budget.exclude(j.im.stores.now().Sub(began))
	if err != nil {
		return false, err
	}
	if len(j.files.left) > 0 {
		j.at = ingesting
		if err := j.ingest(ctx); err != nil {
			return false, err
		}
		j.budget.reset()
	}
	if err := j.src.account.settle(j.files.files); err != nil {
		return false, err
	}
	if j.files.next != nil {
		return j.advance(j.files.next), nil
	}
	return j.advance(here.End), nil
}

// send sends what is here to the region's stores, if they have room.
func (j *job) send(ctx context.Context, here kv.KeyRange, list []*store, streams int) (err error) {
	j.at = writing
	for _, st := range list {
		if err := j.im.stores.checkRoom(ctx, st); err != nil {
			return &storeError{st, j.region.Meta, err}
		}
	}
	if err := j.im.lease(ctx); err != nil {
		return err
	}
	j.files, err = j.im.write(ctx, j.region, j.src, here, streams)
	return err
}

// streams is how many files it is worth sending side by side of what is here: one if that
// is more than is sent at a time, or sent already.
func (j *job) streams(here kv.KeyRange) int {
	total := weigh(j.src.samplesIn(here))
	if j.files != nil || total > writeLimit(j.im.opts.SplitBytes) {
		return 1
	}
	return int(max(1, min(int64(j.most), total/leastFileBytes)))
}

// advance goes on at key, and says whether nothing is left there.
func (j *job) advance(key []byte) (done bool) {
	j.files = nil
	if key == nil {
		return true
	}
	j.left.Start = key
	if !rangeOf(j.region).Contains(key) {
		j.region = nil
	}
	return j.left.Empty()
}

// prepare prepares the retry after an error, and waits for its backoff.
func (j *job) prepare(ctx context.Context, d decision, pause time.Duration) error {
	st := asStoreError(d.err)
	if n := j.budget.failures; n&(n-1) == 0 { // the first, second, fourth and so on
		j.im.log.Warn("import into a region is repeated", zap.Stringer("at", j.at), zap.Int("failures", n), zap.Duration("pause", pause), zap.Error(d.err))
	}
	if d.next == ingestAgain && !d.busy && j.budget.counted > maxIngestAttempts {
		d.next = locateAgain // the store may be another one by now
	}
	switch d.next {
	case locateAgain:
		j.region, j.files = nil, nil
	case writeAgain:
		j.files = nil
	}
	if d.busy && st != nil {
		st.store.backOff(time.Now(), pause) // all that need this store wait
		return nil
	}
	if !sleep.For(ctx, pause) {
		return ctx.Err()
	}
	if d.next == locateAgain && st != nil {
		if err := j.im.stores.recheck(ctx, st.store, d.err); err != nil && ctx.Err() == nil {
			j.im.log.Warn("address of a store", zap.Error(err)) // the next attempt asks again
		}
	}
	return ctx.Err()
}

// ingest requests the leader to ingest the files that it has not ingested yet, if no peer is
// overloaded.
func (j *job) ingest(ctx context.Context) error {
	meta, leader := j.region.Meta, j.im.stores.leader(j.region)
	// All peers ingest the files, but only the leader checks its own load at the request.
	others := slices.DeleteFunc(j.im.stores.of(meta.Peers), func(st *store) bool { return st == leader })
	err := parallel.Do(ctx, len(others), func() int { return len(others) }, func(ctx context.Context, i int) error {
		regionErr, err := j.multiIngest(ctx, others[i], &import_sstpb.MultiIngestRequest{})
		if err == nil && regionErr.GetServerIsBusy() != nil {
			err = &storeError{others[i], meta, regionError{regionErr}}
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, files := range inOrder(j.files.left) {
		if err := j.im.lease(ctx); err != nil {
			return err
		}
		rc := j.im.requestContext(ctx)
		rc.RegionId, rc.RegionEpoch, rc.Peer = meta.Id, meta.RegionEpoch, j.region.Leader
		regionErr, err := j.multiIngest(ctx, leader, &import_sstpb.MultiIngestRequest{Context: rc, Ssts: files})
		if err != nil {
			return err
		}
		if regionErr != nil {
			return &storeError{leader, meta, regionError{regionErr}}
		}
		j.files.tookAll(files)
	}
	return nil
}

// inOrder returns the files that are to be taken one after the other: values of more than
// 255 bytes are in a file of their own, and TiKV takes the files of one request in any order.
// A reader of an entry whose value is missing would get an error.
func inOrder(files []*import_sstpb.SSTMeta) [][]*import_sstpb.SSTMeta {
	var values, entries []*import_sstpb.SSTMeta
	for _, f := range files {
		if f.CfName == valuesFamily {
			values = append(values, f)
		} else {
			entries = append(entries, f)
		}
	}
	return slices.DeleteFunc([][]*import_sstpb.SSTMeta{values, entries}, func(some []*import_sstpb.SSTMeta) bool { return len(some) == 0 })
}

// entriesFamily is TiKV's column family of entries, which hold short values, and valuesFamily that of long ones.
const entriesFamily, valuesFamily = "write", "default"

// multiIngest sends a request and returns what the store has answered.
func (j *job) multiIngest(ctx context.Context, st *store, req *import_sstpb.MultiIngestRequest) (*errorpb.Error, error) {
	ctx, cancel := context.WithTimeout(ctx, j.im.opts.CallTimeout)
	defer cancel()
	client, err := j.im.stores.client(ctx, st)
	if err != nil {
		return nil, &storeError{st, j.region.Meta, err}
	}
	resp, err := client.MultiIngest(ctx, req)
	kv.MeterOf(ctx).Add(kv.Costs{Requests: kv.Requests{Imports: 1}, SentBytes: int64(req.Size()), ReceivedBytes: int64(resp.Size())})
	if err != nil {
		return nil, &storeError{st, j.region.Meta, err}
	}
	return resp.Error, nil
}

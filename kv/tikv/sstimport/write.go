package sstimport

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/tikv/client-go/v2/util"
	pd "github.com/tikv/pd/client"
	"google.golang.org/grpc"

	"fastddl/internal/errs"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

const (
	// batchBytes is how much of keys and values one message holds.
	batchBytes = 64 << 10
	// leastFileBytes is about the least weight of each of several files for one region.
	leastFileBytes = 4 << 20
)

// storeError is an error of a request to a store.
type storeError struct {
	store  *store
	region *metapb.Region
	err    error
}

func (e *storeError) Error() string {
	return fmt.Sprintf("store %d, region %d (epoch %d/%d): %v",
		e.store.id, e.region.Id, e.region.RegionEpoch.GetConfVer(), e.region.RegionEpoch.GetVersion(), e.err)
}

func (e *storeError) Unwrap() error { return e.err }

// asStoreError returns the error of a request to a store, nil if err is none.
func asStoreError(err error) *storeError {
	var e *storeError
	errors.As(err, &e)
	return e
}

// written is what was sent to all peers of a region, in one file or several.
type written struct {
	metas []*import_sstpb.SSTMeta // those that are not taken yet
	pairs map[int]int64           // of each unit, by its number
	next  []byte                  // where what is left of the range begins; nil if nothing is
}

// upload is a file on its way to the peers of a region.
type upload struct {
	im      *Importer
	region  *pd.Region
	cancel  context.CancelCauseFunc
	timer   *time.Timer // ends the upload when nothing moves
	stores  []*store
	streams []import_sstpb.ImportSST_WriteClient
	request *import_sstpb.WriteRequest

	version uint64
	arena   []byte // of the keys and values of pairs
	pairs   []*import_sstpb.Pair
	used    int // of pairs
	size    int // of their keys and values
}

// write sends pairs of r, which lies in the region, to all of its peers: by one stream to
// each as many as are sent at a time, by several all of them, in a file for each, since a
// store makes a file on one core. It returns nil if there are none.
func (im *Importer) write(ctx context.Context, region *pd.Region, src *source, r kv.KeyRange, streams int) (*written, error) {
	if streams == 1 {
		return im.writeFile(ctx, region, src, r, writeLimit(im.opts.SplitBytes))
	}
	pieces := src.divide(r, streams)
	files := make([]*written, len(pieces))
	err := parallel.Do(ctx, len(pieces), func() int { return streams }, func(ctx context.Context, i int) (err error) {
		files[i], err = im.writeFile(ctx, region, src, pieces[i], math.MaxInt64)
		return err
	})
	if err != nil {
		return nil, err
	}
	all := &written{pairs: make(map[int]int64)}
	for _, f := range files {
		if f == nil {
			continue
		}
		all.metas = append(all.metas, f.metas...)
		for unit, n := range f.pairs {
			all.pairs[unit] += n
		}
	}
	if len(all.metas) == 0 {
		return nil, nil
	}
	return all, nil
}

// writeFile sends pairs of r up to a limit in one file. It returns nil if there are none.
func (im *Importer) writeFile(ctx context.Context, region *pd.Region, src *source, r kv.KeyRange, limit int64) (_ *written, err error) {
	c, err := src.seek(r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errs.Combine(err, c.close()) }()
	if c.key == nil {
		return nil, nil
	}
	last, err := src.last(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil) // a store forgets what was not sent to the end
	u := &upload{im: im, region: region, cancel: cancel}
	defer u.pause()
	if err := u.open(ctx, c.key, last); err != nil {
		return nil, u.cause(ctx, err)
	}
	w, err := u.sendAll(ctx, c, limit)
	if err != nil {
		return nil, u.cause(ctx, err)
	}
	if w.metas, err = u.finish(); err != nil {
		return nil, u.cause(ctx, err)
	}
	return w, nil
}

// cause says what has really ended an upload that was broken off.
func (u *upload) cause(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errStalled) {
		return fmt.Errorf("%w: %w", errStalled, err)
	}
	return err
}

// pause stops the clock that runs while the stores are waited for, resume starts it anew.
func (u *upload) pause() { u.resume(-1) }

func (u *upload) resume(d time.Duration) {
	if u.timer != nil {
		u.timer.Stop()
		u.timer = nil
	}
	if d > 0 {
		u.timer = time.AfterFunc(d, func() { u.cancel(errStalled) })
	}
}

// open opens a stream to each peer and sends the file's metadata.
func (u *upload) open(ctx context.Context, first, last []byte) error {
	meta := u.region.Meta
	codec := u.im.opts.Codec
	id, err := newUUID()
	if err != nil {
		return err
	}
	u.request = &import_sstpb.WriteRequest{
		Chunk: &import_sstpb.WriteRequest_Meta{Meta: &import_sstpb.SSTMeta{
			Uuid: id, RegionId: meta.Id, RegionEpoch: meta.RegionEpoch, ApiVersion: codec.GetAPIVersion(),
			Range: &import_sstpb.Range{Start: codec.EncodeRegionKey(first), End: codec.EncodeRegionKey(last)},
		}},
		Context: u.im.requestContext(ctx),
	}
	for _, st := range u.im.stores.of(meta.Peers) {
		u.resume(u.im.opts.CallTimeout)
		client, err := u.im.stores.client(ctx, st)
		if err != nil {
			return u.failed(st, err)
		}
		stream, err := client.Write(ctx)
		if err != nil {
			return u.failed(st, err)
		}
		u.stores, u.streams = append(u.stores, st), append(u.streams, stream)
		if err := u.sent(stream, stream.Send(u.request)); err != nil {
			return u.failed(st, err)
		}
	}
	return nil
}

func (u *upload) failed(st *store, err error) error { return &storeError{st, u.region.Meta, err} }

// newUUID returns a random (version 4) UUID.
func newUUID() ([]byte, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, fmt.Errorf("sstimport: identity of a file: %w", err)
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id, nil
}

// requestContext says on whose account a request goes.
func (im *Importer) requestContext(ctx context.Context) *kvrpcpb.Context {
	return &kvrpcpb.Context{
		RequestSource:          im.opts.RequestSource,
		ResourceControlContext: &kvrpcpb.ResourceControlContext{ResourceGroupName: util.ResourceGroupNameFromCtx(ctx)},
	}
}

// sendAll sends the cursor's pairs, up to the limit.
func (u *upload) sendAll(ctx context.Context, c *cursor, limit int64) (*written, error) {
	w := &written{pairs: make(map[int]int64)}
	for total := int64(0); c.key != nil; {
		if total >= limit {
			w.next = append([]byte(nil), c.key...)
			break
		}
		version := c.source.units[c.unit].version
		key := u.im.opts.Codec.EncodeKey(c.key)
		n := len(key) + len(c.value)
		if u.used > 0 && (u.size+n > batchBytes || version != u.version) {
			if err := u.flush(ctx); err != nil {
				return nil, err
			}
		}
		u.version = version
		u.add(key, c.value)
		w.pairs[c.unit]++
		total += weight(key, c.value)
		if err := c.next(); err != nil {
			return nil, err
		}
	}
	return w, u.flush(ctx)
}

// add adds a pair to the message that is being filled.
func (u *upload) add(key, value []byte) {
	if u.used == 0 {
		u.arena = u.arena[:0]
	}
	if u.used == len(u.pairs) {
		u.pairs = append(u.pairs, new(import_sstpb.Pair))
	}
	if need := len(key) + len(value); cap(u.arena)-len(u.arena) < need {
		u.arena = make([]byte, 0, max(need, batchBytes)) // pairs hold on to the one before
	}
	at := len(u.arena)
	u.arena = append(append(u.arena, key...), value...)
	pair := u.pairs[u.used]
	pair.Key, pair.Value = u.arena[at:at+len(key):at+len(key)], u.arena[at+len(key):]
	u.used++
	u.size += len(key) + len(value)
}

// flush sends the message to each peer, no faster than each may be sent.
func (u *upload) flush(ctx context.Context) error {
	if u.used == 0 {
		return nil
	}
	u.request.Chunk = &import_sstpb.WriteRequest_Batch{Batch: &import_sstpb.WriteBatch{CommitTs: u.version, Pairs: u.pairs[:u.used]}}
	message := &grpc.PreparedMsg{} // encoded once for all peers
	if err := message.Encode(u.streams[0], u.request); err != nil {
		return fmt.Errorf("sstimport: encoding a request: %w", err)
	}
	for i, stream := range u.streams {
		u.pause()
		if err := u.stores[i].speed.wait(ctx, u.size); err != nil {
			return err
		}
		u.resume(u.im.opts.CallTimeout)
		if err := u.sent(stream, stream.SendMsg(message)); err != nil {
			return u.failed(u.stores[i], err)
		}
	}
	u.used, u.size = 0, 0
	return nil
}

// sent returns why a message could not be sent: only receiving from a stream returns the error
// that has ended it.
func (u *upload) sent(stream import_sstpb.ImportSST_WriteClient, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	if _, err := received(stream.CloseAndRecv()); err != nil {
		return err
	}
	return writeError{"the store has ended the stream too early"}
}

// received returns the error in an answer.
func received(resp *import_sstpb.WriteResponse, err error) ([]*import_sstpb.SSTMeta, error) {
	switch {
	case err != nil:
		return nil, err
	case resp.Error.GetStoreError() != nil:
		return nil, regionError{resp.Error.StoreError}
	case resp.Error != nil:
		return nil, writeError{resp.Error.Message}
	}
	return resp.Metas, nil
}

// finish ends the streams and returns the leader's files.
func (u *upload) finish() (metas []*import_sstpb.SSTMeta, err error) {
	// The stores complete and check their files side by side.
	for i, stream := range u.streams {
		if err := stream.CloseSend(); err != nil {
			return nil, u.failed(u.stores[i], err)
		}
	}
	for i, stream := range u.streams {
		u.resume(u.im.opts.CallTimeout)
		got, err := received(stream.CloseAndRecv())
		if err != nil {
			return nil, u.failed(u.stores[i], err)
		}
		if len(got) == 0 {
			return nil, u.failed(u.stores[i], writeError{"the store has made no file"})
		}
		if u.stores[i].id == u.region.Leader.StoreId {
			metas = got
		}
	}
	if metas == nil {
		return nil, fmt.Errorf("region %d: %w among its peers", u.region.Meta.Id, errNoLeader)
	}
	return metas, nil
}

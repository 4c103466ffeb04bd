package sstimport

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
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

// written is what was sent to all peers of a region, in one part or several.
type written struct {
	files []*sentFile
	left  []*import_sstpb.SSTMeta // those that are not taken yet
	next  []byte                  // where what is left of the range begins; nil if nothing is
}

// tookAll notes that the leader has taken files. It would answer another request for them with an error: they are gone.
func (w *written) tookAll(metas []*import_sstpb.SSTMeta) {
	for _, meta := range metas {
		for _, f := range w.files {
			if bytes.Equal(f.id, meta.Uuid) {
				f.took[meta.CfName]++
			}
		}
	}
	w.left = slices.DeleteFunc(w.left, func(m *import_sstpb.SSTMeta) bool { return slices.Contains(metas, m) })
}

// upload is a file on its way to the peers of a region.
type upload struct {
	im      *Importer
	meter   *kv.Meter
	region  *pd.Region
	cancel  context.CancelCauseFunc
	timer   *time.Timer // ends the upload when nothing moves
	stores  []*store
	streams []import_sstpb.ImportSST_WriteClient
	request *import_sstpb.WriteRequest

	version uint64
	arena   []byte // of the keys and values of pairs
	pairs   []*import_sstpb.Pair
	used    int   // of pairs
	size    int   // of their keys and values
	flushed int64 // pairs, in messages that all peers were sent
}

// write sends pairs of r, which lies in the region, to all of its peers: by one stream to
// each as many as are sent at a time, by several all of them, in a file for each, since a
// store makes a file on one core.
func (im *Importer) write(ctx context.Context, region *pd.Region, src *source, r kv.KeyRange, streams int) (*written, error) {
	pieces, limit := []kv.KeyRange{r}, writeLimit(im.opts.SplitBytes)
	if streams > 1 {
		pieces, limit = src.divide(r, streams), math.MaxInt64
	}
	w := &written{files: make([]*sentFile, len(pieces))}
	err := parallel.Do(ctx, len(pieces), func() int { return streams }, func(ctx context.Context, i int) (err error) {
		w.files[i], err = im.writeFile(ctx, region, src, pieces[i], limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, f := range w.files {
		w.left = append(w.left, f.metas...)
		w.next = f.next
	}
	return w, nil
}

// writeFile sends pairs of r up to a limit in one file, if there are any.
func (im *Importer) writeFile(ctx context.Context, region *pd.Region, src *source, r kv.KeyRange, limit int64) (_ *sentFile, err error) {
	c, err := src.seek(r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errs.Combine(err, c.close()) }()
	f := &sentFile{keys: r, sums: make(map[int]*kv.Checksum), took: make(map[string]int)}
	if c.key == nil {
		return f, nil
	}
	last, err := src.last(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil) // a store forgets what was not sent to the end
	u := &upload{im: im, meter: kv.MeterOf(ctx), region: region, cancel: cancel}
	defer u.pause()
	if f.id, err = u.open(ctx, c.key, last); err != nil {
		return nil, u.cause(ctx, err)
	}
	if err := u.sendAll(ctx, c, f, limit); err != nil {
		return nil, u.cause(ctx, err)
	}
	f.sent = u.flushed
	if f.metas, err = u.finish(f.id); err != nil {
		return nil, u.cause(ctx, err)
	}
	return f, nil
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

// open opens a stream to each peer and sends the file's metadata. It returns the file's UUID.
func (u *upload) open(ctx context.Context, first, last []byte) (id []byte, err error) {
	meta := u.region.Meta
	codec := u.im.opts.Codec
	if id, err = newUUID(); err != nil {
		return nil, err
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
			return nil, u.failed(st, err)
		}
		stream, err := client.Write(ctx)
		if err != nil {
			return nil, u.failed(st, err)
		}
		u.stores, u.streams = append(u.stores, st), append(u.streams, stream)
		u.meter.Add(kv.Costs{Requests: kv.Requests{Imports: 1}, SentBytes: int64(u.request.Size())})
		if err := u.sent(stream, stream.Send(u.request)); err != nil {
			return nil, u.failed(st, err)
		}
	}
	return id, nil
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

// sendAll sends the cursor's pairs, up to the limit, and notes in the file what it has sent.
func (u *upload) sendAll(ctx context.Context, c *cursor, f *sentFile, limit int64) error {
	keyspace := len(u.im.opts.Codec.EncodeKey(nil))
	for total := int64(0); c.key != nil; {
		if total >= limit {
			f.next = bytes.Clone(c.key)
			f.keys.End = f.next
			break
		}
		version := c.source.units[c.unit].version
		key := u.im.opts.Codec.EncodeKey(c.key)
		n := len(key) + len(c.value)
		if u.used > 0 && (u.size+n > batchBytes || version != u.version) {
			if err := u.flush(ctx); err != nil {
				return err
			}
		}
		u.version = version
		sent := u.add(key, c.value)
		sum := f.sums[c.unit]
		if sum == nil {
			sum = &kv.Checksum{}
			f.sums[c.unit] = sum
		}
		sum.Add(sumOf(sent.Key[keyspace:], sent.Value))
		total += weight(key, c.value)
		if err := c.next(); err != nil {
			return err
		}
	}
	return u.flush(ctx)
}

// add adds a pair to the message that is being filled, and returns it as it is there.
func (u *upload) add(key, value []byte) *import_sstpb.Pair {
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
	return pair
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
	size := int64(u.request.Size())
	for i, stream := range u.streams {
		u.pause()
		if err := u.stores[i].speed.wait(ctx, u.size); err != nil {
			return err
		}
		u.resume(u.im.opts.CallTimeout)
		u.meter.Add(kv.Costs{SentBytes: size})
		if err := u.sent(stream, stream.SendMsg(message)); err != nil {
			return u.failed(u.stores[i], err)
		}
	}
	u.flushed += int64(u.used)
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

// finish ends the streams and returns the leader's files. All peers must have made the same.
func (u *upload) finish(id []byte) (metas []*import_sstpb.SSTMeta, err error) {
	// The stores complete and check their files side by side.
	for i, stream := range u.streams {
		if err := stream.CloseSend(); err != nil {
			return nil, u.failed(u.stores[i], err)
		}
	}
	var made []string
	for i, stream := range u.streams {
		u.resume(u.im.opts.CallTimeout)
		got, err := received(stream.CloseAndRecv())
		if err != nil {
			return nil, u.failed(u.stores[i], err)
		}
		families, err := familiesOf(got, id)
		if err == nil && i > 0 && !slices.Equal(families, made) {
			err = writeError{fmt.Sprintf("the store has made files of %q, another one of %q", families, made)}
		}
		if err != nil {
			return nil, u.failed(u.stores[i], err)
		}
		made = families
		if u.stores[i].id == u.region.Leader.StoreId {
			metas = got
		}
	}
	if metas == nil {
		return nil, fmt.Errorf("region %d: %w among its peers", u.region.Meta.Id, errNoLeader)
	}
	return metas, nil
}

// familiesOf returns the column families of the files that a store has made of one stream.
func familiesOf(metas []*import_sstpb.SSTMeta, id []byte) (families []string, err error) {
	for _, meta := range metas {
		if !bytes.Equal(meta.Uuid, id) {
			return nil, writeError{fmt.Sprintf("the store has made the file %x, not %x", meta.Uuid, id)}
		}
		families = append(families, meta.CfName)
	}
	slices.Sort(families)
	if !slices.Contains(families, entriesFamily) || len(slices.Compact(slices.Clone(families))) != len(families) {
		return nil, writeError{fmt.Sprintf("the store has made files of %q", families)}
	}
	return families, nil
}

package tikv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/resourcegroup"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	kvutil "github.com/tikv/client-go/v2/util"

	"fastddl/kv"
)

// requestSource is what requests say that they are for: as those of TiDB's own builds, so
// that resource groups treat them alike.
var requestSource = kvutil.RequestSource{
	RequestSourceInternal:     true,
	RequestSourceType:         tidbkv.InternalTxnBackfillDDLPrefix + "add_index",
	ExplicitRequestSourceType: kvutil.ExplicitTypeDDL,
}

// RequestSource is what the requests of builds say that they are for.
func RequestSource() string { return requestSource.GetRequestSource() }

// iterBatch is the number of pairs that an iterator fetches at a time, after firstBatch:
// many are opened for one key, and pairs may be large.
const iterBatch, firstBatch = 1024, 2

// snapshot implements kv.Snapshot.
type snapshot struct {
	store  *Store
	ts     uint64
	group  string // that pays for its requests
	meter  *kv.Meter
	closed atomic.Bool
}

var errSnapshotClosed = errors.New("tikv: snapshot is closed")

// Snapshot implements kv.Store.
func (s *Store) Snapshot(ctx context.Context, ts uint64) (kv.Snapshot, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.exit()
	if err := s.readable(ctx, ts); err != nil {
		return nil, err
	}
	return &snapshot{store: s, ts: ts, group: resourceGroup(ctx), meter: kv.MeterOf(ctx)}, nil
}

// enter begins a read; the store's exit must follow unless it fails.
func (s *snapshot) enter(ctx context.Context) error {
	if err := s.store.enter(ctx); err != nil {
		return err
	}
	err := errSnapshotClosed
	if !s.closed.Load() {
		err = failed(ctx, "snapshot", s.store.cluster.CheckVisibility(s.ts))
	}
	if err != nil {
		s.store.exit()
	}
	return err
}

// open returns a snapshot of TiDB's. It is for one call: it keeps all that it reads, and
// is not safe for concurrent use.
func (s *snapshot) open() tidbkv.Snapshot {
	snap := s.store.cluster.GetSnapshot(tidbkv.NewVersion(s.ts))
	snap.SetOption(tidbkv.Priority, tidbkv.PriorityLow)
	snap.SetOption(tidbkv.NotFillCache, true)
	snap.SetOption(tidbkv.RequestSourceInternal, requestSource.RequestSourceInternal)
	snap.SetOption(tidbkv.RequestSourceType, requestSource.RequestSourceType)
	snap.SetOption(tidbkv.ExplicitRequestSourceType, requestSource.ExplicitRequestSourceType)
	snap.SetOption(tidbkv.ResourceGroupName, s.group)
	if s.meter != nil {
		snap.SetOption(tidbkv.RPCInterceptor, meter(s.meter)) // client-go's iterators have no context
	}
	return snap
}

// resourceGroup is the group that pays for requests: that of the context.
func resourceGroup(ctx context.Context) string {
	if group := kvutil.ResourceGroupNameFromCtx(ctx); group != "" {
		return group
	}
	return resourcegroup.DefaultResourceGroupName
}

var _ kv.VersionedSnapshot = (*snapshot)(nil)

// TS implements kv.Snapshot.
func (s *snapshot) TS() uint64 { return s.ts }

// Get implements kv.Retriever.
func (s *snapshot) Get(ctx context.Context, key []byte) ([]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.store.exit()
	value, err := s.open().Get(ctx, key)
	if tidbkv.IsErrNotFound(err) {
		return nil, kv.ErrNotExist
	}
	if err != nil {
		return nil, failed(ctx, fmt.Sprintf("get %x", key), err)
	}
	return bytes.Clone(value), nil
}

// Iter implements kv.Retriever.
func (s *snapshot) Iter(r kv.KeyRange) (kv.Iterator, error) { return s.iterate(r, false) }

// IterReverse implements kv.Retriever.
func (s *snapshot) IterReverse(r kv.KeyRange) (kv.Iterator, error) { return s.iterate(r, true) }

func (s *snapshot) iterate(r kv.KeyRange, reverse bool) (kv.Iterator, error) {
	ctx := context.Background() // client-go's iterators have none
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.store.exit()
	i := &iterator{snap: s, left: r, reverse: reverse}
	if r.Empty() {
		return i, nil
	}
	if err := i.open(firstBatch); err != nil {
		return nil, failed(ctx, fmt.Sprintf("iterate over %s", r), err)
	}
	return i, nil
}

// Count implements kv.Snapshot.
func (s *snapshot) Count(ctx context.Context, r kv.KeyRange) (int64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.store.exit()
	return s.store.count(ctx, r, s.ts)
}

// Close implements kv.Snapshot.
func (s *snapshot) Close() error {
	s.closed.Store(true)
	return nil
}

// iterator implements kv.Iterator.
type iterator struct {
	snap    *snapshot
	it      tidbkv.Iterator // nil if there is nothing, or nothing more after an error
	left    kv.KeyRange     // what it was opened for
	reverse bool
	read    int // keys that it was at, as long as they are of the first batch
}

// open opens it for what is left.
func (i *iterator) open(batch int) (err error) {
	snap := i.snap.open()
	snap.SetOption(tidbkv.ScanBatchSize, batch)
	if i.reverse {
		i.it, err = snap.IterReverse(i.left.End, i.left.Start)
	} else {
		i.it, err = snap.Iter(i.left.Start, i.left.End)
	}
	return err
}

// next moves to the next key. Behind the first batch it goes on with large ones.
func (i *iterator) next() error {
	if i.read++; i.read != firstBatch {
		return i.it.Next()
	}
	if i.reverse {
		i.left.End = bytes.Clone(i.it.Key())
	} else {
		i.left.Start = kv.NextKey(i.it.Key())
	}
	i.it.Close()
	i.it = nil
	if i.left.Empty() {
		return nil
	}
	return i.open(iterBatch)
}

// Valid implements kv.Iterator.
func (i *iterator) Valid() bool { return i.it != nil && i.it.Valid() }

// Key implements kv.Iterator.
func (i *iterator) Key() []byte { return i.it.Key() }

// Value implements kv.Iterator.
func (i *iterator) Value() []byte { return i.it.Value() }

// Next implements kv.Iterator.
func (i *iterator) Next() error {
	if !i.Valid() {
		return nil
	}
	ctx := context.Background()
	err := i.snap.store.enter(ctx)
	if err == nil {
		defer i.snap.store.exit()
		err = failed(ctx, "iterate", i.next())
	}
	if err != nil && i.it != nil {
		i.it.Close()
		i.it = nil
	}
	return err
}

// Close implements kv.Iterator.
func (i *iterator) Close() error {
	if i.it != nil {
		i.it.Close()
		i.it = nil
	}
	return nil
}

// versionByValue is Version in a keyspace, where client-go asks for the versions of another
// key (codec_v2.go encodes it, and TiKV once more). It knows only whether the value has come
// with the snapshot's own timestamp: an older version may be older than it says, and one
// that repeats the value of the one before counts as that.
func (s *snapshot) versionByValue(ctx context.Context, key, value []byte) (uint64, error) {
	before := &snapshot{store: s.store, ts: s.ts - 1, group: s.group, meter: s.meter}
	old, err := before.open().Get(ctx, key)
	switch {
	case err != nil && !tidbkv.IsErrNotFound(err):
		return 0, failed(ctx, fmt.Sprintf("get %x", key), err)
	case err == nil && bytes.Equal(old, value):
		return before.ts, nil
	}
	return s.ts, nil
}

// versionTimeout bounds the request for the versions of one key.
const versionTimeout = 20 * time.Second

// Version implements kv.VersionedSnapshot. TiKV answers it for people who look into it,
// and therefore slowly.
func (s *snapshot) Version(ctx context.Context, key []byte) (version uint64, err error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.store.exit()
	// Transactions that were about to commit at or below the snapshot have ended then.
	value, err := s.open().Get(ctx, key)
	if tidbkv.IsErrNotFound(err) {
		return 0, kv.ErrNotExist
	} else if err != nil {
		return 0, failed(ctx, fmt.Sprintf("get %x", key), err)
	}
	if s.store.keyspaceSuffix() != "" {
		return s.versionByValue(ctx, key, value)
	}
	bo := backoffer(ctx)
	for {
		region, err := s.store.cluster.GetRegionCache().LocateKey(bo, key)
		if err != nil {
			return 0, failed(ctx, "region", err)
		}
		req := tikvrpc.NewRequest(tikvrpc.CmdMvccGetByKey, &kvrpcpb.MvccGetByKeyRequest{Key: key}, kvrpcpb.Context{
			Priority: kvrpcpb.CommandPri_Low, RequestSource: RequestSource(),
		})
		resp, err := s.store.cluster.SendReq(bo, req, region.Region, versionTimeout)
		if err == nil {
			var version uint64
			if version, err = s.versionIn(resp); version > 0 {
				return version, nil
			}
		}
		if err != nil {
			return 0, failed(ctx, fmt.Sprintf("versions of %x", key), err)
		}
		if err := bo.Backoff(tikv.BoRegionMiss(), errors.New("the region has changed")); err != nil {
			return 0, failed(ctx, fmt.Sprintf("versions of %x", key), err)
		}
	}
}

// versionIn is the newest version at or below the snapshot in an answer, 0 if it is that
// the region has changed.
func (s *snapshot) versionIn(resp *tikvrpc.Response) (uint64, error) {
	regionErr, err := resp.GetRegionError()
	if err != nil || regionErr != nil {
		return 0, err
	}
	answer, ok := resp.Resp.(*kvrpcpb.MvccGetByKeyResponse)
	if !ok || answer.Error != "" {
		return 0, fmt.Errorf("answer %v", resp.Resp)
	}
	var newest uint64
	for _, w := range answer.GetInfo().GetWrites() {
		if w.Type == kvrpcpb.Op_Put && w.CommitTs <= s.ts {
			newest = max(newest, w.CommitTs)
		}
	}
	if newest == 0 {
		return 0, fmt.Errorf("no version at or below %d", s.ts)
	}
	return newest, nil
}

package sql_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/store/helper"
	"github.com/pingcap/tidb/pkg/store/mockstore"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"

	"fastddl/config"
	"fastddl/event"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
	"fastddl/sql"
	"fastddl/sql/sqltest"
)

// unistoreBuilds is TiDB's own mock store as index builds see a store. What it lacks
// for that is done by a store of ours beside it, which holds no table: that writes
// and holds import units, decodes rows, and keeps GC holds.
//
// An import is a transaction of each entry, with S for its commit timestamp. It
// differs from a real one in two ways. It cannot pass a lock. And unistore drops a
// version that is older than one it has of the key; such entries are kept here for
// readers at S, which are the build's own. It does not know what has changed.
type unistoreBuilds struct {
	kv.Store
	storage tidbkv.Storage

	mu sync.Mutex
	// starts holds, for each timestamp that was handed out, one before it that no client
	// has.
	starts map[uint64]uint64
	// version is that of the entries to be imported.
	version uint64
	// shadowed are the entries that unistore would drop, by key.
	shadowed map[string]shadowedEntry
}

// shadowedEntry is what a key has in snapshots from at until before until.
type shadowedEntry struct {
	value     []byte
	at, until uint64
}

// newUnistoreEnv opens the SQL layer on a new unistore.
func newUnistoreEnv(t *testing.T) *env {
	t.Helper()
	storage, err := mockstore.NewMockStore()
	require.NoError(t, err)
	beside, err := pebblekv.Open("db", pebblekv.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	builds := &unistoreBuilds{Store: beside, storage: storage, starts: make(map[uint64]uint64), shadowed: make(map[string]shadowedEntry)}
	e := &env{t: t, dir: t.TempDir(), bus: new(event.Bus), globals: config.NewGlobals()}
	e.Layer, err = sql.Open(context.Background(), sql.Options{
		Storage: storage, Builds: builds, TempDir: e.dir + "/tmp", Bus: e.bus, Hook: e.callHook, Globals: e.globals,
	})
	require.NoError(t, err)
	e.sessions = sqltest.NewSessions(e.Layer)
	t.Cleanup(func() {
		require.NoError(t, e.Layer.Close())
		require.NoError(t, storage.Close())
		require.NoError(t, beside.Close())
	})
	return e
}

func (b *unistoreBuilds) timestamp() (uint64, error) {
	v, err := b.storage.CurrentVersion(oracle.GlobalTxnScope)
	return v.Ver, err
}

// CurrentTS implements kv.Store: a timestamp that the store beside knows, too.
func (b *unistoreBuilds) CurrentTS(ctx context.Context) (uint64, error) {
	start, err := b.timestamp()
	if err != nil {
		return 0, err
	}
	ts, err := b.timestamp()
	if err != nil {
		return 0, err
	}
	for beside := uint64(0); beside < ts; {
		if beside, err = b.Store.CurrentTS(ctx); err != nil {
			return 0, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.starts[ts] = start
	return ts, nil
}

// Ranges implements kv.Store.
func (*unistoreBuilds) Ranges(_ context.Context, r kv.KeyRange) ([]kv.SizedRange, error) {
	return []kv.SizedRange{{KeyRange: r}}, nil
}

// Snapshot implements kv.Store.
func (b *unistoreBuilds) Snapshot(_ context.Context, ts uint64) (kv.Snapshot, error) {
	return &unistoreSnapshot{builds: b, ts: ts}, nil
}

// ScanColumns implements kv.Store: it copies the rows into the store beside, which
// decodes them.
func (b *unistoreBuilds) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	if err := b.DeleteRange(ctx, req.Range); err != nil {
		return err
	}
	rows, err := (&unistoreSnapshot{builds: b, ts: req.TS}).Iter(req.Range)
	if err != nil {
		return err
	}
	if req.TS, err = b.Store.CurrentTS(ctx); err != nil || !rows.Valid() {
		return err
	}
	w, err := b.Store.NewImportWriter(ctx, kv.ImportOptions{Dir: "rows", Version: req.TS})
	if err != nil {
		return err
	}
	for ; rows.Valid(); _ = rows.Next() {
		if err := w.Add(rows.Key(), rows.Value()); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	unit, err := w.Finish(ctx)
	if err != nil {
		return err
	}
	if err := b.Store.Import(ctx, []kv.ImportUnit{unit}); err != nil {
		return err
	}
	return b.Store.ScanColumns(ctx, req, fn)
}

// NewImportWriter implements kv.Store.
func (b *unistoreBuilds) NewImportWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	b.mu.Lock()
	b.version = opts.Version
	b.mu.Unlock()
	return b.Store.NewImportWriter(ctx, opts)
}

// Import implements kv.Store.
func (b *unistoreBuilds) Import(ctx context.Context, units []kv.ImportUnit) error {
	var ranges []kv.KeyRange
	for _, u := range units {
		ranges = append(ranges, u.Range())
	}
	if err := b.Store.Import(ctx, units); err != nil {
		return err
	}
	for _, r := range ranges {
		pairs, err := b.imported(ctx, r)
		if err != nil {
			return err
		}
		for _, p := range pairs {
			if err := b.importPair(p); err != nil {
				return fmt.Errorf("import %x: %w", p.Key, err)
			}
		}
	}
	return nil
}

// imported reads back what the store beside has imported.
func (b *unistoreBuilds) imported(ctx context.Context, r kv.KeyRange) (pairs []pair, err error) {
	ts, err := b.Store.CurrentTS(ctx)
	if err != nil {
		return nil, err
	}
	s, err := b.Store.Snapshot(ctx, ts)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	it, err := s.Iter(r)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ; it.Valid() && err == nil; err = it.Next() {
		pairs = append(pairs, pair{bytes.Clone(it.Key()), bytes.Clone(it.Value())})
	}
	return pairs, err
}

// pair is a key with its value.
type pair struct{ Key, Value []byte }

// importPair writes one entry.
func (b *unistoreBuilds) importPair(p pair) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	version := b.version
	prewrite := &kvrpcpb.PrewriteRequest{
		Mutations:   []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: p.Key, Value: p.Value}},
		PrimaryLock: p.Key, StartVersion: b.starts[version], LockTtl: 3000, TxnSize: 1,
	}
	resp, err := b.send(p.Key, tikvrpc.NewRequest(tikvrpc.CmdPrewrite, prewrite))
	if err != nil {
		return err
	}
	if keyErrs := resp.(*kvrpcpb.PrewriteResponse).Errors; len(keyErrs) > 0 {
		if keyErrs[0].Conflict == nil {
			return errors.New(keyErrs[0].String())
		}
		b.shadowed[string(p.Key)] = shadowedEntry{p.Value, version, keyErrs[0].Conflict.ConflictCommitTs}
		return nil
	}
	resp, err = b.send(p.Key, tikvrpc.NewRequest(tikvrpc.CmdCommit, &kvrpcpb.CommitRequest{
		StartVersion: prewrite.StartVersion, CommitVersion: version, Keys: [][]byte{p.Key},
	}))
	if err == nil && resp.(*kvrpcpb.CommitResponse).Error != nil {
		err = errors.New(resp.(*kvrpcpb.CommitResponse).Error.String())
	}
	return err
}

func (b *unistoreBuilds) send(key []byte, req *tikvrpc.Request) (any, error) {
	store := b.storage.(helper.Storage)
	bo := tikv.NewBackofferWithVars(context.Background(), 10_000, nil)
	location, err := store.GetRegionCache().LocateKey(bo, key)
	if err != nil {
		return nil, err
	}
	resp, err := store.SendReq(bo, req, location.Region, 10*time.Second)
	if err != nil {
		return nil, err
	}
	return resp.Resp, nil
}

// unistoreSnapshot is the store at a timestamp.
type unistoreSnapshot struct {
	builds *unistoreBuilds
	ts     uint64
}

func (s *unistoreSnapshot) TS() uint64   { return s.ts }
func (s *unistoreSnapshot) Close() error { return nil }

func (s *unistoreSnapshot) Get(_ context.Context, key []byte) ([]byte, error) {
	it, err := s.Iter(kv.KeyRange{Start: key, End: kv.NextKey(key)})
	if err != nil {
		return nil, err
	}
	if !it.Valid() {
		return nil, kv.ErrNotExist
	}
	return it.Value(), nil
}

func (s *unistoreSnapshot) Iter(r kv.KeyRange) (kv.Iterator, error) {
	it, err := s.builds.storage.GetSnapshot(tidbkv.NewVersion(s.ts)).Iter(r.Start, r.End)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	var pairs []pair
	for it.Valid() {
		pairs = append(pairs, pair{bytes.Clone(it.Key()), bytes.Clone(it.Value())})
		if err := it.Next(); err != nil {
			return nil, err
		}
	}
	s.builds.mu.Lock()
	defer s.builds.mu.Unlock()
	for key, e := range s.builds.shadowed {
		if r.Contains([]byte(key)) && e.at <= s.ts && s.ts < e.until {
			pairs = slices.DeleteFunc(pairs, func(p pair) bool { return string(p.Key) == key })
			pairs = append(pairs, pair{[]byte(key), e.value})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return bytes.Compare(a.Key, b.Key) })
	return &pairIterator{pairs, s.ts}, nil
}

func (s *unistoreSnapshot) IterReverse(r kv.KeyRange) (kv.Iterator, error) {
	it, err := s.Iter(r)
	if err == nil {
		slices.Reverse(it.(*pairIterator).pairs)
	}
	return it, err
}

func (s *unistoreSnapshot) Count(_ context.Context, r kv.KeyRange) (n int64, err error) {
	it, err := s.Iter(r)
	if err == nil {
		n = int64(len(it.(*pairIterator).pairs))
	}
	return n, err
}

// pairIterator iterates over pairs in memory. Which version they are of, unistore
// does not know: all count as the snapshot's.
type pairIterator struct {
	pairs []pair
	ts    uint64
}

func (i *pairIterator) Valid() bool   { return len(i.pairs) > 0 }
func (i *pairIterator) Key() []byte   { return i.pairs[0].Key }
func (i *pairIterator) Value() []byte { return i.pairs[0].Value }
func (i *pairIterator) TS() uint64    { return i.ts }
func (i *pairIterator) Close() error  { return nil }
func (i *pairIterator) Next() error   { i.pairs = i.pairs[1:]; return nil }

// TestUnistoreBuilds: a plain build works over unistore, so that what the other tests
// find there is about what they do.
func TestUnistoreBuilds(t *testing.T) {
	e := newUnistoreEnv(t)
	c := e.client()
	table(c, 100)
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b), ADD INDEX i (c)")
	require.Equal(t, "synced", c.lastJob("state"))
	c.check("t")
	require.Equal(t, "100", c.one("SELECT COUNT(*) FROM t USE INDEX (u) WHERE b >= 0"))
	require.Equal(t, "7", c.one("SELECT a FROM t USE INDEX (i) WHERE c = 'c7'"))
}

package importsst

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/util/codec"
	pd "github.com/tikv/pd/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"fastddl/kv"
	"fastddl/kv/embedded"
	"fastddl/kv/pebblekv"
)

// fixture is a service on the network over an empty store with one region.
type fixture struct {
	import_sstpb.ImportSSTClient
	t      *testing.T
	store  *embedded.Store
	server *Server
}

func start(t *testing.T) fixture {
	t.Helper()
	store, err := embedded.Open("db", embedded.Options{Pebble: pebblekv.Options{FS: vfs.NewMem()}})
	require.NoError(t, err)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	service := New(store)
	import_sstpb.RegisterImportSSTServer(server, service)
	go func() { _ = server.Serve(lis) }() // until it is stopped
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		server.Stop()
		require.NoError(t, store.Close())
	})
	return fixture{import_sstpb.NewImportSSTClient(conn), t, store, service}
}

func (f fixture) ts() uint64 {
	f.t.Helper()
	ts, err := f.store.Builds().CurrentTS(f.t.Context())
	require.NoError(f.t, err)
	return ts
}

// region returns the region of a key.
func (f fixture) region(key string) *pd.Region {
	f.t.Helper()
	r, err := f.store.PDClient().GetRegion(f.t.Context(), encoded(key))
	require.NoError(f.t, err)
	return r
}

func encoded(key string) []byte { return codec.EncodeBytes(nil, []byte(key)) }

// meta returns the metadata of a file of region r whose keys lie in [first, last].
func meta(r *pd.Region, first, last string) *import_sstpb.SSTMeta {
	id := uuid.New()
	return &import_sstpb.SSTMeta{
		Uuid: id[:], RegionId: r.Meta.Id, RegionEpoch: r.Meta.RegionEpoch,
		Range: &import_sstpb.Range{Start: encoded(first), End: encoded(last)},
	}
}

// batch returns a request with a file's pairs at commit timestamp ts. Each value equals its key.
func batch(ts uint64, keys ...string) *import_sstpb.WriteRequest {
	b := &import_sstpb.WriteBatch{CommitTs: ts}
	for _, k := range keys {
		b.Pairs = append(b.Pairs, &import_sstpb.Pair{Key: []byte(k), Value: []byte(k)})
	}
	return &import_sstpb.WriteRequest{Chunk: &import_sstpb.WriteRequest_Batch{Batch: b}}
}

func metaOf(m *import_sstpb.SSTMeta) *import_sstpb.WriteRequest {
	return &import_sstpb.WriteRequest{Chunk: &import_sstpb.WriteRequest_Meta{Meta: m}}
}

// write sends a file, which the server must accept.
func (f fixture) write(requests ...*import_sstpb.WriteRequest) *import_sstpb.WriteResponse {
	f.t.Helper()
	resp, err := f.tryWrite(requests...)
	require.NoError(f.t, err)
	return resp
}

// refuses sends a file that the server must refuse, and returns the error's message.
func (f fixture) refuses(requests ...*import_sstpb.WriteRequest) string {
	f.t.Helper()
	_, err := f.tryWrite(requests...)
	require.Equal(f.t, codes.Unknown, status.Code(err))
	return status.Convert(err).Message()
}

func (f fixture) tryWrite(requests ...*import_sstpb.WriteRequest) (*import_sstpb.WriteResponse, error) {
	f.t.Helper()
	stream, err := f.Write(f.t.Context())
	require.NoError(f.t, err)
	for _, r := range requests {
		if stream.Send(r) != nil {
			break // CloseAndRecv returns the error
		}
	}
	return stream.CloseAndRecv()
}

// ingest imports files into a region, and returns the response's error.
func (f fixture) ingest(r *pd.Region, metas ...*import_sstpb.SSTMeta) *errorpb.Error {
	f.t.Helper()
	resp, err := f.MultiIngest(f.t.Context(), &import_sstpb.MultiIngestRequest{
		Context: &kvrpcpb.Context{RegionId: r.Meta.Id, RegionEpoch: r.Meta.RegionEpoch, Peer: r.Leader}, Ssts: metas,
	})
	require.NoError(f.t, err)
	return resp.Error
}

// keys returns the keys that a snapshot at ts sees.
func (f fixture) keys(ts uint64) (keys []string) {
	f.t.Helper()
	s, err := f.store.Builds().Snapshot(f.t.Context(), ts)
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, s.Close()) }()
	it, err := s.Iter(kv.KeyRange{Start: []byte("a"), End: []byte("z")})
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, it.Close()) }()
	for it.Valid() {
		require.Equal(f.t, it.Key(), it.Value())
		keys = append(keys, string(it.Key()))
		require.NoError(f.t, it.Next())
	}
	return keys
}

func TestImportedFilesAreRead(t *testing.T) {
	f := start(t)
	before, at := f.ts(), f.ts()
	r := f.region("k")
	m := meta(r, "a", "d")
	resp := f.write(metaOf(m), batch(at, "a", "b"), batch(at, "c", "d"))
	require.Nil(t, resp.Error)
	require.Len(t, resp.Metas, 1)
	announced := *m
	announced.CfName = writeCF
	require.Equal(t, announced.String(), resp.Metas[0].String(), "TiKV repeats what it was sent")
	require.Empty(t, f.keys(f.ts()), "it is not imported yet")
	require.Nil(t, f.ingest(r, resp.Metas...))
	require.Equal(t, []string{"a", "b", "c", "d"}, f.keys(at))
	require.Empty(t, f.keys(before))

	again := f.ingest(r, resp.Metas...)
	require.NotNil(t, again.GetStaleCommand())
	require.Contains(t, again.Message, "does not exist")
	resp = f.write(metaOf(meta(r, "a", "d")), batch(at, "a", "b", "c", "d"))
	require.Nil(t, f.ingest(r, resp.Metas...), "a client that has lost the answer writes it again")
	require.Equal(t, []string{"a", "b", "c", "d"}, f.keys(f.ts()))

	empty := f.write(metaOf(meta(r, "a", "d")))
	require.Nil(t, empty.Error)
	require.Empty(t, empty.Metas)
}

// TestLongValues: values of more than 255 bytes are in a file of their own.
func TestLongValues(t *testing.T) {
	f := start(t)
	at := f.ts()
	r := f.region("k")
	long := "b" + strings.Repeat("x", 255) // every value equals its key
	written := f.write(metaOf(meta(r, "a", "c")), batch(at, "a", long, "c")).Metas
	require.Len(t, written, 2)
	require.Equal(t, written[0].Uuid, written[1].Uuid)
	require.Equal(t, []string{"default", "write"}, []string{written[0].CfName, written[1].CfName})
	require.Nil(t, f.ingest(r, written[0]))
	require.Empty(t, f.keys(at))
	require.NotNil(t, f.ingest(r, written[0]).GetStaleCommand())
	require.Nil(t, f.ingest(r, written[1]))
	require.Equal(t, []string{"a", long, "c"}, f.keys(at))
}

// TestBatchesHaveTheirCommitTimestamps: each batch is at its own commit timestamp.
func TestBatchesHaveTheirCommitTimestamps(t *testing.T) {
	f := start(t)
	first, second := f.ts(), f.ts()
	r := f.region("k")
	resp := f.write(metaOf(meta(r, "a", "d")), batch(second, "a"), batch(first, "b"))
	require.Nil(t, resp.Error)
	require.Nil(t, f.ingest(r, resp.Metas...))
	require.Equal(t, []string{"b"}, f.keys(first))
	require.Equal(t, []string{"a", "b"}, f.keys(second))
}

func TestWriteRefuses(t *testing.T) {
	f := start(t)
	ts := f.ts()
	r := f.region("k")
	with := func(change func(*import_sstpb.SSTMeta)) *import_sstpb.WriteRequest {
		m := meta(r, "b", "d")
		change(m)
		return metaOf(m)
	}
	right := metaOf(meta(r, "b", "d"))
	deletion := batch(ts, "b")
	deletion.GetBatch().Pairs[0].Op = import_sstpb.Pair_Delete
	for name, c := range map[string]struct {
		want     string
		requests []*import_sstpb.WriteRequest
	}{
		"no meta":          {"InvalidChunk", []*import_sstpb.WriteRequest{batch(ts, "b")}},
		"no batch":         {"InvalidChunk", []*import_sstpb.WriteRequest{right, right}},
		"UUID":             {"BadFormat", []*import_sstpb.WriteRequest{with(func(m *import_sstpb.SSTMeta) { m.Uuid = m.Uuid[:3] })}},
		"unknown region":   {"RequestTooOld", []*import_sstpb.WriteRequest{with(func(m *import_sstpb.SSTMeta) { m.RegionId = 999 })}},
		"older epoch":      {"RequestTooOld", []*import_sstpb.WriteRequest{with(func(m *import_sstpb.SSTMeta) { m.RegionEpoch = epoch(r, -1) })}},
		"newer epoch":      {"RequestTooNew", []*import_sstpb.WriteRequest{with(func(m *import_sstpb.SSTMeta) { m.RegionEpoch = epoch(r, 1) })}},
		"no timestamp":     {"timestamp is 0", []*import_sstpb.WriteRequest{right, batch(0, "b")}},
		"order":            {"ascending", []*import_sstpb.WriteRequest{right, batch(ts, "c", "b")}},
		"same key":         {"ascending", []*import_sstpb.WriteRequest{right, batch(ts, "c"), batch(ts-1, "c")}},
		"before its range": {"not in the file's range", []*import_sstpb.WriteRequest{right, batch(ts, "a")}},
		"after its range":  {"not in the file's range", []*import_sstpb.WriteRequest{right, batch(ts, "b", "e")}},
		"deletion":         {"not supported", []*import_sstpb.WriteRequest{right, deletion}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, f.refuses(c.requests...), c.want)
		})
	}
	require.Empty(t, f.keys(f.ts()))
}

// TestUUIDsAreUsedOnce: no two files have one UUID.
func TestUUIDsAreUsedOnce(t *testing.T) {
	f := start(t)
	at := f.ts()
	r := f.region("k")
	m := meta(r, "a", "b")
	written := f.write(metaOf(m), batch(at, "a", "b")).Metas
	require.Contains(t, f.refuses(metaOf(m), batch(at, "a", "b")), "FileExists")
	require.Nil(t, f.ingest(r, written...))
	require.Equal(t, []string{"a", "b"}, f.keys(at))
}

// TestFilesBeingImportedAreRefused: a file cannot be imported while another request imports it.
func TestFilesBeingImportedAreRefused(t *testing.T) {
	f := start(t)
	at := f.ts()
	r := f.region("k")
	written := f.write(metaOf(meta(r, "a", "b")), batch(at, "a", "b")).Metas
	f.server.applying.Lock()
	first := make(chan *errorpb.Error, 1)
	go func() { first <- f.ingest(r, written...) }()
	require.Eventually(t, func() bool {
		f.server.mu.Lock()
		defer f.server.mu.Unlock()
		return len(f.server.ingesting) == 1
	}, time.Minute, time.Millisecond)
	require.Equal(t, "ingest file conflict", f.ingest(r, written...).GetMessage())
	f.server.applying.Unlock()
	require.Nil(t, <-first)
	require.NotNil(t, f.ingest(r, written...).GetStaleCommand())
	require.Equal(t, []string{"a", "b"}, f.keys(at))
}

// epoch returns the region's epoch with change added to its version.
func epoch(r *pd.Region, change int) *metapb.RegionEpoch {
	return &metapb.RegionEpoch{ConfVer: r.Meta.RegionEpoch.ConfVer, Version: uint64(int(r.Meta.RegionEpoch.Version) + change)}
}

// TestRegionChanges: a file of a region that has been split is not imported, and the
// client gets the current regions.
func TestRegionChanges(t *testing.T) {
	f := start(t)
	at := f.ts()
	old := f.region("k")
	written := f.write(metaOf(meta(old, "a", "y")), batch(at, "a", "y")).Metas
	_, err := f.store.PDClient().SplitRegions(t.Context(), [][]byte{encoded("k")})
	require.NoError(t, err)

	stale := f.ingest(old, written...)
	require.NotNil(t, stale.GetEpochNotMatch())
	require.Equal(t, f.region("a").Meta.RegionEpoch, stale.EpochNotMatch.CurrentRegions[0].RegionEpoch)
	require.NotNil(t, f.ingest(f.region("a"), written...).GetEpochNotMatch(), "the file is of the old epoch")

	left, right := f.region("a"), f.region("k")
	fresh := f.write(metaOf(meta(left, "b", "b")), batch(at, "b")).Metas
	require.NotNil(t, f.ingest(old, fresh...).GetEpochNotMatch(), "the request is of the old epoch")
	across := f.write(metaOf(meta(left, "a", "y")), batch(at, "a")).Metas
	require.NotNil(t, f.ingest(left, across...).GetKeyNotInRegion())
	foreign := f.write(metaOf(meta(right, "k", "y")), batch(at, "k")).Metas
	require.Contains(t, f.ingest(left, foreign...).GetMessage(), "not")
	unknown := *left.Meta
	unknown.Id = 999
	require.NotNil(t, f.ingest(&pd.Region{Meta: &unknown, Leader: left.Leader}, written...).GetRegionNotFound())
	require.Empty(t, f.keys(f.ts()))

	for _, r := range []*pd.Region{left, right} {
		key := "a"
		if r == right {
			key = "y"
		}
		resp := f.write(metaOf(meta(r, key, key)), batch(at, key))
		require.Nil(t, f.ingest(r, resp.Metas...))
	}
	require.Equal(t, []string{"a", "y"}, f.keys(at))
}

// TestSuspendedImportsWait: nothing is imported until the time is over or imports are resumed.
func TestSuspendedImportsWait(t *testing.T) {
	f := start(t)
	at := f.ts()
	r := f.region("k")
	written := f.write(metaOf(meta(r, "a", "a")), batch(at, "a")).Metas
	suspend := func(on bool) bool {
		resp, err := f.SuspendImportRPC(t.Context(), &import_sstpb.SuspendImportRPCRequest{ShouldSuspendImports: on, DurationInSecs: 3600})
		require.NoError(t, err)
		return resp.AlreadySuspended
	}
	require.False(t, suspend(true))
	busy := f.ingest(r, written...).GetServerIsBusy()
	require.NotNil(t, busy)
	require.InDelta(t, 3600e3, busy.BackoffMs, 60e3)
	probe, err := f.MultiIngest(context.Background(), &import_sstpb.MultiIngestRequest{})
	require.NoError(t, err)
	require.NotNil(t, probe.Error.GetServerIsBusy())
	require.True(t, suspend(false))
	require.Nil(t, f.ingest(r, written...))
	require.Equal(t, []string{"a"}, f.keys(at))
}

// TestDuplicateVersionsAreFound: keys with several versions above a timestamp are found.
func TestDuplicateVersionsAreFound(t *testing.T) {
	f := start(t)
	r := f.region("k")
	old, first, second := f.ts(), f.ts(), f.ts()
	for ts, keys := range map[uint64][]string{old: {"a", "b", "c"}, first: {"a", "b"}, second: {"b"}} {
		resp := f.write(metaOf(meta(r, "a", "c")), batch(ts, keys...))
		require.Nil(t, f.ingest(r, resp.Metas...))
	}
	find := func(above uint64) (found []string) {
		stream, err := f.DuplicateDetect(t.Context(), &import_sstpb.DuplicateDetectRequest{
			Context:  &kvrpcpb.Context{RegionId: r.Meta.Id, RegionEpoch: r.Meta.RegionEpoch, Peer: r.Leader},
			StartKey: []byte("a"), EndKey: []byte("z"), MinCommitTs: above,
		})
		require.NoError(t, err)
		for {
			resp, err := stream.Recv()
			if err != nil {
				return found
			}
			require.Nil(t, resp.RegionError)
			require.Nil(t, resp.KeyError)
			for _, p := range resp.Pairs {
				require.Equal(t, p.Key, p.Value)
				found = append(found, string(p.Key))
			}
		}
	}
	require.Equal(t, []string{"a", "a", "b", "b", "b"}, find(old-1))
	require.Equal(t, []string{"b", "b"}, find(old))
	require.Empty(t, find(first))
}

package sstimport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/util/codec"
	pd "github.com/tikv/pd/client"
	pdhttp "github.com/tikv/pd/client/http"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// cluster is PD and some stores of TiKV, as far as imports see them: regions with three
// peers, files that a store keeps until they are taken, and what has been taken. What an
// importer must never do is noted as a violation.
type cluster struct {
	t *testing.T

	mu         sync.Mutex
	regions    []*pd.Region // in key order
	stores     map[uint64]*fakeStore
	data       map[string]map[uint64]string // values by key and version
	values     map[versioned]bool           // long ones that were taken, before their entries or after
	now        int64
	nextID     uint64
	violations []string

	// fault is asked what goes wrong with a request; nil is nothing.
	fault func(call) *fault
	// calls are all requests, in order.
	calls []call

	keyspace  string // begins all keys in TiKV
	rules     map[string]*pdhttp.LabelRule
	labelErr  error
	setLabels int
	splits    [][]byte
}

type callKind string

const (
	callScan   callKind = "scan"   // PD is asked for regions
	callWrite  callKind = "write"  // a file is announced
	callBatch  callKind = "batch"  // data of a file
	callClose  callKind = "close"  // a file ends
	callProbe  callKind = "probe"  // an import without files
	callIngest callKind = "ingest" // files are to be taken
	callLease  callKind = "lease"
)

// call is a request.
type call struct {
	kind   callKind
	store  uint64
	region uint64
	nth    int // of its kind
}

// fault is what goes wrong with a request.
type fault struct {
	// region and text are answers, err is an error of the connection.
	region *errorpb.Error
	text   string
	err    error
	// late lets the request be carried out first.
	late bool
	// hang lets it be held up until the client gives it up.
	hang bool
	// before is called first, without locks.
	before func()
}

type fakeStore struct {
	import_sstpb.UnimplementedImportSSTServer
	c          *cluster
	id         uint64
	addr       string
	server     *grpc.Server
	files      map[string]*fakeFile // by what nameOf says
	open, most int                  // uploads at a time
}

// fakeFile is a file of entries, or one of long values, which are with their entries as well:
// that says what they must find when they are taken.
type fakeFile struct {
	meta  *import_sstpb.SSTMeta
	pairs []versioned
	bytes int
}

type versioned struct {
	key, value string
	version    uint64
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{
		t: t, now: 1000, nextID: 100, stores: make(map[uint64]*fakeStore),
		data: make(map[string]map[uint64]string), values: make(map[versioned]bool), rules: make(map[string]*pdhttp.LabelRule),
	}
	peers := []*metapb.Peer{{Id: 11, StoreId: 1}, {Id: 12, StoreId: 2}, {Id: 13, StoreId: 3}}
	c.regions = []*pd.Region{{
		Meta:   &metapb.Region{Id: 10, RegionEpoch: &metapb.RegionEpoch{ConfVer: 3, Version: 1}, Peers: peers},
		Leader: peers[0],
	}}
	for _, p := range peers {
		c.start(p.StoreId)
	}
	t.Cleanup(func() {
		for _, s := range c.stores {
			s.server.Stop()
		}
		require.Empty(t, c.violations)
	})
	return c
}

// start starts a store, at another address if it ran before.
func (c *cluster) start(id uint64) {
	c.t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(c.t, err)
	s := &fakeStore{c: c, id: id, addr: lis.Addr().String(), server: grpc.NewServer(), files: make(map[string]*fakeFile)}
	import_sstpb.RegisterImportSSTServer(s.server, s)
	go func() { _ = s.server.Serve(lis) }() // until it is stopped
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores[id] = s
}

func (c *cluster) violation(format string, args ...any) {
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
}

// setFault sets what goes wrong from now on, also with a request that its sender does not
// wait for any more.
func (c *cluster) setFault(fault func(call) *fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fault
}

// happens notes a call and returns what goes wrong with it.
func (c *cluster) happens(kind callKind, store, region uint64) *fault {
	c.mu.Lock()
	nth := 1
	for _, other := range c.calls {
		if other.kind == kind {
			nth++
		}
	}
	this := call{kind, store, region, nth}
	c.calls = append(c.calls, this)
	decide := c.fault
	c.mu.Unlock()
	if decide == nil {
		return nil
	}
	f := decide(this)
	if f != nil && f.before != nil {
		f.before()
	}
	return f
}

// count returns how many requests of a kind there were.
func (c *cluster) count(kind callKind) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.calls {
		if other.kind == kind {
			n++
		}
	}
	return n
}

// ScanRegions implements PD.
func (c *cluster) ScanRegions(ctx context.Context, key, endKey []byte, limit int, _ ...pd.GetRegionOption) ([]*pd.Region, error) {
	if f := c.happens(callScan, 0, 0); f != nil && f.err != nil {
		return nil, f.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*pd.Region
	for _, r := range c.regions {
		if len(r.Meta.EndKey) > 0 && bytes.Compare(r.Meta.EndKey, key) <= 0 || len(endKey) > 0 && bytes.Compare(r.Meta.StartKey, endKey) >= 0 {
			continue
		}
		if len(found) < limit {
			found = append(found, &pd.Region{Meta: cloneRegion(r.Meta), Leader: r.Leader})
		}
	}
	return found, ctx.Err()
}

func cloneRegion(r *metapb.Region) *metapb.Region {
	clone := *r
	clone.RegionEpoch = &metapb.RegionEpoch{ConfVer: r.RegionEpoch.ConfVer, Version: r.RegionEpoch.Version}
	clone.Peers = slices.Clone(r.Peers)
	return &clone
}

// GetStore implements PD.
func (c *cluster) GetStore(_ context.Context, id uint64) (*metapb.Store, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &metapb.Store{Id: id, Address: c.stores[id].addr}, nil
}

// GetTS implements PD.
func (c *cluster) GetTS(context.Context) (physical, logical int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	return c.now, 0, nil
}

// version returns a timestamp of the past.
func (c *cluster) version() uint64 {
	physical, _, _ := c.GetTS(context.Background()) // it does not fail
	return uint64(physical) << 18
}

// SplitRegions implements Splitter.
func (c *cluster) SplitRegions(_ context.Context, keys [][]byte, _ bool, _ *int64) (ids []uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.splits = append(c.splits, keys...)
	for _, k := range keys {
		ids = append(ids, c.splitLocked(k))
	}
	return ids, nil
}

// WaitScatterRegionFinish implements Splitter.
func (c *cluster) WaitScatterRegionFinish(context.Context, uint64, int) error { return nil }

// split splits the region of a key there.
func (c *cluster) split(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.splitLocked([]byte(key))
}

func (c *cluster) splitLocked(key []byte) uint64 {
	i := c.find(key)
	r := c.regions[i]
	r.Meta.RegionEpoch.Version++
	if bytes.Equal(r.Meta.StartKey, key) {
		return r.Meta.Id
	}
	right := cloneRegion(r.Meta)
	c.nextID++
	right.Id, right.StartKey = c.nextID, bytes.Clone(key)
	r.Meta.EndKey = right.StartKey
	c.regions = slices.Insert(c.regions, i+1, &pd.Region{Meta: right, Leader: right.Peers[int(c.nextID)%len(right.Peers)]})
	return right.Id
}

// merge merges the region of a key with the next, if there is one.
func (c *cluster) merge(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.find([]byte(key))
	if i+1 == len(c.regions) {
		return
	}
	left, right := c.regions[i], c.regions[i+1]
	left.Meta.EndKey = right.Meta.EndKey
	left.Meta.RegionEpoch.Version = max(left.Meta.RegionEpoch.Version, right.Meta.RegionEpoch.Version) + 1
	c.regions = slices.Delete(c.regions, i+1, i+2)
}

// moveLeader makes another peer the leader of a key's region.
func (c *cluster) moveLeader(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.regions[c.find([]byte(key))]
	at := slices.IndexFunc(r.Meta.Peers, func(p *metapb.Peer) bool { return p.Id == r.Leader.Id })
	r.Leader = r.Meta.Peers[(at+1)%len(r.Meta.Peers)]
}

// find returns the number of the region of a key.
func (c *cluster) find(key []byte) int {
	return sort.Search(len(c.regions), func(i int) bool {
		end := c.regions[i].Meta.EndKey
		return len(end) == 0 || bytes.Compare(end, key) > 0
	})
}

func (c *cluster) byID(id uint64) *pd.Region {
	for _, r := range c.regions {
		if r.Meta.Id == id {
			return r
		}
	}
	return nil
}

// SetRegionLabelRule implements Labels.
func (c *cluster) SetRegionLabelRule(ctx context.Context, rule *pdhttp.LabelRule) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setLabels++
	err := errors.Join(c.labelErr, ctx.Err())
	if err == nil {
		c.rules[rule.ID] = rule
	}
	return err
}

// labelsSet is how often a label rule was set.
func (c *cluster) labelsSet() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.setLabels
}

// PatchRegionLabelRules implements Labels.
func (c *cluster) PatchRegionLabelRules(ctx context.Context, patch *pdhttp.LabelRulePatch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := errors.Join(c.labelErr, ctx.Err()); err != nil {
		return err
	}
	for _, id := range patch.DeleteRules {
		delete(c.rules, id)
	}
	return nil
}

// Write implements import_sstpb.ImportSSTServer.
func (s *fakeStore) Write(stream import_sstpb.ImportSST_WriteServer) error {
	req, err := stream.Recv()
	if err != nil {
		return err
	}
	f := &fakeFile{meta: req.GetMeta()}
	s.uploads(1)
	defer s.uploads(-1)
	if done, err := s.broken(stream, callWrite, f.meta.RegionId); done {
		return err
	}
	s.c.mu.Lock()
	text := s.checkMeta(f.meta)
	s.c.mu.Unlock()
	if text != "" {
		return status.Error(codes.Unknown, text) // as TiKV
	}
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if done, err := s.broken(stream, callBatch, f.meta.RegionId); done {
			return err
		}
		s.c.mu.Lock()
		s.addBatch(f, req.GetBatch())
		s.c.mu.Unlock()
	}
	fault := s.c.happens(callClose, s.id, f.meta.RegionId)
	resp := &import_sstpb.WriteResponse{}
	if fault == nil || fault.late {
		s.c.mu.Lock()
		for _, file := range f.families() {
			s.files[nameOf(file.meta)] = file
			resp.Metas = append(resp.Metas, file.meta)
		}
		s.c.mu.Unlock()
	}
	if fault != nil && (!fault.late || fault.region != nil || fault.err != nil) {
		return s.answer(stream, fault)
	}
	return stream.SendAndClose(resp)
}

const (
	// shortBytes bounds the length of a short value.
	shortBytes = 255
)

// nameOf is what a file has for itself: those of one stream have one UUID.
func nameOf(meta *import_sstpb.SSTMeta) string { return string(meta.Uuid) + meta.CfName }

// families returns the files that TiKV makes of what it is sent in one stream: that of long
// values, if there are, and that of entries.
func (f *fakeFile) families() []*fakeFile {
	family := func(name string) *fakeFile {
		meta := *f.meta
		meta.CfName = name
		return &fakeFile{meta: &meta}
	}
	values, entries := family(valuesFamily), family(entriesFamily)
	entries.pairs, entries.bytes = f.pairs, f.bytes
	for _, p := range f.pairs {
		if len(p.value) > shortBytes {
			values.pairs = append(values.pairs, p)
		}
	}
	if len(values.pairs) == 0 {
		return []*fakeFile{entries}
	}
	return []*fakeFile{values, entries}
}

func (s *fakeStore) uploads(n int) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.open += n
	s.most = max(s.most, s.open)
}

// broken lets happen to a stream what is to.
func (s *fakeStore) broken(stream import_sstpb.ImportSST_WriteServer, kind callKind, region uint64) (bool, error) {
	if fault := s.c.happens(kind, s.id, region); fault != nil && !fault.late {
		return true, s.answer(stream, fault)
	}
	return false, nil
}

func (s *fakeStore) answer(stream import_sstpb.ImportSST_WriteServer, f *fault) error {
	switch {
	case f.hang:
		<-stream.Context().Done()
		return stream.Context().Err()
	case f.err != nil:
		return f.err
	case f.region == nil:
		return status.Error(codes.Unknown, f.text) // as TiKV
	}
	return stream.SendAndClose(&import_sstpb.WriteResponse{Error: &import_sstpb.Error{Message: f.text, StoreError: f.region}})
}

// checkMeta says what TiKV says of a file that it does not take.
func (s *fakeStore) checkMeta(meta *import_sstpb.SSTMeta) string {
	if s.files[string(meta.Uuid)+entriesFamily] != nil || len(meta.Uuid) != 16 {
		s.c.violation("the identity %x is not a new one", meta.Uuid)
	}
	r := s.c.byID(meta.RegionId)
	switch {
	case r == nil, meta.RegionEpoch.Version < r.Meta.RegionEpoch.Version:
		return "RequestTooOld"
	case meta.RegionEpoch.Version > r.Meta.RegionEpoch.Version:
		return "RequestTooNew"
	}
	for _, edge := range [][]byte{meta.Range.Start, meta.Range.End} {
		if _, key, err := codec.DecodeBytes(edge, nil); err != nil || !rangeOf(r).Contains([]byte(s.c.plain(key))) {
			s.c.violation("edge %x is not in the region: %v", edge, err)
		}
	}
	return ""
}

// plain is a key without its keyspace, as SQL and PD's client have it.
func (c *cluster) plain(key []byte) string {
	plain, ok := strings.CutPrefix(string(key), c.keyspace)
	if !ok {
		c.violation("key %q is of another keyspace", key)
	}
	return plain
}

func (s *fakeStore) addBatch(f *fakeFile, b *import_sstpb.WriteBatch) {
	if b.GetCommitTs() == 0 || len(b.GetPairs()) == 0 {
		s.c.violation("a batch has %d pairs at %d", len(b.GetPairs()), b.GetCommitTs())
		return
	}
	for _, p := range b.Pairs {
		encoded := codec.EncodeBytes(nil, p.Key)
		if n := len(f.pairs); n > 0 && s.c.plain(p.Key) <= f.pairs[n-1].key {
			s.c.violation("key %q after %q", p.Key, f.pairs[n-1].key)
		}
		if bytes.Compare(encoded, f.meta.Range.Start) < 0 || bytes.Compare(encoded, f.meta.Range.End) > 0 {
			s.c.violation("key %q is not in the file's range", p.Key)
		}
		f.pairs = append(f.pairs, versioned{s.c.plain(p.Key), string(p.Value), b.CommitTs})
		f.bytes += len(p.Key) + len(p.Value)
	}
}

// MultiIngest implements import_sstpb.ImportSSTServer.
func (s *fakeStore) MultiIngest(ctx context.Context, req *import_sstpb.MultiIngestRequest) (*import_sstpb.IngestResponse, error) {
	kind := callIngest
	if len(req.Ssts) == 0 {
		kind = callProbe
	}
	f := s.c.happens(kind, s.id, req.Context.GetRegionId())
	resp := &import_sstpb.IngestResponse{}
	if kind == callIngest && (f == nil || f.late) {
		s.c.mu.Lock()
		resp.Error = s.ingest(req)
		s.c.mu.Unlock()
	}
	switch {
	case f == nil, f.late && f.region == nil && f.err == nil:
		return resp, nil
	case f.hang:
		<-ctx.Done()
		return nil, ctx.Err()
	case f.text != "":
		return &import_sstpb.IngestResponse{Error: &errorpb.Error{Message: f.text}}, nil
	}
	return &import_sstpb.IngestResponse{Error: f.region}, f.err
}

func (s *fakeStore) ingest(req *import_sstpb.MultiIngestRequest) *errorpb.Error {
	r := s.c.byID(req.Context.RegionId)
	switch {
	case r == nil:
		return &errorpb.Error{Message: "region not found", RegionNotFound: &errorpb.RegionNotFound{}}
	case r.Leader.StoreId != s.id:
		return &errorpb.Error{Message: "not leader", NotLeader: &errorpb.NotLeader{}}
	case req.Context.RegionEpoch.Version != r.Meta.RegionEpoch.Version:
		return &errorpb.Error{Message: "epoch not match", EpochNotMatch: &errorpb.EpochNotMatch{}}
	}
	for _, meta := range req.Ssts {
		f := s.files[nameOf(meta)]
		switch {
		case f == nil:
			return &errorpb.Error{Message: "file does not exist", StaleCommand: &errorpb.StaleCommand{}}
		case f.meta.RegionEpoch.Version != r.Meta.RegionEpoch.Version:
			return &errorpb.Error{Message: "epoch of the file not match", EpochNotMatch: &errorpb.EpochNotMatch{}}
		}
		for _, p := range r.Meta.Peers {
			peer := s.c.stores[p.StoreId]
			if other := peer.files[nameOf(meta)]; other == nil || !slices.Equal(other.pairs, f.pairs) {
				s.c.violation("store %d is to take a file that it does not have", p.StoreId)
			}
			delete(peer.files, nameOf(meta))
		}
		for _, p := range f.pairs {
			if !rangeOf(r).Contains([]byte(p.key)) {
				s.c.violation("key %q is imported into another region", p.key)
			}
			if meta.CfName == valuesFamily {
				s.c.values[p] = true
				continue
			}
			if len(p.value) > shortBytes && !s.c.values[p] {
				s.c.violation("key %q is there before its value", p.key)
			}
			versions := s.c.data[p.key]
			if versions == nil {
				versions = make(map[uint64]string)
				s.c.data[p.key] = versions
			}
			if old, ok := versions[p.version]; ok && old != p.value {
				s.c.violation("key %q has two values at %d", p.key, p.version)
			}
			versions[p.version] = p.value
		}
	}
	return nil
}

// requireData checks that exactly these pairs have been imported at the version.
func (c *cluster) requireData(version uint64, want map[string]string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	got := make(map[string]string)
	for key, versions := range c.data {
		for v, value := range versions {
			require.Equal(c.t, version, v, key)
			got[key] = value
		}
	}
	require.Len(c.t, got, len(want))
	require.Equal(c.t, want, got)
}

// options are those of an importer into the cluster, which tries again at once.
func (c *cluster) options() Options {
	return Options{
		PD: c, Splitter: c, Labels: c,
		Lease:   func(context.Context) error { c.happens(callLease, 0, 0); return nil },
		Backoff: func(int) time.Duration { return time.Millisecond },
	}
}

package tikv

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikvrpc"
	pdhttp "github.com/tikv/pd/client/http"

	"fastddl/kv"
	"fastddl/kv/embedded"
	"fastddl/kv/pebblekv"
)

// testStore is a driver over an embedded store: a TiKV of one node in this process.
type testStore struct {
	*Store
	fs   vfs.FS
	data *embedded.Store
	log  *traffic
}

// open opens a driver over the data in fs.
func open(t *testing.T, fs vfs.FS, opts Options) *testStore {
	t.Helper()
	data, err := embedded.Open("db", embedded.Options{Pebble: pebblekv.Options{FS: fs}})
	require.NoError(t, err)
	s := &testStore{fs: fs, data: data, log: &traffic{}}
	opts.Importer = importer{data.Builds()}
	storage := &storage{cluster: data.Storage().(cluster), http: &pdHTTP{data: data}, log: s.log}
	s.Store, err = Open(storage, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func openNew(t *testing.T) *testStore { return open(t, vfs.NewMem(), Options{}) }

func (s *testStore) Close() error { return errors.Join(s.Store.Close(), s.data.Close()) }

// storage is the embedded storage with an HTTP client of PD, and counts what the
// coprocessor sends.
type storage struct {
	cluster
	http pdhttp.Client
	log  *traffic
}

func (s *storage) GetPDHTTPClient() pdhttp.Client { return s.http }

func (s *storage) GetClient() tidbkv.Client { return &countingClient{s.cluster.GetClient(), s.log} }

// pdHTTP is the part of PD's HTTP API that the driver uses.
type pdHTTP struct {
	pdhttp.Client
	data *embedded.Store
	err  error // of all requests
}

func (p *pdHTTP) GetGCSafePoint(ctx context.Context) (list pdhttp.ListServiceGCSafepoint, err error) {
	holds, err := p.data.Builds().GCHolds(ctx)
	for name, ts := range holds {
		if id, ok := strings.CutPrefix(name, "service/"); ok {
			list.ServiceGCSafepoints = append(list.ServiceGCSafepoints, &pdhttp.ServiceSafePoint{ServiceID: id, ExpiredAt: math.MaxInt64, SafePoint: ts})
		}
	}
	return list, errors.Join(err, p.err)
}

func (p *pdHTTP) GetRegionsByKeyRange(ctx context.Context, r *pdhttp.KeyRange, limit int) (*pdhttp.RegionsInfo, error) {
	if p.err != nil {
		return nil, p.err
	}
	startHex, endHex := r.EscapeAsHexStr()
	start, _ := hex.DecodeString(startHex)
	end, _ := hex.DecodeString(endHex)
	regions, err := p.data.PDClient().ScanRegions(ctx, start, end, limit)
	if err != nil {
		return nil, err
	}
	info := &pdhttp.RegionsInfo{}
	for i, r := range regions {
		info.Regions = append(info.Regions, pdhttp.RegionInfo{
			ID: int64(r.Meta.Id), EndKey: fmt.Sprintf("%X", r.Meta.EndKey), ApproximateSize: int64(i + 1),
		})
	}
	return info, nil
}

// importer imports into the embedded store itself.
type importer struct{ kv.Store }

func (i importer) NewWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	return i.Store.NewImportWriter(ctx, opts)
}

func (i importer) Busy() bool { return false }

// commit commits pairs in a transaction of TiDB's.
func commit(ctx context.Context, s *testStore, pairs map[string]string) (uint64, error) {
	for {
		txn, err := s.data.Storage().Begin()
		if err != nil {
			return 0, err
		}
		var info struct {
			CommitTS uint64 `json:"commit_ts"`
		}
		txn.SetOption(tidbkv.CommitHook, func(text string, _ error) { err = json.Unmarshal([]byte(text), &info) })
		for k, v := range pairs {
			if v == "" {
				err = txn.Delete([]byte(k))
			} else {
				err = txn.Set([]byte(k), []byte(v))
			}
			if err != nil {
				return 0, err
			}
		}
		commitErr := txn.Commit(ctx)
		if commitErr == nil {
			return info.CommitTS, err
		}
		if !tidbkv.IsTxnRetryableError(commitErr) {
			return 0, commitErr
		}
	}
}

// start prewrites pairs, all in one region, and takes the commit timestamp. Finish
// commits, with a later timestamp if a reader has not waited.
func start(ctx context.Context, s *testStore, pairs map[string]string) (ts uint64, finish func() error, err error) {
	begin, err := s.currentTS(ctx)
	if err != nil {
		return 0, nil, err
	}
	prewrite := &kvrpcpb.PrewriteRequest{StartVersion: begin, LockTtl: 60_000, TxnSize: uint64(len(pairs))}
	var keys [][]byte
	for k, v := range pairs {
		m := &kvrpcpb.Mutation{Op: kvrpcpb.Op_Put, Key: []byte(k), Value: []byte(v)}
		if v == "" {
			m.Op = kvrpcpb.Op_Del
		}
		prewrite.Mutations, keys = append(prewrite.Mutations, m), append(keys, m.Key)
	}
	prewrite.PrimaryLock = keys[0]
	resp, err := s.request(ctx, tikvrpc.CmdPrewrite, prewrite, keys[0])
	if err != nil {
		return 0, nil, err
	}
	if list := resp.(*kvrpcpb.PrewriteResponse).Errors; len(list) > 0 {
		return 0, nil, fmt.Errorf("prewrite: %v", list)
	}
	ts, err = s.currentTS(ctx)
	finish = func() error {
		at := ts
		for {
			resp, err := s.request(ctx, tikvrpc.CmdCommit, &kvrpcpb.CommitRequest{StartVersion: begin, Keys: keys, CommitVersion: at}, keys[0])
			if err != nil {
				return err
			}
			switch e := resp.(*kvrpcpb.CommitResponse).Error; {
			case e == nil:
				return nil
			case e.CommitTsExpired == nil:
				return fmt.Errorf("commit: %v", e)
			}
			if at, err = s.currentTS(ctx); err != nil {
				return err
			}
		}
	}
	return ts, finish, err
}

func (s *testStore) request(ctx context.Context, tp tikvrpc.CmdType, req any, key []byte) (any, error) {
	bo := backoffer(ctx)
	region, err := s.cluster.GetRegionCache().LocateKey(bo, key)
	if err != nil {
		return nil, err
	}
	resp, err := s.cluster.SendReq(bo, tikvrpc.NewRequest(tp, req), region.Region, splitTimeout)
	if err != nil {
		return nil, err
	}
	if regionErr, err := resp.GetRegionError(); err != nil || regionErr != nil {
		return nil, fmt.Errorf("%v %w", regionErr, err)
	}
	return resp.Resp, nil
}

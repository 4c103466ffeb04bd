package tikv

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/stretchr/testify/require"
	pd "github.com/tikv/pd/client"
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

// storageOf is TiDB's storage behind a store of the suite.
func storageOf(s kv.Store) tidbkv.Storage { return s.(*testStore).data.Storage() }

func (s *testStore) Close() error { return errors.Join(s.Store.Close(), s.data.Close()) }

// storage is the embedded storage with an HTTP client of PD, and counts what the
// coprocessor sends.
type storage struct {
	cluster
	http pdhttp.Client
	pd   pd.Client // nil is the cluster's
	log  *traffic
}

func (s *storage) GetPDClient() pd.Client {
	if s.pd != nil {
		return s.pd
	}
	return s.cluster.GetPDClient()
}

func (s *storage) GetPDHTTPClient() pdhttp.Client { return s.http }

func (s *storage) GetClient() tidbkv.Client { return &countingClient{s.cluster.GetClient(), s.log} }

// pdHTTP is the part of PD's HTTP API that the driver uses.
type pdHTTP struct {
	pdhttp.Client
	data *embedded.Store
	err  error // of all requests
	// more are listed with the holds of data.
	more []*pdhttp.ServiceSafePoint
}

func (p *pdHTTP) GetGCSafePoint(ctx context.Context) (list pdhttp.ListServiceGCSafepoint, err error) {
	holds, err := p.data.Builds().GCHolds(ctx)
	for name, ts := range holds {
		if id, ok := strings.CutPrefix(name, "service/"); ok {
			list.ServiceGCSafepoints = append(list.ServiceGCSafepoints, &pdhttp.ServiceSafePoint{ServiceID: id, ExpiredAt: math.MaxInt64, SafePoint: ts})
		}
	}
	list.ServiceGCSafepoints = append(list.ServiceGCSafepoints, p.more...)
	return list, errors.Join(err, p.err)
}

func (p *pdHTTP) GetRegionsByKeyRange(ctx context.Context, r *pdhttp.KeyRange, limit int) (*pdhttp.RegionsInfo, error) {
	if p.err != nil {
		return nil, p.err
	}
	startHex, endHex := r.EscapeAsHexStr()
	start, _ := hex.DecodeString(startHex)
	end, _ := hex.DecodeString(endHex)
	regions, err := p.data.PDClient().BatchScanRegions(ctx, []pd.KeyRange{{StartKey: start, EndKey: end}}, limit)
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

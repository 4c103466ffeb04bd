package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/store/driver"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/util/codec"
	pd "github.com/tikv/pd/client"
	pdhttp "github.com/tikv/pd/client/http"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"fastddl/backfill"
	"fastddl/backfill/encode"
	"fastddl/kv"
	"fastddl/kv/kvtest"
	kvtikv "fastddl/kv/tikv"
	"fastddl/kv/tikv/sstimport"
	"fastddl/tests/cluster/standin"
)

// clusterStorage is TiDB's storage over a cluster, as far as the driver's parts need it.
type clusterStorage interface {
	tidbkv.Storage
	sstimport.Splitter
	GetPDClient() pd.Client
	GetPDHTTPClient() pdhttp.Client
	GetCodec() tikv.Codec
}

// openStorage opens TiDB's storage, over the network.
func openStorage(t *testing.T, c *standin.Cluster) clusterStorage {
	t.Helper()
	pd, err := c.Open()
	require.NoError(t, err)
	return openStorageAt(t, pd.Path())
}

// openStorageAt opens a cluster by the path that SQL servers have.
func openStorageAt(t *testing.T, path string) clusterStorage {
	t.Helper()
	options := "?"
	if strings.Contains(path, "?") { // it names a keyspace
		options = "&"
	}
	storage, err := driver.TiKVDriver{}.Open("tikv://" + path + options + "disableGC=true")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, storage.Close()) })
	return storage.(clusterStorage)
}

// openDriver opens the driver for index builds as the server does.
func openDriver(t *testing.T, storage clusterStorage) *kvtikv.Store {
	t.Helper()
	importer, err := sstimport.New(sstimport.Options{
		PD: storage.GetPDClient(), Codec: storage.GetCodec(), Splitter: storage, Labels: storage.GetPDHTTPClient(),
	})
	require.NoError(t, err)
	s, err := kvtikv.Open(storage, kvtikv.Options{Importer: importer})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// emptyCluster is the path of a TiKV cluster that has nothing in it (FASTDDL_EMPTY_CLUSTER):
// what writes keys past the tables runs there as well.
var emptyCluster = os.Getenv("FASTDDL_EMPTY_CLUSTER")

// TestDriverConformance: the driver keeps the contract over the network, imports included.
func TestDriverConformance(t *testing.T) {
	if emptyCluster == "" {
		conforms(t, openStorage(t, startCluster(t, nil)))
	} else {
		conforms(t, openStorageAt(t, emptyCluster))
	}
}

func conforms(t *testing.T, storage clusterStorage) {
	storageOf := func(kv.Store) tidbkv.Storage { return storage }
	kvtest.Run(t, kvtest.Harness{
		Open: func(t *testing.T) kv.Store { return openDriver(t, storage) },
		Reopen: func(t *testing.T, s kv.Store) kv.Store {
			require.NoError(t, s.Close())
			return openDriver(t, storage)
		},
		Commit: kvtest.TiDBCommit(storageOf),
		Start:  kvtest.TiDBStart(storageOf),
		Lacks: map[kvtest.Capability]string{
			kvtest.EntryVersions: "TiKV's scans return pairs without their timestamps",
			kvtest.FixedCommits:  "a reader moves the transaction's commit above its own timestamp, and goes on",
			kvtest.OwnsData:      "the storage belongs to TiDB's SQL layer",
			kvtest.RangeSizes:    "PD knows sizes from heartbeats: regions of the stand-in have none, and those of TiKV come after a minute",
		},
	})
}

// wideTable is a table like sysbench's with n rows, put into the store past the network.
func wideTable(t *testing.T, c *standin.Cluster, n int) *model.TableInfo {
	t.Helper()
	table := &model.TableInfo{ID: 4711, Name: pmodel.NewCIStr("t"), PKIsHandle: true, State: model.StatePublic}
	for i, tp := range []byte{mysql.TypeLonglong, mysql.TypeLong, mysql.TypeString, mysql.TypeString} {
		col := &model.ColumnInfo{
			ID: int64(i + 1), Offset: i, Name: pmodel.NewCIStr(fmt.Sprint("c", i)), FieldType: *types.NewFieldType(tp),
			State: model.StatePublic, Version: model.CurrLatestColumnInfoVersion,
		}
		if tp == mysql.TypeString {
			col.SetFlen(120)
			col.SetCharset("utf8mb4")
			col.SetCollate("utf8mb4_bin")
		}
		table.Columns = append(table.Columns, col)
	}
	table.Columns[0].AddFlag(mysql.PriKeyFlag | mysql.NotNullFlag)
	data := c.Store().Builds()
	version, err := data.CurrentTS(t.Context())
	require.NoError(t, err)
	w, err := data.NewImportWriter(t.Context(), kv.ImportOptions{Dir: "rows", Version: version})
	require.NoError(t, err)
	for i := range n {
		text := types.NewStringDatum(fmt.Sprintf("%0*d", 119, i))
		row, err := tablecodec.EncodeRow(time.UTC, []types.Datum{types.NewIntDatum(int64(i % 1000)), text, text}, []int64{2, 3, 4}, nil, nil, nil,
			&rowcodec.Encoder{Enable: true})
		require.NoError(t, err)
		require.NoError(t, w.Add(tablecodec.EncodeRowKeyWithHandle(table.ID, tidbkv.IntHandle(i)), row))
	}
	u, err := w.Finish(t.Context())
	require.NoError(t, err)
	require.NoError(t, data.Import(t.Context(), []kv.ImportUnit{u}))
	_, err = c.Store().PDClient().SplitRegions(t.Context(), [][]byte{
		codec.EncodeBytes(nil, tablecodec.EncodeRowKeyWithHandle(table.ID, tidbkv.IntHandle(n/3))),
		codec.EncodeBytes(nil, tablecodec.EncodeRowKeyWithHandle(table.ID, tidbkv.IntHandle(2*n/3))),
	})
	require.NoError(t, err)
	return table
}

// TestBytesOnTheWire measures what TiKV sends: for a scan of one integer the handle and the
// integer, for the verification of an index less than a thousandth of it.
func TestBytesOnTheWire(t *testing.T) {
	const rows = 60_000
	c := startCluster(t, nil)
	table := wideTable(t, c, rows)
	s := openDriver(t, openStorage(t, c))
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)

	before, n, requests := c.Sent(), 0, c.Received()["Coprocessor"]
	require.NoError(t, s.ScanColumns(t.Context(), kv.ScanRequest{
		Range: kv.PrefixRange(tablecodec.GenTableRecordPrefix(table.ID)), TS: ts, HandleColIDs: []int64{1},
		Columns: []rowcodec.ColInfo{{ID: 2, Ft: &table.Columns[1].FieldType}},
	}, func(b *kv.RowBatch) error {
		n += b.NumRows()
		return nil
	}))
	require.Equal(t, rows, n)
	perRow := float64(c.Sent()-before) / rows
	requests = c.Received()["Coprocessor"] - requests
	t.Logf("scan of one integer: %.2f bytes a row, %d requests", perRow, requests)
	require.Less(t, perRow, 16*1.05)
	require.LessOrEqual(t, requests, int64(16), "three regions, pages of up to 50,000 rows, the first ones small")

	idx := &model.IndexInfo{
		ID: 9, Name: pmodel.NewCIStr("i"), State: model.StateWriteReorganization,
		Columns: []*model.IndexColumn{{Name: table.Columns[2].Name, Offset: 2, Length: types.UnspecifiedLength}},
	}
	var built int64 // what had been sent when everything was imported
	res, err := backfill.Run(t.Context(), backfill.Options{
		Store: s, TempDir: t.TempDir(), CheckpointInterval: time.Hour,
		SaveCheckpoint: func(context.Context, []byte) error { built = c.Sent(); return nil },
	}, backfill.Spec{Task: encode.Task{JobID: 1, Table: table, Indexes: []*model.IndexInfo{idx}, TS: ts}})
	require.NoError(t, err)
	verification := c.Sent() - built
	t.Logf("messages of a build with its verification: %v", c.Received())
	require.NotZero(t, built)
	require.EqualValues(t, rows, res.Entries)

	sum, err := s.Checksum(t.Context(), kv.PrefixRange(tablecodec.EncodeTableIndexPrefix(table.ID, idx.ID)), ts)
	require.NoError(t, err)
	require.EqualValues(t, rows, sum.Pairs)
	t.Logf("verification of an index of %d bytes: %d bytes, 1/%d", sum.Bytes, verification, sum.Bytes/max(1, verification))
	require.Less(t, verification*1000, sum.Bytes)
}

// TestFenceRefusesLateImports: what was written, and what is still to be written, under the
// regions' epochs from before a fence is refused, also with faults in the fence's way.
func TestFenceRefusesLateImports(t *testing.T) {
	c := startCluster(t, nil)
	s := openDriver(t, openStorage(t, c))
	conn, err := grpc.NewClient(c.StoreAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	late := import_sstpb.NewImportSSTClient(conn)
	r := kv.KeyRange{Start: []byte("t_b"), End: []byte("t_x")}
	_, err = s.Ranges(t.Context(), kv.KeyRange{}) // what the driver takes for the regions
	require.NoError(t, err)
	_, err = c.Store().PDClient().SplitRegions(t.Context(), [][]byte{encodedKey("t_f"), encodedKey("t_m")})
	require.NoError(t, err)

	for name, fault := range map[string]standin.Fault{
		"none":             {},
		"epoch not match":  {Region: standin.EpochNotMatch},
		"region not found": {Region: standin.RegionNotFound},
		"not leader":       {Region: standin.NotLeader},
		"server is busy":   {Region: standin.ServerIsBusy},
		"broken":           {Break: true},
	} {
		t.Run(name, func(t *testing.T) {
			version, err := s.CurrentTS(t.Context())
			require.NoError(t, err)
			var regions []*pd.Region
			var files [][]*import_sstpb.SSTMeta
			for _, key := range []string{"t_c", "t_g", "t_w"} {
				region, err := c.Store().PDClient().GetRegion(t.Context(), encodedKey(key+name))
				require.NoError(t, err)
				regions = append(regions, region)
				written, err := writeSST(t, late, region, key+name, version)
				require.NoError(t, err)
				files = append(files, written.Metas)
			}
			require.Nil(t, ingest(t, late, regions[0], files[0]), "in time")

			if fault.Region != nil || fault.Break {
				fault.Commands, fault.Times = []string{"SplitRegion"}, 2
				defer c.Faults().Inject(fault).Remove()
			}
			require.NoError(t, s.Fence(t.Context(), r))
			for i, key := range []string{"t_c", "t_g", "t_w"} {
				if i > 0 {
					require.NotNil(t, ingest(t, late, regions[i], files[i]).GetEpochNotMatch(), key)
				}
				_, err := writeSST(t, late, regions[i], key+name, version)
				require.ErrorContains(t, err, "RequestTooOld", key)
			}
			sum, err := s.Checksum(t.Context(), kv.PrefixRange([]byte("t_c"+name)), version)
			require.NoError(t, err)
			require.EqualValues(t, 1, sum.Pairs, "what was in time stays")
			sum, err = s.Checksum(t.Context(), kv.PrefixRange([]byte("t_g"+name)), version)
			require.NoError(t, err)
			require.Zero(t, sum.Pairs)
		})
	}
}

func encodedKey(key string) []byte { return codec.EncodeBytes(nil, []byte(key)) }

// writeSST sends a file of one pair for a region as it was.
func writeSST(t *testing.T, client import_sstpb.ImportSSTClient, r *pd.Region, key string, version uint64) (*import_sstpb.WriteResponse, error) {
	t.Helper()
	id := uuid.New()
	stream, err := client.Write(t.Context())
	require.NoError(t, err)
	for _, req := range []*import_sstpb.WriteRequest{
		{Chunk: &import_sstpb.WriteRequest_Meta{Meta: &import_sstpb.SSTMeta{
			Uuid: id[:], RegionId: r.Meta.Id, RegionEpoch: r.Meta.RegionEpoch,
			Range: &import_sstpb.Range{Start: encodedKey(key), End: encodedKey(key)},
		}}},
		{Chunk: &import_sstpb.WriteRequest_Batch{Batch: &import_sstpb.WriteBatch{
			CommitTs: version, Pairs: []*import_sstpb.Pair{{Key: []byte(key), Value: []byte(strings.Repeat("v", 8))}},
		}}},
	} {
		if stream.Send(req) != nil {
			break // the answer says why
		}
	}
	return stream.CloseAndRecv()
}

// ingest imports files into a region as it was, and returns what is wrong.
func ingest(t *testing.T, client import_sstpb.ImportSSTClient, r *pd.Region, metas []*import_sstpb.SSTMeta) *errorpb.Error {
	t.Helper()
	resp, err := client.MultiIngest(t.Context(), &import_sstpb.MultiIngestRequest{
		Context: &kvrpcpb.Context{RegionId: r.Meta.Id, RegionEpoch: r.Meta.RegionEpoch, Peer: r.Leader}, Ssts: metas,
	})
	require.NoError(t, err)
	return resp.Error
}

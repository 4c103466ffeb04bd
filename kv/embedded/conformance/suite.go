package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/util/codec"
	pd "github.com/tikv/pd/client"
)

// lockTTL is the time to live, in milliseconds, of locks that must not expire during a test.
const lockTTL = 60_000

// Target is an empty store to be tested.
type Target struct {
	Client tikv.Client
	PD     pd.Client
}

// Harness says how a store is tested.
type Harness struct {
	// Open makes an empty store, which is closed when the test ends.
	Open func(t *testing.T) Target
	// Differs says why cases, by name, are left out.
	Differs map[string]string
}

// testCase is one statement about a store.
type testCase struct {
	name string
	run  func(t *testing.T, c *cluster)
}

// Run tests a store.
func Run(t *testing.T, h Harness) {
	known := make(map[string]bool)
	for _, group := range [][]testCase{
		readCases, prewriteCases, onePCCases, commitCases, pessimisticCases, waitCases, rollbackCases, statusCases, resolveCases,
		regionCases, adminCases, pdCases,
	} {
		for _, tc := range group {
			require.False(t, known[tc.name], "two cases are named %s", tc.name)
			known[tc.name] = true
			t.Run(tc.name, func(t *testing.T) {
				if why, ok := h.Differs[tc.name]; ok {
					t.Skip(why)
				}
				target := h.Open(t)
				tc.run(t, &cluster{t: t, client: target.Client, pd: target.PD})
			})
		}
	}
	for name := range h.Differs {
		require.True(t, known[name], "there is no case named %s", name)
	}
}

// cluster sends requests to the store under test.
type cluster struct {
	t      *testing.T
	client tikv.Client
	pd     pd.Client
}

// ts takes a timestamp.
func (c *cluster) ts() uint64 {
	physical, logical, err := c.pd.GetTS(context.Background())
	require.NoError(c.t, err)
	return oracle.ComposeTS(physical, logical)
}

// route returns the context of a request for a key.
func (c *cluster) route(key []byte) kvrpcpb.Context {
	region, err := c.pd.GetRegion(context.Background(), codec.EncodeBytes(nil, key))
	require.NoError(c.t, err)
	require.NotNil(c.t, region)
	return regionContext(region.Meta, region.Leader)
}

func regionContext(region *metapb.Region, peer *metapb.Peer) kvrpcpb.Context {
	return kvrpcpb.Context{RegionId: region.Id, RegionEpoch: region.RegionEpoch, Peer: peer}
}

// address is that of the first store.
func (c *cluster) address() string {
	stores, err := c.pd.GetAllStores(context.Background())
	require.NoError(c.t, err)
	require.NotEmpty(c.t, stores)
	return stores[0].Address
}

// send sends a request that has something to do with key and returns the answer.
func (c *cluster) send(cmd tikvrpc.CmdType, key []byte, req any) any {
	return c.sendContext(cmd, c.route(key), req)
}

func (c *cluster) sendContext(cmd tikvrpc.CmdType, rc kvrpcpb.Context, req any) any {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r := tikvrpc.NewRequest(cmd, req, rc)
	tikvrpc.AttachContext(r, rc)
	resp, err := c.client.SendRequest(ctx, c.address(), r, time.Minute)
	require.NoError(c.t, err)
	return resp.Resp
}

// call sends a request and checks that it was routed right.
func call[T interface{ GetRegionError() *errorpb.Error }](c *cluster, cmd tikvrpc.CmdType, key []byte, req any) T {
	resp, ok := c.send(cmd, key, req).(T)
	require.True(c.t, ok)
	require.Nil(c.t, resp.GetRegionError())
	return resp
}

func (c *cluster) get(key string, ts uint64) *kvrpcpb.GetResponse {
	return call[*kvrpcpb.GetResponse](c, tikvrpc.CmdGet, []byte(key), &kvrpcpb.GetRequest{Key: []byte(key), Version: ts})
}

// read returns the value of a key at ts, "" if there is none.
func (c *cluster) read(key string, ts uint64) string {
	resp := c.get(key, ts)
	require.Nil(c.t, resp.Error)
	return string(resp.Value)
}

func (c *cluster) scan(start, end string, ts uint64, change func(*kvrpcpb.ScanRequest)) *kvrpcpb.ScanResponse {
	req := &kvrpcpb.ScanRequest{StartKey: []byte(start), EndKey: []byte(end), Limit: 100, Version: ts}
	if change != nil {
		change(req)
	}
	return call[*kvrpcpb.ScanResponse](c, tikvrpc.CmdScan, []byte(start), req)
}

// pairs writes a scan's pairs as key=value.
func pairs(resp *kvrpcpb.ScanResponse) (out []string) {
	for _, p := range resp.Pairs {
		out = append(out, string(p.Key)+"="+string(p.Value))
	}
	return out
}

func put(key, value string) *kvrpcpb.Mutation {
	return &kvrpcpb.Mutation{Op: kvrpcpb.Op_Put, Key: []byte(key), Value: []byte(value)}
}

func insert(key, value string) *kvrpcpb.Mutation {
	return &kvrpcpb.Mutation{Op: kvrpcpb.Op_Insert, Key: []byte(key), Value: []byte(value)}
}

func del(key string) *kvrpcpb.Mutation {
	return &kvrpcpb.Mutation{Op: kvrpcpb.Op_Del, Key: []byte(key)}
}

func lockOnly(key string) *kvrpcpb.Mutation {
	return &kvrpcpb.Mutation{Op: kvrpcpb.Op_Lock, Key: []byte(key)}
}

func checkNotExists(key string) *kvrpcpb.Mutation {
	return &kvrpcpb.Mutation{Op: kvrpcpb.Op_CheckNotExists, Key: []byte(key)}
}

// asserting adds an assertion to a mutation.
func asserting(m *kvrpcpb.Mutation, a kvrpcpb.Assertion) *kvrpcpb.Mutation {
	m.Assertion = a
	return m
}

// prewrite sends a prewrite whose primary key is that of the first mutation.
func (c *cluster) prewrite(start uint64, change func(*kvrpcpb.PrewriteRequest), muts ...*kvrpcpb.Mutation) *kvrpcpb.PrewriteResponse {
	req := &kvrpcpb.PrewriteRequest{
		Mutations:    muts,
		PrimaryLock:  muts[0].Key,
		StartVersion: start,
		LockTtl:      lockTTL,
		TxnSize:      uint64(len(muts)),
		MinCommitTs:  start + 1,
	}
	if change != nil {
		change(req)
	}
	return call[*kvrpcpb.PrewriteResponse](c, tikvrpc.CmdPrewrite, muts[0].Key, req)
}

// mustPrewrite is prewrite that has to succeed.
func (c *cluster) mustPrewrite(start uint64, muts ...*kvrpcpb.Mutation) {
	require.Empty(c.t, c.prewrite(start, nil, muts...).Errors)
}

// refused returns the only error of a prewrite.
func refused(t *testing.T, resp *kvrpcpb.PrewriteResponse) *kvrpcpb.KeyError {
	require.Len(t, resp.Errors, 1)
	return resp.Errors[0]
}

func byteKeys(keys []string) (out [][]byte) {
	for _, k := range keys {
		out = append(out, []byte(k))
	}
	return out
}

func (c *cluster) commit(start, commitTS uint64, keys ...string) *kvrpcpb.CommitResponse {
	return call[*kvrpcpb.CommitResponse](c, tikvrpc.CmdCommit, []byte(keys[0]),
		&kvrpcpb.CommitRequest{StartVersion: start, Keys: byteKeys(keys), CommitVersion: commitTS})
}

func (c *cluster) mustCommit(start, commitTS uint64, keys ...string) {
	require.Nil(c.t, c.commit(start, commitTS, keys...).Error)
}

// write commits mutations in a transaction of their own and returns its commit timestamp.
func (c *cluster) write(muts ...*kvrpcpb.Mutation) uint64 {
	start := c.ts()
	c.mustPrewrite(start, muts...)
	commitTS := c.ts()
	for _, m := range muts {
		c.mustCommit(start, commitTS, string(m.Key))
	}
	return commitTS
}

func (c *cluster) lock(start, forUpdate uint64, change func(*kvrpcpb.PessimisticLockRequest), keys ...string) *kvrpcpb.PessimisticLockResponse {
	req := &kvrpcpb.PessimisticLockRequest{
		PrimaryLock:  []byte(keys[0]),
		StartVersion: start,
		ForUpdateTs:  forUpdate,
		LockTtl:      lockTTL,
		WaitTimeout:  -1,
		MinCommitTs:  forUpdate + 1,
	}
	for _, k := range keys {
		req.Mutations = append(req.Mutations, &kvrpcpb.Mutation{Op: kvrpcpb.Op_PessimisticLock, Key: []byte(k)})
	}
	if change != nil {
		change(req)
	}
	return call[*kvrpcpb.PessimisticLockResponse](c, tikvrpc.CmdPessimisticLock, []byte(keys[0]), req)
}

func (c *cluster) mustLock(start, forUpdate uint64, keys ...string) {
	require.Empty(c.t, c.lock(start, forUpdate, nil, keys...).Errors)
}

// pessimistic makes a prewrite one of a pessimistic transaction that has locked all its keys.
func pessimistic(forUpdate uint64) func(*kvrpcpb.PrewriteRequest) {
	return func(req *kvrpcpb.PrewriteRequest) {
		req.ForUpdateTs = forUpdate
		for range req.Mutations {
			req.PessimisticActions = append(req.PessimisticActions, kvrpcpb.PrewriteRequest_DO_PESSIMISTIC_CHECK)
		}
	}
}

func (c *cluster) rollback(start uint64, keys ...string) *kvrpcpb.BatchRollbackResponse {
	return call[*kvrpcpb.BatchRollbackResponse](c, tikvrpc.CmdBatchRollback, []byte(keys[0]),
		&kvrpcpb.BatchRollbackRequest{StartVersion: start, Keys: byteKeys(keys)})
}

func (c *cluster) pessimisticRollback(start, forUpdate uint64, keys ...string) {
	resp := call[*kvrpcpb.PessimisticRollbackResponse](c, tikvrpc.CmdPessimisticRollback, []byte(keys[0]),
		&kvrpcpb.PessimisticRollbackRequest{StartVersion: start, ForUpdateTs: forUpdate, Keys: byteKeys(keys)})
	require.Empty(c.t, resp.Errors)
}

func (c *cluster) status(primary string, lockTS uint64, change func(*kvrpcpb.CheckTxnStatusRequest)) *kvrpcpb.CheckTxnStatusResponse {
	req := &kvrpcpb.CheckTxnStatusRequest{PrimaryKey: []byte(primary), LockTs: lockTS, CurrentTs: c.ts(), VerifyIsPrimary: true}
	if change != nil {
		change(req)
	}
	return call[*kvrpcpb.CheckTxnStatusResponse](c, tikvrpc.CmdCheckTxnStatus, []byte(primary), req)
}

func (c *cluster) locks(maxVersion uint64) []*kvrpcpb.LockInfo {
	resp := call[*kvrpcpb.ScanLockResponse](c, tikvrpc.CmdScanLock, []byte("a"),
		&kvrpcpb.ScanLockRequest{MaxVersion: maxVersion, Limit: 100})
	require.Nil(c.t, resp.Error)
	return resp.Locks
}

func configItems(name, value string) []pd.GlobalConfigItem {
	return []pd.GlobalConfigItem{{Name: name, Value: value}}
}

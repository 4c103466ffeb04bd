package tikv

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	tikvconfig "github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/txnkv/txnlock"
	"github.com/tikv/client-go/v2/util"

	"fastddl/kv"
)

// dagRequest is what the requests of one scan have in common. It may be used concurrently.
type dagRequest struct {
	data []byte // the DAG
	ts   uint64
	// remember says that the store is asked for what CacheIfMatchVersion needs.
	remember bool
	// passed are transactions whose locks readers at ts ignore: they were rolled back, or commit above ts.
	passed util.TSSet
}

// regionAnswer is TiKV's answer about keys of one region.
type regionAnswer struct {
	*coprocessor.Response
	// part is the part of the key space that was read. It begins where the request begins.
	part kv.KeyRange
	// where is the region that has answered.
	where place
	// more says that the request asked for more of this region: the page is full.
	more bool
}

// visited is the number of records that TiKV's scan has returned to its coprocessor; ok says that the answer has it.
// TiKV counts them where it reads them, before they are decoded:
//
//   - ForwardScanner.read_next (src/storage/mvcc/reader/scanner/forward.rs) adds one to write.processed_keys for each key of
//     which it returns a version. It adds none for a key without a version at the timestamp: one that was deleted, that has
//     only newer versions, or only LOCK and ROLLBACK records. PointGetter.load_data (src/storage/mvcc/reader/point_getter.rs)
//     does the same.
//   - Nothing is read beyond a page: ScanExecutor.fill_column_vec (components/tidb_query_executors/src/util/scan_executor.rs)
//     asks for as many rows as a batch has. A page ends with a batch, all of whose rows are in the answer
//     (BatchExecutorsRunner.handle_request in components/tidb_query_executors/src/runner.rs).
//   - The answer has the sum over all ranges of the request (Tracker.exec_details in src/coprocessor/tracker.rs).
//   - It does not count a row that it takes from the lock of a committed transaction (handle_lock of LatestKvPolicy in
//     src/storage/mvcc/reader/scanner/forward.rs). It does so only for transactions that the request lists, and ours list
//     none: see pass.
//
// Common handles make no difference: the reader does not look into keys.
func (a *regionAnswer) visited() (n int64, ok bool) {
	detail := a.GetExecDetailsV2().GetScanDetailV2()
	return int64(detail.GetProcessedVersions()), detail != nil
}

// readRegion requests up to so many rows of the beginning of r, from the region of its start. It retries when the region
// has changed or is not reachable, and resolves the locks that it meets. It returns what TiKV has read, never an error of
// TiKV's as an answer.
func (s *Store) readRegion(ctx context.Context, req *dagRequest, r kv.KeyRange, rows int) (*regionAnswer, error) {
	bo := backoffer(ctx)
	for {
		region, asked, err := s.inFirstRegion(bo, r)
		if err != nil {
			return nil, err
		}
		resp, err := s.sendCop(bo, region, &coprocessor.Request{
			Tp: tidbkv.ReqTypeDAG, StartTs: req.ts, Data: req.data, Ranges: copRanges(asked), PagingSize: uint64(rows),
			IsCacheEnabled: req.remember,
		}, req.passed.GetAll())
		switch {
		case err != nil:
		case resp.RegionError != nil: // the cache does not have the region any more
			err = bo.Backoff(tikv.BoRegionMiss(), errors.New(resp.RegionError.String()))
		case resp.Locked != nil:
			err = s.pass(bo, req, resp.Locked)
		case resp.OtherError != "":
			err = fmt.Errorf("region %d: %s", region.GetID(), resp.OtherError)
		default:
			part, err := partRead(asked, resp.Range)
			if err != nil {
				return nil, fmt.Errorf("region %d: %w", region.GetID(), err)
			}
			more := bytes.Compare(part.End, asked.End) < 0
			return &regionAnswer{resp, part, s.placeOf(region), more}, s.cluster.CheckVisibility(req.ts)
		}
		if err != nil {
			return nil, err
		}
	}
}

// partRead returns the part of the asked range that an answer is of: all of it if the answer names no range, as TiKV does
// where it has read to the end (handle_request in components/tidb_query_executors/src/runner.rs). The next request begins
// where the part ends, so a part that is not the beginning of what was asked for is an error: rows would be lost or repeated.
func partRead(asked kv.KeyRange, read *coprocessor.KeyRange) (kv.KeyRange, error) {
	if read == nil {
		return asked, nil
	}
	part := kv.KeyRange{Start: read.Start, End: read.End}
	if !bytes.Equal(part.Start, asked.Start) || bytes.Compare(part.End, asked.Start) <= 0 || bytes.Compare(part.End, asked.End) > 0 {
		return part, fmt.Errorf("asked for %s, the answer is of %s", asked, part)
	}
	return part, nil
}

// inFirstRegion returns the region of the start of r, as the cache has it, and the part of r that lies in it.
func (s *Store) inFirstRegion(bo *tikv.Backoffer, r kv.KeyRange) (tikv.RegionVerID, kv.KeyRange, error) {
	loc, err := s.cluster.GetRegionCache().LocateKey(bo, r.Start)
	if err != nil {
		return tikv.RegionVerID{}, r, err
	}
	if len(loc.EndKey) > 0 && (r.End == nil || bytes.Compare(loc.EndKey, r.End) < 0) {
		r.End = loc.EndKey
	}
	return loc.Region, r, nil
}

// copRanges are the ranges by which the coprocessor is asked for r.
func copRanges(r kv.KeyRange) []*coprocessor.KeyRange {
	var ranges []*coprocessor.KeyRange
	for _, r := range noPoints(r) {
		ranges = append(ranges, &coprocessor.KeyRange{Start: r.StartKey, End: r.EndKey})
	}
	return ranges
}

// sendCop sends a request to the coprocessor of one region, which all its ranges lie in. Readers ignore the locks of the
// passed transactions. It does not use TiDB's coprocessor client, which returns neither CanBeCached nor Range. The answer may
// be an error of the region's, or a lock.
func (s *Store) sendCop(bo *tikv.Backoffer, region tikv.RegionVerID, cop *coprocessor.Request, passed []uint64) (*coprocessor.Response, error) {
	req := tikvrpc.NewRequest(tikvrpc.CmdCop, cop, kvrpcpb.Context{
		Priority: kvrpcpb.CommandPri_Low, NotFillCache: true, RequestSource: RequestSource(),
		RecordTimeStat: true, RecordScanStat: true, ResolvedLocks: passed,
		ResourceControlContext: &kvrpcpb.ResourceControlContext{ResourceGroupName: resourceGroup(bo.GetCtx())},
	})
	req.InputRequestSource = RequestSource() // client-go adds to it which replica was asked, as for TiDB's requests
	resp, err := s.cluster.SendReq(bo, req, region, tikvconfig.GetGlobalConfig().TiKVClient.CoprReqTimeout)
	if err != nil {
		return nil, err
	}
	answer, ok := resp.Resp.(*coprocessor.Response)
	if !ok || answer == nil {
		return nil, fmt.Errorf("answer %v of region %d", resp.Resp, region.GetID())
	}
	return answer, nil
}

// pass resolves a lock that a scan has met, or waits for its transaction. TiDB's client has the readers go on before the locks
// of a committed transaction are gone: it lists the transaction in CommittedLocks, and TiKV takes the row from the lock
// (handleLockErr in pkg/store/copr/coprocessor.go, ClientHelper.ResolveLocksWithOpts in txnkv/txnsnapshot/client_helper.go of
// client-go). TiKV does not count such a row, so here the scan waits until the lock is replaced by the record.
func (s *Store) pass(bo *tikv.Backoffer, req *dagRequest, met *kvrpcpb.LockInfo) error {
	opts := txnlock.ResolveLocksOptions{CallerStartTS: req.ts, Locks: []*txnlock.Lock{txnlock.NewLock(met)}, ForRead: true}
	resolver := s.cluster.GetLockResolver()
	result, err := resolver.ResolveLocksWithOpts(bo, opts)
	if err == nil && len(result.AccessLocks) > 0 {
		opts.ForRead = false
		result, err = resolver.ResolveLocksWithOpts(bo, opts)
	}
	if err != nil {
		return err
	}
	if len(result.IgnoreLocks) > 0 {
		req.passed.Put(result.IgnoreLocks...)
	}
	if result.TTL > 0 {
		return bo.BackoffWithMaxSleepTxnLockFast(int(result.TTL), errors.New(met.String()))
	}
	return nil
}

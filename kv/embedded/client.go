package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"go.uber.org/zap"
)

var errUnsupported = errors.New("embedded: the request is not supported by the embedded store")

// client implements client-go's Client by calls into the store in this process.
type client struct {
	service *service
	peers   peerClient
	closed  atomic.Bool
}

var _ tikv.Client = (*client)(nil)

// SendRequest implements tikv.Client. All addresses are the one store's, and no network can time out. Only requests to SQL
// servers, for the tables about the cluster, go over the network.
func (c *client) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (resp *tikvrpc.Response, err error) {
	if err := ctx.Err(); err != nil {
		return nil, finalError{err}
	}
	if c.closed.Load() {
		return nil, context.Canceled
	}
	if req.StoreTp == tikvrpc.TiDB {
		return c.peers.SendRequest(ctx, addr, req, timeout)
	}
	tikvrpc.AttachContext(req, req.Context)
	defer func() {
		if p := recover(); p != nil {
			c.service.log.Error("request panicked", zap.Stringer("type", req.Type), zap.Any("panic", p), zap.Stack("stack"))
			resp, err = panicked(req, p)
		}
	}()
	answer, err := c.service.dispatch(ctx, req)
	if err != nil {
		return nil, finalError{err}
	}
	return &tikvrpc.Response{Resp: answer}, nil
}

// finalError is an error that client-go neither retries nor takes for a failure of the store. An error whose cause is not
// context.Canceled makes it dial the store's address, which is only a name here; without an answer it refuses all requests of
// all sessions from then on. With that cause it gives up this request only, and still treats a commit's outcome as unknown.
// errors.Is finds the error inside.
type finalError struct{ err error }

func (e finalError) Error() string { return e.err.Error() }

// Cause implements the interface that github.com/pkg/errors looks for.
func (e finalError) Cause() error { return context.Canceled }

// Unwrap implements errors.Unwrap.
func (e finalError) Unwrap() error { return e.err }

// finalClient makes the errors of a client final, but for those of other SQL servers.
type finalClient struct{ tikv.Client }

// SendRequest implements tikv.Client.
func (c finalClient) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	resp, err := c.Client.SendRequest(ctx, addr, req, timeout)
	if err != nil && req.StoreTp != tikvrpc.TiDB {
		return nil, finalError{err}
	}
	return resp, err
}

// Close implements tikv.Client. Requests that are under way go on.
func (c *client) Close() error {
	c.closed.Store(true)
	return c.peers.Close()
}

// CloseAddr implements tikv.Client: there is no connection.
func (c *client) CloseAddr(string) error { return nil }

// SetEventListener implements tikv.Client: the store's health does not change behind the client's back.
func (c *client) SetEventListener(tikv.ClientEventListener) {}

// dispatch answers one request.
func (s *service) dispatch(ctx context.Context, req *tikvrpc.Request) (any, error) {
	switch r := req.Req.(type) {
	case *kvrpcpb.GetRequest:
		return s.KvGet(ctx, r)
	case *coprocessor.Request:
		if req.Type == tikvrpc.CmdCop {
			return s.Coprocessor(ctx, r)
		}
	case *kvrpcpb.BatchGetRequest:
		return s.KvBatchGet(ctx, r)
	case *kvrpcpb.ScanRequest:
		return s.KvScan(ctx, r)
	case *kvrpcpb.PrewriteRequest:
		return s.KvPrewrite(ctx, r)
	case *kvrpcpb.CommitRequest:
		return s.KvCommit(ctx, r)
	case *kvrpcpb.PessimisticLockRequest:
		return s.KvPessimisticLock(ctx, r)
	case *kvrpcpb.PessimisticRollbackRequest:
		return s.KVPessimisticRollback(ctx, r)
	case *kvrpcpb.BatchRollbackRequest:
		return s.KvBatchRollback(ctx, r)
	case *kvrpcpb.TxnHeartBeatRequest:
		return s.KvTxnHeartBeat(ctx, r)
	}
	return s.dispatchRare(ctx, req)
}

// dispatchRare answers the requests that statements do not make.
func (s *service) dispatchRare(ctx context.Context, req *tikvrpc.Request) (any, error) {
	switch r := req.Req.(type) {
	case *kvrpcpb.CheckTxnStatusRequest:
		return s.KvCheckTxnStatus(ctx, r)
	case *kvrpcpb.CheckSecondaryLocksRequest:
		return s.KvCheckSecondaryLocks(ctx, r)
	case *kvrpcpb.ResolveLockRequest:
		return s.KvResolveLock(ctx, r)
	case *kvrpcpb.CleanupRequest:
		return s.KvCleanup(ctx, r)
	case *kvrpcpb.ScanLockRequest:
		return s.KvScanLock(ctx, r)
	case *kvrpcpb.MvccGetByKeyRequest:
		return s.MvccGetByKey(ctx, r)
	case *kvrpcpb.MvccGetByStartTsRequest:
		return s.MvccGetByStartTs(ctx, r)
	case *kvrpcpb.SplitRegionRequest:
		return s.SplitRegion(ctx, r)
	case *kvrpcpb.GCRequest:
		return s.KvGC(ctx, r)
	case *kvrpcpb.DeleteRangeRequest:
		return s.KvDeleteRange(ctx, r)
	case *kvrpcpb.UnsafeDestroyRangeRequest:
		return s.UnsafeDestroyRange(ctx, r)
	case *kvrpcpb.StoreSafeTSRequest:
		return s.GetStoreSafeTS(ctx, r)
	case *kvrpcpb.GetLockWaitInfoRequest:
		return s.GetLockWaitInfo(ctx, r)
	case *kvrpcpb.GetHealthFeedbackRequest:
		return s.GetHealthFeedback(ctx, r)
	case *kvrpcpb.BroadcastTxnStatusRequest:
		return s.BroadcastTxnStatus(ctx, r)
	case *kvrpcpb.FlushRequest:
		return s.KvFlush(ctx, r)
	case *kvrpcpb.BufferBatchGetRequest:
		return s.KvBufferBatchGet(ctx, r)
	case *kvrpcpb.PrepareFlashbackToVersionRequest:
		return s.KvPrepareFlashbackToVersion(ctx, r)
	case *kvrpcpb.FlashbackToVersionRequest:
		return s.KvFlashbackToVersion(ctx, r)
	}
	return nil, fmt.Errorf("%w: %s", errUnsupported, req.Type)
}

// panicked returns the response to a request that has panicked.
func panicked(req *tikvrpc.Request, p any) (*tikvrpc.Response, error) {
	message := fmt.Sprintf("the request panicked: %v", p)
	keyErr := &kvrpcpb.KeyError{Abort: message}
	var answer any
	switch req.Req.(type) {
	case *kvrpcpb.GetRequest:
		answer = &kvrpcpb.GetResponse{Error: keyErr}
	case *kvrpcpb.BatchGetRequest:
		answer = &kvrpcpb.BatchGetResponse{Error: keyErr}
	case *kvrpcpb.ScanRequest:
		answer = &kvrpcpb.ScanResponse{Error: keyErr}
	case *coprocessor.Request:
		answer = &coprocessor.Response{OtherError: message}
	case *kvrpcpb.PessimisticLockRequest:
		answer = &kvrpcpb.PessimisticLockResponse{Errors: []*kvrpcpb.KeyError{keyErr}}
	case *kvrpcpb.CheckTxnStatusRequest:
		answer = &kvrpcpb.CheckTxnStatusResponse{Error: keyErr}
	default:
		// How far it got is unknown, so the client gets an error, not a response.
		return nil, finalError{errors.New("embedded: " + message)}
	}
	return &tikvrpc.Response{Resp: answer}, nil
}

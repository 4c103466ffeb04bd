package embedded

import (
	"context"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"fastddl/kv/embedded/txn"
)

// KvPrewrite implements tikvpb.TikvServer.
func (s *service) KvPrewrite(ctx context.Context, req *kvrpcpb.PrewriteRequest) (*kvrpcpb.PrewriteResponse, error) {
	if regionErr := s.routeMutations(req.Context, req.Mutations); regionErr != nil {
		return &kvrpcpb.PrewriteResponse{RegionError: regionErr}, nil
	}
	if keyErr := checkMutations(req.Mutations); keyErr != nil {
		return &kvrpcpb.PrewriteResponse{Errors: []*kvrpcpb.KeyError{keyErr}}, nil
	}
	if err := s.admit(req); err != nil {
		return &kvrpcpb.PrewriteResponse{Errors: []*kvrpcpb.KeyError{{Abort: err.Error()}}}, nil
	}
	resp, err := s.engine.Prewrite(ctx, req)
	if err != nil {
		resp = &kvrpcpb.PrewriteResponse{}
		resp.Errors, err = errorList(err)
	}
	return resp, err
}

// KvCommit implements tikvpb.TikvServer.
func (s *service) KvCommit(ctx context.Context, req *kvrpcpb.CommitRequest) (*kvrpcpb.CommitResponse, error) {
	if regionErr := s.route(req.Context, req.Keys...); regionErr != nil {
		return &kvrpcpb.CommitResponse{RegionError: regionErr}, nil
	}
	resp, err := s.engine.Commit(ctx, req)
	if err != nil {
		resp = &kvrpcpb.CommitResponse{}
		resp.Error, err = failure(err)
	}
	return resp, err
}

// KvPessimisticLock implements tikvpb.TikvServer.
func (s *service) KvPessimisticLock(ctx context.Context, req *kvrpcpb.PessimisticLockRequest) (*kvrpcpb.PessimisticLockResponse, error) {
	if regionErr := s.routeMutations(req.Context, req.Mutations); regionErr != nil {
		return &kvrpcpb.PessimisticLockResponse{RegionError: regionErr}, nil
	}
	if keyErr := checkMutations(req.Mutations); keyErr != nil {
		return &kvrpcpb.PessimisticLockResponse{Errors: []*kvrpcpb.KeyError{keyErr}}, nil
	}
	resp, err := s.engine.PessimisticLock(ctx, req)
	if err != nil {
		resp = &kvrpcpb.PessimisticLockResponse{}
		resp.Errors, err = errorList(err)
	}
	return resp, err
}

// KVPessimisticRollback implements tikvpb.TikvServer.
func (s *service) KVPessimisticRollback(ctx context.Context, req *kvrpcpb.PessimisticRollbackRequest) (*kvrpcpb.PessimisticRollbackResponse, error) {
	if regionErr := s.route(req.Context, req.Keys...); regionErr != nil {
		return &kvrpcpb.PessimisticRollbackResponse{RegionError: regionErr}, nil
	}
	return s.engine.PessimisticRollback(ctx, req)
}

// KvBatchRollback implements tikvpb.TikvServer.
func (s *service) KvBatchRollback(ctx context.Context, req *kvrpcpb.BatchRollbackRequest) (*kvrpcpb.BatchRollbackResponse, error) {
	if regionErr := s.route(req.Context, req.Keys...); regionErr != nil {
		return &kvrpcpb.BatchRollbackResponse{RegionError: regionErr}, nil
	}
	resp, err := s.engine.BatchRollback(ctx, req)
	if err != nil {
		resp = &kvrpcpb.BatchRollbackResponse{}
		resp.Error, err = failure(err)
	}
	return resp, err
}

// KvCleanup implements tikvpb.TikvServer.
func (s *service) KvCleanup(ctx context.Context, req *kvrpcpb.CleanupRequest) (*kvrpcpb.CleanupResponse, error) {
	if regionErr := s.route(req.Context, req.Key); regionErr != nil {
		return &kvrpcpb.CleanupResponse{RegionError: regionErr}, nil
	}
	resp, err := s.engine.Cleanup(ctx, req)
	if err != nil {
		resp = &kvrpcpb.CleanupResponse{}
		resp.Error, err = failure(err)
	}
	return resp, err
}

// KvTxnHeartBeat implements tikvpb.TikvServer.
func (s *service) KvTxnHeartBeat(ctx context.Context, req *kvrpcpb.TxnHeartBeatRequest) (*kvrpcpb.TxnHeartBeatResponse, error) {
	if regionErr := s.route(req.Context, req.PrimaryLock); regionErr != nil {
		return &kvrpcpb.TxnHeartBeatResponse{RegionError: regionErr}, nil
	}
	return s.engine.HeartBeat(ctx, req)
}

// KvCheckTxnStatus implements tikvpb.TikvServer.
func (s *service) KvCheckTxnStatus(ctx context.Context, req *kvrpcpb.CheckTxnStatusRequest) (*kvrpcpb.CheckTxnStatusResponse, error) {
	if regionErr := s.route(req.Context, req.PrimaryKey); regionErr != nil {
		return &kvrpcpb.CheckTxnStatusResponse{RegionError: regionErr}, nil
	}
	resp, err := s.engine.CheckTxnStatus(ctx, req)
	if err != nil {
		resp = &kvrpcpb.CheckTxnStatusResponse{}
		resp.Error, err = failure(err)
	}
	return resp, err
}

// KvCheckSecondaryLocks implements tikvpb.TikvServer.
func (s *service) KvCheckSecondaryLocks(ctx context.Context, req *kvrpcpb.CheckSecondaryLocksRequest) (*kvrpcpb.CheckSecondaryLocksResponse, error) {
	if regionErr := s.route(req.Context, req.Keys...); regionErr != nil {
		return &kvrpcpb.CheckSecondaryLocksResponse{RegionError: regionErr}, nil
	}
	resp, err := s.engine.CheckSecondaryLocks(ctx, req)
	if err != nil {
		resp = &kvrpcpb.CheckSecondaryLocksResponse{}
		resp.Error, err = failure(err)
	}
	return resp, err
}

// KvResolveLock implements tikvpb.TikvServer.
func (s *service) KvResolveLock(ctx context.Context, req *kvrpcpb.ResolveLockRequest) (*kvrpcpb.ResolveLockResponse, error) {
	if regionErr := s.route(req.Context, req.Keys...); regionErr != nil {
		return &kvrpcpb.ResolveLockResponse{RegionError: regionErr}, nil
	}
	resp, err := s.engine.ResolveLock(ctx, req)
	if err != nil {
		resp = &kvrpcpb.ResolveLockResponse{}
		resp.Error, err = failure(err)
	}
	return resp, err
}

// pipelinedUnsupported is the answer to requests of pipelined transactions, whose writes would have to be stored before
// they commit.
const pipelinedUnsupported = "pipelined DML (tidb_dml_type = 'bulk') is not supported by the embedded store"

// KvFlush implements tikvpb.TikvServer: pipelined transactions are not supported.
func (s *service) KvFlush(context.Context, *kvrpcpb.FlushRequest) (*kvrpcpb.FlushResponse, error) {
	return &kvrpcpb.FlushResponse{Errors: []*kvrpcpb.KeyError{{Abort: pipelinedUnsupported}}}, nil
}

// KvBufferBatchGet implements tikvpb.TikvServer: pipelined transactions are not supported.
func (s *service) KvBufferBatchGet(context.Context, *kvrpcpb.BufferBatchGetRequest) (*kvrpcpb.BufferBatchGetResponse, error) {
	return &kvrpcpb.BufferBatchGetResponse{Error: &kvrpcpb.KeyError{Abort: pipelinedUnsupported}}, nil
}

// BroadcastTxnStatus implements tikvpb.TikvServer. It matters to large transactions' readers only, which do not need it
// here.
func (s *service) BroadcastTxnStatus(context.Context, *kvrpcpb.BroadcastTxnStatusRequest) (*kvrpcpb.BroadcastTxnStatusResponse, error) {
	return &kvrpcpb.BroadcastTxnStatusResponse{}, nil
}

// GetLockWaitInfo implements tikvpb.TikvServer.
func (s *service) GetLockWaitInfo(context.Context, *kvrpcpb.GetLockWaitInfoRequest) (*kvrpcpb.GetLockWaitInfoResponse, error) {
	return &kvrpcpb.GetLockWaitInfoResponse{Entries: s.engine.LockWaits()}, nil
}

// admit refuses writes that there is no room for before anything is promised: later, when its primary key commits, a
// transaction would have to fail.
func (s *service) admit(req *kvrpcpb.PrewriteRequest) error {
	if txn.Essential(req.Context) {
		return nil
	}
	size := 0
	for _, m := range req.Mutations {
		size += len(m.Key) + len(m.Value)
	}
	return s.store.Admit(func(yield func(key, value []byte) bool) {
		for _, m := range req.Mutations {
			if !yield(m.Key, m.Value) {
				return
			}
		}
	}, size)
}

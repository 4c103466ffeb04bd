package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/pingcap/kvproto/pkg/tikvpb"
	"go.uber.org/zap"
)

// BatchCommands implements tikvpb.TikvServer: requests come in batches over one stream, and each is answered on its own,
// in the order in which they end.
func (s *service) BatchCommands(stream tikvpb.Tikv_BatchCommandsServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	out := &batchSender{stream: stream}
	batches, ended := make(chan *tikvpb.BatchCommandsRequest), make(chan error, 1)
	// The stream is received from until this method returns, and it does when a request could not be answered: those that
	// come later on the stream would not be either, and their client would wait.
	go func() {
		for {
			batch, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case batches <- batch:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		var batch *tikvpb.BatchCommandsRequest
		select {
		case batch = <-batches:
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-ctx.Done():
			return errors.New("embedded: a request could not be answered")
		}
		if len(batch.RequestIds) != len(batch.Requests) {
			return fmt.Errorf("embedded: a batch has %d requests and %d IDs", len(batch.Requests), len(batch.RequestIds))
		}
		for i, req := range batch.Requests {
			id := batch.RequestIds[i]
			running.Go(func() { s.answer(ctx, id, req, out, cancel) })
		}
	}
}

// answer answers one request of a batch. What cannot be answered ends the stream, like a lost connection.
func (s *service) answer(ctx context.Context, id uint64, req *tikvpb.BatchCommandsRequest_Request, out *batchSender, fail func()) {
	resp, err := s.batchCommand(ctx, req)
	if err == nil {
		err = out.send(id, resp)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("a request over gRPC could not be answered", zap.Error(err))
		}
		fail()
	}
}

// batchSender sends answers one at a time, as a stream requires.
type batchSender struct {
	mu     sync.Mutex
	stream tikvpb.Tikv_BatchCommandsServer
}

func (b *batchSender) send(id uint64, resp *tikvpb.BatchCommandsResponse_Response) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stream.Send(&tikvpb.BatchCommandsResponse{
		RequestIds: []uint64{id},
		Responses:  []*tikvpb.BatchCommandsResponse_Response{resp},
	})
}

// batchCommand answers one request of a batch.
func (s *service) batchCommand(ctx context.Context, req *tikvpb.BatchCommandsRequest_Request) (
	_ *tikvpb.BatchCommandsResponse_Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("embedded: the request panicked: %v", p)
		}
	}()
	for _, answer := range []func(context.Context, *tikvpb.BatchCommandsRequest_Request) (*tikvpb.BatchCommandsResponse_Response, error){
		s.batchRead, s.batchWrite, s.batchResolve, s.batchOther,
	} {
		if resp, err := answer(ctx, req); resp != nil || err != nil {
			return resp, err
		}
	}
	return nil, fmt.Errorf("embedded: the request is not supported by the embedded store: %T in a batch", req.Cmd)
}

// batchRead answers requests that read; nil for others.
func (s *service) batchRead(ctx context.Context, req *tikvpb.BatchCommandsRequest_Request) (*tikvpb.BatchCommandsResponse_Response, error) {
	out := &tikvpb.BatchCommandsResponse_Response{}
	switch c := req.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_Get:
		resp, err := s.KvGet(ctx, c.Get)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_Get{Get: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_BatchGet:
		resp, err := s.KvBatchGet(ctx, c.BatchGet)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_BatchGet{BatchGet: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_Scan:
		resp, err := s.KvScan(ctx, c.Scan)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_Scan{Scan: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_Coprocessor:
		resp, err := s.Coprocessor(ctx, c.Coprocessor)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_Coprocessor{Coprocessor: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_ScanLock:
		resp, err := s.KvScanLock(ctx, c.ScanLock)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_ScanLock{ScanLock: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_BufferBatchGet:
		resp, err := s.KvBufferBatchGet(ctx, c.BufferBatchGet)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_BufferBatchGet{BufferBatchGet: resp}
		return out, err
	}
	return nil, nil
}

// batchWrite answers requests of transactions at work; nil for others.
func (s *service) batchWrite(ctx context.Context, req *tikvpb.BatchCommandsRequest_Request) (*tikvpb.BatchCommandsResponse_Response, error) {
	out := &tikvpb.BatchCommandsResponse_Response{}
	switch c := req.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_Prewrite:
		resp, err := s.KvPrewrite(ctx, c.Prewrite)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_Prewrite{Prewrite: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_Commit:
		resp, err := s.KvCommit(ctx, c.Commit)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_Commit{Commit: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_PessimisticLock:
		resp, err := s.KvPessimisticLock(ctx, c.PessimisticLock)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_PessimisticLock{PessimisticLock: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_PessimisticRollback:
		resp, err := s.KVPessimisticRollback(ctx, c.PessimisticRollback)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_PessimisticRollback{PessimisticRollback: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_BatchRollback:
		resp, err := s.KvBatchRollback(ctx, c.BatchRollback)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_BatchRollback{BatchRollback: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_TxnHeartBeat:
		resp, err := s.KvTxnHeartBeat(ctx, c.TxnHeartBeat)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_TxnHeartBeat{TxnHeartBeat: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_Flush:
		resp, err := s.KvFlush(ctx, c.Flush)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_Flush{Flush: resp}
		return out, err
	}
	return nil, nil
}

// batchResolve answers requests about the transactions of others; nil for others.
func (s *service) batchResolve(ctx context.Context, req *tikvpb.BatchCommandsRequest_Request) (*tikvpb.BatchCommandsResponse_Response, error) {
	out := &tikvpb.BatchCommandsResponse_Response{}
	switch c := req.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_CheckTxnStatus:
		resp, err := s.KvCheckTxnStatus(ctx, c.CheckTxnStatus)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_CheckTxnStatus{CheckTxnStatus: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_CheckSecondaryLocks:
		resp, err := s.KvCheckSecondaryLocks(ctx, c.CheckSecondaryLocks)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_CheckSecondaryLocks{CheckSecondaryLocks: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_ResolveLock:
		resp, err := s.KvResolveLock(ctx, c.ResolveLock)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_ResolveLock{ResolveLock: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_Cleanup:
		resp, err := s.KvCleanup(ctx, c.Cleanup)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_Cleanup{Cleanup: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_BroadcastTxnStatus:
		resp, err := s.BroadcastTxnStatus(ctx, c.BroadcastTxnStatus)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_BroadcastTxnStatus{BroadcastTxnStatus: resp}
		return out, err
	}
	return nil, nil
}

// batchOther answers the rest; nil for what it does not know.
func (s *service) batchOther(ctx context.Context, req *tikvpb.BatchCommandsRequest_Request) (*tikvpb.BatchCommandsResponse_Response, error) {
	out := &tikvpb.BatchCommandsResponse_Response{}
	switch c := req.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_GC:
		resp, err := s.KvGC(ctx, c.GC)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_GC{GC: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_DeleteRange:
		resp, err := s.KvDeleteRange(ctx, c.DeleteRange)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_DeleteRange{DeleteRange: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_GetHealthFeedback:
		resp, err := s.GetHealthFeedback(ctx, c.GetHealthFeedback)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_GetHealthFeedback{GetHealthFeedback: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_PrepareFlashbackToVersion:
		resp, err := s.KvPrepareFlashbackToVersion(ctx, c.PrepareFlashbackToVersion)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_PrepareFlashbackToVersion{PrepareFlashbackToVersion: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_FlashbackToVersion:
		resp, err := s.KvFlashbackToVersion(ctx, c.FlashbackToVersion)
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_FlashbackToVersion{FlashbackToVersion: resp}
		return out, err
	case *tikvpb.BatchCommandsRequest_Request_Empty:
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_Empty{
			Empty: &tikvpb.BatchCommandsEmptyResponse{TestId: c.Empty.GetTestId()},
		}
		return out, nil
	}
	return nil, nil
}

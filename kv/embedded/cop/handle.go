package cop

import (
	"context"
	"errors"
	"fmt"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/log"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"go.uber.org/zap"
)

// HandlePage answers one coprocessor request over the snapshot that r reads. It never returns nil: what goes wrong is in the
// response as TiKV puts it there. A request that ctx ends early answers OtherError.
//
// The request's region, and the tasks that came with it (see HandleBatch), are the caller's.
func HandlePage(ctx context.Context, r Reader, req *coprocessor.Request, page Page) (resp *coprocessor.Response) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("coprocessor request panicked", zap.Int64("type", req.GetTp()), zap.Any("panic", p), zap.Stack("stack"))
			resp = failed(fmt.Errorf("coprocessor request panicked: %v", p))
		}
	}()
	switch req.GetTp() {
	case tidbkv.ReqTypeDAG:
		return handleDAG(ctx, r, req, page)
	case tidbkv.ReqTypeAnalyze:
		return handleAnalyze(ctx, r, req, page)
	case tidbkv.ReqTypeChecksum:
		return handleChecksum(ctx, r, req)
	}
	return failed(fmt.Errorf("coprocessor request type %d is not supported", req.GetTp()))
}

// failed returns the response to a request that could not be answered.
func failed(err error) *coprocessor.Response {
	var locked *LockedError
	if errors.As(err, &locked) {
		return &coprocessor.Response{Locked: locked.Info}
	}
	return &coprocessor.Response{OtherError: err.Error()}
}

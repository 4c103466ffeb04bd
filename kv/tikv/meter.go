package tikv

import (
	"context"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/tikvrpc/interceptor"

	"fastddl/kv"
)

// meterName tells client-go's contexts our interceptor from those of others; of one name they have only the last.
const meterName = "fastddl-meter"

// Metered implements kv.Metered. The requests that client-go sends are counted where it sends them, so that no way around
// is left: those of TiDB's coprocessor client, of transactions' locks, and of splits are among them. Importers count their own.
func (s *Store) Metered(ctx context.Context) context.Context {
	if m := kv.MeterOf(ctx); m != nil {
		ctx = interceptor.WithRPCInterceptor(ctx, meter(m))
	}
	return ctx
}

// meter counts requests.
func meter(m *kv.Meter) interceptor.RPCInterceptor {
	return interceptor.NewRPCInterceptor(meterName, func(next interceptor.RPCInterceptorFunc) interceptor.RPCInterceptorFunc {
		return func(target string, req *tikvrpc.Request) (*tikvrpc.Response, error) {
			resp, err := next(target, req)
			var answer any
			if err == nil && resp != nil {
				answer = resp.Resp
			}
			m.Add(kv.Costs{
				Requests: asked(req), SentBytes: sizeOf(req.Req), ReceivedBytes: sizeOf(answer), StoreTime: storeTimeOf(answer),
			})
			return resp, err
		}
	})
}

// asked is one request, as what it asks for.
func asked(req *tikvrpc.Request) (n kv.Requests) {
	switch req.Type {
	case tikvrpc.CmdCop:
		if cop, ok := req.Req.(*coprocessor.Request); ok && cop.Tp == tidbkv.ReqTypeChecksum {
			n.Sums = 1
		} else {
			n.Rows = 1
		}
	case tikvrpc.CmdGet, tikvrpc.CmdBatchGet, tikvrpc.CmdScan, tikvrpc.CmdMvccGetByKey:
		n.Keys = 1
	case tikvrpc.CmdPrewrite, tikvrpc.CmdCommit, tikvrpc.CmdPessimisticLock, tikvrpc.CmdPessimisticRollback, tikvrpc.CmdBatchRollback,
		tikvrpc.CmdCleanup, tikvrpc.CmdScanLock, tikvrpc.CmdResolveLock, tikvrpc.CmdCheckTxnStatus, tikvrpc.CmdCheckSecondaryLocks,
		tikvrpc.CmdTxnHeartBeat:
		n.Writes = 1
	case tikvrpc.CmdSplitRegion:
		n.Splits = 1
	default:
		n.Others = 1
	}
	return n
}

// sizeOf is the size of a message, 0 if there is none.
func sizeOf(message any) int64 {
	if m, ok := message.(interface{ Size() int }); ok {
		return int64(m.Size())
	}
	return 0
}

// storeTimeOf is how long the store has worked at an answer, 0 if it does not say so. Resource groups take it for the CPU
// time, too (MakeResponseInfo in internal/resourcecontrol of client-go).
func storeTimeOf(answer any) time.Duration {
	detailed, ok := answer.(interface {
		GetExecDetailsV2() *kvrpcpb.ExecDetailsV2
	})
	if !ok {
		return 0
	}
	detail := detailed.GetExecDetailsV2()
	if ns := detail.GetTimeDetailV2().GetProcessWallTimeNs(); ns > 0 {
		return time.Duration(ns)
	}
	return time.Duration(detail.GetTimeDetail().GetProcessWallTimeMs()) * time.Millisecond
}

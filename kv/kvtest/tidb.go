package kvtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"

	"fastddl/kv"
)

// TiDBCommit is a Harness.Commit by transactions of TiDB's.
func TiDBCommit(storageOf func(kv.Store) tidbkv.Storage) func(context.Context, kv.Store, map[string]string) (uint64, error) {
	return func(ctx context.Context, s kv.Store, pairs map[string]string) (uint64, error) {
		for {
			ts, err := commitOnce(ctx, storageOf(s), pairs)
			if err == nil || !tidbkv.IsTxnRetryableError(err) {
				return ts, err
			}
		}
	}
}

func commitOnce(ctx context.Context, storage tidbkv.Storage, pairs map[string]string) (uint64, error) {
	txn, err := storage.Begin()
	if err != nil {
		return 0, err
	}
	for k, v := range pairs {
		if v == "" {
			err = txn.Delete([]byte(k))
		} else {
			err = txn.Set([]byte(k), []byte(v))
		}
		if err != nil {
			return 0, errors.Join(err, txn.Rollback())
		}
	}
	var info struct {
		CommitTS uint64 `json:"commit_ts"`
	}
	txn.SetOption(tidbkv.CommitHook, func(text string, _ error) { err = json.Unmarshal([]byte(text), &info) })
	if err := txn.Commit(ctx); err != nil {
		return 0, err
	}
	return info.CommitTS, err
}

// tikvStorage is what storages over client-go have besides.
type tikvStorage interface {
	GetRegionCache() *tikv.RegionCache
	GetOracle() oracle.Oracle
	SendReq(bo *tikv.Backoffer, req *tikvrpc.Request, region tikv.RegionVerID, timeout time.Duration) (*tikvrpc.Response, error)
}

// TiDBStart is a Harness.Start for TiKV: it prewrites pairs, all in one region, and takes
// the commit timestamp. What it returns commits, with a later timestamp if a reader has
// not waited.
func TiDBStart(storageOf func(kv.Store) tidbkv.Storage) func(context.Context, kv.Store, map[string]string) (uint64, func() error, error) {
	return func(ctx context.Context, s kv.Store, pairs map[string]string) (uint64, func() error, error) {
		storage, ok := storageOf(s).(tikvStorage)
		if !ok {
			return 0, nil, errors.New("kvtest: not a storage over TiKV")
		}
		c := &prewritten{storage: storage}
		if err := c.prewrite(ctx, pairs); err != nil {
			return 0, nil, err
		}
		at, err := c.now(ctx)
		return at, func() error { return c.commit(ctx, at) }, err
	}
}

// prewritten is a transaction that is prewritten.
type prewritten struct {
	storage tikvStorage
	begin   uint64
	keys    [][]byte
}

const (
	prewriteTTL = 60_000 // milliseconds
	callTimeout = time.Minute
	maxBackoff  = 60_000 // milliseconds
)

func (c *prewritten) now(ctx context.Context) (uint64, error) {
	return c.storage.GetOracle().GetTimestamp(ctx, &oracle.Option{TxnScope: oracle.GlobalTxnScope})
}

func (c *prewritten) prewrite(ctx context.Context, pairs map[string]string) (err error) {
	if c.begin, err = c.now(ctx); err != nil {
		return err
	}
	req := &kvrpcpb.PrewriteRequest{StartVersion: c.begin, LockTtl: prewriteTTL, TxnSize: uint64(len(pairs))}
	for k, v := range pairs {
		m := &kvrpcpb.Mutation{Op: kvrpcpb.Op_Put, Key: []byte(k), Value: []byte(v)}
		if v == "" {
			m.Op = kvrpcpb.Op_Del
		}
		req.Mutations, c.keys = append(req.Mutations, m), append(c.keys, m.Key)
	}
	req.PrimaryLock = c.keys[0]
	resp, err := c.send(ctx, tikvrpc.CmdPrewrite, req)
	if err != nil {
		return err
	}
	if answer := resp.(*kvrpcpb.PrewriteResponse); len(answer.Errors) > 0 {
		return fmt.Errorf("prewrite: %v", answer.Errors)
	}
	return nil
}

func (c *prewritten) commit(ctx context.Context, at uint64) error {
	for {
		resp, err := c.send(ctx, tikvrpc.CmdCommit, &kvrpcpb.CommitRequest{StartVersion: c.begin, Keys: c.keys, CommitVersion: at})
		if err != nil {
			return err
		}
		switch e := resp.(*kvrpcpb.CommitResponse).Error; {
		case e == nil:
			return nil
		case e.CommitTsExpired == nil:
			return fmt.Errorf("commit: %v", e)
		}
		if at, err = c.now(ctx); err != nil {
			return err
		}
	}
}

func (c *prewritten) send(ctx context.Context, tp tikvrpc.CmdType, req any) (any, error) {
	bo := tikv.NewBackofferWithVars(ctx, maxBackoff, nil)
	for {
		region, err := c.storage.GetRegionCache().LocateKey(bo, c.keys[0])
		if err != nil {
			return nil, err
		}
		resp, err := c.storage.SendReq(bo, tikvrpc.NewRequest(tp, req), region.Region, callTimeout)
		if err != nil {
			return nil, err
		}
		regionErr, err := resp.GetRegionError()
		if err != nil {
			return nil, err
		}
		if regionErr == nil {
			return resp.Resp, nil
		}
		if err := bo.Backoff(tikv.BoRegionMiss(), errors.New(regionErr.String())); err != nil {
			return nil, err
		}
	}
}

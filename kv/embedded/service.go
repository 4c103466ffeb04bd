package embedded

import (
	"context"
	"errors"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"go.uber.org/zap"

	"fastddl/kv"
	"fastddl/kv/embedded/placement"
	"fastddl/kv/embedded/txn"
	"fastddl/kv/pebblekv"
)

// reservedPrefix begins the keys that are the store's own.
const reservedPrefix = 0xff

// service answers TiKV's requests. Each method is one of tikvpb.TikvServer's.
type service struct {
	store   *pebblekv.Store
	engine  *txn.Engine
	regions *placement.Regions
	pd      *placement.Client
	answers *answers
	log     *zap.Logger

	// analyses ends with endAnalyses, and statistics are made no longer then.
	analyses    context.Context
	endAnalyses context.CancelFunc
}

// Service is the service as others see it, who serve it on a network.
type Service = service

// analyzing returns ctx for a request that makes statistics, and what ends it.
func (s *service) analyzing(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.analyses, cancel)
	if s.analyses.Err() != nil { // AfterFunc ends it a moment later
		cancel()
	}
	return ctx, func() { stop(); cancel() }
}

// route checks that a request's context names a region as it is, and that the keys are in it.
func (s *service) route(rc *kvrpcpb.Context, keys ...[]byte) *errorpb.Error {
	region, regionErr := s.regions.Check(rc)
	for i := 0; i < len(keys) && regionErr == nil; i++ {
		regionErr = region.Contains(keys[i])
	}
	return regionErr
}

// routeMutations is route for the keys of mutations.
func (s *service) routeMutations(rc *kvrpcpb.Context, muts []*kvrpcpb.Mutation) *errorpb.Error {
	region, regionErr := s.regions.Check(rc)
	for i := 0; i < len(muts) && regionErr == nil; i++ {
		regionErr = region.Contains(muts[i].Key)
	}
	return regionErr
}

// checkKey refuses keys that are the store's own.
func checkKey(key []byte) *kvrpcpb.KeyError {
	if len(key) > 0 && key[0] == reservedPrefix {
		return &kvrpcpb.KeyError{Abort: "keys that begin with 0xff are reserved"}
	}
	return nil
}

func checkMutations(muts []*kvrpcpb.Mutation) *kvrpcpb.KeyError {
	for _, m := range muts {
		if keyErr := checkKey(m.Key); keyErr != nil {
			return keyErr
		}
	}
	return nil
}

// failure decides how a client gets an error: as a key error, or as the error itself (see the package's comment).
func failure(err error) (*kvrpcpb.KeyError, error) {
	switch {
	case err == nil:
		return nil, nil
	case errors.Is(err, kv.ErrClosed):
		// On this very error client-go gives up at once.
		return nil, context.Canceled
	case errors.Is(err, kv.ErrResultUndetermined), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	}
	if conflict := txn.ReadConflict(err); conflict != nil {
		return &kvrpcpb.KeyError{Conflict: conflict}, nil
	}
	return &kvrpcpb.KeyError{Abort: err.Error()}, nil
}

// errorList is failure for answers with a list of key errors.
func errorList(err error) ([]*kvrpcpb.KeyError, error) {
	keyErr, err := failure(err)
	if keyErr == nil {
		return nil, err
	}
	return []*kvrpcpb.KeyError{keyErr}, nil
}

package server

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"fastddl/internal/errs"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

// storeInterval is the time between two looks at the store.
const storeInterval = time.Second

// watchStore has the server end when its store has failed. What was acknowledged is
// durable then, but nothing else can be, and before long no transaction begins any
// more; the next start opens the store again, which is what cures it.
func (s *Server) watchStore() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var panicked error
		defer func() {
			if panicked != nil {
				s.log.Error("the watch over the store has ended", zap.Error(panicked))
			}
		}()
		defer errs.Contain(&panicked)
		for sleep.For(ctx, storeInterval) {
			if err := s.node.healthy(); errors.Is(err, kv.ErrStoreFailed) {
				s.log.Error("the server ends, since its store has to be opened again", zap.Error(err))
				s.ended <- err
				return
			}
		}
	}()
	s.parts.add(func() error {
		cancel()
		<-done
		return nil
	})
}

package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	tikvcfg "github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/tikv"
	pd "github.com/tikv/pd/client"
	"go.uber.org/zap"

	"fastddl/kv"
	"fastddl/kv/embedded/placement"
	"fastddl/kv/embedded/txn"
	"fastddl/kv/pebblekv"
)

const (
	// inProcess is the address of the store as long as it is not served.
	inProcess = "embedded"
	// storeVersion is the version of TiKV that the store behaves like.
	storeVersion = "8.5.0"
	// commitBatchBytes is the size up to which client-go puts a transaction's writes into one request, and so can commit
	// them in one phase. On a network it is 16 KiB. A request holds the latches of all its keys while they are checked.
	commitBatchBytes = 128 << 10
)

// Store is an embedded TiKV with its PD.
type Store struct {
	opts    Options
	log     *zap.Logger
	pebble  *pebblekv.Store
	service *service
	pd      *placement.Client
	storage *storage
	builds  *builds

	stop       context.CancelFunc
	background sync.WaitGroup
	closed     atomic.Bool
}

// Open opens the store in the folder path, which is created if it does not exist. It fails like pebblekv.Open.
func Open(path string, opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.EnsureDefaults()
	opts.Pebble.GCRunInterval = func() time.Duration { return 0 }
	tikvcfg.TxnCommitBatchSize.Store(commitBatchBytes)
	data, err := pebblekv.Open(path, opts.Pebble)
	if err != nil {
		return nil, err
	}
	s := &Store{opts: opts, log: opts.Logger, pebble: data}
	if err := s.start(); err != nil {
		return nil, errors.Join(err, data.Close())
	}
	return s, nil
}

func (s *Store) start() (err error) {
	ctx := context.Background()
	// A fresh timestamp makes LastTS one of this life of the store.
	since, err := s.pebble.CurrentTS(ctx)
	if err != nil {
		return err
	}
	engine, err := txn.New(s.pebble, s.opts.Txn)
	if err != nil {
		return err
	}
	regions := placement.NewRegions(since >> 18)
	s.pd, err = placement.NewClient(ctx, s.pebble, regions, placement.Options{
		Address: inProcess,
		Version: storeVersion,
		Logger:  s.log,
	})
	if err != nil {
		return err
	}
	s.service = &service{store: s.pebble, engine: engine, regions: regions, pd: s.pd, answers: newAnswers(s.opts.AnswerMemory), log: s.log}
	s.service.analyses, s.service.endAnalyses = context.WithCancel(ctx)
	s.builds = &builds{Store: s.pebble, engine: engine}
	if s.storage, err = newStorage(s); err != nil {
		<-s.pd.Stop()
		return err
	}
	s.opts.Pebble.Stage("dividing the data into regions")
	// Regions are not stored. Without this the first statements after a start would find one region.
	if err := regions.BalanceOnce(ctx, s.pebble); err != nil {
		s.log.Warn("regions could not be balanced", zap.Error(err))
	}
	run, cancel := context.WithCancel(ctx)
	s.stop = cancel
	s.background.Go(func() { regions.Balance(run, s.pebble, s.log) })
	return nil
}

// Storage returns the store as TiDB's storage. It is closed with the store.
func (s *Store) Storage() tidbkv.Storage { return s.storage }

// Client returns a client that answers client-go's requests in process.
func (s *Store) Client() tikv.Client { return &client{service: s.service} }

// Service returns what answers TiKV's requests, for package grpcserver. Nothing may use it when the store is closed.
func (s *Store) Service() *Service { return s.service }

// PDClient returns the store's PD.
func (s *Store) PDClient() pd.Client { return s.pd }

// Builds returns the data as index builds see it. Closing it does nothing.
func (s *Store) Builds() kv.Store { return s.builds }

// ID is the store's own name, made up when it was created.
func (s *Store) ID() string { return s.pebble.ID() }

// Healthy says why the store takes no writes at the moment, if so, or has refused one for lack of space, or what of it is damaged.
func (s *Store) Healthy() error {
	full := s.pebble.Healthy()
	if full == nil {
		full = s.pebble.Refused()
	}
	return errors.Join(full, s.pebble.Damaged())
}

// EndAnalyses gives up the requests that make statistics, now and from now on. One of them reads a whole region, and closing
// TiDB's domain waits for it: TiDB does not end it with its statement.
func (s *Store) EndAnalyses() { s.service.endAnalyses() }

// Close closes the storage and waits for running requests. Transactions that have not committed are gone. Closing twice
// does nothing.
func (s *Store) Close() error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	s.pebble.StopWaiting()
	s.EndAnalyses()
	err := s.storage.shutDown()
	s.stop()
	stopped := s.pd.Stop()
	// The data wait for what uses them, though not for ever, which is what the work in the background waits for.
	if closeErr := s.pebble.Close(); closeErr != nil {
		return errors.Join(err, fmt.Errorf("embedded: closing: %w", closeErr))
	}
	s.background.Wait()
	<-stopped
	return err
}

package sstimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	pd "github.com/tikv/pd/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fastddl/internal/sleep"
)

// store is what is known of a store, and bounds what it is asked at a time.
type store struct {
	id      uint64
	streams chan struct{} // one for each file that is written to it
	speed   throttle
	room    room

	connecting sync.Mutex
	addr       string
	conn       *grpc.ClientConn // nil if there is none

	mu           sync.Mutex
	backoffUntil time.Time // no request is sent to the store until then
	dropped      time.Time // when it was last connected to anew because it did not answer
}

// dropInterval is how often a store that does not answer is connected to anew, at its address of
// before. That ends all that is on its way to it.
const dropInterval = time.Minute

// stores are the stores that were needed so far.
type stores struct {
	opts      *Options
	now       func() time.Time
	warnRooms sync.Once

	mu   sync.Mutex
	byID map[uint64]*store
}

func newStores(opts *Options) *stores {
	return &stores{opts: opts, now: time.Now, byID: make(map[uint64]*store)}
}

// of returns the stores of peers, in the order of their identities, each once.
func (s *stores) of(peers []*metapb.Peer) []*store {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*store
	for _, p := range peers {
		st := s.byID[p.StoreId]
		if st == nil {
			st = &store{id: p.StoreId, streams: make(chan struct{}, s.opts.StoreStreams)}
			st.speed.limit = s.opts.WriteSpeed
			s.byID[p.StoreId] = st
		}
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b *store) int { return cmp.Compare(a.id, b.id) })
	return slices.Compact(list)
}

// leader returns the store of a region's leader.
func (s *stores) leader(r *pd.Region) *store { return s.of([]*metapb.Peer{r.Leader})[0] }

// busy says whether the importer backs off from a store.
func (s *stores) busy(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.byID {
		if st.backoffLeft(now) > 0 {
			return true
		}
	}
	return false
}

// close ends all connections.
func (s *stores) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, st := range s.byID {
		errs = append(errs, st.disconnect())
	}
	return errors.Join(errs...)
}

// client returns the store's service.
func (s *stores) client(ctx context.Context, st *store) (import_sstpb.ImportSSTClient, error) {
	st.connecting.Lock()
	defer st.connecting.Unlock()
	if st.conn == nil {
		addr, err := s.address(ctx, st.id)
		if err != nil {
			return nil, err
		}
		if st.conn, err = s.opts.Dial(ctx, addr); err != nil {
			return nil, err
		}
		st.addr = addr
	}
	return import_sstpb.NewImportSSTClient(st.conn), nil
}

// address asks PD for the address of a store.
func (s *stores) address(ctx context.Context, id uint64) (string, error) {
	meta, err := s.opts.PD.GetStore(ctx, id)
	if err != nil {
		return "", fmt.Errorf("address of store %d: %w", id, err)
	}
	if meta == nil || meta.State == metapb.StoreState_Tombstone {
		return "", fmt.Errorf("store %d is gone", id)
	}
	if meta.PeerAddress != "" { // where TiFlash takes imports; TiKV has none
		return meta.PeerAddress, nil
	}
	return meta.Address, nil
}

// recheck drops the connection to a store that has failed if it has moved. PD need not say so: the
// name of a pod stays when its IP changes, and packets to the old one may be lost without a word.
func (s *stores) recheck(ctx context.Context, st *store, why error) error {
	if unanswered(why) && st.mayDrop(s.now()) {
		return st.disconnect()
	}
	addr, err := s.address(ctx, st.id)
	if err != nil {
		return err
	}
	st.connecting.Lock()
	moved := st.conn != nil && st.addr != addr
	st.connecting.Unlock()
	if moved {
		return st.disconnect()
	}
	return nil
}

// unanswered says that a request has ended because the store did not answer.
func unanswered(err error) bool {
	return errors.Is(err, errStalled) || errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

// mayDrop says whether the connection to a store that does not answer may be dropped now.
func (st *store) mayDrop(now time.Time) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if now.Sub(st.dropped) < dropInterval {
		return false
	}
	st.dropped = now
	return true
}

// backOff keeps requests from the store for d from now.
func (st *store) backOff(now time.Time, d time.Duration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if until := now.Add(d); until.After(st.backoffUntil) {
		st.backoffUntil = until
	}
}

// backoffLeft returns how much of the backoff is left.
func (st *store) backoffLeft(now time.Time) time.Duration {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.backoffUntil.Sub(now)
}

// disconnect drops the connection, so that the next one goes to where the store is then.
func (st *store) disconnect() error {
	st.connecting.Lock()
	defer st.connecting.Unlock()
	if st.conn == nil {
		return nil
	}
	conn := st.conn
	st.conn = nil
	if err := conn.Close(); err != nil {
		return fmt.Errorf("sstimport: closing the connection to %s: %w", st.addr, err)
	}
	return nil
}

// awaitBackoff waits until the backoff of all stores has passed.
func awaitBackoff(ctx context.Context, list []*store) error {
	for _, st := range list {
		for d := st.backoffLeft(time.Now()); d > 0; d = st.backoffLeft(time.Now()) {
			if !sleep.For(ctx, d) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// acquire takes a stream of each store, and up to most where those are free. They are taken in
// the order of the list, which is the same for all callers, and only for the first stream of each
// store the call waits, so that waiting ends.
func acquire(ctx context.Context, list []*store, most int) (streams int, release func(), err error) {
	for i, st := range list {
		select {
		case st.streams <- struct{}{}:
		case <-ctx.Done():
			giveBack(list[:i])
			return 0, nil, ctx.Err()
		}
	}
	for streams = 1; streams < most && takeFree(list); streams++ {
	}
	return streams, func() {
		for range streams {
			giveBack(list)
		}
	}, nil
}

// takeFree takes a stream of each store, if there are.
func takeFree(list []*store) bool {
	for i, st := range list {
		select {
		case st.streams <- struct{}{}:
		default:
			giveBack(list[:i])
			return false
		}
	}
	return true
}

func giveBack(list []*store) {
	for _, st := range list {
		<-st.streams
	}
}

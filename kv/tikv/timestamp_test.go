package tikv

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/tikv"
)

// sharedOracle hands timestamps out to the driver and to others, in turn.
type sharedOracle struct {
	oracle.Oracle
	now    uint64
	apart  int // of the first so many none follows another one
	ours   map[uint64]bool
	errors int // of the first so many requests

	// last is the highest that was waited for: what sessions of low resolution read at.
	last uint64
	read map[uint64]bool
}

func newSharedOracle(apart int) *sharedOracle {
	return &sharedOracle{now: 1000, apart: apart, ours: make(map[uint64]bool), read: make(map[uint64]bool)}
}

func (o *sharedOracle) next() (uint64, error) {
	if o.errors > 0 {
		o.errors--
		return 0, errors.New("PD is away")
	}
	if len(o.ours) < o.apart {
		o.now++ // handed out to another client
	}
	o.now++
	o.ours[o.now] = true
	return o.now, nil
}

type handedOut struct {
	oracle *sharedOracle
	ts     uint64
	err    error
}

func (h handedOut) Wait() (uint64, error) {
	h.oracle.last = max(h.oracle.last, h.ts)
	h.oracle.read[h.oracle.last] = true
	return h.ts, h.err
}

func (o *sharedOracle) GetTimestampAsync(context.Context, *oracle.Option) oracle.Future {
	ts, err := o.next()
	return handedOut{o, ts, err}
}

// sharedStorage has the timestamps of an oracle.
type sharedStorage struct {
	*storage
	oracle *sharedOracle
}

func (s *sharedStorage) GetOracle() oracle.Oracle { return s.oracle }

func (s *sharedStorage) GetTimestampWithRetry(*tikv.Backoffer, string) (uint64, error) {
	return s.oracle.next()
}

// TestNoCommitAtTheTimestamp: transactions commit at one more than a timestamp that was handed out.
// So the timestamp before the one of an import is handed out to the import too.
func TestNoCommitAtTheTimestamp(t *testing.T) {
	for name, o := range map[string]*sharedOracle{
		"at once":             newSharedOracle(1),
		"after some":          newSharedOracle(3),
		"after some tries":    newSharedOracle(2*askedTimestamps + 3),
		"at the next request": newSharedOracle(askedTimestamps),
		"after an error":      newSharedOracle(1),
	} {
		t.Run(name, func(t *testing.T) {
			s := openNew(t)
			s.cluster = &sharedStorage{s.cluster.(*storage), o}
			if name == "after an error" {
				o.errors = 1
			}
			for range 3 {
				ts, err := s.CurrentTS(t.Context())
				require.NoError(t, err)
				require.True(t, o.ours[ts])
				require.True(t, o.ours[ts-1], "the one before may be the start of a transaction")
				require.False(t, o.read[ts-1], "a session of low resolution may read at the one before")
				delete(o.ours, ts) // this one is not secret any more
				require.Equal(t, ts, s.seen.Load())
			}
		})
	}
}

// TestTimestampsNeverAdjacent: none is handed out that a transaction may commit before.
func TestTimestampsNeverAdjacent(t *testing.T) {
	s := openNew(t)
	o := newSharedOracle(1 << 30)
	s.cluster = &sharedStorage{s.cluster.(*storage), o}
	_, err := s.CurrentTS(t.Context())
	require.ErrorIs(t, err, errNoTimestamp)
	require.Len(t, o.ours, maxTimestampTries*askedTimestamps)
}

package sstimport

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

var (
	rounds = flag.Int("rounds", 30, "how many clusters a random test uses")
)

// chaos makes a random choice of faults, until there have been enough, and of changes of
// the regions.
type chaos struct {
	f    *fixture
	keys int

	mu   sync.Mutex
	rnd  *rand.Rand
	left int
}

// happens implements cluster.fault.
func (c *chaos) happens(this call) *fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if this.kind == callLease || c.left == 0 || c.rnd.IntN(4) > 0 {
		return nil
	}
	c.left--
	at, what := key(c.rnd.IntN(c.keys)), c.rnd.IntN(16)
	change := func(f func(string)) *fault { return &fault{late: true, before: func() { f(at) }} }
	region := func(e *errorpb.Error) *fault { return &fault{region: e, late: c.rnd.IntN(2) == 0} }
	if this.kind == callScan {
		return &fault{err: unavailable}
	}
	if this.kind == callWrite || this.kind == callBatch {
		what %= 6 // TiKV has no other errors there
	}
	switch what {
	case 0:
		c.f.split(at)
	case 1:
		c.f.merge(at)
	case 2:
		c.f.moveLeader(at)
	case 3:
		return &fault{err: unavailable}
	case 4:
		return &fault{hang: true}
	case 5:
		return &fault{text: []string{"RequestTooOld", "RequestTooNew"}[c.rnd.IntN(2)]}
	case 6:
		return &fault{err: unavailable, late: true}
	case 7:
		return region(&errorpb.Error{ServerIsBusy: &errorpb.ServerIsBusy{BackoffMs: 1}})
	case 8:
		return region(&errorpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{}})
	case 9:
		return region(&errorpb.Error{NotLeader: &errorpb.NotLeader{}})
	case 10:
		return region(&errorpb.Error{RegionNotFound: &errorpb.RegionNotFound{}})
	case 11:
		return region(&errorpb.Error{StaleCommand: &errorpb.StaleCommand{}})
	case 12:
		return region(&errorpb.Error{ProposalInMergingMode: &errorpb.ProposalInMergingMode{}})
	case 13:
		return region(&errorpb.Error{Message: "raft: proposal dropped"})
	case 14:
		return change(c.f.split)
	case 15:
		return change(c.f.moveLeader)
	}
	return nil
}

// TestRandomFaults: units are imported under random faults and changes of the regions.
// Afterwards exactly their pairs are there, and nothing is left.
func TestRandomFaults(t *testing.T) {
	seed := randtest.Seed(t)
	hits := 0
	for round := range *rounds {
		ok := t.Run(fmt.Sprint(round), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, uint64(round)))
			f := start(t, func(o *Options) {
				o.SplitBytes, o.CallTimeout, o.MaxAttempts = 100_000, 200*time.Millisecond, 1000
				if rnd.IntN(2) == 0 {
					o.Splitter = nil
				}
			})
			const keys = 3000
			for range rnd.IntN(10) {
				f.split(key(rnd.IntN(keys)))
			}
			var units []kv.ImportUnit
			for at := rnd.IntN(100); at < keys; at += rnd.IntN(200) {
				n := 1 + rnd.IntN(800)
				units = append(units, f.unit(at, min(at+n, keys), 1+rnd.IntN(2*shortBytes)))
				at += n
			}
			rnd.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
			c := &chaos{f: f, keys: keys, rnd: rnd, left: 20}
			f.setFault(c.happens)
			require.NoError(t, f.im.Import(t.Context(), units))
			f.requireDone()
			c.mu.Lock() // an abandoned request may be carried out late
			defer c.mu.Unlock()
			hits += 20 - c.left
		})
		if !ok {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
	t.Logf("%d rounds, %d faults", *rounds, hits)
}

// TestRandomFailures: imports that fail in the end leave units that can be imported again,
// and consume those that were imported.
func TestRandomFailures(t *testing.T) {
	// With one stream for each store, regions come one after the other.
	f := start(t, func(o *Options) { o.MaxAttempts, o.StoreStreams = 1, 1 })
	for i := range 10 {
		f.split(key(i * 100))
	}
	var units []kv.ImportUnit
	for i := range 10 {
		units = append(units, f.unit(i*100, (i+1)*100, 10))
	}
	f.setFault(func(c call) *fault {
		if c.kind == callIngest && c.nth == 4 {
			return &fault{err: errors.New("lost")}
		}
		return nil
	})
	require.Error(t, f.im.Import(t.Context(), units))
	left := f.files()
	require.Positive(t, left)
	require.Less(t, left, len(units), "some were imported before")
	f.setFault(nil)
	ingests := f.count(callIngest)
	require.NoError(t, f.im.Import(t.Context(), units))
	f.requireDone()
	// An abandoned request of the first import may be carried out as late as here.
	again := f.count(callIngest) - ingests
	require.GreaterOrEqual(t, again, left)
	require.Less(t, again, len(units), "some are not imported again")
}

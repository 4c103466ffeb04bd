package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fastddl/internal/randtest"
	"fastddl/kv"
	"fastddl/tests/cluster/standin"
)

const (
	// randomSlice is how long TestRandom takes in go test, randomLong under FASTDDL_LONG;
	// a seed has seedTime of either.
	randomSlice, randomLong, seedTime = 8 * time.Second, 15 * time.Minute, 2 * time.Minute
	// randomDeadline is for anything that a client waits for: it hangs if it takes longer.
	randomDeadline = 10 * time.Minute
	// nodesOfOurs is how many nodes build indexes; there is a plain tidb-server beside.
	nodesOfOurs = 3
)

// TestRandom has clients of three nodes and a plain tidb-server change rows, indexes and
// tables at random, while servers are killed, stopped and cut off, and the store fails; until
// the time is up (FASTDDL_TIME), with another cluster for each seed.
// FASTDDL_SEED repeats one: its choices, not the order of what is done at once. On a live
// cluster the store is left alone, and no server is cut off; if other users disturb stores
// or PD meanwhile, FASTDDL_CLUSTER_DISTURBED=1 expects the errors that result.
func TestRandom(t *testing.T) {
	t.Parallel()
	total := randtest.Time(t, randomSlice, randomLong)
	if seed, ok := randtest.Fixed(t); ok {
		randomSeed(t, seed, min(total, seedTime))
		return
	}
	var all counts
	for began, seed := time.Now(), rand.Uint64(); ; seed++ {
		left := total - time.Since(began)
		if left <= 0 {
			break
		}
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { all.add(randomSeed(t, seed, min(left, seedTime))) })
		if t.Failed() {
			randtest.Print(t, seed)
			t.FailNow()
		}
	}
	t.Logf("together: %s", &all)
}

// random is one seed.
type random struct {
	// standIn is the cluster, nil if that is a live one; builds reads what is in the store.
	standIn *standin.Cluster
	builds  kv.Store
	servers []*server
	// plain is the server that is not ours, and store where the faults of the store are
	// noted: it has no clients.
	plain, store *server
	tables       []*randomTable
	workers      []*worker
	alterers     []*alterer
	// distributed says that TiDB's tasks are on, and TiDB's own builds are left out.
	distributed bool
	cancels     cancels
	// pace is how long a server takes to start, and a build without disturbances, on this store
	// and this machine.
	pace time.Duration
	// ending says that the time is up; altering is how many alterers have not ended.
	ending   atomic.Bool
	altering atomic.Int64
	counts   counts
}

// randomSeed runs a seed for some time, and then verifies what must be so.
func randomSeed(t *testing.T, seed uint64, length time.Duration) *counts {
	t.Logf("seed %d", seed)
	began := time.Now()
	rng := rand.New(rand.NewPCG(seed, seed))
	r := &random{store: &server{name: "store"}}
	c := anyCluster(t)
	if standIn, ok := c.(*standin.Cluster); ok {
		r.standIn, r.builds = standIn, standIn.Store().Builds()
	} else {
		r.builds = openDriver(t, openStorageAt(t, live))
	}
	for range nodesOfOurs {
		starting := time.Now()
		n := startNode(t, c)
		r.pace = time.Since(starting) // the first one may have bootstrapped the cluster
		r.servers = append(r.servers, &server{name: n.Addr, db: n.open().DB, pd: n.pd, ours: n})
	}
	plain := startTiDB(t, c, r.servers[0].ours.database)
	r.plain = &server{name: "tidb " + plain.addr, db: plain.DB, pd: plain.pd, theirs: plain}
	if r.standIn == nil && os.Getenv("FASTDDL_CLUSTER_DISTURBED") != "" {
		defer r.store.disturbed()()
	}
	r.servers = append(r.servers, r.plain)
	require.NoError(t, r.create(t, rng))
	require.NoError(t, r.measure())
	t.Logf("ready after %s; to start and to build takes %s", time.Since(began).Round(time.Millisecond), r.pace.Round(time.Millisecond))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	part := func(work func(ctx context.Context, rng *rand.Rand) error) {
		rng := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		g.Go(func() error { return work(ctx, rng) })
	}
	for _, w := range r.workers {
		part(w.work)
	}
	for _, a := range r.alterers {
		part(a.work)
	}
	part(r.alterByTiDB)
	part(r.control)
	part(r.watch)
	if r.standIn != nil {
		part(r.disturbStore)
	}
	disturbed := r.disturb(ctx, rng, time.Now().Add(length))
	r.ending.Store(true)
	require.NoError(t, errors.Join(disturbed, g.Wait(), r.allRun()), "seed %d; %s", seed, &r.counts)
	settling := time.Now()
	ctx, cancel = context.WithTimeout(t.Context(), randomDeadline)
	defer cancel()
	require.NoError(t, r.settle(ctx), "seed %d; %s", seed, &r.counts)
	t.Logf("%s; settled in %s, %s in all", &r.counts, time.Since(settling).Round(time.Millisecond), time.Since(began).Round(time.Second))
	return &r.counts
}

// create makes the tables and their workers.
func (r *random) create(t *testing.T, rng *rand.Rand) error {
	r.distributed = rng.IntN(2) == 0
	onOff := map[bool]string{true: "ON", false: "OFF"}[r.distributed]
	for _, global := range [][2]string{
		// First the one that can be OFF alone. TiDB's own builds by import are not what is tested.
		{"tidb_enable_dist_task", "OFF"}, {"tidb_ddl_enable_fast_reorg", onOff}, {"tidb_enable_dist_task", onOff},
		{"tidb_ddl_reorg_max_write_speed", pick(rng, "0", "50000", "200000")},
		{"fastddl_ddl_part_size", "1"}, // so that nodes build together what is small
	} {
		r.servers[0].ours.setGlobal(global[0], global[1])
	}
	if _, err := r.servers[0].db.Exec("CREATE TABLE other (id INT PRIMARY KEY, v INT)"); err != nil {
		return err
	}
	t.Logf("distributed tasks are %s", onOff)
	for i, partitioned := range []bool{false, true} {
		tbl := newRandomTable(rng, fmt.Sprintf("t%d", i), partitioned)
		t.Logf("%s, %d rows that no client changes", tbl.create(), tbl.ballast)
		if err := tbl.fill(r.plain.db); err != nil {
			return err
		}
		r.tables = append(r.tables, tbl)
		for range workersOfTable {
			r.workers = append(r.workers, &worker{
				run: r, t: tbl, low: int64(len(r.workers)+1) * idStride, rows: make(state),
			})
		}
		for number := range alterersOfTable {
			r.alterers = append(r.alterers, &alterer{run: r, t: tbl, number: number})
			r.altering.Add(1)
		}
	}
	return nil
}

// measure has an index built without disturbances.
func (r *random) measure() error {
	db, began := r.servers[0].db, time.Now()
	if _, err := db.Exec("ALTER TABLE other ADD UNIQUE INDEX pace (id, v)"); err != nil {
		return err
	}
	r.pace += time.Since(began)
	_, err := db.Exec("ALTER TABLE other DROP INDEX pace")
	return err
}

// pause waits for a random time, at most for most; it returns false if ctx has ended.
func pause(ctx context.Context, rng *rand.Rand, most time.Duration) bool {
	select {
	case <-time.After(rand.N(most)): // how long does not matter for what is right
		return true
	case <-ctx.Done():
		return false
	}
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func oneIn(rng *rand.Rand, n int) bool { return rng.IntN(n) == 0 }

// counts are what has happened.
type counts struct {
	commits, conflicts, doubts                   atomic.Int64
	builds, unique, failures, cancelled, lost    atomic.Int64
	dropped, tidb                                atomic.Int64
	pauses, resumes, cancels, alterations        atomic.Int64
	kills, restarts, stops, etcd, pd, storeFault atomic.Int64
	comparisons, checks, takeovers               atomic.Int64
}

// count is a number, and what of.
type count struct {
	what string
	n    *atomic.Int64
}

// fields are the counts, as they are printed.
func (c *counts) fields() []count {
	return []count{
		{"commits", &c.commits}, {"conflicts", &c.conflicts}, {"in doubt", &c.doubts},
		{"builds done", &c.builds}, {"unique ones among them", &c.unique}, {"refused as not unique", &c.failures}, {"cancelled", &c.cancelled}, {"whose client was lost", &c.lost},
		{"owners gone", &c.takeovers}, {"indexes dropped", &c.dropped}, {"DDL of TiDB's", &c.tidb},
		{"pauses", &c.pauses}, {"resumes", &c.resumes}, {"cancels", &c.cancels}, {"alterations", &c.alterations},
		{"kills", &c.kills}, {"restarts", &c.restarts}, {"stops", &c.stops}, {"cut off from etcd", &c.etcd}, {"cut off from PD", &c.pd},
		{"faults of the store", &c.storeFault}, {"indexes compared", &c.comparisons}, {"tables checked", &c.checks},
	}
}

func (c *counts) add(other *counts) {
	mine, theirs := c.fields(), other.fields()
	for i := range mine {
		mine[i].n.Add(theirs[i].n.Load())
	}
}

func (c *counts) String() string {
	text := ""
	for _, f := range c.fields() {
		text += fmt.Sprintf("%d %s, ", f.n.Load(), f.what)
	}
	return text[:max(len(text)-2, 0)]
}

// errWrong is an error that nothing excuses.
type errWrong struct{ error }

func wrongf(format string, args ...any) error { return errWrong{fmt.Errorf(format, args...)} }

func isWrong(err error) bool { return errors.As(err, new(errWrong)) }

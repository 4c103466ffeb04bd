package crash

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fastddl/internal/randtest"
	"fastddl/internal/servertest"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) { os.Exit(servertest.Main(m, &binary)) }

const (
	// slice is how long a search goes on in make test.
	slice = 14 * time.Second
	// kills is how often the process of one seed dies at most, minSeeds how many
	// seeds a long run has, however slow the machine.
	kills    = 8
	minSeeds = 20
	// shortLife is how long a life of the server is at most.
	shortLife = 2700 * time.Millisecond
)

// TestKillsUnderRandomLoad runs random statements beside random schema changes
// and kills the server, until the time is up (FASTDDL_TIME), with another
// schema for each seed. FASTDDL_SEED repeats one.
func TestKillsUnderRandomLoad(t *testing.T) {
	randtest.SkipShort(t)
	forSeeds(t, oneSeed)
}

// forSeeds calls fn with one seed after the other until the time is up, or with the
// one that is to be repeated.
func forSeeds(t *testing.T, fn func(t *testing.T, seed uint64, until time.Time) tally) {
	t.Helper()
	if seed, ok := randtest.Fixed(t); ok {
		fn(t, seed, time.Time{})
		return
	}
	total, least := randtest.Time(t, slice, 30*time.Minute), 1
	if total > minSeeds*slice {
		least = minSeeds
	}
	start := time.Now()
	n := 0
	var sum tally
	for seed := uint64(start.UnixNano()); n < least || time.Since(start) < total; seed++ {
		n++
		var until time.Time
		if n >= least {
			until = start.Add(total)
		}
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { sum = sum.add(fn(t, seed, until)) }) {
			t.FailNow()
		}
	}
	t.Logf("in %s: %s", time.Since(start).Round(time.Second), sum)
}

// run is one seed.
type run struct {
	dir      string
	rng      *rand.Rand
	tables   []*table
	workers  []*worker
	alterers []*alterer
	bank     *bank
	// node is the server's current life; ending says that it is about to be over.
	node     *servertest.Node
	ending   atomic.Bool
	lives    int
	kills    int
	compared atomic.Int64
	// settings are more of variables.
	settings []string
	// faults are what else is done to the server, faultsNoticed how often that was noticed.
	faults        faults
	faultsNoticed atomic.Int64
	past          past
	// lifetime is how long a life of the server is at most, maxLives how many there are
	// beside the last one.
	lifetime time.Duration
	maxLives int
	// start starts the server, and inject, if not nil, injects faults until it ends.
	start  func() *servertest.Node
	inject func(ctx context.Context, rng *rand.Rand) error
	// mayEnd says that the server may have ended so because of what was done to it.
	mayEnd func(code int, log string) bool
	// exits is how often the server ended by itself, because of what was done to it.
	exits int
}

// oneSeed runs a seed, with fewer lives of the server if until, unless it is
// zero, comes before they are over.
func oneSeed(t *testing.T, seed uint64, until time.Time) tally {
	r := newRun(seed, t.TempDir())
	r.start = func() *servertest.Node { return servertest.Start(t, binary, r.dir) }
	r.settings = []string{"fastddl_ddl_worker = ON", "fastddl_ddl_worker = OFF"}
	return r.search(t, seed, until)
}

func newRun(seed uint64, dir string) *run {
	return &run{dir: dir, rng: rand.New(rand.NewPCG(seed, seed)), lifetime: shortLife, maxLives: kills}
}

func (r *run) search(t *testing.T, seed uint64, until time.Time) tally {
	t.Helper()
	randtest.Print(t, seed)
	r.node = r.start()
	require.NoError(t, r.create(t, r.node.Open("test")))
	for range 1 + r.rng.IntN(r.maxLives) {
		if !until.IsZero() && time.Now().After(until) {
			break
		}
		require.NoError(t, r.life(t.Context()), "seed %d", seed)
		r.node = r.start()
		require.NoError(t, r.checkAfterRestart(t.Context()), "seed %d", seed)
	}
	ctx, cancel := context.WithTimeout(t.Context(), checkTimeout)
	defer cancel()
	db := r.node.Open("test")
	require.NoError(t, r.settle(ctx, db), "seed %d", seed)
	tables, err := r.expectations(ctx, db)
	require.NoError(t, err)
	require.Zero(t, r.node.Terminate(), "seed %d", seed)
	r.requireNothingLeft(t, tables)
	sum := r.tally()
	t.Log(sum)
	return sum
}

// checkTimeout is how long a server may take for all that is verified at one
// time. It is far more than it ever takes: what goes on for longer hangs.
const checkTimeout = 15 * time.Minute

func (r *run) checkAfterRestart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	db := r.node.Open("test")
	if err := r.checkRows(ctx, db); err != nil {
		return err
	}
	if r.rng.IntN(2) == 0 {
		return nil
	}
	return r.settle(ctx, db)
}

func (r *run) create(t *testing.T, db *sql.DB) error {
	// What TiDB builds itself it does not build distributed without its fast way.
	for _, s := range []string{"SET GLOBAL tidb_enable_dist_task = OFF", "CREATE TABLE probe (a INT PRIMARY KEY, b DATETIME(6))"} {
		if _, err := db.Exec(s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	for i := range 1 + r.rng.IntN(2) {
		tbl := randomTable(r.rng, fmt.Sprintf("t%d", i))
		t.Logf("%s; %d rows that change seldom", tbl.create(), workers*tbl.ballast)
		if _, err := db.Exec(tbl.create()); err != nil {
			return err
		}
		h := newHolders()
		for n := range workers {
			w := newWorker(r, tbl, n, r.rng, h)
			if err := w.fill(db); err != nil {
				return err
			}
			r.workers = append(r.workers, w)
		}
		r.tables = append(r.tables, tbl)
		r.alterers = append(r.alterers, &alterer{
			run: r, t: tbl, rng: rand.New(rand.NewPCG(r.rng.Uint64(), 1)), holders: h, present: map[string]*indexDef{},
		})
	}
	r.bank = newBank(r)
	return r.bank.create(db)
}

// life runs everything at once and ends the server in the midst of it, mostly by
// killing it.
func (r *run) life(ctx context.Context) error {
	r.lives++
	r.ending.Store(false)
	db := r.node.Open("test")
	var g errgroup.Group
	failed := make(chan struct{}, 100)
	start := func(work func() error) {
		g.Go(func() error {
			err := work()
			if err != nil {
				failed <- struct{}{}
			}
			return err
		})
	}
	for _, w := range r.workers {
		start(func() error { return w.work(ctx, db) })
	}
	for _, a := range r.alterers {
		start(func() error { return a.work(ctx, db) })
	}
	for number := range tellers {
		rng := rand.New(rand.NewPCG(r.rng.Uint64(), 5))
		start(func() error { return r.bank.teller(ctx, db, number, rng) })
	}
	altering := rand.New(rand.NewPCG(r.rng.Uint64(), 6))
	start(func() error { return r.bank.alter(ctx, db, altering) })
	control, watch := rand.New(rand.NewPCG(r.rng.Uint64(), 2)), rand.New(rand.NewPCG(r.rng.Uint64(), 3))
	start(func() error { return r.control(ctx, db, control) })
	start(func() error { return r.watch(ctx, db, watch) })
	exited, stopHarm := r.beginHarm(ctx, start)

	select {
	case <-failed:
	case <-exited:
	case <-time.After(200*time.Millisecond + time.Duration(r.rng.Int64N(int64(r.lifetime)))):
	}
	if !oneIn(r.rng, 6) {
		r.ending.Store(true)
		r.kills++
		r.node.Kill()
		stopHarm()
		return g.Wait()
	}
	stopHarm()
	r.ending.Store(true)
	if isClosed(exited) {
		return g.Wait()
	}
	if err := r.node.Cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	code := r.node.Wait()
	if err := g.Wait(); err != nil || code == 0 {
		return err
	}
	if r.mayEnd != nil && r.mayEnd(code, r.node.Stderr.String()) {
		r.exits++
		return nil
	}
	return fmt.Errorf("the server ended with exit code %d", code)
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// errExited says that the server has ended because of what was done to it.
var errExited = errors.New("the server has ended by itself")

// beginHarm begins to do things to the server. exited is closed if it ends of that;
// stop ends it and waits.
func (r *run) beginHarm(ctx context.Context, start func(work func() error)) (exited chan struct{}, stop func()) {
	exited = make(chan struct{})
	if r.inject == nil {
		return exited, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	rng := rand.New(rand.NewPCG(r.rng.Uint64(), 7))
	start(func() error {
		defer close(done)
		err := r.inject(ctx, rng)
		if errors.Is(err, errExited) {
			r.exits++
			close(exited)
			return nil
		}
		return err
	})
	return exited, func() {
		cancel()
		<-done
	}
}

// settle lets the jobs end and verifies what must be so then.
func (r *run) settle(ctx context.Context, db *sql.DB) error {
	if err := r.awaitJobs(ctx, db); err != nil {
		return err
	}
	if err := r.checkQuiet(ctx, db); err != nil {
		return err
	}
	return r.checkRows(ctx, db)
}

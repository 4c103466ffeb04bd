package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// envDuration returns a duration from the environment: long runs raise it.
func envDuration(t *testing.T, name string, def time.Duration) time.Duration {
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

const (
	roundTime = 4 * time.Second
	// minSeeds is how many rounds a long run has, however slow the machine.
	minSeeds = 20
)

// TestRandomDMLBesideDDL runs random transactions beside random schema changes
// until the time is up (FASTDDL_MODEL_TIME), in rounds of a few seconds with a
// schema and settings of their own each. FASTDDL_MODEL_SEED repeats a round.
func TestRandomDMLBesideDDL(t *testing.T) {
	if text := os.Getenv("FASTDDL_MODEL_SEED"); text != "" {
		seed, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		runRound(t, seed)
		return
	}
	total := envDuration(t, "FASTDDL_MODEL_TIME", 30*time.Second)
	least := 1
	if total >= minSeeds*roundTime {
		least = minSeeds
	}
	start := time.Now()
	rounds := 0
	for seed := start.UnixNano(); rounds < least || time.Since(start) < total; seed++ {
		rounds++
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { runRound(t, seed) }) {
			t.Fatalf("FASTDDL_MODEL_SEED=%d repeats the round that failed, the %d.", seed, rounds)
		}
	}
	t.Logf("%d seeds in %s", rounds, time.Since(start).Round(time.Second))
}

func runRound(t *testing.T, seed int64) {
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	n := openNode(t, t.TempDir(), rng)
	t.Log(n.describe())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last events:\n%s", n.journal)
		}
	})
	var tables []*tableRun
	for i := range 2 {
		tables = append(tables, newTableRun(t, n, fmt.Sprintf("t%d", i), rng))
	}
	err := n.runAll(t.Context(), tables)
	t.Logf("%d faults injected, %d restarts", n.faulty.injected.Load(), n.restarts)
	for _, tr := range tables {
		t.Logf("%s: %s", tr.name, tr.summary())
	}
	require.NoError(t, err, "seed %d", seed)
	for _, tr := range tables {
		require.NoError(t, tr.checkTheEnd(t.Context()), "seed %d", seed)
	}
	require.NoError(t, n.checkQuiet(t.Context()), "seed %d", seed)
	for _, tr := range tables {
		n.requireNothingLeft(t, tr.name)
	}
	n.close(t)
}

// runAll runs everything at once for the time of a round.
func (n *node) runAll(ctx context.Context, tables []*tableRun) error {
	ctx, stop := context.WithTimeout(ctx, roundTime)
	defer stop()
	n.faulty.off.Store(false)
	finished := make(chan struct{})
	var changes, others errgroup.Group
	// A first failure ends the round.
	until := func(err error) error {
		if err != nil {
			stop()
		}
		return err
	}
	for _, tr := range tables {
		changes.Go(func() error { return until(tr.changeSchema(ctx)) })
		for _, w := range tr.workers {
			others.Go(func() error { return until(w.run(ctx)) })
		}
		others.Go(func() error { return until(tr.checkSnapshots(ctx)) })
	}
	others.Go(func() error { return until(n.collectGarbage(ctx)) })
	others.Go(func() error { return until(n.control(ctx, finished)) })
	err := changes.Wait()
	close(finished)
	return errors.Join(err, others.Wait())
}

// tableRun is one table with its transactions, its schema changes and its
// model.
type tableRun struct {
	node    *node
	name    string
	seed    int64
	history history
	workers []*worker

	// pending are the snapshots that are still to be checked.
	pending []*snapshot

	added, dropped, refused, cancelled, failed, checked int
}

func newTableRun(t *testing.T, n *node, name string, rng *rand.Rand) *tableRun {
	create := randomTable(rng, name)
	require.NoError(t, n.exec(t.Context(), create))
	tr := &tableRun{node: n, name: name, seed: rng.Int63()}
	ids := pick(rng, 20, 200, 2000)
	if !strings.Contains(create, "PRIMARY KEY (id) CLUSTERED") {
		ids = min(ids, 200) // rows are found by scans
	}
	for range 3 {
		tr.workers = append(tr.workers, &worker{
			node: n, table: name, history: &tr.history,
			rng: rand.New(rand.NewSource(rng.Int63())), ids: ids, hot: rng.Intn(2) == 0,
		})
	}
	filled := rng.Intn(ids)
	require.NoError(t, tr.workers[0].fill(t.Context(), filled))
	t.Logf("%s; %d of %d ids filled", create, filled, ids)
	return tr
}

func (tr *tableRun) summary() string {
	var committed, conflicts, duplicates int
	for _, w := range tr.workers {
		committed, conflicts, duplicates = committed+w.committed, conflicts+w.conflicts, duplicates+w.duplicates
	}
	return fmt.Sprintf("%d transactions, %d conflicts, %d duplicates; %d indexes added, %d dropped; jobs: "+
		"%d refused as not unique, %d cancelled, %d failed; %d snapshots",
		committed, conflicts, duplicates, tr.added, tr.dropped, tr.refused, tr.cancelled, tr.failed, tr.checked)
}

// checkSnapshots checks random snapshots until ctx ends, some at once and some
// later, when garbage collection has gone over the rest.
func (tr *tableRun) checkSnapshots(ctx context.Context) error {
	rng := rand.New(rand.NewSource(tr.seed + 1))
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rng.Intn(100)) * time.Millisecond)
		s, err := tr.takeSnapshot(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		tr.pending = append(tr.pending, s)
		for len(tr.pending) > 0 && rng.Intn(3) != 0 {
			s := tr.pending[0]
			tr.pending = tr.pending[1:]
			if err := tr.checkSnapshot(context.WithoutCancel(ctx), s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (tr *tableRun) checkSnapshot(ctx context.Context, s *snapshot) error {
	tr.history.settle()
	if err := s.check(ctx, tr.node, &tr.history); err != nil {
		return err
	}
	tr.checked++
	return s.hold.Release(ctx)
}

// checkTheEnd checks the snapshots that are left, and one of now.
func (tr *tableRun) checkTheEnd(ctx context.Context) error {
	s, err := tr.takeSnapshot(ctx)
	if err != nil {
		return err
	}
	for _, s := range append(tr.pending, s) {
		if err := tr.checkSnapshot(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

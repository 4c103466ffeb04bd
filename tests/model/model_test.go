package model

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"fastddl/ddl/builder"
	"fastddl/kv"
	"fastddl/table"
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

// TestRandomDMLBesideDDL runs random transactions beside random ADD and DROP
// INDEX until the time is up (FASTDDL_MODEL_TIME), in rounds of a few seconds
// with a schema of their own each. FASTDDL_MODEL_SEED repeats a round.
func TestRandomDMLBesideDDL(t *testing.T) {
	total := envDuration(t, "FASTDDL_MODEL_TIME", 20*time.Second)
	deadline := time.Now().Add(total)
	if text := os.Getenv("FASTDDL_MODEL_SEED"); text != "" {
		seed, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		runRound(t, seed)
		return
	}
	for seed := time.Now().UnixNano(); time.Now().Before(deadline); seed++ {
		runRound(t, seed)
	}
}

const roundTime = 4 * time.Second

func runRound(t *testing.T, seed int64) {
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	n := openNode(t, t.TempDir(), rng)
	ctx, stop := context.WithTimeout(t.Context(), roundTime)
	defer stop()

	var tables []*tableRun
	for i := range 2 {
		tables = append(tables, newTableRun(t, n, fmt.Sprintf("t%d", i), rng))
	}
	var g errgroup.Group
	for _, tr := range tables {
		tr.start(ctx, &g)
	}
	g.Go(func() error { return n.collectGarbage(ctx) })
	require.NoError(t, g.Wait(), "seed %d", seed)
	for _, tr := range tables {
		t.Logf("%s: %s", tr.name, tr.summary())
		require.NoError(t, tr.checkEverything(t.Context()), "seed %d", seed)
	}
	for _, tr := range tables {
		n.requireNothingLeft(t, tr.name)
	}
	n.close(t)
}

// tableRun is one table with its transactions, its schema changes and its
// model.
type tableRun struct {
	node    *node
	name    string
	seed    int64
	history history
	workers []*worker

	// published holds the indexes that are public, with a timestamp at which
	// each surely was; the DDL goroutine owns it.
	published map[string]publishedIndex
	snapshots []snapshot
	added     int
	dropped   int
	refused   int
}

type publishedIndex struct {
	info *model.IndexInfo
	ts   uint64
}

// snapshot is a timestamp to be checked at the end, with the indexes that were
// public at it, under a GC hold.
type snapshot struct {
	ts      uint64
	indexes []*model.IndexInfo
	hold    kv.GCHold
}

func newTableRun(t *testing.T, n *node, name string, rng *rand.Rand) *tableRun {
	create := randomTable(rng, name)
	t.Log(create)
	require.NoError(t, n.exec(t.Context(), create))
	tr := &tableRun{node: n, name: name, seed: rng.Int63(), published: map[string]publishedIndex{}}
	for range 3 {
		tr.workers = append(tr.workers, &worker{
			node: n, table: name, history: &tr.history,
			rng: rand.New(rand.NewSource(rng.Int63())), hot: rng.Intn(2) == 0,
		})
	}
	return tr
}

func (tr *tableRun) start(ctx context.Context, g *errgroup.Group) {
	for _, w := range tr.workers {
		g.Go(func() error { return w.run(ctx) })
	}
	g.Go(func() error { return tr.changeSchema(ctx) })
}

func (tr *tableRun) summary() string {
	var committed, conflicts, duplicates int
	for _, w := range tr.workers {
		committed, conflicts, duplicates = committed+w.committed, conflicts+w.conflicts, duplicates+w.duplicates
	}
	return fmt.Sprintf("%d transactions, %d conflicts, %d duplicates, %d indexes added, %d refused as not unique, %d dropped, %d snapshots",
		committed, conflicts, duplicates, tr.added, tr.refused, tr.dropped, len(tr.snapshots))
}

// changeSchema adds and drops indexes until ctx ends.
func (tr *tableRun) changeSchema(ctx context.Context) error {
	rng := rand.New(rand.NewSource(tr.seed))
	for i := 0; ctx.Err() == nil; i++ {
		var err error
		if len(tr.published) < 3 && rng.Intn(3) != 0 {
			err = tr.addIndexes(ctx, rng, i)
		} else {
			err = tr.dropIndex(ctx, rng)
		}
		if err == nil {
			err = tr.takeSnapshot(ctx)
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	return nil
}

func (tr *tableRun) addIndexes(ctx context.Context, rng *rand.Rand, i int) error {
	sql := "ALTER TABLE " + tr.name
	var names []string
	unique := -1
	if rng.Intn(3) == 0 {
		unique = rng.Intn(len(uniqueIndexes))
		sql += " ADD UNIQUE INDEX u" + strconv.Itoa(i) + uniqueIndexes[unique].columns + ","
		names = append(names, "u"+strconv.Itoa(i))
	}
	for j := range 1 + rng.Intn(2) {
		name := fmt.Sprintf("i%d_%d", i, j)
		if j > 0 {
			sql += ","
		}
		sql += fmt.Sprintf(" ADD INDEX %s %s", name, randomIndex(rng))
		names = append(names, name)
	}
	from, err := tr.node.store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	if err := tr.node.exec(ctx, sql); err != nil {
		if te, ok := builder.AsTerror(err); ok && te.Code() == errno.ErrDupEntry && unique >= 0 {
			tr.refused++
			return tr.requireDuplicate(ctx, sql, unique, from, err)
		}
		return fmt.Errorf("%s: %w", sql, err)
	}
	ts, err := tr.node.store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	entry, _ := tr.node.catalog.Current().Table(dbName, tr.name)
	for _, name := range names {
		info := entry.Info.FindIndexByName(name)
		if info == nil || info.State != model.StatePublic {
			return fmt.Errorf("%s: index %s is not public", sql, name)
		}
		tr.published[name] = publishedIndex{info, ts}
		tr.added++
	}
	return nil
}

// requireDuplicate verifies that a job that failed with 1062 had a reason: at
// some moment since from two rows had the same key.
func (tr *tableRun) requireDuplicate(ctx context.Context, sql string, unique int, from uint64, cause error) error {
	to, err := tr.node.store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	entry, _ := tr.node.catalog.Current().Table(dbName, tr.name)
	tbl := table.Of(entry)
	idx := &model.IndexInfo{ID: 1 << 30, Unique: true, Columns: uniqueIndexes[unique].parts}
	found, err := tr.history.everDuplicate(from, to, func(w write) (string, error) {
		key, _, distinct, err := tbl.IndexEntry(idx, w.row, w.h)
		if err != nil || !distinct {
			return "", err
		}
		return string(key), nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: refused without a duplicate: %w", sql, cause)
	}
	return err
}

func (tr *tableRun) dropIndex(ctx context.Context, _ *rand.Rand) error {
	for name := range tr.published {
		sql := fmt.Sprintf("ALTER TABLE %s DROP INDEX %s", tr.name, name)
		delete(tr.published, name)
		tr.dropped++
		if err := tr.node.exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		return nil
	}
	return nil
}

func (tr *tableRun) takeSnapshot(ctx context.Context) error {
	ts, err := tr.node.store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	s := snapshot{ts: ts}
	for _, p := range tr.published {
		s.indexes = append(s.indexes, p.info)
	}
	s.hold, err = tr.node.store.HoldGC(ctx, fmt.Sprintf("model/%s/%d", tr.name, ts), ts, time.Hour)
	if err != nil {
		return err
	}
	tr.snapshots = append(tr.snapshots, s)
	return nil
}

// checkEverything compares all snapshots, and the end, with the model.
func (tr *tableRun) checkEverything(ctx context.Context) error {
	if err := tr.takeSnapshot(ctx); err != nil {
		return err
	}
	for _, s := range tr.snapshots {
		if err := tr.node.checkSnapshot(ctx, tr.name, &tr.history, s.ts, s.indexes); err != nil {
			return err
		}
		if err := s.hold.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

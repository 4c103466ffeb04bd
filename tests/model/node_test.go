package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/parser"
	pmysql "github.com/pingcap/tidb/pkg/parser/mysql"
	_ "github.com/pingcap/tidb/pkg/types/parser_driver" // literals in parsed statements
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/catalog"
	"fastddl/config"
	"fastddl/ddl"
	"fastddl/ddl/mdl"
	"fastddl/event"
	"fastddl/kv/pebblekv"
)

// errCrash stops a job where it is, as if the process had died there.
var errCrash = errors.New("crash")

// node is a server without its SQL front. Its DDL component dies now and then
// and is replaced by a new one over the same store.
type node struct {
	store   *pebblekv.Store
	faulty  *faultyStore
	catalog *catalog.Catalog
	locks   *mdl.Manager
	globals *config.Globals
	tempDir string
	options backfill.Options
	dice    *dice
	journal *journal
	// mayCrash and mayLoseFiles say what happens beside requests of clients, of
	// which there is one every unrest, or sooner.
	mayCrash, mayLoseFiles bool
	unrest                 time.Duration
	// rowID gives out hidden row IDs.
	rowID atomic.Int64

	// mu is held shared while ddl is used, exclusively while it is replaced.
	mu  sync.RWMutex
	ddl *ddl.DDL
	// crashes counts the jobs that died, replaced those of them whose node has
	// been replaced since.
	crashes, replaced atomic.Int64
	replacing         atomic.Bool
	restarts          int
}

// openNode opens a node with random settings on a store in dir.
func openNode(t *testing.T, dir string, rng *rand.Rand) *node {
	t.Helper()
	n := &node{
		globals: config.NewGlobals(), tempDir: filepath.Join(dir, "temp"), dice: newDice(rng),
		mayCrash: oneIn(rng, 2), mayLoseFiles: oneIn(rng, 4),
		unrest: pick(rng, 5*time.Millisecond, 30*time.Millisecond, 100*time.Millisecond),
	}
	n.setRandomly(config.DiskQuota, "16MiB", "1GiB")
	n.setRandomly(config.MemoryQuota, "1MiB", "64MiB")
	n.setRandomly(config.ErrorCountLimit, "3", "512")
	n.changeVariable()

	var err error
	n.store, err = pebblekv.Open(filepath.Join(dir, "store"), pebblekv.Options{
		DisableSync: true,
		CacheBytes:  16 << 20,
		GCLifeTime:  func() time.Duration { return 100 * time.Millisecond },
	})
	require.NoError(t, err)
	n.faulty = &faultyStore{
		Store: n.store, dice: n.dice,
		oneIn: pick(rng, 0, 0, 100, 500), pause: pick(rng, 0, time.Millisecond, 5*time.Millisecond),
	}
	n.faulty.off.Store(true) // until there are tables
	n.options = backfill.Options{
		Store: n.faulty, Globals: n.globals, Bus: new(event.Bus),
		BatchRows:          pick(rng, 1, 16, 256),
		TaskBytes:          pick(rng, uint64(1<<10), 1<<20),
		CheckpointInterval: pick(rng, time.Millisecond, 20*time.Millisecond, time.Minute),
		TargetFileBytes:    pick(rng, uint64(4<<10), 1<<20),
	}
	// So that a build of so many batches has a chance to end.
	n.faulty.oneIn *= 1 + 16/n.options.BatchRows
	n.journal = newJournal(n.options.Bus)
	n.catalog, err = catalog.Open(t.Context(), n.faulty)
	require.NoError(t, err)
	n.locks = mdl.NewManager(n.catalog, mdl.Options{Enabled: func() bool { return n.globals.Bool(config.EnableMetadataLock) }})
	n.ddl, err = n.start(t.Context())
	require.NoError(t, err)
	return n
}

// describe is what was chosen for the node.
func (n *node) describe() string {
	return fmt.Sprintf("batches of %d rows, tasks of %d bytes, checkpoints every %s, files of %d bytes, "+
		"scans pause up to %s, unrest every %s, faults 1 in %d, crashes %v, lost files %v, error limit %s",
		n.options.BatchRows, n.options.TaskBytes, n.options.CheckpointInterval, n.options.TargetFileBytes,
		n.faulty.pause, n.unrest, n.faulty.oneIn, n.mayCrash, n.mayLoseFiles, n.globals.Get(config.ErrorCountLimit))
}

// start returns a new DDL component over the store, started.
func (n *node) start(ctx context.Context) (*ddl.DDL, error) {
	defer n.faulty.off.Store(n.faulty.off.Swap(true))
	d, err := ddl.New(ddl.Options{
		Catalog: n.catalog, Locks: n.locks, Globals: n.globals, Bus: n.options.Bus,
		Backfiller:    ddl.NewBackfiller(n.options),
		TempDir:       n.tempDir,
		CleanInterval: 50 * time.Millisecond,
		Hook:          n.hook,
	})
	if err != nil {
		return nil, err
	}
	return d, d.Start(ctx)
}

// hook delays a job, or lets it die.
func (n *node) hook(_ context.Context, p ddl.HookPoint) error {
	if n.dice.intn(4) == 0 {
		time.Sleep(time.Duration(n.dice.intn(8)) * time.Millisecond)
	}
	if n.mayCrash && !n.faulty.off.Load() && n.dice.intn(100) == 0 {
		n.journal.add("job %d dies %s", p.JobID, p)
		n.crashes.Add(1)
		return errCrash
	}
	return nil
}

// down says that the DDL component, or a job in it, has died, so that nobody
// knows what has become of the jobs.
func (n *node) down() bool { return n.replacing.Load() || n.crashes.Load() > n.replaced.Load() }

// restart replaces the DDL component, sometimes before the old one has noticed.
func (n *node) restart(ctx context.Context) error {
	n.replacing.Store(true)
	defer n.replacing.Store(false)
	n.journal.add("the owner is replaced")
	died := n.crashes.Load()
	var next *ddl.DDL
	var err error
	overlap := n.dice.intn(3) == 0
	if overlap {
		if next, err = n.start(ctx); err != nil {
			return fmt.Errorf("take over: %w", err)
		}
		time.Sleep(time.Duration(n.dice.intn(20)) * time.Millisecond)
	}
	// This ends all statements that wait for their jobs.
	if err := n.ddl.Close(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !overlap {
		if next, err = n.start(ctx); err != nil {
			return fmt.Errorf("start again: %w", err)
		}
	}
	n.ddl = next
	n.restarts++
	n.replaced.Store(died)
	return nil
}

func (n *node) close(t *testing.T) {
	t.Helper()
	require.NoError(t, n.ddl.Close())
	require.NoError(t, n.store.Close())
}

// exec runs a DDL statement to its end.
func (n *node) exec(ctx context.Context, sql string) error {
	stmt, err := parser.New().ParseOneStmt(sql, "", "")
	if err != nil {
		return fmt.Errorf("parse %q: %w", sql, err)
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	_, err = n.ddl.Execute(ctx, ddl.Request{
		Stmt: stmt, SQL: sql, CurrentDB: dbName, Loc: time.UTC, SQLMode: pmysql.ModeStrictTransTables,
	})
	return err
}

// jobs returns all jobs, or false while nobody knows them.
func (n *node) jobs(ctx context.Context) ([]ddl.JobInfo, bool, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	jobs, err := n.ddl.Jobs(ctx)
	if n.down() || errors.Is(err, errInjected) {
		return nil, false, nil
	}
	return jobs, true, err
}

func ended(j *ddl.JobInfo) bool { return !j.EndTime.IsZero() }

// awaitJob waits until the job of a statement has ended. It returns nil if the
// statement was never queued.
func (n *node) awaitJob(ctx context.Context, sql string) (*ddl.JobInfo, error) {
	for {
		jobs, known, err := n.jobs(ctx)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(jobs, func(j ddl.JobInfo) bool { return j.Query == sql })
		switch {
		case i >= 0 && ended(&jobs[i]):
			return &jobs[i], nil
		case i < 0 && known:
			return nil, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("job does not end: %w: %+v", err, jobs)
		}
		time.Sleep(time.Millisecond)
	}
}

// collectGarbage runs GC over and over until ctx ends.
func (n *node) collectGarbage(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := n.store.RunGC(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// requireNothingLeft waits until no snapshot needs what was dropped, and it has
// been deleted.
func (n *node) requireNothingLeft(t *testing.T, table string) {
	t.Helper()
	n.faulty.off.Store(true)
	deadline := time.Now().Add(20 * time.Second)
	for {
		require.NoError(t, n.store.RunGC(t.Context()))
		err := n.checkNothingLeft(t.Context(), table)
		if err == nil {
			return
		}
		require.True(t, time.Now().Before(deadline), "%v", err)
		time.Sleep(50 * time.Millisecond)
	}
}

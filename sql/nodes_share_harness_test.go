package sql_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/backfill/execution"
	"fastddl/config"
	"fastddl/ddl"
	"fastddl/ddl/dist"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/kv"
	"fastddl/sql"
)

// buildNodes are several nodes of a store that build indexes together, small tables
// too: clients are connected to the first.
type buildNodes struct {
	*env
	of    *cluster
	nodes []*buildNode
}

// buildNode is one of them.
type buildNode struct {
	*fakeNode
	ddl    *ddl.DDL
	fences *fences
	temp   string
	scope  atomic.Pointer[string]
	// part, if it is set, is called before the node builds a part, the first or another; an
	// error of it is that of the build.
	part atomic.Pointer[func(ctx context.Context, t dist.SubtasksTask) error]
	// comparing is the same for parts that it compares.
	comparing atomic.Pointer[func(ctx context.Context) error]
	// fails, if it is set, is what the next part that it compares fails with.
	fails atomic.Pointer[error]
	// miscounts makes the next part that it builds one row too large.
	miscounts atomic.Bool
	// hook is called by the node's jobs; that of the first is the environment's.
	hook atomic.Pointer[func(ctx context.Context, p ddl.HookPoint) error]

	mu     sync.Mutex
	built  int // parts, in so many builds
	builds int
	sums   int                  // parts that it has compared
	sumsAt map[uint64]int       // the same by their timestamps
	live   *ingest.LiveSettings // of the part that it has claimed last
	// leave lets it go on where it was stopped.
	leave func()
}

// sized is a store that says that each of its ranges has a mebibyte.
type sized struct{ kv.Store }

func (s sized) Ranges(ctx context.Context, r kv.KeyRange) ([]kv.SizedRange, error) {
	ranges, err := s.Store.Ranges(ctx, r)
	for i := range ranges {
		ranges[i].Bytes = 1 << 20
	}
	return ranges, err
}

// nodeBackfiller is the backfiller of a node.
type nodeBackfiller struct {
	ddl.Backfiller
	node *buildNode
}

func (b *nodeBackfiller) BackfillSubtasks(ctx context.Context, t dist.SubtasksTask) ([]execution.SubtaskResult, error) {
	b.node.mu.Lock()
	b.node.live = t.Settings
	b.node.mu.Unlock()
	hook := func(ctx context.Context) error {
		if part := b.node.part.Load(); part != nil {
			return (*part)(ctx, t)
		}
		return nil
	}
	if err := hook(ctx); err != nil {
		return nil, err
	}
	next := t.Next
	t.Next = func(ctx context.Context) (backfill.HeldSubtask, bool, error) {
		p, ok, err := next(ctx)
		if ok {
			err = hook(ctx)
		}
		return p, ok, err
	}
	results, err := b.Backfiller.BackfillSubtasks(ctx, t)
	if err == nil {
		b.node.mu.Lock()
		b.node.built += len(results)
		b.node.builds++
		b.node.mu.Unlock()
	}
	if err == nil && b.node.miscounts.CompareAndSwap(true, false) {
		results[0].Rows++
	}
	return results, err
}

func (b *nodeBackfiller) CompareSubtask(ctx context.Context, t dist.SubtaskTask) (execution.SubtaskResult, error) {
	if hook := b.node.comparing.Load(); hook != nil {
		if err := (*hook)(ctx); err != nil {
			return execution.SubtaskResult{}, err
		}
	}
	if err := b.node.fails.Swap(nil); err != nil {
		return execution.SubtaskResult{}, *err
	}
	result, err := b.Backfiller.CompareSubtask(ctx, t)
	if err == nil {
		b.node.mu.Lock()
		b.node.sums++
		if b.node.sumsAt == nil {
			b.node.sumsAt = make(map[uint64]int)
		}
		b.node.sumsAt[t.TS]++
		b.node.mu.Unlock()
	}
	return result, err
}

// newBuildNodes opens a number of nodes.
func newBuildNodes(t *testing.T, count int) *buildNodes {
	t.Helper()
	n := &buildNodes{of: &cluster{}}
	globals := config.NewGlobals()
	first := n.node("node1")
	n.env = newEnv(t, func(o *sql.Options) {
		first.open(o.Builds, o.TempDir)
		o.Globals, o.Cluster, o.Builds = globals, first, first.fences
		o.Backfiller = first.backfiller(globals, o.Bus)
	})
	first.ddl = n.DDL()
	n.client().run("SET GLOBAL tidb_enable_dist_task = ON; SET GLOBAL fastddl_ddl_part_size = 1") // TiDB's tests are without the first
	for i := 2; i <= count; i++ {
		n.join(fmt.Sprint("node", i))
	}
	return n
}

func (n *buildNodes) node(name string) *buildNode {
	c := &buildNode{fakeNode: n.of.node(name)}
	c.scope.Store(new(string))
	n.nodes = append(n.nodes, c)
	return c
}

func (c *buildNode) open(builds kv.Store, temp string) {
	c.fences, c.temp = &fences{Store: sized{builds}}, temp
}

func (c *buildNode) backfiller(globals *config.Globals, bus *event.Bus) ddl.Backfiller {
	return &nodeBackfiller{ddl.NewBackfiller(backfill.Options{Store: c.fences, Globals: globals, Bus: bus}), c}
}

// join opens one more node.
func (n *buildNodes) join(name string) *buildNode {
	c := n.node(name)
	c.open(n.store.Builds(), n.dir+"/"+name)
	bus := new(event.Bus)
	var err error
	c.ddl, err = ddl.New(ddl.Options{
		Storage: n.store.Storage(), Domain: n.Domain(), Builds: c.fences, Globals: n.globals, Bus: bus, Logger: zap.NewNop(),
		TempDir: c.temp, Cluster: c, Backfiller: c.backfiller(n.globals, bus), Scope: func() string { return *c.scope.Load() },
		Hook: func(ctx context.Context, p ddl.HookPoint) error {
			if hook := c.hook.Load(); hook != nil {
				return (*hook)(ctx, p)
			}
			return nil
		},
	})
	require.NoError(n.t, err)
	require.NoError(n.t, c.ddl.Start(n.t.Context()))
	n.t.Cleanup(func() { require.NoError(n.t, c.ddl.Close()) })
	return c
}

// parts is how many parts the node has built.
func (c *buildNode) parts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.built
}

// compared is how many parts the node has compared.
func (c *buildNode) compared() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sums
}

// comparedAfter is how many parts the node has compared at timestamps after ts.
func (c *buildNode) comparedAfter(ts uint64) (parts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, n := range c.sumsAt {
		if at > ts {
			parts += n
		}
	}
	return parts
}

// totalOf returns what all nodes have done together; each must have done some of it.
func (n *buildNodes) totalOf(done func(c *buildNode) int) (total int) {
	n.t.Helper()
	for _, c := range n.nodes {
		require.Positive(n.t, done(c), c.name)
		total += done(c)
	}
	return total
}

// gate returns what waits until its context ends or leave is called; the channel is closed
// when a caller waits.
func gate() (wait func(ctx context.Context) error, arrived <-chan struct{}, leave func()) {
	came, left := make(chan struct{}), make(chan struct{})
	var once sync.Once
	wait = func(ctx context.Context) error {
		once.Do(func() { close(came) })
		select {
		case <-left:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return wait, came, func() { close(left) }
}

// stop makes the node wait in the next part that it claims, until the part is taken from
// it or leave is called. The channel is closed when it has claimed one.
func (c *buildNode) stop() (arrived <-chan struct{}, leave func()) {
	wait, arrived, open := gate()
	hook := func(ctx context.Context, _ dist.SubtasksTask) error { return wait(ctx) }
	c.part.Store(&hook)
	c.leave = sync.OnceFunc(func() {
		c.part.Store(nil)
		open()
	})
	return arrived, c.leave
}

// stopComparing is stop for parts that the node compares.
func (c *buildNode) stopComparing() (arrived <-chan struct{}, leave func()) {
	wait, arrived, open := gate()
	c.comparing.Store(&wait)
	c.leave = sync.OnceFunc(func() {
		c.comparing.Store(nil)
		open()
	})
	return arrived, c.leave
}

// threads is the setting that the node's part is built under.
func (c *buildNode) threads() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live.Get().Workers
}

// alive says that the others take the node for a member.
func (c *buildNode) alive() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.life != nil
}

// fencedRanges is how many ranges were fenced by all nodes.
func (n *buildNodes) fencedRanges() (count int) {
	for _, c := range n.nodes {
		count += c.fences.count()
	}
	return count
}

// startStopped starts a statement and returns when each node has claimed a part of it, in
// which it stops until leave is called.
func (n *buildNodes) startStopped(statement string) (result <-chan error, leave func()) {
	n.t.Helper()
	return n.startStoppedBy((*buildNode).stop, statement)
}

// startStoppedBy is startStopped for parts in which stop makes a node wait.
func (n *buildNodes) startStoppedBy(stop func(c *buildNode) (arrived <-chan struct{}, leave func()), statement string) (result <-chan error, leave func()) {
	n.t.Helper()
	var arrived []<-chan struct{}
	var leaves []func()
	for _, c := range n.nodes {
		came, leave := stop(c)
		arrived, leaves = append(arrived, came), append(leaves, leave)
	}
	result = n.start(statement)
	for _, came := range arrived {
		reach(n.t, came)
	}
	return result, func() {
		for _, leave := range leaves {
			leave()
		}
	}
}

// jobID is that of the only job.
func (n *buildNodes) jobID(c *client) (id int64) {
	c.t.Helper()
	_, err := fmt.Sscan(c.one("SELECT job_id FROM mysql.fastddl_ddl_record"), &id)
	require.NoError(c.t, err)
	return id
}

// requireBuilt checks an index that was built together, and that nothing is left of it
// but the index.
func (n *buildNodes) requireBuilt(c *client, table string) {
	c.t.Helper()
	c.check(table)
	n.requireNothingLeft(c)
}

func (n *buildNodes) requireNothingLeft(c *client) {
	c.t.Helper()
	require.Empty(c.t, c.run("SELECT job_id FROM mysql.fastddl_build_parts"))
	require.Empty(c.t, c.run("SELECT job_id FROM mysql.fastddl_ddl_record"))
	for _, node := range n.nodes {
		require.Eventually(c.t, func() bool {
			entries, err := os.ReadDir(node.temp)
			return os.IsNotExist(err) || err == nil && len(entries) == 0
		}, hangTimeout, time.Millisecond, "files of %s are left", node.name)
	}
}

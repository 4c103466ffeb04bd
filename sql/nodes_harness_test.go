package sql_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fastddl/ddl"
	"fastddl/ddl/member"
	"fastddl/event"
	"fastddl/kv"
	"fastddl/sql"
)

// cluster lists the nodes that are alive, as the test wants it.
type cluster struct {
	mu    sync.Mutex
	next  int
	nodes []*fakeNode
}

// fakeNode is a node's view of it.
type fakeNode struct {
	of      *cluster
	name    string
	changed chan struct{}
	// life is the membership that the others believe in, nil if they believe in none.
	life *fakeMember
	// shut keeps the node from joining.
	shut chan struct{}
}

type fakeMember struct {
	node *fakeNode
	name string
	dead atomic.Bool
	gone chan struct{}
	once sync.Once
}

func (c *cluster) node(name string) *fakeNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &fakeNode{of: c, name: name, changed: make(chan struct{}, 1)}
	c.nodes = append(c.nodes, n)
	return n
}

func (c *cluster) tell() {
	for _, n := range c.nodes {
		select {
		case n.changed <- struct{}{}:
		default:
		}
	}
}

// Join implements member.Cluster.
func (n *fakeNode) Join(ctx context.Context) (member.Member, error) {
	for {
		n.of.mu.Lock()
		shut := n.shut
		if shut == nil {
			n.of.next++
			life := &fakeMember{node: n, name: fmt.Sprintf("%s/%d", n.name, n.of.next), gone: make(chan struct{})}
			n.life = life
			n.of.mu.Unlock()
			return life, nil
		}
		n.of.mu.Unlock()
		select {
		case <-shut:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Members implements member.Cluster.
func (n *fakeNode) Members(context.Context) (map[string]bool, error) {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	members := make(map[string]bool)
	for _, other := range n.of.nodes {
		if other.life != nil {
			members[other.life.name] = true
		}
	}
	return members, nil
}

// Changed implements member.Cluster.
func (n *fakeNode) Changed() <-chan struct{} { return n.changed }

// Notify implements member.Cluster.
func (n *fakeNode) Notify(context.Context) {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	n.of.tell()
}

// Close implements member.Cluster.
func (n *fakeNode) Close() error { return nil }

// forget makes the others believe that the node is gone, and returns its life, which does
// not know.
func (n *fakeNode) forget() *fakeMember {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	life := n.life
	n.life = nil
	n.of.tell()
	return life
}

// shutOut keeps the node from joining until the returned function is called.
func (n *fakeNode) shutOut() (letIn func()) {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	shut := make(chan struct{})
	n.shut = shut
	return func() {
		n.of.mu.Lock()
		defer n.of.mu.Unlock()
		n.shut = nil
		close(shut)
	}
}

// Name implements member.Member.
func (m *fakeMember) Name() string { return m.name }

// Alive implements member.Member.
func (m *fakeMember) Alive() bool { return !m.dead.Load() }

// Gone implements member.Member.
func (m *fakeMember) Gone() <-chan struct{} { return m.gone }

// notice makes the node know that it is gone.
func (m *fakeMember) notice() {
	m.dead.Store(true)
	m.once.Do(func() { close(m.gone) })
}

// Leave implements member.Member.
func (m *fakeMember) Leave(context.Context) error {
	m.notice()
	m.node.of.mu.Lock()
	defer m.node.of.mu.Unlock()
	if m.node.life == m {
		m.node.life = nil
	}
	m.node.of.tell()
	return nil
}

// nodes are two nodes of a store: clients are connected to the first.
type nodes struct {
	*env
	of            *cluster
	first, second *fakeNode
	// other is the second node.
	other *ddl.DDL
	// otherHook is called by the second node.
	otherHook atomic.Pointer[func(ctx context.Context, p ddl.HookPoint) error]
	// otherWarned are the second node's warnings.
	otherWarned *observer.ObservedLogs
	fences      *fences
}

// fences is a store that counts the ranges that were fenced.
type fences struct {
	kv.Store
	mu     sync.Mutex
	ranges []kv.KeyRange
}

// Fence implements kv.Fencer.
func (f *fences) Fence(_ context.Context, ranges ...kv.KeyRange) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ranges = append(f.ranges, ranges...)
	return nil
}

// forget begins to count anew.
func (f *fences) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ranges = nil
}

func (f *fences) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ranges)
}

func newNodes(t *testing.T, changes ...func(o *sql.Options)) *nodes {
	t.Helper()
	n := &nodes{of: &cluster{}}
	n.first, n.second = n.of.node("first"), n.of.node("second")
	n.env = newEnv(t, append([]func(o *sql.Options){func(o *sql.Options) {
		n.fences = &fences{Store: o.Builds}
		o.Cluster, o.Builds = n.first, n.fences
	}}, changes...)...)
	core, warned := observer.New(zap.WarnLevel)
	n.otherWarned = warned
	var err error
	n.other, err = ddl.New(ddl.Options{
		Storage: n.store.Storage(), Domain: n.Domain(), Builds: n.fences, Globals: n.globals, Bus: new(event.Bus), Logger: zap.New(core),
		TempDir: n.dir + "/tmp2", Cluster: n.second,
		Hook: func(ctx context.Context, p ddl.HookPoint) error {
			if hook := n.otherHook.Load(); hook != nil {
				return (*hook)(ctx, p)
			}
			return nil
		},
	})
	require.NoError(t, err)
	require.NoError(t, n.other.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, n.other.Close()) })
	return n
}

// stopAt stops the first node's job at a place, regardless of its context, as a
// process is stopped by a signal. The channel is closed when it has arrived there; leave
// lets it go on, and does nothing the second time; the end of the test does it, too.
func (n *nodes) stopAt(at ddl.HookPoint) (arrived <-chan struct{}, leave func()) {
	came, left := make(chan struct{}), make(chan struct{})
	var once sync.Once
	n.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if matches(p, at) {
			once.Do(func() {
				close(came)
				<-left
			})
		}
		return nil
	})
	leave = sync.OnceFunc(func() { close(left) })
	n.t.Cleanup(leave)
	return came, leave
}

// stopOther stops the second node's job before its first action.
func (n *nodes) stopOther() (arrived <-chan struct{}, leave func()) {
	came, left := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hook := func(ctx context.Context, _ ddl.HookPoint) error {
		once.Do(func() {
			close(came)
			select {
			case <-left:
			case <-ctx.Done():
			}
		})
		return nil
	}
	n.otherHook.Store(&hook)
	return came, sync.OnceFunc(func() { close(left) })
}

// joined waits until the first node is a member.
func (n *nodes) joined(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		n.of.mu.Lock()
		defer n.of.mu.Unlock()
		return n.first.life != nil
	}, hangTimeout, time.Millisecond, "it does not join")
}

// deleteOnly waits until the first node's only job is delete-only, and returns its ID.
func (n *nodes) deleteOnly(t *testing.T) (id int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		jobs := n.DDL().Unfinished()
		if len(jobs) == 1 && jobs[0].Step == "delete-only" {
			id = jobs[0].ID
			return true
		}
		return false
	}, hangTimeout, time.Millisecond)
	return id
}

// state is everything of a job that others can see.
func (n *nodes) state(c *client) string {
	c.t.Helper()
	var parts []string
	for _, query := range []string{
		"SELECT CONVERT(record USING utf8mb4), CONVERT(settings USING utf8mb4), HEX(checkpoint) FROM mysql.fastddl_ddl_record",
		"SELECT job_id, type, HEX(job_meta) FROM mysql.tidb_ddl_job", "SELECT job_id, version FROM mysql.tidb_mdl_info",
		"SELECT job_id FROM mysql.fastddl_ddl_record_history",
	} {
		parts = append(parts, c.run(query)...)
	}
	version, err := meta.NewReader(n.store.Storage().GetSnapshot(tidbkv.MaxVersion)).GetSchemaVersion()
	require.NoError(c.t, err)
	parts = append(parts, fmt.Sprint("schema version ", version))
	holds, err := n.store.Builds().GCHolds(context.Background())
	require.NoError(c.t, err)
	for _, name := range slices.Sorted(maps.Keys(holds)) {
		if strings.HasSuffix(name, "-1") { // the second owner's
			parts = append(parts, fmt.Sprint(name, holds[name]))
		}
	}
	return strings.Join(parts, "\n")
}

// idle waits until the first node runs no job.
func (n *nodes) idle(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return len(n.DDL().Unfinished()) == 0 }, hangTimeout, time.Millisecond, "it has not given up")
}

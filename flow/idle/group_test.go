package idle

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeTree is a tree in a temporary folder. Its mkdir adds the files that the kernel's adds.
type fakeTree struct {
	tree
	t *testing.T
}

// newFakeTree has this process, and process 1, in a control group.
func newFakeTree(t *testing.T, version int, group string) *fakeTree {
	f := &fakeTree{t: t}
	f.root = t.TempDir()
	f.mkdir = func(dir string) error {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		files := map[string]string{"cgroup.procs": "", "cpu.idle": "0\n", "cpu.shares": "1024\n", "cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}
		if version == 2 {
			files = map[string]string{"cgroup.procs": "", "cgroup.type": "domain\n", "cpu.idle": "0\n", "cpu.weight": "100\n", "cpu.max": "max 100000\n"}
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	f.rmdir = func(dir string) error {
		if text, err := readText(filepath.Join(dir, "cgroup.procs")); err == nil && text != "" {
			return &os.PathError{Op: "rmdir", Path: dir, Err: syscall.EBUSY}
		}
		return os.RemoveAll(dir)
	}
	line, mounted, dir := "2:cpu,cpuacct:"+group, "40 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n", "sys/fs/cgroup/cpu,cpuacct"
	if version == 2 {
		line, mounted, dir = "0::"+group, "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n", "sys/fs/cgroup"
	}
	f.write("proc/self/mountinfo", "23 1 8:1 / / rw - ext4 /dev/root rw\n"+mounted)
	for _, pid := range []string{"self", "1", fmt.Sprint(os.Getpid())} {
		f.write("proc/"+pid+"/cgroup", line+"\n")
	}
	require.NoError(t, os.MkdirAll(f.path(dir, group), 0o755))
	require.NoError(t, os.MkdirAll(f.path("proc/self/ns"), 0o755))
	require.NoError(t, os.Symlink(initialNamespace, f.path("proc/self/ns/cgroup")))
	return f
}

// write writes a file, with its folders.
func (f *fakeTree) write(name, text string) {
	f.t.Helper()
	require.NoError(f.t, os.MkdirAll(filepath.Dir(f.path(name)), 0o755))
	require.NoError(f.t, os.WriteFile(f.path(name), []byte(text), 0o644))
}

// namespaced makes the process one of a container, which sees its own group as the root.
func (f *fakeTree) namespaced() {
	f.t.Helper()
	require.NoError(f.t, os.Remove(f.path("proc/self/ns/cgroup")))
	require.NoError(f.t, os.Symlink("cgroup:[4026532000]", f.path("proc/self/ns/cgroup")))
	f.write("sys/fs/cgroup/cgroup.type", "domain\n")
}

// TestGroupIsMadeWhereItMayBe has a case for each layout that decides.
func TestGroupIsMadeWhereItMayBe(t *testing.T) {
	const v1, v2 = "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup"
	divides := func(dir string) func(*fakeTree) {
		return func(f *fakeTree) { f.write(filepath.Join(dir, "cgroup.subtree_control"), "cpu memory\n") }
	}
	limited := func(file, text string) func(*fakeTree) {
		return func(f *fakeTree) {
			divides(v2 + "/a")(f)
			f.write(v2+"/a/server/"+file, text)
		}
	}
	for _, test := range []struct {
		name    string
		version int
		group   string
		change  func(*fakeTree)
		parent  string // where the group is, or
		err     string
	}{
		{"version 1: a child", 1, "/a/server", nil, v1 + "/a/server", ""},
		{"version 1: a child of the root", 1, "/", nil, v1, ""},
		{"version 2: a sibling", 2, "/a/server", divides(v2 + "/a"), v2 + "/a", ""},
		{"version 2: limits that limit nothing", 2, "/a/server", limited("cpu.max", "max 100000\n"), v2 + "/a", ""},
		{"version 2: a child of the root of all groups", 2, "/", divides(v2), v2, ""},
		{"version 2: processor time is not divided", 2, "/a/server", nil, "", "does not divide processor time"},
		{"version 2: the root of a container", 2, "/", func(f *fakeTree) { divides(v2)(f); f.namespaced() }, "", "topmost"},
		{"version 2: a limit of memory", 2, "/a/server", limited("memory.max", "1073741824\n"), "", "memory.max"},
		{"version 2: a quota", 2, "/a/server", limited("cpu.max", "50000 100000\n"), "", "cpu.max"},
		{"version 2: processors of its own", 2, "/a/server", limited("cpuset.cpus", "0-1\n"), "", "cpuset.cpus"},
		{"outside of what is seen", 2, "/../b", divides(v2), "", "not visible"},
		{"nothing is mounted", 2, "/a", func(f *fakeTree) { f.write("proc/self/mountinfo", "23 1 8:1 / / rw - ext4 /dev/root rw\n") }, "", "no control groups are mounted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFakeTree(t, test.version, test.group)
			if test.change != nil {
				test.change(f)
			}
			dir, err := f.makeGroup()
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, f.path(test.parent), filepath.Dir(dir))
			knob := groupKnob{dir, test.version}
			require.Equal(t, "idle", knob.String())
			require.NoError(t, knob.set(3))
			require.Equal(t, map[int]string{1: "64", 2: "8"}[test.version], knob.String())
			require.NoError(t, knob.set(0))
			require.Equal(t, "idle", knob.String())
			require.NoError(t, f.removeGroup(dir))
			require.NoDirExists(t, dir)
		})
	}
}

// TestGroupIsLeastWithoutClassIdle: kernels before 5.15 have no idle groups.
func TestGroupIsLeastWithoutClassIdle(t *testing.T) {
	for version, want := range map[int]string{1: "2", 2: "1"} {
		f := newFakeTree(t, version, "/")
		dir := f.path("sys/fs/cgroup/g")
		require.NoError(t, f.mkdir(dir))
		require.NoError(t, os.Remove(filepath.Join(dir, "cpu.idle")))
		knob := groupKnob{dir, version}
		require.NoError(t, knob.set(5))
		require.NoError(t, knob.set(0))
		require.Equal(t, want, knob.String())
	}
}

// TestGroupsOfDeadServersAreRemoved: those of living servers, those with processes and those of other programs stay.
func TestGroupsOfDeadServersAreRemoved(t *testing.T) {
	f := newFakeTree(t, 1, "/server")
	const parent = "sys/fs/cgroup/cpu,cpuacct/server/"
	own := fmt.Sprintf("fastddl-worker-%d-99", os.Getpid())
	for _, name := range []string{"fastddl-worker-77-1", "fastddl-worker-78-1", "fastddl-worker-1-3", "fastddl-worker-x", "other-77-1", own} {
		require.NoError(t, f.mkdir(f.path(parent, name)))
	}
	f.write(parent+"fastddl-worker-78-1/cgroup.procs", "123\n")
	first, err := f.makeGroup()
	require.NoError(t, err)
	second, err := f.makeGroup()
	require.NoError(t, err)
	entries, err := os.ReadDir(f.path(parent))
	require.NoError(t, err)
	var left []string
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	require.NoError(t, f.removeGroup(first))
	require.NoError(t, f.removeGroup(second))
	require.ElementsMatch(t, []string{"fastddl-worker-78-1", "fastddl-worker-1-3", "fastddl-worker-x", "other-77-1", filepath.Base(first), filepath.Base(second)}, left)
}

// TestMembershipFollowsMounts: in a container paths begin elsewhere than mounts.
func TestMembershipFollowsMounts(t *testing.T) {
	f := newFakeTree(t, 1, "/docker/abc/inner")
	f.write("proc/self/mountinfo", `40 31 0:29 /docker/abc /sys/fs/my\040groups ro - cgroup cgroup rw,cpu`+"\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n")
	m, err := f.membership(0, "cpu")
	require.NoError(t, err)
	require.Equal(t, membership{version: 1, mount: f.path("sys/fs/my groups"), dir: f.path("sys/fs/my groups/inner")}, m)
	require.Equal(t, []string{m.dir, m.mount}, m.chain())

	f.write("proc/self/cgroup", "2:cpu:/docker/abcd\n")
	m, err = f.membership(0, "cpu")
	require.NoError(t, err)
	require.True(t, m.outside)

	f.write("proc/self/cgroup", "3:memory:/x\n0::/y\n")
	m, err = f.membership(0, "cpu")
	require.NoError(t, err)
	require.Equal(t, 2, m.version, "no hierarchy of version 1 has the controller")
	require.Equal(t, f.path("sys/fs/cgroup/unified/y"), m.dir)
}

// TestGroupsThatAreKilledTogetherAreNoted: in them the OOM score protects no server.
func TestGroupsThatAreKilledTogetherAreNoted(t *testing.T) {
	f := newFakeTree(t, 2, "/pod/app")
	require.NoError(t, f.killedTogether(0))
	f.write("sys/fs/cgroup/pod/app/memory.oom.group", "0\n")
	require.NoError(t, f.killedTogether(0))
	f.write("sys/fs/cgroup/pod/memory.oom.group", "1\n")
	require.ErrorIs(t, f.killedTogether(0), errKilledTogether)
	require.NoError(t, newFakeTree(t, 1, "/").killedTogether(0))
}

// TestMeansAreOneLine shows what is logged.
func TestMeansAreOneLine(t *testing.T) {
	m := Means{Policy: "idle", Nice: 19, Uniform: true, Autogroup: true, AutogroupNice: 19, IOClass: "idle", OOMScore: 1000}
	require.Equal(t, "scheduling class idle, autogroup nice 19, I/O class idle, OOM score +1000", m.String())
	m = Means{Policy: "normal", Nice: 10, Group: "/sys/fs/cgroup/fastddl-worker-1-1", GroupWeight: "idle", IOClass: "none", Notes: []string{"no class idle: operation not permitted"}}
	require.Equal(t, "scheduling class normal with nice value 10 (some threads lower), control group fastddl-worker-1-1 of weight idle, I/O class none, OOM score +0; "+
		"no class idle: operation not permitted", m.String())
}

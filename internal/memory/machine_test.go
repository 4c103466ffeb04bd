package memory

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestGroupLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  uint64
	}{
		{"no groups", nil, noLimit},
		{"version 2, in a container", map[string]string{"sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30},
		{"version 2, no limit", map[string]string{
			"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
		}, noLimit},
		{"version 2, a group above", map[string]string{
			"proc/self/cgroup": "0::/a/b/c\n", "sys/fs/cgroup/a/b/c/memory.max": "max\n",
			"sys/fs/cgroup/a/b/memory.max": "4096\n", "sys/fs/cgroup/a/memory.max": "8192\n",
		}, 4096},
		{"version 1", map[string]string{
			"proc/self/cgroup":                                    "5:cpu:/x\n4:memory:/jobs/one\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          "9223372036854771712\n",
			"sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes": "536870912\n",
		}, 512 << 20},
		{"version 1, in a container", map[string]string{
			"proc/self/cgroup": "4:memory,hugetlb:/docker/0123\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n",
		}, 256 << 20},
		{"other controllers", map[string]string{
			"proc/self/cgroup": "4:cpu:/x\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1\n",
		}, noLimit},
		{"nonsense", map[string]string{
			"proc/self/cgroup": "hello\n0::/a\n", "sys/fs/cgroup/a/memory.max": "many\n", "sys/fs/cgroup/memory.max": "0\n",
		}, noLimit},
		{"out of the mount", map[string]string{
			"proc/self/cgroup": "0::/../..\n", "sys/fs/cgroup/memory.max": "77777\n",
		}, 77777},
	} {
		root := fstest.MapFS{}
		for name, content := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(content)}
		}
		require.Equal(t, c.want, groupLimit(root), c.name)
	}
}

func TestMachine(t *testing.T) {
	require.Greater(t, Machine(), int64(64<<20))
	require.Less(t, Machine(), int64(1)<<50)
}

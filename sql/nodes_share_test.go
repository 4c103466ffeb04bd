package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An index is built by all nodes, each of which has a part at the same time.
func TestNodesBuildTogether(t *testing.T) {
	n := newCrew(t, 3)
	c := n.client()
	table(c, 1000)
	result, leave := n.startStopped("ALTER TABLE t ADD INDEX i (b), ADD UNIQUE INDEX u (c)")
	require.Equal(t, "3", c.one("SELECT COUNT(DISTINCT holder) FROM mysql.fastddl_build_parts WHERE state = 'held'"))
	leave()
	require.NoError(t, wait(t, result))
	total := 0
	for _, node := range n.nodes {
		require.Positive(t, node.parts(), node.name)
		total += node.parts()
	}
	require.Equal(t, 12, total)
	require.Equal(t, "1000 100", c.lastJob("row_count, percent"))
	n.requireBuilt(c, "t")
}

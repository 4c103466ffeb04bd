package peer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCasesInBothDialects(t *testing.T) {
	c, err := CaseNamed("composite")
	require.NoError(t, err)
	require.Equal(t, "ADD INDEX i_kc (k, c(20))", c.mysqlAdd())
	require.Equal(t, "CREATE INDEX i_kc ON t (k, left(c, 20))", c.Indexes[0].postgresCreate("t", false))

	c, err = CaseNamed("unique")
	require.NoError(t, err)
	require.Equal(t, "ADD UNIQUE INDEX u_k (k, id)", c.mysqlAdd())
	require.Equal(t, "CREATE UNIQUE INDEX CONCURRENTLY u_k ON t (k, id)", c.Indexes[0].postgresCreate("t", true))

	c, err = CaseNamed("eight")
	require.NoError(t, err)
	require.Len(t, c.Indexes, 8)
	require.Equal(t, 8, strings.Count(c.mysqlAdd(), "INDEX "))

	_, err = CaseNamed("nine")
	require.ErrorContains(t, err, "int, char, composite, unique, eight")
}

func TestIndexesOfACaseDiffer(t *testing.T) {
	for _, c := range Cases() {
		seen := make(map[string]bool)
		for _, i := range c.Indexes {
			name := i.Name
			i.Name = "x"
			definition := i.postgresCreate("t", false)
			require.False(t, seen[definition], "%s: %s", c.Name, definition)
			require.False(t, seen[name])
			seen[definition], seen[name] = true, true
		}
	}
}

func TestBuffersFitTheTableAndTheMachine(t *testing.T) {
	small := Options{Rows: 1000, MemoryBytes: 32 << 30}
	require.Equal(t, uint64(1024), small.buffers(3, 0.5))
	big := Options{Rows: 100_000_000, MemoryBytes: 32 << 30}
	require.Equal(t, uint64(16<<10), big.buffers(3, 0.5))
	middle := Options{Rows: 8 << 20, MemoryBytes: 32 << 30}
	require.Equal(t, uint64(3*2000), middle.buffers(3, 0.5))
}

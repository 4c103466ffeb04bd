package sbtest

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRowsLookLikeSysbench(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	require.Len(t, C(rng), 119)
	require.Len(t, Pad(rng), 59)
	require.Regexp(t, `^\d{11}(-\d{11}){4}$`, Pad(rng))
	g, rows := Generator{Rows: blockRows + insertRows + 3, Seed: 1}, 0
	for block := range g.Blocks() {
		for query := range g.inserts(block) {
			require.True(t, strings.HasPrefix(query, "INSERT INTO sbtest1 (id, k, c, pad) VALUES ("))
			n := strings.Count(query, "'),(") + 1
			require.LessOrEqual(t, n, insertRows)
			rows += n
		}
	}
	require.Equal(t, g.Rows, rows)
}

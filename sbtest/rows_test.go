package sbtest_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/sbtest"
)

func TestRowsDependOnSizeAndSeedOnly(t *testing.T) {
	g := sbtest.Generator{Rows: 25_001, Seed: 7}
	require.Equal(t, 3, g.Blocks())
	require.Equal(t, 5_001, g.BlockRows(2))

	all, err := io.ReadAll(g.Reader(0, g.Blocks()))
	require.NoError(t, err)
	var parts []byte
	for b := range g.Blocks() {
		part, err := io.ReadAll(g.Reader(b, b+1))
		require.NoError(t, err)
		parts = append(parts, part...)
	}
	require.True(t, bytes.Equal(all, parts), "blocks can be made apart from each other")

	other := sbtest.Generator{Rows: 25_001, Seed: 8}
	require.NotEqual(t, other.AppendBlock(nil, 0), g.AppendBlock(nil, 0))
}

func TestRowsHaveTheShapeOfTheTable(t *testing.T) {
	g := sbtest.Generator{Rows: 12_345, Seed: 1}
	text, err := io.ReadAll(g.Reader(0, g.Blocks()))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	require.Len(t, lines, g.Rows)
	for i, line := range []string{lines[0], lines[g.Rows-1]} {
		columns := strings.Split(line, "\t")
		require.Len(t, columns, 4)
		require.Equal(t, []string{"1", "12345"}[i], columns[0])
		require.Len(t, columns[2], 119)
		require.Len(t, columns[3], 59)
	}
}

package model

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func fixed(n float64) string { return fmt.Sprintf("%.2f", n) }

func parse(t *testing.T, word string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(strings.ReplaceAll(word, "_", ""), 64)
	require.NoError(t, err)
	return n
}

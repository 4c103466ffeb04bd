package dump

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// The whole moves with the imports that the server runs, and ends at the size of all tables.
func TestMeterFollowsImports(t *testing.T) {
	var out bytes.Buffer
	m := newMeter(&out, false)
	table := &Table{Name: Name{"d", "t"}, section: section{bytes: 1000}}
	m.tables, m.total = 1, 1000
	m.start(table, WayImport)
	for _, step := range []struct {
		message string
		bytes   int64
	}{
		{"waits for earlier DDL", 0},
		{"31%, 310 of 1000 bytes read, about 7s left", 310},
		{"12%, 120 of 1000 bytes read", 310}, // it began anew
		{"97%, 1000 of 1000 bytes read", 970},
		{"", 970},
		{"900%", 1000},
	} {
		m.follow([]importJob{{target: "`d`.`t`", status: "running", phase: "importing", message: step.message, rows: 5}})
		require.Equal(t, step.bytes, m.bytes, step.message)
	}
	require.Equal(t, "0 of 1 tables, 1000 B of 1000 B; d.t importing 100%, 5 rows", progressLine(m.active, m.ended, m.tables, m.bytes, m.total))
	m.done(table, 5)
	require.EqualValues(t, 1000, m.bytes)
}

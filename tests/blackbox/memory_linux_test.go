package blackbox

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// memoryLimit is the limit of servers whose peak is looked at.
const memoryLimit = 1 << 30

// peak is the most memory that the process had resident since it was started, or since forgetPeak.
func (n *node) peak() int64 {
	n.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	require.NoError(n.t, err)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			require.NoError(n.t, err)
			return kib << 10
		}
	}
	require.Fail(n.t, "the kernel does not say")
	return 0
}

func (n *node) forgetPeak() {
	n.t.Helper()
	require.NoError(n.t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", n.cmd.Process.Pid), []byte("5"), 0o600))
}

// requireWithin does what is to keep within the limit.
func (n *node) requireWithin(what string, limit int64, do func()) {
	n.t.Helper()
	n.forgetPeak()
	before := n.peak()
	began := time.Now()
	do()
	peak := n.peak()
	n.t.Logf("%s: %v, %d MiB at the peak, %d before", what, time.Since(began).Round(time.Millisecond), peak>>20, before>>20)
	require.LessOrEqual(n.t, peak, limit, what)
}

// fillLong makes a table of n values of size bytes that do not compress.
func fillLong(t *testing.T, db *sql.DB, table string, n, size int) {
	t.Helper()
	mustExec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, k INT, v LONGBLOB, KEY k (k), KEY v (v(10)))")
	rnd := rand.NewChaCha8([32]byte{})
	const batch = 10
	for i := 0; i < n; i += batch {
		var args []any
		for k := i; k < i+batch; k++ {
			value := make([]byte, size)
			_, _ = rnd.Read(value)
			args = append(args, k, k%7, value)
		}
		mustExec(t, db, "INSERT INTO "+table+" VALUES (?, ?, ?)"+strings.Repeat(", (?, ?, ?)", batch-1), args...)
	}
}

// readAll reads a result without keeping it, and returns its rows and bytes.
func readAll(t *testing.T, db *sql.DB, query string) (rows, bytes int) {
	t.Helper()
	result, err := db.QueryContext(t.Context(), query)
	require.NoError(t, err, query)
	defer result.Close()
	columns, err := result.Columns()
	require.NoError(t, err)
	cells := make([]sql.RawBytes, len(columns))
	dest := make([]any, len(columns))
	for i := range cells {
		dest[i] = &cells[i]
	}
	for result.Next() {
		require.NoError(t, result.Scan(dest...), query)
		rows++
		for _, c := range cells {
			bytes += len(c)
		}
	}
	require.NoError(t, result.Err(), query)
	return rows, bytes
}

// TestLongValuesAreReadWithinTheMemoryLimit: TiDB itself holds what it looks up by an index, of 40 rows here.
func TestLongValuesAreReadWithinTheMemoryLimit(t *testing.T) {
	if !longTests() {
		t.Skip("takes long")
	}
	n := startNode(t, t.TempDir(), "--memory-limit", "1GiB")
	db := n.db()
	const rows = 300
	fillLong(t, db, "t", rows, 1<<20)
	for _, query := range []string{
		"SELECT * FROM t",
		"SELECT * FROM t ORDER BY id DESC",
	} {
		n.requireWithin(query, memoryLimit, func() {
			got, bytes := readAll(t, db, query)
			require.Equal(t, rows, got)
			require.Greater(t, bytes, rows<<20)
		})
	}
	n.requireWithin("by an index", memoryLimit, func() {
		got, _ := readAll(t, db, "SELECT * FROM t USE INDEX (k) WHERE k = 0 LIMIT 40")
		require.Equal(t, min(40, rows/7+1), got)
	})
	require.Zero(t, n.terminate())
}

// TestAnalyzeOfLongValuesWithinTheMemoryLimit: its samples hold the values whole.
func TestAnalyzeOfLongValuesWithinTheMemoryLimit(t *testing.T) {
	if !longTests() {
		t.Skip("takes long")
	}
	n := startNode(t, t.TempDir(), "--memory-limit", "1GiB")
	db := n.db()
	mustExec(t, db, "SET GLOBAL tidb_enable_auto_analyze = OFF")
	fillLong(t, db, "t", 160, 1<<20)
	for _, statement := range []string{"ANALYZE TABLE t", "ANALYZE TABLE t ALL COLUMNS", "ANALYZE TABLE t INDEX v"} {
		n.requireWithin(statement, memoryLimit, func() { mustExec(t, db, statement) })
	}
	require.Zero(t, n.terminate())
}

// fillDocuments makes a table of documents with a multi-valued index, which has an entry for each element.
func fillDocuments(t *testing.T, db *sql.DB, table string, n, elements int) {
	t.Helper()
	mustExec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, j JSON, KEY m ((CAST(j->'$.a' AS UNSIGNED ARRAY))))")
	for i := range n {
		var j strings.Builder
		j.WriteString(`{"a": [`)
		for e := range elements {
			if e > 0 {
				j.WriteByte(',')
			}
			j.WriteString(strconv.Itoa(i*elements + e))
		}
		j.WriteString("]}")
		mustExec(t, db, "INSERT INTO "+table+" VALUES (?, ?)", i, j.String())
	}
}

// TestCheckOfDocumentsWithinTheMemoryLimit: TiDB fetches a document for each of its entries.
func TestCheckOfDocumentsWithinTheMemoryLimit(t *testing.T) {
	if !longTests() {
		t.Skip("takes long")
	}
	n := startNode(t, t.TempDir(), "--memory-limit", "1GiB")
	db := n.db()
	fillDocuments(t, db, "t", 30, 2000)
	n.requireWithin("ADMIN CHECK TABLE", memoryLimit, func() { mustExec(t, db, "ADMIN CHECK TABLE t") })
	fillDocuments(t, db, "large", 4, 100_000)
	n.requireWithin("ADMIN CHECK TABLE of large documents, killed", memoryLimit, func() {
		checking := n.terminal()
		done := checking.start("ADMIN CHECK TABLE large")
		time.Sleep(30 * time.Second)
		mustExec(t, db, "KILL QUERY "+checking.id)
		if err := requireEnds(t, done); err != nil {
			require.ErrorContains(t, err, "1317")
		}
	})
	require.Zero(t, n.terminate())
}

package cluster

import (
	"cmp"
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/tests/cluster/standin"
)

var (
	benchRows    = flag.Int("bench.rows", 200_000, "of the table that BenchmarkAddIndex builds indexes on")
	benchLatency = flag.Duration("bench.latency", 0, "of each answer of the stores to a read or an import")
)

// builder is a way to build an index, as the variables that choose it.
type builder struct {
	name, engine, dist   string
	seconds, sent, files []float64 // of each round
	requests             map[string][]float64
}

// BenchmarkAddIndex builds an index on an INT column by us, and by TiDB's fast
// reorganisation alone and as a distributed task, in turns; -benchtime 5x is five rounds.
// The stores are a stand-in in the memory of this process, which shares the machine with
// the server: what a network and disks cost is not in the figures, and the bytes that the
// stores send tell more of a real cluster than the seconds do.
func BenchmarkAddIndex(b *testing.B) {
	needsImport(b)
	c := startCluster(b, nil)
	db := startNode(b, c).open()
	wideRows(db, *benchRows)
	conn := db.session()
	must(b, conn, "SET GLOBAL tidb_ddl_enable_fast_reorg = ON")
	ways := []*builder{
		{name: "fastddl", engine: "fastddl", dist: "OFF"},
		{name: "tidb", engine: "tidb", dist: "OFF"},
		{name: "tidb-dist", engine: "tidb", dist: "ON"},
	}
	for _, w := range ways { // each once, before it counts: caches, and tables that the first job makes
		w.build(b, c, db, conn)
		w.seconds, w.sent, w.files, w.requests = nil, nil, nil, nil
	}
	if *benchLatency > 0 {
		c.Faults().Inject(standin.Fault{Commands: []string{"Coprocessor", "MultiIngest"}, Latency: *benchLatency})
	}
	for b.Loop() {
		for _, w := range ways {
			w.build(b, c, db, conn)
		}
	}
	for _, w := range ways {
		b.ReportMetric(median(w.seconds), w.name+"-s")
		b.Logf("%-9s  %d rows, %d rounds: %.2f s (%.2f to %.2f); the stores sent %.1f bytes a row (%.1f to %.1f) and imported %.0f files", w.name, *benchRows,
			len(w.seconds), median(w.seconds), slices.Min(w.seconds), slices.Max(w.seconds),
			median(w.sent), slices.Min(w.sent), slices.Max(w.sent), median(w.files))
	}
	fmt.Println(requestTable(ways)) // b.Log would cut it
}

// requestTable is the requests of a build by kind, as medians.
func requestTable(ways []*builder) string {
	kinds := map[string]float64{} // with the most of any way
	head, rule := "| request |", "|---|"
	for _, w := range ways {
		head, rule = head+" "+w.name+" |", rule+"---:|"
		for kind, counts := range w.requests {
			kinds[kind] = max(kinds[kind], median(counts))
		}
	}
	sorted := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(kinds[b], kinds[a]), cmp.Compare(a, b))
	})
	lines := []string{"requests of a build, medians:", head, rule}
	for _, kind := range sorted {
		line := "| " + kind + " |"
		for _, w := range ways {
			n := 0.0 // of a kind that this way does not send
			if counts := w.requests[kind]; len(counts) > 0 {
				n = median(counts)
			}
			line += fmt.Sprintf(" %g |", n)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// requestsBy returns the requests so far, by kind and receiver.
func requestsBy(c *standin.Cluster) map[string]int64 {
	all := map[string]int64{}
	for kind, n := range c.Received() {
		all["TiKV "+kind] = n
	}
	for kind, n := range c.ReceivedByPD() {
		all["PD "+kind] = n
	}
	return all
}

// wideRows makes table t of n rows of some 200 bytes, as sysbench's, in eight regions.
func wideRows(db client, n int) {
	db.t.Helper()
	db.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)", fmt.Sprintf(
		"INSERT INTO t WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < %d) SELECT n, CRC32(n) >> 1, REPEAT(SHA1(n), 3), SHA1(-n) FROM r",
		min(n, 1000)))
	for have := 1000; have < n; have *= 2 {
		db.exec(fmt.Sprintf("INSERT INTO t SELECT id + %d, CRC32(id + %d) >> 1, c, pad FROM t WHERE id <= %d", have, have, n-have))
	}
	db.exec(fmt.Sprintf("SPLIT TABLE t BETWEEN (0) AND (%d) REGIONS 8", max(n, 8000)))
	require.Equal(db.t, fmt.Sprint(n), db.value("SELECT COUNT(*) FROM t"))
}

// build builds the index once, checks it and drops it.
func (w *builder) build(b *testing.B, c *standin.Cluster, db client, conn *sql.Conn) {
	b.Helper()
	must(b, conn, "SET fastddl_ddl_engine = "+w.engine)
	must(b, conn, "SET GLOBAL tidb_enable_dist_task = "+w.dist)
	jobs := db.value("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs")
	sent, files, began := c.Sent(), c.Imports().Imported(), time.Now()
	requests := requestsBy(c)
	must(b, conn, "ALTER TABLE t ADD INDEX v (v)")
	w.seconds = append(w.seconds, time.Since(began).Seconds())
	if w.requests == nil {
		w.requests = map[string][]float64{}
	}
	for kind, n := range requestsBy(c) {
		counts := w.requests[kind]
		for len(counts) < len(w.seconds)-1 { // the kind is new
			counts = append(counts, 0)
		}
		w.requests[kind] = append(counts, float64(n-requests[kind]))
	}
	w.sent = append(w.sent, float64(c.Sent()-sent)/float64(*benchRows))
	files = c.Imports().Imported() - files
	w.files = append(w.files, float64(files))
	require.Positive(b, files, "%s has imported nothing", w.name)
	require.Equal(b, w.engine == "fastddl", jobs != db.value("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs"), "%s: somebody else has built", w.name)
	must(b, conn, "ADMIN CHECK TABLE t", "ALTER TABLE t DROP INDEX v")
}

// median is the middle of values, or the mean of the two that are.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

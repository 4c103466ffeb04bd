package cluster

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/tests/cluster/standin"
)

var (
	shareRows    = flag.Int("share.rows", 60_000, "of the table that BenchmarkSharedBuild builds indexes on")
	shareUnique  = flag.Bool("share.unique", false, "the indexes are unique, so rows and entries are compared after the import")
	sharePart    = flag.Int("share.part", 5, "least size of a part, of the table's 16 regions")
	shareLatency = flag.Duration("share.latency", 200*time.Millisecond, "of each answer of the stores to a read or an import")
)

// longRows makes table t of n rows of which about 150 fill a page of the stores' answers,
// in 16 regions.
func longRows(db client, n int) {
	db.t.Helper()
	const atATime = 5000 // a transaction has 100 MiB at the most
	const columns = "SELECT n, REPEAT(SHA1(n), 175) FROM r"
	db.exec("CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(8000))", fmt.Sprintf("SPLIT TABLE t BETWEEN (0) AND (%d) REGIONS 16", max(n, 16_000)))
	for first := 0; first < n; first += atATime {
		db.exec(fmt.Sprintf("INSERT INTO t WITH RECURSIVE r(n) AS (SELECT %d UNION ALL SELECT n + 1 FROM r WHERE n < %d) "+columns, first, min(first+atATime, n)-1))
	}
}

// BenchmarkSharedBuild builds an index by one node and by three, in turns, over stores that
// take their time for each page of rows and each import, whoever asks: then what counts is
// how many ask. All nodes share this machine's cores.
func BenchmarkSharedBuild(b *testing.B) {
	c := startCluster(b, nil)
	nodes := sharing(b, c, 3)
	nodes[0].setGlobal("fastddl_ddl_part_size", fmt.Sprint(*sharePart)) // the stand-in does not tell how large regions are
	nodes[0].setGlobal("cte_max_recursion_depth", "10000")
	db := nodes[0].open()
	longRows(db, *shareRows)
	conn := db.session()
	c.Faults().Inject(standin.Fault{Commands: []string{"Coprocessor", "MultiIngest"}, Latency: *shareLatency})
	seconds := map[int][]float64{}
	kind := ""
	if *shareUnique {
		kind = "UNIQUE "
	}
	build := func(count int) float64 {
		must(b, conn, fmt.Sprintf("SET tidb_max_dist_task_nodes = %d", count))
		began := time.Now()
		must(b, conn, "ALTER TABLE t ADD "+kind+"INDEX c (c(50))")
		took := time.Since(began).Seconds()
		require.Equal(b, fmt.Sprint(*shareRows), db.lastJob("row_count"))
		must(b, conn, "ALTER TABLE t DROP INDEX c")
		return took
	}
	for b.Loop() {
		for _, count := range []int{1, 3} {
			seconds[count] = append(seconds[count], build(count))
		}
	}
	for _, count := range []int{1, 3} {
		s := seconds[count]
		b.Logf("%d nodes: %.1f s (%.1f to %.1f) for %d rows, %s an answer", count, median(s), slices.Min(s), slices.Max(s), *shareRows, *shareLatency)
	}
	b.ReportMetric(median(seconds[1])/median(seconds[3]), "times-as-fast")
}

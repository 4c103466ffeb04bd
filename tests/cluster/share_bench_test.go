package cluster

import (
	"database/sql"
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
// in 16 regions. Values of that type may be so long that a worker asks for two pages at a time and no more.
func longRows(db client, n int) {
	db.t.Helper()
	const atATime = 5000 // a transaction has at most 100 MiB
	const columns = "SELECT n, REPEAT(SHA1(n), 175) FROM r"
	db.exec("CREATE TABLE t (id INT PRIMARY KEY, c MEDIUMTEXT)", fmt.Sprintf("SPLIT TABLE t BETWEEN (0) AND (%d) REGIONS 16", max(n, 16_000)))
	for first := 0; first < n; first += atATime {
		db.exec(fmt.Sprintf("INSERT INTO t WITH RECURSIVE r(n) AS (SELECT %d UNION ALL SELECT n + 1 FROM r WHERE n < %d) "+columns, first, min(first+atATime, n)-1))
	}
}

// sharedWay is a way to build the index of BenchmarkSharedBuild.
type sharedWay struct {
	name, engine string
	nodes        int // that may build it; 1 turns distributed tasks off
	seconds      []float64
}

// BenchmarkSharedBuild builds an index by one node and by three, and by TiDB's fast
// reorganisation on the same nodes, in turns, over stores that take their time for each page
// of rows and each import, for any node: then what counts is how many ask. All nodes share
// this machine's cores.
func BenchmarkSharedBuild(b *testing.B) {
	needsImport(b)
	c := startCluster(b, nil)
	nodes := sharing(b, c, 3)
	nodes[0].setGlobal("fastddl_ddl_part_size", fmt.Sprint(*sharePart)) // the stand-in does not know how large regions are
	nodes[0].setGlobal("cte_max_recursion_depth", "10000")
	db := nodes[0].open()
	longRows(db, *shareRows)
	conn := db.session()
	c.Faults().Inject(standin.Fault{Commands: []string{"Coprocessor", "MultiIngest"}, Latency: *shareLatency})
	ways := []*sharedWay{
		{name: "one", engine: "fastddl", nodes: 1}, {name: "three", engine: "fastddl", nodes: 3},
		{name: "tidb-one", engine: "tidb", nodes: 1}, {name: "tidb-three", engine: "tidb", nodes: 3},
	}
	for b.Loop() {
		for _, w := range ways {
			w.build(b, nodes[0], db, conn)
		}
	}
	for _, w := range ways {
		b.ReportMetric(median(w.seconds), w.name+"-s")
		b.Logf("%-10s  %.1f s (%.1f to %.1f) for %d rows, %s an answer", w.name, median(w.seconds), slices.Min(w.seconds), slices.Max(w.seconds), *shareRows, *shareLatency)
	}
	b.ReportMetric(median(ways[0].seconds)/median(ways[1].seconds), "three-to-one")
	b.ReportMetric(median(ways[2].seconds)/median(ways[0].seconds), "one-to-tidb")
	b.ReportMetric(median(ways[3].seconds)/median(ways[1].seconds), "three-to-tidb")
}

// build builds the index once and drops it.
func (w *sharedWay) build(b *testing.B, n *node, db client, conn *sql.Conn) {
	b.Helper()
	kind, dist := "", "ON"
	if *shareUnique {
		kind = "UNIQUE "
	}
	if w.nodes == 1 {
		dist = "OFF"
	}
	n.setGlobal("tidb_enable_dist_task", dist)
	must(b, conn, "SET fastddl_ddl_engine = "+w.engine, fmt.Sprintf("SET tidb_max_dist_task_nodes = %d", w.nodes))
	jobs := db.value("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs")
	began := time.Now()
	must(b, conn, "ALTER TABLE t ADD "+kind+"INDEX c (c(50))")
	w.seconds = append(w.seconds, time.Since(began).Seconds())
	require.Equal(b, w.engine == "fastddl", jobs != db.value("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs"), "%s: somebody else has built", w.name)
	if w.engine == "fastddl" {
		require.Equal(b, fmt.Sprint(*shareRows), db.lastJob("row_count"))
	}
	must(b, conn, "ALTER TABLE t DROP INDEX c")
}

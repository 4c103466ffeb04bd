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
	shareLatency = flag.Duration("share.latency", 200*time.Millisecond, "of each answer of the stores to a read or an import")
)

// BenchmarkSharedBuild builds an index by one node and by three, in turns, over stores that
// take their time for each page of rows and each import, whoever asks: then what counts is
// how many ask. All nodes share this machine's cores, which have little to do.
func BenchmarkSharedBuild(b *testing.B) {
	c := startCluster(b, nil)
	nodes := sharing(b, c, 3)
	db := nodes[0].open()
	wideRows(db, *shareRows)
	db.exec(fmt.Sprintf("SPLIT TABLE t BETWEEN (0) AND (%d) REGIONS 16", max(*shareRows, 16_000)))
	nodes[0].setGlobal("tidb_ddl_reorg_batch_size", "32") // the least: pages of 128 rows
	conn := db.session()
	c.Faults().Inject(standin.Fault{Commands: []string{"Coprocessor", "MultiIngest"}, Latency: *shareLatency})
	seconds := map[int][]float64{}
	build := func(count int) float64 {
		must(b, conn, fmt.Sprintf("SET tidb_max_dist_task_nodes = %d", count))
		began := time.Now()
		must(b, conn, "ALTER TABLE t ADD INDEX v (v)")
		took := time.Since(began).Seconds()
		require.Equal(b, fmt.Sprint(*shareRows), db.lastJob("row_count"))
		must(b, conn, "ALTER TABLE t DROP INDEX v")
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

package sql_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/event"
	"fastddl/internal/randtest"
	"fastddl/sql"
)

// indexStatistics returns what TiDB's tables have of an index's statistics, of each physical table.
func (c *client) indexStatistics(table, index string) []string {
	c.t.Helper()
	id := c.one("SELECT tidb_table_id FROM information_schema.tables WHERE table_schema = 'test' AND table_name = '%s'", table)
	hist := c.one("SELECT DISTINCT index_id FROM information_schema.tidb_indexes WHERE table_schema = 'test' AND table_name = '%s' AND key_name = '%s'", table, index)
	ids := c.run("SELECT tidb_partition_id FROM information_schema.partitions WHERE table_schema = 'test' AND table_name = '%s' AND tidb_partition_id IS NOT NULL", table)
	all := c.run("SELECT table_id, 'histogram', distinct_count, null_count, stats_ver, flag, correlation FROM mysql.stats_histograms WHERE table_id IN (%s) AND is_index = 1 AND hist_id = %s ORDER BY table_id", strings.Join(append(ids, id), ","), hist)
	all = append(all, c.run("SELECT table_id, 'top', HEX(value), count FROM mysql.stats_top_n WHERE table_id IN (%s) AND is_index = 1 AND hist_id = %s ORDER BY table_id, value", strings.Join(append(ids, id), ","), hist)...)
	return append(all, c.run("SELECT table_id, 'bucket', bucket_id, count, repeats, HEX(lower_bound), HEX(upper_bound), ndv FROM mysql.stats_buckets WHERE table_id IN (%s) AND is_index = 1 AND hist_id = %s ORDER BY table_id, bucket_id", strings.Join(append(ids, id), ","), hist)...)
}

// shownStatistics returns what SHOW says of an index's statistics, but for when they were written and how much memory they take.
func (c *client) shownStatistics(table, index string) []string {
	c.t.Helper()
	var all []string
	for _, row := range c.run("SHOW STATS_HISTOGRAMS WHERE table_name = '%s' AND column_name = '%s' AND is_index = 1", table, index) {
		fields := strings.Fields(row)
		all = append(all, strings.Join(slices.Concat(fields[:4], fields[6:9]), " ")) // without the time
	}
	all = append(all, c.run("SHOW STATS_TOPN WHERE table_name = '%s' AND column_name = '%s'", table, index)...)
	return append(all, c.run("SHOW STATS_BUCKETS WHERE table_name = '%s' AND column_name = '%s'", table, index)...)
}

// statisticsColumns are columns of the tests, with an expression of an integer that gives them values.
var statisticsColumns = []struct{ definition, value string }{
	{"INT", "%s"}, {"BIGINT UNSIGNED NOT NULL", "%s * 1000000"}, {"VARCHAR(60) COLLATE utf8mb4_general_ci", "CONCAT(ELT(1 + %s %% 3, 'Value ', 'value', 'VALUE'), %[1]s)"},
	{"VARCHAR(60) COLLATE utf8mb4_bin", "REPEAT(%s, 1 + %[1]s %% 7)"}, {"VARCHAR(40) COLLATE utf8mb4_unicode_ci", "CONCAT('é', %s)"},
	{"DECIMAL(12,4)", "%s / 7"}, {"DATETIME(3)", "TIMESTAMPADD(MINUTE, %s, '2020-01-01')"}, {"TIMESTAMP NULL", "TIMESTAMPADD(MINUTE, %s, '2020-01-01')"}, {"DOUBLE", "-%s / 3"},
	{"ENUM('a','b','c')", "1 + %s %% 3"}, {"SET('a','b','c')", "1 + %s %% 7"}, {"BIT(20)", "%s"}, {"TIME", "SEC_TO_TIME(%s)"}, {"YEAR", "1990 + %s %% 100"},
	{"VARBINARY(40)", "UNHEX(LPAD(HEX(%s), 20, '0'))"}, {"DATE", "DATE_ADD('2020-01-01', INTERVAL %s DAY)"},
}

// randomStatisticsTable makes a table st with columns c0... and returns definitions of indexes of it.
func randomStatisticsTable(c *client, r *rand.Rand, rows int, partitions string) (indexes []string) {
	primary := []string{"id BIGINT PRIMARY KEY", "id BIGINT PRIMARY KEY NONCLUSTERED", "id BIGINT, id2 VARCHAR(10), PRIMARY KEY (id, id2) CLUSTERED"}[r.IntN(3)]
	columns := []string{primary}
	values := []string{"id"}
	if strings.Contains(primary, "id2") {
		values = append(values, "CONCAT('k', id)")
	}
	var names []string
	for i := range 4 {
		col := statisticsColumns[r.IntN(len(statisticsColumns))]
		name := fmt.Sprintf("c%d", i)
		names = append(names, name)
		columns = append(columns, name+" "+col.definition)
		// From few values to as many as rows, even or skewed.
		source := []string{"id", "id % 5", fmt.Sprintf("id %% %d", 1+r.IntN(400)), "FLOOR(SQRT(id))", "(id * 7919) % (1 + FLOOR(SQRT(id * 37)))"}[r.IntN(5)]
		value := fmt.Sprintf(col.value, "("+source+")")
		if !strings.Contains(col.definition, "NOT NULL") && r.IntN(2) == 0 {
			value = fmt.Sprintf("IF(id %% %d = 0, NULL, %s)", 1+r.IntN(6), value)
		}
		values = append(values, value)
	}
	columns = append(columns, "v BIGINT AS (id % 17) VIRTUAL", "j JSON", "txt TEXT")
	c.run("CREATE TABLE st (%s) %s", strings.Join(columns, ", "), partitions)
	names = append(names, "v")
	targets := append([]string{"id"}, names[:4]...)
	if strings.Contains(primary, "id2") {
		targets = slices.Insert(targets, 1, "id2")
	}
	values = append(values, "IF(id % 4 = 0, NULL, JSON_ARRAY(id % 9, id % 7, id))", "CONCAT('text', id % 50, REPEAT('x', id % 20))")
	c.run("SET cte_max_recursion_depth = 100000")
	if rows > 0 {
		c.run("INSERT INTO st (%s, j, txt) WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < %d) SELECT %s FROM n",
			strings.Join(targets, ", "), rows, strings.Join(values, ", "))
	}
	pick := func() string { return names[r.IntN(len(names))] }
	indexes = []string{"INDEX i0 (" + pick() + ")", "INDEX i2 (txt(6))", "INDEX i4 ((CAST(j AS UNSIGNED ARRAY)))", "INDEX i5 (" + pick() + ", txt(5))", "INDEX i6 ((id % 11))", "INDEX i7 (v)"}
	if a, b := pick(), pick(); a != b {
		indexes = append(indexes, "INDEX i1 ("+a+", "+b+")")
	}
	if partitions == "" {
		indexes = append(indexes, "UNIQUE INDEX i3 ("+pick()+", id)")
	}
	r.Shuffle(len(indexes), func(i, j int) { indexes[i], indexes[j] = indexes[j], indexes[i] })
	return indexes
}

func indexName(definition string) string {
	fields := strings.Fields(strings.TrimPrefix(definition, "UNIQUE "))
	return fields[1]
}

// The statistics of new indexes are those that ANALYZE makes of them right after, and count their values.
func TestStatisticsEqualAnalyze(t *testing.T) {
	e := newEnv(t, func(o *sql.Options) { o.StatisticsPatience = hangTimeout })
	defer e.bus.Subscribe(func(e event.Event) {
		if lost, ok := e.(event.NoStatistics); ok {
			t.Error(lost)
		}
	})()
	c := e.client()
	r := randtest.Rand(t)
	for round := range 6 {
		partitions := ""
		if round%3 == 2 {
			partitions = "PARTITION BY HASH (id) PARTITIONS 3"
		}
		c.run("DROP TABLE IF EXISTS st")
		indexes := randomStatisticsTable(c, r, []int{0, 1, 50, 700, 3000, 9000}[round], partitions)
		c.run("SET tidb_stats_update_during_ddl = %d", round%2)
		t.Log(c.run("SHOW CREATE TABLE st"), indexes)
		c.run("ALTER TABLE st ADD %s", strings.Join(indexes, ", ADD "))
		made := make(map[string][]string)
		shown := make(map[string][]string)
		for _, idx := range indexes {
			name := indexName(idx)
			made[name], shown[name] = c.indexStatistics("st", name), c.shownStatistics("st", name)
			require.NotEmpty(t, made[name], name)
		}
		c.run("ANALYZE TABLE st ALL COLUMNS")
		for _, idx := range indexes {
			name := indexName(idx)
			if partitions == "" {
				require.Equal(t, c.shownStatistics("st", name), shown[name], "%s of %d rows", idx, round)
			}
			analyzed := c.indexStatistics("st", name)
			if partitions != "" { // those of all partitions are merged by other rules than TiDB's
				id := c.one("SELECT tidb_table_id FROM information_schema.tables WHERE table_schema = 'test' AND table_name = 'st'")
				all := func(s string) bool { return strings.HasPrefix(s, id+" ") }
				require.Equal(t, slices.ContainsFunc(analyzed, all), slices.ContainsFunc(made[name], all))
				analyzed, made[name] = slices.DeleteFunc(analyzed, all), slices.DeleteFunc(made[name], all)
			}
			require.Equal(t, analyzed, made[name], "%s of round %d", idx, round)
		}
	}
}

// meta returns what TiDB knows of a table's rows.
func (c *client) statisticsMeta(table, columns string) string {
	c.t.Helper()
	id := c.one("SELECT tidb_table_id FROM information_schema.tables WHERE table_schema = 'test' AND table_name = '%s'", table)
	return c.one("SELECT %s FROM mysql.stats_meta WHERE table_id = %s", columns, id)
}

// requireEstimated fails if a plan that reads the index has no statistics of it.
func requireEstimated(c *client, index, query string) {
	c.t.Helper()
	plan := strings.Join(c.run("EXPLAIN FORMAT = 'verbose' "+query), "\n")
	require.Contains(c.t, plan, index)
	require.NotContains(c.t, plan, "stats:pseudo")
	require.NotContains(c.t, plan, index+":missing")
	require.NotContains(c.t, plan, index+":unInitialized")
}

// A statement right after ADD INDEX is planned by the statistics of the index, also if the table was never analyzed. TiDB analyzes that by itself
// afterwards as before, and not one that was analyzed: modify_count is as it was.
func TestStatisticsForTheNextStatement(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("SET GLOBAL tidb_enable_auto_analyze = OFF") // the test decides when: TiDB looks every three seconds
	stats := e.Domain().StatsHandle()
	load := func(partitions string) {
		c.run("DROP TABLE IF EXISTS st")
		c.run("CREATE TABLE st (id INT PRIMARY KEY, a INT, b VARCHAR(20), KEY old (b)) " + partitions)
		c.run("SET cte_max_recursion_depth = 100000")
		c.run("INSERT INTO st WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 3000) SELECT id, id % 100, id FROM n")
	}
	dump := func() {
		require.NoError(t, stats.DumpStatsDeltaToKV(true))
		require.NoError(t, stats.Update(t.Context(), e.Domain().InfoSchema()))
	}
	// known returns whether TiDB takes the table, and its index i, for analyzed.
	known := func() (table, index bool) {
		dump()
		info, err := e.Domain().InfoSchema().TableByName(t.Context(), pmodel.NewCIStr("test"), pmodel.NewCIStr("st"))
		require.NoError(t, err)
		st := stats.GetPhysicalTableStats(info.Meta().ID, info.Meta())
		return st.IsAnalyzed(), st.ColAndIdxExistenceMap.HasAnalyzed(info.Meta().FindIndexByName("i").ID, true)
	}
	for _, partitions := range []string{"", "PARTITION BY HASH (id) PARTITIONS 2"} {
		load(partitions)
		c.run("ALTER TABLE st ADD INDEX i (a)")
		requireEstimated(c, "i(a)", "SELECT COUNT(*) FROM st USE INDEX (i) WHERE a = 7")
		plan := c.run("EXPLAIN FORMAT = 'brief' SELECT * FROM st USE INDEX (i) WHERE a = 7")
		require.Contains(t, strings.Join(plan, "\n"), " 30.00 ", "as many rows as have the value")
		require.Equal(t, "3000 3000", c.statisticsMeta("st", "modify_count, count"))
		c.run("ALTER TABLE st ADD INDEX i2 (b, a)")
		table, index := known()
		require.False(t, table, "TiDB is to analyze the table")
		require.True(t, index)
		require.Eventually(t, func() bool {
			stats.StatsAnalyze.Close() // which makes the queue anew
			stats.HandleAutoAnalyze()
			return c.one("SELECT COUNT(*) > 0 FROM mysql.analyze_jobs WHERE table_name = 'st' AND state = 'finished'") == "1"
		}, hangTimeout, 50*time.Millisecond)
		stats.StatsAnalyze.Close()
		table, _ = known()
		require.True(t, table)
		c.run("DELETE FROM mysql.analyze_jobs")

		load(partitions)
		dump()
		c.run("ANALYZE TABLE st")
		c.run("UPDATE st SET b = 'x' WHERE id <= 70")
		dump()
		before := c.statisticsMeta("st", "modify_count, count")
		require.Equal(t, "70 3000", before)
		c.run("ALTER TABLE st ADD INDEX i (a), ADD INDEX i2 (b, a)")
		requireEstimated(c, "i(a)", "SELECT COUNT(*) FROM st USE INDEX (i) WHERE a = 7")
		require.Equal(t, before, c.statisticsMeta("st", "modify_count, count"))
		table, index = known()
		require.True(t, table && index, "there is nothing to analyze")
	}
}

// Statistics of an index of a large table, also of a partitioned one, have all NULLs, and count its values within five percent.
func TestStatisticsOfManyValues(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	c.run("SET cte_max_recursion_depth = 100000")
	for _, partitions := range []string{"", "PARTITION BY HASH (id) PARTITIONS 3"} {
		c.run("DROP TABLE IF EXISTS st")
		c.run("CREATE TABLE st (id INT PRIMARY KEY, a INT, b VARCHAR(20)) " + partitions)
		c.run("INSERT INTO st WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 30000) SELECT id, IF(id % 3 = 0, NULL, id % 7000), id % 20 FROM n")
		c.run("ALTER TABLE st ADD INDEX i (a), ADD INDEX i2 (a, b), ADD INDEX i3 (b)")
		for index, columns := range map[string]string{"i": "a", "i2": "a, b", "i3": "b"} {
			all := c.indexStatistics("st", index)
			id := c.one("SELECT tidb_table_id FROM information_schema.tables WHERE table_schema = 'test' AND table_name = 'st'")
			at := slices.IndexFunc(all, func(row string) bool { return strings.HasPrefix(row, id+" histogram ") })
			require.GreaterOrEqual(t, at, 0, all)
			var different, nulls, want int
			_, err := fmt.Sscanf(all[at], id+" histogram %d %d", &different, &nulls)
			require.NoError(t, err)
			_, err = fmt.Sscan(c.one("SELECT COUNT(*) FROM (SELECT DISTINCT %s FROM st) x", columns), &want)
			require.NoError(t, err)
			if index == "i" {
				want-- // NULL is counted apart
				require.Equal(t, 10000, nulls)
			} else {
				require.Zero(t, nulls)
			}
			require.InEpsilon(t, want, different, 0.05, index)
		}
		requireEstimated(c, "i(a)", "SELECT COUNT(*) FROM st USE INDEX (i) WHERE a = 7")
	}
}

// An index that is not built leaves no statistics, also if the job ends right before it would be public.
func TestStatisticsOfACancelledIndex(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 1000)
	tableID := c.one("SELECT tidb_table_id FROM information_schema.tables WHERE table_schema = 'test' AND table_name = 't'")
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	result := e.start("ALTER TABLE t ADD INDEX i (b)")
	reach(t, arrived)
	id := c.one("SELECT MAX(job_id) FROM mysql.fastddl_ddl_record")
	// As a node leaves them that ends between the statistics and the version that makes the index public.
	c.run("INSERT INTO mysql.stats_histograms (table_id, is_index, hist_id, distinct_count, version, stats_ver) VALUES (%s, 1, 1, 1, 1, 2)", tableID)
	c.run("INSERT INTO mysql.stats_top_n (table_id, is_index, hist_id, value, count) VALUES (%s, 1, 1, 'x', 1)", tableID)
	cancelled := e.answer("ADMIN CANCEL DDL JOBS " + id)
	asked(t, has(cancelled))
	close(leave)
	require.Error(t, wait(t, result))
	require.Contains(t, <-cancelled, "successful")
	require.Equal(t, "0", c.one("SELECT COUNT(*) FROM mysql.stats_histograms WHERE table_id = %s AND is_index = 1", tableID))
	require.Equal(t, "0", c.one("SELECT COUNT(*) FROM mysql.stats_top_n WHERE table_id = %s", tableID))
}

// The options of an earlier ANALYZE, which TiDB keeps, shape the statistics; statistics of version 1 stay alone.
func TestStatisticsKeepToAnalyze(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	r := randtest.Rand(t)
	indexes := randomStatisticsTable(c, r, 2000, "")
	c.run("ANALYZE TABLE st ALL COLUMNS WITH 7 TOPN, 20 BUCKETS")
	c.run("ALTER TABLE st ADD %s", strings.Join(indexes, ", ADD "))
	made := make(map[string][]string)
	for _, idx := range indexes {
		made[idx] = c.indexStatistics("st", indexName(idx))
	}
	c.run("ANALYZE TABLE st ALL COLUMNS")
	for _, idx := range indexes {
		require.Equal(t, c.indexStatistics("st", indexName(idx)), made[idx], idx)
	}

	c.run("CREATE TABLE old (a INT, b INT, KEY (a))")
	c.run("INSERT INTO old VALUES (1, 2), (3, 4)")
	c.run("SET tidb_analyze_version = 1")
	c.run("ANALYZE TABLE old")
	c.run("ALTER TABLE old ADD INDEX i (b)")
	require.Empty(t, c.indexStatistics("old", "i"))
}

// Nodes that build an index together make its statistics together.
func TestStatisticsOfSeveralNodes(t *testing.T) {
	n := newBuildNodes(t, 3)
	c := n.client()
	table(c, 1000)
	c.run("ALTER TABLE t ADD INDEX i (b), ADD UNIQUE INDEX u (c), ADD INDEX g ((b % 7))")
	require.Greater(t, n.totalOf((*buildNode).parts), 3)
	for index, columns := range map[string]string{"i": "b", "u": "c", "g": "b % 7"} {
		want := c.one("SELECT COUNT(DISTINCT %s) FROM t", columns)
		got := c.indexStatistics("t", index)
		require.NotEmpty(t, got)
		require.Equal(t, want, strings.Fields(got[0])[2], "all values are known")
	}
}

// When TiDB analyzes one partition it counts the values of all by what is known of the others.
func TestStatisticsOfOnePartitionAnalyzed(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE st (id INT PRIMARY KEY, a INT) PARTITION BY HASH (id) PARTITIONS 4")
	c.run("SET cte_max_recursion_depth = 100000")
	c.run("INSERT INTO st WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 8000) SELECT id, id FROM n")
	c.run("ALTER TABLE st ADD INDEX i (a)")
	id := c.one("SELECT tidb_table_id FROM information_schema.tables WHERE table_schema = 'test' AND table_name = 'st'")
	different := func() (n int) {
		_, err := fmt.Sscan(c.one("SELECT distinct_count FROM mysql.stats_histograms WHERE table_id = %s AND is_index = 1", id), &n)
		require.NoError(t, err)
		return n
	}
	require.InEpsilon(t, 8000, different(), 0.05)
	c.run("ALTER TABLE st ANALYZE PARTITION p0")
	require.InEpsilon(t, 8000, different(), 0.15)
}

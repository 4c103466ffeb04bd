package sql_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/event"
	"fastddl/internal/randtest"
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
	e := newEnv(t)
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

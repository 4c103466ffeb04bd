package cop

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// differentialTable is a table of one kind with the names of its indexes.
type differentialTable struct {
	name, create string
	indexes      []string
}

var differentialTables = []differentialTable{
	{"t_int", `create table t_int (id int primary key, %s, key k_i (i), unique key k_idv (id, v), key k_ci (ci), key k_dt (dt, dc),
		key k_pre (tx(3), i))`,
		[]string{"k_i", "k_idv", "k_ci", "k_dt", "k_pre", "primary"}},
	{"t_row", "create table t_row (id int, %s, key k_id (id), key k_vu (v, un), key k_e (e, y), key k_u (u), key k_f (f), key k_ts (ts))",
		[]string{"k_id", "k_vu", "k_e", "k_u", "k_f", "k_ts"}},
	{"t_com", `create table t_com (id int, %s, k varchar(20) collate utf8mb4_general_ci, primary key (k, id) clustered,
		unique key k_id (id), key k_i (i, ci), key k_un (un), key k_d (d))`,
		[]string{"k_id", "k_i", "k_un", "k_d", "primary"}},
	{"t_bin", `create table t_bin (id int, %s, k varchar(20) collate utf8mb4_bin, primary key (id, k(3)) clustered,
		key k_v (v), key k_dc (dc), key k_dai (da, i))`,
		[]string{"k_v", "k_dc", "k_dai", "primary"}},
	{"t_uns", "create table t_uns (id bigint unsigned primary key, %s, key k_b (b), key k_tm (tm), key k_s (s), key k_la (la, ch), key k_bi (bi))",
		[]string{"k_b", "k_tm", "k_s", "k_la", "k_bi", "primary"}},
	{"t_par", "create table t_par (id int, %s, key k_i (i), key k_v (v, id), unique key k_g (id) global) partition by hash (i) partitions 3",
		[]string{"k_i", "k_v", "k_g"}},
	{"t_gen", `create table t_gen (id int primary key, %s, gv int generated always as (i + ti) virtual,
		gs varchar(50) generated always as (concat(v, '-', ch)) stored,
		key k_gv (gv), key k_gs (gs), key k_ex ((lower(ci))), key k_mv ((cast(j->'$.m' as unsigned array))))`,
		[]string{"k_gv", "k_gs", "k_ex", "primary"}},
}

// columnList names the columns that createTable gives values to.
func (d differentialTable) columnList() string {
	list := "id," + strings.Join(columnNames, ",")
	if d.keyed() {
		list += ",k"
	}
	return list
}

// keyed says whether the table has a column k for its key.
func (d differentialTable) keyed() bool { return strings.Contains(d.create, " k varchar") }

func (s *sqlSession) createTable(g *generator, table differentialTable, rows int) {
	s.exec(fmt.Sprintf(table.create, columnsOfAllTypes))
	for from := 0; from < rows; {
		var values []string
		for range 25 {
			row := fmt.Sprintf("(%d,%s", from, g.row())
			if table.keyed() {
				row += ",'" + g.text() + "'"
			}
			values = append(values, row+")")
			from++
		}
		s.exec(fmt.Sprintf("insert ignore into %s (%s) values %s", table.name, table.columnList(), strings.Join(values, ",")))
	}
	// Columns that the rows above do not hold.
	s.exec("alter table " + table.name +
		" add column n1 varchar(10) default 'dflt', add column n2 datetime default '2001-02-03 04:05:06', add column n3 decimal(8,2)")
	s.exec(fmt.Sprintf("update %s set n1 = 'x', n3 = 1.5 where id %% 5 = 0", table.name))
}

// TestAgainstUnistore runs random statements over tables of all kinds. It compares each answer to a request with that of
// unistore's coprocessor, and the rows of the statement with those that TiDB finds with unistore's coprocessor.
func TestAgainstUnistore(t *testing.T) {
	seed := int64(randtest.Seed(t))
	g := &generator{rnd: rand.New(rand.NewSource(seed))}
	s := newSQLSession(t)
	s.exec("set time_zone = '+03:30'")
	s.exec("set tidb_enable_global_index = on")
	for i, table := range differentialTables {
		s.exec(fmt.Sprintf("set tidb_row_format_version = %d", 2-i%2))
		s.createTable(g, table, 150)
	}
	s.exec("split table t_int by (40), (80), (120)")
	s.exec("split table t_com index k_i by (-10, ''), (10, '')")
	deadline := time.Now().Add(randtest.Time(t, 5*time.Second, 5*time.Minute))
	n, failed, wrong := 0, 0, 0
	for ; (n < 200 || time.Now().Before(deadline)) && wrong < 10; n++ {
		if n%20 == 0 {
			s.vary(g)
		}
		table := one(g, differentialTables...)
		sql, exact := g.query(table.name, table.indexes)
		err := s.compareStatement(sql, exact)
		if err != nil {
			failed++
			require.NotContains(t, err.Error(), "panic", sql)
			require.NotContains(t, err.Error(), "other error", sql)
		}
		for _, diff := range s.oracle.take() {
			wrong++
			t.Errorf("%s\n%s", sql, diff)
		}
	}
	s.oracle.setMode(compareAnswers)
	for _, table := range differentialTables {
		s.exec(fmt.Sprintf("create index k_new on %s (dc, ci)", table.name))
		s.exec("admin check table " + table.name)
		plan := s.exec(fmt.Sprintf("explain analyze select count(*) from %s where id >= 0", table.name))
		require.Contains(t, fmt.Sprint(plan), "cop_task", "the executors' figures arrive")
		require.Empty(t, s.oracle.take(), table.name)
	}
	requests, executors := s.oracle.counts()
	t.Logf("%d statements, %d failed, %d requests compared, executors %v", n, failed, requests, executors)
	require.LessOrEqual(t, failed, n/2)
}

// vary changes the session's settings.
func (s *sqlSession) vary(g *generator) {
	s.exec("set tidb_enable_chunk_rpc = " + one(g, "on", "off"))
	s.exec("set tidb_enable_paging = " + one(g, "on", "off"))
	s.exec("set tidb_min_paging_size = " + one(g, "8", "128"))
	s.exec("set tidb_opt_distinct_agg_push_down = " + one(g, "on", "off"))
	s.exec("set tidb_store_batch_size = " + one(g, "0", "4"))
	s.exec("set div_precision_increment = " + one(g, "4", "7"))
	s.exec("set time_zone = " + one(g, "'+00:00'", "'Asia/Shanghai'", "'America/New_York'"))
}

// compareStatement runs the statement with both coprocessors and returns the error that it fails with. Without exact the
// statement has no one right result.
func (s *sqlSession) compareStatement(sql string, exact bool) error {
	s.t.Helper()
	s.oracle.setMode(compareAnswers)
	mine, err := s.try(sql)
	s.oracle.setMode(forward)
	theirs, theirErr := s.try(sql)
	if err != nil || theirErr != nil {
		if strings.Contains(sql, " limit ") { // one of them may have looked at more rows than it needs
			return err
		}
		require.Equal(s.t, err == nil, theirErr == nil, "%s: mine %v, theirs %v", sql, err, theirErr)
		return err
	}
	if exact {
		require.Equal(s.t, sortedRows(theirs), sortedRows(mine), sql)
	}
	return nil
}

func sortedRows(rows [][]string) []string {
	list := make([]string, len(rows))
	for i, row := range rows {
		list[i] = strings.Join(row, "|")
	}
	slices.Sort(list)
	return list
}

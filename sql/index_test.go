package sql_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"
)

// explainKey returns table, access type, key and extra of each row of EXPLAIN.
func explainKey(c *conn, query string) [][]string {
	out := [][]string{}
	for _, r := range c.query("explain " + query) {
		out = append(out, []string{r[2], r[4], r[6], r[11]})
	}
	return out
}

func TestPlansUseIndexes(t *testing.T) {
	n := newNode(t)
	c := n.conn()
	c.exec("create table t (id int primary key auto_increment, k int, v int, c char(20), u int, key k (k), key kv (k, v), unique key u (u), key pre (c(3)))")
	c.exec("create table s (id int primary key, t_id int, key t_id (t_id))")
	for range 4 {
		rows := make([]string, 500)
		for i := range rows {
			rows[i] = fmt.Sprintf("(%d, %d, 'c%d')", rand.IntN(1000), i, i)
		}
		c.exec("insert into t (k, v, c) values " + strings.Join(rows, ","))
	}
	c.exec("update t set u = id")
	c.exec("insert into s select id, id from t where id <= 50")
	for _, tc := range []struct {
		query string
		want  [][]string
	}{
		{"select * from t where id = 5", [][]string{{"t", "const", "PRIMARY", "Using where"}}},
		{"select * from t where u = 5", [][]string{{"t", "const", "u", "Using where"}}},
		{"select * from t where id between 5 and 15", [][]string{{"t", "range", "PRIMARY", "Using where"}}},
		{"select * from t where k between 5 and 15", [][]string{{"t", "range", "k", "Using where"}}},
		{"select * from t where k = 5 and v > 3", [][]string{{"t", "ref", "kv", "Using where"}}},
		{"select id, k from t where k in (5, 7)", [][]string{{"t", "range", "k", "Using where; Using index"}}},
		{"select * from t where c = 'c17'", [][]string{{"t", "ref", "pre", "Using where"}}},
		{"select * from t order by id desc limit 3", [][]string{{"t", "index", "PRIMARY", ""}}},
		{"select * from t order by k limit 3", [][]string{{"t", "index", "k", ""}}},
		{"select * from t where k > 990 order by k desc limit 3", [][]string{{"t", "range", "k", "Using where"}}},
		{"select * from t where v = 3", [][]string{{"t", "ALL", "<nil>", "Using where"}}},
		{"select * from t order by v", [][]string{{"t", "ALL", "<nil>", "Using filesort"}}},
		{"select t.v from s join t on s.t_id = t.id where s.id < 10", [][]string{{"s", "range", "PRIMARY", "Using where"}, {"t", "eq_ref", "PRIMARY", ""}}},
		{"update t set v = 1 where id = 3", [][]string{{"t", "const", "PRIMARY", "Using where"}}},
		{"delete from t where k = 3", [][]string{{"t", "ref", "k", "Using where"}}},
		{"select 1", [][]string{{"<nil>", "<nil>", "<nil>", "No tables used"}}},
	} {
		require.Equal(t, tc.want, explainKey(c, tc.query), tc.query)
	}

	t.Run("invisible indexes are shown, not used", func(t *testing.T) {
		n.change("t", func(info *model.TableInfo) {
			for _, idx := range info.Indices {
				idx.Invisible = idx.Name.L == "k" || idx.Name.L == "kv"
			}
		})
		require.Equal(t, [][]string{{"t", "ALL", "<nil>", "Using where"}}, explainKey(c, "select * from t where k between 5 and 15"))
		shown := map[string]string{}
		for _, r := range c.query("show index from t") {
			shown[r[2]] = r[13]
		}
		require.Equal(t, map[string]string{"PRIMARY": "YES", "k": "NO", "kv": "NO", "u": "YES", "pre": "YES"}, shown)
		require.Contains(t, c.query("show create table t")[0][1], "KEY `k` (`k`) /*!80000 INVISIBLE */")
	})
}

// Answers found through indexes must be those a scan of the whole table finds.
func TestIndexLookupsAgainstScans(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	n := newNode(t)
	c := n.conn()
	keys := `, primary key (%s), key a (a), key ab (a, b), unique key s (s, id), key p (s(2)), key d (d), key dt (dt), key ci (ci), key u (u), key f (f), key bin (bin), key ts (ts)`
	cols := `id int, a int, b int unsigned, s varchar(10), d decimal(8,2), dt datetime, ci varchar(10) collate utf8mb4_general_ci, u bigint unsigned not null, f double, bin varbinary(8), ts timestamp null`
	tables := map[string]string{"plain": "", "byid": fmt.Sprintf(keys, "id"), "bycommon": fmt.Sprintf(keys, "a, id"), "byunsigned": fmt.Sprintf(keys, "u"), "nonclustered": fmt.Sprintf(keys, "id") + ""}
	for name, k := range tables {
		ddl := "create table " + name + " (" + cols + k + ")"
		if name == "nonclustered" {
			ddl = strings.Replace(ddl, "primary key (id)", "primary key (id) nonclustered", 1)
		}
		if name == "bycommon" {
			ddl = strings.Replace(ddl, "a int", "a int not null", 1)
		}
		c.exec(ddl)
	}
	words := []string{"'a'", "'A'", "'ab'", "'aB'", "'abc'", "'b'", "'ba'", "'zz'", "''", "'é'"}
	value := func() []string {
		pick := func(null bool, s string) string {
			if null && rng.IntN(8) == 0 {
				return "null"
			}
			return s
		}
		big := rng.Uint64N(5)
		if rng.IntN(2) == 0 {
			big = 1<<63 + rng.Uint64N(1<<20)
		}
		day := fmt.Sprintf("'2024-01-%02d 10:00:%02d'", 1+rng.IntN(28), rng.IntN(60))
		return []string{
			strconv.Itoa(rng.IntN(40) - 20), pick(true, strconv.Itoa(rng.IntN(6))), pick(true, words[rng.IntN(len(words))]),
			pick(true, fmt.Sprintf("%d.%02d", rng.IntN(20)-10, rng.IntN(100))), pick(true, day), pick(true, words[rng.IntN(len(words))]),
			strconv.FormatUint(big, 10), pick(true, fmt.Sprintf("%g", float64(rng.IntN(100)-50)/4)), pick(true, words[rng.IntN(4)]), pick(true, day),
		}
	}
	for id := range 300 {
		v := value()
		for name := range tables {
			row := slices.Clone(v)
			if name == "byunsigned" {
				row[6] = strconv.FormatUint(uint64(id)*0x00ff_ffff_ffff_ffff/3+uint64(id)<<56, 10)
			} else if name != "plain" {
				row[6] = v[6]
			}
			c.exec(fmt.Sprintf("insert into %s values (%d, %s)", name, id, strings.Join(row, ", ")))
		}
	}
	ops := []string{"=", "<", "<=", ">", ">=", "<>", "<=>"}
	columns := []string{"id", "a", "b", "s", "d", "dt", "ci", "f", "bin", "ts"}
	cond := func() string {
		at := rng.IntN(len(columns))
		col := columns[at]
		v := append([]string{strconv.Itoa(rng.IntN(320) - 10)}, value()...)
		lit := v[at]
		if at > 6 {
			lit = v[at+1]
		}
		if (col == "a" || col == "id") && lit != "null" && rng.IntN(5) == 0 {
			lit += ".5"
		}
		switch rng.IntN(6) {
		case 0:
			return col + " is null"
		case 1:
			return fmt.Sprintf("%s in (%s, %s)", col, lit, lit)
		}
		if lit == "null" || strings.HasPrefix(lit, "null") {
			return col + " is not null"
		}
		return col + " " + ops[rng.IntN(len(ops))] + " " + lit
	}
	for range 400 {
		where := cond()
		for range rng.IntN(3) {
			where += []string{" and ", " or "}[rng.IntN(2)] + cond()
		}
		want := c.queryFlat("select id from plain where " + where + " order by id")
		for name := range tables {
			got := c.queryFlat("select id from " + name + " where " + where)
			slices.SortFunc(got, func(a, b string) int {
				x, _ := strconv.Atoi(a)
				y, _ := strconv.Atoi(b)
				return x - y
			})
			require.Equal(t, want, got, "%s where %s: %v", name, where, explainKey(c, "select id from "+name+" where "+where))
		}
	}
	for _, col := range append(columns, "u") {
		for _, dir := range []string{"", " desc"} {
			for name := range tables {
				want := c.queryFlat(fmt.Sprintf("select %s from (select * from %s) x order by concat(''), %s%s", col, name, col, dir))
				got := c.queryFlat(fmt.Sprintf("select %s from %s order by %s%s", col, name, col, dir))
				if col == "ci" {
					fold := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "é", "e")) }
					for i := range got {
						got[i], want[i] = fold(got[i]), fold(want[i])
					}
				}
				require.Equal(t, want, got, "%s order by %s%s: %v", name, col, dir, explainKey(c, fmt.Sprintf("select %s from %s order by %s%s", col, name, col, dir)))
			}
		}
	}
}

package sql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// requireCode checks the number of a MySQL error and a part of its text.
func requireCode(t testing.TB, err error, number uint16, text string) {
	t.Helper()
	var e *mysql.MySQLError
	require.True(t, errors.As(err, &e), "error %d wanted, got %v", number, err)
	require.Equal(t, number, e.Number, e.Message)
	require.Contains(t, e.Message, text)
}

func TestReadAndWrite(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (id int primary key, a int, b varchar(20), key (a), unique key b (b))")
	c.exec("insert into t values (1, 10, 'x'), (2, 20, 'y'), (3, 30, null)")
	require.Equal(t, [][]string{{"1", "10", "x"}, {"2", "20", "y"}, {"3", "30", "<nil>"}}, c.query("select * from t order by id"))
	require.Equal(t, []string{"2"}, c.queryFlat("select id from t where a = 20"))
	require.Equal(t, []string{"y"}, c.queryFlat("select b from t where id = ?", 2))
	require.Equal(t, []string{"1"}, c.queryFlat("select id from t where b = 'x'"))
	c.exec("update t set a = a + 1 where id >= 2")
	require.Equal(t, []string{"10", "21", "31"}, c.queryFlat("select a from t order by a"))
	c.exec("delete from t where a > 20 and a < 30")
	require.Equal(t, []string{"1", "3"}, c.queryFlat("select id from t order by id"))
	c.exec("update t set id = id + 100")
	require.Equal(t, []string{"101", "103"}, c.queryFlat("select id from t order by id"))
	require.Equal(t, []string{"101"}, c.queryFlat("select id from t where b = 'x'"))
	require.Equal(t, []string{"103"}, c.queryFlat("select id from t where a = 31"))
}

// tableKinds are the ways in which a table can have a primary key.
var tableKinds = map[string]string{
	"int handle":    "create table t (id int primary key, a int, b int, unique key a (a), key b (b))",
	"common handle": "create table t (id varchar(20) primary key, a int, b int, unique key a (a), key b (b))",
	"composite":     "create table t (id int, a int, b int, primary key (id, a), unique key a (a), key b (b))",
	"nonclustered":  "create table t (id int primary key nonclustered, a int, b int, unique key a (a), key b (b))",
	"no key":        "create table t (id int not null, a int, b int, unique key id (id), unique key a (a), key b (b))",
}

func forEachKind(t *testing.T, fn func(t *testing.T, c *conn)) {
	for name, ddl := range tableKinds {
		t.Run(name, func(t *testing.T) {
			c := newNode(t).conn()
			c.exec(ddl)
			fn(t, c)
		})
	}
}

func TestDuplicates(t *testing.T) {
	forEachKind(t, func(t *testing.T, c *conn) {
		c.exec("insert into t values (1, 10, 100), (2, 20, 200)")
		err := c.try("insert into t values (3, 30, 300), (4, 20, 400)")
		requireCode(t, err, 1062, "Duplicate entry '20' for key 't.a'")
		require.Equal(t, []string{"1", "2"}, c.queryFlat("select id from t order by id"), "a failed statement leaves nothing")
		err = c.try("insert into t values (5, 50, 1), (6, 50, 1)")
		requireCode(t, err, 1062, "Duplicate entry '50' for key 't.a'")
		err = c.try("update t set a = 20 where id = 1")
		requireCode(t, err, 1062, "Duplicate entry '20' for key 't.a'")
		err = c.try("update t set a = 30")
		requireCode(t, err, 1062, "Duplicate entry '30' for key 't.a'")
		require.Equal(t, [][]string{{"1", "10", "100"}, {"2", "20", "200"}}, c.query("select * from t order by id"))
		require.Equal(t, []string{"1"}, c.queryFlat("select id from t where b = 100"))
	})
}

func TestReplaceUpsertIgnore(t *testing.T) {
	forEachKind(t, func(t *testing.T, c *conn) {
		c.exec("insert into t values (1, 10, 100), (2, 20, 200), (3, 30, 300)")
		c.exec("replace into t values (4, 20, 201)")
		require.Equal(t, [][]string{{"1", "10", "100"}, {"3", "30", "300"}, {"4", "20", "201"}}, c.query("select * from t order by id"))
		c.exec("insert into t values (5, 30, 1), (6, 30, 1), (7, 70, 7) on duplicate key update b = b + 1")
		require.Equal(t, [][]string{{"1", "10", "100"}, {"3", "30", "302"}, {"4", "20", "201"}, {"7", "70", "7"}}, c.query("select * from t order by id"))
		r := c.exec("insert ignore into t values (8, 10, 0), (9, 90, 9), (10, 90, 10)")
		n, err := r.RowsAffected()
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, []string{"1", "3", "4", "7", "9"}, c.queryFlat("select cast(id as signed) from t order by 1"))
		// Rows of the same statement get in each other's way.
		c.exec("replace into t values (20, 200, 1), (21, 200, 2), (22, 200, 3)")
		require.Equal(t, [][]string{{"22", "3"}}, c.query("select id, b from t where a = 200"))
		require.Equal(t, []string{}, c.queryFlat("select id from t where b = 1"))
		for _, b := range []string{"100", "302", "201", "7", "9", "3"} {
			require.Len(t, c.query("select * from t where b = "+b), 1, "index b has %s", b)
		}
	})
}

func TestReplaceHitsTwoRows(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (id int primary key, a int, unique key (a))")
	c.exec("insert into t values (1, 10), (2, 20)")
	c.exec("replace into t values (1, 20)")
	require.Equal(t, [][]string{{"1", "20"}}, c.query("select * from t"))
}

func TestRowsWithoutKey(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (a int, b int, key (a))")
	c.exec("insert into t values (1, 1), (1, 1), (1, 1), (2, 2)")
	c.exec("insert into t (b) select b from t")
	require.Equal(t, []string{"8"}, c.queryFlat("select count(*) from t"))
	require.Equal(t, [][]string{{"1", "1"}, {"1", "1"}, {"1", "1"}, {"2", "2"}}, c.query("select * from t where a is not null order by a"))
	c.exec("delete from t where a = 1 limit 1")
	c.exec("update t set b = 7 where a = 1 limit 1")
	require.Equal(t, [][]string{{"1", "1"}, {"1", "7"}}, c.query("select t.* from t where a = 1 order by b"))
	c.exec("delete from t where a is null")
	require.Equal(t, []string{"3"}, c.queryFlat("select count(*) from t"))
	require.Equal(t, [][]string{{"1", "1", "1", "1"}, {"2", "2", "2", "2"}}, c.query("select * from t x join t y on x.a = y.a and x.b = y.b where x.b < 5 order by 1"))
	require.Equal(t, [][]string{{"a", "int"}, {"b", "int"}}, c.query("select column_name, data_type from information_schema.columns where table_name = 't' order by 1"))
	requireCode(t, c.try("select `!hidden!rowid` from t"), 1054, "Unknown column")
}

// A statement must not meet the rows it has itself moved ahead of its scan.
func TestHalloween(t *testing.T) {
	forEachKind(t, func(t *testing.T, c *conn) {
		for i := range 200 {
			c.exec("insert into t values (?, ?, ?)", i, i, i)
		}
		c.exec("update t set b = b + 1000 where b >= 0")
		require.Equal(t, []string{"1000", "1199", "200"}, c.query("select min(b), max(b), count(*) from t")[0])
		c.exec("update t set a = a + 1000 where a in (1, 1001, 2001)")
		require.Equal(t, []string{"1001"}, c.queryFlat("select a from t where a > 999"))
		c.exec("update t set b = b + 10 where b in (1000, 1010, 1020)")
		require.Equal(t, []string{"1001"}, c.queryFlat("select min(b) from t"))
		require.Len(t, c.query("select * from t where b = 1010"), 1)
		c.exec("insert into t select cast(id as signed) + 500, a + 5000, b from t")
		require.Equal(t, []string{"400"}, c.queryFlat("select count(*) from t"))
	})
}

func TestAutoIncrement(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (id int primary key auto_increment, a int)")
	r := c.exec("insert into t (a) values (1), (2), (3)")
	id, err := r.LastInsertId()
	require.NoError(t, err)
	require.EqualValues(t, 1, id)
	c.exec("insert into t values (100, 4)")
	r = c.exec("insert into t (a) values (5)")
	id, err = r.LastInsertId()
	require.NoError(t, err)
	require.EqualValues(t, 101, id)
	c.exec("insert into t values (null, 6), (0, 7)")
	require.Equal(t, []string{"1", "2", "3", "100", "101", "102", "103"}, c.queryFlat("select id from t order by id"))
	require.Equal(t, []string{"102"}, c.queryFlat("select last_insert_id()"))
	require.Contains(t, c.query("show create table t")[0][1], "AUTO_INCREMENT=104")
}

func TestMultiTableStatements(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table a (id int primary key, v int)")
	c.exec("create table b (id int primary key, a_id int, w int, key (a_id))")
	c.exec("insert into a values (1, 10), (2, 20), (3, 30)")
	c.exec("insert into b values (1, 1, 1), (2, 1, 2), (3, 2, 3)")
	c.exec("update a join b on a.id = b.a_id set a.v = a.v + b.w")
	require.Len(t, c.query("select * from a where v in (11, 12)"), 1, "a row changes once")
	c.exec("delete b from a join b on a.id = b.a_id where a.id = 1")
	require.Equal(t, []string{"3"}, c.queryFlat("select id from b"))
	require.Equal(t, [][]string{{"2", "3"}}, c.query("select a.id, b.id from a join b on a.id = b.a_id"))
}

func TestWrongValues(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (id tinyint primary key, u int unsigned, s varchar(3), d date, n int not null default 5)")
	for _, tc := range []struct {
		query  string
		number uint16
		text   string
	}{
		{"insert into t (id) values (200)", 1264, "Out of range"},
		{"insert into t (id, u) values (1, -1)", 1264, "Out of range"},
		{"insert into t (id, s) values (1, 'abcd')", 1406, "Data too long"},
		{"insert into t (id, d) values (1, 'x')", 1292, "Incorrect"},
		{"insert into t (id, n) values (1, null)", 1048, "Column 'n' cannot be null"},
		{"select nope from t", 1054, "Unknown column 'nope'"},
		{"select * from nope", 1146, "Table 'test.nope' doesn't exist"},
		{"insert into t values (1)", 1136, "Column count"},
	} {
		requireCode(t, c.try(tc.query), tc.number, tc.text)
	}
	require.Empty(t, c.query("select * from t"))
}

func TestManyRows(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (id int primary key auto_increment, k int, c char(20), key k (k))")
	for range 5 {
		rows := make([]string, 1000)
		for i := range rows {
			rows[i] = fmt.Sprintf("(%d, 'c%d')", i%97, i)
		}
		c.exec("insert into t (k, c) values " + strings.Join(rows, ", "))
	}
	require.Equal(t, []string{"5000"}, c.queryFlat("select count(*) from t"))
	require.Equal(t, []string{"55"}, c.queryFlat("select count(*) from t where k = 5"))
	require.Len(t, c.query("select * from t where k between 10 and 12"), 165)
	require.Equal(t, []string{"96", "96"}, c.queryFlat("select k from t order by k desc limit 2"))
}

// A join reads its inner table again and again while the statement changes it.
func TestJoinsDoNotSeeTheirOwnChanges(t *testing.T) {
	forEachKind(t, func(t *testing.T, c *conn) {
		if err := c.try("update t x join t y on x.a = y.a set x.b = 1"); err != nil {
			requireCode(t, err, 1235, "keyless tables")
			return
		}
		c.exec("insert into t values (1, 10, 1), (2, 20, 2), (3, 30, 3)")
		c.exec("create table u (x int primary key, y int)")
		c.exec("insert into u values (1, 1), (2, 2), (3, 3)")
		c.exec("update u cross join t set t.b = t.b + 100")
		require.Equal(t, []string{"101", "102", "103"}, c.queryFlat("select b from t order by b"))
		c.exec("update u join t on t.a > u.y set t.a = t.a + 1000, t.b = t.b + 1000")
		require.Equal(t, []string{"1010", "1020", "1030"}, c.queryFlat("select a from t order by a"))
		c.exec("begin")
		c.exec("update t set b = 7")
		c.exec("update u cross join t set t.b = t.b + 1")
		require.Equal(t, []string{"8", "8", "8"}, c.queryFlat("select b from t"))
		requireCode(t, c.try("update u cross join t set t.b = 9, t.a = 1"), 1062, "Duplicate entry '1' for key 't.a'")
		require.Equal(t, []string{"8", "8", "8"}, c.queryFlat("select b from t"), "nothing of a failed statement is left")
		c.exec("commit")
		require.Len(t, c.query("select * from t where b = 8"), 3)
	})
}

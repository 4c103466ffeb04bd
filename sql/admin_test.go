package sql_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUsers(t *testing.T) {
	n := newNode(t)
	c := n.conn()
	c.exec("create table t (id int primary key)")
	c.exec("create user alice@localhost identified by 'secret'")
	c.exec("grant select on test.* to alice@localhost")
	ping := func(n *node, user string) error { return n.open(user, "").Ping() }
	check := func(n *node) {
		require.NoError(t, ping(n, "alice:secret"))
		requireCode(t, ping(n, "alice:wrong"), 1045, "Access denied")
		requireCode(t, ping(n, "nobody"), 1045, "Access denied")
		alice := n.open("alice:secret", "")
		_, err := alice.Exec("select * from t")
		require.NoError(t, err)
		_, err = alice.Exec("insert into t values (1)")
		requireCode(t, err, 1142, "command denied")
		_, err = alice.Exec("create table x (id int)")
		require.Error(t, err)
	}
	check(n)
	c.exec("set password for alice@localhost = 'other'")
	require.NoError(t, ping(n, "alice:other"))
	c.exec("set password for alice@localhost = 'secret'")
	n.close()
	n = openNode(t, n.fs)
	check(n)
	n.conn().exec("insert into t values (1)")
	n.conn().exec("drop user alice@localhost")
	requireCode(t, ping(n, "alice:secret"), 1045, "Access denied")
}

func TestRootPasswordSurvivesRestart(t *testing.T) {
	n := newNode(t)
	n.conn().exec("set password for root@localhost = 'top'")
	n.close()
	n = openNode(t, n.fs)
	requireCode(t, n.open("root", "").Ping(), 1045, "Access denied")
	db := n.open("root:top", "")
	_, err := db.Exec("create user bob@localhost")
	require.NoError(t, err)
}

func TestKill(t *testing.T) {
	n := newNode(t)
	admin, victim := n.conn(), n.conn()
	admin.exec("create table t (id int primary key, v int)")
	for i := range 200 {
		admin.exec("insert into t values (?, 0)", i)
	}
	id := victim.queryFlat("select connection_id()")[0]
	running := func() bool {
		for _, p := range admin.query("show processlist") {
			if p[0] == id && p[7] != "<nil>" && p[7] != "" {
				return true
			}
		}
		return false
	}

	t.Run("query", func(t *testing.T) {
		victim.exec("begin")
		victim.exec("insert into t values (1000, 0)")
		done := make(chan error, 1)
		go func() { done <- victim.try("update t set v = 1 where id < 150 and sleep(0.02) = 0") }()
		require.Eventually(t, running, 5*time.Second, 5*time.Millisecond)
		time.Sleep(100 * time.Millisecond)
		admin.exec("kill query " + id)
		requireCode(t, <-done, 1317, "interrupted")
		require.Equal(t, []string{"0"}, victim.queryFlat("select count(*) from t where v = 1"), "nothing of the statement is left")
		require.Equal(t, []string{"1"}, victim.queryFlat("select count(*) from t where id = 1000"), "the transaction goes on")
		victim.exec("commit")
	})
	t.Run("connection", func(t *testing.T) {
		victim.exec("begin")
		victim.exec("insert into t values (1001, 0)")
		admin.exec("kill " + id)
		require.Eventually(t, func() bool { return victim.PingContext(context.Background()) != nil }, 5*time.Second, 5*time.Millisecond)
		require.Empty(t, admin.query("select * from t where id = 1001"))
	})
}

func TestInformationSchema(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (id int primary key auto_increment, k int, c varchar(20) not null default 'x' comment 'text', key k (k), unique key ck (c(5), k))")
	c.exec("insert into t (k) values (1)")
	require.Equal(t, [][]string{{"t", "BASE TABLE", "InnoDB", "utf8mb4_bin"}},
		c.query("select table_name, table_type, engine, table_collation from information_schema.tables where table_schema = 'test'"))
	require.Equal(t, [][]string{
		{"id", "int", "NO", "PRI", "<nil>", "auto_increment"}, {"k", "int", "YES", "MUL", "<nil>", ""}, {"c", "varchar", "NO", "MUL", "x", ""},
	}, c.query("select column_name, data_type, is_nullable, column_key, column_default, extra from information_schema.columns where table_schema = 'test' order by ordinal_position"))
	require.Equal(t, [][]string{{"PRIMARY", "1", "id", "0"}, {"ck", "1", "c", "0"}, {"ck", "2", "k", "0"}, {"k", "1", "k", "1"}},
		c.query("select index_name, seq_in_index, column_name, non_unique from information_schema.statistics where table_schema = 'test' order by binary index_name, 2"))
	require.Equal(t, [][]string{{"PRIMARY", "id"}, {"ck", "c"}, {"ck", "k"}},
		c.query("select constraint_name, column_name from information_schema.key_column_usage where table_schema = 'test' order by binary constraint_name, ordinal_position"))
	require.Subset(t, c.queryFlat("select schema_name from information_schema.schemata"), []string{"test", "information_schema"})
	require.Subset(t, c.queryFlat("show databases"), []string{"test", "mysql", "information_schema"})
	require.Equal(t, [][]string{{"7", "t", "add index", "running", "40"}},
		c.query("select job_id, table_name, job_type, state, percent from information_schema.ddl_jobs"))
	require.Equal(t, []string{"t"}, c.queryFlat("show tables"))
	require.Empty(t, c.query("select * from mysql.tidb_mdl_view"))
	require.Equal(t, []string{"root"}, c.queryFlat("select user from mysql.user where host = 'localhost'"))
	require.Len(t, c.query("show table status like 't'"), 1)
	require.Len(t, c.query("describe t"), 3)
}

func TestStatistics(t *testing.T) {
	n := newNode(t)
	c := n.conn()
	c.exec("create table t (id int primary key, v varchar(100))")
	count := func() string {
		return c.queryFlat("select table_rows from information_schema.tables where table_name = 't'")[0]
	}
	require.Equal(t, "0", count())
	for i := range 30 {
		c.exec("insert into t values (?, ?), (?, ?)", 2*i, fmt.Sprint(i), 2*i+1, "x")
	}
	require.Equal(t, "60", count())
	c.exec("delete from t where id < 20")
	require.Equal(t, "40", count())
}

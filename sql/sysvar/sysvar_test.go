package sysvar_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	gms "github.com/dolthub/go-mysql-server/sql"
	vitess "github.com/dolthub/vitess/go/mysql"
	"github.com/go-sql-driver/mysql"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/sql/sqlerr"
	"fastddl/sql/sysvar"
)

// memStore keeps variables in memory; err, if set, is what writing returns.
type memStore struct {
	mu     sync.Mutex
	values map[string]string
	err    error
}

func (s *memStore) SetGlobalVar(_ context.Context, name, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.values == nil {
		s.values = make(map[string]string)
	}
	s.values[name] = value
	return nil
}

func (s *memStore) GlobalVars(context.Context) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values, s.err
}

// session is a memory session that knows its engine's variables.
type session struct {
	*memory.Session
	vars *sysvar.Vars
}

func (s session) SysVars() *sysvar.Vars { return s.vars }

func (s session) GetAllSessionVariables() map[string]any {
	m := s.Session.GetAllSessionVariables()
	s.vars.RefreshGlobals(m)
	return m
}

type node struct {
	store   *memStore
	globals *config.Globals
	addr    *net.TCPAddr
	db      *sql.DB
}

func start(t *testing.T) *node {
	t.Helper()
	return startWith(t, func(s *memory.Session, vars *sysvar.Vars) gms.Session { return session{s, vars} })
}

func startWith(t *testing.T, wrap func(*memory.Session, *sysvar.Vars) gms.Session) *node {
	t.Helper()
	logrus.SetLevel(logrus.PanicLevel)
	n := &node{store: &memStore{}, globals: config.NewGlobals()}
	vars, err := sysvar.Register(sysvar.Options{Globals: n.globals, Store: n.store, Version: "1.2"})
	require.NoError(t, err)
	pro := memory.NewDBProvider(memory.NewDatabase("db"))
	engine := sqle.NewDefault(pro)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv, err := server.NewServer(server.Config{
		Protocol: "tcp",
		Listener: listener,
		Version:  sysvar.ServerVersion("1.2"),
		Options:  []server.Option{sqlerr.ServerOption()},
	}, engine, gms.NewContext, func(ctx context.Context, c *vitess.Conn, addr string) (gms.Session, error) {
		base, err := gms.BaseSessionFromConnection(ctx, c, addr)
		if err != nil {
			return nil, err
		}
		return wrap(memory.NewSession(base, pro), vars), nil
	}, nil)
	require.NoError(t, err)
	go func() { _ = srv.Start() }()
	n.addr = listener.Addr().(*net.TCPAddr)
	n.db, err = sql.Open("mysql", fmt.Sprintf("root@tcp(%s)/db", n.addr))
	require.NoError(t, err)
	n.db.SetMaxOpenConns(1)
	t.Cleanup(func() {
		require.NoError(t, n.db.Close())
		require.NoError(t, srv.Close())
		srv.SessionManager().WaitForClosedConnections()
		require.NoError(t, engine.Close())
	})
	return n
}

func (n *node) query(t *testing.T, q string) string {
	t.Helper()
	rows, err := n.db.Query(q)
	require.NoError(t, err, q)
	defer func() { require.NoError(t, rows.Close()) }()
	cols, err := rows.Columns()
	require.NoError(t, err)
	var out []string
	for rows.Next() {
		vals := make([]sql.NullString, len(cols))
		ptrs := make([]any, len(cols))
		for i := range vals {
			ptrs[i] = &vals[i]
		}
		require.NoError(t, rows.Scan(ptrs...))
		var line []string
		for _, v := range vals {
			line = append(line, v.String)
		}
		out = append(out, strings.Join(line, "|"))
	}
	require.NoError(t, rows.Err())
	return strings.Join(out, "\n")
}

func TestSetGlobal(t *testing.T) {
	n := start(t)
	for _, tc := range []struct {
		set     string // after "SET GLOBAL"
		name    string
		stored  string
		selects string // SELECT @@name
		shows   string // SHOW VARIABLES
		warning string
	}{
		{"tidb_ddl_reorg_worker_cnt = 7", config.ReorgWorkerCount, "7", "7", "7", ""},
		{"TIDB_DDL_Reorg_Worker_Cnt = '8'", config.ReorgWorkerCount, "8", "8", "8", ""},
		{"tidb_ddl_reorg_worker_cnt = 100000", config.ReorgWorkerCount, "256", "256", "256", "Warning|1292|Truncated incorrect tidb_ddl_reorg_worker_cnt value: '100000'"},
		{"tidb_ddl_reorg_worker_cnt = -1", config.ReorgWorkerCount, "1", "1", "1", "Warning|1292|Truncated incorrect tidb_ddl_reorg_worker_cnt value: '-1'"},
		{"tidb_ddl_reorg_worker_cnt = 2 + 3", config.ReorgWorkerCount, "5", "5", "5", ""},
		{"tidb_ddl_reorg_worker_cnt = default", config.ReorgWorkerCount, "4", "4", "4", ""},
		{"tidb_ddl_enable_fast_reorg = off", config.EnableFastReorg, "OFF", "0", "OFF", ""},
		{"tidb_ddl_enable_fast_reorg = true", config.EnableFastReorg, "ON", "1", "ON", ""},
		{"tidb_ddl_enable_fast_reorg = 0", config.EnableFastReorg, "OFF", "0", "OFF", ""},
		{"tidb_ddl_enable_fast_reorg = 'ON'", config.EnableFastReorg, "ON", "1", "ON", ""},
		{"tidb_ddl_reorg_max_write_speed = '64MiB'", config.ReorgMaxWriteSpeed, "67108864", "67108864", "67108864", ""},
		{"tidb_ddl_reorg_max_write_speed = 1048576", config.ReorgMaxWriteSpeed, "1048576", "1048576", "1048576", ""},
		{"tidb_ddl_disk_quota = 1", config.DiskQuota, "16777216", "16777216", "16777216", "Warning|1292|Truncated incorrect tidb_ddl_disk_quota value: '1'"},
		{"tidb_gc_life_time = '20m'", config.GCLifeTime, "20m0s", "20m0s", "20m0s", ""},
	} {
		t.Run(tc.set, func(t *testing.T) {
			_, err := n.db.Exec("set global " + tc.set)
			require.NoError(t, err)
			require.Equal(t, tc.warning, n.query(t, "show warnings"))
			require.Equal(t, tc.stored, n.store.values[tc.name])
			require.Equal(t, tc.stored, n.globals.Get(tc.name))
			require.Equal(t, tc.selects, n.query(t, "select @@"+tc.name), "select @@x")
			require.Equal(t, tc.selects, n.query(t, "select @@global."+tc.name), "select @@global.x")
			want := tc.name + "|" + tc.shows
			require.Equal(t, want, n.query(t, "show variables like '"+tc.name+"'"))
			require.Equal(t, want, n.query(t, "show global variables like '"+tc.name+"'"))
		})
	}
}

// Each session has a priority of its own, which begins as the global one.
func TestSessionVariable(t *testing.T) {
	n := start(t)
	n.db.SetMaxOpenConns(2)
	ctx := context.Background()
	one, err := n.db.Conn(ctx)
	require.NoError(t, err)
	defer one.Close()
	other, err := n.db.Conn(ctx)
	require.NoError(t, err)
	defer other.Close()
	shown := func(c *sql.Conn, query string) (value string) {
		require.NoError(t, c.QueryRowContext(ctx, query).Scan(&value))
		return value
	}
	for _, tc := range []struct{ text, want string }{
		{"= 'priority_high'", config.PriorityHigh},
		{"= 0", config.PriorityLow},
		{"= 'PRIORITY_NORMAL'", config.PriorityNormal},
		{"= DEFAULT", config.PriorityLow},
	} {
		_, err = one.ExecContext(ctx, "set tidb_ddl_reorg_priority "+tc.text)
		require.NoError(t, err, tc.text)
		require.Equal(t, tc.want, shown(one, "select @@tidb_ddl_reorg_priority"), tc.text)
		require.Equal(t, config.PriorityLow, shown(one, "select @@global.tidb_ddl_reorg_priority"))
		require.Equal(t, config.PriorityLow, shown(other, "select @@session.tidb_ddl_reorg_priority"))
	}
	_, err = one.ExecContext(ctx, "set session tidb_ddl_reorg_priority = 'urgent'")
	require.ErrorContains(t, err, "Error 1231 (42000): Variable 'tidb_ddl_reorg_priority' can't be set to the value of 'urgent'")

	_, err = one.ExecContext(ctx, "set global tidb_ddl_reorg_priority = 'PRIORITY_HIGH'")
	require.NoError(t, err)
	require.Equal(t, config.PriorityLow, shown(one, "select @@tidb_ddl_reorg_priority"))
	require.NoError(t, other.Close())
	n.db.SetMaxIdleConns(0)
	require.Equal(t, config.PriorityHigh, n.query(t, "select @@tidb_ddl_reorg_priority"), "of a new session")
}

func TestSetGlobalErrors(t *testing.T) {
	n := start(t)
	check := func(t *testing.T, query string, number uint16, text string) {
		_, err := n.db.Exec(query)
		var got *mysql.MySQLError
		require.True(t, errors.As(err, &got), "%v", err)
		require.Equal(t, text, got.Message)
		require.Equal(t, number, got.Number)
	}
	for _, tc := range []struct {
		query  string
		number uint16
		text   string
	}{
		{"set global tidb_ddl_reorg_worker_cnt = 'many'", 1232, "Incorrect argument type to variable 'tidb_ddl_reorg_worker_cnt'"},
		{"set global tidb_ddl_reorg_worker_cnt = 1.5", 1232, "Incorrect argument type to variable 'tidb_ddl_reorg_worker_cnt'"},
		{"set global tidb_ddl_reorg_worker_cnt = null", 1231, "Variable 'tidb_ddl_reorg_worker_cnt' can't be set to the value of 'NULL'"},
		{"set global tidb_ddl_enable_fast_reorg = 'maybe'", 1231, "Variable 'tidb_ddl_enable_fast_reorg' can't be set to the value of 'maybe'"},
		{"set global tidb_ddl_enable_fast_reorg = 2", 1231, "Variable 'tidb_ddl_enable_fast_reorg' can't be set to the value of '2'"},
		{"set global tidb_ddl_disk_quota = 'big'", 1231, "Variable 'tidb_ddl_disk_quota' can't be set to the value of 'big'"},
		{"set global tidb_gc_life_time = 'soon'", 1231, "Variable 'tidb_gc_life_time' can't be set to the value of 'soon'"},
		{"set tidb_ddl_reorg_worker_cnt = 3", 1229, "Variable 'tidb_ddl_reorg_worker_cnt' is a GLOBAL variable and should be set with SET GLOBAL"},
		{"set session tidb_ddl_enable_fast_reorg = 1", 1229, "Variable 'tidb_ddl_enable_fast_reorg' is a GLOBAL variable and should be set with SET GLOBAL"},
		{"set global tidb_enable_index_merge = on", 1193, "Unknown system variable 'tidb_enable_index_merge'"},
		{"set tidb_mem_quota_query = 1", 1193, "Unknown system variable 'tidb_mem_quota_query'"},
	} {
		t.Run(tc.query, func(t *testing.T) { check(t, tc.query, tc.number, tc.text) })
	}
	require.Empty(t, n.store.values, "a refused value is not persisted")

	n.store.err = errors.New("disk full")
	check(t, "set global tidb_ddl_reorg_worker_cnt = 9", 1105, "persist tidb_ddl_reorg_worker_cnt: disk full")
	require.Equal(t, "4", n.globals.Get(config.ReorgWorkerCount), "what is not persisted is not in force")
}

func TestLoad(t *testing.T) {
	store := &memStore{values: map[string]string{
		config.ReorgWorkerCount: "9", config.EnableFastReorg: "OFF", "tidb_from_the_future": "1", config.GCLifeTime: "x",
	}}
	globals := config.NewGlobals()
	ignored, err := sysvar.Load(context.Background(), store, globals)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"tidb_from_the_future", config.GCLifeTime}, ignored)
	require.EqualValues(t, 9, globals.Int(config.ReorgWorkerCount))
	require.False(t, globals.Bool(config.EnableFastReorg))

	store.err = errors.New("gone")
	_, err = sysvar.Load(context.Background(), store, globals)
	require.ErrorContains(t, err, "load global variables: gone")
	_, err = sysvar.Register(sysvar.Options{})
	require.ErrorContains(t, err, "Globals is missing")
	require.ErrorContains(t, err, "Store is missing")
}

// TestTwoEngines: a session sets and reads the variables of its own engine.
func TestTwoEngines(t *testing.T) {
	a, b := start(t), start(t)
	_, err := a.db.Exec("set global tidb_ddl_reorg_worker_cnt = 11")
	require.NoError(t, err)
	require.EqualValues(t, 11, a.globals.Int(config.ReorgWorkerCount))
	require.EqualValues(t, 4, b.globals.Int(config.ReorgWorkerCount))
	require.Equal(t, "11", a.query(t, "select @@tidb_ddl_reorg_worker_cnt"))
	require.Equal(t, "4", b.query(t, "select @@tidb_ddl_reorg_worker_cnt"))
	require.Equal(t, "tidb_ddl_reorg_worker_cnt|11", a.query(t, "show variables like 'tidb_ddl_reorg_worker_cnt'"))
}

// TestMySQLVariables: what clients set and ask for when they connect.
func TestMySQLVariables(t *testing.T) {
	n := start(t)
	require.Equal(t, "8.0.40-fastddl-1.2|fastddl 1.2|8.0.40-fastddl-1.2|2", n.query(t, "select @@version, @@version_comment, version(), @@lower_case_table_names"))
	for _, q := range []string{
		"SET NAMES utf8mb4",
		"SET NAMES 'utf8mb4' COLLATE 'utf8mb4_general_ci'",
		"SET character_set_results = NULL",
		"SET autocommit=1",
		"SET sql_mode='STRICT_TRANS_TABLES,NO_ZERO_DATE'",
		"SET time_zone = '+00:00'",
		"SET SESSION wait_timeout = 600",
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		"SET SESSION tx_isolation = 'REPEATABLE-READ'",
		"SET innodb_lock_wait_timeout = 5",
		"SET GLOBAL innodb_lock_wait_timeout = 60",
		"SET SQL_SELECT_LIMIT = 18446744073709551615",
		"SET SQL_SELECT_LIMIT = DEFAULT",
		"SET net_write_timeout = 600",
		"SET foreign_key_checks = 0",
		"SET unique_checks = 0",
		"SET sql_log_bin = 0",
		"SET SESSION max_execution_time = 1000",
		"SET GLOBAL max_connections = 200",
		"SET SESSION sql_auto_is_null = 0",
		"/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */",
	} {
		_, err := n.db.Exec(q)
		require.NoError(t, err, q)
	}
	_, err := n.db.Exec("SET SQL_SELECT_LIMIT = 18446744073709551615")
	require.NoError(t, err)
	require.Empty(t, n.query(t, "show warnings"))
	require.Equal(t, "18446744073709551615", n.query(t, "select @@sql_select_limit"))
	require.Equal(t, "1\n2", n.query(t, "select id from (select 1 as id union all select 2) x order by id"))
	_, err = n.db.Exec("SET SQL_SELECT_LIMIT = 1")
	require.NoError(t, err)
	require.Equal(t, "1", n.query(t, "select id from (select 1 as id union all select 2) x order by id"))
	_, err = n.db.Exec("SET SQL_SELECT_LIMIT = DEFAULT")
	require.NoError(t, err)
	require.Equal(t, "5", n.query(t, "select @@innodb_lock_wait_timeout"))
	// The query that the JDBC driver sends when it connects.
	n.query(t, "SELECT @@session.auto_increment_increment AS auto_increment_increment, @@character_set_client AS character_set_client, "+
		"@@character_set_connection AS character_set_connection, @@character_set_results AS character_set_results, @@character_set_server AS character_set_server, "+
		"@@collation_server AS collation_server, @@collation_connection AS collation_connection, @@init_connect AS init_connect, @@interactive_timeout AS interactive_timeout, "+
		"@@license AS license, @@lower_case_table_names AS lower_case_table_names, @@max_allowed_packet AS max_allowed_packet, @@net_write_timeout AS net_write_timeout, "+
		"@@performance_schema AS performance_schema, @@sql_mode AS sql_mode, @@system_time_zone AS system_time_zone, @@time_zone AS time_zone, "+
		"@@transaction_isolation AS transaction_isolation, @@wait_timeout AS wait_timeout")

	_, err = n.db.Exec("SET SESSION wait_timeout = 99999999")
	require.NoError(t, err)
	require.Equal(t, "Warning|1292|Truncated incorrect wait_timeout value: '99999999'", n.query(t, "show warnings"))
	require.Equal(t, "31536000", n.query(t, "select @@wait_timeout"))
	_, err = n.db.Exec("SET SESSION wait_timeout = 0")
	require.NoError(t, err)
	require.Equal(t, "1", n.query(t, "select @@wait_timeout"))
	require.Equal(t, "max_connections|200", n.query(t, "show variables like 'max_connections'"), "a global variable set after the session began")
}

// TestCommandLineClients runs the clients that are installed.
func TestCommandLineClients(t *testing.T) {
	// Memory tables insist on sessions of exactly their own type.
	n := startWith(t, func(s *memory.Session, _ *sysvar.Vars) gms.Session { return s })
	host := []string{"-h127.0.0.1", fmt.Sprintf("-P%d", n.addr.Port), "-uroot"}
	t.Run("mysql", func(t *testing.T) {
		if _, err := exec.LookPath("mysql"); err != nil {
			t.Skip("no mysql client")
		}
		out, err := exec.Command("mysql", append(host, "-vv", "-e",
			"SET NAMES utf8mb4; SHOW VARIABLES LIKE 'tidb_ddl%'; SET GLOBAL tidb_ddl_reorg_worker_cnt = 999; SHOW WARNINGS; \\s", "db")...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "tidb_ddl_reorg_worker_cnt\t4")
		require.Contains(t, string(out), "Warning\t1292\tTruncated incorrect tidb_ddl_reorg_worker_cnt value: '999'")
		require.Contains(t, string(out), "8.0.40-fastddl-1.2")
	})
	t.Run("sysbench", func(t *testing.T) {
		if _, err := exec.LookPath("sysbench"); err != nil {
			t.Skip("no sysbench")
		}
		args := []string{"oltp_read_only", "--mysql-host=127.0.0.1", fmt.Sprintf("--mysql-port=%d", n.addr.Port), "--mysql-user=root", "--mysql-db=db",
			"--tables=1", "--table-size=20", "--threads=1", "--events=1", "--time=0"}
		for _, command := range []string{"prepare", "run"} {
			out, err := exec.Command("sysbench", append(args, command)...).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
	})
}

package sql_test

import (
	"context"
	gosql "database/sql"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	tidbconfig "github.com/pingcap/tidb/pkg/config"
	"github.com/pingcap/tidb/pkg/server"
	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/ddl"
)

// serve runs TiDB's server on the layer until the test ends, and returns connections
// of root.
func (e *env) serve() *gosql.DB {
	e.t.Helper()
	return e.connect(e.listen(), "root")
}

// listen runs TiDB's server on the layer until the test ends, at the port returned.
func (e *env) listen() (port int) {
	e.t.Helper()
	cfg := *tidbconfig.GetGlobalConfig()
	cfg.Host, cfg.Port, cfg.Socket = "127.0.0.1", 0, ""
	cfg.Status.ReportStatus = false
	server.RunInGoTest = true // which lets it take a free port
	server.RunInGoTestChan = make(chan struct{})
	s, err := server.NewServer(&cfg, e.Driver())
	require.NoError(e.t, err)
	s.SetDomain(e.Domain())
	e.Domain().InfoSyncer().SetSessionManager(s)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(e.Domain()) }()
	e.t.Cleanup(func() {
		s.Close()
		require.NoError(e.t, <-ended)
	})
	<-server.RunInGoTestChan
	return s.ListenAddr().(*net.TCPAddr).Port
}

// connect returns connections of a user without a password.
func (e *env) connect(port int, user string) *gosql.DB {
	e.t.Helper()
	db, err := gosql.Open("mysql", fmt.Sprintf("%s@tcp(127.0.0.1:%d)/test?multiStatements=true", user, port))
	require.NoError(e.t, err)
	e.t.Cleanup(func() { require.NoError(e.t, db.Close()) })
	require.Eventually(e.t, func() bool { return db.Ping() == nil }, time.Minute, 10*time.Millisecond)
	return db
}

// Over the wire: KILL QUERY cancels the job, a lost connection does not, an idle
// transaction that a job waits for is ended, and ADMIN statements work prepared.
func TestOverTheWire(t *testing.T) {
	e := newEnv(t)
	db := e.serve()
	ctx := context.Background()
	exec := func(query string) {
		t.Helper()
		_, err := db.Exec(query)
		require.NoError(t, err, query)
	}
	one := func(query string, args ...any) (text string) {
		t.Helper()
		require.NoError(t, db.QueryRow(query, args...).Scan(&text), query)
		return text
	}
	jobState := "SELECT state FROM mysql.fastddl_ddl_jobs WHERE job_id = ?"
	exec("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	exec("INSERT INTO t VALUES (1,1),(2,2)")
	conn := func() *gosql.Conn {
		c, err := db.Conn(ctx)
		require.NoError(t, err)
		return c
	}
	connID := func(c *gosql.Conn) (id string) {
		require.NoError(t, c.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id))
		return id
	}

	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	c := conn()
	id, result := connID(c), make(chan error, 1)
	go func() {
		_, err := c.ExecContext(ctx, "ALTER TABLE t ADD UNIQUE INDEX u (b)")
		result <- err
	}()
	reach(t, arrived)
	exec("KILL QUERY " + id)
	asked(t, has(result))
	close(leave)
	require.ErrorContains(t, wait(t, result), "1317")
	require.NoError(t, c.Close())
	// A statement that was killed does not wait for all that is undone.
	require.Eventually(t, func() bool { return one("SELECT COUNT(*) FROM mysql.fastddl_ddl_record") == "0" }, time.Minute, 5*time.Millisecond)

	arrived, leave = e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	c = conn()
	lost, cancel := context.WithCancel(ctx)
	go func() {
		_, err := c.ExecContext(lost, "ALTER TABLE t ADD UNIQUE INDEX u (b)")
		result <- err
	}()
	reach(t, arrived)
	cancel() // the driver closes the connection
	require.ErrorIs(t, wait(t, result), context.Canceled)
	id = one("SELECT MAX(job_id) FROM mysql.fastddl_ddl_record")
	time.Sleep(50 * time.Millisecond) // in which a server that cancels would; nothing depends on it
	close(leave)
	require.Eventually(t, func() bool { return one(jobState, id) == "synced" }, time.Minute, 10*time.Millisecond)

	idle := conn()
	_, err := idle.ExecContext(ctx, "BEGIN; UPDATE t SET b = b + 10 WHERE a = 1")
	require.NoError(t, err)
	exec("SET GLOBAL " + config.IdleBlockerTimeout + " = '100ms'")
	exec("ALTER TABLE t ADD INDEX i (b)")
	exec("SET GLOBAL " + config.IdleBlockerTimeout + " = DEFAULT")
	require.Error(t, idle.PingContext(ctx))
	_ = idle.Close()

	arrived, leave = e.blockAt(ddl.HookPoint{When: "before", Action: "await-older"})
	go func() {
		_, err := db.Exec("ALTER TABLE t ADD INDEX j (b)")
		result <- err
	}()
	reach(t, arrived)
	id = one("SELECT MAX(job_id) FROM mysql.fastddl_ddl_record")
	cancelJob, err := db.Prepare("ADMIN CANCEL DDL JOBS " + id)
	require.NoError(t, err)
	answered := make(chan error, 1)
	go func() {
		var job, said string
		err := cancelJob.QueryRow().Scan(&job, &said)
		if err == nil && said != "successful" {
			err = fmt.Errorf("ADMIN CANCEL said %q", said)
		}
		answered <- err
	}()
	asked(t, has(answered))
	close(leave)
	require.NoError(t, wait(t, answered))
	require.ErrorContains(t, wait(t, result), "8214")
	rows, err := db.Query("ADMIN SHOW DDL JOBS 1")
	require.NoError(t, err)
	columns, err := rows.Columns()
	require.NoError(t, err)
	require.Equal(t, "JOB_ID", strings.ToUpper(columns[0]))
	require.NoError(t, rows.Close())
	exec("ADMIN CHECK TABLE t")
}

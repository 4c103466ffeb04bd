package sql_test

import (
	"context"
	gosql "database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	tidbconfig "github.com/pingcap/tidb/pkg/config"
	"github.com/pingcap/tidb/pkg/server"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"

	"fastddl/config"
	"fastddl/ddl"
	"fastddl/sql"
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
	e.Domain().InfoSyncer().SetSessionManager(e.SessionManager(s))
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
	require.Eventually(e.t, func() bool { return db.Ping() == nil }, hangTimeout, 10*time.Millisecond)
	return db
}

// Over the wire: KILL QUERY cancels the job, a lost connection does not, an idle
// transaction that a job waits for is ended, and ADMIN statements work prepared.
func TestJobControlOverTheProtocol(t *testing.T) {
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
	require.Eventually(t, func() bool { return one("SELECT COUNT(*) FROM mysql.fastddl_ddl_record") == "0" }, hangTimeout, 5*time.Millisecond)

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
	require.Eventually(t, func() bool { return one(jobState, id) == "synced" }, hangTimeout, 10*time.Millisecond)

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

// held is a client of the store that keeps the coprocessor requests to one table until their context ends.
type held struct {
	tikv.Client
	table   atomic.Int64
	arrived chan struct{}
}

// SendRequest implements tikv.Client.
func (h *held) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	if req.Type == tikvrpc.CmdCop && tablecodec.DecodeTableID(req.Cop().Ranges[0].Start) == h.table.Load() {
		h.arrived <- struct{}{}
		<-ctx.Done()
	}
	return h.Client.SendRequest(ctx, addr, req, timeout)
}

// A statement that is ended while the store works for it says why, also if it writes, or comes prepared.
func TestKilledInARequest(t *testing.T) {
	h := &held{arrived: make(chan struct{}, 1)}
	e := newEnv(t, func(o *sql.Options) {
		storage := o.Storage.(interface {
			GetTiKVClient() tikv.Client
			SetTiKVClient(tikv.Client)
		})
		h.Client = storage.GetTiKVClient()
		storage.SetTiKVClient(h)
	})
	db := e.serve()
	db.SetMaxOpenConns(1)
	ctx := t.Context()
	_, err := db.ExecContext(ctx, "CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 1); CREATE TABLE copy LIKE t")
	require.NoError(t, err)
	var id uint64
	require.NoError(t, db.QueryRowContext(ctx, "SELECT tidb_table_id FROM information_schema.tables WHERE table_name = 't'").Scan(&id))
	h.table.Store(int64(id))
	require.NoError(t, db.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id))
	for _, tc := range []struct {
		query string
		args  []any
		late  bool // its time is over
		code  string
	}{
		{"SELECT b FROM t", nil, false, "1317"},
		{"SELECT b FROM t", nil, true, "3024"},
		{"SELECT b FROM t WHERE b > ?", []any{0}, false, "1317"},
		{"SELECT b FROM t WHERE b > ?", []any{0}, true, "3024"},
		{"INSERT INTO copy SELECT * FROM t", nil, false, "1317"},
	} {
		result := make(chan error, 1)
		go func() {
			rows, err := db.QueryContext(ctx, tc.query, tc.args...)
			if err == nil {
				for rows.Next() { // reading is all that is asked
				}
				err = errors.Join(rows.Err(), rows.Close())
			}
			result <- err
		}()
		reach(t, h.arrived)
		e.Domain().InfoSyncer().GetSessionManager().Kill(id, true, tc.late, false)
		require.ErrorContains(t, wait(t, result), tc.code, "%s, late: %t", tc.query, tc.late)
	}
}

// An ADMIN statement that is killed while it waits for the job says so, as any other.
func TestKilledAdmin(t *testing.T) {
	e := newEnv(t)
	db := e.serve()
	ctx := t.Context()
	_, err := db.ExecContext(ctx, "CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	require.NoError(t, err)
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	built := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(ctx, "ALTER TABLE t ADD INDEX i (b)")
		built <- err
	}()
	reach(t, arrived)
	admin, err := db.Conn(ctx)
	require.NoError(t, err)
	var conn uint64
	require.NoError(t, admin.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&conn))
	result := make(chan error, 1)
	go func() {
		var id, said string
		err := admin.QueryRowContext(ctx, fmt.Sprintf("ADMIN PAUSE DDL JOBS %d", e.DDL().Unfinished()[0].ID)).Scan(&id, &said)
		result <- errors.Join(err, errors.New(said))
	}()
	asked(t, has(result))
	e.Domain().InfoSyncer().GetSessionManager().Kill(conn, true, false, false)
	require.ErrorContains(t, wait(t, result), "1317")
	close(leave)
	require.NoError(t, wait(t, built))
	require.NoError(t, admin.Close())
}

package fuzz

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/internal/servertest"
)

// program is the path of the server under test.
var program string

func TestMain(m *testing.M) { os.Exit(servertest.Main(m, &program)) }

const (
	// hangTimeout is how long anything may take on a busy machine before it counts
	// as hanging.
	hangTimeout = 3 * time.Minute
	// memoryLimit is the server's setting, mostMemory what it may hold while
	// it is attacked: packets and results of single clients come on top.
	memoryLimit = "1GiB"
	mostMemory  = 4 << 30
)

// runTime is how long a random test runs.
func runTime(t *testing.T) time.Duration {
	t.Helper()
	return randtest.Time(t, 4*time.Second, 10*time.Minute)
}

// target is a server under attack, with a client that must not notice.
type target struct {
	*servertest.Node
	t *testing.T

	ended    chan struct{}
	watching sync.WaitGroup
	// rounds is what the well-behaved client has done, slowest its slowest round.
	rounds  atomic.Int64
	slowest atomic.Int64
	memory  atomic.Int64
}

// execAll does statements that never fail, on a connection or on any of a pool.
func execAll(t *testing.T, on interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, queries ...string) {
	t.Helper()
	for _, query := range queries {
		_, err := on.ExecContext(context.Background(), query)
		require.NoError(t, err, query)
	}
}

// startTarget starts a server with so much memory, and the client that watches it.
func startTarget(t *testing.T, memory string, flags ...string) *target {
	t.Helper()
	flags = append([]string{"--memory-limit", memory}, flags...)
	tg := &target{Node: servertest.Start(t, program, t.TempDir(), flags...), t: t, ended: make(chan struct{})}
	conn := tg.connect("")
	execAll(t, conn, "CREATE DATABASE health", "CREATE TABLE health.h (id BIGINT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20), KEY v (v))")
	tg.watching.Go(func() { tg.behave(conn) })
	tg.watching.Go(tg.weigh)
	return tg
}

// stop ends the watch and checks that the server is as well as before.
func (tg *target) stop() {
	tg.t.Helper()
	close(tg.ended)
	tg.watching.Wait()
	require.False(tg.t, tg.Exited(), "the server has ended")
	tg.t.Logf("%d rounds of the well-behaved client, the slowest %s; at most %d MiB of memory",
		tg.rounds.Load(), time.Duration(tg.slowest.Load()).Round(time.Millisecond), tg.memory.Load()>>20)
	require.Positive(tg.t, tg.rounds.Load())
	require.Less(tg.t, tg.memory.Load(), int64(mostMemory))
	tg.requireGone()
}

// requireGone waits until the connections of the attackers are gone.
func (tg *target) requireGone() {
	tg.t.Helper()
	db := tg.Open("")
	defer db.Close()
	var ids int
	require.Eventually(tg.t, func() bool {
		err := db.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE id <> CONNECTION_ID()").Scan(&ids)
		return err == nil && ids == 0
	}, hangTimeout, 100*time.Millisecond, "connections are left")
}

// connect returns one connection, which is never replaced by another.
func (tg *target) connect(database string) *sql.Conn {
	tg.t.Helper()
	conn, err := tg.dial(database)
	require.NoError(tg.t, err)
	return conn
}

func (tg *target) dial(database string) (*sql.Conn, error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName = "tcp", tg.Addr, "root", database
	cfg.Timeout = hangTimeout
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(-1) // closing the connection closes it
	tg.t.Cleanup(func() { _ = db.Close() })
	return db.Conn(context.Background())
}

// behave is the well-behaved client: it writes, reads, and logs in again at
// times. Nothing of it may fail.
func (tg *target) behave(conn *sql.Conn) {
	for {
		select {
		case <-tg.ended:
			_ = conn.Close()
			return
		case <-time.After(20 * time.Millisecond):
		}
		start := time.Now()
		if err := tg.round(conn); err != nil {
			tg.t.Errorf("the well-behaved client, after %s in round %d: %v", time.Since(start).Round(time.Millisecond), tg.rounds.Load(), err)
			<-tg.ended
			_ = conn.Close()
			return
		}
		tg.rounds.Add(1)
		tg.slowest.Store(max(tg.slowest.Load(), int64(time.Since(start))))
	}
}

func (tg *target) round(conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	defer cancel()
	want := fmt.Sprintf("round %d", tg.rounds.Load())
	res, err := conn.ExecContext(ctx, "INSERT INTO health.h (v) VALUES (?)", want)
	if err != nil {
		return err
	}
	id, err := res.LastInsertId()
	if err != nil {
		return err
	}
	var got string
	if err := conn.QueryRowContext(ctx, "SELECT v FROM health.h WHERE id = ?", id).Scan(&got); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%q was stored and %q read", want, got)
	}
	if tg.rounds.Load()%10 != 0 {
		return nil
	}
	fresh, err := tg.dial("health")
	if err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	defer fresh.Close()
	return fresh.PingContext(ctx)
}

// weigh watches the memory of the server.
func (tg *target) weigh() {
	for {
		select {
		case <-tg.ended:
			return
		case <-time.After(50 * time.Millisecond):
			now := residentMemory(tg.Cmd.Process.Pid)
			tg.memory.Store(max(tg.memory.Load(), now))
			if now > 2*mostMemory {
				tg.t.Errorf("the server holds %d MiB; ended before the machine suffers", now>>20)
				tg.Kill()
				return
			}
		}
	}
}

// residentMemory is what a process and its children hold, in bytes; 0 where the
// system does not show it.
func residentMemory(pid int) int64 {
	var total int64
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kib int64
			_, _ = fmt.Sscan(rest, &kib) // zero if there is none
			total += kib << 10
		}
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return total
	}
	for _, child := range strings.Fields(string(children)) {
		if id, err := strconv.Atoi(child); err == nil {
			total += residentMemory(id)
		}
	}
	return total
}

// resume resumes the jobs that are paused.
func (tg *target) resume(conn *sql.Conn) {
	ctx := context.Background()
	rows, err := conn.QueryContext(ctx, "SELECT job_id FROM information_schema.ddl_jobs WHERE state = 'paused'")
	if err != nil {
		return // the next look will tell
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if rows.Scan(&id) == nil {
			ids = append(ids, id)
		}
	}
	if rows.Err() != nil || rows.Close() != nil {
		return
	}
	for _, id := range ids {
		_, _ = conn.ExecContext(ctx, fmt.Sprintf("ADMIN RESUME DDL JOBS %d", id)) // it may run by now
	}
}

// goroutines writes the stacks of the server to a file and returns its name.
func (tg *target) goroutines() string {
	client := http.Client{Timeout: hangTimeout}
	response, err := client.Get("http://root:@" + tg.Status + "/debug/pprof/goroutine?debug=2")
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	file, err := os.CreateTemp("", "fastddl-fuzz-goroutines-*.txt")
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if _, err := io.Copy(file, response.Body); err != nil {
		return err.Error()
	}
	return file.Name()
}

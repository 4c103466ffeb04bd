package blackbox

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// share is what mysql.fastddl_ddl_jobs shows of an index build that has not ended;
// it is brought up to date every second.
type share struct {
	id, table, state, stage, wait, priority string
	percent, rowsPerSecond                  float64
	eta                                     sql.NullFloat64
	threads, workers                        int64
	memory, temp                            int64
	maxWriteSpeed, writeSpeed               int64
}

// shares returns the index builds that have not ended, the first of each table.
func shares(t *testing.T, db *sql.DB) map[string]share {
	t.Helper()
	rows, err := db.Query(`SELECT job_id, table_name, state, COALESCE(stage, ''), COALESCE(wait_reason, ''), COALESCE(priority, ''),
		percent, rows_per_second, eta_seconds, threads, workers, memory_bytes, temp_bytes, max_write_speed, write_speed
		FROM mysql.fastddl_ddl_jobs WHERE end_time IS NULL AND workers IS NOT NULL ORDER BY job_id`)
	require.NoError(t, err)
	defer rows.Close()
	found := make(map[string]share)
	for rows.Next() {
		var s share
		require.NoError(t, rows.Scan(&s.id, &s.table, &s.state, &s.stage, &s.wait, &s.priority, &s.percent, &s.rowsPerSecond, &s.eta,
			&s.threads, &s.workers, &s.memory, &s.temp, &s.maxWriteSpeed, &s.writeSpeed))
		if _, behind := found[s.table]; !behind {
			found[s.table] = s
		}
	}
	require.NoError(t, rows.Err())
	return found
}

// eventually waits until the build on a table is as it should be. Where the machine is
// not busy, a request of a client has its effect within a second, and shows a second
// later.
func eventually(t *testing.T, db *sql.DB, table, what string, cond func(share) bool) share {
	t.Helper()
	for start := time.Now(); ; time.Sleep(pollInterval) {
		s, ok := shares(t, db)[table]
		if ok && cond(s) {
			return s
		}
		require.Less(t, time.Since(start), hangTimeout, "%s: %+v", what, s)
	}
}

// addIndex begins to add an index in a session of its own.
func (n *node) addIndex(table, priority string) <-chan error {
	term := n.terminal()
	term.exec("SET tidb_ddl_reorg_priority = '" + priority + "'")
	return term.start("ALTER TABLE " + table + " ADD INDEX kc (k, c)")
}

// throttled says that the build waits for the node's write speed.
func throttled(s share) bool { return s.wait == "throttled: tidb_ddl_reorg_max_write_speed" }

// Indexes of 50 tables are added at once, with memory for five builds and a slow
// disk: all are built, together they never have more than there is, and what they
// had is given back.
func TestFiftyTablesAtOnce(t *testing.T) {
	randtest.SkipShort(t)
	const (
		tables, rows = 50, 400
		memoryQuota  = 24 << 20
		diskQuota    = 16 << 20
		workers      = 3
	)
	dir := t.TempDir()
	n := startNode(t, dir)
	db := n.db()
	for i := range tables {
		fill(t, db, fmt.Sprintf("t%d", i), rows)
	}
	mustExec(t, db, fmt.Sprintf("SET GLOBAL fastddl_ddl_memory_quota = %d", memoryQuota))
	mustExec(t, db, fmt.Sprintf("SET GLOBAL tidb_ddl_disk_quota = %d", diskQuota))
	mustExec(t, db, fmt.Sprintf("SET GLOBAL tidb_ddl_reorg_worker_cnt = %d", workers))
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = '800KiB'")
	terminals := make([]*terminal, tables)
	for i := range terminals {
		terminals[i] = n.terminal()
	}
	goroutines := number(n.metric("go_goroutines"))
	// So slow that all of them begin before one can end, until what is to be seen was.
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 65536")

	done := make([]<-chan error, tables)
	for i, term := range terminals {
		done[i] = term.start(fmt.Sprintf("ALTER TABLE t%d ADD INDEX k (k), ADD UNIQUE INDEX c (c)", i))
	}
	all, ended := make(chan error, 1), false
	go func() {
		var errs []error
		for _, d := range done {
			errs = append(errs, <-d)
		}
		all <- errors.Join(errs...)
	}()
	mostBuilding, waited := 0, false
	for deadline := time.Now().Add(10 * time.Minute); !ended; {
		require.True(t, time.Now().Before(deadline), "%+v", shares(t, db))
		var memory, temp int64
		building := 0
		for _, s := range shares(t, db) {
			memory, temp = memory+s.memory, temp+s.temp
			require.LessOrEqual(t, s.workers, int64(workers))
			if s.workers > 0 {
				building++
			}
			waited = waited || s.wait == "waiting for memory: fastddl_ddl_memory_quota"
		}
		require.LessOrEqual(t, memory, int64(memoryQuota))
		require.LessOrEqual(t, temp, int64(diskQuota))
		if mostBuilding = max(mostBuilding, building); mostBuilding > 1 && waited {
			mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
		}
		select {
		case err := <-all:
			require.NoError(t, err)
			ended = true
		case <-time.After(pollInterval):
		}
	}
	require.Greater(t, mostBuilding, 1, "builds run side by side")
	require.True(t, waited, "there is no memory for all of them")
	for i := range tables {
		mustExec(t, db, fmt.Sprintf("ADMIN CHECK TABLE t%d", i))
		require.Equal(t, []string{"PRIMARY", "c", "k"}, indexNames(t, db, fmt.Sprintf("t%d", i)))
	}
	requireEmptyTempDir(t, filepath.Join(dir, "tmp"))
	// TiDB keeps some in its pools.
	require.Eventually(t, func() bool { return number(n.metric("go_goroutines")) <= goroutines+tables }, startTimeout, pollInterval,
		"%v before", goroutines)
	for _, file := range n.openFiles(filepath.Join(dir, "tmp")) {
		require.True(t, strings.HasSuffix(strings.ToUpper(file), "LOCK"), "%s is open", file)
	}
	require.Empty(t, shares(t, db))
}

// openFiles lists the files below a folder that the process has open.
func (n *node) openFiles(folder string) (open []string) {
	n.t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", n.cmd.Process.Pid))
	require.NoError(n.t, err)
	require.NotEmpty(n.t, fds)
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, folder) {
			open = append(open, target)
		}
	}
	return open
}

// Three builds of different priority divide memory and workers by weight, and the
// division follows the jobs' settings, and builds that begin and end.
func TestPriorityDividesWhatBuildsShare(t *testing.T) {
	randtest.SkipShort(t)
	// So slow that no build ends during the test.
	const speed = 105_000
	n := startNode(t, t.TempDir())
	db := n.db()
	for table, rows := range map[string]int{"low": 60_000, "normal": 60_000, "high": 60_000} {
		fill(t, db, table, rows)
	}
	mustExec(t, db, "SET GLOBAL fastddl_ddl_memory_quota = '1GiB'")
	limit := func(speed int) {
		mustExec(t, db, fmt.Sprintf("SET GLOBAL tidb_ddl_reorg_max_write_speed = %d", speed))
	}
	limit(speed)
	low := n.addIndex("low", "PRIORITY_LOW")
	alone := eventually(t, db, "low", "throttled", throttled)
	require.EqualValues(t, speed, alone.writeSpeed)
	normal, high := n.addIndex("normal", "PRIORITY_NORMAL"), n.addIndex("high", "PRIORITY_HIGH")
	for _, table := range []string{"normal", "high"} {
		eventually(t, db, table, "throttled", throttled)
	}
	l := eventually(t, db, "low", "three share", func(s share) bool { return s.writeSpeed == speed/21 })
	for table, weight := range map[string]int64{"normal": 4, "high": 16} {
		eventually(t, db, table, "three share", func(s share) bool { return s.writeSpeed == speed/21*weight })
	}
	now := shares(t, db)
	require.Equal(t, "PRIORITY_LOW", l.priority)
	require.Equal(t, "PRIORITY_NORMAL", now["normal"].priority)
	require.Equal(t, "PRIORITY_HIGH", now["high"].priority)
	limit(6 * speed)
	require.NoError(t, requireEnds(t, high), "the weightiest ends first")
	limit(speed)
	requireWaits(t, low)
	requireWaits(t, normal)
	eventually(t, db, "low", "two share", func(s share) bool { return s.writeSpeed == speed/5 })
	limit(0)
	require.NoError(t, requireEnds(t, low))
	require.NoError(t, requireEnds(t, normal))
}

// Builds that are throttled, paused or wait for a transaction do not delay builds on
// other tables; those on their own table wait for them.
func TestSlowBuildsDoNotDelayOthers(t *testing.T) {
	randtest.SkipShort(t)
	n := startNode(t, t.TempDir())
	db := n.db()
	for _, table := range []string{"throttled", "paused", "locked"} {
		fill(t, db, table, 5000)
	}
	fill(t, db, "free", 60_000)
	mustExec(t, db, "SET GLOBAL fastddl_ddl_memory_quota = '256MiB'")
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = '4KiB'")
	slow, paused := n.addIndex("throttled", "PRIORITY_HIGH"), n.addIndex("paused", "PRIORITY_HIGH")
	for _, table := range []string{"throttled", "paused"} {
		s := eventually(t, db, table, "it runs", func(s share) bool { return s.id != "" })
		mustExec(t, db, "ADMIN ALTER DDL JOBS "+s.id+" MAX_WRITE_SPEED = 1024")
	}
	mustExec(t, db, "ADMIN PAUSE DDL JOBS "+eventually(t, db, "paused", "it runs", func(s share) bool { return s.workers > 0 }).id)
	writer := n.terminal()
	writer.exec("BEGIN")
	writer.exec("UPDATE locked SET k = -1 WHERE id = 1")
	locked := n.addIndex("locked", "PRIORITY_HIGH")
	eventually(t, db, "locked", "it waits", func(s share) bool { return strings.HasPrefix(s.wait, "metadata lock, held by 1 transaction") })
	s := eventually(t, db, "paused", "paused", func(s share) bool { return s.state == "paused" && s.workers == 0 })
	require.Zero(t, s.memory+s.temp)
	behind := n.terminal().start("ALTER TABLE throttled ADD INDEX k (k)")
	require.Eventually(t, func() bool {
		// 5000 rows take minutes at 1 KiB/s, and not more than one core.
		s = shares(t, db)["throttled"]
		return s.wait == "throttled: max_write_speed" && s.workers == 1 && s.eta.Float64 > 30
	}, hangTimeout, pollInterval)

	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
	free := n.addIndex("free", "PRIORITY_LOW")
	require.NoError(t, requireEnds(t, free), "it has what the others do not use")
	for _, d := range []<-chan error{slow, paused, locked, behind} {
		requireWaits(t, d)
	}

	require.Eventually(t, func() bool {
		rows := queryAll(t, db, "SELECT wait_reason FROM mysql.fastddl_ddl_jobs WHERE table_name = 'throttled' AND state = 'queueing'")
		return len(rows) == 1 && strings.Contains(rows[0][0], "job")
	}, hangTimeout, pollInterval)
	mustExec(t, db, "ADMIN ALTER DDL JOBS "+s.id+" MAX_WRITE_SPEED = 0")
	require.NoError(t, requireEnds(t, slow))
	require.NoError(t, requireEnds(t, behind))
	id := shares(t, db)["paused"].id
	mustExec(t, db, "ADMIN ALTER DDL JOBS "+id+" MAX_WRITE_SPEED = '1GiB', THREAD = 1")
	mustExec(t, db, "ADMIN RESUME DDL JOBS "+id)
	writer.exec("ROLLBACK")
	require.NoError(t, requireEnds(t, paused))
	require.NoError(t, requireEnds(t, locked))
	for _, job := range jobs(t, db) {
		if job["JOB_ID"] == id {
			require.Equal(t, "ingest, thread=1, max_write_speed=1073741824", job["COMMENTS"])
		}
	}
}

// The remaining time of a build that is throttled is what it takes, in every
// stage, and follows the job's settings.
func TestRemainingTimeOfAThrottledBuild(t *testing.T) {
	randtest.SkipShort(t)
	n := startNode(t, t.TempDir())
	db := n.db()
	fill(t, db, "t", 20_000) // 1.8 MB of entries
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = '30KiB'")
	done := n.addIndex("t", "PRIORITY_LOW")
	s := eventually(t, db, "t", "it imports", func(s share) bool {
		return s.stage == "merge" && s.rowsPerSecond > 0 && s.eta.Float64 > 5 && s.eta.Float64 < 200 // before it has a rate it goes by the scan
	})
	require.Less(t, s.percent, 80.0)
	requireWaits(t, done)
	mustExec(t, db, "ADMIN ALTER DDL JOBS "+s.id+" MAX_WRITE_SPEED = '10KiB'")
	eventually(t, db, "t", "it is slower", func(now share) bool { return now.maxWriteSpeed == 10240 && now.writeSpeed == 10240 })
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
	mustExec(t, db, "ADMIN ALTER DDL JOBS "+s.id+" MAX_WRITE_SPEED = 0")
	require.NoError(t, requireEnds(t, done))
}

func TestAdminAlterErrors(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.db()
	for options, text := range map[string]string{
		"THREAD = 8":                   "ddl job 123 is not running",
		"THREAD = 0":                   "the value 0 for thread is out of range [1, 256]",
		"thread = 257":                 "the value 257 for thread is out of range [1, 256]",
		"THREAD = -1":                  "the value -1 for thread is out of range [1, 256]",
		"THREAD = 'many'":              "the value for thread is invalid, only integer is allowed",
		"THREAD = 1.5":                 "the value for thread is invalid, only integer is allowed",
		"BATCH_SIZE = 31":              "the value 31 for batch_size is out of range [32, 10240]",
		"BATCH_SIZE = 10241":           "the value 10241 for batch_size is out of range [32, 10240]",
		"MAX_WRITE_SPEED = -1":         "the value -1 for max_write_speed is out of range [0, 1125899906842624]",
		"MAX_WRITE_SPEED = '2PiB'":     "the value 2251799813685248 for max_write_speed is out of range [0, 1125899906842624]",
		"MAX_WRITE_SPEED = 'fast'":     "invalid size: 'fast'",
		"MAX_WRITE_SPEED = 1.5":        "the value 1.5 for max_write_speed is invalid",
		"SPEED = 1":                    "unsupported admin alter ddl jobs config: speed",
		"THREAD = 4, BATCH_SIZE = 'x'": "the value for batch_size is invalid, only integer is allowed",
	} {
		_, err := db.Exec("ADMIN ALTER DDL JOBS 123 " + options)
		requireCode(t, err, 1105, "HY000", text)
	}
	_, err := db.Exec("ADMIN ALTER DDL JOBS 123")
	requireCode(t, err, 1064, "42000", "")
	mustExec(t, db, "CREATE USER app")
	mustExec(t, db, "GRANT ALL ON test.* TO app")
	for _, statement := range []string{"ADMIN ALTER DDL JOBS 123 THREAD = 1", "ADMIN PAUSE DDL JOBS 123", "ADMIN CANCEL DDL JOBS 123"} {
		_, err = n.openAs("app", "", "test").Exec(statement)
		requireCode(t, err, 8121, "HY000", "privilege check for 'Super' fail")
	}
}

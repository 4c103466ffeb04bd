package fuzz

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// control pauses, cancels, resumes and alters jobs, and changes settings.
func (c *schemaClient) control(stop <-chan struct{}) {
	for !stopped(stop, time.Duration(c.rng.IntN(100))*time.Millisecond) {
		if c.rng.IntN(4) == 0 {
			c.must("SET GLOBAL " + pick(c.rng, []string{
				"fastddl_ddl_governor = ON", "fastddl_ddl_governor = OFF", "fastddl_ddl_memory_quota = 0", "fastddl_ddl_memory_quota = 16777216",
				"fastddl_ddl_checkpoint_interval = '10m'", "fastddl_ddl_checkpoint_interval = '1s'", "tidb_ddl_reorg_worker_cnt = 1", "tidb_ddl_reorg_worker_cnt = 8",
				"tidb_ddl_reorg_batch_size = 32", "tidb_ddl_reorg_batch_size = 10240", "tidb_ddl_reorg_max_write_speed = 0", "tidb_ddl_reorg_max_write_speed = '1MiB'",
				"tidb_ddl_disk_quota = 107374182400", "tidb_ddl_disk_quota = 16777216", "tidb_ddl_error_count_limit = 512", "fastddl_mdl_idle_blocker_timeout = '0s'",
				"fastddl_mdl_idle_blocker_timeout = '1m'",
			}))
		}
		if rows := c.must("SELECT job_id FROM information_schema.ddl_jobs WHERE state <> 'synced' AND state <> 'cancelled' AND state <> 'rollback done'"); len(rows) > 0 && c.rng.IntN(4) == 0 {
			id := pick(c.rng, rows)[0]
			request := pick(c.rng, []string{"ADMIN PAUSE DDL JOBS " + id, "ADMIN CANCEL DDL JOBS " + id,
				fmt.Sprintf("ADMIN ALTER DDL JOBS %s THREAD = %d", id, 1+c.rng.IntN(8)), "ADMIN ALTER DDL JOBS " + id + " MAX_WRITE_SPEED = '2MiB'",
				fmt.Sprintf("ADMIN ALTER DDL JOBS %s BATCH_SIZE = %d", id, 32+c.rng.IntN(1000))})
			c.run.requests.Add(1)
			if _, err := c.query(request); err != nil && !c.explained("request", err) {
				c.failf("%s: %v", request, err)
			}
			_ = stopped(stop, time.Duration(c.rng.IntN(100))*time.Millisecond)
		}
		c.run.resume(c.conn)
	}
	c.run.resume(c.conn)
}

// progress is what was seen of a job.
type progress struct {
	percent float64
	rows    int64
	row     []string
}

// watchJobs reads the views of jobs. Progress is between 0 and 100 and never goes back.
func (c *schemaClient) watchJobs() {
	seen := make(map[string]progress)
	for !stopped(c.run.stop, time.Duration(c.rng.IntN(200))*time.Millisecond) {
		rows, err := c.query("SELECT job_id, state, step, stage, percent, row_count, eta_seconds, start_time, end_time FROM mysql.fastddl_ddl_jobs ORDER BY job_id DESC LIMIT 30")
		if err != nil {
			c.failf("%v", err)
			return
		}
		c.run.readings.Add(1)
		for _, row := range rows {
			now := progress{percent: -1, row: row}
			if row[4] != "NULL" {
				now.percent, err = strconv.ParseFloat(row[4], 64)
			}
			if err == nil && row[5] != "NULL" {
				now.rows, err = strconv.ParseInt(row[5], 10, 64)
			}
			before, known := seen[row[0]]
			if !known {
				c.run.jobs.Add(1)
			}
			if err != nil || now.percent > 100 || row[4] != "NULL" && now.percent < 0 || known && (now.percent >= 0 && now.percent < before.percent || now.rows < before.rows) && row[1] != "cancelling" && !strings.HasPrefix(row[1], "rollback") && row[1] != "rollingback" {
				c.failf("progress of a job: %v, before %v, %v", row, before.row, err)
			}
			now.percent = max(now.percent, before.percent)
			seen[row[0]] = now
		}
	}
}

// watchViews reads the views of jobs and tables.
func (c *schemaClient) watchViews() {
	views := []string{
		"ADMIN SHOW DDL", "ADMIN SHOW DDL JOBS", "ADMIN SHOW DDL JOBS 3", "ADMIN SHOW DDL JOB QUERIES LIMIT 5", "SELECT * FROM information_schema.ddl_jobs", "SELECT * FROM mysql.fastddl_ddl_jobs", "SELECT * FROM mysql.fastddl_ddl_blockers",
		"SELECT * FROM mysql.fastddl_ddl_duplicates", "SELECT * FROM mysql.tidb_mdl_view", "SELECT * FROM information_schema.tidb_indexes", "SELECT * FROM information_schema.statistics WHERE table_schema = 'fuzz'",
		"SELECT * FROM information_schema.partitions WHERE table_schema = 'fuzz'", "SELECT * FROM information_schema.columns WHERE table_schema = 'fuzz'",
		"SELECT * FROM information_schema.table_constraints WHERE table_schema = 'fuzz'", "SELECT * FROM information_schema.key_column_usage WHERE table_schema = 'fuzz'",
		"SELECT * FROM information_schema.tables WHERE table_schema = 'fuzz'", "SHOW TABLE STATUS", "SHOW STATS_META", "SHOW PROCESSLIST", "SELECT * FROM information_schema.tidb_index_usage",
		"SELECT * FROM information_schema.tidb_trx", "SELECT * FROM information_schema.data_lock_waits", "SELECT * FROM information_schema.deadlocks", "EXPLAIN SELECT * FROM mysql.fastddl_ddl_jobs",
	}
	for !stopped(c.run.stop, time.Duration(c.rng.IntN(200))*time.Millisecond) {
		view := pick(c.rng, views)
		if _, err := c.query(view); err != nil && !c.explained("view", err) {
			c.failf("%s: %v", view, err)
		}
		c.run.readings.Add(1)
	}
}

var numbered = regexp.MustCompile("`m([0-9]+)`")

// watchDefinitions looks for statements that were done in part: their column and their index have one number,
// and come and go together.
func (c *schemaClient) watchDefinitions() {
	for !stopped(c.run.stop, time.Duration(c.rng.IntN(200))*time.Millisecond) {
		rows, err := c.query("SHOW CREATE TABLE " + pick(c.rng, c.run.tables).name)
		if err != nil && c.explained("truncate", err) {
			continue
		}
		if err != nil {
			c.failf("%v", err)
			return
		}
		var columns, indexes []string
		for line := range strings.Lines(rows[0][1]) {
			line = strings.TrimSpace(line)
			name := numbered.FindStringSubmatch(line)
			switch {
			case name == nil:
			case strings.HasPrefix(line, "`"):
				columns = append(columns, name[1])
			case strings.Contains(line, "KEY `m"):
				indexes = append(indexes, name[1])
			}
		}
		slices.Sort(columns)
		slices.Sort(indexes)
		if !slices.Equal(columns, indexes) {
			c.failf("columns %v and indexes %v of one statement each:\n%s", columns, indexes, rows[0][1])
		}
		c.run.definitions.Add(1)
	}
}

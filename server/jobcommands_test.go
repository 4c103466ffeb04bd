package server

import (
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestJobsAreCommandedByRightsOnTheTable: who may alter a table may pause, resume, alter and cancel its index builds without SUPER; with
// INDEX those that add one index and nothing else. Every other job is refused alike: whether it is of another table, of TiDB, or none.
func TestJobsAreCommandedByRightsOnTheTable(t *testing.T) {
	j := startJobShop(t)
	id, end := j.held("CREATE INDEX i ON shop.t (b)")
	commands := []string{"ADMIN PAUSE DDL JOBS %s", "ADMIN RESUME DDL JOBS %s", "ADMIN ALTER DDL JOBS %s THREAD = 3", "ADMIN CANCEL DDL JOBS %s"}
	tidbs := strings.TrimSpace(j.read(j.root, "SELECT MAX(job_id) FROM information_schema.ddl_jobs WHERE job_id < "+id))

	for _, user := range []string{"stranger", "reader", "inserter", "member", "processor"} {
		db := j.as(user)
		for _, command := range commands {
			_, unknown := answer(t, db, fmt.Sprintf(command, "999999"))
			require.EqualValues(t, 8121, errorNumber(unknown), unknown)
			for _, number := range []string{id, tidbs} {
				_, err := answer(t, db, fmt.Sprintf(command, number))
				require.Equal(t, unknown, err, "%s: "+command, user, number)
				exec(t, db, "PREPARE p FROM '"+fmt.Sprintf(command, number)+"'")
				_, err = answer(t, db, "EXECUTE p")
				require.Equal(t, unknown, err, "%s: "+command, user, number)
			}
			if !strings.Contains(command, "THREAD") { // one that may not be commanded keeps the others from it
				_, err := answer(t, db, fmt.Sprintf(command, id+", 999999"))
				require.Equal(t, unknown, err)
			}
		}
	}
	require.Equal(t, "running \n", j.read(j.root, "SELECT state FROM mysql.fastddl_ddl_jobs WHERE job_id = "+id))
	require.Empty(t, j.read(j.root, "SELECT * FROM mysql.fastddl_ddl_commands"), "refused commands are in the log only")
	mixed := j.as("alterer")
	for _, list := range []string{id + ", 999999", "999999, " + id, id + ", " + tidbs} {
		_, err := answer(t, mixed, "ADMIN CANCEL DDL JOBS "+list)
		require.EqualValues(t, 8121, errorNumber(err), list)
	}

	state := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			return j.read(j.root, "SELECT state FROM mysql.fastddl_ddl_jobs WHERE job_id = "+id) == want+" \n"
		}, hangTimeout, 20*time.Millisecond, want)
	}
	for _, user := range []string{"alterer", "indexer"} {
		db := j.as(user)
		require.Equal(t, id+" successful \n", j.read(db, "ADMIN PAUSE DDL JOBS "+id))
		state("paused")
		require.Equal(t, id+" successful \n", j.read(db, "ADMIN RESUME DDL JOBS "+id))
		state("running")
		exec(t, db, "ADMIN ALTER DDL JOBS "+id+" THREAD = 3")
	}
	require.Equal(t, "tests \n", j.read(j.root, "SELECT DISTINCT program FROM mysql.fastddl_ddl_commands"))
	member := j.as("member")
	exec(t, member, "SET ROLE r")
	require.Equal(t, id+" successful \n"+id+" successful \n", j.read(member, "ADMIN CANCEL DDL JOBS "+id+", "+id))
	require.ErrorContains(t, end(), "8214")
	_, err := answer(t, mixed, "ADMIN CANCEL DDL JOBS "+id)
	require.NoError(t, err, "that a job has ended is shown to those who may command it")
	_, err = answer(t, j.as("reader"), "ADMIN CANCEL DDL JOBS "+id)
	require.EqualValues(t, 8121, errorNumber(err))

	history := j.read(j.root, "SELECT number, db_name, table_name, user_name, host, statement, outcome FROM mysql.fastddl_ddl_commands WHERE job_id = "+id+" ORDER BY number")
	want := ""
	for _, c := range [][2]string{
		{"alterer", "PAUSE"}, {"alterer", "RESUME"}, {"alterer", "ALTER"}, {"indexer", "PAUSE"}, {"indexer", "RESUME"}, {"indexer", "ALTER"}, {"member", "CANCEL"}, {"member", "CANCEL"}, {"alterer", "CANCEL"},
	} {
		statement := "ADMIN " + c[1] + " DDL JOBS " + id
		switch {
		case c[1] == "ALTER":
			statement += " THREAD = 3"
		case c[0] == "member":
			statement += ", " + id
		}
		outcome := "done"
		if c == [2]string{"alterer", "CANCEL"} {
			outcome = "[ddl:8225]This job:" + id + " is finished, so can't be cancelled"
		}
		want += strconv.Itoa(strings.Count(want, "\n")+1) + " shop t " + c[0] + " 127.0.0.1 " + statement + " " + outcome + " \n"
	}
	require.Equal(t, want, history)
	require.Equal(t, history, j.read(mixed, "SELECT number, db_name, table_name, user_name, host, statement, outcome FROM performance_schema.fastddl_ddl_commands"))
}

// TestCommandsOfATableThatIsGone: a table that was dropped or renamed since leaves a job to administrators; INDEX is not enough for a job
// that changes more than one index.
func TestCommandsOfATableThatIsGone(t *testing.T) {
	j := startJobShop(t)
	id, end := j.held("ALTER TABLE shop.t ADD INDEX i (b), ADD COLUMN c INT")
	_, err := answer(t, j.as("indexer"), "ADMIN CANCEL DDL JOBS "+id)
	require.EqualValues(t, 8121, errorNumber(err))
	require.Equal(t, id+" successful \n", j.read(j.as("alterer"), "ADMIN CANCEL DDL JOBS "+id))
	require.Error(t, end())
	exec(t, j.root, "RENAME TABLE shop.t TO shop.moved", "GRANT ALTER ON shop.moved TO alterer")
	_, err = answer(t, j.as("alterer"), "ADMIN CANCEL DDL JOBS "+id)
	require.EqualValues(t, 8121, errorNumber(err))
	exec(t, j.root, "RENAME TABLE shop.moved TO shop.t")
	require.Contains(t, j.read(j.as("alterer"), "ADMIN CANCEL DDL JOBS "+id), "finished")
	exec(t, j.root, "DROP TABLE shop.t", "CREATE TABLE shop.t (a INT)")
	_, err = answer(t, j.as("alterer"), "ADMIN CANCEL DDL JOBS "+id)
	require.EqualValues(t, 8121, errorNumber(err))
}

// TestJobListIsFilteredByRights: ADMIN SHOW DDL JOBS needs no privilege, and lists the jobs of tables on which its user has one, as
// information_schema.ddl_jobs does. A condition does not see the others either.
func TestJobListIsFilteredByRights(t *testing.T) {
	j := startJobShop(t)
	exec(t, j.root, "ALTER TABLE shop.t ADD INDEX i (b)", "ALTER TABLE other.t ADD INDEX i (a)")
	tables := func(db *sql.DB, query string) (names []string) {
		t.Helper()
		rows, err := db.Query(query)
		require.NoError(t, err)
		defer rows.Close()
		columns, err := rows.Columns()
		require.NoError(t, err)
		for rows.Next() {
			values := make([]sql.RawBytes, len(columns))
			targets := make([]any, len(columns))
			for i := range values {
				targets[i] = &values[i]
			}
			require.NoError(t, rows.Scan(targets...))
			names = append(names, string(values[1])+"."+string(values[2]))
		}
		require.NoError(t, rows.Err())
		return names
	}
	for user, want := range map[string][]string{"alterer": {"shop.t", "shop.t"}, "stranger": {"other.t", "other.t", "other."}, "processor": nil, "root": nil} {
		db := j.as(user)
		for _, query := range []string{"ADMIN SHOW DDL JOBS 100", "ADMIN SHOW DDL JOBS 100 WHERE job_id > 0"} {
			got := tables(db, query)
			if want != nil {
				require.Equal(t, want, got, user)
			} else {
				require.Greater(t, len(got), 20, user)
			}
		}
		require.Len(t, tables(db, "ADMIN SHOW DDL JOBS 100 WHERE 1 / (db_name = 'shop') IS NOT NULL"), map[string]int{"alterer": 2, "stranger": 0, "processor": 3, "root": 3}[user], user)
		exec(t, db, "PREPARE p FROM 'ADMIN SHOW DDL JOBS 100'")
		require.Equal(t, tables(db, "ADMIN SHOW DDL JOBS 100"), tables(db, "EXECUTE p"), user)
		_, err := db.Exec("PREPARE q FROM 'ADMIN SHOW DDL JOBS 100 WHERE job_id > 0'") // whose condition is TiDB's
		require.Equal(t, user != "root", errorNumber(err) == 8121, "%s: %v", user, err)
		for _, query := range []string{"ADMIN SHOW DDL", "ADMIN SHOW DDL JOB QUERIES 1", "ADMIN CHECK TABLE shop.t", "ADMIN SHOW SLOW RECENT 5", "SET GLOBAL fastddl_ddl_history_limit = 1"} {
			_, err = answer(t, db, query)
			require.Equal(t, user != "root", slices.Contains([]uint16{1227, 8121}, errorNumber(err)), "%s: %s: %v", user, query, err)
		}
	}
}

// TestHistoryLimit: fastddl_ddl_history_limit bounds the jobs that have ended in all tables of the history, soon after it is changed and
// when jobs end. What is not in one of them is in none.
func TestHistoryLimit(t *testing.T) {
	j := startJobShop(t)
	tables := []string{"fastddl_ddl_record_history", "fastddl_ddl_jobs", "fastddl_ddl_error_rows", "fastddl_ddl_duplicates", "fastddl_ddl_commands"}
	build := func() {
		t.Helper()
		_, err := j.root.Exec("ALTER TABLE shop.t ADD UNIQUE INDEX i (u)")
		require.ErrorContains(t, err, "1062")
		id := strings.TrimSpace(j.read(j.root, "SELECT MAX(job_id) FROM mysql.fastddl_ddl_jobs"))
		_, err = answer(t, j.root, "ADMIN CANCEL DDL JOBS "+id)
		require.NoError(t, err)
	}
	var parts []string
	for _, table := range tables {
		parts = append(parts, "SELECT DISTINCT '"+table+"', job_id FROM mysql."+table)
	}
	// One statement sees all tables at one time, and a job goes from all of them at once: only the first is waited for.
	snapshot := strings.Join(parts, " UNION ALL ") + " ORDER BY 2"
	has := func(want int) {
		t.Helper()
		var jobs map[string][]string
		require.Eventually(t, func() bool {
			jobs = make(map[string][]string)
			for line := range strings.Lines(j.read(j.root, snapshot)) {
				table, job, _ := strings.Cut(strings.TrimSpace(line), " ")
				jobs[table] = append(jobs[table], job)
			}
			return len(jobs[tables[0]]) == want
		}, hangTimeout, 20*time.Millisecond, "%d jobs", want)
		for _, table := range tables {
			require.Equal(t, jobs[tables[0]], jobs[table], "%s beside %d jobs", table, want)
		}
	}
	require.Equal(t, "1024 \n", j.read(j.root, "SELECT @@global.fastddl_ddl_history_limit"))
	for range 6 {
		build()
	}
	has(6)
	exec(t, j.root, "SET GLOBAL fastddl_ddl_history_limit = 4")
	has(4)
	build()
	has(4)
	newest := j.read(j.root, "SELECT MAX(job_id) FROM mysql.fastddl_ddl_jobs")
	exec(t, j.root, "SET GLOBAL fastddl_ddl_history_limit = 1")
	has(1)
	require.Equal(t, newest, j.read(j.root, "SELECT job_id FROM mysql.fastddl_ddl_jobs"))
	exec(t, j.root, "SET GLOBAL fastddl_ddl_history_limit = 0")
	has(0)
	exec(t, j.root, "ALTER TABLE shop.t ADD INDEX k (b)", "ALTER TABLE shop.t DROP INDEX k")
	has(0)
	for value, want := range map[string]string{"-5": "0 \n", "99999999": "1000000 \n", "DEFAULT": "1024 \n"} {
		exec(t, j.root, "SET GLOBAL fastddl_ddl_history_limit = "+value)
		require.Equal(t, want, j.read(j.root, "SELECT @@global.fastddl_ddl_history_limit"))
	}
}

package server

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/api"
)

// apiAccountOf logs an account without a password in by the API.
func (j *jobShop) apiAccountOf(user string) *apiAccount {
	j.t.Helper()
	account, err := j.apiSessions.LogIn(j.t.Context(), api.Caller{Addr: netip.MustParseAddrPort("127.0.0.1:1"), Local: true}, user, "")
	require.NoError(j.t, err)
	return account.(*apiAccount)
}

// numbers are those of jobs.
func numbers(rows []apiRow) (jobs []int64) {
	for _, row := range rows {
		jobs = append(jobs, int64(row["job_id"].(float64)))
	}
	return jobs
}

// TestRowsOfOneJobAreReadAlone: a statement about one job returns what it does where the rows of all jobs are read, and reads no others. Rights
// hold for both.
func TestRowsOfOneJobAreReadAlone(t *testing.T) {
	j := startJobShop(t)
	_, err := j.root.Exec("ALTER TABLE shop.t ADD UNIQUE INDEX i (u)")
	require.ErrorContains(t, err, "Duplicate entry")
	exec(t, j.root, "ALTER TABLE shop.t ADD INDEX ready (b)", "ALTER TABLE other.t ADD INDEX ready (a)")
	id, end := j.held("ALTER TABLE shop.t ADD INDEX later (b)")
	exec(t, j.root, "ADMIN ALTER DDL JOBS "+id+" THREAD = 2")
	var all []apiRow
	j.api("root").must("GET", "jobs", "", &all)
	jobs := numbers(all) // later, other.t, ready, i
	require.Len(t, jobs, 4)
	for _, user := range []string{"root", "alterer", "stranger"} {
		s, err := j.apiAccountOf(user).Open(t.Context())
		require.NoError(t, err)
		for _, table := range perfTables {
			found := 0
			for _, job := range append(jobs, 999999) {
				// What a running job shows changes by itself.
				statement := "SELECT job_id, COUNT(*) FROM performance_schema." + table + " WHERE job_id = %? GROUP BY job_id"
				want, err := s.Run(t.Context(), statement, job)
				require.NoError(t, err)
				got, err := s.RunOn(t.Context(), api.Needed{Job: job}, statement, job)
				require.NoError(t, err)
				if table != "fastddl_ddl_points" || fmt.Sprint(job) != id {
					require.Equal(t, want.Rows, got.Rows, "%s %s %d", user, table, job)
				}
				found += len(got.Rows)
				others, err := s.RunOn(t.Context(), api.Needed{Job: job}, "SELECT job_id FROM performance_schema."+table+" WHERE job_id != %?", job)
				require.NoError(t, err)
				require.Empty(t, others.Rows, "%s %s %d", user, table, job)
			}
			if user == "root" {
				require.NotZero(t, found, table)
			}
		}
		s.Close()
	}
	// The newest jobs are those that the account sees, in each state.
	for user, paths := range map[string]map[string][]int64{
		"root": {
			"jobs": jobs, "jobs?limit=2": jobs[:2], fmt.Sprintf("jobs?limit=2&before=%d", jobs[0]): jobs[1:3], "jobs?before=0": nil,
			"jobs?state=active": jobs[:1], "jobs?state=ended&limit=2": jobs[1:3], "jobs?state=synced&limit=1": jobs[1:2],
		},
		"alterer":  {"jobs?limit=1&state=ended": jobs[2:3], "jobs?limit=3": {jobs[0], jobs[2], jobs[3]}},
		"stranger": {"jobs?limit=1": jobs[1:2], "jobs?state=active&limit=1": nil},
	} {
		for path, want := range paths {
			var rows []apiRow
			j.api(user).must("GET", path, "", &rows)
			require.Equal(t, want, numbers(rows), "%s %s", user, path)
		}
	}
	// A job that the account does not see is none, also where it has no rows.
	for _, path := range []string{"", "/points", "/errors", "/commands", "/parts", "/events"} {
		require.Equal(t, http.StatusNotFound, j.api("stranger").do("GET", "jobs/"+id+path, "", nil), path)
		require.Equal(t, http.StatusNotFound, j.api("root").do("GET", "jobs/999999"+path, "", nil), path)
	}
	require.NoError(t, end())
}

// TestRequestsShareOneReadingOfTheirAccount: requests that find the account to be read wait for the one that reads it. A thousand that begin to
// follow a job at once would open as many sessions.
func TestRequestsShareOneReadingOfTheirAccount(t *testing.T) {
	a := startJobShop(t).apiAccountOf("alterer")
	a.turn <- struct{}{} // one reads it
	states := make(chan string, 50)
	var waiting sync.WaitGroup
	for range cap(states) {
		waiting.Go(func() {
			state, err := a.Current(t.Context())
			if err != nil {
				state = err.Error()
			}
			states <- state
		})
	}
	a.checked = checkedAccount{privileges: a.sessions.node.Domain().PrivilegeHandle().Get(), at: time.Now().Add(time.Hour)}
	<-a.turn
	waiting.Wait()
	for range cap(states) {
		require.Equal(t, string(make([]byte, len(a.print))), <-states)
	}
}

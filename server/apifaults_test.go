package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A session of the API has the global variables from its first statement on: in strict mode an index that is too long is an error, and text
// of a user stays within its quotes in each SQL mode.
func TestSessionsOfTheAPIHaveTheGlobalVariables(t *testing.T) {
	j := startJobShop(t)
	exec(t, j.root, "CREATE TABLE shop.w (id INT PRIMARY KEY, c VARCHAR(3000) CHARSET utf8mb4)")
	c := j.api("root")
	submit := func() (failed apiError) {
		require.Equal(t, http.StatusUnprocessableEntity, c.do("POST", "jobs", `{"schema": "shop", "statement": "CREATE INDEX i ON w (c)"}`, &failed))
		return failed
	}
	require.Equal(t, 1071, submit().Code)
	exec(t, j.root, "SET GLOBAL sql_mode = 'STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES,ANSI_QUOTES'")
	require.Equal(t, 1071, submit().Code)
	var failed apiError
	status := c.do("POST", "explain", `{"statement": "CREATE INDEX k ON shop.t (b)", "settings": {"window": "x', autocommit = '0"}}`, &failed)
	require.NotEqual(t, 1064, failed.Code, failed.Message)
	require.Equal(t, http.StatusBadRequest, status, failed.Message)
	c.must("POST", "explain", `{"schema": "shop", "statement": "CREATE INDEX k ON \"t\" (\"b\")"}`, nil)
}

// A role that was revoked is not used any more, neither by a log-in by cookie nor with a password that was checked before.
func TestRevokedRoleIsNotUsedByTheAPI(t *testing.T) {
	j := startJobShop(t)
	id, end := j.held("ALTER TABLE shop.t ADD INDEX later (b)")
	exec(t, j.root, "CREATE USER ann", "CREATE ROLE alters", "GRANT ALTER ON shop.t TO alters", "GRANT alters TO ann", "SET DEFAULT ROLE alters TO ann")
	basic, cookied := j.api("ann"), j.api("ann")
	cookied.logIn()
	basic.must("GET", "jobs/"+id, "", nil)
	cookied.must("GET", "jobs/"+id, "", nil)
	exec(t, j.root, "REVOKE alters FROM ann")
	require.Equal(t, http.StatusNotFound, basic.do("GET", "jobs/"+id, "", nil))
	require.Equal(t, http.StatusUnauthorized, cookied.do("GET", "jobs/"+id, "", nil))
	require.NoError(t, end())
}

// Many builds that wait, and many that are followed, leave sessions for requests that ask; each goes on without its statement.
func TestQueuedBuildsLeaveSessionsForOthers(t *testing.T) {
	j := startJobShop(t)
	_, end := j.held("ALTER TABLE shop.t ADD INDEX first (b)")
	c := j.api("root")
	var ids []int64
	for i := range 60 {
		var made struct {
			JobID int64 `json:"job_id"`
		}
		c.must("POST", "jobs", fmt.Sprintf(`{"schema": "shop", "statement": "CREATE INDEX i%d ON t (b)"}`, i), &made)
		ids = append(ids, made.JobID)
		go func() {
			for range c.follow(fmt.Sprintf("jobs/%d/events", made.JobID)) {
			}
		}()
	}
	require.Eventually(t, func() bool { return j.apiSessions.count() <= 45 }, hangTimeout, 50e6)
	for _, id := range ids[5:58] {
		c.must("POST", fmt.Sprintf("jobs/%d/cancel", id), "{}", nil)
	}
	require.NoError(t, end())
	require.Eventually(t, func() bool {
		var rows []apiRow
		c.must("GET", "jobs?state=active", "", &rows)
		return len(rows) == 0
	}, hangTimeout, 50e6)
	require.Contains(t, j.read(j.root, "SHOW CREATE TABLE shop.t"), "`i59`")
}

// A key is that of a statement on one table, and answers with its job also if that has failed.
func TestKeyOfAnotherTableOrAFailedJob(t *testing.T) {
	j := startJobShop(t)
	exec(t, j.root, "CREATE DATABASE shop2", "CREATE TABLE shop2.t LIKE shop.t", "CREATE TABLE shop.twice (a INT, b INT)", "INSERT INTO shop.twice VALUES (1, 1), (2, 1)")
	type made struct {
		JobID    int64 `json:"job_id"`
		Existing bool
		Job      apiRow
	}
	submit := func(schema, key, statement string) (m made, status int) {
		c := j.api("root")
		r := c.request("POST", "jobs", fmt.Sprintf(`{"schema": %q, "statement": %q}`, schema, statement))
		r.Header.Set("Idempotency-Key", key)
		status, body := c.send(r)
		require.NoError(t, json.Unmarshal([]byte(body), &m), body)
		return m, status
	}
	first, status := submit("shop", "one", "CREATE INDEX i ON t (b)")
	require.Equal(t, http.StatusAccepted, status)
	require.False(t, first.Existing)
	_, status = submit("shop2", "one", "CREATE INDEX i ON t (b)")
	require.Equal(t, http.StatusUnprocessableEntity, status, "of another table")
	failed, status := submit("shop", "two", "CREATE UNIQUE INDEX u ON twice (b)")
	require.Equal(t, http.StatusAccepted, status)
	require.Eventually(t, func() bool {
		var row apiRow
		j.api("root").must("GET", fmt.Sprintf("jobs/%d", failed.JobID), "", &row)
		return row["end_time"] != nil
	}, hangTimeout, 50e6)
	again, status := submit("shop", "two", "CREATE UNIQUE INDEX u ON twice (b)")
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, failed.JobID, again.JobID)
	require.True(t, again.Existing)
	require.NotEqual(t, "synced", again.Job["state"])
}

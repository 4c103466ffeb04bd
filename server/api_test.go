package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// apiClient is a client of a server's API.
type apiClient struct {
	t    *testing.T
	base string
	http *http.Client
	// user and password are sent with each request, unless user is empty; token with those that change something.
	user, password, token string
}

func (j *jobShop) api(user string) *apiClient {
	jar, err := cookiejar.New(nil)
	require.NoError(j.t, err)
	return &apiClient{t: j.t, base: j.StatusURL() + "/api/v1/", user: user, http: &http.Client{Jar: jar, Transport: &http.Transport{}}}
}

// request returns a request of the client.
func (c *apiClient) request(method, path, body string) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	require.NoError(c.t, err)
	if c.user != "" {
		r.SetBasicAuth(c.user, c.password)
	}
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
		if c.token != "" {
			r.Header.Set("X-Fastddl-Token", c.token)
		}
	}
	return r
}

// send returns status and body of the answer to a request.
func (c *apiClient) send(r *http.Request) (int, string) {
	c.t.Helper()
	resp, err := c.http.Do(r)
	require.NoError(c.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	return resp.StatusCode, string(body)
}

// do sends a request and decodes the answer into what is not nil.
func (c *apiClient) do(method, path, body string, into any) int {
	c.t.Helper()
	status, text := c.send(c.request(method, path, body))
	if into != nil {
		require.NoError(c.t, json.Unmarshal([]byte(text), into), text)
	}
	return status
}

// must is do for an answer of success.
func (c *apiClient) must(method, path, body string, into any) {
	c.t.Helper()
	status, text := c.send(c.request(method, path, body))
	require.Less(c.t, status, 300, "%s %s: %s", method, path, text)
	if into != nil {
		require.NoError(c.t, json.Unmarshal([]byte(text), into), text)
	}
}

// logIn gets a cookie, and forgets user and password.
func (c *apiClient) logIn() {
	c.t.Helper()
	var in struct{ User, Token string }
	c.must("POST", "session", fmt.Sprintf(`{"user": %q, "password": %q}`, c.user, c.password), &in)
	require.NotEmpty(c.t, in.Token)
	c.user, c.password, c.token = "", "", in.Token
}

// apiError is the body of an error.
type apiError struct {
	Code     int
	SQLState string
	Message  string
}

type apiRow = map[string]any

// TestAPI is a session with the API: explain, submit, follow, pause, resume, and what is left of a job.
func TestAPI(t *testing.T) {
	j := startJobShop(t)
	c := j.api("alterer")
	c.logIn()
	exec(t, j.root, "GRANT INDEX, SELECT ON shop.t TO alterer")
	var rows []apiRow
	c.must("POST", "explain", `{"schema": "shop", "statement": "CREATE INDEX i ON t (b)"}`, &rows)
	require.Contains(t, fmt.Sprint(rows), "fits")

	blocker, err := j.root.Conn(context.Background())
	require.NoError(t, err)
	_, err = blocker.ExecContext(context.Background(), "BEGIN")
	require.NoError(t, err)
	_, err = blocker.ExecContext(context.Background(), "SELECT COUNT(*) FROM shop.t")
	require.NoError(t, err)
	var made struct {
		JobID    int64 `json:"job_id"`
		Job      apiRow
		Existing bool
	}
	status := c.do("POST", "jobs", `{"schema": "shop", "statement": "CREATE INDEX i ON t (b)", "settings": {"thread": 2}}`, &made)
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, "shop", made.Job["db_name"])
	path := fmt.Sprintf("jobs/%d", made.JobID)
	events := c.follow(path + "/events")
	require.Equal(t, "progress", (<-events).name)
	require.Eventually(t, func() bool {
		c.must("GET", "blockers", "", &rows)
		return len(rows) > 0
	}, hangTimeout, 50*time.Millisecond)
	var job apiRow
	c.must("POST", path+"/pause", "{}", &job)
	require.Eventually(t, func() bool { c.must("GET", path, "", &job); return job["state"] == "paused" }, hangTimeout, 50*time.Millisecond)
	c.must("PATCH", path, `{"thread": 3, "window": "00:00-23:59"}`, &job)
	require.Eventually(t, func() bool { c.must("GET", path, "", &job); return job["job_window"] == "00:00-23:59 UTC" }, hangTimeout, 50*time.Millisecond)
	c.must("PATCH", path, `{"window": ""}`, nil)
	c.must("POST", path+"/resume", "{}", nil)
	require.Eventually(t, func() bool { c.must("GET", "blockers", "", &rows); return len(rows) > 0 }, hangTimeout, 50*time.Millisecond)
	require.Equal(t, http.StatusForbidden, c.do("POST", fmt.Sprintf("blockers/%.0f/end", rows[0]["conn_id"]), "{}", nil), "KILL of root's session")
	j.api("root").must("POST", fmt.Sprintf("blockers/%.0f/end", rows[0]["conn_id"]), "{}", nil)
	last := apiEvent{}
	for e := range events {
		last = e
	}
	require.Equal(t, "end", last.name)
	require.Contains(t, last.data, `"state":"synced"`)
	c.must("GET", path+"/points", "", &rows)
	c.must("GET", path+"/commands", "", &rows)
	require.Contains(t, fmt.Sprint(rows), "PAUSE DDL JOBS")
	c.must("GET", "jobs?state=ended&limit=1", "", &rows)
	require.Len(t, rows, 1)
	exec(t, j.root, "ADMIN CHECK TABLE shop.t")

	// Errors have TiDB's numbers.
	var wrong apiError
	require.Equal(t, http.StatusConflict, c.do("POST", "jobs", `{"schema": "shop", "statement": "CREATE INDEX i ON t (b)"}`, &wrong))
	require.Equal(t, 1061, wrong.Code)
	require.GreaterOrEqual(t, c.do("POST", path+"/cancel", "{}", &wrong), 400)
	require.NotZero(t, wrong.Code)
	require.Equal(t, http.StatusNotFound, j.api("root").do("POST", "jobs/99999/cancel", "{}", &wrong))
	require.Equal(t, 8224, wrong.Code)
	require.Equal(t, http.StatusUnprocessableEntity, c.do("POST", "jobs", `{"statement": "DROP TABLE shop.t"}`, &wrong))
	require.Equal(t, http.StatusBadRequest, c.do("POST", "jobs", `{"statement": "CREATE INDEX"}`, &wrong))
	require.Equal(t, 1064, wrong.Code)
	require.Equal(t, http.StatusBadRequest, c.do("POST", "explain", `{"statement": "CREATE INDEX k ON shop.t (b); DROP TABLE shop.t"}`, &wrong))

	c.must("DELETE", "session", "{}", nil)
	require.Equal(t, http.StatusUnauthorized, c.do("GET", "session", "", nil))
}

type apiEvent struct{ name, data string }

// follow returns the events of a stream, until it ends.
func (c *apiClient) follow(path string) <-chan apiEvent {
	c.t.Helper()
	resp, err := c.http.Do(c.request("GET", path, ""))
	require.NoError(c.t, err)
	require.Equal(c.t, http.StatusOK, resp.StatusCode)
	events := make(chan apiEvent)
	go func() {
		defer close(events)
		defer resp.Body.Close()
		var e apiEvent
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				e.name = name
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				e.data = data
			}
			if lines.Text() == "" && e.name != "" {
				select {
				case events <- e:
				case <-c.t.Context().Done():
					return
				}
				e = apiEvent{}
			}
		}
	}()
	return events
}

// apiRoute is a route of the document.
type apiRoute struct {
	method, path string
	// id is the method with the path as the document has it.
	id            string
	open, changes bool
}

// routesOf are those of a server's document, for a job.
func routesOf(t *testing.T, c *apiClient, job string) (routes []apiRoute) {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct {
			Security    []map[string][]string
			RequestBody any
		}
	}
	c.must("GET", "openapi.json", "", &document)
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for method, o := range document.Paths[path] {
			routes = append(routes, apiRoute{
				method: strings.ToUpper(method), id: strings.ToUpper(method) + " " + strings.TrimPrefix(path, "/"), path: strings.NewReplacer("{id}", job, "{connection}", "1").Replace(strings.TrimPrefix(path, "/")),
				open: len(o.Security) == 0, changes: o.RequestBody != nil,
			})
		}
	}
	return routes
}

// apiBodies are bodies of requests that would do something, by route; the others send {}.
var apiBodies = map[string]string{
	"POST jobs":       `{"schema": "shop", "statement": "CREATE INDEX by_api ON t (b)"}`,
	"POST explain":    `{"schema": "shop", "statement": "CREATE INDEX by_api ON t (b)"}`,
	"PATCH jobs/{id}": `{"thread": 7}`,
	"PATCH settings":  `{"fastddl_ddl_governor": "OFF"}`,
	"POST imports":    `{"schema": "other", "table": "t", "source": "/etc/passwd"}`,
	"POST backups":    `{"destination": "local:///tmp/by_api"}`,
	"POST session":    `{"user": "root", "password": "wrong"}`,
}

// TestEachRouteOfTheAPIAsksWhoIsThere walks the document: each route but the open ones is refused without a log-in, with a wrong password,
// from another origin and by a name that is not the server's. Those that change something need a JSON body, and the token with a cookie.
// An account without privileges finds nothing, and changes nothing.
func TestEachRouteOfTheAPIAsksWhoIsThere(t *testing.T) {
	j := startJobShop(t)
	exec(t, j.root, "CREATE USER nothing", "ALTER TABLE shop.t ADD INDEX hidden_one (b)")
	stateOf := func() string {
		return j.read(j.root, "SHOW CREATE TABLE shop.t") + j.read(j.root, "SELECT job_id, state, settings FROM mysql.fastddl_ddl_jobs ORDER BY 1") +
			j.read(j.root, "SELECT @@global.fastddl_ddl_governor")
	}
	before := stateOf()
	stranger, cookied := j.api("nothing"), j.api("nothing")
	unknown := j.api("")
	cookied.logIn()
	routes := routesOf(t, unknown, strings.TrimSpace(j.read(j.root, "SELECT MAX(job_id) FROM mysql.fastddl_ddl_jobs")))
	require.Greater(t, len(routes), 25)
	for _, r := range routes {
		body := ""
		if r.changes {
			body = "{}"
		}
		if given := apiBodies[r.id]; given != "" {
			body = given
		}
		name := r.method + " " + r.path
		refused := func(want int, why string, c *apiClient, change func(r *http.Request)) {
			t.Helper()
			q := c.request(r.method, r.path, body)
			if change != nil {
				change(q)
			}
			status, text := c.send(q)
			require.Equal(t, want, status, "%s: %s: %s", name, why, text)
		}
		foreign := map[string]func(q *http.Request){
			"another origin":      func(q *http.Request) { q.Header.Set("Origin", "http://evil.example") },
			"a page of another":   func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", "cross-site") },
			"another name (Host)": func(q *http.Request) { q.Host = "evil.example" },
		}
		if r.path != "health/live" && r.path != "health/ready" { // which probes ask for by any name
			for why, change := range foreign {
				refused(http.StatusForbidden, why, stranger, change)
				refused(http.StatusForbidden, why, cookied, change)
			}
		}
		if r.changes {
			refused(http.StatusUnsupportedMediaType, "text/plain", stranger, func(q *http.Request) { q.Header.Set("Content-Type", "text/plain") })
			refused(http.StatusUnsupportedMediaType, "a form", cookied, func(q *http.Request) { q.Header.Set("Content-Type", "application/x-www-form-urlencoded") })
		}
		if name == "POST session" {
			refused(http.StatusUnauthorized, "a wrong password", unknown, nil)
		}
		if r.open {
			continue
		}
		refused(http.StatusUnauthorized, "no log-in", unknown, nil)
		refused(http.StatusUnauthorized, "a wrong cookie", unknown, func(q *http.Request) { q.AddCookie(&http.Cookie{Name: "fastddl_session", Value: "guessed"}) })
		if r.changes {
			refused(http.StatusForbidden, "no token", cookied, func(q *http.Request) { q.Header.Del("X-Fastddl-Token") })
			refused(http.StatusForbidden, "a wrong token", cookied, func(q *http.Request) { q.Header.Set("X-Fastddl-Token", "guessed") })
		}
		if r.path == "session" {
			continue
		}
		status, text := stranger.send(stranger.request(r.method, r.path, body))
		if r.method == http.MethodGet {
			require.NotContains(t, text, "shop", "%s shows something to an account without privileges", name)
			require.NotContains(t, text, "hidden_one", name)
			continue
		}
		require.GreaterOrEqual(t, status, 400, "%s by an account without privileges: %s", name, text)
	}
	require.Equal(t, before, stateOf())
	require.Equal(t, http.StatusNotFound, unknown.do("GET", "internal", "", nil))
}

// A log-in ends when its account changes: at the next request, and for those who follow a job. Privileges are those of the moment.
func TestLogInOfTheAPIEndsWithItsAccount(t *testing.T) {
	j := startJobShop(t)
	id, end := j.held("ALTER TABLE shop.t ADD INDEX later (b)")
	for name, c := range map[string]struct {
		change, change2 string
		basic           bool
	}{
		"password":       {change: "ALTER USER ann IDENTIFIED BY 'other'"},
		"basic password": {change: "ALTER USER ann IDENTIFIED BY 'other'", basic: true},
		"lock":           {change: "ALTER USER ann ACCOUNT LOCK"},
		"drop":           {change: "DROP USER ann"},
		"again":          {change: "DROP USER ann", change2: "CREATE USER ann IDENTIFIED BY 'new'"},
		"TLS":            {change: "ALTER USER ann REQUIRE SSL"},
		"a better match": {change: "CREATE USER ann@'127.0.0.1'"},
	} {
		t.Run(name, func(t *testing.T) {
			exec(t, j.root, "DROP USER IF EXISTS ann, ann@'127.0.0.1'", "CREATE USER ann IDENTIFIED BY 'secret'", "GRANT ALTER ON shop.t TO ann")
			a := j.api("ann")
			a.t, a.password = t, "secret"
			if !c.basic {
				a.logIn()
			}
			var row apiRow
			a.must("GET", "jobs/"+id, "", &row)
			events := a.follow("jobs/" + id + "/events")
			<-events
			exec(t, j.root, c.change)
			if c.change2 != "" {
				exec(t, j.root, c.change2)
			}
			require.Equal(t, http.StatusUnauthorized, a.do("GET", "jobs/"+id, "", nil))
			var last apiEvent
			for e := range events {
				last = e
			}
			require.Equal(t, "error", last.name, last.data)
		})
	}
	exec(t, j.root, "DROP USER IF EXISTS ann", "CREATE USER ann", "GRANT ALTER ON shop.t TO ann")
	a := j.api("ann")
	a.logIn()
	events := a.follow("jobs/" + id + "/events")
	require.Equal(t, "progress", (<-events).name)
	exec(t, j.root, "REVOKE ALTER ON shop.t FROM ann")
	require.Equal(t, http.StatusNotFound, a.do("GET", "jobs/"+id, "", nil))
	var last apiEvent
	for e := range events {
		last = e
	}
	require.Equal(t, "error", last.name)
	require.NoError(t, end())
}

// A request is a client: it is listed, KILL ends its statement, and the end of the request does. A job that was submitted goes on.
func TestRequestsOfTheAPIAreClients(t *testing.T) {
	j := startJobShop(t)
	c := j.api("root")
	list := func() string {
		return j.read(j.root, "SELECT id, user, command, info FROM information_schema.processlist WHERE id <> CONNECTION_ID()")
	}
	c.must("GET", "jobs", "", nil)
	require.Contains(t, list(), "root")
	id, end := j.held("ALTER TABLE shop.t ADD INDEX later (b)")
	ctx, cancel := context.WithCancel(t.Context())
	r := c.request("POST", "jobs", `{"schema": "shop", "statement": "CREATE INDEX second ON t (b)"}`)
	resp, err := c.http.Do(r.WithContext(ctx))
	require.NoError(t, err)
	var made struct {
		JobID int64 `json:"job_id"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&made))
	require.NoError(t, resp.Body.Close())
	cancel()
	c.http.CloseIdleConnections()
	require.NotEqual(t, id, fmt.Sprint(made.JobID))
	var row apiRow
	c.must("GET", fmt.Sprintf("jobs/%d", made.JobID), "", &row)
	require.Equal(t, "fastddl-api", row["program_name"])
	require.Contains(t, list(), "CREATE INDEX second")
	var third struct {
		JobID int64 `json:"job_id"`
	}
	c.must("POST", "jobs", `{"schema": "shop", "statement": "CREATE INDEX third ON t (b)"}`, &third)
	exec(t, j.root, fmt.Sprintf("KILL %.0f", row["conn_id"]))
	require.Eventually(t, func() bool {
		c.must("GET", fmt.Sprintf("jobs/%d", made.JobID), "", &row)
		return row["end_time"] != nil
	}, hangTimeout, 50*time.Millisecond)
	require.NotEqual(t, "synced", row["state"])
	require.NoError(t, end())
	require.Eventually(t, func() bool {
		c.must("GET", fmt.Sprintf("jobs/%d", third.JobID), "", &row)
		return row["end_time"] != nil
	}, hangTimeout, 50*time.Millisecond)
	require.Equal(t, "synced", row["state"], "the end of a request is not that of its job")
	require.Eventually(t, func() bool { return j.apiSessions.count() == 0 }, hangTimeout, 100*time.Millisecond, "sessions that are not used are closed")
}

// The load of the server is shown to accounts with PROCESS; what asks about builds is no load that they yield to.
func TestLoadIsShownWithProcess(t *testing.T) {
	j := startJobShop(t)
	rows := func(user string) (rows []apiRow) {
		j.api(user).must("GET", "load", "", &rows)
		return rows
	}
	statements := func() (n float64) {
		for _, r := range rows("processor") {
			n += r["statements"].(float64)
		}
		return n
	}
	require.Eventually(t, func() bool { return len(rows("root")) > 0 }, hangTimeout, 100*time.Millisecond)
	exec(t, j.root, "SELECT 1", "SELECT 2")
	require.Eventually(t, func() bool { return statements() >= 2 }, hangTimeout, 100*time.Millisecond)
	for _, user := range []string{"alterer", "reader", "stranger"} {
		require.Empty(t, rows(user), user)
	}
	const asks = "SELECT COUNT(*) FROM performance_schema.fastddl_ddl_jobs"
	meter := j.node.foreground
	before := meter.Latencies()
	exec(t, j.root, asks, asks, asks+" WHERE job_id IN (SELECT a FROM other.t)")
	counted := func() int64 { return meter.Latencies().Since(before).Count() }
	require.Eventually(t, func() bool { return counted() > 0 }, hangTimeout, 10*time.Millisecond, "one reads another table, too")
	require.EqualValues(t, 1, counted())
}

// TestSubmissionsWithOneKeyMakeOneJob: requests with the same key of the same account have the same job, at the same time, later, and after
// a restart. Another account's key is another one, and a key of another statement is refused.
func TestSubmissionsWithOneKeyMakeOneJob(t *testing.T) {
	j := startJobShop(t)
	id, end := j.held("ALTER TABLE shop.t ADD INDEX first (b)")
	type made struct {
		JobID    int64 `json:"job_id"`
		Existing bool
	}
	submit := func(c *apiClient, key, statement string) (m made, status int) {
		r := c.request("POST", "jobs", fmt.Sprintf(`{"schema": "shop", "statement": %q}`, statement))
		r.Header.Set("Idempotency-Key", key)
		status, body := c.send(r)
		require.NoError(t, json.NewDecoder(bytes.NewReader([]byte(body))).Decode(&m), body)
		return m, status
	}
	const statement = "CREATE INDEX keyed ON t (b)"
	jobs := make(chan made, 8)
	for range cap(jobs) {
		go func() {
			m, status := submit(j.api("root"), "key-1", statement)
			if status != http.StatusAccepted {
				m.JobID = int64(-status)
			}
			jobs <- m
		}()
	}
	first := <-jobs
	require.Positive(t, first.JobID)
	require.NotEqual(t, id, fmt.Sprint(first.JobID))
	for range cap(jobs) - 1 {
		require.Equal(t, first.JobID, (<-jobs).JobID)
	}
	_, status := submit(j.api("root"), "key-1", "CREATE INDEX other ON t (b)")
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.NoError(t, end())
	require.Eventually(t, func() bool {
		return strings.Contains(j.read(j.root, "SHOW CREATE TABLE shop.t"), "`keyed`")
	}, hangTimeout, 50*time.Millisecond)
	again, status := submit(j.api("root"), "key-1", statement)
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, first.JobID, again.JobID)
	require.True(t, again.Existing)
	_, status = submit(j.api("root"), "key-2", statement)
	require.Equal(t, http.StatusConflict, status, "it is there")
	exec(t, j.root, "GRANT ALL ON shop.* TO alterer")
	_, status = submit(j.api("alterer"), "key-1", statement)
	require.Equal(t, http.StatusConflict, status, "another account's key")
	require.Equal(t, "key-1", strings.TrimSpace(j.read(j.root, fmt.Sprintf("SELECT submit_key FROM mysql.fastddl_ddl_jobs WHERE job_id = %d", first.JobID))))

	cfg := j.Server.opts.Config
	shutdown(t, j.Server)
	j.Server = start(t, cfg)
	again, status = submit(j.api("root"), "key-1", statement)
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, first.JobID, again.JobID)
}

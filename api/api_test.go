package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// fakeSessions has one account, ann, and one job, 7.
type fakeSessions struct {
	mu       sync.Mutex
	password string
	state    string
	rows     [][]any
	logIns   atomic.Int64
	runs     atomic.Int64
	open     atomic.Int64
	left     atomic.Int64
	texts    []string
	builds   time.Duration // how long a statement of a user takes
	checks   time.Duration // how long a password is checked
	job      int64         // of each statement, 0 for none
	refused  error         // of who asks for grants
}

func newFakeSessions() *fakeSessions {
	return &fakeSessions{password: "secret", state: "1", rows: [][]any{{int64(7), nil, 0.5}}}
}

func (f *fakeSessions) LogIn(_ context.Context, _ Caller, user, password string) (Account, error) {
	f.logIns.Add(1)
	time.Sleep(f.checks) // others try meanwhile
	f.mu.Lock()
	defer f.mu.Unlock()
	if user != "ann" || password != f.password {
		return nil, &SQLError{Code: 1045, State: "28000", Message: "Access denied"}
	}
	return &fakeAccount{f, f.state}, nil
}

func (f *fakeSessions) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

type fakeAccount struct {
	f     *fakeSessions
	state string
}

func (a *fakeAccount) Name() string  { return "ann@%" }
func (a *fakeAccount) State() string { return a.state }
func (a *fakeAccount) Current(context.Context) (string, error) {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	return a.f.state, nil
}

func (a *fakeAccount) Open(context.Context) (Session, error) {
	a.f.open.Add(1)
	return &fakeSession{f: a.f}, nil
}

type fakeSession struct {
	f     *fakeSessions
	ended atomic.Bool
}

func (s *fakeSession) ID() uint64 { return 1 }
func (s *fakeSession) Run(_ context.Context, text string, _ ...any) (*Result, error) {
	s.f.runs.Add(1)
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.texts = append(s.f.texts, text)
	if strings.HasPrefix(text, "SELECT * FROM performance_schema.fastddl_ddl_jobs") {
		return &Result{Columns: []string{"job_id", "end_time", "percent"}, Rows: s.f.rows}, nil
	}
	return &Result{}, nil
}
func (s *fakeSession) RunOn(ctx context.Context, _ Needed, text string, args ...any) (*Result, error) {
	return s.Run(ctx, text, args...)
}
func (s *fakeSession) RunText(ctx context.Context, text string) (*Result, error) {
	time.Sleep(s.f.builds)
	return s.Run(ctx, text)
}
func (s *fakeSession) Grants(context.Context) ([]Grant, error) {
	return []Grant{{Privileges: []string{"PROCESS"}}, {Schema: "shop", Table: "t", Privileges: []string{"ALTER", "INDEX"}}}, s.f.refused
}
func (s *fakeSession) CheckBuild(context.Context, string) error { return nil }
func (s *fakeSession) Job() (SubmittedJob, bool)                { return SubmittedJob{ID: s.f.job}, s.f.job != 0 }
func (s *fakeSession) Ended() bool                              { return s.ended.Load() }
func (s *fakeSession) Leave()                                   { s.f.left.Add(1) }
func (s *fakeSession) Close()                                   { s.f.open.Add(-1) }

// local is a caller on this machine.
func local(*http.Request) Caller {
	return Caller{Addr: netip.MustParseAddrPort("127.0.0.1:1"), Local: true}
}

func newTestAPI(t *testing.T, f *fakeSessions, change func(o *Options)) *API {
	t.Helper()
	o := Options{Sessions: f, Caller: local, Health: func() error { return nil }, Version: "test", Columns: map[string][]string{
		"fastddl_ddl_jobs": {"job_id BIGINT NOT NULL"}, "fastddl_ddl_points": {}, "fastddl_ddl_errors": {}, "fastddl_ddl_commands": {}, "fastddl_ddl_blockers": {}, "fastddl_server_load": {},
	}}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

// ask sends a request to an API, with user and password if user is not empty.
func ask(a *API, method, path, body, user, password string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, Prefix+path, strings.NewReader(body))
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// TestRequests shows a log-in by a cookie, and one with each request.
func TestRequests(t *testing.T) {
	f := newFakeSessions()
	a := newTestAPI(t, f, nil)
	require.Equal(t, http.StatusUnauthorized, ask(a, "GET", "jobs/7", "", "", "").Code)
	w := ask(a, "GET", "jobs/7", "", "ann", "secret")
	require.Equal(t, http.StatusOK, w.Code)
	require.JSONEq(t, `{"job_id": 7, "end_time": null, "percent": 0.5}`, w.Body.String())
	require.Equal(t, http.StatusOK, ask(a, "GET", "jobs/7", "", "ann", "secret").Code)
	require.EqualValues(t, 1, f.logIns.Load(), "a password that was checked is remembered")

	w = ask(a, "POST", "session", `{"user": "ann", "password": "secret"}`, "", "")
	cookie := w.Result().Cookies()[0]
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	var in LoggedIn
	require.NoError(t, decode(w.Body.Bytes(), &in))
	with := []string{"Cookie", cookie.Name + "=" + cookie.Value}
	require.Equal(t, http.StatusOK, ask(a, "GET", "jobs/7", "", "", "", with...).Code)
	require.Equal(t, http.StatusForbidden, ask(a, "PATCH", "jobs/7", `{"thread": 2}`, "", "", with...).Code)
	with = append(with, tokenHeader, in.Token)
	require.Equal(t, http.StatusOK, ask(a, "PATCH", "jobs/7", `{"thread": 2}`, "", "", with...).Code)
	require.Contains(t, f.texts, "ADMIN ALTER DDL JOBS %? THREAD = %?")
	for body, want := range map[string]string{
		"": "empty", "[]": "no JSON object", "{}": "names no setting", `{"threads": 2}`: "unknown field", `{"thread": "x"}`: "cannot unmarshal", `{} {}`: "behind the object",
	} {
		w := ask(a, "PATCH", "jobs/7", body, "", "", with...)
		require.Equal(t, http.StatusBadRequest, w.Code, body)
		require.Contains(t, w.Body.String(), want)
	}
	require.Equal(t, http.StatusRequestEntityTooLarge, ask(a, "PATCH", "jobs/7", strings.Repeat(" ", maxBody+1), "", "", with...).Code)
	require.Equal(t, http.StatusOK, ask(a, "DELETE", "session", "{}", "", "", with...).Code)
	require.Equal(t, http.StatusUnauthorized, ask(a, "GET", "jobs/7", "", "", "", with...).Code)
}

// A log-in says what its account may do. One whose grants cannot be read gets no cookie.
func TestLogInSaysWhatTheAccountMayDo(t *testing.T) {
	f := newFakeSessions()
	a := newTestAPI(t, f, nil)
	const credentials = `{"user": "ann", "password": "secret"}`
	const grants = `[{"schema": "", "table": "", "privileges": ["PROCESS"]}, {"schema": "shop", "table": "t", "privileges": ["ALTER", "INDEX"]}]`
	w := ask(a, "POST", "session", credentials, "", "")
	cookie := w.Result().Cookies()[0]
	var in struct {
		Token  string
		Grants json.RawMessage
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &in))
	require.JSONEq(t, grants, string(in.Grants))
	w = ask(a, "GET", "session", "", "", "", "Cookie", cookie.Name+"="+cookie.Value)
	require.JSONEq(t, `{"user": "ann@%", "version": "test", "token": "`+in.Token+`", "grants": `+grants+`}`, w.Body.String())
	w = ask(a, "GET", "session", "", "ann", "secret")
	require.JSONEq(t, `{"user": "ann@%", "version": "test", "grants": `+grants+`}`, w.Body.String())

	f.refused = &SQLError{Code: 1040, State: "08004", Message: "Too many connections"}
	w = ask(a, "POST", "session", credentials, "", "")
	require.GreaterOrEqual(t, w.Code, 400)
	require.Contains(t, w.Body.String(), "Too many connections")
	require.Empty(t, w.Result().Cookies())
	require.Len(t, a.logins.all, 2)
}

// A log-in does not hold for another address, nor when its account is not what it was.
func TestLogInHoldsForOneAddressAndOneState(t *testing.T) {
	f := newFakeSessions()
	from := "10.0.0.1:1"
	a := newTestAPI(t, f, func(o *Options) {
		o.Caller = func(*http.Request) Caller {
			return Caller{Addr: netip.MustParseAddrPort(from), Local: from != "10.0.0.9:1"}
		}
	})
	w := ask(a, "POST", "session", `{"user": "ann", "password": "secret"}`, "", "")
	cookie := w.Result().Cookies()[0]
	get := func() int { return ask(a, "GET", "jobs/7", "", "", "", "Cookie", cookie.Name+"="+cookie.Value).Code }
	require.Equal(t, http.StatusOK, get())
	from = "10.0.0.2:1"
	require.Equal(t, http.StatusUnauthorized, get())
	from = "10.0.0.1:2"
	require.Equal(t, http.StatusOK, get())
	f.set(func() { f.state = "2" })
	require.Equal(t, http.StatusUnauthorized, get())
	f.set(func() { f.state = "1" })
	require.Equal(t, http.StatusUnauthorized, get(), "it has ended")
	from = "10.0.0.9:1"
	require.Equal(t, http.StatusForbidden, get(), "neither TLS nor this machine")
	require.Equal(t, http.StatusForbidden, ask(a, "POST", "session", `{"user": "ann", "password": "secret"}`, "", "").Code)
}

// Log-ins end when they are not used, and sessions are closed sooner.
func TestWhatIsNotUsedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSessions()
		a := newTestAPI(t, f, nil)
		cookie := ask(a, "POST", "session", `{"user": "ann", "password": "secret"}`, "", "").Result().Cookies()[0]
		get := func() int { return ask(a, "GET", "jobs/7", "", "", "", "Cookie", cookie.Name+"="+cookie.Value).Code }
		require.Equal(t, http.StatusOK, get())
		require.EqualValues(t, 1, f.open.Load())
		time.Sleep(sessionIdle + sweepInterval)
		synctest.Wait()
		require.Zero(t, f.open.Load())
		time.Sleep(cookieIdle - time.Minute)
		require.Equal(t, http.StatusOK, get())
		time.Sleep(cookieIdle)
		require.Equal(t, http.StatusUnauthorized, get())

		cookie = ask(a, "POST", "session", `{"user": "ann", "password": "secret"}`, "", "").Result().Cookies()[0]
		for range cookieAge/(20*time.Minute) - 1 {
			time.Sleep(20 * time.Minute)
			require.Equal(t, http.StatusOK, get())
		}
		time.Sleep(20 * time.Minute)
		require.Equal(t, http.StatusUnauthorized, get(), "not for ever")
	})
}

// Failed log-ins slow down the next ones, of the same user from the same address.
func TestFailedLogInsAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSessions()
		core, logged := observer.New(zap.InfoLevel)
		a := newTestAPI(t, f, func(o *Options) {
			o.Log = zap.New(core)
			o.Caller = func(*http.Request) Caller {
				return Caller{Addr: netip.MustParseAddrPort("10.0.0.1:1"), TLS: &tls.ConnectionState{}}
			}
		})
		get := func(user, password string) int { return ask(a, "GET", "jobs/7", "", user, password).Code }
		for range freeFailures {
			require.Equal(t, http.StatusUnauthorized, get("ann", "hunter2"))
		}
		require.Equal(t, http.StatusTooManyRequests, get("ann", "hunter2"))
		require.Equal(t, http.StatusTooManyRequests, get("ann", "secret"))
		require.EqualValues(t, freeFailures, f.logIns.Load(), "no password is checked meanwhile")
		require.Equal(t, http.StatusUnauthorized, get("bob", "x"), "another user")
		time.Sleep(firstWait)
		require.Equal(t, http.StatusUnauthorized, get("ann", "hunter2"))
		time.Sleep(firstWait)
		require.Equal(t, http.StatusTooManyRequests, get("ann", "secret"), "twice as long")
		time.Sleep(firstWait)
		require.Equal(t, http.StatusOK, get("ann", "secret"))
		require.Equal(t, http.StatusUnauthorized, get("ann", "hunter2"), "forgiven")
		for range longestWait/time.Second + freeFailuresOfHost {
			time.Sleep(time.Second)
			get(fmt.Sprint(time.Now().UnixNano()), "x")
		}
		require.Equal(t, http.StatusTooManyRequests, get("eve", "x"), "many users from one address")
		require.NotContains(t, fmt.Sprint(logged.All()), "hunter2")
	})
}

// TestFollowersShareOneReading: followers of a job cost one reading a second for each account; each is checked with it.
func TestFollowersShareOneReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSessions()
		a := newTestAPI(t, f, nil)
		const followers = 1000
		var streams [followers]*streamRecorder
		var done sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range streams {
			streams[i] = newStreamRecorder()
			r := httptest.NewRequestWithContext(ctx, "GET", Prefix+"jobs/7/events", nil)
			r.SetBasicAuth("ann", "secret")
			done.Go(func() { a.ServeHTTP(streams[i], r) })
		}
		synctest.Wait()
		before := f.runs.Load()
		time.Sleep(10 * feedInterval)
		synctest.Wait()
		require.LessOrEqual(t, f.runs.Load()-before, int64(11))
		f.set(func() { f.rows = [][]any{{int64(7), nil, 0.75}} })
		time.Sleep(feedInterval)
		synctest.Wait()
		for _, s := range streams {
			require.Equal(t, []string{"progress", "progress"}, s.events(), "only what has changed")
		}
		f.set(func() { f.rows = [][]any{{int64(7), "2026-01-01T00:00:00Z", 1.0}} })
		time.Sleep(feedInterval)
		done.Wait()
		for _, s := range streams {
			require.Equal(t, []string{"progress", "progress", "end"}, s.events())
		}
		synctest.Wait()
		time.Sleep(2 * feedInterval)
		require.Empty(t, a.feeds.open)
		require.Zero(t, a.feeds.followers)
	})
}

// Followers of an account that has changed, or sees the job no longer, are sent away; so are all when the server stops.
func TestFollowersAreSentAway(t *testing.T) {
	for name, change := range map[string]func(f *fakeSessions, a *API){
		"account":   func(f *fakeSessions, _ *API) { f.state = "2" },
		"privilege": func(f *fakeSessions, _ *API) { f.rows = nil },
		"stop":      func(_ *fakeSessions, a *API) { go a.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeSessions()
				a := newTestAPI(t, f, nil)
				s := newStreamRecorder()
				ctx, cancel := context.WithCancel(t.Context())
				r := httptest.NewRequestWithContext(ctx, "GET", Prefix+"jobs/7/events", nil)
				r.SetBasicAuth("ann", "secret")
				ended := make(chan struct{})
				go func() { defer close(ended); a.ServeHTTP(s, r) }()
				synctest.Wait()
				f.set(func() { change(f, a) })
				time.Sleep(2 * feedInterval)
				synctest.Wait()
				events := s.events()
				cancel()
				<-ended
				require.Equal(t, []string{"progress", "error"}, events)
			})
		})
	}
}

// streamRecorder keeps what is sent.
type streamRecorder struct {
	mu     sync.Mutex
	header http.Header
	text   strings.Builder
}

func newStreamRecorder() *streamRecorder { return &streamRecorder{header: make(http.Header)} }

func (s *streamRecorder) Header() http.Header { return s.header }
func (s *streamRecorder) WriteHeader(int)     {}
func (s *streamRecorder) Flush()              {}
func (s *streamRecorder) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(data)
}

func (s *streamRecorder) events() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for lines := bufio.NewScanner(strings.NewReader(s.text.String())); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			names = append(names, name)
		}
	}
	return names
}

// A server whose store is not open says so, and lives.
func TestUnopened(t *testing.T) {
	h := Unopened(func() error { return errors.New("replaying the log") })
	for path, want := range map[string]int{"health/live": 200, "health/ready": 503, "jobs": 503, "openapi.json": 503} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", Prefix+path, nil))
		require.Equal(t, want, w.Code, path)
		if want == 503 {
			require.Contains(t, w.Body.String(), "replaying the log")
		}
	}
}

// The document has all routes, each with an operation of its own.
func TestDocumentHasAllRoutes(t *testing.T) {
	a := newTestAPI(t, newFakeSessions(), nil)
	ids := make(map[string]bool)
	for _, r := range a.routes() {
		require.False(t, ids[r.id], r.id)
		ids[r.id] = true
		require.Contains(t, string(a.document), `"operationId": "`+r.id+`"`)
		require.Equal(t, r.method != http.MethodGet, r.body != nil, "%s %s: what changes something has a body", r.method, r.path)
		require.NotEmpty(t, r.summary)
	}
	require.Equal(t, http.StatusOK, ask(a, "GET", "openapi.json", "", "", "").Code)
	require.Equal(t, http.StatusNotFound, ask(a, "GET", "nothing", "", "", "").Code)
}

// As many submissions as there are slots, at once on one log-in, read their jobs back.
func TestSubmissionsFillTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSessions()
		f.job, f.builds = 7, jobInterval/2
		a := newTestAPI(t, f, nil)
		require.Equal(t, http.StatusOK, ask(a, "GET", "jobs/7", "", "ann", "secret").Code)
		var done sync.WaitGroup
		began := time.Now()
		for range 3 * slotsOfAccount {
			done.Go(func() {
				w := ask(a, "POST", "jobs", `{"statement": "CREATE INDEX i ON t (a)"}`, "ann", "secret")
				assert.Equal(t, http.StatusAccepted, w.Code, w.Body.String())
			})
		}
		done.Wait()
		require.Less(t, time.Since(began), time.Second)
	})
}

// Log-ins at the same time are slowed down as those one after the other; right ones are checked once. A name that is none is not kept.
func TestParallelLogInsAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSessions()
		f.checks = time.Millisecond
		a := newTestAPI(t, f, nil)
		parallel := func(password string, want int) (got int) {
			var done sync.WaitGroup
			var n atomic.Int64
			for range 30 {
				done.Go(func() {
					if ask(a, "GET", "jobs/7", "", "ann", password).Code == want {
						n.Add(1)
					}
				})
			}
			done.Wait()
			return int(n.Load())
		}
		require.Equal(t, 30, parallel("secret", http.StatusOK))
		require.EqualValues(t, 1, f.logIns.Load())
		require.Equal(t, freeFailures, parallel("hunter2", http.StatusUnauthorized))
		require.EqualValues(t, 1+freeFailures, f.logIns.Load())
		require.Equal(t, http.StatusUnauthorized, ask(a, "GET", "jobs/7", "", strings.Repeat("n", maxUser+1), "x").Code)
		require.EqualValues(t, 1+freeFailures, f.logIns.Load())
		require.Len(t, a.attempts.all, 2)
		require.Empty(t, a.attempts.turns)
		for i := range freeFailuresOfHost + 1 {
			require.Equal(t, http.StatusUnauthorized, ask(a, "GET", "jobs/7", "", fmt.Sprint("user", i), "x").Code, "this machine's users do not shut out each other")
		}
	})
}

// A password that comes with each request stays right when its account has changed otherwise.
func TestPasswordIsCheckedAgainWhenTheAccountHasChanged(t *testing.T) {
	f := newFakeSessions()
	a := newTestAPI(t, f, nil)
	require.Equal(t, http.StatusOK, ask(a, "GET", "jobs/7", "", "ann", "secret").Code)
	f.set(func() { f.state = "2" })
	require.Equal(t, http.StatusOK, ask(a, "GET", "jobs/7", "", "ann", "secret").Code)
	require.EqualValues(t, 2, f.logIns.Load())
	f.set(func() { f.state, f.password = "3", "other" })
	require.Equal(t, http.StatusUnauthorized, ask(a, "GET", "jobs/7", "", "ann", "secret").Code)
}

// Builds that wait, and jobs that are followed, leave sessions for others.
func TestWaitingAndFollowingLeaveSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSessions()
		f.job, f.builds = 7, time.Hour
		a := newTestAPI(t, f, nil)
		for range maxWaitingOfAccount + 5 {
			require.Equal(t, http.StatusAccepted, ask(a, "POST", "jobs", `{"statement": "CREATE INDEX i ON t (a)"}`, "ann", "secret").Code)
		}
		require.EqualValues(t, 5, f.left.Load(), "their jobs go on without them")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Zero(t, f.open.Load())
		require.Zero(t, a.logins.waiting)

		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		for i := range 50 {
			r := httptest.NewRequestWithContext(ctx, "GET", fmt.Sprint(Prefix, "jobs/", i, "/events"), nil)
			r.SetBasicAuth("ann", "secret")
			done.Go(func() { a.ServeHTTP(newStreamRecorder(), r) })
		}
		time.Sleep(sessionIdle + 2*sweepInterval)
		synctest.Wait()
		require.EqualValues(t, 1, f.open.Load())
		cancel()
		done.Wait()
		time.Sleep(2 * feedInterval)
		synctest.Wait()
		require.Zero(t, f.open.Load())
		require.Empty(t, a.feeds.readers)
	})
}

// A setting is not cleared by null.
func TestNullIsNoSetting(t *testing.T) {
	a := newTestAPI(t, newFakeSessions(), func(o *Options) { o.Settings = []Setting{{Name: "fastddl_ddl_window"}} })
	require.Equal(t, http.StatusBadRequest, ask(a, "PATCH", "settings", `{"fastddl_ddl_window": null}`, "ann", "secret").Code)
	require.Equal(t, http.StatusOK, ask(a, "PATCH", "settings", `{"fastddl_ddl_window": ""}`, "ann", "secret").Code)
}

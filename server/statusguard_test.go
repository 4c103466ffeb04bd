package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"

	"fastddl/config"
	"fastddl/console"
)

// ask sends a request through a guard, from a client of an address to a server at 10.0.0.1.
func ask(g *statusGuard, client string, r *http.Request) *httptest.ResponseRecorder {
	conn := fakeConn{local: &net.TCPAddr{IP: net.ParseIP("10.0.0.1")}, remote: &net.TCPAddr{IP: net.ParseIP(client), Port: 1}}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r.WithContext(withConn(r.Context(), conn)))
	return w
}

// guarded is a guard of routes that say "inside", to whose login the account dba with the password secret is known.
func guarded(t *testing.T, change func(c *config.Config)) *statusGuard {
	cfg := testConfig(t.TempDir())
	cfg.AdvertiseAddress = "Db1.example"
	if change != nil {
		change(&cfg)
	}
	g := newStatusGuard(cfg, zap.NewNop())
	g.next = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "inside") })
	g.login = func(_ context.Context, _ net.Addr, _ *tls.ConnectionState, user, password string) error {
		switch user + ":" + password {
		case "dba:secret":
			return nil
		case "app:secret":
			return errStatusRights
		}
		return errors.New("access denied")
	}
	return g
}

// The console needs no login and may be reached by a link of another site, but only by a name of this server.
func TestConsoleIsOpenByNamesOfTheServer(t *testing.T) {
	g := guarded(t, nil)
	page, err := console.Handler()
	require.NoError(t, err)
	g.console = page
	for host, want := range map[string]int{"db1.example:10080": 200, "10.0.0.1": 200, "evil.example": 403} {
		r := httptest.NewRequest(http.MethodGet, "http://"+host+console.Prefix, nil)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		w := ask(g, "10.0.0.9", r)
		require.Equal(t, want, w.Code, host)
		require.Equal(t, want == 200, strings.Contains(w.Body.String(), "main.js"), host)
	}
	require.Equal(t, console.Prefix, ask(g, "10.0.0.9", httptest.NewRequest(http.MethodGet, "http://10.0.0.1/", nil)).Header().Get("Location"))
	require.Equal(t, 403, ask(g, "10.0.0.9", httptest.NewRequest(http.MethodGet, "http://10.0.0.1/consoles", nil)).Code, "what is beside it")
}

// Requests that a page of another site has made are refused: by a name that does not name this server, or from
// another origin. So are those with a name that is not known, in words. Probes are answered by any name.
func TestStatusPortRefusesPagesOfOtherSites(t *testing.T) {
	g := guarded(t, func(c *config.Config) { c.Status.AllowedHosts = []string{"status.example."} })
	for _, path := range []string{"/health", "/status", "/metrics", "/info"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = "balancer.example"
		require.Equal(t, 200, ask(g, "127.0.0.1", r).Code, path)
		r = httptest.NewRequest(http.MethodPost, path, nil)
		r.Host = "balancer.example"
		require.Equal(t, 403, ask(g, "127.0.0.1", r).Code, path)
	}
	for _, path := range []string{"/config", "/settings"} {
		for host, want := range map[string]int{
			"127.0.0.1:10080": 200, "10.0.0.1": 200, "[::1]:10080": 200, "[fe80::1]": 200, "localhost:10080": 200, "LOCALHOST": 200, "": 200,
			"db1.example:10080": 200, "db1.EXAMPLE.": 200, "status.example": 200,
			"evil.example": 403, "evil.example:10080": 403, "db1.example.evil.example": 403, "127.0.0.1.evil.example": 403, "localhost.evil:80": 403,
			"x:y:z": 403, "1.2.3": 403,
		} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = host
			r.SetBasicAuth("dba", "secret")
			w := ask(g, "127.0.0.1", r)
			require.Equal(t, want, w.Code, "%s at %q: %s", path, host, w.Body)
			if want == 403 {
				require.Contains(t, w.Body.String(), "status.allowed-hosts")
			}
		}
		for _, header := range []struct {
			name, value string
			want        int
		}{
			{"Origin", "http://127.0.0.1:10080", 200}, {"Sec-Fetch-Site", "same-origin", 200}, {"Sec-Fetch-Site", "none", 200},
			{"Origin", "https://127.0.0.1:10080", 403}, {"Origin", "http://127.0.0.1", 403}, {"Origin", "http://evil.example", 403}, {"Origin", "null", 403},
			{"Origin", "", 403}, {"Sec-Fetch-Site", "cross-site", 403}, {"Sec-Fetch-Site", "same-site", 403},
		} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = "127.0.0.1:10080"
			r.SetBasicAuth("dba", "secret")
			r.Header.Set(header.name, header.value)
			require.Equal(t, header.want, ask(g, "127.0.0.1", r).Code, "%s: %s: %s", path, header.name, header.value)
		}
	}
	open := guarded(t, func(c *config.Config) { c.Status.EnableDebug = true })
	r := httptest.NewRequest(http.MethodPost, "/settings", nil)
	r.Host = "evil.example"
	require.Equal(t, 403, ask(open, "127.0.0.1", r).Code, "a route without a login")
}

// All routes but those of probes need a login, which goes over TLS or comes from this machine, or that the configuration does without.
func TestStatusPortNeedsALogin(t *testing.T) {
	request := func(method, path, account string) *http.Request {
		r := httptest.NewRequest(method, "http://10.0.0.1"+path, nil)
		if user, password, ok := strings.Cut(account, ":"); ok {
			r.SetBasicAuth(user, password)
		}
		return r
	}
	g := guarded(t, nil)
	for _, c := range []struct {
		client, method, path, account string
		want                          int
	}{
		{"10.0.0.2", "GET", "/metrics", "", 200}, {"10.0.0.2", "HEAD", "/health", "", 200}, {"10.0.0.2", "GET", "/info", "", 200}, {"10.0.0.2", "GET", "/status", "", 200},
		{"10.0.0.1", "POST", "/metrics", "", 401}, {"10.0.0.1", "GET", "/metrics/", "", 401}, {"10.0.0.1", "GET", "/info/all", "", 401},
		{"10.0.0.1", "GET", "/debug/pprof/cmdline", "", 401}, {"10.0.0.1", "GET", "/a/route/of/tomorrow", "", 401}, {"10.0.0.1", "GET", "/", "", 401},
		{"10.0.0.1", "GET", "/settings", "dba:wrong", 401}, {"10.0.0.1", "GET", "/settings", "app:secret", 403},
		{"10.0.0.1", "GET", "/settings", "dba:secret", 200}, {"127.0.0.1", "POST", "/settings", "dba:secret", 200},
		{"10.0.0.2", "GET", "/settings", "dba:secret", 403}, {"10.0.0.2", "GET", "/settings", "", 403},
	} {
		w := ask(g, c.client, request(c.method, c.path, c.account))
		require.Equal(t, c.want, w.Code, "%v", c)
		require.Equal(t, c.want == 200, w.Body.String() == "inside", "%v", c)
		require.Equal(t, c.want == 401, w.Header().Get("WWW-Authenticate") != "", "%v", c)
	}
	g = guarded(t, func(c *config.Config) { c.Status.EnableDebug = true })
	require.Equal(t, 200, ask(g, "10.0.0.2", request("POST", "/settings", "")).Code)
	// Other servers need none.
	g = guarded(t, nil)
	g.peer = (&statusPeers{dumps: true}).isRequest
	for path, want := range map[string]int{
		"/config": 200, "/plan_replayer/dump/x?forward=true": 200, "/optimize_trace/dump/x?forward=true": 200, "/plan_replayer/dump/x": 403, "/settings": 403,
	} {
		require.Equal(t, want, ask(g, "10.0.0.2", request("GET", path, "")).Code, path)
	}
	require.Equal(t, 403, ask(g, "10.0.0.2", request("POST", "/config", "")).Code)
	g.peer = (&statusPeers{}).isRequest
	require.Equal(t, 403, ask(g, "10.0.0.2", request("GET", "/plan_replayer/dump/x?forward=true", "")).Code, "there are no others")
}

// Over TLS a certificate of the cluster replaces a login, one of another authority does not, and a login is accepted from anywhere.
func TestStatusPortOverTLS(t *testing.T) {
	pair := func() tls.Certificate {
		dir := t.TempDir()
		sec := config.Security{SSLCert: filepath.Join(dir, "cert.pem"), SSLKey: filepath.Join(dir, "key.pem")}
		writeCertificate(t, sec)
		pair, err := tls.LoadX509KeyPair(sec.SSLCert, sec.SSLKey)
		require.NoError(t, err)
		return pair
	}
	own, other := pair(), pair()
	authorities := x509.NewCertPool()
	authorities.AddCert(own.Leaf)
	g := guarded(t, nil)
	g.peer = certified(authorities)
	var states []*tls.ConnectionState
	known := g.login
	g.login = func(ctx context.Context, caller net.Addr, state *tls.ConnectionState, user, password string) error {
		states = append(states, state)
		return known(ctx, caller, state, user, password)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := startStatusServer(statusOptions{
		listener: tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert}),
		gatherer: prometheus.NewRegistry(), log: zap.NewNop(), health: func() error { return nil },
	})
	s.open(storePages{grpc: grpc.NewServer(), guard: g, debug: func(r *mux.Router) {
		r.HandleFunc("/settings", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "inside") })
	}})
	defer func() { require.NoError(t, s.close(t.Context())) }()
	for name, c := range map[string]struct {
		account string
		shown   []tls.Certificate
		want    int
	}{
		"of the cluster": {"", []tls.Certificate{own}, 200}, "of somebody else": {"", []tls.Certificate{other}, 401}, "none": {"", nil, 401},
		"login": {"dba:secret@", nil, 200}, "wrong login": {"dba:wrong@", []tls.Certificate{other}, 401},
	} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: c.shown}}
		resp, err := (&http.Client{Transport: transport}).Get("https://" + c.account + l.Addr().String() + "/settings")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		transport.CloseIdleConnections()
		require.Equal(t, c.want, resp.StatusCode, name)
	}
	require.Len(t, states, 2)
	require.NotContains(t, states, (*tls.ConnectionState)(nil))
	r := httptest.NewRequest(http.MethodGet, "http://10.0.0.1/settings", nil)
	r.TLS = &tls.ConnectionState{}
	r.SetBasicAuth("dba", "secret")
	w := httptest.NewRecorder()
	g.next = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	g.ServeHTTP(w, r)
	require.Equal(t, 200, w.Code, "from another machine")
}

// Servers of a cluster without TLS are known by their registered addresses.
func TestStatusPortKnowsOtherServers(t *testing.T) {
	registered, err := []string{"10.0.0.2", "::ffff:10.0.0.3", "localhost"}, error(nil)
	p := &statusPeers{servers: func(context.Context) ([]string, error) { return registered, err }, log: zap.NewNop()}
	g := guarded(t, nil)
	g.peer = p.asks
	for client, want := range map[string]int{"10.0.0.2": 200, "10.0.0.3": 200, "127.0.0.1": 200, "10.0.0.4": 403} {
		require.Equal(t, want, ask(g, client, httptest.NewRequest(http.MethodGet, "http://10.0.0.1/config", nil)).Code, client)
	}
	err = errors.New("etcd does not answer")
	p = &statusPeers{servers: p.servers, log: zap.NewNop()}
	g.peer = p.asks
	require.Equal(t, 403, ask(g, "10.0.0.2", httptest.NewRequest(http.MethodGet, "http://10.0.0.1/config", nil)).Code, "nothing is assumed")
}

// A panic of a handler is an answer 500 and a line in the log.
func TestStatusPortContainsPanics(t *testing.T) {
	core, logged := observer.New(zap.ErrorLevel)
	g := guarded(t, nil)
	g.log = zap.New(core)
	g.next = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		var nothing *config.Config
		_ = nothing.Path
	})
	w := ask(g, "10.0.0.2", httptest.NewRequest(http.MethodGet, "http://10.0.0.1/info", nil))
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Equal(t, 1, logged.Len())
	g.next = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic("later")
	})
	require.PanicsWithError(t, http.ErrAbortHandler.Error(), func() {
		ask(g, "10.0.0.2", httptest.NewRequest(http.MethodGet, "http://10.0.0.1/info", nil))
	}, "the client sees that the answer is not whole")
	require.Equal(t, 2, logged.Len())
}

// request asks a server's status port by a method, as an account or none.
func request(t *testing.T, s *Server, method, path, account string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.StatusURL()+path, strings.NewReader("log_level=debug"))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if user, password, ok := strings.Cut(account, ":"); ok {
		r.SetBasicAuth(user, password)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// Every route that the status port has, TiDB's included, needs a login unless it is one of the four for probes, by any method.
func TestEveryRouteNeedsALogin(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	for _, store := range []string{config.StorePebble, config.StoreTiKV} { // a cluster has more
		cfg := s.opts.Config
		cfg.Store = store
		routes := mux.NewRouter()
		debugRoutes(cfg, s.node.helperStorage(), s.node.Domain())(routes)
		seen := 0
		require.NoError(t, routes.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
			path, err := route.GetPathTemplate()
			require.NoError(t, err)
			path = strings.NewReplacer("{", "", "}", "").Replace(path)
			seen++
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodHead, http.MethodOptions} {
				if (openRoutes[path] || path == "/config") && (method == http.MethodGet || method == http.MethodHead) {
					continue
				}
				for _, account := range []string{"", "root:wrong", "nobody:"} {
					code, _ := request(t, s, method, path, account)
					require.Equal(t, http.StatusUnauthorized, code, "%s %s as %q", method, path, account)
				}
			}
			return nil
		}))
		require.Greater(t, seen, 20)
	}
}

// Accounts log in as clients of the database do, and need SUPER and SELECT.
func TestStatusPortLogin(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	db := connect(t, s)
	for _, statement := range []string{
		"CREATE USER dba IDENTIFIED BY 'secret'", "GRANT SUPER, SELECT ON *.* TO dba",
		"CREATE USER sha2 IDENTIFIED WITH caching_sha2_password BY 'secret'", "CREATE ROLE all_of_it", "GRANT ALL ON *.* TO all_of_it",
		"GRANT all_of_it TO sha2", "SET DEFAULT ROLE all_of_it TO sha2",
		"CREATE USER sm3 IDENTIFIED WITH tidb_sm3_password BY 'secret'", "GRANT ALL ON *.* TO sm3",
		"CREATE USER super IDENTIFIED BY 'secret'", "GRANT SUPER ON *.* TO super",
		"CREATE USER reader IDENTIFIED BY 'secret'", "GRANT SELECT ON *.* TO reader",
		"CREATE USER elsewhere@'10.9.9.9' IDENTIFIED BY 'secret'", "GRANT ALL ON *.* TO elsewhere@'10.9.9.9'",
		"CREATE USER locked IDENTIFIED BY 'secret' ACCOUNT LOCK", "GRANT ALL ON *.* TO locked",
		"CREATE USER secured IDENTIFIED BY 'secret' REQUIRE SSL", "GRANT ALL ON *.* TO secured",
		"CREATE USER socketed IDENTIFIED WITH auth_socket", "GRANT ALL ON *.* TO socketed",
		"CREATE USER expired IDENTIFIED BY 'secret' PASSWORD EXPIRE", "GRANT ALL ON *.* TO expired",
	} {
		exec(t, db, statement)
	}
	for account, want := range map[string]int{
		"dba:secret": 200, "sha2:secret": 200, "sm3:secret": 200, "root:": 200,
		"dba:": 401, "dba:Secret": 401, "sha2:": 401, "sha2:wrong": 401, "sm3:wrong": 401, "root:x": 401, "nobody:secret": 401, ":": 401,
		"elsewhere:secret": 401, "locked:secret": 401, "secured:secret": 401, "socketed:": 401, "socketed:socketed": 401, "expired:secret": 401,
		"super:secret": 403, "reader:secret": 403,
	} {
		code, body := request(t, s, http.MethodGet, "/schema/mysql/user", account)
		require.Equal(t, want, code, "%s: %s", account, body)
		require.Equal(t, want == 200, strings.Contains(body, `"cols"`), account)
	}
}

// The server reads its own settings over HTTP, as TiDB does.
func TestServerReadsItsOwnSettings(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	var n int
	require.NoError(t, connect(t, s).QueryRow("SELECT COUNT(*) FROM information_schema.cluster_config WHERE type = 'tidb' AND `key` = 'port'").Scan(&n))
	require.Equal(t, 1, n)
}

// Dumps that are not there are not found: TiDB would dereference nil.
func TestMissingDumpsAreNotFound(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	for _, path := range []string{"/plan_replayer/dump/x", "/optimize_trace/dump/x", "/plan_replayer/dump/x?forward=true"} {
		code, body := get(t, s.StatusAddr(), path)
		require.Equal(t, http.StatusNotFound, code, body)
	}
}

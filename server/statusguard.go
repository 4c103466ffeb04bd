package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/soheilhy/cmux"
	"go.uber.org/zap"

	"fastddl/api"
	"fastddl/config"
	"fastddl/console"
)

// openRoutes are the routes of the status port that need no login: they are for probes and for Prometheus, show no data and
// change nothing. Every other route needs one, those that TiDB may add as well.
var openRoutes = map[string]bool{
	"/health": true, "/status": true, "/metrics": true, "/info": true, api.Prefix + "health/live": true, api.Prefix + "health/ready": true,
}

// statusGuard stands before all routes of the status port. It answers only requests that name this server as their host, and none
// of a page of another site. Behind all but the openRoutes it answers only other servers of the cluster and accounts that may do
// everything.
type statusGuard struct {
	next http.Handler
	// api answers the paths below api.Prefix, and asks for log-ins by itself; nil has none.
	api http.Handler
	// console has the page that is a client of api; nil has none. Its files show no data.
	console http.Handler
	// hosts are the names of this server, in lower case.
	hosts map[string]bool
	// open needs no login for any route.
	open bool
	// login checks an account; it fails with errStatusRights if the account may not use the routes.
	login func(ctx context.Context, caller net.Addr, state *tls.ConnectionState, user, password string) error
	// peer reports whether a request is another server's, which has no account; nil is never. Where the cluster has TLS its
	// certificate decides.
	peer func(r *http.Request) bool
	log  *zap.Logger
}

// errStatusRights refuses accounts that have logged in.
var errStatusRights = errors.New("the account needs the privileges SUPER and SELECT on *.*")

// newStatusGuard returns the guard of a server, without what it asks and without the routes.
func newStatusGuard(cfg config.Config, log *zap.Logger) *statusGuard {
	g := &statusGuard{hosts: map[string]bool{"localhost": true}, open: cfg.Status.EnableDebug, log: log}
	names := append([]string{cfg.Status.StatusHost, cfg.Host, cfg.AdvertiseAddress}, cfg.Status.AllowedHosts...)
	if machine, err := os.Hostname(); err == nil { // without one the other names do
		names = append(names, machine)
	}
	for _, name := range names {
		g.hosts[strings.ToLower(strings.TrimSuffix(name, "."))] = true
	}
	delete(g.hosts, "")
	return g
}

// statusGuard is the guard of the server's status port.
func (s *Server) statusGuard() *statusGuard {
	g := newStatusGuard(s.opts.Config, s.log.Logger)
	g.login = s.node.statusLogin
	if s.statusAuthorities != nil {
		g.peer = certified(s.statusAuthorities)
		return g
	}
	g.peer = (&statusPeers{servers: registeredServers, dumps: s.opts.Config.Store == config.StoreTiKV, log: s.log.Logger}).asks
	return g
}

// ServeHTTP implements http.Handler.
func (g *statusGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := &statusAnswer{ResponseWriter: w}
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler {
			panic(p)
		}
		g.log.Error("panic in a request to the status port", zap.String("path", r.URL.Path), zap.Any("panic", p), zap.Stack("stack"))
		if answer.begun {
			panic(http.ErrAbortHandler) // the client is to see that the answer is not whole
		}
		http.Error(w, "internal error: see the log of the server", http.StatusInternalServerError)
	}()
	open := openRoutes[r.URL.Path] && (r.Method == http.MethodGet || r.Method == http.MethodHead)
	next, isAPI := g.next, g.api != nil && strings.HasPrefix(r.URL.Path, api.Prefix)
	if isAPI {
		next = g.api
	}
	if open { // also by names that this server does not know: those of load balancers, and Prometheus'
		next.ServeHTTP(answer, r)
		return
	}
	if g.console != nil && console.Serves(r) && g.named(r.Host) { // also by a link of another site
		g.console.ServeHTTP(answer, r)
		return
	}
	if err := g.checkCaller(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if isAPI {
		next.ServeHTTP(answer, r)
		return
	}
	if g.open || g.peer != nil && g.peer(r) || g.loggedIn(answer, r) {
		g.next.ServeHTTP(answer, r)
	}
}

// checkCaller refuses requests that a browser makes for a page of another site: by a name of that site which resolves to this
// server (DNS rebinding), or from another origin.
func (g *statusGuard) checkCaller(r *http.Request) error {
	if !g.named(r.Host) {
		return fmt.Errorf("%q is no name of this server that it knows: call it by its address, or list the name in status.allowed-hosts", r.Host)
	}
	if origins := r.Header.Values("Origin"); len(origins) > 0 && !(len(origins) == 1 && sameOrigin(origins[0], r)) {
		return errors.New("requests of pages of other sites are refused")
	}
	switch r.Header.Get("Sec-Fetch-Site") { // which browsers send with requests that have no Origin, too
	case "", "none", "same-origin":
		return nil
	}
	return errors.New("requests of pages of other sites are refused")
}

// named says that a Host header names this server. Addresses do, because no name service can point them elsewhere; and no browser
// sends none.
func (g *statusGuard) named(host string) bool {
	if host == "" {
		return true
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(name), "["), "]")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return g.hosts[strings.TrimSuffix(name, ".")]
}

// sameOrigin says that an Origin header is that of the page's own server.
func sameOrigin(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	scheme := "http"
	if tlsState(r) != nil {
		scheme = "https"
	}
	return u.Scheme == scheme && strings.EqualFold(u.Host, r.Host)
}

// loggedIn says that the account of a request may use all routes. If it may not it answers.
func (g *statusGuard) loggedIn(w http.ResponseWriter, r *http.Request) bool {
	state, caller := tlsState(r), callerOf(r)
	if state == nil && !fromHere(r) {
		http.Error(w, "a login is needed, which is taken over TLS or from this machine only; status.enable-debug = true does without",
			http.StatusForbidden)
		return false
	}
	user, password, given := r.BasicAuth()
	var err error
	if given {
		err = g.login(r.Context(), caller, state, user, password)
	}
	switch {
	case given && err == nil:
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			g.log.Info("request to the status port", zap.String("user", user), zap.Stringer("client", caller),
				zap.String("method", r.Method), zap.String("path", r.URL.Path))
		}
		return true
	case errors.Is(err, errStatusRights):
		http.Error(w, err.Error(), http.StatusForbidden)
		return false
	case err != nil:
		g.log.Warn("login to the status port is refused", zap.String("user", user), zap.Stringer("client", caller), zap.Error(err))
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="fastddl", charset="UTF-8"`)
	http.Error(w, "log in with an account of the database that has the privileges SUPER and SELECT on *.*", http.StatusUnauthorized)
	return false
}

// statusAnswer knows whether an answer has begun.
type statusAnswer struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (a *statusAnswer) WriteHeader(code int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *statusAnswer) Write(data []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (a *statusAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// connKey is the key of a request's connection in its context.
type connKey struct{}

// withConn keeps the connection of requests, for http.Server.ConnContext. What cmux has looked at hides what is below.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if looked, ok := conn.(*cmux.MuxConn); ok {
		conn = looked.Conn
	}
	return context.WithValue(ctx, connKey{}, conn)
}

// tlsState is the state of TLS of a request's connection, nil without.
func tlsState(r *http.Request) *tls.ConnectionState {
	conn, ok := r.Context().Value(connKey{}).(*tls.Conn)
	if !ok {
		return r.TLS
	}
	state := conn.ConnectionState()
	return &state
}

// callerOf is the address of a request's client.
func callerOf(r *http.Request) net.Addr {
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		return conn.RemoteAddr()
	}
	return &net.TCPAddr{}
}

// fromHere says that a request's client is on this machine.
func fromHere(r *http.Request) bool {
	conn, ok := r.Context().Value(connKey{}).(net.Conn)
	return ok && isLocal(conn)
}

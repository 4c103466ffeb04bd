package server

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tidb "github.com/pingcap/tidb/pkg/config"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/auth"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/privilege/privileges"
	tidbserver "github.com/pingcap/tidb/pkg/server"
	servererr "github.com/pingcap/tidb/pkg/server/err"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/util"
	"go.uber.org/zap"

	"fastddl/api"
	"fastddl/ddl"
)

// maxAPISessions bounds the sessions that requests to the API have open at a time. Those of MySQL clients count by themselves.
const maxAPISessions = 200

// apiSessions are the sessions by which requests to the API are executed. They implement api.Sessions. Each is a session of the node's
// driver, which the guards of MySQL clients stand before, and in the list of clients.
type apiSessions struct {
	node *Node
	// server has the MySQL clients.
	server mysqlClients

	mu     sync.Mutex
	open   map[uint64]*apiSession
	closed bool
}

// mysqlClients is TiDB's server.
type mysqlClients interface {
	util.SessionManager
	ConnectionCount() int
}

func newAPISessions(node *Node, server mysqlClients) *apiSessions {
	return &apiSessions{node: node, server: server, open: make(map[uint64]*apiSession)}
}

// apiAccount is an account that has logged in by the API.
type apiAccount struct {
	sessions   *apiSessions
	user, host string
	// matched is the account in mysql.user.
	matched auth.UserIdentity
	port    string
	tls     *tls.ConnectionState
	group   string
	// print is that of the account when it logged in.
	print [sha256.Size]byte
	// turn is held while the account is read; checked is what was read last.
	turn    chan struct{}
	checked checkedAccount
}

// LogIn implements api.Sessions.
func (h *apiSessions) LogIn(ctx context.Context, caller api.Caller, user, password string) (api.Account, error) {
	a := &apiAccount{
		sessions: h, user: user, host: caller.Host(), tls: caller.TLS, port: fmt.Sprint(caller.Addr.Port()), turn: make(chan struct{}, 1),
	}
	var before [sha256.Size]byte
	known := func() (err error) {
		before, err = h.fingerprint(ctx, user)
		return err
	}
	err := h.node.logIn(ctx, a.host, caller.TLS, user, password, known, func(se loggedInSession) error {
		if se.InSandBoxMode() {
			return servererr.ErrMustChangePassword.GenWithStackByArgs()
		}
		vars := se.GetSessionVars()
		if vars.User == nil {
			return errNoUser.GenWithStackByArgs()
		}
		a.matched = auth.UserIdentity{Username: vars.User.AuthUsername, Hostname: vars.User.AuthHostname}
		a.group = vars.ResourceGroupName
		return nil
	})
	if err != nil {
		return nil, sqlErrorOf(err)
	}
	if a.print, err = h.fingerprint(ctx, user); err != nil {
		return nil, sqlErrorOf(err)
	}
	// The account may have changed between the check of the password and the print: the log-in holds what was checked only if the account
	// was the same before. The check has read it in between.
	if before != a.print {
		return nil, api.ErrLoginEnded
	}
	return a, nil
}

// Name implements api.Account.
func (a *apiAccount) Name() string { return a.matched.Username + "@" + a.matched.Hostname }

// State implements api.Account.
func (a *apiAccount) State() string { return string(a.print[:]) }

// Current implements api.Account. Requests at the same time share one reading.
func (a *apiAccount) Current(ctx context.Context) (string, error) {
	if privileges.SkipWithGrant {
		return a.State(), nil
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	privileges := a.sessions.node.Domain().PrivilegeHandle().Get() // others after each change that this server has heard of
	if c := a.checked; c.privileges == privileges && time.Since(c.at) < checkedFor {
		return string(c.print[:]), nil
	}
	at := time.Now()
	print, err := a.sessions.fingerprint(ctx, a.user)
	if err != nil {
		return "", sqlErrorOf(err)
	}
	a.checked = checkedAccount{privileges: privileges, at: at, print: print}
	return string(print[:]), nil
}

// checkedFor is how long an account counts as what it was when it was read, unless this server hears of a change. Each request would read it
// otherwise, which takes longer than many a request.
const checkedFor = time.Second

// checkedAccount is an account as it was read.
type checkedAccount struct {
	privileges *privileges.MySQLPrivilege
	at         time.Time
	print      [sha256.Size]byte
}

// accountText is what a log-in depends on: the password, how it is checked, locks, expiry and requirements of connections. Privileges are
// not part of it: they are looked up by each statement. Neither is the number of failed log-ins, which others may raise.
//
// All accounts of the user's name, and those without a name, are part of it: a new one may be the one that its client logs in as. So are
// their roles (accountRoles): a session keeps those that it began with.
const accountText = `SELECT u.user, u.host, u.plugin, u.authentication_string, u.account_locked, u.password_expired, u.token_issuer, g.priv
	FROM mysql.user AS u LEFT JOIN mysql.global_priv AS g ON g.user = u.user AND g.host = u.host WHERE u.user IN (%?, '') ORDER BY u.user, u.host`

const accountRoles = `SELECT 'granted', to_user, to_host, from_user, from_host FROM mysql.role_edges WHERE to_user IN (%?, '')
	UNION ALL SELECT 'default', user, host, default_role_user, default_role_host FROM mysql.default_roles WHERE user IN (%?, '') ORDER BY 1, 2, 3, 4, 5`

// fingerprint identifies what a log-in as a user depends on. It differs from that of any account if there is none.
func (h *apiSessions) fingerprint(ctx context.Context, user string) (print [sha256.Size]byte, err error) {
	err = h.node.layer.DDL().WithSystemSession(func(sctx sessionctx.Context) error {
		ctx := tidbkv.WithInternalSourceType(ctx, tidbkv.InternalTxnPrivilege)
		var text strings.Builder
		for _, query := range []struct {
			text string
			args []any
		}{{accountText, []any{user}}, {accountRoles, []any{user, user}}} {
			rows, fields, err := sctx.GetRestrictedSQLExecutor().ExecRestrictedSQL(ctx, nil, query.text, query.args...)
			if err != nil {
				return err
			}
			for _, row := range rows {
				for i, f := range fields {
					d := row.GetDatum(i, &f.Column.FieldType)
					fmt.Fprintf(&text, "%d %q\n", d.Kind(), d.GetValue())
				}
			}
			text.WriteString("\n")
		}
		print = sha256.Sum256([]byte(text.String()))
		return nil
	})
	if err != nil {
		return print, fmt.Errorf("read the accounts of %s: %w", user, err)
	}
	return print, nil
}

// Open implements api.Account.
func (a *apiAccount) Open(ctx context.Context) (api.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	s, err := a.sessions.enter()
	if err != nil {
		return nil, err
	}
	if err := a.begin(ctx, s); err != nil {
		s.Close()
		return nil, sqlErrorOf(err)
	}
	return s, nil
}

// begin makes a session that of the account, as openSessionAndDoAuth in pkg/server/conn.go does. SetPort, which TiDB calls there, would make
// the HTTP client one of those whose sockets are watched.
func (a *apiAccount) begin(ctx context.Context, s *apiSession) (err error) {
	c, err := a.sessions.node.driver.OpenCtx(s.id, 0, uint8(mysql.DefaultCollationID), "", a.tls, nil)
	if err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if !c.AuthWithoutVerification(&auth.UserIdentity{Username: a.user, Hostname: a.host}) {
		return api.ErrLoginEnded
	}
	vars := c.GetSessionVars()
	if !privileges.SkipWithGrant && (vars.User == nil || vars.User.AuthUsername != a.matched.Username || vars.User.AuthHostname != a.matched.Hostname) {
		return api.ErrLoginEnded // there is an account now that fits better
	}
	if a.group != "" {
		vars.SetResourceGroupName(a.group)
	}
	vars.Port = a.port
	vars.ConnectionInfo = &variable.ConnectionInfo{
		ConnectionID: s.id, ConnectionType: variable.ConnTypeSocket, Host: a.host, ClientPort: a.port, User: a.user,
		Attributes: map[string]string{"program_name": apiProgram},
	}
	// TiDB gives a session the global variables with the first text that it parses: sql_mode is to be there before the first statement is written.
	if _, err := c.Parse(ctx, "DO 0"); err != nil {
		return fmt.Errorf("load the global variables: %w", err)
	}
	c.SetSessionManager(a.sessions.server)
	c.SetProcessInfo("", time.Now(), mysql.ComSleep, 0)
	s.ctx.Store(c) // from now on other clients see it
	return nil
}

// enter makes room for a session, and gives it the number of a connection.
func (h *apiSessions) enter() (*apiSession, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, api.ErrStopping
	}
	most := int(tidb.GetGlobalConfig().Instance.MaxConnections)
	if len(h.open) >= maxAPISessions || most > 0 && h.server.ConnectionCount()+len(h.open) >= most {
		return nil, sqlErrorOf(servererr.ErrConCount.GenWithStackByArgs())
	}
	s := &apiSession{sessions: h, id: h.node.Domain().NextConnID(), turn: make(chan struct{}, 1)}
	h.open[s.id] = s
	return s, nil
}

// leave forgets a session that is closed.
func (h *apiSessions) leave(s *apiSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, s.id)
}

// find returns a session by the number of its connection.
func (h *apiSessions) find(id uint64) (*apiSession, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.open[id]
	return s, ok
}

// each calls fn for each session that a user has logged in by.
func (h *apiSessions) each(fn func(id uint64, c *tidbserver.TiDBContext)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, s := range h.open {
		if c := s.ctx.Load(); c != nil {
			fn(id, c)
		}
	}
}

// count is how many sessions are open.
func (h *apiSessions) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}

// end lets no session open any more, and ends the statements of those that are open.
func (h *apiSessions) end() {
	h.mu.Lock()
	h.closed = true
	sessions := make([]*apiSession, 0, len(h.open))
	for _, s := range h.open {
		sessions = append(sessions, s)
	}
	h.mu.Unlock()
	for _, s := range sessions {
		s.Leave()
	}
}

// apiSession is a session of an account that has logged in by the API.
type apiSession struct {
	sessions *apiSessions
	id       uint64
	// ctx is the session once it is there.
	ctx atomic.Pointer[tidbserver.TiDBContext]
	// turn is held by the statement that runs.
	turn   chan struct{}
	killed atomic.Bool

	mu     sync.Mutex
	cancel context.CancelCauseFunc // of the statement that runs; nil if none does
}

var errKilled = errors.New("the connection was killed")

// ID implements api.Session.
func (s *apiSession) ID() uint64 { return s.id }

// Ended implements api.Session.
func (s *apiSession) Ended() bool { return s.killed.Load() }

// Job implements api.Session.
func (s *apiSession) Job() (api.SubmittedJob, bool) {
	c := s.ctx.Load()
	if c == nil {
		return api.SubmittedJob{}, false
	}
	job, ok := ddl.JobOf(c.Session)
	return api.SubmittedJob(job), ok
}

// Leave implements api.Session.
func (s *apiSession) Leave() {
	if c := s.ctx.Load(); c != nil {
		// Else the end of its statement would cancel the job that this waits for.
		atomic.StoreInt32(&c.GetSessionVars().ConnectionStatus, variable.ConnStatusShutdown)
	}
	s.kill(false)
}

// Close implements api.Session.
func (s *apiSession) Close() {
	s.killed.Store(true)
	if c := s.ctx.Swap(nil); c != nil {
		if err := c.Close(); err != nil {
			s.sessions.node.opts.Log.Warn("close a session of the API", zap.Error(err))
		}
	}
	s.sessions.leave(s)
	s.sessions.node.Domain().ReleaseConnID(s.id)
}

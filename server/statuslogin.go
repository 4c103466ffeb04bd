package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/pingcap/tidb/pkg/extension"
	"github.com/pingcap/tidb/pkg/parser/auth"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/privilege"
	"github.com/pingcap/tidb/pkg/privilege/privileges"
	"github.com/pingcap/tidb/pkg/session"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
)

// errStatusPlugin refuses accounts of which a name and a password are not what they log in with.
var errStatusPlugin = errors.New("the account does not log in with a password")

// statusLogins bounds how many are checked at a time.
var statusLogins = make(chan struct{}, 4)

// statusLogin checks the account of a request to the status port, and that it may use all routes.
func (n *Node) statusLogin(ctx context.Context, caller net.Addr, state *tls.ConnectionState, user, password string) error {
	host, _, err := net.SplitHostPort(caller.String())
	if err != nil {
		return fmt.Errorf("address of the client: %w", err)
	}
	return n.logIn(ctx, host, state, user, password, nil, mayUseAllRoutes)
}

// mayUseAllRoutes returns errStatusRights unless an account may do everything.
func mayUseAllRoutes(se loggedInSession) error {
	vars, manager := se.GetSessionVars(), privilege.GetPrivilegeManager(se)
	if se.InSandBoxMode() || vars.User == nil || manager == nil {
		return errStatusRights
	}
	for _, right := range []mysql.PrivilegeType{mysql.SuperPriv, mysql.SelectPriv} {
		if !manager.RequestVerification(vars.ActiveRoles, "", "", "", right) {
			return errStatusRights
		}
	}
	return nil
}

// loggedInSession is a session whose account was checked.
type loggedInSession = sessiontypes.Session

// logIn checks an account as a client's would be: the password, the machine that it comes from, the TLS that the account requires, locks
// and expiry. It calls known, unless that is nil, before it reads the account, and use with the session behind the check. The session is
// closed then.
func (n *Node) logIn(
	ctx context.Context, host string, state *tls.ConnectionState, user, password string,
	known func() error, use func(loggedInSession) error,
) error {
	select { // each makes a session and hashes a password
	case statusLogins <- struct{}{}:
		defer func() { <-statusLogins }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	se, err := session.CreateSession(n.store.storage)
	if err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	defer se.Close()
	se.SetTLSState(state)
	if known != nil {
		if err := known(); err != nil {
			return err
		}
		if err := readPrivileges(se); err != nil {
			return err
		}
	}
	identity, err := se.MatchIdentity(user, host)
	if err != nil {
		return fmt.Errorf("there is no account for %s@%s: %w", user, host, denied(user, host, password))
	}
	plugin, err := se.AuthPluginForUser(identity)
	if err != nil {
		return fmt.Errorf("how %s@%s logs in: %w", identity.Username, identity.Hostname, err)
	}
	salt := make([]byte, 20)
	if _, err := rand.Read(salt); err != nil {
		return fmt.Errorf("make a salt: %w", err)
	}
	proof, err := statusProof(plugin, password, salt)
	if err != nil {
		return err
	}
	if err := se.Auth(&auth.UserIdentity{Username: user, Hostname: host, AuthPlugin: plugin}, proof, salt, nil); err != nil {
		return err
	}
	return use(se)
}

// readPrivileges has a session check accounts by the tables as they are now. The server's copy of them follows a change, and until then would
// take the password of before.
func readPrivileges(se loggedInSession) error {
	extensions, err := extension.GetExtensions()
	if err != nil {
		return fmt.Errorf("extensions of the server: %w", err)
	}
	handle := privileges.NewHandle(se.GetRestrictedSQLExecutor())
	if err := handle.Update(); err != nil {
		return fmt.Errorf("read the privileges: %w", err)
	}
	privilege.BindPrivilegeManager(se, privileges.NewUserPrivileges(handle, extensions))
	return nil
}

// denied is the error of a client that no account is for, as that of a wrong password.
func denied(user, host, password string) error {
	given := "YES"
	if password == "" {
		given = "NO"
	}
	return privileges.ErrAccessDenied.FastGenByArgs(user, host, given)
}

// statusProof is what TiDB's session takes for a password, by the account's plugin (pkg/privilege/privileges, ConnectionVerification).
// Plugins that want something else are refused, with an empty password too: auth_socket takes none for right.
func statusProof(plugin, password string, salt []byte) ([]byte, error) {
	switch plugin {
	case "", mysql.AuthNativePassword:
		return scramble(password, salt), nil
	case mysql.AuthCachingSha2Password, mysql.AuthTiDBSM3Password:
		return []byte(password), nil
	}
	return nil, fmt.Errorf("%w: %s", errStatusPlugin, plugin)
}

// scramble is the answer of mysql_native_password to a salt, empty for an empty password.
func scramble(password string, salt []byte) []byte {
	if password == "" {
		return nil
	}
	stage := auth.Sha1Hash([]byte(password))
	mask := auth.Sha1Hash(append(bytes.Clone(salt), auth.Sha1Hash(stage)...))
	for i := range stage {
		stage[i] ^= mask[i]
	}
	return stage
}

package server

import (
	"context"
	"fmt"
	"net"

	"github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/sessionctx"
)

// openAccounts are the accounts without a password that may log in from other machines. Those that another means of authentication
// checks have no password here either.
const openAccounts = `SELECT user, host FROM mysql.user WHERE authentication_string = '' AND account_locked = 'N' AND user <> ''
	AND plugin IN ('', 'mysql_native_password', 'caching_sha2_password', 'tidb_sm3_password')
	AND host NOT IN ('localhost', '127.0.0.1', '::1') ORDER BY user, host`

// OpenAccounts returns the accounts, as user@host, that may log in from another machine without a password. There are
// none where the server listens on a loopback address.
func (s *Server) OpenAccounts(ctx context.Context) (accounts []string, err error) {
	if tcp, ok := s.addr.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return nil, nil
	}
	err = s.node.layer.DDL().WithSystemSession(func(sctx sessionctx.Context) error {
		rows, _, err := sctx.GetRestrictedSQLExecutor().ExecRestrictedSQL(kv.WithInternalSourceType(ctx, kv.InternalTxnPrivilege), nil, openAccounts)
		for _, row := range rows {
			accounts = append(accounts, fmt.Sprintf("'%s'@'%s'", row.GetString(0), row.GetString(1)))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for accounts without a password: %w", err)
	}
	return accounts, nil
}

package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A server that other machines reach names the accounts that have no password.
func TestOpenAccounts(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Host = "0.0.0.0"
	s := start(t, cfg)
	db := connect(t, s)
	exec(t, db, "CREATE USER safe IDENTIFIED BY 'x'", "CREATE USER here@localhost", "CREATE USER locked ACCOUNT LOCK", "CREATE ROLE some_role", "CREATE USER app@'10.%'")
	found, err := s.OpenAccounts(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"'app'@'10.%'", "'root'@'%'"}, found)
	exec(t, db, "ALTER USER app@'10.%' IDENTIFIED BY 'x'", "ALTER USER root IDENTIFIED BY 'x'")
	found, err = s.OpenAccounts(t.Context())
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestNoOpenAccountsOnLoopback(t *testing.T) {
	found, err := start(t, testConfig(t.TempDir())).OpenAccounts(t.Context())
	require.NoError(t, err)
	require.Empty(t, found)
}

package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A statement of a session in this process ends with the error of what it was ended for.
func TestLocalSessionsAreKilled(t *testing.T) {
	e := newEnv(t)
	manager := e.Domain().InfoSyncer().GetSessionManager()
	for _, test := range []struct {
		code             int
		overdue, runaway bool
	}{{1317, false, false}, {3024, true, false}, {8253, false, true}} {
		c := e.client()
		c.run("SET cte_max_recursion_depth = 4294967295")
		id := c.GetSessionVars().ConnectionID
		result := make(chan error, 1)
		go func() {
			_, err := c.try("WITH RECURSIVE n AS (SELECT 1 a UNION ALL SELECT a + 1 FROM n WHERE a < 1000000000) SELECT COUNT(*) FROM n")
			result <- err
		}()
		manager.Kill(id+1000, false, false, false) // no session has it
		var err error
		require.Eventually(t, func() bool {
			// One that comes before the statement has begun is forgotten then.
			manager.Kill(id, false, test.overdue, test.runaway)
			select {
			case err = <-result:
				return true
			default:
				return false
			}
		}, hangTimeout, time.Millisecond)
		require.Equal(t, test.code, errorCode(err), "%v", err)
	}
}

// The oldest transaction of internal sessions holds garbage collection back as those of
// clients do.
func TestInternalTransactionsAreListed(t *testing.T) {
	e := newEnv(t)
	manager := e.Domain().InfoSyncer().GetSessionManager()
	internal := e.client()
	manager.StoreInternalSession(internal.Session)
	require.True(t, manager.ContainsInternalSession(internal.Session))
	internal.run("BEGIN; SELECT * FROM mysql.user")
	txn, err := internal.Txn(false)
	require.NoError(t, err)
	require.NotZero(t, txn.StartTS())
	require.Contains(t, manager.GetInternalSessionStartTSList(), txn.StartTS())
	manager.DeleteInternalSession(internal.Session)
	require.NotContains(t, manager.GetInternalSessionStartTSList(), txn.StartTS())
}

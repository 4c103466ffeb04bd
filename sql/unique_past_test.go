package sql_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/tikvrpc/interceptor"

	"fastddl/internal/randtest"
)

// commitTwice commits with prewrites that reach the store twice, as they do when the
// answer to the first was lost.
func (c *client) commitTwice() error {
	again := interceptor.NewRPCInterceptor("again", func(next interceptor.RPCInterceptorFunc) interceptor.RPCInterceptorFunc {
		return func(target string, req *tikvrpc.Request) (*tikvrpc.Response, error) {
			resp, err := next(target, req)
			if req.Type != tikvrpc.CmdPrewrite || err != nil {
				return resp, err
			}
			repeated := *req
			repeated.IsRetryRequest = true
			return next(target, &repeated)
		}
	})
	_, err := c.Execute(interceptor.WithRPCInterceptor(context.Background(), again), "COMMIT")
	return err
}

// Transactions that have used the table since before S are waited for only a while.
// Those that lock commit over the import, also where a prewrite is sent again: what was
// imported at S is no conflict. Optimistic ones may be refused. Either way the indexes
// are right.
func TestUniqueTransactionsFromBeforeS(t *testing.T) {
	randtest.SkipShort(t)
	if testing.Short() {
		t.Skip("waits for the end of the wait for transactions from before S")
	}
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT)")
	c.run("INSERT INTO t VALUES (1,1,1),(2,2,2),(3,3,3),(4,4,4),(5,5,5),(6,6,6),(7,7,7),(8,8,8)")
	type open struct {
		*client
		dml   string
		codes []int
	}
	fine, refused := []int{0}, []int{9007, 8147, 8141}
	var opened []open
	for _, o := range []struct {
		begin, set, dml string
		codes           []int
	}{
		{"BEGIN PESSIMISTIC", "tidb_enable_1pc = ON", "UPDATE t SET b = 11, c = 11 WHERE a = 1", fine},
		{"BEGIN PESSIMISTIC", "tidb_enable_1pc = OFF", "UPDATE t SET a = 12 WHERE a = 2", fine},
		{"BEGIN PESSIMISTIC", "tidb_enable_async_commit = OFF", "DELETE FROM t WHERE a = 3", fine},
		{"BEGIN PESSIMISTIC", "tidb_txn_assertion_level = STRICT", "UPDATE t SET c = 14 WHERE a = 4", fine},
		{"BEGIN OPTIMISTIC", "tidb_enable_1pc = ON", "UPDATE t SET b = 15 WHERE a = 5", refused},
		{"BEGIN OPTIMISTIC", "tidb_enable_1pc = ON", "UPDATE t SET c = 16 WHERE a = 6", refused},
		{"BEGIN OPTIMISTIC", "tidb_enable_1pc = ON", "INSERT INTO t VALUES (20, 20, 20)", fine},
	} {
		w := e.client()
		w.run("SET " + o.set)
		w.run("%s", o.begin)
		opened = append(opened, open{w, o.dml, o.codes})
	}
	var failures []string
	e.before("take-snapshot", "", func() {
		for _, o := range opened {
			if _, err := o.try("%s", o.dml); err != nil {
				failures = append(failures, o.dml+": "+err.Error())
			}
		}
	})
	result := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b), ADD INDEX i (c)")
	require.Eventually(t, func() bool {
		jobs := e.DDL().Unfinished()
		return len(result) > 0 || len(jobs) == 1 && jobs[0].Step == "drained" && strings.Contains(jobs[0].WaitReason, "held by")
	}, hangTimeout, 10*time.Millisecond)
	require.Empty(t, result)
	require.Empty(t, failures)
	for _, o := range opened {
		code := 0
		if err := o.commitTwice(); err != nil {
			code = errorCode(err)
		}
		require.Contains(t, o.codes, code, o.dml)
	}
	require.NoError(t, wait(t, result))
	c.check("t")
	require.Equal(t, c.run("SELECT * FROM t IGNORE INDEX (u, i) ORDER BY a"), c.run("SELECT * FROM t FORCE INDEX (u) ORDER BY a"))
	require.Equal(t, "8", c.one("SELECT COUNT(*) FROM t FORCE INDEX (i) WHERE c > 0"))
}

// A prewrite that is sent again after the import, of a transaction that has begun
// after S: no move that is legal fails for that.
func TestUniqueRetriedPrewrites(t *testing.T) {
	for _, m := range []mode{pessimistic, optimistic, twoPhases, readCommitted, strictAssertions} {
		t.Run(m.name, func(t *testing.T) {
			e := newEnv(t)
			c := e.client()
			c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT)")
			c.run("INSERT INTO t VALUES (1,1,1),(2,2,2),(3,3,3),(4,4,4),(5,5,5),(6,6,6)")
			var opened []*client
			moves := []string{
				"UPDATE t SET b = 21, c = 21 WHERE a = 1", "UPDATE t SET a = 22 WHERE a = 2", "DELETE FROM t WHERE a = 3",
				"DELETE FROM t WHERE a = 4; INSERT INTO t VALUES (24, 4, 4)", "INSERT INTO t VALUES (30, 30, 30); UPDATE t SET a = 31 WHERE a = 30",
			}
			var failures []string
			for range moves {
				w := e.client()
				for _, set := range m.set {
					w.run("SET " + set)
				}
				opened = append(opened, w)
			}
			e.before("backfill", "", func() {
				for i, w := range opened {
					if _, err := w.try(m.begin + "; " + moves[i]); err != nil {
						failures = append(failures, err.Error())
					}
				}
			})
			result := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b), ADD INDEX i (c)")
			require.Eventually(t, func() bool {
				jobs := e.DDL().Unfinished()
				return len(result) > 0 || len(jobs) == 1 && jobs[0].Step == "drained" && strings.Contains(jobs[0].WaitReason, "held by")
			}, hangTimeout, 10*time.Millisecond)
			require.Empty(t, failures)
			for i, w := range opened {
				require.NoError(t, w.commitTwice(), moves[i])
			}
			require.NoError(t, wait(t, result))
			c.check("t")
			require.Equal(t, []string{"1 21 21", "5 5 5", "6 6 6", "22 2 2", "24 4 4", "31 30 30"}, c.run("SELECT * FROM t FORCE INDEX (u) ORDER BY a"))
		})
	}
}

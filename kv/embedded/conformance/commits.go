package conformance

import (
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikvrpc"
)

const cmdPrewrite = tikvrpc.CmdPrewrite

var onePCCases = []testCase{
	{"1pc/commits", testOnePC},
	{"1pc/pessimistic", testOnePCPessimistic},
	{"1pc/conflict", testOnePCConflict},
	{"1pc/max_commit_ts", testOnePCMaxCommitTS},
	{"1pc/repeated", testOnePCRepeated},
	{"1pc/releases_other_pessimistic_locks", testOnePCReleases},
}

var commitCases = []testCase{
	{"commit/secondaries_later", testCommitSecondariesLater},
	{"commit/repeated", testCommitRepeated},
	{"commit/without_a_lock", testCommitWithoutLock},
	{"commit/pessimistic_lock", testCommitPessimisticLock},
	{"commit/after_rollback", testCommitAfterRollback},
	{"commit/min_commit_ts", testCommitMinCommitTS},
	{"commit/ts_must_follow_start", testCommitTSFollowsStart},
}

func onePC(req *kvrpcpb.PrewriteRequest) { req.TryOnePc = true }

func testOnePC(t *testing.T, c *cluster) {
	start := c.ts()
	resp := c.prewrite(start, onePC, put("a", "1"), put("b", "2"), lockOnly("l"), del("d"))
	require.Empty(t, resp.Errors)
	require.Greater(t, resp.OnePcCommitTs, start)
	require.Empty(t, c.locks(c.ts()))
	require.Empty(t, c.read("a", resp.OnePcCommitTs-1))
	require.Equal(t, "1", c.read("a", resp.OnePcCommitTs))
	require.Equal(t, "2", c.read("b", resp.OnePcCommitTs))
}

func testOnePCPessimistic(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustLock(start, start, "k")
	change := pessimistic(start)
	resp := c.prewrite(start, func(r *kvrpcpb.PrewriteRequest) { change(r); onePC(r) }, put("k", "1"))
	require.Empty(t, resp.Errors)
	require.NotZero(t, resp.OnePcCommitTs)
	require.Empty(t, c.locks(c.ts()))
	require.Equal(t, "1", c.read("k", c.ts()))
}

func testOnePCConflict(t *testing.T, c *cluster) {
	start := c.ts()
	c.write(put("b", "1"))
	resp := c.prewrite(start, onePC, put("a", "2"), put("b", "2"))
	require.NotNil(t, refused(t, resp).GetConflict())
	require.Zero(t, resp.OnePcCommitTs)
	require.Empty(t, c.locks(c.ts()))
	require.Empty(t, c.read("a", c.ts()))
}

func testOnePCMaxCommitTS(t *testing.T, c *cluster) {
	start := c.ts()
	limit := c.ts()
	resp := c.prewrite(start, func(r *kvrpcpb.PrewriteRequest) { onePC(r); r.MaxCommitTs = limit }, put("k", "1"))
	require.Empty(t, resp.Errors)
	require.Zero(t, resp.OnePcCommitTs, "too late for one phase")
	require.Len(t, c.locks(c.ts()), 1)
	c.mustCommit(start, c.ts(), "k")
	require.Equal(t, "1", c.read("k", c.ts()))
}

func testOnePCRepeated(t *testing.T, c *cluster) {
	start := c.ts()
	first := c.prewrite(start, onePC, put("k", "1"))
	second := c.prewrite(start, onePC, put("k", "1"))
	require.Empty(t, second.Errors)
	require.Equal(t, first.OnePcCommitTs, second.OnePcCommitTs)
}

func testOnePCReleases(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustLock(start, start, "a", "left")
	change := pessimistic(start)
	resp := c.prewrite(start, func(r *kvrpcpb.PrewriteRequest) { change(r); onePC(r) }, put("a", "1"))
	require.NotZero(t, resp.OnePcCommitTs)
	c.pessimisticRollback(start, start, "left")
	require.Empty(t, c.locks(c.ts()))
}

func testCommitSecondariesLater(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("p", "1"), put("s", "2"))
	commitTS := c.ts()
	c.mustCommit(start, commitTS, "p")
	require.Equal(t, "1", c.read("p", commitTS))
	c.mustCommit(start, commitTS, "s")
	require.Equal(t, "2", c.read("s", commitTS))
	require.Empty(t, c.read("s", commitTS-1))
}

func testCommitRepeated(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("k", "1"))
	commitTS := c.ts()
	c.mustCommit(start, commitTS, "k")
	c.mustCommit(start, commitTS, "k")
	c.write(put("k", "2"))
	c.mustCommit(start, commitTS, "k")
	require.Equal(t, "2", c.read("k", c.ts()))
}

func testCommitWithoutLock(t *testing.T, c *cluster) {
	start := c.ts()
	require.NotEmpty(t, c.commit(start, c.ts(), "k").Error.GetRetryable())
}

func testCommitPessimisticLock(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustLock(start, start, "k")
	require.NotNil(t, c.commit(start, c.ts(), "k").Error)
	require.Empty(t, c.read("k", c.ts()))
}

func testCommitAfterRollback(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("k", "1"))
	require.Nil(t, c.rollback(start, "k").Error)
	require.NotNil(t, c.commit(start, c.ts(), "k").Error)
	require.Empty(t, c.read("k", c.ts()))
}

func testCommitMinCommitTS(t *testing.T, c *cluster) {
	start := c.ts()
	early := c.ts()
	lowest := c.ts()
	resp := c.prewrite(start, func(r *kvrpcpb.PrewriteRequest) { r.MinCommitTs = lowest }, put("k", "1"))
	require.Empty(t, resp.Errors)
	expired := c.commit(start, early, "k").Error.GetCommitTsExpired()
	require.NotNil(t, expired)
	require.Equal(t, lowest, expired.MinCommitTs)
	require.Equal(t, "k", string(expired.Key))
	c.mustCommit(start, c.ts(), "k")
}

func testCommitTSFollowsStart(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("k", "1"))
	require.NotNil(t, c.commit(start, start, "k").Error)
}

package status

import (
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/util"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
	"fastddl/event"
)

// killer is a session manager of sessions that do not go at once.
type killer struct {
	util.SessionManager
	killed []uint64
}

func (k *killer) Kill(id uint64, _, _, _ bool) { k.killed = append(k.killed, id) }

// A blocker that is still there when it is looked at again is killed again, and
// reported once. One of another server is not this one's to kill.
func TestBlockerIsEndedOnce(t *testing.T) {
	bus, reported := new(event.Bus), []uint64(nil)
	bus.Subscribe(func(e event.Event) { reported = append(reported, e.(event.IdleBlockerEnded).ConnID) })
	w, sm, ended := &Waits{Bus: bus}, new(killer), make(map[uint64]bool)
	judged := func(ids ...uint64) (out []Blocker) {
		for _, id := range ids {
			out = append(out, Blocker{Verdict: job.Verdict{Blocker: job.Blocker{ConnID: id}, End: id != 3}, Elsewhere: id == 4})
		}
		return out
	}
	for _, ids := range [][]uint64{{1, 3}, {1, 2, 3, 4}, {2, 3}} {
		w.endBlockers(sm, &job.Record{ID: 7}, judged(ids...), ended)
	}
	require.Equal(t, []uint64{1, 1, 2, 2}, sm.killed)
	require.Equal(t, []uint64{1, 2}, reported)
}

// TestShownStatements: what is shown and logged of a statement has no literals, regardless of
// where it is cut, and is short.
func TestShownStatements(t *testing.T) {
	require.Equal(t, "update `t` set `b` = ? where `a` = ?", withoutLiterals("UPDATE t SET b = 'secret' WHERE a = 7"))
	require.Equal(t, "select `a` from `t`", withoutLiterals("SELECT a FROM t"))
	long := "INSERT INTO t VALUES (1, 'secret')" + strings.Repeat(", (2, 'secret')", 1<<20)
	for cut := range 20 {
		shown := withoutLiterals(strings.Repeat(" ", cut) + long)
		require.NotContains(t, shown, "secret")
		require.LessOrEqual(t, len(shown), maxShown)
		require.Contains(t, shown, "insert into `t`")
	}
	one := "UPDATE t SET b = '" + strings.Repeat("secret", 1<<20) + "'"
	require.NotContains(t, withoutLiterals(one), "secret")
}

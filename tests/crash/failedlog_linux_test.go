package crash

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
)

// A server whose log cannot be synced ends, rather than to stay as one that cannot do
// anything, and has what it has acknowledged at the next start.
func TestFailedLogEndsTheServer(t *testing.T) {
	l := newFaultBed(t)
	dir := t.TempDir()
	p := l.start(t, dir)
	db := p.Open("test")
	_, err := db.Exec("CREATE TABLE t (a INT PRIMARY KEY)")
	require.NoError(t, err)
	acknowledged := 0
	for i := 0; !p.Exited(); i++ {
		if i == 10 {
			p.calls.fail(failingWrites, 1)
			time.AfterFunc(servertest.StartTimeout, p.Kill)
		}
		if _, err := db.Exec(fmt.Sprintf("INSERT INTO t VALUES (%d)", i)); err == nil {
			acknowledged++
		}
	}
	require.Equal(t, 1, p.Wait(), "it ends by itself")
	require.GreaterOrEqual(t, acknowledged, 10)
	p = l.start(t, dir)
	var n int
	require.NoError(t, p.Open("test").QueryRow("SELECT COUNT(*) FROM t").Scan(&n))
	require.GreaterOrEqual(t, n, acknowledged)
}

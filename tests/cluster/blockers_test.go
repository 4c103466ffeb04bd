package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBlockersOfOtherServers: an idle transaction that a build waits for is shown and, by
// policy, ended, whichever server it is of; one that began later is left alone.
func TestBlockersOfOtherServers(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	first, second := startNode(t, c), startNode(t, c)
	plain := startTiDB(t, c, "test")
	a := first.open()
	fill(a, "t", 1000)
	for i, db := range []client{second.open(), plain.client} {
		a.exec("SET GLOBAL fastddl_mdl_idle_blocker_timeout = '0s'")
		holder := db.session()
		must(t, holder, "BEGIN", "UPDATE t SET v = v + 1 WHERE id = 1")
		var id string
		require.NoError(t, holder.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
		done := a.later(fmt.Sprintf("ALTER TABLE t ADD INDEX v%d (v)", i))
		shown := "SELECT COUNT(*) FROM mysql.fastddl_ddl_blockers WHERE idle_seconds > 0 AND written_keys > 0 AND conn_id = " + id
		eventually(t, "it is shown", func() bool { return a.value(shown) == "1" && strings.Contains(a.lastJob("wait_reason"), id) })
		late := db.session()
		must(t, late, "BEGIN", "SELECT * FROM t WHERE id = 2")
		a.exec("SET GLOBAL fastddl_mdl_idle_blocker_timeout = '1s'")
		eventually(t, "it is ended", func() bool {
			return db.value("SELECT COUNT(*) FROM information_schema.processlist WHERE id = ?", id) == "0"
		})
		_, err := holder.ExecContext(context.Background(), "COMMIT")
		require.Error(t, err)
		// It is idle for longer than the next wait of the job, so it may be ended, too.
		_, _ = late.ExecContext(context.Background(), "COMMIT")
		require.NoError(t, await(t, done))
		a.exec("ADMIN CHECK TABLE t")
		require.Equal(t, "7", a.value("SELECT v FROM t WHERE id = 1"), "it was rolled back")
	}
	a.nothingIsLeft()
}

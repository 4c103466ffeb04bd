package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/config"
)

// TestWriteSpeedOfStores: what a store is sent is bounded, and not only what is written
// to the files that it is sent.
func TestWriteSpeedOfStores(t *testing.T) {
	t.Parallel()
	const rows, speed = 16_000, 100_000
	db := startNode(t, startCluster(t, nil)).open()
	fill(db, "t", rows)
	db.exec("SET GLOBAL " + config.ReorgMaxWriteSpeed + " = 100000")
	began := time.Now()
	db.exec("ALTER TABLE t ADD INDEX v (v)")
	took := time.Since(began).Seconds()
	const written = rows * 28.0 / speed // seconds for the files alone: a key has 19 + 9 bytes or more
	t.Logf("%.1f s, of which %.1f s or more were for the files", took, written)
	require.Greater(t, took, written*1.6)
	db.exec("ADMIN CHECK TABLE t")
}

package embedded

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/tidb/pkg/session"
	"github.com/stretchr/testify/require"

	"fastddl/kv/pebblekv"
)

// TestGarbageCollectionIsDelayed: TiDB's garbage collection executes statements only after it is released, regardless of when
// TiDB starts it.
func TestGarbageCollectionIsDelayed(t *testing.T) {
	s, err := Open("db", Options{Pebble: pebblekv.Options{FS: vfs.NewMem()}})
	require.NoError(t, err)
	release := s.Storage().(*storage).DelayGCWorker()
	d, err := session.BootstrapSession(s.Storage())
	require.NoError(t, err)
	sql := &sqlStore{Store: s, t: t, domain: d}
	defer sql.close()
	se := sql.session()
	defer se.Close()
	leaders := func() string {
		rows, err := query(se, "SELECT COUNT(*) FROM mysql.tidb WHERE variable_name = 'tikv_gc_leader_uuid'")
		require.NoError(t, err)
		return rows[0][0]
	}
	require.Equal(t, "0", leaders())
	release()
	require.Equal(t, "1", leaders())
	release() // may be called twice
}

// TestClosedBeforeGarbageCollection: a store that is closed first starts none.
func TestClosedBeforeGarbageCollection(t *testing.T) {
	s, err := Open("db", Options{Pebble: pebblekv.Options{FS: vfs.NewMem()}})
	require.NoError(t, err)
	release := s.Storage().(*storage).DelayGCWorker()
	d, err := session.BootstrapSession(s.Storage())
	require.NoError(t, err)
	(&sqlStore{Store: s, t: t, domain: d}).close()
	release()
	require.False(t, s.Storage().(*storage).gcRuns)
}

// TestGarbageCollectionEndsBeforeTheDomain: a step of the GC worker that opens a session after TiDB's domain is closed ends
// there. Otherwise it would open a domain, with TiDB's list of domains locked, and retry that without end on a closed store.
func TestGarbageCollectionEndsBeforeTheDomain(t *testing.T) {
	s, err := Open("db", Options{Pebble: pebblekv.Options{FS: vfs.NewMem()}})
	require.NoError(t, err)
	d, err := session.BootstrapSession(s.Storage())
	require.NoError(t, err)
	closing := s.Storage().(*storage)
	closing.StopGCWorker()
	d.Close()
	made := make(chan bool, 1)
	go func() {
		opened := false
		defer func() { made <- opened }()
		se, err := session.CreateSession(&gcStorage{closing})
		opened = true
		if err == nil {
			se.Close()
		}
	}()
	require.False(t, <-made, "it has opened a domain")
	require.NoError(t, s.Close())
}

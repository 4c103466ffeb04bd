package tikv

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
	"fastddl/kv/kvtest"
)

func TestConformance(t *testing.T) {
	kvtest.Run(t, kvtest.Harness{
		Open: func(t *testing.T) kv.Store { return openNew(t) },
		Reopen: func(t *testing.T, s kv.Store) kv.Store {
			old := s.(*testStore)
			require.NoError(t, old.Close())
			return open(t, old.fs, Options{})
		},
		Commit: kvtest.TiDBCommit(storageOf),
		Start:  kvtest.TiDBStart(storageOf),
		Lacks: map[kvtest.Capability]string{
			kvtest.EntryVersions: "TiKV's scans return pairs without their timestamps; kv.VersionedSnapshot returns that of a key",
			kvtest.FixedCommits:  "a reader that meets a lock moves the transaction's commit above its own timestamp, and goes on",
			kvtest.OwnsData:      "the storage belongs to TiDB's SQL layer, which goes on when builds have ended",
		},
	})
}

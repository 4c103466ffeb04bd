package embedded

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
)

// TestNoCommitAtOrBeforeACheckpoint: a transaction that was prewritten, and whose commit timestamp was taken before that of the
// checkpoint, cannot commit at it afterwards. The checkpoint would lack it.
func TestNoCommitAtOrBeforeACheckpoint(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	start, err := s.Builds().CurrentTS(t.Context())
	require.NoError(t, err)
	prewritten, err := s.service.KvPrewrite(t.Context(), &kvrpcpb.PrewriteRequest{
		Mutations:   []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: []byte("a"), Value: []byte("1")}},
		PrimaryLock: []byte("a"), StartVersion: start, LockTtl: 1e6,
	})
	require.NoError(t, err)
	require.Empty(t, prewritten.Errors)
	commitTS, err := s.Builds().CurrentTS(t.Context())
	require.NoError(t, err)
	c, ts, err := s.Checkpoint(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.Discard())
	require.Greater(t, ts, commitTS)
	committed, err := s.service.KvCommit(t.Context(), &kvrpcpb.CommitRequest{StartVersion: start, Keys: [][]byte{[]byte("a")}, CommitVersion: commitTS})
	require.NoError(t, err)
	require.NotNil(t, committed.Error.GetCommitTsExpired(), "it has committed at %d, before the checkpoint's %d", commitTS, ts)
}

// TestGarbageIsHeldForACheckpoint, while its files are linked, at its timestamp.
func TestGarbageIsHeldForACheckpoint(t *testing.T) {
	var s *Store
	var held uint64
	fsys := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "checkpoint") {
			holds, err := s.Builds().GCHolds(t.Context())
			if err != nil {
				return err
			}
			held = holds[holdOfCheckpoint]
		}
		return nil
	}))
	s = openMem(t, fsys)
	set(t, s, "a", "1")
	c, ts, err := s.Checkpoint(t.Context())
	require.NoError(t, err)
	require.Equal(t, ts, held)
	holds, err := s.Builds().GCHolds(t.Context())
	require.NoError(t, err)
	require.Empty(t, holds)
	require.NoError(t, c.Discard())
}

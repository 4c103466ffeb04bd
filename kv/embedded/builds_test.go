package embedded

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// TestScansHaveABarrier is TestBuildsBarrier for the scan of rows.
func TestScansHaveABarrier(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	ctx := t.Context()
	now := func() uint64 {
		ts, err := s.Builds().CurrentTS(ctx)
		require.NoError(t, err)
		return ts
	}
	start := now()
	resp, err := s.service.KvPrewrite(ctx, &kvrpcpb.PrewriteRequest{
		Mutations:    []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: []byte("k"), Value: []byte("1")}},
		PrimaryLock:  []byte("k"),
		StartVersion: start,
		LockTtl:      1e6,
	})
	require.NoError(t, err)
	require.Empty(t, resp.Errors)
	at := now()
	req := kv.ScanRequest{Range: kv.KeyRange{Start: []byte("a"), End: []byte("b")}, TS: at, BatchRows: 1}
	require.NoError(t, s.Builds().ScanColumns(ctx, req, func(*kv.RowBatch) error { return nil }))
	commit, err := s.service.KvCommit(ctx, &kvrpcpb.CommitRequest{StartVersion: start, Keys: [][]byte{[]byte("k")}, CommitVersion: at})
	require.NoError(t, err)
	require.NotNil(t, commit.Error.GetCommitTsExpired(), "committed at the timestamp of a scan")
}

package txn

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
)

// A reader that checks for newer versions gets an error for them, by each way of reading.
func TestReadsReportNewerVersions(t *testing.T) {
	b := openProtocol(t, vfs.NewMem())
	at := b.ts()
	newer := b.write("k", "1")
	s := b.engine.Snapshot(at, &kvrpcpb.Context{IsolationLevel: kvrpcpb.IsolationLevel_RCCheckTS})
	for name, read := range map[string]func() error{
		"get": func() error {
			_, err := s.Get(t.Context(), []byte("k"))
			return err
		},
		"batch get": func() error {
			return s.BatchGet(t.Context(), [][]byte{[]byte("a"), []byte("k")}, func(_, _ []byte) {})
		},
		"scan": func() error {
			return s.Scan(t.Context(), nil, nil, false, func(_, _ []byte) (bool, error) { return true, nil })
		},
	} {
		conflict := ReadConflict(read())
		require.NotNil(t, conflict, "%s: it reads at a timestamp that is too old", name)
		require.Equal(t, newer, conflict.ConflictCommitTs, name)
	}
}

// committing has a transaction on its way to the disk that writes "new" into keys, where they have "old". What is returned
// lets it arrive.
func committing(t *testing.T, keys ...string) (b *bank, commitTS uint64, arrive func()) {
	fs, slow, syncing, release := slowLog()
	b = openProtocol(t, fs)
	pairs := func(value string) (out []string) {
		for _, key := range keys {
			out = append(out, key, value)
		}
		return out
	}
	b.write(pairs("old")...)
	start := b.ts()
	b.prewritten(prewriteOf(start, pairs("new")...))
	commitTS = b.ts()
	slow.Store(true)
	result := make(chan error, 1)
	go func() {
		_, err := b.engine.Commit(context.Background(), &kvrpcpb.CommitRequest{
			StartVersion: start, Keys: [][]byte{[]byte(keys[0])}, CommitVersion: commitTS,
		})
		result <- err
	}()
	<-syncing
	arrived := false
	arrive = func() {
		if !arrived {
			arrived = true
			release()
			require.NoError(t, <-result)
		}
	}
	t.Cleanup(arrive)
	return b, commitTS, arrive
}

// A reader of several keys that wants what is newest sees none of a commit that is not durable, wherever its keys stand.
func TestNewestBatchesAreConsistent(t *testing.T) {
	b, _, arrive := committing(t, "k", "l")
	read := func() map[string]string {
		got := make(map[string]string)
		err := b.engine.Snapshot(math.MaxUint64, nil).BatchGet(t.Context(), [][]byte{[]byte("k"), []byte("l"), []byte("z")},
			func(key, value []byte) { got[string(key)] = string(value) })
		require.NoError(t, err)
		return got
	}
	require.Equal(t, map[string]string{"k": "old", "l": "old"}, read(), "what is not durable is read")
	arrive()
	require.Equal(t, map[string]string{"k": "new", "l": "new"}, read())
}

// A scan of a reader who leaves locks alone waits for a commit at or below its timestamp that is on its way to the disk.
func TestCommittedReadsOfRangesWaitForTheDisk(t *testing.T) {
	b, commitTS, arrive := committing(t, "k")
	rc := &kvrpcpb.Context{IsolationLevel: kvrpcpb.IsolationLevel_RC}
	scan := func(ctx context.Context, at uint64) (got string, err error) {
		err = b.engine.Snapshot(at, rc).Scan(ctx, nil, nil, false, func(_, value []byte) (bool, error) {
			got = string(value)
			return true, nil
		})
		return got, err
	}
	below, err := scan(t.Context(), commitTS-1)
	require.NoError(t, err)
	require.Equal(t, "old", below)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	at := b.ts()
	early, err := scan(ctx, at)
	require.ErrorIs(t, err, context.DeadlineExceeded, "read %q before it was durable", early)
	arrive()
	after, err := scan(t.Context(), at)
	require.NoError(t, err)
	require.Equal(t, "new", after)
}

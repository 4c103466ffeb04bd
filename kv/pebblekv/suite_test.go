package pebblekv

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fastddl/kv"
	"fastddl/kv/kvtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reopen closes a store in good order and opens it again.
func reopen(t *testing.T, s kv.Store) kv.Store {
	t.Helper()
	old := s.(*Store)
	require.NoError(t, old.Close())
	opts := old.opts
	return open(t, old.dir, opts)
}

func open(t *testing.T, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// startCommit implements kvtest.Harness.Start.
func startCommit(ctx context.Context, s kv.Store, pairs map[string]string) (uint64, func() error, error) {
	a, err := s.(*Store).Apply(ctx, writesOf(pairs), ApplyOptions{})
	if err != nil {
		return 0, nil, err
	}
	return a.TS(), a.Wait, nil
}

func TestConformanceInMemory(t *testing.T) {
	kvtest.Run(t, kvtest.Harness{
		Open:   func(t *testing.T) kv.Store { return open(t, "db", Options{FS: vfs.NewMem()}) },
		Reopen: reopen,
		Start:  startCommit,
	})
}

func TestConformanceOnDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("the same again on a disk")
	}
	kvtest.Run(t, kvtest.Harness{
		Open:   func(t *testing.T) kv.Store { return open(t, t.TempDir(), Options{}) },
		Reopen: reopen,
		Start:  startCommit,
	})
}

package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// within fails the test if fn does not return soon.
func within(t *testing.T, what string, fn func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err
	case <-time.After(soon):
		require.FailNow(t, what+" hangs")
		return nil
	}
}

// write commits values of a kind for some keys; a size of 0 deletes.
func writeKeys(ctx context.Context, s *Store, size int, keys ...string) error {
	pairs := make(map[string]string)
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for _, key := range keys {
		value := make([]byte, size)
		for i := range value {
			value[i] = byte(rnd.Uint32())
		}
		pairs[key] = string(value)
	}
	_, err := commit(ctx, s, pairs)
	return err
}

// requireReadable reads keys at a fresh timestamp.
func requireReadable(t *testing.T, s *Store, there bool, keys ...string) {
	t.Helper()
	require.NoError(t, within(t, "reading", func() error {
		ts, err := s.CurrentTS(t.Context())
		if err != nil {
			return err
		}
		snap, err := s.Snapshot(t.Context(), ts)
		if err != nil {
			return err
		}
		defer func() { _ = snap.Close() }()
		for _, key := range keys {
			if _, err := snap.Get(t.Context(), []byte(key)); errors.Is(err, kv.ErrNotExist) == there {
				return fmt.Errorf("key %s: %w", key, err)
			}
		}
		return nil
	}))
}

// batchOf is a batch with one version of a key.
func batchOf(s *Store, key string) *pebble.Batch {
	b := s.db.NewBatch()
	// A batch in memory takes any key.
	_ = b.Set(appendVersion(nil, []byte(key), s.timeline.lastTS()), []byte("1"), nil)
	return b
}

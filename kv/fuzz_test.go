package kv_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// FuzzKeyRanges: the ranges that are made of keys hold the keys that they should.
func FuzzKeyRanges(f *testing.F) {
	f.Add([]byte("t1_r"), []byte("t1_r\x00"), []byte("u"))
	f.Add([]byte{}, []byte{0xff, 0xff}, []byte{0xff})
	f.Add([]byte{0xff}, []byte{}, []byte{0xff, 0})
	f.Fuzz(func(t *testing.T, prefix, key, other []byte) {
		r := kv.PrefixRange(prefix)
		require.Equal(t, bytes.HasPrefix(key, prefix), r.Contains(key))
		require.Positive(t, bytes.Compare(kv.NextKey(key), key))
		single := kv.KeyRange{Start: key, End: kv.NextKey(key)}
		require.True(t, single.Contains(key))
		require.Equal(t, bytes.Equal(key, other), single.Contains(other))
		both := r.Intersect(kv.KeyRange{Start: key, End: other})
		in := r.Contains(prefix) && bytes.Compare(prefix, key) >= 0 && bytes.Compare(prefix, other) < 0
		require.Equal(t, in, both.Contains(prefix))
		if both.Empty() {
			require.False(t, both.Contains(key))
		}
	})
}

package ingest

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRuns: a run returns the written entries in order. If one byte of its file is changed,
// reading fails, unless no reader reads that byte.
func FuzzRuns(f *testing.F) {
	f.Add([]byte("alpha beta gamma alpine"), byte(3), uint(0), byte(0))
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), byte(9), uint(13), byte(1))
	f.Add([]byte{0, 0, 1, 0xff, 0, 2}, byte(1), uint(2), byte(0x80))
	f.Fuzz(func(t *testing.T, data []byte, keyLen byte, at uint, flip byte) {
		seen := make(map[string]bool)
		var pairs []pair
		for n := int(keyLen%16) + 1; len(data) > 0; {
			key := data[:min(n, len(data))]
			data = data[len(key):]
			if !seen[string(key)] {
				seen[string(key)] = true
				pairs = append(pairs, pair{key, append([]byte{'v'}, key...)})
			}
		}
		if len(pairs) == 0 {
			return
		}
		r := makeRun(t, pairs)
		read, err := readRun(r)
		require.NoError(t, err)
		require.Len(t, read, len(pairs))
		for i, p := range read {
			require.True(t, seen[string(p.key)])
			require.True(t, i == 0 || bytes.Compare(read[i-1].key, p.key) < 0)
			require.Equal(t, "v"+string(p.key), string(p.value))
		}
		damage(t, r.path, at, flip)
		if again, err := readRun(r); err == nil {
			require.Equal(t, read, again)
		}
	})
}

// readRun reads a run from beginning to end.
func readRun(r *run) (pairs []pair, err error) {
	c := r.cursor(keyRange{})
	defer c.close()
	var batch records
	for {
		batch.reset()
		if err := c.next(&batch); err != nil || batch.len() == 0 {
			return pairs, err
		}
		for i := range batch.len() {
			pairs = append(pairs, pair{bytes.Clone(batch.key(i)), bytes.Clone(batch.value(i))})
		}
	}
}

// damage changes a byte of a file.
func damage(t *testing.T, path string, at uint, flip byte) {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	if len(content) > 0 {
		content[at%uint(len(content))] ^= flip
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
}

// TestRunBlockOfHugeLengths: lengths whose sum is small again are no lengths.
func TestRunBlockOfHugeLengths(t *testing.T) {
	body := binary.AppendUvarint([]byte{0}, math.MaxUint64)
	body = binary.AppendUvarint(body, 1)
	require.ErrorIs(t, decodeRunBlock(body, new(records)), errCorruptRun)
	body = binary.AppendUvarint([]byte{0, 1}, math.MaxUint64)
	require.ErrorIs(t, decodeRunBlock(body, new(records)), errCorruptRun)
}

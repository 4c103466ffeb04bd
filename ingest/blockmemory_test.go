package ingest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBlockMemory: blocks do not overlap, are used again, and go back to the
// operating system when the last job has ended.
func TestBlockMemory(t *testing.T) {
	var m blockMemory
	m.open()
	m.open()
	const workers, each = 4, 3 * slabSize / blockSize / 2
	for range 3 {
		var wg sync.WaitGroup
		for n := range workers {
			wg.Go(func() {
				var held []*block
				for range each {
					b, err := m.get()
					if err != nil {
						t.Error(err)
						return
					}
					for i := range b {
						b[i] = byte(n)
					}
					held = append(held, b)
				}
				for _, b := range held {
					if b[0] != byte(n) || *b != *held[0] {
						t.Error("two blocks overlap")
					}
				}
				for _, b := range held {
					m.put(b)
				}
			})
		}
		wg.Wait()
		require.LessOrEqual(t, len(m.slabs), workers*3/2)
		require.Len(t, m.free, len(m.slabs)*slabSize/blockSize)
	}
	require.NoError(t, m.close())
	require.NotEmpty(t, m.slabs)
	require.NoError(t, m.close())
	require.Empty(t, m.slabs)
	require.Empty(t, m.free)
}

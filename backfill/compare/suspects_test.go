package compare

import (
	"bytes"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/encode"
)

// TestSuspectsAreBoundedByBytes: entries that differ and are long take no more memory than
// others. The buckets that are looked at all the same have all of their entries.
func TestSuspectsAreBoundedByBytes(t *testing.T) {
	s := sumsOf(2, 1<<12)
	l := newSuspects(s)
	l.spec = &encode.Task{Indexes: []*model.IndexInfo{{ID: 1}, {ID: 2}}}
	for k := range 2 {
		for i := range uint64(s.buckets()) {
			l.buckets[k].set(i)
		}
	}
	const each, goroutines = 9000, 4
	key := func(n int) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(n)), bytes.Repeat([]byte("k"), 1000)...)
	}
	hash := func(n int) uint64 { return hashKey(0, key(n)) }
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for n := g * each; n < (g+1)*each; n++ {
				for k := range 2 {
					l.fromIndex(k, hash(n), key(n), []byte("v"))
				}
			}
		})
	}
	wg.Wait()
	held, kept, left := 0, 0, 0
	for k := range 2 {
		for id := range l.keys[k] {
			held += 2 * len(id)
		}
		for i := range uint64(s.buckets()) {
			if l.buckets[k].has(i) {
				left++
			}
		}
		for n := range goroutines * each {
			if l.buckets[k].has(hash(n) >> s.shift) {
				kept++
				require.True(t, l.keys[k][string(key(n))] != nil)
			}
		}
	}
	require.Less(t, held, maxSuspectBytes)
	require.Greater(t, held, maxSuspectBytes/4)
	require.Positive(t, left)
	require.Equal(t, kept, len(l.keys[0])+len(l.keys[1]), "nothing is kept of other buckets")
	_, more := l.differences()
	require.True(t, more)
}

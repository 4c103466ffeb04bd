package check

import (
	"math/bits"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// numBuckets is the number of buckets of each side of an index.
const numBuckets = 8192

// sums adds up entries by bucket; it may be used concurrently, and the order of
// additions makes no difference.
type sums struct {
	buckets [numBuckets]bucket
}

type bucket struct{ count, a, b atomic.Uint64 }

func bucketOf(key []byte) int { return int(mix(xxhash.Sum64(key)) % numBuckets) }

func (s *sums) add(key, value []byte) {
	k, v := xxhash.Sum64(key), xxhash.Sum64(value)
	b := &s.buckets[mix(k)%numBuckets]
	b.count.Add(1)
	// Two independent 64-bit digests of the pair.
	b.a.Add(mix(k ^ bits.RotateLeft64(v, 23)))
	b.b.Add(mix(k + 0x9e3779b97f4a7c15*v))
}

// mix is the finaliser of MurmurHash3: it spreads a change of any bit over all.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func (s *sums) count() (n uint64) {
	for i := range s.buckets {
		n += s.buckets[i].count.Load()
	}
	return n
}

// differing returns which buckets of two sides are not equal, nil if all are.
func differing(x, y *sums) []bool {
	var out []bool
	for i := range x.buckets {
		p, q := &x.buckets[i], &y.buckets[i]
		if p.count.Load() == q.count.Load() && p.a.Load() == q.a.Load() && p.b.Load() == q.b.Load() {
			continue
		}
		if out == nil {
			out = make([]bool, numBuckets)
		}
		out[i] = true
	}
	return out
}

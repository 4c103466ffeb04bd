package compare

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"

	"github.com/cespare/xxhash/v2"
)

const (
	// minBuckets and maxBuckets bound the number of buckets, over all indexes. A
	// bucket takes 16 bytes for each worker.
	minBuckets, maxBuckets = 1 << 12, 1 << 18
	// maxSubtaskBuckets is maxBuckets for a comparison that several nodes share: each
	// subtask has buckets of its own in a row of a table. maxSubtaskSums bounds those of all.
	maxSubtaskBuckets, maxSubtaskSums = 1 << 16, 1 << 21
	// bytesPerBucket is how much of a table there is for a bucket, within the bounds.
	bytesPerBucket = 1 << 10
	// maxSuspects is about how many entries are compared one by one.
	maxSuspects = 100_000
)

// prefixSeed is the hash of the prefix of an index's keys.
func prefixSeed(prefix []byte) uint64 { return xxhash.Sum64(prefix) }

// hashKey returns the hash of a key: of what follows its prefix, and the prefix's
// seed.
func hashKey(seed uint64, key []byte) uint64 { return xxhash.Sum64(key) ^ seed }

// hashEntry mixes the hash of a key with a value, so that two keys whose values
// are exchanged do not sum up to the same.
func hashEntry(keyHash uint64, value []byte) uint64 {
	h := keyHash + xxhash.Sum64(value)*0x9e3779b97f4a7c15
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// bucket sums up entries: how many, and their hashes, in any order. Those of the
// rows are added, those of the index taken away.
type bucket struct {
	entries int64
	hash    uint64
}

// add adds an entry so many times, whose hash is hashEntry's.
func (b *bucket) add(times int64, hash uint64) {
	b.entries += times
	b.hash += uint64(times) * hash
}

// merge adds what another bucket has.
func (b *bucket) merge(o bucket) {
	b.entries += o.entries
	b.hash += o.hash
}

// sums are buckets of all indexes. Each goroutine adds to an accumulator of its
// own.
type sums struct {
	indexes int
	shift   int // of a key's hash, to the number of its bucket

	mu   sync.Mutex
	idle []*accumulator // all of them, while no goroutine adds
}

// accumulator is an entrySink that sums up.
type accumulator struct {
	s       *sums
	buckets [][]bucket // by index
	inIndex []int64    // entries of each index
}

// newSums returns empty sums for a table of about so many bytes, in at most so many buckets,
// or the least number.
func newSums(indexes int, tableBytes float64, most int) *sums {
	n := min(max(uint64(tableBytes)/bytesPerBucket, minBuckets), uint64(max(minBuckets, most/indexes)))
	return sumsOf(indexes, n)
}

// sumsOf returns empty sums of at most n buckets for each index.
func sumsOf(indexes int, n uint64) *sums {
	return &sums{indexes: indexes, shift: 64 - (bits.Len64(n) - 1)}
}

// buckets is the number of buckets of each index, a power of two.
func (s *sums) buckets() int { return 1 << (64 - s.shift) }

// bucketBytes is the size of an encoded bucket.
const bucketBytes = 16

// encode returns all buckets in order: entries and hash, little-endian. No goroutine adds any more.
func (s *sums) encode() []byte {
	data := make([]byte, 0, s.indexes*s.buckets()*bucketBytes)
	for k := range s.indexes {
		for i := range uint64(s.buckets()) {
			sum := s.sum(k, i)
			data = binary.LittleEndian.AppendUint64(data, uint64(sum.entries))
			data = binary.LittleEndian.AppendUint64(data, sum.hash)
		}
	}
	return data
}

// add adds encoded sums of as many buckets, and the entries of each index that are in them.
func (s *sums) add(data []byte, entries []int64) error {
	if len(entries) != s.indexes || len(data) != s.indexes*s.buckets()*bucketBytes {
		return fmt.Errorf("backfill: sums of %d bytes for %d indexes, not of %d buckets for %d", len(data), len(entries), s.buckets(), s.indexes)
	}
	sink, release := s.accumulator()
	defer release()
	a := sink.(*accumulator)
	for k := range a.buckets {
		a.inIndex[k] += entries[k]
		for i := range a.buckets[k] {
			a.buckets[k][i].merge(bucket{int64(binary.LittleEndian.Uint64(data)), binary.LittleEndian.Uint64(data[8:])})
			data = data[bucketBytes:]
		}
	}
	return nil
}

// sum is the i-th bucket of the k-th index.
func (s *sums) sum(k int, i uint64) (sum bucket) {
	for _, a := range s.idle {
		sum.merge(a.buckets[k][i])
	}
	return sum
}

// accumulator returns one that no other goroutine uses until it is released.
func (s *sums) accumulator() (sink entrySink, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var a *accumulator
	if n := len(s.idle); n > 0 {
		a, s.idle = s.idle[n-1], s.idle[:n-1]
	} else {
		a = s.newAccumulator()
	}
	return a, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.idle = append(s.idle, a)
	}
}

func (s *sums) newAccumulator() *accumulator {
	a := &accumulator{s: s, buckets: make([][]bucket, s.indexes), inIndex: make([]int64, s.indexes)}
	for k := range a.buckets {
		a.buckets[k] = make([]bucket, s.buckets())
	}
	return a
}

func (a *accumulator) fromRow(k int, keyHash uint64, e rowEntry) {
	a.buckets[k][keyHash>>a.s.shift].add(1, hashEntry(keyHash, e.kv[e.klen:]))
}

func (a *accumulator) fromIndex(k int, keyHash uint64, _, value []byte) {
	a.inIndex[k]++
	a.buckets[k][keyHash>>a.s.shift].add(-1, hashEntry(keyHash, value))
}

// entries is how many entries the k-th index has.
func (s *sums) entries(k int) (n int64) {
	for _, a := range s.idle {
		n += a.inIndex[k]
	}
	return n
}

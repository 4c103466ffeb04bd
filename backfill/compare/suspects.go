package compare

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"fastddl/backfill/encode"
)

const (
	// maxDifferences is how many differences are returned.
	maxDifferences = 10_000
	// maxClaims is how many rows that claim a key are named.
	maxClaims = 10
	// maxSuspectBytes is how many bytes of entries are looked at one by one. There are
	// fewer than maxSuspects of them if they are long.
	maxSuspectBytes = 64 << 20
	// suspectOverhead is about how many bytes a key takes beside what it is made of, and
	// each of its claims.
	suspectOverhead = 200
)

// bitset is a set of bucket numbers. It may be read while it is changed.
type bitset []uint64

func (b bitset) set(i uint64) { atomic.OrUint64(&b[i/64], 1<<(i%64)) }

func (b bitset) clear(i uint64) { atomic.AndUint64(&b[i/64], ^(1 << (i % 64))) }

func (b bitset) has(i uint64) bool { return atomic.LoadUint64(&b[i/64])&(1<<(i%64)) != 0 }

// suspects is an entrySink that keeps the entries of some buckets: all of them, or none. If
// they are too long for that it lets go of buckets on the way. It may be used concurrently.
type suspects struct {
	shift   int
	buckets []bitset     // by index
	spec    *encode.Task // that is compared

	mu    sync.Mutex
	keys  []map[string]*suspect // by index and key
	bytes int64                 // about what keys takes
	fewer bool                  // it has let go of buckets
}

// suspect is what is known of a key, which may turn out to be no difference.
type suspect struct {
	Difference
	bucket uint64
}

func newSuspects(s *sums) *suspects {
	l := &suspects{shift: s.shift}
	for range s.indexes {
		l.buckets = append(l.buckets, make(bitset, 1<<(64-s.shift)/64))
		l.keys = append(l.keys, make(map[string]*suspect))
	}
	return l
}

// suspects returns the buckets that are not zero, or nil if all are; more says that
// there are too many to be looked at at one time.
func (s *sums) suspects() (list *suspects, more bool) {
	var held int64
	for k := range s.indexes {
		perBucket := 1 + s.entries(k)>>(64-s.shift)
		for i := range uint64(1) << (64 - s.shift) {
			sum := s.sum(k, i)
			if sum == (bucket{}) {
				continue
			}
			// What the index lacks is in the rows.
			held += perBucket + max(0, sum.entries)
			if list == nil {
				list = newSuspects(s)
			} else if held > maxSuspects {
				return list, true
			}
			list.buckets[k].set(i)
		}
	}
	return list, false
}

func (l *suspects) fromRow(k int, keyHash uint64, e rowEntry) {
	if !l.buckets[k].has(keyHash >> l.shift) {
		return
	}
	task := l.spec
	idx := task.Indexes[k]
	key := append(encode.IndexPrefix(encode.IndexIDs(task.Table, idx, []int64{e.physicalID})[0], idx.ID), e.kv[:e.klen]...)
	l.change(k, keyHash, key, func(d *Difference) {
		d.claim(Claim{RecordKey: e.recordKey(), Value: bytes.Clone(e.kv[e.klen:])})
	})
}

func (l *suspects) fromIndex(k int, keyHash uint64, key, value []byte) {
	if !l.buckets[k].has(keyHash >> l.shift) {
		return
	}
	l.change(k, keyHash, key, func(d *Difference) { d.Actual = bytes.Clone(value) })
}

// change changes what is known of a key, unless its bucket is not looked at any more.
func (l *suspects) change(k int, keyHash uint64, key []byte, fn func(d *Difference)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := keyHash >> l.shift
	if !l.buckets[k].has(i) {
		return
	}
	d := l.keys[k][string(key)]
	if d == nil {
		d = &suspect{Difference: Difference{Index: l.spec.Indexes[k].ID, Key: bytes.Clone(key)}, bucket: i}
		l.keys[k][string(key)] = d
	} else {
		l.bytes -= d.bytes()
	}
	fn(&d.Difference)
	l.bytes += d.bytes()
	for l.bytes > maxSuspectBytes && l.shed() {
	}
}

// shed lets go of every second bucket that has keys, with its keys. It leaves one: that has
// a difference, and without one there would be none to return. The caller holds mu.
func (l *suspects) shed() bool {
	n := 0
	for k, keys := range l.keys {
		held := make(map[uint64]bool)
		for _, d := range keys {
			held[d.bucket] = true
		}
		for i := range held {
			if n++; n%2 == 0 {
				l.buckets[k].clear(i)
			}
		}
		for key, d := range keys {
			if !l.buckets[k].has(d.bucket) {
				l.bytes -= d.bytes()
				delete(keys, key)
			}
		}
	}
	l.fewer = l.fewer || n > 1
	return n > 1
}

// bytes is about what it takes: the key is held twice.
func (d *suspect) bytes() int64 {
	n := suspectOverhead + 2*len(d.Key) + len(d.Actual)
	for _, c := range d.Claims {
		n += suspectOverhead + len(c.RecordKey) + len(c.Value)
	}
	return int64(n)
}

// claim adds a row.
func (d *Difference) claim(c Claim) {
	d.Rows++
	at, _ := slices.BinarySearchFunc(d.Claims, c, func(a, b Claim) int { return bytes.Compare(a.RecordKey, b.RecordKey) })
	d.Claims = slices.Insert(d.Claims, at, c)
	d.Claims = d.Claims[:min(len(d.Claims), maxClaims)]
}

// differs says that the index is not what the rows make of it.
func (d *Difference) differs() bool {
	return d.Rows > 1 || (d.Rows == 1) != (d.Actual != nil) || d.Rows == 1 && !bytes.Equal(d.Claims[0].Value, d.Actual)
}

// differences returns the keys that differ, by index and key, as many as are
// returned at one time; more says that there are others.
func (l *suspects) differences() (list []Difference, more bool) {
	for _, keys := range l.keys {
		first := len(list)
		for _, d := range keys {
			if d.differs() {
				list = append(list, d.Difference)
			}
		}
		slices.SortFunc(list[first:], func(a, b Difference) int {
			return cmp.Or(cmp.Compare(a.Index, b.Index), bytes.Compare(a.Key, b.Key))
		})
	}
	if len(list) > maxDifferences {
		return list[:maxDifferences], true
	}
	return list, l.fewer
}

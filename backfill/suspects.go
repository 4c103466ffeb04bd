package backfill

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
)

const (
	// maxDifferences is how many differences are returned.
	maxDifferences = 10_000
	// maxClaims is how many rows that claim a key are named.
	maxClaims = 10
)

// bitset is a set of bucket numbers.
type bitset []uint64

func (b bitset) set(i uint64)      { b[i/64] |= 1 << (i % 64) }
func (b bitset) has(i uint64) bool { return b[i/64]&(1<<(i%64)) != 0 }

// suspects is an entrySink that keeps the entries of some buckets. It may be used
// concurrently.
type suspects struct {
	shift   int
	buckets []bitset // by index
	of      *comparison

	mu   sync.Mutex
	keys []map[string]*Difference // by index and key
}

func newSuspects(s *sums) *suspects {
	l := &suspects{shift: s.shift}
	for range s.indexes {
		l.buckets = append(l.buckets, make(bitset, 1<<(64-s.shift)/64))
		l.keys = append(l.keys, make(map[string]*Difference))
	}
	return l
}

func (l *suspects) fromRow(k int, keyHash uint64, e rowEntry) {
	if !l.buckets[k].has(keyHash >> l.shift) {
		return
	}
	task := &l.of.task
	idx := task.Indexes[k]
	key := append(indexPrefix(indexIDs(task.Table, idx, []int64{e.physicalID})[0], idx.ID), e.kv[:e.klen]...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at(k, key).claim(Claim{RecordKey: e.recordKey(), Value: bytes.Clone(e.kv[e.klen:])})
}

func (l *suspects) fromIndex(k int, keyHash uint64, key, value []byte) {
	if !l.buckets[k].has(keyHash >> l.shift) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at(k, key).Actual = bytes.Clone(value)
}

func (l *suspects) at(k int, key []byte) *Difference {
	d := l.keys[k][string(key)]
	if d == nil {
		d = &Difference{Index: l.of.task.Indexes[k].ID, Key: bytes.Clone(key)}
		l.keys[k][string(key)] = d
	}
	return d
}

// claim adds a row.
func (d *Difference) claim(c Claim) {
	d.Rows++
	at, _ := slices.BinarySearchFunc(d.Claims, c, func(a, b Claim) int { return bytes.Compare(a.RecordKey, b.RecordKey) })
	d.Claims = slices.Insert(d.Claims, at, c)
	d.Claims = d.Claims[:min(len(d.Claims), maxClaims)]
}

// recordKey is the key of the row.
func (e *rowEntry) recordKey() []byte {
	prefix := tablecodec.GenTableRecordPrefix(e.physicalID)
	if len(e.batch.IntHandles) > 0 {
		return tablecodec.EncodeRecordKey(prefix, tkv.IntHandle(e.batch.IntHandles[e.i]))
	}
	return append(prefix, e.batch.CommonHandle(e.i)...)
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
				list = append(list, *d)
			}
		}
		slices.SortFunc(list[first:], func(a, b Difference) int {
			return cmp.Or(cmp.Compare(a.Index, b.Index), bytes.Compare(a.Key, b.Key))
		})
	}
	if len(list) > maxDifferences {
		return list[:maxDifferences], true
	}
	return list, false
}

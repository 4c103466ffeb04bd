package check

import (
	"context"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/kv"
	"fastddl/table"
)

// numBuckets is into how many parts an index's entries are divided by the hash
// of their key. If one differs, one part in numBuckets is looked at closely.
const numBuckets = 1024

// sum is an order-independent digest of a set of entries.
type sum struct {
	count uint64
	total uint64
}

func (s *sum) add(o sum) { s.count, s.total = s.count+o.count, s.total+o.total }

// sums is a digest of an index's entries by bucket.
type sums [numBuckets]sum

func bucketOf(key []byte) int { return int(xxhash.Sum64(key) % numBuckets) }

func (s *sums) addEntry(key, value []byte) {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(key)
	// The key's hash chooses the bucket; the pair's tells pairs apart.
	b := &s[d.Sum64()%numBuckets]
	_, _ = d.Write(value)
	b.add(sum{1, d.Sum64()})
}

func (s *sums) addAll(o *sums) {
	for i := range s {
		s[i].add(o[i])
	}
}

// buckets is a set of buckets.
type buckets [numBuckets]bool

// compareSums returns for each index the buckets in which the rows' entries and
// the index's differ, or nil if there are none.
func (c *checker) compareSums(ctx context.Context) (map[*model.IndexInfo]*buckets, error) {
	want, err := c.sumRows(ctx)
	if err != nil {
		return nil, err
	}
	var suspects map[*model.IndexInfo]*buckets
	for i, idx := range c.indexes {
		got, err := c.sumIndex(ctx, idx)
		if err != nil {
			return nil, err
		}
		for b := range numBuckets {
			if want[i][b] == got[b] {
				continue
			}
			if suspects == nil {
				suspects = make(map[*model.IndexInfo]*buckets)
			}
			if suspects[idx] == nil {
				suspects[idx] = new(buckets)
			}
			suspects[idx][b] = true
		}
	}
	return suspects, nil
}

// sumRows digests the entries that the rows give, index by index.
func (c *checker) sumRows(ctx context.Context) ([]*sums, error) {
	total := newSums(len(c.indexes))
	var mu sync.Mutex
	err := c.eachRange(ctx, table.RecordRange(c.tbl.ID), func(ctx context.Context, _ int, r kv.KeyRange) error {
		part := newSums(len(c.indexes))
		err := scan(ctx, c.snap, r, func(key, value []byte) error {
			h, row, err := c.cols.decode(key, value)
			if err != nil {
				return err
			}
			for i, idx := range c.indexes {
				key, value, err := c.cols.entry(idx, h, row)
				if err != nil {
					return err
				}
				part[i].addEntry(key, value)
			}
			return nil
		})
		mu.Lock()
		defer mu.Unlock()
		for i := range total {
			total[i].addAll(part[i])
		}
		return err
	})
	return total, err
}

func newSums(n int) []*sums {
	out := make([]*sums, n)
	for i := range out {
		out[i] = new(sums)
	}
	return out
}

// sumIndex digests the entries that an index holds.
func (c *checker) sumIndex(ctx context.Context, idx *model.IndexInfo) (*sums, error) {
	var total sums
	var mu sync.Mutex
	err := c.eachRange(ctx, table.IndexRange(c.tbl.ID, idx.ID), func(ctx context.Context, _ int, r kv.KeyRange) error {
		var part sums
		err := scan(ctx, c.snap, r, func(key, value []byte) error {
			part.addEntry(key, value)
			return nil
		})
		mu.Lock()
		defer mu.Unlock()
		total.addAll(&part)
		return err
	})
	return &total, err
}

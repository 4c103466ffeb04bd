package backfilltest

import (
	"math/rand/v2"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
)

// Partitions are fixtures of the partitions of a table.
type Partitions []*Fixture

// NewPartitions returns a partitioned table in a store of its own, with a fixture for
// each partition.
func NewPartitions(t testing.TB, r *rand.Rand, n, rowsEach int) (whole *Fixture, parts Partitions) {
	table, kinds := PlainTable()
	table.Partition = &model.PartitionInfo{Enable: true}
	whole = NewFixture(t, table, kinds)
	for _, i := range r.Perm(n) { // IDs need not be in the order of partitions
		id := table.ID + 1 + int64(i)
		table.Partition.Definitions = append(table.Partition.Definitions, model.PartitionDefinition{ID: id})
		physical := *table
		physical.ID, physical.Partition = id, nil
		part := *whole
		part.Table, part.Rows, part.Next = &physical, make(map[string]Row), int64(i)*1_000_000
		if i%5 != 1 { // some are empty
			part.Insert(r, rowsEach)
		}
		parts = append(parts, &part)
	}
	return whole, parts
}

// Count returns the number of rows.
func (p Partitions) Count() (rows int64) {
	for _, part := range p {
		rows += int64(len(part.Rows))
	}
	return rows
}

// RequireIndexes compares the indexes of each partition at ts with what the library makes of its rows.
func (p Partitions) RequireIndexes(ts uint64, indexes ...*model.IndexInfo) {
	for _, part := range p {
		for _, idx := range indexes {
			part.RequireIndex(idx, ts, "partition")
		}
	}
}

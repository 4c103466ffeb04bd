package backfill

import (
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/kv"
)

// indexPrefixLen is the length of t{physicalID}_i{indexID}, after which an index
// key holds the values.
var indexPrefixLen = len(indexPrefix(0, 0))

// physicalIDs returns the IDs under which a table's rows are stored, ascending:
// those of its partitions, or its own.
func physicalIDs(t *model.TableInfo) []int64 {
	partitions := t.GetPartitionInfo()
	if partitions == nil {
		return []int64{t.ID}
	}
	ids := make([]int64, len(partitions.Definitions))
	for i, def := range partitions.Definitions {
		ids[i] = def.ID
	}
	slices.Sort(ids)
	return ids
}

// indexIDs returns the IDs under which the entries of an index for rows of the
// given physical tables are stored. A global index has one, whatever the
// partitions.
func indexIDs(t *model.TableInfo, idx *model.IndexInfo, physicals []int64) []int64 {
	if global(t, idx) {
		return []int64{t.ID}
	}
	return physicals
}

func global(t *model.TableInfo, idx *model.IndexInfo) bool {
	return idx.Global && t.GetPartitionInfo() != nil
}

// recordRange is the range of a physical table's rows.
func recordRange(physicalID int64) kv.KeyRange {
	return kv.PrefixRange(tablecodec.GenTableRecordPrefix(physicalID))
}

// indexPrefix begins all keys of an index of a physical table.
func indexPrefix(physicalID, indexID int64) []byte {
	return tablecodec.EncodeTableIndexPrefix(physicalID, indexID)
}

// indexRange is the range of the entries of an index of a physical table.
func indexRange(physicalID, indexID int64) kv.KeyRange {
	return kv.PrefixRange(indexPrefix(physicalID, indexID))
}

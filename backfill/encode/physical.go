package encode

import (
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/kv"
)

// PrefixLen is the length of t{physicalID}_i{indexID}, after which an index
// key holds the values.
var PrefixLen = len(IndexPrefix(0, 0))

// PhysicalIDs returns the IDs under which a table's rows are stored, ascending:
// those of its partitions, or its own.
func PhysicalIDs(t *model.TableInfo) []int64 {
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

// IndexIDs returns the IDs under which the entries of an index for rows of the
// given physical tables are stored. A global index has one for all
// partitions.
func IndexIDs(t *model.TableInfo, idx *model.IndexInfo, physicals []int64) []int64 {
	if IsGlobal(t, idx) {
		return []int64{t.ID}
	}
	return physicals
}

// IsGlobal says that the entries of an index are stored under the ID of the table, not of its partitions.
func IsGlobal(t *model.TableInfo, idx *model.IndexInfo) bool {
	return idx.Global && t.GetPartitionInfo() != nil
}

// RecordRange is the range of a physical table's rows.
func RecordRange(physicalID int64) kv.KeyRange {
	return kv.PrefixRange(tablecodec.GenTableRecordPrefix(physicalID))
}

// TableRange is the range of all keys of a physical table: its rows, and its entries of indexes.
func TableRange(physicalID int64) kv.KeyRange {
	return kv.PrefixRange(tablecodec.EncodeTablePrefix(physicalID))
}

// IndexPrefix begins all keys of an index of a physical table.
func IndexPrefix(physicalID, indexID int64) []byte {
	return tablecodec.EncodeTableIndexPrefix(physicalID, indexID)
}

// IndexRange is the range of the entries of an index of a physical table.
func IndexRange(physicalID, indexID int64) kv.KeyRange {
	return kv.PrefixRange(IndexPrefix(physicalID, indexID))
}

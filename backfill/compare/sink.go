package compare

import (
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/kv"
)

// entrySink takes the entries of the k-th index that rows give and that the index
// has. keyHash is of the whole key. Slices are valid until it returns.
type entrySink interface {
	fromRow(k int, keyHash uint64, e rowEntry)
	fromIndex(k int, keyHash uint64, key, value []byte)
}

// rowEntry is an entry as it is encoded from row i of a batch: the key without its
// prefix, klen bytes long, and the value behind it.
type rowEntry struct {
	kv         []byte
	klen       int
	physicalID int64
	batch      *kv.RowBatch
	i          int
}

// recordKey is the key of the row.
func (e *rowEntry) recordKey() []byte {
	prefix := tablecodec.GenTableRecordPrefix(e.physicalID)
	if len(e.batch.IntHandles) > 0 {
		return tablecodec.EncodeRecordKey(prefix, tkv.IntHandle(e.batch.IntHandles[e.i]))
	}
	return append(prefix, e.batch.CommonHandle(e.i)...)
}

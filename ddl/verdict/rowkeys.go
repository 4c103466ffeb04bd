package verdict

import (
	"bytes"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/backfill/encode"
)

// RecordKey is the key of the row that an entry with a key and a handle names.
func RecordKey(entryKey []byte, handle tidbkv.Handle) tidbkv.Key {
	physicalID := tablecodec.DecodeTableID(entryKey)
	if inPartition, ok := handle.(tidbkv.PartitionHandle); ok { // of a global index
		physicalID = inPartition.PartitionID
	}
	return tablecodec.EncodeRowKeyWithHandle(physicalID, handle)
}

// EntriesAt returns the values that a row gives a key of an index.
func EntriesAt(encoder *encode.RowEncoder, rowKey, row []byte, index int64, key []byte) (values [][]byte, err error) {
	entries, err := encoder.Encode(rowKey, row)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Index == index && bytes.Equal(e.Key, key) {
			values = append(values, e.Value)
		}
	}
	return values, nil
}

func locationOr(loc *time.Location) *time.Location {
	if loc == nil {
		return time.UTC
	}
	return loc
}

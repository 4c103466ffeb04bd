package table

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/kv"
)

// While a unique index is being built, a transaction that puts an entry cannot
// see whether a row that the backfill has not reached has the same key. It
// leaves a marker in the same transaction: the entry, with the timestamp c at
// which the transaction looked for the key, which is its start. The key of an
// entry takes part in conflict detection, so nobody else puts or removes it
// between c and the commit. The owner verifies the marker later, against the
// complete index.
//
// No marker is needed where the transaction has written the key before: then it
// has removed, or put, the entry of the row that had it.
//
// Markers live where TiDB keeps the temporary entries of an index in the making,
// under the index ID with tablecodec.TempIndexPrefix. A marker's key is the
// entry's with c behind it, its value is the entry's.

const (
	indexPrefixLen = 1 + 8 + 2 + 8
	markerTSLen    = 8
)

// marks says that putting entries leaves markers: the index is being built and
// not complete yet. An index that is being dropped has the same schema states,
// but is complete.
func (x *index) marks() bool {
	return x.info.Unique && x.info.BackfillState == model.BackfillStateRunning
}

// MarkerRange is the range of the markers of an index.
func MarkerRange(tableID, indexID int64) kv.KeyRange {
	return IndexRange(tableID, tablecodec.TempIndexPrefix|indexID)
}

func (t *Table) markerKey(x *index, entryKey []byte, checkTS uint64) []byte {
	prefix := tablecodec.EncodeTableIndexPrefix(t.meta.ID, tablecodec.TempIndexPrefix|x.info.ID)
	return binary.BigEndian.AppendUint64(slices.Concat(prefix, entryKey[indexPrefixLen:]), checkTS)
}

// DecodeMarker returns the key of the entry that a marker is about and the
// timestamp at which the transaction looked for it.
func DecodeMarker(tableID, indexID int64, marker []byte) (entryKey []byte, checkTS uint64, err error) {
	if len(marker) < indexPrefixLen+markerTSLen {
		return nil, 0, fmt.Errorf("key %x is no marker of index %d", marker, indexID)
	}
	end := len(marker) - markerTSLen
	prefix := tablecodec.EncodeTableIndexPrefix(tableID, indexID)
	return slices.Concat(prefix, marker[indexPrefixLen:end]), binary.BigEndian.Uint64(marker[end:]), nil
}

// putMarker leaves a marker for an entry that is about to be put, if one is
// needed. Its key is this transaction's alone, so it takes part in no conflict
// check.
func (t *Table) putMarker(txn kv.Txn, x *index, e indexEntry) error {
	if !e.distinct || !x.marks() || txn.Written(e.key) {
		return nil
	}
	return txn.Set(t.markerKey(x, e.key, txn.StartTS()), e.value, kv.NoConflictCheck)
}

// dropMarker takes the marker of an entry back that the transaction removes
// again: what is not there at the commit collides with nobody.
func (t *Table) dropMarker(txn kv.Txn, x *index, e indexEntry) error {
	if !e.distinct || !x.marks() {
		return nil
	}
	marker := t.markerKey(x, e.key, txn.StartTS())
	if !txn.Written(marker) {
		return nil
	}
	return txn.Delete(marker, kv.NoConflictCheck)
}

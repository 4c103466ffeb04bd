package table

import (
	"context"
	"encoding/binary"
	"errors"
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
// has removed, or put, the entry of the row that had it. What a transaction puts
// with a marker and removes again it withdraws, marker and all: a tombstone would
// hide the entry of a row that has had the key all along. And where another row has
// the key by the time it removes it from the one that had it, the entry stays that
// row's, and only the marker has become needless. The entry is put once more: if S
// lies before the commit, the backfill brings back the entry of the row that has lost
// the key, and finds a newer one; and if the other row loses the key too, one of the
// two transactions fails.
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

// deleteMarked removes a row's entry from an index in which puts leave markers.
func (t *Table) deleteMarked(ctx context.Context, txn kv.Txn, x *index, e indexEntry) error {
	marker := t.markerKey(x, e.key, txn.StartTS())
	marked := txn.Written(marker)
	if marked {
		if err := txn.Delete(marker, kv.NoConflictCheck, kv.Withdrawn); err != nil {
			return err
		}
	}
	other, err := entryOfOther(ctx, txn, e)
	switch {
	case err != nil:
		return fmt.Errorf("entry of index %s: %w", x.info.Name.O, err)
	case other != nil:
		return txn.Set(e.key, other)
	case marked:
		return txn.Delete(e.key, kv.Withdrawn)
	}
	return txn.Delete(e.key)
}

// entryOfOther returns the value of the entry that the transaction sees under the
// key of e if it is another row's, else nil.
func entryOfOther(ctx context.Context, txn kv.Txn, e indexEntry) ([]byte, error) {
	value, err := txn.Get(ctx, e.key)
	if errors.Is(err, kv.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	holder, err := tablecodec.DecodeHandleInIndexValue(value)
	if err != nil {
		return nil, err
	}
	own, err := tablecodec.DecodeHandleInIndexValue(e.value)
	if err != nil || holder.Equal(own) {
		return nil, err
	}
	return value, nil
}

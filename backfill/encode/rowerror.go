package encode

import (
	"fmt"

	"github.com/pingcap/tidb/pkg/expression"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/kv"
)

// NullError says that a row has a NULL in a column of a primary key to build.
type NullError struct {
	Column string
}

func (e *NullError) Error() string { return "NULL in primary key column " + e.Column }

// Unwrap returns TiDB's error (1138).
func (e *NullError) Unwrap() error { return dbterror.ErrInvalidUseOfNull.FastGenByArgs() }

// MaxBadRows is how many rows a RowError names.
const MaxBadRows = 100

// RowError says that rows have values for which an index has no entry. It is a verdict on the rows: no further attempt finds others.
type RowError struct {
	// Rows has at least one row and at most MaxBadRows, all of one batch.
	Rows []BadRow
}

// BadRow is a row that gives an index no entry.
type BadRow struct {
	// Index is the first of the build's indexes that needs the entry.
	Index *model.IndexInfo
	// Column has the value, or the expression, that is at fault; nil if none is known.
	Column *model.ColumnInfo
	// Key is the row's.
	Key []byte
	// Err is TiDB's error.
	Err error
}

func (e *RowError) Error() string {
	first := &e.Rows[0]
	row := fmt.Sprintf("%x", first.Key) // in hexadecimal: a log must not show the values of a clustered key
	if _, handle, err := tablecodec.DecodeRecordKey(first.Key); err == nil && handle.IsInt() {
		row = handle.String()
	}
	return fmt.Sprintf("backfill: row %s has no entry in index %s (%d rows found): %v", row, first.Index.Name.O, len(e.Rows), first.Err)
}

// Unwrap returns TiDB's error of the first row.
func (e *RowError) Unwrap() error { return e.Rows[0].Err }

// rowKey is the key of row i of a batch.
func rowKey(b *kv.RowBatch, commonHandle bool, physicalID int64, i int) []byte {
	if commonHandle {
		return tablecodec.EncodeRowKey(physicalID, b.CommonHandle(i))
	}
	return tablecodec.EncodeRowKeyWithHandle(physicalID, tkv.IntHandle(b.IntHandles[i]))
}

// nameIndex makes an error name the index that it is about, as TiDB does.
func nameIndex(index *model.IndexInfo, err error) error {
	if index.MVIndex && expression.ErrInvalidJSONForFuncIndex.Equal(err) {
		return expression.ErrInvalidJSONForFuncIndex.FastGenByArgs(index.Name.O)
	}
	return err
}

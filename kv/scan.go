package kv

import (
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
)

// ScanRequest asks for some columns of the rows of one table.
type ScanRequest struct {
	// Range lies within the record keys of one table (t{id}_r...).
	Range KeyRange
	// TS is the snapshot's timestamp. The caller holds GC at or below it, or
	// knows that it is recent.
	TS uint64
	// Columns are the wanted columns; a column that is the integer handle has
	// IsPKHandle set. TIMESTAMPs come in UTC, as they are stored.
	Columns []rowcodec.ColInfo
	// Defaults holds, for each column, the value of rows that were written
	// before the column existed.
	Defaults []types.Datum
	// HandleColIDs are the IDs of the primary key columns of a clustered table,
	// in key order; empty for a table with hidden row IDs.
	HandleColIDs []int64
	// CommonHandle says that handles are encoded columns, not integers.
	CommonHandle bool
	// HandleCols are the columns with those IDs, if handles are common: a store that
	// hands out columns, not keys, makes the handles of them.
	HandleCols []HandleColumn
	// BatchRows is the target number of rows of a batch; 0 is 1024. A batch of long rows
	// has fewer, see MaxBatchBytes.
	BatchRows int
	// Remember says that UnchangedCounter.CountUnchanged since TS may rely on how many rows the scan has visited.
	Remember bool
	// Sample says that the first rows are wanted and no more: nothing is to be read ahead.
	Sample bool
}

// MaxBatchBytes is how many bytes of rows are read for one batch before it is handed out,
// however few rows they are: a batch is memory that no quota knows, and time in which
// the caller cannot look around. The row that reaches it belongs to the batch.
const MaxBatchBytes = 4 << 20

// MinBatchRows is how many rows a store may read at a time all the same, where it cannot
// know before how long they are.
const MinBatchRows = 16

// LongRows says that what the request reads of a row may be long: of most rows of most
// tables it is not, and then they need not be read by few at a time.
func (r *ScanRequest) LongRows() bool {
	const long = 4 << 10 // bytes
	total := 0
	for _, c := range r.Columns {
		switch tp := c.Ft.GetType(); {
		case types.IsTypeBlob(tp), tp == mysql.TypeJSON, tp == mysql.TypeTiDBVectorFloat32:
			return true
		case types.IsString(tp):
			total += max(c.Ft.GetFlen(), 0)
		}
	}
	return total > long
}

// HandleColumn is a column of a common handle.
type HandleColumn struct {
	Ft *types.FieldType
	// PrefixLen is the length of the prefix that the handle has of the column's value,
	// in characters, or in bytes of a binary column; 0 is all of it.
	PrefixLen int
}

// RowBatch is a batch of rows in key order, column by column.
type RowBatch struct {
	// Rows has one column for each of ScanRequest.Columns.
	Rows *chunk.Chunk
	// IntHandles holds the handle of each row, unless handles are common.
	IntHandles []int64
	// CommonHandles holds the encoded handles back to back; row i's is
	// CommonHandles[HandleOffsets[i]:HandleOffsets[i+1]].
	CommonHandles []byte
	HandleOffsets []uint32
	// LastKey is the record key of the batch's last row: a scan resumes at
	// NextKey(LastKey).
	LastKey []byte
	// ReadTo is the key before which the store has read, or asked for, all rows that it will hand out. If it is nil, or
	// not behind LastKey, the store has read none ahead.
	ReadTo []byte
	// Bytes is the size of the keys and values read for this batch.
	Bytes int
	// Visited is the number of records that the store's own reading has met for the batch, counted apart from what was
	// decoded and handed out, if the store is a ScanCounter.
	Visited int
}

// NumRows is the number of rows in the batch.
func (b *RowBatch) NumRows() int { return b.Rows.NumRows() }

// CommonHandle returns the encoded common handle of row i.
func (b *RowBatch) CommonHandle(i int) []byte {
	return b.CommonHandles[b.HandleOffsets[i]:b.HandleOffsets[i+1]]
}

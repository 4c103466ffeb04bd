package tikv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tipb/go-tipb"

	"fastddl/kv"
)

// rowLayout is what a scan asks the coprocessor for: the wanted columns and then what is
// missing of the handle. The coprocessor hands out columns, not keys, so that common
// handles are encoded anew, as TiDB does. It does not change: pages are read ahead with it while
// rows are handed out.
type rowLayout struct {
	req     kv.ScanRequest
	tableID int64
	fields  []*types.FieldType
	columns []*tipb.ColumnInfo
	handle  []int // where the handle's columns are, in its order
	prefix  []byte
}

func newRowLayout(req kv.ScanRequest) (*rowLayout, error) {
	switch {
	case len(req.Defaults) != 0 && len(req.Defaults) != len(req.Columns):
		return nil, fmt.Errorf("tikv: scan has %d columns but %d defaults", len(req.Columns), len(req.Defaults))
	case req.CommonHandle && (len(req.HandleCols) == 0 || len(req.HandleCols) != len(req.HandleColIDs)):
		return nil, fmt.Errorf("tikv: scan has %d columns of the handle, but types of %d", len(req.HandleColIDs), len(req.HandleCols))
	case !isRecords(req.Range):
		return nil, fmt.Errorf("tikv: %s are not records of one table", req.Range)
	}
	l := &rowLayout{req: req, tableID: tablecodec.DecodeTableID(req.Range.Start)}
	l.prefix = tablecodec.GenTableRecordPrefix(l.tableID)
	if err := l.addWanted(); err != nil {
		return nil, err
	}
	l.addHandle()
	return l, nil
}

// addWanted adds the columns that are asked for.
func (l *rowLayout) addWanted() error {
	for i, col := range l.req.Columns {
		if l.isIntHandle(i) {
			c := hiddenHandle()
			c.ColumnId = col.ID
			l.handle = []int{i}
			l.columns, l.fields = append(l.columns, c), append(l.fields, col.Ft)
			continue
		}
		c := columnOf(col.ID, col.Ft)
		if len(l.req.Defaults) > 0 && !l.req.Defaults[i].IsNull() {
			var err error
			if c.DefaultVal, err = tablecodec.EncodeValue(time.UTC, nil, l.req.Defaults[i]); err != nil {
				return fmt.Errorf("tikv: default of column %d: %w", col.ID, err)
			}
		}
		l.columns, l.fields = append(l.columns, c), append(l.fields, col.Ft)
	}
	return nil
}

func (l *rowLayout) isIntHandle(i int) bool {
	col, ids := l.req.Columns[i], l.req.HandleColIDs
	return !l.req.CommonHandle && (col.IsPKHandle || len(ids) == 1 && col.ID == ids[0])
}

// addHandle adds the columns of the handle that are not wanted anyway.
func (l *rowLayout) addHandle() {
	if !l.req.CommonHandle {
		if l.handle == nil {
			l.handle = []int{len(l.columns)}
			l.columns, l.fields = append(l.columns, hiddenHandle()), append(l.fields, countFields[0])
		}
		return
	}
	for k, id := range l.req.HandleColIDs {
		at := -1
		for i, c := range l.columns {
			if c.ColumnId == id {
				at = i
			}
		}
		if at < 0 {
			at = len(l.columns)
			ft := l.req.HandleCols[k].Ft
			l.columns, l.fields = append(l.columns, columnOf(id, ft)), append(l.fields, ft)
		}
		l.handle = append(l.handle, at)
	}
}

func columnOf(id int64, ft *types.FieldType) *tipb.ColumnInfo {
	return util.ColumnToProto(&model.ColumnInfo{ID: id, FieldType: *ft}, false, false)
}

// dag is the request.
func (l *rowLayout) dag() ([]byte, error) {
	scan := &tipb.TableScan{TableId: l.tableID, Columns: l.columns}
	if l.req.CommonHandle {
		scan.PrimaryColumnIds = l.req.HandleColIDs
		for k, col := range l.req.HandleCols {
			if col.PrefixLen > 0 { // the key has not all of it
				scan.PrimaryPrefixColumnIds = append(scan.PrimaryPrefixColumnIds, l.req.HandleColIDs[k])
			}
		}
	}
	return dagOf(len(l.columns), &tipb.Executor{Tp: tipb.ExecType_TypeTableScan, TblScan: scan})
}

// keyEncoder makes keys of rows, for one goroutine.
type keyEncoder struct {
	*rowLayout
	datums []types.Datum // of one common handle
}

func newKeyEncoder(l *rowLayout) *keyEncoder {
	return &keyEncoder{rowLayout: l, datums: make([]types.Datum, len(l.handle))}
}

// appendHandle appends the encoded handle of row i of c to buf.
func (e *keyEncoder) appendHandle(buf []byte, c *chunk.Chunk, i int) ([]byte, error) {
	if !e.req.CommonHandle {
		return codec.EncodeInt(buf, c.Column(e.handle[0]).GetInt64(i)), nil
	}
	row := c.GetRow(i)
	for k, at := range e.handle {
		col := e.req.HandleCols[k]
		e.datums[k] = row.GetDatum(at, col.Ft)
		if e.datums[k].IsNull() {
			return nil, errors.New("tikv: a column of a row's handle is NULL")
		}
		if col.PrefixLen > 0 {
			tablecodec.TruncateIndexValue(&e.datums[k], &model.IndexColumn{Length: col.PrefixLen}, &model.ColumnInfo{FieldType: *col.Ft})
		}
	}
	start := len(buf)
	buf, err := codec.EncodeKey(time.UTC, buf, e.datums...)
	for err == nil && len(buf)-start < minHandle {
		buf = append(buf, 0)
	}
	return buf, err
}

// minHandle is the length up to which TiDB fills common handles with zeros: that of a short
// DECIMAL is less (NewCommonHandle in pkg/kv).
const minHandle = 9

// appendKey appends the record key of row i of c to buf.
func (e *keyEncoder) appendKey(buf []byte, c *chunk.Chunk, i int) ([]byte, error) {
	return e.appendHandle(append(buf, e.prefix...), c, i)
}

// batcher makes batches of pages.
type batcher struct {
	*keyEncoder
	rows  *chunk.Chunk // with all columns of the layout
	shown *chunk.Chunk // its wanted columns
	want  int
	long  bool // rows may be long, and differ
	batch kv.RowBatch
	bytes float64 // of the rows, as they came
	held  int     // of their columns here, if rows may be long
	fn    func(*kv.RowBatch) error

	rest   kv.KeyRange   // of the request: no page that was added is of it
	readTo func() []byte // of the pages
}

func newBatcher(l *rowLayout, rows int, fn func(*kv.RowBatch) error) *batcher {
	b := &batcher{
		keyEncoder: newKeyEncoder(l), rows: chunk.NewChunkWithCapacity(l.fields, rows), want: rows, long: l.req.LongRows(),
		fn: fn, rest: l.req.Range,
	}
	wanted := make([]int, len(l.req.Columns))
	for i := range wanted {
		wanted[i] = i
	}
	b.shown = b.rows.Prune(wanted)
	return b
}

// add hands out the rows of a page, in batches, until ctx ends. It keeps none back until
// there are more: pages of long rows have few of them, and take long to come. It fails if the
// page is not of what follows the one before.
func (b *batcher) add(ctx context.Context, p *page) error {
	if !bytes.Equal(p.part.Start, b.rest.Start) {
		return fmt.Errorf("tikv: a page of %s begins at %x", b.rest, p.part.Start)
	}
	b.rest.Start = p.part.End
	left, visited := p.rows, p.visited // that are in no batch yet
	for _, c := range p.chunks {
		for at := 0; at < c.NumRows(); {
			n := b.fitting(c, at)
			b.rows.Append(c, at, at+n)
			b.bytes += float64(n) * p.rowBytes
			at += n
			full := b.rows.NumRows() >= b.want || b.held >= kv.MaxBatchBytes
			if left -= n; left > 0 && !full {
				continue
			}
			// The batches of a page have visited what the store says of the page.
			if b.batch.Visited = b.rows.NumRows(); left == 0 {
				b.batch.Visited = visited
			}
			visited -= b.batch.Visited
			if err := b.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete fails unless the parts of the pages tile the range of the request.
func (b *batcher) complete() error {
	if !b.rest.Empty() {
		return fmt.Errorf("tikv: the scan has ended before it read %s", b.rest)
	}
	return nil
}

// fitting is how many rows of c from one on the batch has room for, at least one. Only rows
// that may be long are looked at: of others a batch is small.
func (b *batcher) fitting(c *chunk.Chunk, at int) int {
	most := min(c.NumRows()-at, b.want-b.rows.NumRows())
	if !b.long {
		return most
	}
	for n := range most {
		row := c.GetRow(at + n)
		for k := range b.fields {
			b.held += len(row.GetRaw(k))
		}
		if b.held >= kv.MaxBatchBytes {
			return n + 1
		}
	}
	return most
}

// flush returns the buffered rows as a batch.
func (b *batcher) flush(ctx context.Context) error {
	n := b.rows.NumRows()
	if n == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	out := &b.batch
	if err := b.handles(n); err != nil {
		return err
	}
	key, err := b.appendKey(out.LastKey[:0], b.rows, n-1)
	if err != nil {
		return err
	}
	out.LastKey, out.Rows, out.Bytes = key, b.shown, int(b.bytes)+1
	out.ReadTo = b.readTo() // at least by the page that has these rows
	if len(b.req.Columns) == 0 {
		b.shown.SetNumVirtualRows(n)
	}
	if err := b.fn(out); err != nil {
		return err
	}
	b.rows.Reset()
	b.bytes, b.held = 0, 0
	return nil
}

// handles fills the handles of the batch in.
func (b *batcher) handles(n int) (err error) {
	out := &b.batch
	if !b.req.CommonHandle {
		out.IntHandles = b.rows.Column(b.handle[0]).Int64s()
		return nil
	}
	out.CommonHandles, out.HandleOffsets = out.CommonHandles[:0], append(out.HandleOffsets[:0], 0)
	for i := range n {
		if out.CommonHandles, err = b.appendHandle(out.CommonHandles, b.rows, i); err != nil {
			return err
		}
		out.HandleOffsets = append(out.HandleOffsets, uint32(len(out.CommonHandles)))
	}
	return nil
}

// keyIn returns the record key of row i of c, which lies in r.
func (e *keyEncoder) keyIn(r kv.KeyRange, c *chunk.Chunk, i int) ([]byte, error) {
	key, err := e.appendKey(nil, c, i)
	if err == nil && !r.Contains(key) {
		err = fmt.Errorf("tikv: the row at %x is not in %s", key, r)
	}
	return key, err
}

package encode

import (
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/rowcodec"

	"fastddl/kv"
)

// Projection is what a scan has to read for a set of indexes, and how a batch of
// rows is laid out: first the columns that are scanned, then the virtual ones,
// which are computed.
type Projection struct {
	table   *model.TableInfo
	indexes []*model.IndexInfo

	columns    []rowcodec.ColInfo
	defaults   []types.Datum
	handles    []int64
	handleCols []kv.HandleColumn

	layout   []*model.ColumnInfo // of a batch; the first len(columns) are scanned
	position map[int64]int       // of a column ID in layout

	exprs evaluation     // of the virtual columns
	zone  *time.Location // that they are computed in; TIMESTAMPs of a batch are in UTC, as they are stored
}

// NewProjection returns the columns that the entries of the task's indexes
// consist of, or are computed from.
func NewProjection(t *Task) (*Projection, error) {
	if err := Supported(t.Table, t.Indexes); err != nil {
		return nil, err
	}
	p := &Projection{table: t.Table, indexes: t.Indexes, position: make(map[int64]int), zone: t.Location}
	p.handles, p.handleCols = handleColumns(t.Table), commonHandle(t.Table)
	scanned, virtual, err := neededColumns(t.Table, t.Indexes)
	if err != nil {
		return nil, err
	}
	if p.zone == nil {
		p.zone = time.UTC
	}
	p.exprs = newEvaluation(t.SQLMode, p.zone, t.Functions)
	stored := newEvaluation(t.SQLMode, time.UTC, t.Functions)
	for _, col := range scanned {
		if err := p.scan(col, stored); err != nil {
			return nil, err
		}
	}
	for _, col := range virtual {
		p.place(col)
	}
	_, err = newVirtualColumns(p) // expressions that cannot be compiled are refused at once
	return p, err
}

// neededColumns returns the columns that the indexes have, and those that these
// are computed from, in the order of the table: the ones that rows hold and the
// virtual ones. A virtual column depends on columns before it only.
func neededColumns(t *model.TableInfo, indexes []*model.IndexInfo) (scanned, virtual []*model.ColumnInfo, err error) {
	needed := make([]bool, len(t.Columns))
	var need func(col *model.ColumnInfo) error
	need = func(col *model.ColumnInfo) error {
		if needed[col.Offset] {
			return nil
		}
		needed[col.Offset] = true
		if !col.IsVirtualGenerated() {
			return nil
		}
		for name := range col.Dependences {
			from := model.FindColumnInfo(t.Columns, name)
			if from == nil {
				return fmt.Errorf("backfill: column %s depends on %s, which table %s does not have", col.Name.O, name, t.Name.O)
			}
			if err := need(from); err != nil {
				return err
			}
		}
		return nil
	}
	for _, idx := range indexes {
		for _, ic := range idx.Columns {
			if err := need(t.Columns[ic.Offset]); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, col := range restoredHandleColumns(t) {
		needed[col.info.Offset] = true
	}
	for i, col := range t.Columns {
		switch {
		case !needed[i]:
		case col.IsVirtualGenerated():
			virtual = append(virtual, col)
		default:
			scanned = append(scanned, col)
		}
	}
	return scanned, virtual, nil
}

// scan adds a column that is read, with its default value in stored.
func (p *Projection) scan(col *model.ColumnInfo, stored evaluation) error {
	def, err := table.GetColOriginDefaultValueWithoutStrictSQLMode(stored.ctx, col)
	if err != nil {
		return fmt.Errorf("backfill: default value of column %s: %w", col.Name.O, err)
	}
	if def, err = asStored(def, &col.FieldType); err != nil {
		return fmt.Errorf("backfill: default value of column %s: %w", col.Name.O, err)
	}
	p.place(col)
	p.columns = append(p.columns, rowcodec.ColInfo{
		ID:         col.ID,
		IsPKHandle: p.table.PKIsHandle && mysql.HasPriKeyFlag(col.GetFlag()),
		Ft:         &col.FieldType,
	})
	p.defaults = append(p.defaults, def)
	return nil
}

// asStored returns a default as it is read where a row has it, or where a coprocessor fills it in: TiDB's zeros lack
// the digits of a fraction, or the bytes of a BIT, which expressions over the column see.
func asStored(def types.Datum, ft *types.FieldType) (types.Datum, error) {
	if def.IsNull() {
		return def, nil
	}
	encoded, err := tablecodec.EncodeValue(time.UTC, nil, def)
	if err != nil {
		return def, err
	}
	chk := chunk.NewChunkWithCapacity([]*types.FieldType{ft}, 1)
	if _, err := codec.NewDecoder(chk, time.UTC).DecodeOne(encoded, 0, ft); err != nil {
		return def, err
	}
	return chk.GetRow(0).GetDatum(0, ft), nil
}

func (p *Projection) place(col *model.ColumnInfo) {
	p.position[col.ID] = len(p.layout)
	p.layout = append(p.layout, col)
}

// Request returns a scan of r at ts.
func (p *Projection) Request(r kv.KeyRange, ts uint64, batchRows int) kv.ScanRequest {
	return kv.ScanRequest{
		Range:        r,
		TS:           ts,
		Columns:      p.columns,
		Defaults:     p.defaults,
		HandleColIDs: p.handles,
		CommonHandle: p.table.IsCommonHandle,
		HandleCols:   p.handleCols,
		BatchRows:    batchRows,
	}
}

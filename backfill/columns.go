package backfill

import (
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"

	"fastddl/generated"
	"fastddl/kv"
	"fastddl/table"
)

// ErrUnsupported says that a table or index has a form that cannot be built.
var ErrUnsupported = errors.New("backfill: not supported")

// projection is what a scan has to read for a set of indexes.
type projection struct {
	table    *model.TableInfo
	columns  []rowcodec.ColInfo
	defaults []types.Datum
	handles  []int64
	position map[int64]int // of a column ID in columns
	// generated are the table's generated columns; nil if no index has a virtual
	// one.
	generated *generated.Columns
}

// newProjection returns the columns that the entries of the indexes consist of,
// or are computed from.
func newProjection(table *model.TableInfo, indexes []*model.IndexInfo, exprs generated.Compiler) (*projection, error) {
	if table.GetPartitionInfo() != nil {
		return nil, fmt.Errorf("%w: partitioned table %s", ErrUnsupported, table.Name.O)
	}
	p := &projection{table: table, position: make(map[int64]int)}
	p.handles = handleColumns(table)
	for _, idx := range indexes {
		if idx.MVIndex || idx.Global || idx.VectorInfo != nil {
			return nil, fmt.Errorf("%w: kind of index %s", ErrUnsupported, idx.Name.O)
		}
		if err := p.addIndex(idx, exprs); err != nil {
			return nil, fmt.Errorf("backfill: index %s: %w", idx.Name.O, err)
		}
	}
	for _, col := range restoredHandleColumns(table) {
		if err := p.add(col.info); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *projection) addIndex(idx *model.IndexInfo, exprs generated.Compiler) (err error) {
	if virtual := virtualColumns(p.table, idx); len(virtual) > 0 {
		if p.generated == nil {
			if p.generated, err = generated.Compile(p.table, exprs); err != nil {
				return err
			}
		}
		for _, at := range p.generated.Virtual(virtual).Inputs {
			if err := p.add(p.table.Columns[at]); err != nil {
				return err
			}
		}
	}
	for _, ic := range idx.Columns {
		if col := p.table.Columns[ic.Offset]; !col.IsVirtualGenerated() {
			if err := p.add(col); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *projection) add(col *model.ColumnInfo) error {
	if _, ok := p.position[col.ID]; ok {
		return nil
	}
	if col.IsVirtualGenerated() {
		return fmt.Errorf("%w: virtual column %s", ErrUnsupported, col.Name.O)
	}
	def, err := table.OriginDefault(col)
	if err != nil {
		return fmt.Errorf("default value of column %s: %w", col.Name.O, err)
	}
	p.position[col.ID] = len(p.columns)
	p.columns = append(p.columns, rowcodec.ColInfo{
		ID:         col.ID,
		IsPKHandle: p.table.PKIsHandle && mysql.HasPriKeyFlag(col.GetFlag()),
		Ft:         &col.FieldType,
	})
	p.defaults = append(p.defaults, def)
	return nil
}

// request returns a scan of r at ts.
func (p *projection) request(r kv.KeyRange, ts uint64, batchRows int) kv.ScanRequest {
	return kv.ScanRequest{
		Range:        r,
		TS:           ts,
		Columns:      p.columns,
		Defaults:     p.defaults,
		HandleColIDs: p.handles,
		CommonHandle: p.table.IsCommonHandle,
		BatchRows:    batchRows,
	}
}

// handleColumns returns the IDs of the columns of a clustered primary key.
func handleColumns(table *model.TableInfo) []int64 {
	switch {
	case table.PKIsHandle:
		return []int64{table.GetPkColInfo().ID}
	case table.IsCommonHandle:
		var ids []int64
		for _, ic := range primaryIndex(table).Columns {
			ids = append(ids, table.Columns[ic.Offset].ID)
		}
		return ids
	default:
		return nil
	}
}

func primaryIndex(table *model.TableInfo) *model.IndexInfo {
	for _, idx := range table.Indices {
		if idx.Primary {
			return idx
		}
	}
	return nil
}

// recordRange is the range of the table's rows.
func recordRange(table *model.TableInfo) kv.KeyRange {
	return kv.PrefixRange(tablecodec.GenTableRecordPrefix(table.ID))
}

// indexPrefix begins all keys of an index.
func indexPrefix(tableID, indexID int64) []byte {
	return tablecodec.EncodeTableIndexPrefix(tableID, indexID)
}

package backfill

import (
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"

	"fastddl/kv"
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
}

// newProjection returns the columns that the entries of the indexes consist of.
func newProjection(table *model.TableInfo, indexes []*model.IndexInfo) (*projection, error) {
	if table.GetPartitionInfo() != nil {
		return nil, fmt.Errorf("%w: partitioned table %s", ErrUnsupported, table.Name.O)
	}
	p := &projection{table: table, position: make(map[int64]int)}
	p.handles = handleColumns(table)
	for _, idx := range indexes {
		if idx.MVIndex || idx.Global || idx.VectorInfo != nil {
			return nil, fmt.Errorf("%w: kind of index %s", ErrUnsupported, idx.Name.O)
		}
		for _, ic := range idx.Columns {
			if err := p.add(table.Columns[ic.Offset]); err != nil {
				return nil, fmt.Errorf("index %s: %w", idx.Name.O, err)
			}
		}
	}
	for _, col := range restoredHandleColumns(table) {
		if err := p.add(col.info); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *projection) add(col *model.ColumnInfo) error {
	if _, ok := p.position[col.ID]; ok {
		return nil
	}
	if col.IsVirtualGenerated() {
		return fmt.Errorf("%w: virtual column %s", ErrUnsupported, col.Name.O)
	}
	def, err := originDefault(col)
	if err != nil {
		return fmt.Errorf("backfill: default value of column %s: %w", col.Name.O, err)
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

// originDefault returns the value that a column has in rows written before it
// was added, as TiDB's table.GetColOriginDefaultValue does: NULL, or for a NOT
// NULL column without default the zero value of its type. TIMESTAMPs are UTC.
func originDefault(col *model.ColumnInfo) (types.Datum, error) {
	value := col.GetOriginDefaultValue()
	if value == nil {
		if !mysql.HasNotNullFlag(col.GetFlag()) {
			return types.Datum{}, nil
		}
		if col.GetType() == mysql.TypeEnum {
			first, err := types.ParseEnumValue(col.GetElems(), 1)
			return types.NewCollateMysqlEnumDatum(first, col.GetCollate()), err
		}
		return zeroValue(col), nil
	}
	switch col.GetType() {
	case mysql.TypeTimestamp, mysql.TypeDatetime, mysql.TypeDate:
		return timeDefault(col, value)
	}
	d := types.NewDatum(value)
	return d.ConvertTo(types.DefaultStmtNoWarningContext, &col.FieldType)
}

// timeDefault converts the text of a time value. The text of a TIMESTAMP is in
// UTC, but for columns of old servers, where it is in the system's zone.
func timeDefault(col *model.ColumnInfo, value any) (types.Datum, error) {
	text, ok := value.(string)
	if !ok {
		return types.Datum{}, fmt.Errorf("unexpected default of type %T", value)
	}
	if text == ast.CurrentTimestamp {
		// The statement that adds the column replaces it by the time it runs at.
		return types.Datum{}, fmt.Errorf("unresolved default %s", text)
	}
	loc := time.UTC
	if col.GetType() == mysql.TypeTimestamp && col.Version < model.ColumnInfoVersion1 {
		loc = time.Local
	}
	ctx := types.DefaultStmtNoWarningContext.WithLocation(loc)
	t, err := types.ParseTime(ctx, text, col.GetType(), col.GetDecimal())
	if err != nil {
		return types.Datum{}, err
	}
	if col.GetType() == mysql.TypeTimestamp && !t.IsZero() {
		if err := t.ConvertTimeZone(loc, time.UTC); err != nil {
			return types.Datum{}, err
		}
	}
	return types.NewTimeDatum(t), nil
}

// zeroValue is the zero value of a column's type.
func zeroValue(col *model.ColumnInfo) types.Datum {
	var d types.Datum
	switch col.GetType() {
	case mysql.TypeTiny, mysql.TypeShort, mysql.TypeInt24, mysql.TypeLong, mysql.TypeLonglong, mysql.TypeYear:
		if mysql.HasUnsignedFlag(col.GetFlag()) && col.GetType() != mysql.TypeYear {
			d.SetUint64(0)
		} else {
			d.SetInt64(0)
		}
	case mysql.TypeFloat:
		d.SetFloat32(0)
	case mysql.TypeDouble:
		d.SetFloat64(0)
	case mysql.TypeNewDecimal:
		d.SetLength(col.GetFlen())
		d.SetFrac(col.GetDecimal())
		d.SetMysqlDecimal(new(types.MyDecimal))
	case mysql.TypeString:
		if col.GetFlen() > 0 && col.GetCharset() == charset.CharsetBin {
			d.SetBytes(make([]byte, col.GetFlen()))
		} else {
			d.SetString("", col.GetCollate())
		}
	case mysql.TypeDuration:
		d.SetMysqlDuration(types.ZeroDuration)
	case mysql.TypeDate:
		d.SetMysqlTime(types.ZeroDate)
	case mysql.TypeTimestamp:
		d.SetMysqlTime(types.ZeroTimestamp)
	case mysql.TypeDatetime:
		d.SetMysqlTime(types.ZeroDatetime)
	case mysql.TypeBit:
		d.SetMysqlBit(types.ZeroBinaryLiteral)
	case mysql.TypeSet:
		d.SetMysqlSet(types.Set{}, col.GetCollate())
	case mysql.TypeJSON:
		d.SetMysqlJSON(types.CreateBinaryJSON(nil))
	default:
		d.SetString("", col.GetCollate())
	}
	return d
}

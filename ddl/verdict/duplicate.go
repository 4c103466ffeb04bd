package verdict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/table/tables"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util"

	"fastddl/ddl/job"
	"fastddl/ingest"
	"fastddl/kv"
)

const (
	// maxRowsText bounds the text of the values and handles that are listed in a job's record, in bytes.
	maxRowsText = 64 << 10
	// maxShownValue bounds that of one value.
	maxShownValue = 1 << 10
)

// duplicates returns the error (1062) of a job with rows that have the same values in a unique index. It names the first of
// the groups, and lists as many as a job's record holds. unlisted is why it lists less than that.
func (l *rowLister) duplicates(groups []*ingest.DuplicateGroup) (v *job.RowsError, unlisted error) {
	v = new(job.RowsError)
	size := 0
	for _, g := range groups {
		var d job.Duplicate
		if unlisted = listing(func() (err error) { d, err = l.list(g); return err }); unlisted != nil {
			break
		}
		size += len(d.Entry)
		for _, h := range d.Handles {
			size += len(h)
		}
		if size > maxRowsText && len(v.Duplicates) > 0 {
			break
		}
		v.Duplicates = append(v.Duplicates, d)
	}
	entry, index := "?", "?"
	if len(v.Duplicates) > 0 {
		entry, index = v.Duplicates[0].Entry, v.Duplicates[0].Index
	} else if idx := model.FindIndexInfoByID(l.table.Indices, groups[0].IndexID); idx != nil {
		index = idx.Name.O
	}
	key := l.table.Name.O + "." + index
	v.Err = tidbkv.ErrKeyExists.FastGenByArgs(entry, key)
	v.Shown = tidbkv.ErrKeyExists.FastGenByArgs("?", key)
	return v, unlisted
}

// Getter reads a key of a snapshot; it returns nil for one that does not exist.
type Getter func(key []byte) ([]byte, error)

// GetAt returns a getter of the snapshot at ts, and the function that ends it.
func GetAt(ctx context.Context, store kv.Store, ts uint64) (Getter, func() error, error) {
	snapshot, err := store.Snapshot(ctx, ts)
	if err != nil {
		return nil, nil, fmt.Errorf("open snapshot %d: %w", ts, err)
	}
	get := func(key []byte) ([]byte, error) {
		value, err := snapshot.Get(ctx, key)
		if errors.Is(err, kv.ErrNotExist) {
			return nil, nil
		}
		return value, err
	}
	return get, snapshot.Close, nil
}

// rowLister names rows, and says what they have. TIMESTAMPs are shown as the clocks of loc show them; get reads a key at the snapshot
// that the rows were found at.
type rowLister struct {
	table *model.TableInfo
	loc   *time.Location
	get   Getter
}

func (l *rowLister) list(g *ingest.DuplicateGroup) (job.Duplicate, error) {
	idx := model.FindIndexInfoByID(l.table.Indices, g.IndexID)
	if idx == nil {
		return job.Duplicate{}, fmt.Errorf("duplicate entry in index %d, which table %s has not", g.IndexID, l.table.Name.O)
	}
	type row struct {
		handle tidbkv.Handle
		value  []byte
	}
	rows := make([]row, len(g.Values))
	for i, v := range g.Values {
		h, err := tablecodec.DecodeHandleInIndexValue(v)
		if err != nil {
			return job.Duplicate{}, fmt.Errorf("decode index value %x: %w", v, err)
		}
		rows[i] = row{h, v}
	}
	slices.SortFunc(rows, func(a, b row) int { return a.handle.Compare(b.handle) })
	// Values that a collation takes for equal need not be the same. The first row's is shown, as by TiDB.
	entry, err := l.entryText(idx, g.Key, rows[0].value)
	if err != nil {
		return job.Duplicate{}, err
	}
	d := job.Duplicate{Index: idx.Name.O, Columns: l.columnTexts(idx), Entry: entry, Rows: g.Rows}
	for _, r := range rows {
		key := RecordKey(g.Key, r.handle)
		text, err := l.handleText(key, r.handle)
		if err != nil {
			return job.Duplicate{}, err
		}
		partition := l.partition(tablecodec.DecodeTableID(key))
		if _, global := r.handle.(tidbkv.PartitionHandle); global {
			text += InPartition(partition)
		}
		d.Handles = append(d.Handles, text)
		if partition != "" {
			d.Partitions = append(d.Partitions, partition)
		}
	}
	return d, nil
}

// entryText is the entry's values as MySQL's error 1062 prints them.
func (l *rowLister) entryText(idx *model.IndexInfo, key, value []byte) (string, error) {
	columns := tables.BuildRowcodecColInfoForIndexColumns(idx, l.table)
	encoded, err := tablecodec.DecodeIndexKV(key, value, len(idx.Columns), tablecodec.HandleNotNeeded, columns)
	if err != nil {
		return "", fmt.Errorf("decode entry %x of index %s: %w", key, idx.Name.O, err)
	}
	texts := make([]string, len(idx.Columns))
	for i := range texts {
		d, err := tablecodec.DecodeColumnValue(encoded[i], columns[i].Ft, l.loc)
		if err != nil {
			return "", fmt.Errorf("decode entry %x of index %s: %w", key, idx.Name.O, err)
		}
		texts[i] = datumText(&d, columns[i].Ft)
	}
	return strings.Join(texts, "-"), nil
}

// handleText names the row with a key by its clustered primary key, or by its hidden row ID.
func (l *rowLister) handleText(key tidbkv.Key, handle tidbkv.Handle) (string, error) {
	if handle.IsInt() {
		if pk := l.table.GetPkColInfo(); pk != nil && mysql.HasUnsignedFlag(pk.GetFlag()) {
			return strconv.FormatUint(uint64(handle.IntValue()), 10), nil
		}
		return strconv.FormatInt(handle.IntValue(), 10), nil
	}
	columns := make([]*model.ColumnInfo, 0, 1)
	for _, ic := range tables.FindPrimaryIndex(l.table).Columns {
		columns = append(columns, l.table.Columns[ic.Offset])
	}
	texts, err := l.values(key, handle, columns)
	if err != nil {
		return "", err
	}
	return joined(texts), nil
}

// values are those of some columns, none of which is virtual, of the row with a key; nil for a NULL.
func (l *rowLister) values(key tidbkv.Key, handle tidbkv.Handle, columns []*model.ColumnInfo) ([]*string, error) {
	value, err := l.get(key)
	if err != nil {
		return nil, fmt.Errorf("read a row: %w", err)
	}
	fields := make(map[int64]*types.FieldType)
	for _, col := range columns {
		fields[col.ID] = &col.FieldType
	}
	var ids []int64
	switch {
	case l.table.PKIsHandle:
		pk := l.table.GetPkColInfo()
		ids, fields[pk.ID] = []int64{pk.ID}, &pk.FieldType
	case l.table.IsCommonHandle:
		for _, ic := range tables.FindPrimaryIndex(l.table).Columns {
			col := l.table.Columns[ic.Offset]
			ids, fields[col.ID] = append(ids, col.ID), &col.FieldType
		}
	}
	row := make(map[int64]types.Datum)
	if value != nil {
		if row, err = tablecodec.DecodeRowToDatumMap(value, fields, l.loc); err != nil {
			return nil, fmt.Errorf("decode row %x: %w", key, err)
		}
	}
	if row, err = tablecodec.DecodeHandleToDatumMap(handle, ids, fields, l.loc, row); err != nil {
		return nil, fmt.Errorf("decode row key %x: %w", key, err)
	}
	texts := make([]*string, len(columns))
	for i, col := range columns {
		d, stored := row[col.ID]
		if !stored && value != nil { // the row is older than the column
			d = types.NewDatum(col.GetOriginDefaultValue())
		}
		if !d.IsNull() {
			text := datumText(&d, &col.FieldType)
			texts[i] = &text
		}
	}
	return texts, nil
}

// joined are values as MySQL's error 1062 prints those of several columns.
func joined(texts []*string) string {
	out := make([]string, len(texts))
	for i, text := range texts {
		if out[i] = "NULL"; text != nil {
			out[i] = *text
		}
	}
	return strings.Join(out, "-")
}

// partition is the name of the partition with a physical ID; "" if the table has none.
func (l *rowLister) partition(physicalID int64) string {
	if partitions := l.table.GetPartitionInfo(); partitions != nil {
		return partitions.GetNameByID(physicalID)
	}
	return ""
}

// datumText is a value as TiDB shows it in error 1062.
func datumText(d *types.Datum, ft *types.FieldType) string {
	text, err := d.ToString()
	if err != nil {
		return "?"
	}
	if types.IsBinaryStr(ft) || types.IsTypeBit(ft) {
		return util.FmtNonASCIIPrintableCharToHex(text)
	}
	return text
}

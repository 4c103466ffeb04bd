package ddl

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

// maxDuplicatesText bounds the text of the values and handles that are listed in
// a job's record, in bytes.
const maxDuplicatesText = 64 << 10

// duplicateEntries is the error (1062) of a job with rows that have the same
// values in a unique index. It names the first of the groups, and lists as many as
// a job's record holds. TIMESTAMPs are shown as the clocks of loc show them; get
// reads a key at the snapshot that the groups were found at.
func duplicateEntries(table *model.TableInfo, loc *time.Location, get getter, groups []*ingest.DuplicateGroup) error {
	l := duplicateLister{table, loc, get}
	var list []job.Duplicate
	size := 0
	for _, g := range groups {
		d, err := l.list(g)
		if err != nil {
			return err
		}
		size += len(d.Entry)
		for _, h := range d.Handles {
			size += len(h)
		}
		if size > maxDuplicatesText && len(list) > 0 {
			break
		}
		list = append(list, d)
	}
	first := &list[0]
	return &job.DuplicateError{
		Err:        tidbkv.ErrKeyExists.FastGenByArgs(first.Entry, table.Name.O+"."+first.Index),
		Duplicates: list,
	}
}

// getter reads a key of a snapshot; it returns nil for one that does not exist.
type getter func(key []byte) ([]byte, error)

// getAt returns a getter of the snapshot at ts, and the function that ends it.
func getAt(ctx context.Context, store kv.Store, ts uint64) (getter, func() error, error) {
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

// duplicateLister names duplicates.
type duplicateLister struct {
	table *model.TableInfo
	loc   *time.Location
	get   getter
}

func (l *duplicateLister) list(g *ingest.DuplicateGroup) (job.Duplicate, error) {
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
	d := job.Duplicate{Index: idx.Name.O, Entry: entry, Rows: g.Rows}
	for _, r := range rows {
		text, err := l.handleText(recordKey(g.Key, r.handle), r.handle)
		if err != nil {
			return job.Duplicate{}, err
		}
		text += l.partitionText(r.handle)
		d.Handles = append(d.Handles, text)
	}
	return d, nil
}

// entryText is the entry's values as MySQL's error 1062 prints them.
func (l *duplicateLister) entryText(idx *model.IndexInfo, key, value []byte) (string, error) {
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
func (l *duplicateLister) handleText(key tidbkv.Key, handle tidbkv.Handle) (string, error) {
	if handle.IsInt() {
		if pk := l.table.GetPkColInfo(); pk != nil && mysql.HasUnsignedFlag(pk.GetFlag()) {
			return strconv.FormatUint(uint64(handle.IntValue()), 10), nil
		}
		return strconv.FormatInt(handle.IntValue(), 10), nil
	}
	value, err := l.get(key)
	if err != nil {
		return "", fmt.Errorf("read a duplicate row: %w", err)
	}
	var ids []int64
	fields := make(map[int64]*types.FieldType)
	for _, ic := range tables.FindPrimaryIndex(l.table).Columns {
		col := l.table.Columns[ic.Offset]
		ids = append(ids, col.ID)
		fields[col.ID] = &col.FieldType
	}
	row := make(map[int64]types.Datum)
	if value != nil {
		if row, err = tablecodec.DecodeRowToDatumMap(value, fields, l.loc); err != nil {
			return "", fmt.Errorf("decode row %x: %w", key, err)
		}
	}
	if row, err = tablecodec.DecodeHandleToDatumMap(handle, ids, fields, l.loc, row); err != nil {
		return "", fmt.Errorf("decode row key %x: %w", key, err)
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		d := row[id]
		texts[i] = datumText(&d, fields[id])
	}
	return strings.Join(texts, "-"), nil
}

// partitionText names the partition of a row that an entry of a global index names.
func (l *duplicateLister) partitionText(handle tidbkv.Handle) string {
	inPartition, ok := handle.(tidbkv.PartitionHandle)
	if !ok {
		return ""
	}
	return fmt.Sprintf(" in partition %s", l.table.GetPartitionInfo().GetNameByID(inPartition.PartitionID))
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

package floor

import (
	"context"
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"

	"fastddl/kv"
)

// scanOf returns the scan that a build of the indexes makes: of the columns in
// the indexes, and of no others.
func scanOf(table *model.TableInfo, indexes []*model.IndexInfo, ts uint64) (kv.ScanRequest, error) {
	r := kv.ScanRequest{Range: kv.PrefixRange(tablecodec.GenTableRecordPrefix(table.ID)), TS: ts}
	if table.GetPartitionInfo() != nil || table.IsCommonHandle {
		return r, errors.New("floor: of a table that is partitioned or clustered by other columns than an integer")
	}
	if table.PKIsHandle {
		r.HandleColIDs = []int64{table.GetPkColInfo().ID}
	}
	needed := make([]bool, len(table.Columns))
	for _, idx := range indexes {
		for _, ic := range idx.Columns {
			needed[ic.Offset] = true
		}
	}
	for i, col := range table.Columns {
		if !needed[i] {
			continue
		}
		if col.IsVirtualGenerated() {
			return r, fmt.Errorf("floor: of virtual column %s", col.Name.O)
		}
		r.Columns = append(r.Columns, rowcodec.ColInfo{ID: col.ID, IsPKHandle: table.PKIsHandle && mysql.HasPriKeyFlag(col.GetFlag()), Ft: &col.FieldType})
		r.Defaults = append(r.Defaults, types.Datum{})
	}
	return r, nil
}

// entriesOf returns the entries of an index at ts, in key order.
func entriesOf(ctx context.Context, store kv.Store, prefix []byte, ts uint64) (_ *entryList, err error) {
	snapshot, err := store.Snapshot(ctx, ts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	it, err := snapshot.Iter(kv.PrefixRange(prefix))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	list := new(entryList)
	for it.Valid() {
		list.add(it.Key(), it.Value())
		if err := it.Next(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// entryList is a list of entries, back to back in one buffer.
type entryList struct {
	data []byte
	keys []int // end of each key
	ends []int // end of each value
}

func (l *entryList) count() int { return len(l.ends) }

func (l *entryList) at(i int) (key, value []byte) {
	start := 0
	if i > 0 {
		start = l.ends[i-1]
	}
	return l.data[start:l.keys[i]], l.data[l.keys[i]:l.ends[i]]
}

func (l *entryList) add(key, value []byte) {
	l.data = append(l.data, key...)
	l.keys = append(l.keys, len(l.data))
	l.data = append(l.data, value...)
	l.ends = append(l.ends, len(l.data))
}

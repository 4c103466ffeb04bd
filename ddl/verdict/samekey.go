package verdict

import (
	"errors"
	"fmt"
	"strings"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/ddl/job"
	"fastddl/ingest"
)

// sameKeyOf returns the error of two rows that give an index one key although that names them; nil if err is none.
func sameKeyOf(err error) *ingest.SameKeyError {
	var same *ingest.SameKeyError
	if errors.As(err, &same) {
		return same
	}
	var dup *ingest.DuplicateError
	if !errors.As(err, &dup) {
		return nil
	}
	for _, g := range dup.Groups {
		if !namesRow(g) { // the key does
			return &ingest.SameKeyError{IndexID: g.IndexID, Key: g.Key}
		}
	}
	return nil
}

// namesRow says that the values of the entries of a group name their rows. Those of an entry with a NULL do not: its key does.
func namesRow(g *ingest.DuplicateGroup) bool {
	for _, value := range g.Values {
		var handle tidbkv.Handle
		err := listing(func() (err error) { handle, err = tablecodec.DecodeHandleInIndexValue(value); return err })
		if err != nil {
			return true // the lister says what is wrong
		}
		if inPartition, ok := handle.(tidbkv.PartitionHandle); ok && inPartition.Handle == nil || handle == nil {
			return false
		}
	}
	return true
}

// sameKey is the error of rows that give an index one key, although that ends with what distinguishes rows. EXCHANGE PARTITION brings rows into
// a partition whose hidden row IDs rows of other partitions have. The entries of a global index name rows by these IDs. unlisted is why it does
// not name the rows.
func (l *rowLister) sameKey(e *ingest.SameKeyError, found error) (v *job.RowsError, unlisted error) {
	name := fmt.Sprint(e.IndexID)
	index := model.FindIndexInfoByID(l.table.Indices, e.IndexID)
	if index != nil {
		name = index.Name.O
	}
	v = &job.RowsError{Shown: fmt.Errorf("two rows of table %s give index %s one key", l.table.Name.O, name)}
	v.Err = fmt.Errorf("%w: %w", v.Shown, found)
	unlisted = listing(func() (err error) {
		if index == nil {
			return fmt.Errorf("table %s has no index %d", l.table.Name.O, e.IndexID)
		}
		v.Rows, err = l.rowsWithKey(index, e.Key)
		return err
	})
	if len(v.Rows) < 2 {
		v.Rows = nil
		return v, unlisted
	}
	var where []string
	for _, r := range v.Rows {
		where = append(where, r.Partition)
	}
	text := func(id string) error {
		return fmt.Errorf("rows of partitions %s of table %s have the same row ID %s: entries of index %s cannot tell them apart; insert all but one of these rows anew",
			strings.Join(where, ", "), l.table.Name.O, id, name)
	}
	v.Err, v.Shown = text(v.Rows[0].Handle), text("?")
	for i := range v.Rows {
		v.Rows[i].Error, v.Rows[i].Shown = job.ErrorOf(v.Err), job.ErrorOf(v.Shown)
	}
	return v, unlisted
}

// rowsWithKey returns the rows, one of each partition, that a key of an index ends with.
func (l *rowLister) rowsWithKey(index *model.IndexInfo, key []byte) (rows []job.BadRow, err error) {
	handle, err := tablecodec.DecodeIndexHandle(key, []byte{0}, len(index.Columns))
	if err != nil {
		return nil, fmt.Errorf("decode a key of index %s: %w", index.Name.O, err)
	}
	partitions := l.table.GetPartitionInfo()
	if partitions == nil {
		return nil, nil
	}
	for _, p := range partitions.Definitions {
		key := tablecodec.EncodeRowKeyWithHandle(p.ID, handle)
		row, err := l.get(key)
		if err != nil {
			return rows, fmt.Errorf("look for a row in partition %s: %w", p.Name.O, err)
		}
		if row == nil {
			continue
		}
		text, err := l.handleText(key, handle)
		if err != nil {
			return rows, err
		}
		rows = append(rows, job.BadRow{Index: index.Name.O, Column: l.columnTexts(index), Partition: p.Name.O, Handle: text})
	}
	return rows, nil
}

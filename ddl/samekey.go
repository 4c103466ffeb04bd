package ddl

import (
	"errors"
	"fmt"
	"strings"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"

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
		handle, err := tablecodec.DecodeHandleInIndexValue(value)
		if err != nil {
			return true // the lister says what is wrong
		}
		if inPartition, ok := handle.(tidbkv.PartitionHandle); ok && inPartition.Handle == nil || handle == nil {
			return false
		}
	}
	return true
}

// sameKey is the error of rows that give an index one key, although that ends with what tells rows apart. EXCHANGE PARTITION brings rows into
// a partition whose hidden row IDs rows of other partitions have. The entries of a global index name rows by these IDs.
func sameKey(table *model.TableInfo, get getter, e *ingest.SameKeyError) error {
	index := model.FindIndexInfoByID(table.Indices, e.IndexID)
	if index == nil {
		return fmt.Errorf("two rows give one key to index %d, which table %s has not: %w", e.IndexID, table.Name.O, e)
	}
	handle, err := tablecodec.DecodeIndexHandle(e.Key, []byte{0}, len(index.Columns))
	if err != nil {
		return errors.Join(e, fmt.Errorf("decode a key of index %s: %w", index.Name.O, err))
	}
	l := duplicateLister{table: table, get: get}
	var where []string
	text := ""
	if partitions := table.GetPartitionInfo(); partitions != nil {
		for _, p := range partitions.Definitions {
			key := tablecodec.EncodeRowKeyWithHandle(p.ID, handle)
			row, err := get(key)
			if err != nil {
				return fmt.Errorf("look for a row in partition %s: %w", p.Name.O, err)
			}
			if row == nil {
				continue
			}
			if text, err = l.handleText(key, handle); err != nil {
				return err
			}
			where = append(where, p.Name.O)
		}
	}
	if len(where) < 2 {
		return fmt.Errorf("two rows of table %s give index %s one key: %w", table.Name.O, index.Name.O, e)
	}
	return fmt.Errorf("rows of partitions %s of table %s have the same row ID %s: entries of index %s cannot tell them apart; insert all but one of these rows anew",
		strings.Join(where, ", "), table.Name.O, text, index.Name.O)
}

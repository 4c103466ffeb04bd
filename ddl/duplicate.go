package ddl

import (
	"fmt"
	"slices"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/catalog"
	"fastddl/ddl/job"
	"fastddl/ingest"
	"fastddl/table"
)

// maxDuplicatesText bounds the text of the values and handles that are listed in
// a job's record, in bytes.
const maxDuplicatesText = 64 << 10

// duplicateEntries is the error (1062) of a job with rows that have the same
// values in a unique index. It names the first of the groups, and lists as many
// as a job's record holds. TIMESTAMPs are shown as the clocks of loc show them.
func duplicateEntries(tbl *model.TableInfo, loc *time.Location, groups []*ingest.DuplicateGroup) error {
	t := table.Of(&catalog.Table{Info: tbl})
	var list []job.Duplicate
	size := 0
	for _, g := range groups {
		d, err := listDuplicate(t, loc, g)
		if err != nil {
			return err
		}
		size += textSize(&d)
		if size > maxDuplicatesText && len(list) > 0 {
			break
		}
		list = append(list, d)
	}
	first := &list[0]
	return &job.DuplicateError{
		Err:        tkv.ErrKeyExists.FastGenByArgs(string(first.Entry), tbl.Name.O+"."+first.Index),
		Duplicates: list,
	}
}

func listDuplicate(t *table.Table, loc *time.Location, g *ingest.DuplicateGroup) (job.Duplicate, error) {
	idx := indexByID(t.Meta(), g.IndexID)
	if idx == nil {
		return job.Duplicate{}, fmt.Errorf("duplicate entry in index %d, which table %s has not", g.IndexID, t.Meta().Name.O)
	}
	values, err := byHandle(g.Values)
	if err != nil {
		return job.Duplicate{}, err
	}
	entry, err := t.EntryText(idx, g.Key, values[0], loc)
	if err != nil {
		return job.Duplicate{}, err
	}
	d := job.Duplicate{Index: idx.Name.O, Entry: []byte(entry), Rows: g.Rows}
	for _, value := range values {
		handle, err := t.EntryHandleText(idx, g.Key, value, loc)
		if err != nil {
			return job.Duplicate{}, err
		}
		d.Handles = append(d.Handles, []byte(handle))
	}
	return d, nil
}

// byHandle returns the values of unique entries in the order of their handles.
func byHandle(values [][]byte) ([][]byte, error) {
	type row struct {
		value  []byte
		handle tkv.Handle
	}
	rows := make([]row, len(values))
	for i, v := range values {
		h, err := tablecodec.DecodeHandleInIndexValue(v)
		if err != nil {
			return nil, fmt.Errorf("decode index value %x: %w", v, err)
		}
		rows[i] = row{v, h}
	}
	slices.SortFunc(rows, func(a, b row) int { return a.handle.Compare(b.handle) })
	sorted := make([][]byte, len(rows))
	for i, r := range rows {
		sorted[i] = r.value
	}
	return sorted, nil
}

func textSize(d *job.Duplicate) int {
	n := len(d.Entry)
	for _, h := range d.Handles {
		n += len(h)
	}
	return n
}

func indexByID(tbl *model.TableInfo, id int64) *model.IndexInfo {
	for _, idx := range tbl.Indices {
		if idx.ID == id {
			return idx
		}
	}
	return nil
}

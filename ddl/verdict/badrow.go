package verdict

import (
	"fmt"
	"strings"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/backfill/encode"
	"fastddl/ddl/job"
)

// badRows returns the error of a job with rows whose values give an index no entry: that of the first row, with MySQL's number. unlisted is why
// it does not say all of the rows.
func (l *rowLister) badRows(e *encode.RowError) (v *job.RowsError, unlisted error) {
	first := job.ErrorOf(e.Rows[0].Err)
	v = &job.RowsError{Err: first, Shown: job.WithoutValues(first)}
	size := 0
	for i := range e.Rows {
		bad := &e.Rows[i]
		row := job.BadRow{Index: bad.Index.Name.O, Error: job.ErrorOf(bad.Err)}
		row.Shown = job.WithoutValues(row.Error)
		if unlisted == nil { // what one row is not read for, the next ones are not either
			unlisted = listing(func() error { return l.describe(&row, bad) })
		}
		size += len(row.Handle) + len(row.Column) + len(row.Error.GetMsg())
		if row.Value != nil {
			size += len(*row.Value)
		}
		if size > maxRowsText && len(v.Rows) > 0 {
			break
		}
		v.Rows = append(v.Rows, row)
	}
	return v, unlisted
}

// describe says which row it is, and what it has.
func (l *rowLister) describe(row *job.BadRow, bad *encode.BadRow) error {
	physicalID, handle, err := tablecodec.DecodeRecordKey(bad.Key)
	if err != nil {
		return fmt.Errorf("decode row key %x: %w", bad.Key, err)
	}
	row.Partition = l.partition(physicalID)
	if bad.Column != nil {
		row.Column = columnText(bad.Column)
	}
	if row.Handle, err = l.handleText(bad.Key, handle); err != nil {
		return err
	}
	if bad.Column == nil {
		return nil
	}
	columns := l.bases(bad.Column)
	values, err := l.values(bad.Key, handle, columns)
	if err != nil {
		return err
	}
	switch {
	case len(columns) == 1 && values[0] != nil:
		text := cutText(*values[0])
		row.Value = &text
	case len(columns) > 1:
		text := cutText(joined(values))
		row.Value = &text
	}
	return nil
}

// bases are the columns that a column's value is computed from, in the table's order; the column itself if the rows have it.
func (l *rowLister) bases(column *model.ColumnInfo) []*model.ColumnInfo {
	if !column.IsVirtualGenerated() {
		return []*model.ColumnInfo{column}
	}
	needed := make([]bool, len(l.table.Columns))
	var need func(c *model.ColumnInfo)
	need = func(c *model.ColumnInfo) {
		if needed[c.Offset] {
			return
		}
		needed[c.Offset] = true
		for name := range c.Dependences {
			if from := model.FindColumnInfo(l.table.Columns, name); from != nil && c.IsVirtualGenerated() {
				need(from)
			}
		}
	}
	need(column)
	var bases []*model.ColumnInfo
	for _, c := range l.table.Columns {
		if needed[c.Offset] && !c.IsVirtualGenerated() {
			bases = append(bases, c)
		}
	}
	return bases
}

// columnText names a column; one that TiDB has made for an expression, by that.
func columnText(c *model.ColumnInfo) string {
	if c.Hidden {
		return c.GeneratedExprString
	}
	return c.Name.O
}

// columnTexts names the columns of an index.
func (l *rowLister) columnTexts(idx *model.IndexInfo) string {
	names := make([]string, len(idx.Columns))
	for i, ic := range idx.Columns {
		names[i] = columnText(l.table.Columns[ic.Offset])
	}
	return strings.Join(names, ", ")
}

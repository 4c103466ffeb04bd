package rows

import (
	"strings"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/util/dbterror/plannererrors"
)

// field is where a value of the source goes.
type field struct {
	column   int    // offset in the table; -1 for a user variable
	variable string // lower case
}

// fields says where the values of a row go.
type fields struct {
	list []field
	// exact reports that a row has exactly these values: other numbers are an error, as in INSERT. A row of CSV
	// may have more, which are ignored, or fewer, as in LOAD DATA.
	exact bool
}

// statementFields are the fields of a source that does not name its values: the list of the statement, or all
// visible columns.
func statementFields(c *importer.LoadDataController) fields {
	f := fields{exact: c.DataSourceType == importer.DataSourceTypeQuery || c.Format != importer.DataFormatCSV && c.Format != importer.DataFormatDelimitedData}
	for _, m := range c.FieldMappings {
		if m.Column == nil {
			f.list = append(f.list, field{column: -1, variable: strings.ToLower(m.UserVar.Name)})
		} else {
			f.list = append(f.list, field{column: m.Column.Offset})
		}
	}
	return f
}

// namedFields are the fields of values with names. A list of columns in the statement counts by position, as the
// names then are the statement's. lax allows names that are none of columns, if those that are stand at the
// columns' own positions: TiDB matches Parquet by position.
func namedFields(c *importer.LoadDataController, names []string, lax bool) (fields, error) {
	f := statementFields(c)
	if len(names) == 0 {
		return f, nil
	}
	if len(c.ColumnsAndUserVars) > 0 {
		if len(names) != len(f.list) {
			return f, plannererrors.ErrWrongValueCountOnRow.FastGenByArgs(1)
		}
		return f, nil
	}
	visible := c.Table.VisibleCols()
	columns := make([]*table.Column, len(names))
	unknown, inPlace := -1, true
	for i, name := range names {
		if columns[i] = table.FindCol(visible, name); columns[i] == nil {
			if unknown < 0 {
				unknown = i
			}
		} else {
			inPlace = inPlace && i < len(f.list) && f.list[i].column == columns[i].Offset
		}
	}
	if unknown >= 0 {
		if lax && inPlace && len(names) == len(f.list) {
			return f, nil
		}
		return f, plannererrors.ErrUnknownColumn.FastGenByArgs(names[unknown], "field list")
	}
	if err := table.CheckOnce(columns); err != nil {
		return f, err
	}
	f.list = f.list[:0]
	for _, column := range columns {
		f.list = append(f.list, field{column: column.Offset})
	}
	return f, nil
}

// assignedColumns are the columns of the statement's SET clause, in its order; those that TiDB leaves out are
// those of a statement whose list has as many columns as the table.
func assignedColumns(c *importer.LoadDataController) []*model.ColumnInfo {
	listed := 0
	for _, m := range c.FieldMappings {
		if m.Column != nil {
			listed++
		}
	}
	var assigned []*model.ColumnInfo
	for _, column := range c.InsertColumns[min(listed, len(c.InsertColumns)):] {
		assigned = append(assigned, column.ToInfo())
	}
	return assigned
}

package rows

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"
)

// Place is where a row stands in its source.
type Place struct {
	File string
	// Line counts from 1. It is the number of the row in a Parquet file or a query, and 0 if it is not known.
	Line int64
	// Offset is that of the row in the uncompressed file in bytes; rows before it in a Parquet file or a query.
	Offset int64
}

func (p Place) String() string {
	var b strings.Builder
	if p.File != "" {
		fmt.Fprintf(&b, "file %s, ", p.File)
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "line %d", p.Line)
	} else {
		fmt.Fprintf(&b, "offset %d", p.Offset)
	}
	return b.String()
}

// RowError is a row that cannot be loaded.
type RowError struct {
	Place Place
	// Column is the name of the column at fault; empty if none is known.
	Column string
	// Err is TiDB's error.
	Err error
	// Final reports that the reader cannot go on with the row after this one: the text is not a row.
	Final bool
}

func (e *RowError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("%v: %v", e.Place, e.Err)
	}
	return fmt.Sprintf("%v, column %s: %v", e.Place, e.Column, e.Err)
}

// Unwrap returns TiDB's error.
func (e *RowError) Unwrap() error { return e.Err }

// errChanged says that a file is not the one that was there when the import began.
var errChanged = errors.New("the file has changed since the import began")

// columnError is a value that a column does not take, before the row's place is known.
type columnError struct {
	column *model.ColumnInfo // nil if none is at fault
	value  types.Datum
	err    error
	// index reports that the column is the expression of an index.
	index bool
}

func (e *columnError) Error() string { return e.err.Error() }
func (e *columnError) Unwrap() error { return e.err }

// complete returns TiDB's error with the column's name and the row's number in it, as INSERT
// returns it: completeInsertErr and completeError in TiDB's pkg/executor/insert_common.go.
func (e *columnError) complete(info *model.TableInfo, line int64) error {
	if e.column == nil {
		return e.err
	}
	if e.index {
		return e.completeIndex(info, line)
	}
	name, typ, err := e.column.Name.String(), e.column.GetType(), e.err
	text := func() string {
		s, err := e.value.ToString()
		if err != nil {
			return "?"
		}
		return s
	}
	switch {
	case types.ErrDataTooLong.Equal(err):
		return types.ErrDataTooLong.FastGen("Data too long for column '%v' at row %v", name, line)
	case types.ErrOverflow.Equal(err), types.ErrWarnDataOutOfRange.Equal(err):
		return types.ErrWarnDataOutOfRange.FastGenByArgs(name, line)
	case types.ErrTruncated.Equal(err):
		return types.ErrTruncated.FastGenByArgs(name, line)
	case types.ErrTruncatedWrongVal.Equal(err) && (typ == mysql.TypeDuration || typ == mysql.TypeDatetime || typ == mysql.TypeDate || typ == mysql.TypeTimestamp):
		return exeerrors.ErrTruncateWrongInsertValue.FastGenByArgs(types.TypeStr(typ), text(), name, line)
	case types.ErrTruncatedWrongVal.Equal(err), types.ErrWrongValue.Equal(err):
		return table.ErrTruncatedWrongValueForField.FastGenByArgs(types.TypeStr(typ), text(), name, line)
	case typ == mysql.TypeTimestamp && types.ErrTimestampInDSTTransition.Equal(err):
		return exeerrors.ErrTruncateWrongInsertValue.FastGenByArgs(types.TypeStr(typ), text(), name, line)
	}
	return err
}

func (e *columnError) completeIndex(info *model.TableInfo, line int64) error {
	name := "expression_index"
	for _, idx := range info.Indices {
		for _, c := range idx.Columns {
			if c.Offset == e.column.Offset {
				name = idx.Name.O
			}
		}
	}
	switch {
	case expression.ErrInvalidJSONForFuncIndex.Equal(e.err):
		return expression.ErrInvalidJSONForFuncIndex.FastGenByArgs(name)
	case types.ErrOverflow.Equal(e.err):
		return expression.ErrDataOutOfRangeFuncIndex.FastGenByArgs(name, line)
	case types.ErrDataTooLong.Equal(e.err):
		return expression.ErrFuncIndexDataIsTooLong.FastGenByArgs(name)
	}
	return e.err
}

package rows

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/errctx"
	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/expression/exprctx"
	"github.com/pingcap/tidb/pkg/lightning/backend/encode"
	lkv "github.com/pingcap/tidb/pkg/lightning/backend/kv"
	"github.com/pingcap/tidb/pkg/lightning/common"
	litlog "github.com/pingcap/tidb/pkg/lightning/log"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/dbterror/plannererrors"
	"go.uber.org/zap"
)

// encoder makes the pairs of rows from their values. It must be used by one goroutine.
type encoder struct {
	info    *model.TableInfo
	target  table.Table
	columns []*table.Column
	session *lkv.Session
	ctx     exprctx.ExprContext
	errs    errctx.Context
	types   types.Context

	fields      fields
	assigned    []*model.ColumnInfo
	assignments []expression.Expression
	generated   []lkv.GeneratedCol
	// operands is the row as generated columns read it: the columns needed, and each generated one before.
	operands chunk.MutRow
	needed   []int
	// defaults are those of the columns that are the same in every row.
	defaults []*types.Datum
	auto     autoColumns
	plain    []plainColumn

	row    []types.Datum // of all columns, and the hidden row ID
	filled []bool
	buffer pairBuffer
}

// newEncoder returns an encoder of rows with the given fields at a time in seconds since 1970.
func (s *Source) newEncoder(f fields, now int64, ids *IDs) (*encoder, error) {
	session, err := lkv.NewSession(&encode.SessionOptions{SQLMode: s.c.SQLMode, Timestamp: now, SysVars: s.c.ImportantSysVars}, litlog.Logger{Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("load: a session to encode rows: %w", err)
	}
	e := &encoder{
		info: s.table, target: s.target, columns: s.target.Cols(), session: session,
		ctx: session.GetExprCtx(), errs: session.GetExprCtx().GetEvalCtx().ErrCtx(), types: session.GetExprCtx().GetEvalCtx().TypeCtx(),
		fields: f, assigned: assignedColumns(s.c),
	}
	if err := e.prepare(s); err != nil {
		session.Close()
		return nil, err
	}
	e.auto = newAutoColumns(s.table, s.c.SQLMode, ids)
	e.buffer.memory.follow(s.table)
	e.row = make([]types.Datum, len(e.columns), len(e.columns)+1)
	e.filled = make([]bool, len(e.columns))
	return e, nil
}

func (e *encoder) prepare(s *Source) (err error) {
	s.expressions.Lock()
	defer s.expressions.Unlock()
	if s.feed == nil { // the rows of a feed have all values: its session evaluates SET
		if e.assignments, _, err = s.c.CreateColAssignSimpleExprs(e.ctx); err != nil {
			return err
		}
	}
	e.generated, err = lkv.CollectGeneratedColumns(e.session, e.info, e.columns)
	if err != nil {
		return fmt.Errorf("load: generated columns of %s: %w", e.info.Name.O, err)
	}
	fieldTypes := make([]*types.FieldType, len(e.columns))
	e.plain = make([]plainColumn, len(e.columns))
	for i, column := range e.columns {
		fieldTypes[i] = &column.FieldType
		e.plain[i] = newPlainColumn(&column.FieldType)
	}
	e.operands = chunk.MutRowFromTypes(fieldTypes)
	for _, g := range e.generated {
		for _, column := range expression.ExtractColumns(g.Expr) {
			if !e.columns[column.Index].IsGenerated() && !slices.Contains(e.needed, column.Index) {
				e.needed = append(e.needed, column.Index)
			}
		}
	}
	e.defaults = make([]*types.Datum, len(e.columns))
	for i, column := range e.columns {
		if column.IsGenerated() || column.DefaultIsExpr {
			continue
		}
		// A column without a default fails with the first row that needs it.
		if d, err := table.GetColDefaultValue(e.ctx, column.ToInfo()); err == nil {
			e.defaults[i] = &d
		}
	}
	e.dropWarnings()
	return nil
}

// dropWarnings drops the warnings of the encoder's own session.
func (e *encoder) dropWarnings() {
	//lint:ignore SA1019 no one else reads the warnings of this session, and handlers cannot be replaced
	e.ctx.GetEvalCtx().TruncateWarnings(0)
}

// encode makes the pairs of a row; they are valid until the next call. Errors are *columnError.
func (e *encoder) encode(values []types.Datum) ([]common.KvPair, error) {
	// The warnings of a row share the memory of its text.
	defer e.dropWarnings()
	e.buffer.reset()
	e.row = e.row[:len(e.columns)]
	clear(e.row)
	clear(e.filled)
	if err := e.assign(values); err != nil {
		return nil, err
	}
	if err := e.fill(); err != nil {
		return nil, err
	}
	if err := e.generate(); err != nil {
		return nil, err
	}
	return e.addRecord()
}

// encodeWhole makes the pairs of a row that has the values of all columns; they are valid until the next call.
func (e *encoder) encodeWhole(values []types.Datum) ([]common.KvPair, error) {
	defer e.dropWarnings()
	if len(values) < len(e.columns) {
		return nil, fmt.Errorf("load: a row of %d values for %d columns", len(values), len(e.columns))
	}
	e.buffer.reset()
	e.row = append(e.row[:0], values[:len(e.columns)]...)
	if at := e.auto.offset; at >= 0 {
		e.auto.note(e.columns[at], &e.row[at])
	}
	return e.addRecord()
}

// addRecord makes the pairs of e.row.
func (e *encoder) addRecord() ([]common.KvPair, error) {
	if common.TableHasAutoRowID(e.info) {
		id, err := e.auto.newRowID()
		if err != nil {
			return nil, &columnError{err: err}
		}
		e.row = append(e.row, types.NewIntDatum(id))
	}
	if _, err := e.target.AddRecord(e.session.GetTableCtx(), &e.buffer, e.row, table.DupKeyCheckSkip); err != nil {
		return nil, &columnError{err: err}
	}
	if err := e.buffer.memory.again; err != nil {
		return nil, &columnError{err: err}
	}
	return e.buffer.pairs(), nil
}

// assign puts the values into the columns and variables that they are for.
func (e *encoder) assign(values []types.Datum) error {
	if e.fields.exact && len(values) != len(e.fields.list) {
		return &columnError{err: errWrongCount}
	}
	for i, f := range e.fields.list {
		var value types.Datum
		if i < len(values) {
			value = values[i]
		} else if f.column >= 0 {
			value = e.missing(e.columns[f.column])
		}
		if isDefault(&value) {
			if f.column >= 0 {
				continue
			}
			value.SetNull()
		}
		if f.column < 0 {
			if value.IsNull() {
				e.session.UnsetUserVar(f.variable)
			} else {
				e.session.SetUserVarVal(f.variable, value)
			}
			continue
		}
		if err := e.set(f.column, value); err != nil {
			return err
		}
	}
	for i, column := range e.assigned {
		value, err := e.assignments[i].Eval(e.ctx.GetEvalCtx(), chunk.Row{})
		if err != nil {
			return &columnError{column: column, err: err}
		}
		if err := e.set(column.Offset, value); err != nil {
			return err
		}
	}
	return nil
}

// errWrongCount becomes TiDB's error when the row's number is known.
var errWrongCount = errors.New("column count doesn't match value count")

// missing is the value of a column that a row of CSV has no field for: NULL, or the time of the statement, as
// TiDB's LOAD DATA and IMPORT INTO have it.
func (e *encoder) missing(column *table.Column) types.Datum {
	if !types.IsTypeTime(column.GetType()) || !mysql.HasNotNullFlag(column.GetFlag()) {
		return types.Datum{}
	}
	now, err := e.ctx.GetEvalCtx().CurrentTime()
	if err != nil {
		return types.Datum{}
	}
	return types.NewTimeDatum(types.NewTime(types.FromGoTime(now.In(e.ctx.GetEvalCtx().Location())), column.GetType(), 0))
}

// set casts a value to the type of a column. The value of a generated column is ignored, as LOAD DATA does.
func (e *encoder) set(offset int, value types.Datum) (err error) {
	column := e.columns[offset]
	if column.IsGenerated() {
		return nil
	}
	if value.Kind() != types.KindString || !e.plain[offset].cast(value.GetString(), &e.row[offset]) {
		e.row[offset], err = table.CastColumnValue(e.ctx, value, column.ToInfo(), false, false)
	}
	if err != nil {
		return &columnError{column: column.ToInfo(), value: value, err: err}
	}
	e.filled[offset] = true
	return nil
}

// fill gives the columns without a value the one that INSERT gives them, as InsertValues.fillRow does in TiDB's
// pkg/executor/insert_common.go.
func (e *encoder) fill() error {
	for i, column := range e.columns {
		switch {
		case column.IsGenerated():
			continue
		case e.auto.has(i):
			if err := e.auto.fill(e.ctx, column, &e.row[i], e.filled[i]); err != nil {
				return &columnError{column: column.ToInfo(), value: e.row[i], err: err}
			}
		case e.filled[i]:
		case e.defaults[i] != nil:
			e.row[i] = *e.defaults[i]
		default:
			value, err := table.GetColDefaultValue(e.ctx, column.ToInfo())
			if err != nil {
				return &columnError{column: column.ToInfo(), err: err}
			}
			e.row[i] = value
		}
		if e.row[i].IsNull() {
			if err := column.HandleBadNull(e.errs, &e.row[i], 0); err != nil {
				return &columnError{column: column.ToInfo(), err: err}
			}
		}
	}
	return nil
}

// generate computes the generated columns, those of expression indexes too. TiDB's IMPORT INTO leaves out the
// check of NULLs.
func (e *encoder) generate() error {
	if len(e.generated) == 0 {
		return nil
	}
	row := e.operands
	for _, i := range e.needed {
		row.SetDatum(i, e.row[i])
	}
	for _, g := range e.generated {
		column := e.columns[g.Index]
		value, err := g.Expr.Eval(e.ctx.GetEvalCtx(), row.ToRow())
		if err != nil && column.FieldType.IsArray() {
			return &columnError{column: column.ToInfo(), value: value, err: err, index: true}
		}
		if err := e.types.HandleTruncate(err); err != nil {
			return &columnError{column: column.ToInfo(), value: value, err: err}
		}
		cast, err := table.CastColumnValue(e.ctx, value, column.ToInfo(), false, false)
		if err != nil {
			return &columnError{column: column.ToInfo(), value: value, err: err}
		}
		if err := column.HandleBadNull(e.errs, &cast, 0); err != nil {
			return &columnError{column: column.ToInfo(), err: err}
		}
		if !column.FieldType.IsArray() { // no other column reads it
			row.SetDatum(g.Index, cast)
		}
		e.row[g.Index] = cast
	}
	return nil
}

func (e *encoder) close() { e.session.Close() }

// rowError names the row of an error of encode.
func (s *Source) rowError(err error, place Place) *RowError {
	row := &RowError{Place: place, Err: err}
	var column *columnError
	if errors.As(err, &column) {
		row.Err = column.complete(s.table, place.Line)
		if column.column != nil && !column.column.Hidden {
			row.Column = column.column.Name.O
		}
	}
	if errors.Is(row.Err, errWrongCount) {
		row.Err = plannererrors.ErrWrongValueCountOnRow.FastGenByArgs(place.Line)
	}
	return row
}

package backfill

import (
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/errctx"
	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/expression/exprstatic"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	contextutil "github.com/pingcap/tidb/pkg/util/context"

	"fastddl/config"
	"fastddl/kv"
)

// evaluation is the context that expressions are evaluated in. It does not change
// and may be shared.
type evaluation struct{ ctx *exprstatic.ExprContext }

// newEvaluation returns the context of a reorganization under an SQL mode, in a time zone, with
// the settings of functions, if any. What is an error and what is not is as in TiDB's own
// (ddl/reorg.go, newReorgExprCtxWithReorgMeta), so that its entries and ours are the same. The
// settings of functions are not: TiDB's evaluates with the defaults, and entries then differ from
// what DML writes where all sessions have other ones.
func newEvaluation(mode mysql.SQLMode, loc *time.Location, functions *config.FunctionSettings) evaluation {
	strict := mode.HasStrictMode()
	flags := types.StrictFlags.
		WithTruncateAsWarning(!strict).
		WithIgnoreInvalidDateErr(mode.HasAllowInvalidDatesMode()).
		WithIgnoreZeroInDate(!strict || mode.HasAllowInvalidDatesMode()).
		WithCastTimeToYearThroughConcat(true)
	unlessStrict := errctx.ResolveErrLevel(false, !strict)
	levels := errctx.LevelMap{
		errctx.ErrGroupTruncate:      unlessStrict,
		errctx.ErrGroupBadNull:       unlessStrict,
		errctx.ErrGroupNoDefault:     unlessStrict,
		errctx.ErrGroupDividedByZero: errctx.ResolveErrLevel(!mode.HasErrorForDivisionByZeroMode(), !strict),
	}
	eval := exprstatic.NewEvalContext(
		exprstatic.WithSQLMode(mode),
		exprstatic.WithLocation(loc),
		exprstatic.WithTypeFlags(flags),
		exprstatic.WithErrLevelMap(levels),
		exprstatic.WithWarnHandler(contextutil.IgnoreWarn),
	)
	cache := contextutil.NewPlanCacheTracker(contextutil.IgnoreWarn)
	ctx := exprstatic.NewExprContext(exprstatic.WithEvalCtx(eval), exprstatic.WithPlanCacheTracker(&cache))
	if functions != nil {
		eval = eval.Apply(
			exprstatic.WithDivPrecisionIncrement(functions.DivPrecisionIncrement),
			exprstatic.WithDefaultWeekFormatMode(functions.DefaultWeekFormat),
		)
		ctx = ctx.Apply(exprstatic.WithEvalCtx(eval), exprstatic.WithBlockEncryptionMode(functions.BlockEncryptionMode))
	}
	return evaluation{ctx}
}

// virtualColumns computes the virtual columns of a projection for batches of rows.
// Expressions hold buffers, so each worker has its own.
type virtualColumns struct {
	p       *projection
	columns []*expression.Column // by position in the layout
	offsets []int                // positions of the virtual ones
	results []*types.FieldType   // their types
	fields  []*types.FieldType   // of the layout
	zoned   []int                // positions of scanned TIMESTAMPs that expressions are computed from
	times   []int                // positions of virtual TIMESTAMPs
	batch   kv.RowBatch
}

// newVirtualColumns returns nil if the projection has none.
func newVirtualColumns(p *projection) (*virtualColumns, error) {
	if len(p.layout) == len(p.columns) {
		return nil, nil
	}
	if expression.BuildSimpleExpr == nil { // set by TiDB's planner, which every server links
		return nil, fmt.Errorf("%w: expressions of table %s in a program without TiDB's package planner/core", ErrUnsupported, p.table.Name.O)
	}
	v := &virtualColumns{p: p}
	for i, col := range p.layout {
		v.fields = append(v.fields, &col.FieldType)
		if i >= len(p.columns) {
			v.offsets = append(v.offsets, i)
			v.results = append(v.results, &col.FieldType)
		}
	}
	if p.zone != time.UTC {
		v.findTimes()
	}
	var err error
	v.columns, _, err = expression.ColumnInfos2ColumnsAndNames(p.exprs.ctx, pmodel.CIStr{}, p.table.Name, p.layout, p.table)
	if err != nil {
		return nil, fmt.Errorf("backfill: expressions of table %s: %w", p.table.Name.O, err)
	}
	return v, nil
}

// findTimes finds the TIMESTAMPs that are converted.
func (v *virtualColumns) findTimes() {
	used := make(map[string]bool)
	for _, i := range v.offsets {
		for name := range v.p.layout[i].Dependences {
			used[name] = true
		}
	}
	for i, col := range v.p.layout {
		switch {
		case col.GetType() != mysql.TypeTimestamp:
		case i >= len(v.p.columns):
			v.times = append(v.times, i)
		case used[col.Name.L]:
			v.zoned = append(v.zoned, i)
		}
	}
}

// extend returns b with the virtual columns behind those that were scanned, good
// until the next call. It fails with a *RowError if an expression has no value for a row.
//
// Expressions see TIMESTAMPs in the statement's zone, as DML gives them to its own. What is
// indexed are the scanned ones, not these turned back: of a time that clocks show twice the
// instant is lost. Where an expression gives such a time, it becomes the instant that DML takes.
func (v *virtualColumns) extend(b *kv.RowBatch, physicalID int64) (*kv.RowBatch, error) {
	rows := chunk.NewEmptyChunk(v.fields)
	for i := range v.p.columns {
		rows.SetCol(i, b.Rows.Column(i))
	}
	for _, i := range v.zoned {
		rows.SetCol(i, b.Rows.Column(i).CopyConstruct(nil))
		if err := v.convert(rows, i, time.UTC, v.p.zone); err != nil {
			return nil, err
		}
	}
	if len(v.p.columns) == 0 { // a chunk has as many rows as its first column
		for range b.NumRows() {
			rows.AppendNull(0)
		}
	}
	err := table.FillVirtualColumnValue(v.results, v.offsets, v.columns, v.p.layout, v.p.exprs.ctx, rows)
	for _, i := range v.times {
		if err == nil {
			err = v.convert(rows, i, v.p.zone, time.UTC)
		}
	}
	if err != nil {
		return nil, v.rowError(b, rows, physicalID, err)
	}
	for _, i := range v.zoned {
		rows.SetCol(i, b.Rows.Column(i))
	}
	v.batch = *b
	v.batch.Rows = rows
	return &v.batch, nil
}

// convert turns the times of a column from one zone into another.
func (v *virtualColumns) convert(rows *chunk.Chunk, i int, from, to *time.Location) error {
	col := rows.Column(i)
	times := col.Times()
	for row := range times {
		if col.IsNull(row) {
			continue
		}
		if err := times[row].ConvertTimeZone(from, to); err != nil {
			return fmt.Errorf("backfill: column %s of table %s: %w", v.p.layout[i].Name.O, v.p.table.Name.O, err)
		}
	}
	return nil
}

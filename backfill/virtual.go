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

	"fastddl/kv"
)

// evaluation is the context that expressions are evaluated in. It does not change
// and may be shared.
type evaluation struct{ ctx *exprstatic.ExprContext }

// newEvaluation returns the context of a reorganization under an SQL mode and in
// a time zone. What is an error and what is not is as in TiDB's own (ddl/reorg.go,
// newReorgExprCtxWithReorgMeta), so that its entries and ours are the same.
func newEvaluation(mode mysql.SQLMode, loc *time.Location) evaluation {
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
	return evaluation{exprstatic.NewExprContext(exprstatic.WithEvalCtx(eval), exprstatic.WithPlanCacheTracker(&cache))}
}

// virtualColumns computes the virtual columns of a projection for batches of rows.
// Expressions hold buffers, so each worker has its own.
type virtualColumns struct {
	p       *projection
	columns []*expression.Column // by position in the layout
	offsets []int                // positions of the virtual ones
	results []*types.FieldType   // their types
	fields  []*types.FieldType   // of the layout
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
	var err error
	v.columns, _, err = expression.ColumnInfos2ColumnsAndNames(p.exprs.ctx, pmodel.CIStr{}, p.table.Name, p.layout, p.table)
	if err != nil {
		return nil, fmt.Errorf("backfill: expressions of table %s: %w", p.table.Name.O, err)
	}
	return v, nil
}

// extend returns b with the virtual columns behind those that were scanned, good
// until the next call.
func (v *virtualColumns) extend(b *kv.RowBatch) (*kv.RowBatch, error) {
	rows := chunk.NewEmptyChunk(v.fields)
	for i := range v.p.columns {
		rows.SetCol(i, b.Rows.Column(i))
	}
	if len(v.p.columns) == 0 { // a chunk has as many rows as its first column
		for range b.NumRows() {
			rows.AppendNull(0)
		}
	}
	err := table.FillVirtualColumnValue(v.results, v.offsets, v.columns, v.p.layout, v.p.exprs.ctx, rows)
	if err != nil {
		return nil, v.fail(err)
	}
	v.batch = *b
	v.batch.Rows = rows
	return &v.batch, nil
}

// fail says which index an expression has no value for, as TiDB does.
func (v *virtualColumns) fail(err error) error {
	if expression.ErrInvalidJSONForFuncIndex.Equal(err) {
		for _, idx := range v.p.indexes {
			if idx.MVIndex {
				err = expression.ErrInvalidJSONForFuncIndex.FastGenByArgs(idx.Name.O)
				break
			}
		}
	}
	return fmt.Errorf("backfill: virtual columns of table %s: %w", v.p.table.Name.O, err)
}

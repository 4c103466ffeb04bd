package encode

import (
	"time"

	"github.com/pingcap/tidb/pkg/errctx"
	"github.com/pingcap/tidb/pkg/expression/exprstatic"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	contextutil "github.com/pingcap/tidb/pkg/util/context"

	"fastddl/config"
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

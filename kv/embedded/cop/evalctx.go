package cop

import (
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/errctx"
	"github.com/pingcap/tidb/pkg/expression/exprstatic"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/timeutil"
	"github.com/pingcap/tipb/go-tipb"
)

// evalEnv is what the expressions of one request are built and evaluated in: the part of the session that the request
// carries.
type evalEnv struct {
	expr     *exprstatic.ExprContext
	eval     *exprstatic.EvalContext
	loc      *time.Location
	warnings *warnings

	// What ends with the request, see recycle.
	chunks   chunk.Allocator
	memories []*keyMemory
	buffer   *[]byte // nil unless rows were encoded into it
}

// noUserVars is shared by all requests: user variables are constants by the time a query is pushed down.
var noUserVars = variable.NewUserVars()

// newEvalEnv reads the session's settings from a DAG request. What a request does not carry has TiDB's default.
func newEvalEnv(req *tipb.DAGRequest) (*evalEnv, error) {
	loc, err := location(req.TimeZoneName, req.TimeZoneOffset)
	if err != nil {
		return nil, err
	}
	warns := &warnings{max: defaultMaxWarnings}
	if req.MaxWarningCount != nil {
		warns.max = int(*req.MaxWarningCount)
	}
	typeFlags := typeFlagsOf(req.Flags)
	opts := make([]exprstatic.EvalCtxOption, 0, 9)
	opts = append(opts,
		exprstatic.WithWarnHandler(warns),
		exprstatic.WithLocation(loc),
		exprstatic.WithTypeFlags(typeFlags),
		exprstatic.WithErrLevelMap(errorLevels(req.Flags, typeFlags)),
		exprstatic.WithUserVarsReader(noUserVars),
	)
	if req.SqlMode != nil {
		opts = append(opts, exprstatic.WithSQLMode(mysql.SQLMode(*req.SqlMode)))
	}
	if req.DivPrecisionIncrement != nil {
		opts = append(opts, exprstatic.WithDivPrecisionIncrement(int(*req.DivPrecisionIncrement)))
	}
	if req.MaxAllowedPacket != nil {
		opts = append(opts, exprstatic.WithMaxAllowedPacket(*req.MaxAllowedPacket))
	}
	eval := exprstatic.NewEvalContext(opts...)
	return &evalEnv{
		expr:     exprstatic.NewExprContext(exprstatic.WithEvalCtx(eval)),
		eval:     eval,
		loc:      loc,
		warnings: warns,
		chunks:   allocators.Get().(chunk.Allocator),
	}, nil
}

// location returns the session's time zone; the offset (in seconds) counts only where there is no name.
func location(name string, offset int64) (*time.Location, error) {
	if name == "" {
		return time.FixedZone("UTC", int(offset)), nil
	}
	loc, err := timeutil.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone of the request: %w", err)
	}
	return loc, nil
}

// typeFlagsOf returns how conversions treat bad data, from the flags of a request (model.Flag...).
func typeFlagsOf(flags uint64) types.Flags {
	return types.DefaultStmtFlags.
		WithIgnoreTruncateErr(flags&model.FlagIgnoreTruncate != 0).
		WithTruncateAsWarning(flags&model.FlagTruncateAsWarning != 0).
		WithIgnoreZeroInDate(flags&model.FlagIgnoreZeroInDate != 0).
		WithAllowNegativeToUnsigned(flags&model.FlagInInsertStmt == 0)
}

// errorLevels returns which errors are only warnings, or nothing, from the flags of a request.
//
// A division by zero that sql_mode has DML ignore is sent as a warning, as TiDB has no flag for it. In strict mode
// truncation is an error then, which it is not where TiDB means a warning. In other modes, and with IGNORE, the flags do not
// distinguish the two, and it stays a warning. (TiKV does not know the mode and ignores every division by zero in DML;
// unistore warns wherever it does not fail.)
func errorLevels(flags uint64, typeFlags types.Flags) errctx.LevelMap {
	var levels errctx.LevelMap // the zero value of a level is "error"
	switch {
	case typeFlags.IgnoreTruncateErr():
		levels[errctx.ErrGroupTruncate] = errctx.LevelIgnore
	case typeFlags.TruncateAsWarning():
		levels[errctx.ErrGroupTruncate] = errctx.LevelWarn
	}
	dml := flags&(model.FlagInInsertStmt|model.FlagInUpdateOrDeleteStmt) != 0
	switch {
	case flags&model.FlagDividedByZeroAsWarning == 0:
	case dml && !typeFlags.TruncateAsWarning():
		levels[errctx.ErrGroupDividedByZero] = errctx.LevelIgnore
	default:
		levels[errctx.ErrGroupDividedByZero] = errctx.LevelWarn
	}
	return levels
}

package sysvar

import (
	"math"
	"strconv"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

// repair gives variables of go-mysql-server MySQL's ranges.
func repair(base gms.SystemVariableRegistry) {
	clampIntegers(base)
	const (
		lockWait    = "innodb_lock_wait_timeout" // as shipped it takes the value 1 only
		selectLimit = "sql_select_limit"         // as shipped it is signed: drivers' 2^64-1 becomes LIMIT -1
	)
	both := gms.GetMysqlScope(gms.SystemVariableScope_Both)
	base.AddSystemVariables([]gms.SystemVariable{
		clamped{&gms.MysqlSystemVariable{
			Name: lockWait, Scope: both, Dynamic: true,
			Type: types.NewSystemIntType(lockWait, 1, 1<<30, false), Default: int64(50),
		}},
		&gms.MysqlSystemVariable{
			Name: selectLimit, Scope: both, Dynamic: true, SetVarHintApplies: true,
			Type: types.NewSystemUintType(selectLimit, 0, math.MaxUint64), Default: uint64(math.MaxUint64),
		},
	})
}

// describe sets the variables that describe this server.
func describe(base gms.SystemVariableRegistry, opts Options) error {
	const secureFilePriv = "secure_file_priv"
	// As shipped it cannot be NULL, which says that no file is accessible.
	files := &gms.MysqlSystemVariable{
		Name: secureFilePriv, Scope: gms.GetMysqlScope(gms.SystemVariableScope_Global),
		Type: types.NewSystemStringType(secureFilePriv),
	}
	if opts.SecureFilePriv != "" {
		files.Default = opts.SecureFilePriv
	}
	base.AddSystemVariables([]gms.SystemVariable{files})
	return base.AssignValues(map[string]any{
		"version":         ServerVersion(opts.Version),
		"version_comment": "fastddl " + opts.Version,
		// Names are stored as given and compared in lower case, as in TiDB.
		"lower_case_table_names": int64(2),
	})
}

// clamped is an integer variable of go-mysql-server that clamps a number outside
// its range with warning 1292, as MySQL does, instead of refusing it.
type clamped struct{ *gms.MysqlSystemVariable }

var _ gms.SystemVariable = clamped{}

// clampIntegers replaces the integer variables of a registry by clamped ones.
func clampIntegers(base gms.SystemVariableRegistry) {
	var replaced []gms.SystemVariable
	for name := range base.GetAllGlobalVariables() {
		sysVar, _, _ := base.GetGlobal(name)
		v, ok := sysVar.(*gms.MysqlSystemVariable)
		if !ok || v.ValueFunction != nil || !v.Dynamic {
			continue
		}
		if t, ok := v.Type.(gms.SystemVariableType); ok && (t.Type() == sqltypes.Int64 || t.Type() == sqltypes.Uint64) {
			replaced = append(replaced, clamped{v})
		}
	}
	base.AddSystemVariables(replaced)
}

// SetValue implements gms.SystemVariable.
func (c clamped) SetValue(ctx *gms.Context, val any, global bool) (gms.SystemVarValue, error) {
	svv, err := c.MysqlSystemVariable.SetValue(ctx, val, global)
	if !gms.ErrInvalidSystemVariableValue.Is(err) {
		return c.wrap(svv), err
	}
	nearest, text, ok := c.nearest(ctx, val)
	if !ok {
		return gms.SystemVarValue{}, err
	}
	svv, err = c.MysqlSystemVariable.SetValue(ctx, nearest, global)
	if err == nil {
		warnTruncated(ctx, c.Name, text)
	}
	return c.wrap(svv), err
}

// InitValue implements gms.SystemVariable.
func (c clamped) InitValue(ctx *gms.Context, val any, global bool) (gms.SystemVarValue, error) {
	svv, err := c.MysqlSystemVariable.InitValue(ctx, val, global)
	return c.wrap(svv), err
}

// wrap keeps the clamping variable in what a session remembers.
func (c clamped) wrap(svv gms.SystemVarValue) gms.SystemVarValue {
	if svv.Var != nil {
		svv.Var = c
	}
	return svv
}

// nearest returns the accepted integer nearest to val. The type keeps its bounds
// to itself, so it is asked: the default is accepted and val is not, and what
// is accepted is one interval.
func (c clamped) nearest(ctx *gms.Context, val any) (nearest int64, text string, ok bool) {
	bad, ok := integer(val)
	if !ok {
		return 0, "", false
	}
	good, ok := integer(c.Default)
	if !ok {
		return 0, "", false
	}
	text = strconv.FormatInt(bad, 10)
	accepts := func(n int64) bool {
		_, _, err := c.Type.Convert(ctx, n)
		return err == nil
	}
	if !accepts(good) {
		return 0, "", false
	}
	for {
		mid := good/2 + bad/2 + (good%2+bad%2)/2
		if mid == good || mid == bad {
			return good, text, true
		}
		if accepts(mid) {
			good = mid
		} else {
			bad = mid
		}
	}
}

func integer(val any) (int64, bool) {
	switch val := val.(type) {
	case int:
		return int64(val), true
	case int8:
		return int64(val), true
	case int16:
		return int64(val), true
	case int32:
		return int64(val), true
	case int64:
		return val, true
	case uint8:
		return int64(val), true
	case uint16:
		return int64(val), true
	case uint32:
		return int64(val), true
	case uint64:
		return int64(min(val, 1<<63-1)), true
	}
	return 0, false
}

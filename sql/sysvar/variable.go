package sysvar

import (
	"fmt"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"fastddl/config"
	"fastddl/sql/sqlerr"
)

// variable shows one of our variables to go-mysql-server.
type variable struct {
	def *config.SysVar
	reg *registry
}

var _ gms.SystemVariable = (*variable)(nil)

func (v *variable) GetName() string { return v.def.Name }

func (v *variable) GetType() gms.Type {
	switch v.def.Kind {
	case config.KindBool:
		return types.NewSystemBoolType(v.def.Name)
	case config.KindInt, config.KindByteSize:
		// Not a system variable type: that would refuse a number outside its
		// range, and text such as '64MiB', before SetValue sees it.
		return types.Int64
	default:
		return types.LongText
	}
}

func (v *variable) GetSessionScope() gms.SystemVariableScope {
	if v.def.InSession() {
		return gms.GetMysqlScope(gms.SystemVariableScope_Session)
	}
	return scope{v}
}

// SetDefault does nothing: the defaults are in package config.
func (v *variable) SetDefault(any) {}

func (v *variable) GetDefault() any { return sqlValue(v.def, v.def.Default) }

func (v *variable) InitValue(ctx *gms.Context, val any, global bool) (gms.SystemVarValue, error) {
	return v.SetValue(ctx, val, global)
}

func (v *variable) SetValue(ctx *gms.Context, val any, global bool) (gms.SystemVarValue, error) {
	if !global {
		return v.sessionValue(ctx, val)
	}
	vars := v.reg.varsOf(ctx)
	if err := vars.setFromSQL(ctx, v.def, val); err != nil {
		return gms.SystemVarValue{}, err
	}
	return gms.SystemVarValue{Var: v, Val: vars.get(v.def)}, nil
}

// sessionValue is what SET SESSION makes the session keep.
func (v *variable) sessionValue(ctx *gms.Context, val any) (gms.SystemVarValue, error) {
	if !v.def.InSession() {
		return gms.SystemVarValue{}, gms.ErrSystemVariableGlobalOnly.New(v.def.Name)
	}
	text, err := textOf(v.def, val)
	if err != nil {
		return gms.SystemVarValue{}, err
	}
	canonical, _, err := v.def.Normalize(text)
	if err != nil {
		return gms.SystemVarValue{}, sqlerr.Translate(err)
	}
	return gms.SystemVarValue{Var: v, Val: sqlValue(v.def, canonical)}, nil
}

func (v *variable) IsReadOnly() bool { return false }

func (v *variable) IsGlobalOnly() bool { return !v.def.InSession() }

func (v *variable) DisplayString(specifiedScope string) string {
	if specifiedScope == "" {
		return "@@" + v.def.Name
	}
	return fmt.Sprintf("@@%s.%s", specifiedScope, v.def.Name)
}

// scope is what @@x and SET SESSION x resolve to: the value in force, which
// cannot be set for a session.
type scope struct{ v *variable }

var _ gms.SystemVariableScope = scope{}

func (s scope) SetValue(ctx *gms.Context, _ string, val any) error {
	_, err := s.v.SetValue(ctx, val, false)
	return err
}

func (s scope) GetValue(ctx *gms.Context, _ string, _ gms.CollationID) (any, error) {
	return s.v.reg.varsOf(ctx).get(s.v.def), nil
}

func (s scope) IsGlobalOnly() bool { return true }

func (s scope) IsSessionOnly() bool { return false }

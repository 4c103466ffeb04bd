package sysvar

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	gms "github.com/dolthub/go-mysql-server/sql"

	// The package's init builds the registry that ours wraps.
	_ "github.com/dolthub/go-mysql-server/sql/variables"

	"fastddl/config"
)

// Session is implemented by sessions that know their engine's variables.
type Session interface {
	SysVars() *Vars
}

// registry is the process' registry of system variables: ours in front of those
// of go-mysql-server.
type registry struct {
	gms.SystemVariableRegistry
	own    map[string]*variable
	newest atomic.Pointer[Vars]
}

var _ gms.SystemVariableRegistry = (*registry)(nil)

var process struct {
	sync.Mutex
	registry *registry
}

// Register makes an engine's variables known to go-mysql-server. Call it before
// the engine's first session.
func Register(opts Options) (*Vars, error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	vars := &Vars{opts: opts}

	process.Lock()
	defer process.Unlock()
	// Written once only: sessions of earlier engines read it without a lock.
	if process.registry == nil {
		reg := newRegistry(gms.SystemVariables)
		reg.newest.Store(vars)
		process.registry, gms.SystemVariables = reg, reg
	}
	process.registry.newest.Store(vars)
	if err := describe(process.registry.SystemVariableRegistry, opts); err != nil {
		return nil, fmt.Errorf("sysvar: %w", err)
	}
	return vars, nil
}

func newRegistry(base gms.SystemVariableRegistry) *registry {
	reg := &registry{SystemVariableRegistry: base, own: make(map[string]*variable, len(config.SysVars))}
	for i := range config.SysVars {
		def := &config.SysVars[i]
		reg.own[def.Name] = &variable{def: def, reg: reg}
	}
	repair(base)
	return reg
}

// varsOf returns the variables of the session's engine.
func (r *registry) varsOf(ctx *gms.Context) *Vars {
	if ctx != nil {
		if s, ok := ctx.Session.(Session); ok && s.SysVars() != nil {
			return s.SysVars()
		}
	}
	return r.newest.Load()
}

func (r *registry) lookup(name string) (*variable, bool) {
	v, ok := r.own[strings.ToLower(name)]
	return v, ok
}

// AssignValues implements gms.SystemVariableRegistry.
func (r *registry) AssignValues(vals map[string]any) error {
	rest := make(map[string]any, len(vals))
	for name, val := range vals {
		v, ok := r.lookup(name)
		if !ok {
			rest[name] = val
			continue
		}
		if _, err := v.SetValue(gms.NewEmptyContext(), val, true); err != nil {
			return err
		}
	}
	return r.SystemVariableRegistry.AssignValues(rest)
}

// NewSessionMap implements gms.SystemVariableRegistry. A session needs our
// variables in its map to know that they exist; it shows the values of those
// that it has no value of its own of through their scope, or RefreshGlobals.
func (r *registry) NewSessionMap() map[string]gms.SystemVarValue {
	m := r.SystemVariableRegistry.NewSessionMap()
	vars := r.newest.Load()
	for name, v := range r.own {
		m[name] = gms.SystemVarValue{Var: v, Val: vars.get(v.def)}
	}
	return m
}

// GetGlobal implements gms.SystemVariableRegistry.
func (r *registry) GetGlobal(name string) (gms.SystemVariable, any, bool) {
	if v, ok := r.lookup(name); ok {
		return v, r.newest.Load().get(v.def), true
	}
	return r.SystemVariableRegistry.GetGlobal(name)
}

// SetGlobal implements gms.SystemVariableRegistry. Ours are not set under the
// lock of go-mysql-server's registry, which every new session needs: a SET
// GLOBAL waits for the store.
func (r *registry) SetGlobal(ctx *gms.Context, name string, val any) error {
	if v, ok := r.lookup(name); ok {
		_, err := v.SetValue(ctx, val, true)
		return err
	}
	return r.SystemVariableRegistry.SetGlobal(ctx, name, val)
}

// GetAllGlobalVariables implements gms.SystemVariableRegistry.
func (r *registry) GetAllGlobalVariables() map[string]any {
	m := r.SystemVariableRegistry.GetAllGlobalVariables()
	vars := r.newest.Load()
	for name, v := range r.own {
		m[name] = vars.get(v.def)
	}
	return m
}

// RefreshGlobals replaces, in the variables that a session is about to show,
// those that exist only globally by their values in force: a session of
// go-mysql-server shows them as they were when it began. Sessions call it from
// GetAllSessionVariables.
func (v *Vars) RefreshGlobals(vars map[string]any) {
	for name := range vars {
		def, ok := config.LookupSysVar(name)
		if ok {
			if !def.InSession() {
				vars[name] = v.get(def)
			}
			continue
		}
		sysVar, val, ok := gms.SystemVariables.GetGlobal(name)
		if ok && val != nil && sysVar.IsGlobalOnly() {
			vars[name] = val
		}
	}
}

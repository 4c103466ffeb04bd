package sql

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/pingcap/tidb/pkg/sessionctx/variable"

	"fastddl/config"
	"fastddl/ddl/job"
)

const ownPrefix = "fastddl_"

// followers are the Globals of open layers. TiDB's system variables are of the
// whole process, and so are what they are copied to.
var followers struct {
	sync.Mutex
	all map[*config.Globals]struct{}
}

func follow(g *config.Globals) {
	followers.Lock()
	defer followers.Unlock()
	if followers.all == nil {
		followers.all = make(map[*config.Globals]struct{})
	}
	followers.all[g] = struct{}{}
}

func unfollow(g *config.Globals) {
	followers.Lock()
	defer followers.Unlock()
	delete(followers.all, g)
}

// pass copies the value of a global variable to all followers.
func pass(name, value string) error {
	followers.Lock()
	defer followers.Unlock()
	for g := range followers.all {
		if _, _, err := g.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// registerVariables registers our variables in TiDB, and a callback for those of
// TiDB's that builds follow. TiDB calls SetGlobal when a variable is set, when it
// starts, and when another server has set one.
var registerVariables = sync.OnceFunc(func() {
	if variable.GetSysVar(config.MaxDistTaskNodes) == nil {
		variable.RegisterSysVar(maxNodesVariable())
	}
	variable.RegisterSysVar(submitKeyVariable())
	for i := range config.SysVars {
		v := &config.SysVars[i]
		switch known := variable.GetSysVar(v.Name); {
		case v.InSession && v.Kind == config.KindEnum && strings.HasPrefix(v.Name, ownPrefix):
			variable.RegisterSysVar(&variable.SysVar{
				Scope: variable.ScopeGlobal | variable.ScopeSession, Name: v.Name, Value: v.Default,
				Type: variable.TypeEnum, PossibleValues: v.Values,
			})
		case v.Name == config.DDLWindow:
			variable.RegisterSysVar(windowVariable(v))
		case strings.HasPrefix(v.Name, ownPrefix):
			variable.RegisterSysVar(ownVariable(v))
		case known != nil && known.HasGlobalScope():
			variable.RegisterSysVar(followedVariable(known, v))
		}
	}
})

// ownVariable is a variable of ours as TiDB knows it. Values outside the range are
// clamped with a warning, as TiDB does.
func ownVariable(v *config.SysVar) *variable.SysVar {
	scope := variable.ScopeGlobal
	if v.InSession {
		scope |= variable.ScopeSession
	}
	return &variable.SysVar{
		Scope: scope, Name: v.Name, Value: v.Default, Type: variable.TypeStr,
		Validation: func(vars *variable.SessionVars, _, original string, _ variable.ScopeFlag) (string, error) {
			value, clamped, err := v.Normalize(original)
			var fraction *config.ErrWrongType
			if errors.As(err, &fraction) {
				return "", variable.ErrWrongTypeForVar.GenWithStackByArgs(v.Name)
			}
			if err != nil {
				return "", variable.ErrWrongValueForVar.GenWithStackByArgs(v.Name, original)
			}
			if clamped {
				vars.StmtCtx.AppendWarning(variable.ErrTruncatedWrongValue.FastGenByArgs(v.Name, original))
			}
			return value, nil
		},
		SetGlobal: func(_ context.Context, _ *variable.SessionVars, value string) error { return pass(v.Name, value) },
	}
}

// submitKeyText is what a key may be.
var submitKeyText = regexp.MustCompile(`^[\x21-\x7e]{0,64}$`)

// submitKeyVariable is the key of what a session submits; empty is none.
func submitKeyVariable() *variable.SysVar {
	return &variable.SysVar{
		Scope: variable.ScopeSession, Name: config.SubmitKey, Value: "", Type: variable.TypeStr,
		Validation: func(_ *variable.SessionVars, _, original string, _ variable.ScopeFlag) (string, error) {
			if !submitKeyText.MatchString(original) {
				return "", variable.ErrWrongValueForVar.GenWithStackByArgs(config.SubmitKey, original)
			}
			return original, nil
		},
	}
}

// windowVariable is ownVariable for a window. Its text is what the window means: without a time zone it is one of UTC.
func windowVariable(v *config.SysVar) *variable.SysVar {
	own := ownVariable(v)
	own.Validation = func(_ *variable.SessionVars, _, original string, _ variable.ScopeFlag) (string, error) {
		return windowText(original)
	}
	return own
}

// windowText returns the canonical text of a window, or MySQL's error 1231.
func windowText(text string) (string, error) {
	w, err := job.ParseWindow(text)
	if err != nil {
		return "", variable.ErrWrongValueForVar.GenWithStackByArgs(config.DDLWindow, text)
	}
	return w.String(), nil
}

// followedVariable is a variable of TiDB's that is passed on to us too. Its range
// is ours where ours is wider: TiDB's least quota of the disk is 100 GiB.
func followedVariable(known *variable.SysVar, v *config.SysVar) *variable.SysVar {
	followed := *known
	if v.Name == config.DiskQuota {
		followed.MinValue = min(followed.MinValue, v.Min)
	}
	set := known.SetGlobal
	followed.SetGlobal = func(ctx context.Context, vars *variable.SessionVars, value string) error {
		if set != nil {
			if err := set(ctx, vars, value); err != nil {
				return err
			}
		}
		return pass(v.Name, value)
	}
	return &followed
}

// automaticNodes is the value of tidb_max_dist_task_nodes that leaves the number to the
// server, and mostNodes the greatest.
const (
	automaticNodes = -1
	mostNodes      = 128
)

// maxNodesVariable is a variable that later releases of TiDB have: how many nodes share a
// build. It is known under their name, and has their range.
func maxNodesVariable() *variable.SysVar {
	return &variable.SysVar{
		Scope: variable.ScopeGlobal | variable.ScopeSession, Name: config.MaxDistTaskNodes, Value: strconv.Itoa(automaticNodes),
		Type: variable.TypeInt, MinValue: automaticNodes, MaxValue: mostNodes,
		Validation: func(_ *variable.SessionVars, value, original string, _ variable.ScopeFlag) (string, error) {
			if variable.TidbOptInt(value, 0) == 0 {
				return "", variable.ErrWrongValueForVar.GenWithStackByArgs(config.MaxDistTaskNodes, original)
			}
			return value, nil
		},
	}
}

package sysvar

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/errno"

	"fastddl/config"
	"fastddl/sql/sqlerr"
)

// MySQLVersion is the version of MySQL that clients are told to expect.
const MySQLVersion = "8.0.40"

// ServerVersion is what the handshake, VERSION() and @@version say for the given
// version of fastddl.
func ServerVersion(version string) string { return MySQLVersion + "-fastddl-" + version }

// Store persists global variables; catalog.Catalog implements it.
type Store interface {
	SetGlobalVar(ctx context.Context, name, value string) error
	GlobalVars(ctx context.Context) (map[string]string, error)
}

// Options configures the variables of an engine.
type Options struct {
	// Globals holds the values in force. Required.
	Globals *config.Globals
	// Store persists them. Required.
	Store Store
	// Version is the version of fastddl. Default "dev".
	Version string
	// SecureFilePriv is the value of secure_file_priv; empty is NULL.
	SecureFilePriv string
}

// EnsureDefaults fills in what is zero.
func (o *Options) EnsureDefaults() {
	if o.Version == "" {
		o.Version = "dev"
	}
}

// Validate lists every problem with the options.
func (o *Options) Validate() error {
	var errs []error
	if o.Globals == nil {
		errs = append(errs, errors.New("sysvar: Globals is missing"))
	}
	if o.Store == nil {
		errs = append(errs, errors.New("sysvar: Store is missing"))
	}
	return errors.Join(errs...)
}

// Vars are the global variables of one engine. All methods may be called
// concurrently.
type Vars struct {
	opts Options
	// mu keeps what is persisted and what is in force in the same order.
	mu sync.Mutex
}

// Load puts the persisted values into globals. A value that is not valid any
// more, say of a variable that a newer version had, is left at its default and
// named in the returned list.
func Load(ctx context.Context, store Store, globals *config.Globals) (ignored []string, err error) {
	values, err := store.GlobalVars(ctx)
	if err != nil {
		return nil, fmt.Errorf("load global variables: %w", err)
	}
	for name, value := range values {
		if _, _, err := globals.Set(name, value); err != nil {
			ignored = append(ignored, name)
		}
	}
	return ignored, nil
}

// Set checks, persists and applies the value of a variable. It reports whether
// the value had to be clamped into the variable's range.
func (v *Vars) Set(ctx context.Context, def *config.SysVar, value string) (clamped bool, err error) {
	canonical, clamped, err := def.Normalize(value)
	if err != nil {
		return false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.opts.Store.SetGlobalVar(ctx, def.Name, canonical); err != nil {
		return false, fmt.Errorf("persist %s: %w", def.Name, err)
	}
	if _, _, err := v.opts.Globals.Set(def.Name, canonical); err != nil {
		return false, err
	}
	return clamped, nil
}

// get returns the value in force as SQL shows it.
func (v *Vars) get(def *config.SysVar) any {
	return sqlValue(def, v.opts.Globals.Get(def.Name))
}

// sqlValue turns a canonical value into what go-mysql-server keeps: int8 for a
// boolean, which SHOW VARIABLES prints as ON or OFF, int64 for a number.
func sqlValue(def *config.SysVar, canonical string) any {
	switch def.Kind {
	case config.KindBool:
		if canonical == "ON" {
			return int8(1)
		}
		return int8(0)
	case config.KindInt, config.KindByteSize:
		if n, err := strconv.ParseInt(canonical, 10, 64); err == nil {
			return n
		}
	}
	return canonical
}

// setFromSQL is Set for a value that SQL gave, with MySQL's errors and warnings.
func (v *Vars) setFromSQL(ctx *gms.Context, def *config.SysVar, value any) error {
	text, err := textOf(def, value)
	if err != nil {
		return err
	}
	clamped, err := v.Set(ctx, def, text)
	if err != nil {
		return sqlerr.Translate(err)
	}
	if clamped {
		warnTruncated(ctx, def.Name, text)
	}
	return nil
}

// textOf is the text of a value given in SET, or MySQL's error when its type
// does not fit the variable.
func textOf(def *config.SysVar, value any) (string, error) {
	switch value := value.(type) {
	case nil:
		return "", sqlerr.New(errno.ErrWrongValueForVar, def.Name, "NULL")
	case bool:
		if def.Kind == config.KindBool {
			return strconv.FormatBool(value), nil
		}
	case string:
		if _, err := strconv.ParseInt(value, 10, 64); err == nil || def.Kind != config.KindInt {
			return value, nil
		}
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32:
		return fmt.Sprint(value), nil
	case uint64:
		return strconv.FormatInt(int64(min(value, 1<<63-1)), 10), nil
	}
	return "", sqlerr.New(errno.ErrWrongTypeForVar, def.Name)
}

// warnTruncated leaves warning 1292 and drops those of earlier statements, which
// go-mysql-server keeps over a SET.
func warnTruncated(ctx *gms.Context, name, value string) {
	ctx.ClearWarnings()
	w := sqlerr.New(errno.ErrTruncatedWrongValue, name, value)
	ctx.Warn(w.Num, "%s", w.Message)
}

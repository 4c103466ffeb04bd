package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
)

// VarKind is the kind of value a system variable takes.
type VarKind int

// The kinds of system variables.
const (
	KindBool VarKind = iota
	KindInt
	KindByteSize // an integer number of bytes, or text such as "64MiB"
	KindDuration // text such as "10m0s"; Min and Max are in seconds
	KindEnum     // one of Values, or its number from 0
	KindText     // any text
)

// Names of the global system variables that index builds follow. Those that begin
// with tidb_ are TiDB's own.
const (
	DDLEngine = "fastddl_ddl_engine"
	// SubmitKey is a variable of sessions only: the key of what they submit.
	SubmitKey          = "fastddl_ddl_submit_key"
	ReorgWorkerCount   = "tidb_ddl_reorg_worker_cnt"
	ReorgBatchSize     = "tidb_ddl_reorg_batch_size"
	ReorgMaxWriteSpeed = "tidb_ddl_reorg_max_write_speed"
	ReorgPriority      = "tidb_ddl_reorg_priority"
	DiskQuota          = "tidb_ddl_disk_quota"
	ErrorCountLimit    = "tidb_ddl_error_count_limit"
	MemoryQuota        = "fastddl_ddl_memory_quota"
	Governor           = "fastddl_ddl_governor"
	IdleBlockerTimeout = "fastddl_mdl_idle_blocker_timeout"
	BlockerMaxAge      = "fastddl_mdl_blocker_max_age"
	BlockerSparedKeys  = "fastddl_mdl_blocker_spared_keys"
	BlockerSparedUsers = "fastddl_mdl_blocker_spared_users"
	CheckpointInterval = "fastddl_ddl_checkpoint_interval"
	PartSize           = "fastddl_ddl_part_size"
	Verify             = "fastddl_ddl_verify"
	HistoryLimit       = "fastddl_ddl_history_limit"
	Preflight          = "fastddl_ddl_preflight"
	MaxDistTaskNodes   = "tidb_max_dist_task_nodes"
	DDLWindow          = "fastddl_ddl_window"
	DDLMaxHold         = "fastddl_ddl_max_hold"
	DDLPublish         = "fastddl_ddl_publish"
	TargetLatency      = "fastddl_ddl_target_latency"
	Worker             = "fastddl_ddl_worker"
)

// Values of Worker.
const (
	WorkerAuto = "AUTO"
	WorkerOn   = "ON"
	WorkerOff  = "OFF"
)

// Values of DDLPublish.
const (
	PublishAuto   = "auto"
	PublishManual = "manual"
	// PublishNow is a value for a job only.
	PublishNow = "now"
)

// Values of DDLEngine.
const (
	EngineFastddl = "fastddl"
	EngineTiDB    = "tidb"
)

// Values of Verify.
const (
	VerifyAuto = "auto"
	VerifyFull = "full"
)

// Values of Preflight.
const (
	PreflightOff     = "off"
	PreflightWarn    = "warn"
	PreflightEnforce = "enforce"
)

// Values of ReorgPriority, in ascending order.
const (
	PriorityLow    = "PRIORITY_LOW"
	PriorityNormal = "PRIORITY_NORMAL"
	PriorityHigh   = "PRIORITY_HIGH"
)

// SysVar defines one global system variable.
type SysVar struct {
	Name    string
	Kind    VarKind
	Default string
	// Min and Max bound numbers; values outside are clamped, with a warning.
	Min, Max int64
	// Values are those of KindEnum.
	Values []string
	// InSession says that each session has a value of its own, which begins as the
	// global one.
	InSession bool
	Comment   string
}

const (
	mib = 1 << 20
	gib = 1 << 30
	pib = 1 << 50
)

// SysVars lists the global system variables that index builds follow. The
// definitions of TiDB's variables are what they may be here, where that is wider.
var SysVars = []SysVar{
	{
		Name: CheckpointInterval, Kind: KindDuration, Default: "10m0s", Min: 1, Max: 86400,
		Comment: "how long an index build scans before it imports what it has; a crash costs at most that and the import",
	}, {
		Name: DDLEngine, Kind: KindEnum, Default: EngineFastddl, Values: []string{EngineFastddl, EngineTiDB}, InSession: true,
		Comment: "who builds indexes: fastddl, or TiDB in its own ways",
	}, {
		Name: Governor, Kind: KindBool, Default: "ON",
		Comment: "ON: index builds yield to foreground statements; OFF: they take what the other settings leave them",
	}, {
		Name: HistoryLimit, Kind: KindInt, Default: "1024", Max: 1_000_000,
		Comment: "how many index builds that have ended stay in the history, with their errors and commands; older ones are deleted",
	}, {
		Name: MemoryQuota, Kind: KindByteSize, Default: "0", Max: pib,
		Comment: "memory for sorting index entries, over all jobs; 0 is a part of the memory limit",
	}, {
		Name: PartSize, Kind: KindByteSize, Default: strconv.Itoa(64 * mib), Min: 1, Max: pib,
		Comment: "least size of the parts in which several nodes of a cluster build an index; a table of less than two is built by one node, and one of less than 256 if that is alone",
	}, {
		Name: Verify, Kind: KindEnum, Default: VerifyAuto, Values: []string{VerifyAuto, VerifyFull}, InSession: true,
		Comment: "auto: an index build counts and sums up what it imports on its way, and reads a sample back; full: it reads rows and entries a second time",
	}, {
		Name: DDLWindow, Kind: KindText, Default: "", InSession: true,
		Comment: "part of the day in which index builds work, such as '22:00-06:00 Europe/Berlin'; empty is always",
	}, {
		Name: DDLMaxHold, Kind: KindDuration, Default: "24h0m0s", Min: 1, Max: 31536000, InSession: true,
		Comment: "how long garbage collection is held for an index build that is outside its window or paused",
	}, {
		Name: DDLPublish, Kind: KindEnum, Default: PublishAuto, Values: []string{PublishAuto, PublishManual}, InSession: true,
		Comment: "auto: indexes become public when they are built; manual: when ADMIN ALTER DDL JOBS permits it",
	}, {
		Name: TargetLatency, Kind: KindDuration, Default: "0s", Max: 60,
		Comment: "index builds slow down so that 99 of 100 statements take less; 0s is off",
	}, {
		Name: Worker, Kind: KindEnum, Default: WorkerAuto, Values: []string{WorkerAuto, WorkerOff, WorkerOn},
		Comment: "AUTO: a process of its own builds the entries of large tables beside statements; ON: those of all tables; OFF: of none",
	}, {
		Name: Preflight, Kind: KindEnum, Default: PreflightWarn, Values: []string{PreflightOff, PreflightWarn, PreflightEnforce}, InSession: true,
		Comment: "an index build for which memory, temp folder or store have no room is begun (off), warned of, or refused before it begins (enforce)",
	}, {
		Name: IdleBlockerTimeout, Kind: KindDuration, Default: "0s", Max: 31536000,
		Comment: "how long a transaction that a schema change waits for may be idle before its session is ended; 0s is for ever",
	}, {
		Name: BlockerMaxAge, Kind: KindDuration, Default: "0s", Max: 31536000,
		Comment: "how long a transaction that a schema change waits for may be open, idle or not, before its session is ended; 0s is for ever",
	}, {
		Name: BlockerSparedKeys, Kind: KindInt, Default: "0", Max: math.MaxInt64,
		Comment: "sessions whose transaction has written more keys than this are not ended for a schema change; 0 is no limit",
	}, {
		Name: BlockerSparedUsers, Kind: KindText, Default: "",
		Comment: "users whose sessions are never ended for a schema change, separated by commas",
	}, {
		Name: DiskQuota, Kind: KindByteSize, Default: strconv.Itoa(100 * gib), Min: 16 * mib, Max: pib,
		Comment: "bytes that index builds may occupy in the temp folder, over all jobs",
	}, {
		Name: ErrorCountLimit, Kind: KindInt, Default: "512", Max: math.MaxInt64,
		Comment: "how often a job retries after an error before it is rolled back",
	}, {
		Name: ReorgBatchSize, Kind: KindInt, Default: "256", Min: 32, Max: 10240,
		Comment: "a quarter of the rows that a worker reads before it looks whether to go on",
	}, {
		Name: ReorgMaxWriteSpeed, Kind: KindByteSize, Default: "0", Max: pib,
		Comment: "bytes per second of index data that this node may write, over all jobs; 0 is no limit",
	}, {
		Name: ReorgPriority, Kind: KindEnum, Default: PriorityLow, Values: []string{PriorityLow, PriorityNormal, PriorityHigh}, InSession: true,
		Comment: "weight of a job among those that run, taken when its statement is queued",
	}, {
		Name: ReorgWorkerCount, Kind: KindInt, Default: "4", Min: 1, Max: 256,
		Comment: "most backfill workers of a job",
	},
}

var sysVarByName = func() map[string]*SysVar {
	m := make(map[string]*SysVar, len(SysVars))
	for i := range SysVars {
		m[SysVars[i].Name] = &SysVars[i]
	}
	return m
}()

// LookupSysVar returns the definition of a variable, by case-insensitive name.
func LookupSysVar(name string) (*SysVar, bool) {
	v, ok := sysVarByName[strings.ToLower(name)]
	return v, ok
}

// ErrWrongValue says that a text is no value for a variable (MySQL error 1231).
type ErrWrongValue struct{ Name, Value string }

func (e *ErrWrongValue) Error() string {
	return fmt.Sprintf("Variable '%s' can't be set to the value of '%s'", e.Name, e.Value)
}

// ErrWrongType says that a number is no whole one (MySQL error 1232).
type ErrWrongType struct{ Name string }

func (e *ErrWrongType) Error() string {
	return fmt.Sprintf("Incorrect argument type to variable '%s'", e.Name)
}

// Normalize checks a value and returns its canonical text: ON or OFF, a
// decimal integer, a Go duration, one of Values, or the text without the space
// around it. Numbers outside the range are clamped.
func (v *SysVar) Normalize(value string) (canonical string, clamped bool, err error) {
	value = strings.TrimSpace(value)
	switch v.Kind {
	case KindBool:
		switch strings.ToUpper(value) {
		case "ON", "1", "TRUE":
			return "ON", false, nil
		case "OFF", "0", "FALSE":
			return "OFF", false, nil
		}
		return "", false, &ErrWrongValue{v.Name, value}
	case KindEnum:
		canonical, ok := v.enumValue(value)
		if !ok {
			return "", false, &ErrWrongValue{v.Name, value}
		}
		return canonical, false, nil
	case KindText:
		return value, false, nil
	case KindDuration:
		d, err := time.ParseDuration(value)
		if err != nil {
			return "", false, &ErrWrongValue{v.Name, value}
		}
		lo, hi := time.Duration(v.Min)*time.Second, time.Duration(v.Max)*time.Second
		c := min(max(d, lo), hi)
		return c.String(), c != d, nil
	default:
		n, clamped, err := v.parseInt(value)
		if err != nil {
			return "", false, err
		}
		c := min(max(n, v.Min), v.Max)
		return strconv.FormatInt(c, 10), clamped || c != n, nil
	}
}

// enumValue returns the value that text names, in any case, or by its number.
func (v *SysVar) enumValue(text string) (canonical string, ok bool) {
	for i, value := range v.Values {
		if strings.EqualFold(value, text) || strconv.Itoa(i) == text {
			return value, true
		}
	}
	return "", false
}

// parseInt reads a whole number. One that is too large for any variable, or too small, is
// clamped.
func (v *SysVar) parseInt(value string) (n int64, clamped bool, err error) {
	n, err = strconv.ParseInt(value, 10, 64)
	switch {
	case err == nil:
		return n, false, nil
	case errors.Is(err, strconv.ErrRange):
		return n, true, nil
	}
	if _, err := strconv.ParseFloat(value, 64); err == nil {
		return 0, false, &ErrWrongType{v.Name}
	}
	if v.Kind == KindByteSize {
		switch n, err := parseSize(value); {
		case errors.Is(err, errTooLarge):
			return math.MaxInt64, true, nil
		case err == nil:
			return n, false, nil
		}
	}
	return 0, false, &ErrWrongValue{v.Name, value}
}

// Globals holds the current values of all global system variables. All methods
// may be called concurrently.
type Globals struct {
	mu        sync.RWMutex
	values    map[string]string
	nextID    int
	listeners map[int]func(name, value string)
}

// NewGlobals returns the variables at their defaults.
func NewGlobals() *Globals {
	g := &Globals{values: make(map[string]string, len(SysVars)), listeners: make(map[int]func(string, string))}
	for _, v := range SysVars {
		g.values[v.Name] = v.Default
	}
	return g
}

// Get returns a variable's canonical text. It panics for a name that is not in
// SysVars.
func (g *Globals) Get(name string) string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	v, ok := g.values[name]
	if !ok {
		panic("config: unknown system variable " + name)
	}
	return v
}

// Bool returns a boolean variable.
func (g *Globals) Bool(name string) bool { return g.Get(name) == "ON" }

// Int returns an integer or byte-size variable.
func (g *Globals) Int(name string) int64 {
	n, err := strconv.ParseInt(g.Get(name), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("config: variable %s is not an integer: %v", name, err))
	}
	return n
}

// Duration returns a duration variable.
func (g *Globals) Duration(name string) time.Duration {
	d, err := time.ParseDuration(g.Get(name))
	if err != nil {
		panic(fmt.Sprintf("config: variable %s is not a duration: %v", name, err))
	}
	return d
}

// Set checks and stores a value, notifies the listeners, and returns the stored
// value and whether it was clamped into the range.
func (g *Globals) Set(name, value string) (stored string, clamped bool, err error) {
	v, ok := LookupSysVar(name)
	if !ok {
		return "", false, fmt.Errorf("unknown system variable %q", name)
	}
	stored, clamped, err = v.Normalize(value)
	if err != nil {
		return "", false, err
	}
	g.mu.Lock()
	g.values[v.Name] = stored
	listeners := make([]func(string, string), 0, len(g.listeners))
	for _, l := range g.listeners {
		listeners = append(listeners, l)
	}
	g.mu.Unlock()
	for _, l := range listeners {
		l(v.Name, stored)
	}
	return stored, clamped, nil
}

// Update is Set, unless the variable has the value already, in canonical text: then no listener is notified.
func (g *Globals) Update(name, value string) error {
	if g.Get(name) == value {
		return nil
	}
	_, _, err := g.Set(name, value)
	return err
}

// OnChange calls fn after each change until cancel is called.
func (g *Globals) OnChange(fn func(name, value string)) (cancel func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := g.nextID
	g.nextID++
	g.listeners[id] = fn
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.listeners, id)
	}
}

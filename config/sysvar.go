package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker/go-units"
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
)

// Names of the global system variables.
const (
	EnableFastReorg      = "tidb_ddl_enable_fast_reorg"
	ReorgWorkerCount     = "tidb_ddl_reorg_worker_cnt"
	ReorgBatchSize       = "tidb_ddl_reorg_batch_size"
	ReorgMaxWriteSpeed   = "tidb_ddl_reorg_max_write_speed"
	ReorgPriority        = "tidb_ddl_reorg_priority"
	DiskQuota            = "tidb_ddl_disk_quota"
	MemoryQuota          = "fastddl_ddl_memory_quota"
	Governor             = "fastddl_ddl_governor"
	IdleBlockerTimeout   = "fastddl_mdl_idle_blocker_timeout"
	ErrorCountLimit      = "tidb_ddl_error_count_limit"
	EnableMetadataLock   = "tidb_enable_metadata_lock"
	GCLifeTime           = "tidb_gc_life_time"
	GCRunInterval        = "tidb_gc_run_interval"
	GCMaxDeleteSpeed     = "fastddl_gc_max_delete_speed"
	CheckpointInterval   = "fastddl_ddl_checkpoint_interval"
	EnableClusteredIndex = "tidb_enable_clustered_index"
	RetryLimit           = "tidb_retry_limit"
)

// SysVar defines one global system variable.
type SysVar struct {
	Name    string
	Kind    VarKind
	Default string
	// Min and Max bound numbers; values outside are clamped, with a warning.
	Min, Max int64
	Comment  string
}

const (
	mib = 1 << 20
	gib = 1 << 30
	pib = 1 << 50
)

// SysVars lists the global system variables that are ours, sorted by name.
var SysVars = []SysVar{
	{CheckpointInterval, KindDuration, "10m0s", 1, 86400, "how long an index build scans before it imports what it has; a crash costs at most that and the import"},
	{Governor, KindBool, "ON", 0, 0, "ON: index builds give way to the foreground by themselves; OFF: they take what the other settings leave them"},
	{MemoryQuota, KindByteSize, "0", 0, pib, "memory for sorting index entries, over all jobs; 0 is a quarter of the memory limit"},
	{GCMaxDeleteSpeed, KindByteSize, strconv.Itoa(128 * mib), 0, pib, "bytes per second of dropped tables and indexes that are deleted; 0 is no limit"},
	{IdleBlockerTimeout, KindDuration, "0s", 0, 31536000, "how long a transaction that a schema change waits for may be idle before its session is ended; 0s is for ever"},
	{DiskQuota, KindByteSize, strconv.Itoa(100 * gib), 16 * mib, pib, "bytes that index builds may occupy in the temp folder, over all jobs"},
	{EnableFastReorg, KindBool, "ON", 0, 0, "ON: build indexes by ingesting sorted files; OFF: by transactions"},
	{ErrorCountLimit, KindInt, "512", 0, math.MaxInt64, "how often a job retries after an error before it is rolled back"},
	{ReorgBatchSize, KindInt, "256", 32, 10240, "rows of one backfill transaction when fast reorg is OFF"},
	{ReorgMaxWriteSpeed, KindByteSize, "0", 0, pib, "bytes per second of index data that this node may write, over all jobs; 0 is no limit"},
	{ReorgPriority, KindEnum, PriorityLow, 0, 0, "weight of a job among those that run, taken when its statement is queued"},
	{ReorgWorkerCount, KindInt, "4", 1, 256, "backfill workers of a job at the most"},
	{EnableClusteredIndex, KindBool, "ON", 0, 0, "whether a primary key without CLUSTERED or NONCLUSTERED is clustered"},
	{EnableMetadataLock, KindBool, "ON", 0, 0, "ON: a schema change waits for transactions that wrote under the old schema; OFF: those fail at commit"},
	{GCLifeTime, KindDuration, "10m0s", 60, 31536000, "how long old row versions are kept"},
	{GCRunInterval, KindDuration, "10m0s", 60, 31536000, "how often old row versions are collected"},
	{RetryLimit, KindInt, "10", -1, math.MaxInt64, "how often an autocommit statement is retried after a write conflict"},
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

// Normalize checks a value and returns its canonical text: ON or OFF, a
// decimal integer, a Go duration, or one of Values. Numbers outside the range
// are clamped.
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
	case KindDuration:
		d, err := time.ParseDuration(value)
		if err != nil {
			return "", false, &ErrWrongValue{v.Name, value}
		}
		lo, hi := time.Duration(v.Min)*time.Second, time.Duration(v.Max)*time.Second
		c := min(max(d, lo), hi)
		return c.String(), c != d, nil
	default:
		n, err := v.parseInt(value)
		if err != nil {
			return "", false, err
		}
		c := min(max(n, v.Min), v.Max)
		return strconv.FormatInt(c, 10), c != n, nil
	}
}

func (v *SysVar) parseInt(value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err == nil {
		return n, nil
	}
	if v.Kind == KindByteSize {
		if n, err := units.RAMInBytes(value); err == nil {
			return n, nil
		}
	}
	return 0, &ErrWrongValue{v.Name, value}
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

// Set checks and stores a value, tells the listeners, and returns what was
// stored and whether it had to be clamped into the range.
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

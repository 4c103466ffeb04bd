package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"

	"fastddl/backfill"
	"fastddl/backfill/encode"
	"fastddl/config"
	"fastddl/internal/stage"
	"fastddl/server"
	"fastddl/trial"
)

const (
	database  = "fastddl_bench"
	tableName = "sbtest1"
	indexName = "bench"
)

// Options say what is measured. Start from [Default]: a number that is 0 is taken for 0.
type Options struct {
	// Rows is the size of the table; default 2,000,000.
	Rows int
	// Columns are the index's key parts as SQL writes them, such as "k" or
	// "c(10)"; default is k.
	Columns []string
	// Unique adds a unique index.
	Unique bool
	// Workers is tidb_ddl_reorg_worker_cnt; default is the number of cores.
	Workers int
	// Runs is how often the index is added and dropped again; default 3.
	Runs int
	// MemoryLimit is the server's memory limit in bytes, and DiskQuota
	// tidb_ddl_disk_quota; 0 leaves them at their defaults.
	MemoryLimit, DiskQuota config.ByteSize
	// Engine is fastddl_ddl_engine: who builds the index, "fastddl" or "tidb";
	// default is fastddl.
	Engine string
	// Transactional lets TiDB build by transactions alone
	// (tidb_ddl_enable_fast_reorg=OFF).
	Transactional bool
	// Target is what it is measured on; default is an embedded store of its own.
	Target trial.Target
	// StorePath is the folder of an embedded store, which must be empty or not exist
	// and stays afterwards; default is a temporary one that is removed.
	StorePath string
	// Seed makes the rows; default 1.
	Seed uint64
	// Version of the build, for the result.
	Version string
	// Log receives the server's log; nil shows errors on standard error.
	Log *server.Log
	// Progress is told in one line what is being done; nil drops it.
	Progress func(line string)
}

// Default returns the options of a benchmark that was told nothing.
func Default() Options {
	o := Options{
		Rows: 2_000_000, Columns: []string{"k"}, Workers: min(runtime.GOMAXPROCS(0), int(bounds(config.ReorgWorkerCount).Max)), Runs: 3,
		Engine: config.EngineFastddl, Seed: 1,
	}
	o.Target.EnsureDefaults()
	return o
}

// Validate lists every problem of the options at once.
func (o *Options) Validate() error {
	errs := []error{o.validateNumbers()}
	if o.Engine != config.EngineFastddl && o.Engine != config.EngineTiDB {
		errs = append(errs, fmt.Errorf("engine %q is neither %s nor %s", o.Engine, config.EngineFastddl, config.EngineTiDB))
	}
	errs = append(errs, o.Target.Validate())
	if o.StorePath != "" && o.Target.Cluster() {
		errs = append(errs, fmt.Errorf("store-path %s: a cluster has none", o.StorePath))
	} else if o.StorePath != "" {
		if entries, err := os.ReadDir(o.StorePath); err == nil && len(entries) > 0 {
			errs = append(errs, fmt.Errorf("store-path %s is not empty", o.StorePath))
		}
	}
	return errors.Join(errs...)
}

func (o *Options) validateNumbers() error {
	var errs []error
	if o.Rows < 1 {
		errs = append(errs, fmt.Errorf("rows %d: at least one is needed", o.Rows))
	}
	if len(o.Columns) == 0 {
		errs = append(errs, errors.New("columns: at least one is needed"))
	} else if slices.ContainsFunc(o.Columns, func(part string) bool { return strings.TrimSpace(part) == "" }) {
		errs = append(errs, fmt.Errorf("columns: %q has an empty part", strings.Join(o.Columns, ",")))
	}
	// The variables would be clamped, and something else be measured than was asked for.
	if v := bounds(config.ReorgWorkerCount); int64(o.Workers) < v.Min || int64(o.Workers) > v.Max {
		errs = append(errs, fmt.Errorf("workers %d is not between %d and %d", o.Workers, v.Min, v.Max))
	}
	if o.Runs < 1 {
		errs = append(errs, fmt.Errorf("runs %d: at least one is needed", o.Runs))
	}
	if v := bounds(config.DiskQuota); o.DiskQuota != 0 && (int64(o.DiskQuota) < v.Min || int64(o.DiskQuota) > v.Max) {
		errs = append(errs, fmt.Errorf("disk-quota %s is not between %s and %s", o.DiskQuota, config.ByteSize(v.Min), config.ByteSize(v.Max)))
	}
	return errors.Join(errs...)
}

// bounds is the definition of a variable, which is there.
func bounds(name string) *config.SysVar {
	v, _ := config.LookupSysVar(name)
	return v
}

// AddIndex loads a table and measures ADD INDEX on it.
func AddIndex(ctx context.Context, opts Options) (_ *Result, err error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.Progress == nil {
		opts.Progress = func(string) {}
	}
	dir, err := os.MkdirTemp("", "fastddl-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	srv, err := trial.Start(ctx, trial.Options{
		Target: opts.Target, Dir: dir, StorePath: opts.StorePath, Database: database,
		Conns:       1, // who builds is a setting of the session
		MemoryLimit: opts.MemoryLimit, Version: opts.Version, Log: opts.Log,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	b := &benchmark{Options: opts, tempDir: srv.Node().TempDir(), server: srv, db: srv.DB}
	return b.run(ctx)
}

// benchmark is one benchmark in progress.
type benchmark struct {
	Options
	tempDir string
	server  *trial.Server
	db      *sql.DB
	// table is the definition of the table with the index of the last run.
	table *model.TableInfo
}

func (b *benchmark) run(ctx context.Context) (*Result, error) {
	r := &Result{
		Version: b.Version, Store: b.Target.Store, Cores: runtime.GOMAXPROCS(0), Rows: b.Rows, Index: strings.Join(b.Columns, ", "),
		Unique: b.Unique, Workers: b.Workers, Engine: b.Engine, FastReorg: !b.Transactional,
	}
	if err := b.prepare(ctx, r); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	for i := range b.Runs {
		b.Progress(fmt.Sprintf("run %d of %d", i+1, b.Runs))
		run, err := b.measure(ctx)
		if err != nil {
			return nil, fmt.Errorf("run %d: %w", i+1, err)
		}
		r.Runs = append(r.Runs, run)
	}
	b.Progress("measuring the floor")
	var err error
	if r.Floor, err = b.measureFloor(ctx); err != nil {
		return nil, fmt.Errorf("measure the floor: %w", err)
	}
	r.summarise()
	return r, nil
}

// prepare makes the table and sets the variables.
func (b *benchmark) prepare(ctx context.Context, r *Result) error {
	fast := "ON"
	if b.Transactional {
		fast = "OFF"
	}
	type setting struct{ name, value string }
	settings := []setting{
		{"tidb_ddl_enable_fast_reorg", fast},
		{"tidb_enable_dist_task", fast}, // it needs the other
		{config.ReorgWorkerCount, strconv.Itoa(b.Workers)},
	}
	if b.DiskQuota != 0 {
		settings = append(settings, setting{config.DiskQuota, strconv.FormatInt(int64(b.DiskQuota), 10)})
	}
	for _, v := range settings {
		if err := b.server.SetGlobal(ctx, v.name, v.value); err != nil {
			return err
		}
	}
	for _, q := range []string{"SET fastddl_ddl_engine = " + b.Engine, createSQL} {
		if _, err := b.db.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	b.Progress(fmt.Sprintf("loading %d rows", b.Rows))
	start := time.Now()
	if err := b.refresh(ctx); err != nil {
		return err
	}
	if err := load(ctx, b.server.Node().Builds(), b.table, b.Rows, b.Seed, b.tempDir); err != nil {
		return err
	}
	r.LoadSeconds = time.Since(start).Seconds()
	return nil
}

// measure adds the index once, checks it, and drops it.
func (b *benchmark) measure(ctx context.Context) (Run, error) {
	runtime.GC() // the last run's garbage is not this one's memory
	stop, err := watch(b.tempDir)
	if err != nil {
		return Run{}, err
	}
	unique := ""
	if b.Unique {
		unique = "UNIQUE "
	}
	start, cpu := time.Now(), stage.ProcessCPU()
	_, err = b.db.ExecContext(ctx, fmt.Sprintf("ALTER TABLE %s ADD %sINDEX %s (%s)", tableName, unique, indexName, strings.Join(b.Columns, ", ")))
	run := Run{Seconds: time.Since(start).Seconds(), CPUSeconds: (stage.ProcessCPU() - cpu).Seconds()}
	seen, watchErr := stop()
	if err := errors.Join(err, watchErr); err != nil {
		return Run{}, err
	}
	run.PeakRSSBytes, run.PeakTempBytes = seen.rssBytes, seen.tempBytes

	if b.Engine == config.EngineFastddl {
		run.Backfill = b.server.Node().LastBuild()
	}
	if err := b.refresh(ctx); err != nil {
		return Run{}, err
	}
	for _, q := range []string{"ADMIN CHECK TABLE " + tableName, "ALTER TABLE " + tableName + " DROP INDEX " + indexName} {
		if _, err := b.db.ExecContext(ctx, q); err != nil {
			return Run{}, fmt.Errorf("%s: %w", q, err)
		}
	}
	return run, nil
}

// refresh takes the definition of the table as it is now.
func (b *benchmark) refresh(ctx context.Context) error {
	t, err := b.server.Node().Domain().InfoSchema().TableByName(ctx, pmodel.NewCIStr(database), pmodel.NewCIStr(tableName))
	if err != nil {
		return err
	}
	b.table = t.Meta()
	return nil
}

// floorRuns is how often the floor is measured. The lowest counts: whatever
// else the process does can only raise it.
const floorRuns = 3

// manyRows is the size from which the floor is measured once: noise evens out, and
// sorting the entries for it takes minutes.
const manyRows = 5_000_000

// measureFloor measures what the index of the last run costs at the least, with as
// much memory as it takes.
func (b *benchmark) measureFloor(ctx context.Context) (best backfill.Floor, err error) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	store := b.server.Node().Builds()
	index := b.table.FindIndexByName(indexName)
	if index == nil {
		return best, fmt.Errorf("index %s is not there", indexName)
	}
	runs := floorRuns
	if b.Rows > manyRows {
		runs = 1
	}
	for i := range runs {
		ts, err := store.CurrentTS(ctx)
		if err != nil {
			return best, err
		}
		runtime.GC()
		f, err := backfill.MeasureFloor(ctx, store, b.tempDir, encode.Task{Table: b.table, Indexes: []*model.IndexInfo{index}, TS: ts})
		if err != nil {
			return best, err
		}
		if i == 0 || f.Seconds < best.Seconds {
			best = f
		}
	}
	return best, nil
}

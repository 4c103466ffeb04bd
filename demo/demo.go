package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"fastddl/bench"
	"fastddl/internal/sleep"
	"fastddl/sbtest"
	"fastddl/server"
)

// Options say how big the demonstration is and where it is shown. Start from [Default]: a
// number that is 0 is taken for 0.
type Options struct {
	// Rows is the size of the table; default 2,000,000.
	Rows int
	// Threads is the number of connections of the load; default 4.
	Threads int
	// Rate bounds the load's transactions per second over all threads; 0 lets
	// every thread go as fast as it is answered.
	Rate float64
	// Phase is how long the load is measured before and after the index build;
	// default 10s.
	Phase time.Duration
	// Target is what it runs on; default is an embedded store of its own.
	Target bench.Target
	// Dir is the folder in which the temporary one is made; default is the
	// system's.
	Dir string
	// Out receives what is shown; nil drops it.
	Out io.Writer
	// Terminal says that Out can show a moving progress bar.
	Terminal bool
	// Keep has the server run on behind the demonstration until the context ends, which is no error then.
	Keep bool
	// Log receives the server's log; nil shows errors on standard error.
	Log *server.Log
}

// Default returns the options of a demonstration that was told nothing.
func Default() Options {
	o := Options{Rows: 2_000_000, Threads: 4, Phase: 10 * time.Second}
	o.Target.EnsureDefaults()
	return o
}

// Validate lists every problem of the options at once.
func (o *Options) Validate() error {
	var errs []error
	if o.Rows < 1000 {
		errs = append(errs, fmt.Errorf("rows %d: at least 1000 are needed", o.Rows))
	}
	if o.Threads < 1 {
		errs = append(errs, fmt.Errorf("threads %d: at least one is needed", o.Threads))
	}
	if o.Rate < 0 {
		errs = append(errs, fmt.Errorf("rate %g is negative", o.Rate))
	}
	if o.Phase <= 0 {
		errs = append(errs, fmt.Errorf("phase %s: some time is needed", o.Phase))
	}
	return errors.Join(append(errs, o.Target.Validate())...)
}

const (
	database  = "fastddl_demo"
	indexName = "k_1"

	addIndexSQL = "ALTER TABLE " + sbtest.Table + " ADD INDEX " + indexName + " (k)"
	lookupSQL   = "SELECT id, c FROM " + sbtest.Table + " WHERE k = 4711"
)

// Run shows the demonstration and returns an error if anything was wrong.
func Run(ctx context.Context, opts Options) (err error) {
	if err := opts.Validate(); err != nil {
		return err
	}
	if opts.Out == nil {
		opts.Out = io.Discard
	}
	dir, err := os.MkdirTemp(opts.Dir, "fastddl-demo-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	files := ""
	if !opts.Target.Cluster() {
		files = filepath.Join(dir, "files")
		if err := os.Mkdir(files, 0o700); err != nil {
			return err
		}
	}
	srv, err := bench.StartServer(ctx, bench.ServerOptions{
		Target: opts.Target, Dir: dir, Files: files, Database: database, Conns: opts.Threads + 4, Log: opts.Log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	d := &demo{Options: opts, db: srv.DB, server: srv, files: files}
	store := "store in " + dir
	if opts.Target.Cluster() {
		store = "cluster of " + opts.Target.Path
	}
	d.say("server on %s, %s, %d cores", srv.Addr(), store, runtime.GOMAXPROCS(0))
	console := srv.StatusURL() + "/console/"
	d.say("console while this runs: %s", console)
	if err := d.run(ctx); err != nil {
		return err
	}
	if d.Keep {
		d.say("the server runs on until Ctrl-C: %s", console)
		<-ctx.Done()
	}
	return nil
}

// demo is one run.
type demo struct {
	Options
	db *sql.DB
	// server is asked how far the build is.
	server *bench.Server
	// files is the folder that the server reads; empty of a cluster.
	files string
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.Out, format+"\n", args...) }

func (d *demo) run(ctx context.Context) error {
	if err := d.loadTable(ctx); err != nil {
		return fmt.Errorf("load the table: %w", err)
	}
	load, err := startWorkload(ctx, d.db, d.Threads, d.Rows, d.Rate)
	if err != nil {
		return err
	}
	defer load.stop()

	pace := "as fast as they are answered"
	if d.Rate > 0 {
		pace = fmt.Sprintf("%g transactions/s at most", d.Rate)
	}
	threads := "1 thread"
	if d.Threads > 1 {
		threads = fmt.Sprintf("%d threads", d.Threads)
	}
	d.say("load: %s of sysbench's oltp_read_write, %s", threads, pace)
	if !sleep.For(ctx, d.Phase) {
		return context.Cause(ctx)
	}

	load.enter(during)
	built, buildErr := d.addIndex(ctx)
	load.enter(after)
	if buildErr != nil {
		return fmt.Errorf("%s: %w", addIndexSQL, buildErr)
	}
	d.say("index %s built online in %.2f s: %d rows, %.0f rows/s", indexName, built.elapsed.Seconds(), built.rows,
		float64(built.rows)/built.elapsed.Seconds())

	if !sleep.For(ctx, d.Phase) {
		return context.Cause(ctx)
	}
	load.stop()
	problems := []error{d.checkIndex(ctx), d.checkPlan(ctx)}
	summaries := load.summaries()
	report(d.Out, summaries)
	return errors.Join(append(problems, failure(summaries, load.record.Err()))...)
}

// checkIndex compares index and rows by ADMIN CHECK TABLE.
func (d *demo) checkIndex(ctx context.Context) error {
	start := time.Now()
	if _, err := d.db.ExecContext(ctx, "ADMIN CHECK TABLE "+sbtest.Table); err != nil {
		d.say("ADMIN CHECK TABLE: the index does not match the rows")
		return fmt.Errorf("ADMIN CHECK TABLE: %w", err)
	}
	d.say("ADMIN CHECK TABLE: index and rows agree (%.2f s)", time.Since(start).Seconds())
	return nil
}

// checkPlan makes sure that a query on k uses the index.
func (d *demo) checkPlan(ctx context.Context) error {
	plan, err := queryText(ctx, d.db, "EXPLAIN "+lookupSQL)
	if err != nil {
		return fmt.Errorf("EXPLAIN: %w", err)
	}
	used := strings.Contains(plan, indexName)
	d.say("EXPLAIN %s", lookupSQL)
	d.say("%s", indent(plan))
	if !used {
		return fmt.Errorf("the plan of %q does not use index %s", lookupSQL, indexName)
	}
	return nil
}

// queryText returns a result set as text: columns joined by tabs, rows by line
// ends; NULL is empty.
func queryText(ctx context.Context, db *sql.DB, query string) (string, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	cells := make([]sql.NullString, len(columns))
	dest := make([]any, len(columns))
	for i := range cells {
		dest[i] = &cells[i]
	}
	var lines []string
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return "", err
		}
		values := make([]string, len(cells))
		for i, c := range cells {
			values[i] = c.String
		}
		lines = append(lines, strings.Join(values, "\t"))
	}
	return strings.Join(lines, "\n"), rows.Err()
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(text, "\n", "\n    ")
}

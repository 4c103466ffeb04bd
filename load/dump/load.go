package dump

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fastddl/internal/errs"
)

// Options say what to load, into which server, and how. Start from [Default].
type Options struct {
	Source Source
	Target Target
	// Way is how rows are loaded; default WayAuto.
	Way Way
	// Threads is how many tables are loaded at a time; default 4.
	Threads int
	// TimeZone is that of TIMESTAMP values whose file does not say it; default is the server's.
	TimeZone string
	// DryRun shows what would be done, and does nothing.
	DryRun bool
	// TempDir is where the rows of a script are written for IMPORT INTO; default is secure-file-priv of the server.
	TempDir string
	// TempQuota bounds them, in bytes; default 16 GiB.
	TempQuota int64
	// Out receives what is shown; nil drops it. Terminal says that it can show a moving bar.
	Out      io.Writer
	Terminal bool
}

// Default returns the options of a load into a server on this machine.
func Default() Options {
	return Options{
		Source: Source{CSV: DefaultCSV()}, Target: Target{Addr: "127.0.0.1:4000", User: "root"},
		Way: WayAuto, Threads: 4, TempQuota: 16 << 30,
	}
}

// Validate lists every problem of the options at once.
func (o *Options) Validate() error {
	var problems []error
	if len(o.Source.Paths) == 0 {
		problems = append(problems, errNothing)
	}
	switch o.Way {
	case WayAuto, WayImport, WayInsert:
	default:
		problems = append(problems, fmt.Errorf("way %q is none of %s, %s, %s", o.Way, WayAuto, WayImport, WayInsert))
	}
	if o.Threads < 1 || o.Threads > maxThreads {
		problems = append(problems, fmt.Errorf("threads %d is not between 1 and %d", o.Threads, maxThreads))
	}
	if o.TempQuota < minTempQuota {
		problems = append(problems, fmt.Errorf("temp-quota %d: at least %d bytes are needed", o.TempQuota, minTempQuota))
	}
	c := o.Source.CSV
	if c.TerminatedBy == "" {
		problems = append(problems, errors.New("fields-terminated-by is empty"))
	}
	if len(c.EnclosedBy) > 1 || len(c.EscapedBy) > 1 {
		problems = append(problems, errors.New("fields-enclosed-by and fields-escaped-by have one character at most"))
	}
	return errors.Join(problems...)
}

const (
	maxThreads   = 64
	minTempQuota = 64 << 20
)

// loader is one run.
type loader struct {
	Options
	dump    *Dump
	db      *sql.DB
	state   *state
	catalog *catalog
	// before is how far earlier loads were.
	before map[Name]progress
	meter  *meter
	spool  *spool
}

func (l *loader) say(format string, args ...any) { l.meter.say(format, args...) }

// Run loads a dump, or, with DryRun, shows what it would do. It returns the first error of a table. Other tables that are being
// loaded are then stopped; those that are loaded stay, and the next run goes on from there.
func Run(ctx context.Context, opts Options) (err error) {
	if err := opts.Validate(); err != nil {
		return err
	}
	if opts.Out == nil {
		opts.Out = io.Discard
	}
	began := time.Now()
	d, err := Open(ctx, opts.Source)
	if err != nil {
		return err
	}
	db, err := opts.Target.open(opts.Threads*(insertConns+1) + 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.PingContext(ctx); err != nil {
		return fmt.Errorf("connect to %s: %w", opts.Target.Addr, err)
	}
	l := &loader{Options: opts, dump: d, db: db, state: &state{db: db}, meter: newMeter(opts.Out, opts.Terminal)}
	if err := l.run(ctx); err != nil {
		return err
	}
	if !opts.DryRun {
		l.say("%s, %d rows loaded in %.1f s", counted(len(d.Tables), "table"), l.meter.loadedRows(), time.Since(began).Seconds())
	}
	return nil
}

func (l *loader) run(ctx context.Context) (err error) {
	if err := l.look(ctx); err != nil {
		return err
	}
	w := l.where()
	actions, err := planTables(l.dump, l.catalog, l.before, w)
	if err != nil {
		return err
	}
	l.show(actions)
	if l.DryRun {
		return nil
	}
	if w.spool != "" && slices.ContainsFunc(actions, func(a action) bool { return a.way == WayImport }) {
		if l.spool, err = newSpool(w.spool, w.quota); err != nil {
			return err
		}
		defer func() { err = errs.Combine(err, l.spool.close()) }()
	}
	if err := l.state.create(ctx); err != nil {
		return err
	}
	if err := l.define(ctx, actions); err != nil {
		return err
	}
	if err := l.rows(ctx, actions); err != nil {
		return err
	}
	if err := l.views(ctx); err != nil {
		return err
	}
	return l.state.remove(ctx, l.dump.Tables)
}

// look finds out what is on the server, and how far earlier loads were. What an import has written is known when it has ended,
// which may be before it is waited for: so the tables are read again behind that.
func (l *loader) look(ctx context.Context) (err error) {
	if l.catalog, err = readCatalog(ctx, l.db, l.dump.Tables); err != nil {
		return err
	}
	if l.before, err = l.state.read(ctx, l.catalog, l.dump); err != nil {
		return err
	}
	if !slices.Contains(slices.Collect(maps.Values(l.before)), importing) {
		return nil
	}
	if err := l.awaitImports(ctx); err != nil {
		return err
	}
	l.catalog, err = readCatalog(ctx, l.db, l.dump.Tables)
	return err
}

// where finds out what the server can read. A script's rows are written to a folder that it reads.
func (l *loader) where() where {
	w := where{way: l.Way, local: l.Target.local(), securePath: l.catalog.securePath, quota: l.TempQuota}
	if l.dump.Script == "" || !w.local || w.securePath == "" || w.way == WayInsert {
		return w
	}
	w.spool = w.securePath
	if l.TempDir != "" {
		w.spool = l.TempDir
	}
	dir, err := filepath.Abs(w.spool)
	inside, relErr := filepath.Rel(w.securePath, dir)
	switch {
	case err != nil || relErr != nil || inside == ".." || strings.HasPrefix(inside, "../"):
		w.spool, w.noSpool = "", fmt.Sprintf("the folder of temporary files, %s, is not below secure-file-priv of the server", w.spool)
	default:
		w.spool = dir
		probe, err := os.CreateTemp(dir, "fastddl-load-")
		if err != nil {
			w.spool, w.noSpool = "", fmt.Sprintf("temporary files cannot be written to %s", dir)
			break
		}
		if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
			w.spool, w.noSpool = "", fmt.Sprintf("temporary files in %s: %v", dir, err)
		}
	}
	return w
}

// show says what will be done, and what is left out.
func (l *loader) show(actions []action) {
	files := 0
	for _, t := range l.dump.Tables {
		files += len(t.Files)
	}
	source := counted(files, "file")
	if l.dump.Script != "" {
		source = filepath.Base(l.dump.Script)
	}
	l.say("%s, %s: %s, %s, %s", l.dump.Format, source, size(l.dump.Bytes()), counted(len(l.dump.Tables), "table"), counted(len(l.dump.Views), "view"))
	for _, o := range l.dump.LeftOut {
		l.say("left out: %s", o)
	}
	obstacles := make(map[string]int)
	var order []string
	for _, a := range actions {
		if !a.create && !a.done && len(a.table.SQL) > 0 {
			l.say("table %s is on the server: its definition there is kept", a.table.Name)
		}
		if a.why != "" && !a.done {
			if obstacles[a.why]++; obstacles[a.why] == 1 {
				order = append(order, a.why)
			}
		}
	}
	for _, why := range order {
		l.say("by INSERT, not IMPORT INTO: %s: %s", counted(obstacles[why], "table"), why)
	}
	if !l.DryRun {
		return
	}
	for _, a := range actions {
		what := map[Way]string{WayImport: "IMPORT INTO", WayInsert: "INSERT", "": "no rows to load"}[a.way]
		switch {
		case a.done && a.table.Bytes() > 0:
			what = "loaded already"
		case a.empty:
			what = "emptied, then " + what
		}
		l.say("  %-50s %10s  %s", a.table.Name, size(a.table.Bytes()), what)
	}
}

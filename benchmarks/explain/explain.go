package explain

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Options say what is compared. The zero value of each field is its default.
type Options struct {
	// FastDDL is the project's binary, which is started if there is no DSN.
	FastDDL string
	// DSN is a server that runs, as root@tcp(host:port)/: one on a cluster, say.
	DSN string
	// Dir is where the server's folder is made; default is the system's.
	Dir string
	// Rows of each table; default is 2,000,000. Rounds is how often each build is compared after a first round; default is 1.
	Rows, Rounds int
	// Only are the names of the cases; default is all.
	Only []string
	// Progress receives, in one line, what was found; nil drops it.
	Progress func(line string)
}

// EnsureDefaults fills in what is not set.
func (o *Options) EnsureDefaults() {
	if o.Rows == 0 {
		o.Rows = 2_000_000
	}
	if o.Rounds == 0 {
		o.Rounds = 1
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
}

// Validate lists every problem of the options at once.
func (o *Options) Validate() error {
	var errs []error
	if o.Rows < 1 || o.Rounds < 1 {
		errs = append(errs, fmt.Errorf("%d rows, %d rounds: at least one is needed", o.Rows, o.Rounds))
	}
	if _, err := os.Stat(o.FastDDL); err != nil && o.DSN == "" {
		errs = append(errs, fmt.Errorf("%s is not built: run make build", filepath.Base(o.FastDDL)))
	}
	return errors.Join(errs...)
}

// Figures are what was said of a build, or what it took.
type Figures struct {
	Rows, IndexBytes, StoreBytes, MemoryBytes, TempBytes int64
	Seconds                                              float64
}

// Comparison is one build.
type Comparison struct {
	Case             Case
	Estimate, Actual Figures
	Low, High        float64 // seconds
	// ExplainSeconds is how long EXPLAIN alone took.
	ExplainSeconds float64
}

// database is the benchmark's own.
const database = "fastddl_explain"

// Run compares all cases. It returns what was compared also with an error.
func Run(ctx context.Context, opts Options) (found []Comparison, err error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	dsn := opts.DSN
	if dsn == "" {
		s, err := startServer(ctx, opts.FastDDL, opts.Dir)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		dsn = s.dsn
	}
	r := &run{Options: opts}
	if r.db, err = sql.Open("mysql", dsn); err != nil {
		return nil, err
	}
	defer r.db.Close()
	r.db.SetMaxOpenConns(1)
	if err := r.exec(ctx, "CREATE DATABASE "+database, "USE "+database); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.exec(context.WithoutCancel(ctx), "DROP DATABASE "+database)) }()
	cases, err := opts.cases()
	if err != nil {
		return nil, err
	}
	if err := r.load(ctx, cases); err != nil {
		return nil, err
	}
	for round := range opts.Rounds + 1 {
		for _, c := range cases {
			got, err := r.compare(ctx, c)
			if err != nil {
				return found, fmt.Errorf("%s: %w", c.Name, err)
			}
			if round > 0 { // before, there were no times to learn from
				found = append(found, got)
			}
			opts.Progress(got.line())
		}
	}
	return found, nil
}

// cases returns those that were asked for.
func (o *Options) cases() ([]Case, error) {
	if len(o.Only) == 0 {
		return Cases, nil
	}
	var out []Case
	for _, name := range o.Only {
		n := len(out)
		for _, c := range Cases {
			if c.Name == name {
				out = append(out, c)
			}
		}
		if len(out) == n {
			return nil, fmt.Errorf("there is no case %q", name)
		}
	}
	return out, nil
}

// run is one run, over one connection.
type run struct {
	Options
	db *sql.DB
}

func (r *run) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := r.db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", shortened(s), err)
		}
	}
	return nil
}

func shortened(s string) string { return s[:min(len(s), 100)] }

// loadRows is how many rows a transaction inserts.
const loadRows = 20_000

// load makes and fills the tables of the cases.
func (r *run) load(ctx context.Context, cases []Case) error {
	needed := make(map[string]bool)
	for _, c := range cases {
		needed[c.Table] = true
	}
	if err := r.exec(ctx, "SET SESSION cte_max_recursion_depth = 1000000", "CREATE TABLE seq (n BIGINT PRIMARY KEY)",
		fmt.Sprintf("INSERT INTO seq WITH RECURSIVE s AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM s WHERE n < %d) SELECT n FROM s", loadRows-1)); err != nil {
		return err
	}
	for _, t := range tables {
		if !needed[t.name] {
			continue
		}
		r.Progress(fmt.Sprintf("loading %d rows into table %s", r.Rows, t.name))
		definitions, values := []string{t.id}, []string{t.idValue}
		for _, c := range columns {
			definitions, values = append(definitions, c.definition), append(values, c.value)
		}
		if err := r.exec(ctx, fmt.Sprintf("CREATE TABLE %s (%s) %s", t.name, strings.Join(definitions, ", "), t.options)); err != nil {
			return err
		}
		for at := 0; at < r.Rows; at += loadRows {
			insert := fmt.Sprintf("INSERT INTO %s SELECT %s FROM (SELECT n + %d AS n FROM seq WHERE n < %d) AS rows_of_it",
				t.name, strings.Join(values, ", "), at+1, min(loadRows, r.Rows-at))
			if err := r.exec(ctx, insert); err != nil {
				return err
			}
		}
	}
	return nil
}

// document is what is used of EXPLAIN's.
type document struct {
	BuiltBy  string `json:"built_by"`
	Estimate struct {
		Rows struct {
			Number int64 `json:"number"`
		} `json:"rows"`
		Indexes []struct {
			Bytes int64 `json:"bytes"`
		} `json:"indexes"`
		MemoryBytes int64 `json:"memory_bytes"`
		TempBytes   int64 `json:"temp_bytes"`
		StoreBytes  int64 `json:"store_bytes"`
		Seconds     struct {
			Low    float64 `json:"low"`
			Likely float64 `json:"likely"`
			High   float64 `json:"high"`
		} `json:"seconds"`
	} `json:"estimate"`
	Actual struct {
		Seconds     float64          `json:"seconds"`
		Rows        int64            `json:"rows"`
		IndexBytes  map[string]int64 `json:"index_bytes"`
		MemoryBytes int64            `json:"memory_bytes"`
		TempBytes   int64            `json:"temp_bytes"`
		StoreBytes  int64            `json:"store_bytes"`
	} `json:"actual"`
}

// compare explains one build, and builds it.
func (r *run) compare(ctx context.Context, c Case) (Comparison, error) {
	got := Comparison{Case: c}
	if c.MemoryQuota != "" {
		if err := r.exec(ctx, fmt.Sprintf("SET GLOBAL fastddl_ddl_memory_quota = '%s'", c.MemoryQuota)); err != nil {
			return got, err
		}
		defer func() { _ = r.exec(ctx, "SET GLOBAL fastddl_ddl_memory_quota = DEFAULT") }()
	}
	statement := "ALTER TABLE " + c.Table + " " + c.Adds
	seconds, err := timed(func() error {
		_, err := r.document(ctx, "EXPLAIN FORMAT = 'json' "+statement)
		return err
	})
	if err != nil {
		return got, err
	}
	got.ExplainSeconds = seconds
	doc, err := r.document(ctx, "EXPLAIN ANALYZE FORMAT = 'json' "+statement)
	if err != nil {
		return got, err
	}
	if doc.BuiltBy != "fastddl" {
		return got, fmt.Errorf("built by %s", doc.BuiltBy)
	}
	e, a := &doc.Estimate, &doc.Actual
	got.Estimate = Figures{Rows: e.Rows.Number, StoreBytes: e.StoreBytes, MemoryBytes: e.MemoryBytes, TempBytes: e.TempBytes, Seconds: e.Seconds.Likely}
	for _, idx := range e.Indexes {
		got.Estimate.IndexBytes += idx.Bytes
	}
	got.Actual = Figures{Rows: a.Rows, StoreBytes: a.StoreBytes, MemoryBytes: a.MemoryBytes, TempBytes: a.TempBytes, Seconds: a.Seconds}
	for _, n := range a.IndexBytes {
		got.Actual.IndexBytes += n
	}
	got.Low, got.High = e.Seconds.Low, e.Seconds.High
	return got, r.exec(ctx, c.drop())
}

func (r *run) document(ctx context.Context, query string) (doc document, err error) {
	var text string
	if err := r.db.QueryRowContext(ctx, query).Scan(&text); err != nil {
		return doc, fmt.Errorf("%s: %w", shortened(query), err)
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return doc, fmt.Errorf("read what EXPLAIN says: %w", err)
	}
	return doc, nil
}

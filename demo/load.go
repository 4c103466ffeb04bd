package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"fastddl/sbtest"
)

// loadTable creates the table and fills it: by IMPORT INTO of files, which it writes before and removes, or on a cluster, whose servers may be
// on other machines, by INSERT through several connections.
func (d *demo) loadTable(ctx context.Context) error {
	if _, err := d.db.ExecContext(ctx, sbtest.CreateSQL); err != nil {
		return err
	}
	rows := sbtest.Generator{Rows: d.Rows, Seed: rand.Uint64()}
	if d.files != "" {
		return d.importRows(ctx, rows)
	}
	start := time.Now()
	if err := sbtest.Fill(ctx, d.db, rows, d.Threads); err != nil {
		return err
	}
	d.sayLoaded("INSERT", time.Since(start))
	return nil
}

func (d *demo) sayLoaded(how string, elapsed time.Duration) {
	d.say("table %s: %d rows loaded in %.1f s (%.0f rows/s), by %s", sbtest.Table, d.Rows, elapsed.Seconds(), float64(d.Rows)/elapsed.Seconds(), how)
}

// importRows writes files and imports them.
func (d *demo) importRows(ctx context.Context, rows sbtest.Generator) (err error) {
	dir := filepath.Join(d.files, "rows")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d.say("%s", sbtest.ImportSQL(dir))
	var written atomic.Int64
	writing := func() (jobProgress, bool) { return d.rowProgress("write", written.Load()), true }
	wrote, err := d.watched("write", func() error {
		return rows.WriteFiles(ctx, dir, func(n int) { written.Add(int64(n)) })
	}, writing)
	if err != nil {
		return err
	}
	imported, err := d.watched("import", func() error {
		_, err := d.db.ExecContext(ctx, sbtest.ImportSQL(dir))
		return err
	}, d.importProgress)
	if err != nil {
		return err
	}
	d.sayLoaded(fmt.Sprintf("IMPORT INTO of files that were written in %.1f s", wrote.Seconds()), imported)
	return nil
}

// rowProgress is the progress of something that handles each row once.
func (d *demo) rowProgress(stage string, rows int64) jobProgress {
	return jobProgress{stage: stage, rows: rows, percent: 100 * float64(rows) / float64(d.Rows)}
}

// importProgress is how far the import is; false if none runs.
func (d *demo) importProgress() (jobProgress, bool) {
	imports := d.server.Node().UnfinishedImports()
	if len(imports) == 0 {
		return jobProgress{}, false
	}
	now := imports[0].Progress
	p := d.rowProgress("import", now.Rows)
	p.percent = now.Percent
	return p, true
}

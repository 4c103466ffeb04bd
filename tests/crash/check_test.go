package crash

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// read returns the rows that a condition selects.
func (t *table) read(ctx context.Context, q querier, where string) (state, error) {
	out := make(state)
	err := t.each(ctx, q, t.name+" "+where, func(r row) error {
		if _, twice := out[r.id]; twice {
			return wrongf("table %s %s: two rows with id %d", t.name, where, r.id)
		}
		out[r.id] = r
		return nil
	})
	return out, err
}

func (t *table) each(ctx context.Context, q querier, from string, fn func(r row) error) error {
	query := fmt.Sprintf("SELECT %s FROM %s", t.columnList(), from)
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		r := row{values: make([]string, len(t.columns))}
		cells := make([]sql.NullString, len(t.columns))
		dest := []any{&r.id}
		for i := range cells {
			dest = append(dest, &cells[i])
		}
		if err := rows.Scan(dest...); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		for i, c := range cells {
			if r.values[i] = null; c.Valid {
				r.values[i] = c.String
			}
		}
		if err := fn(r); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

// indexes returns the names of the indexes that came with ALTER TABLE, sorted.
func (t *table) indexes(ctx context.Context, q querier) ([]string, error) {
	rows, err := q.QueryContext(ctx, "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS "+
		"WHERE TABLE_SCHEMA = 'test' AND TABLE_NAME = '"+t.name+"'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		if name != "PRIMARY" && name != "by_id" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, rows.Err()
}

// watch compares what the tables and their indexes show, over and over, until
// the server goes away.
func (r *run) watch(ctx context.Context, db *sql.DB, rng *rand.Rand) error {
	for since := time.Now(); !r.ending.Load(); {
		begun := time.Now()
		time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
		var err error
		switch rng.IntN(8) {
		case 0, 1:
			err = r.bank.check(ctx, db)
		case 2, 3:
			err = r.comparePast(ctx, db, rng)
		default:
			err = r.compare(ctx, db, pick(rng, r.tables...))
		}
		err = r.gone(since, err)
		if err != nil && !errors.Is(err, errNodeGone) && !errors.Is(err, errFaultInjected) {
			return err
		}
		since = begun
	}
	return nil
}

// compare reads a table in one snapshot, once by its rows and once through each
// of its indexes.
func (r *run) compare(ctx context.Context, db *sql.DB, t *table) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	rows, n, err := r.compareIn(ctx, tx, t)
	r.compared.Add(n)
	if err != nil {
		return err
	}
	var ts uint64
	if err := tx.QueryRowContext(ctx, "SELECT @@tidb_current_ts").Scan(&ts); err != nil {
		return err
	}
	r.past.remember(moment{t: t, ts: ts, rows: digest(rows)})
	return nil
}

// compareIn is compare for the snapshot that q has, and returns the rows, and how
// often it has read them through an index.
func (r *run) compareIn(ctx context.Context, q querier, t *table) (want map[string]int, n int64, err error) {
	if want, err = t.bag(ctx, q, t.name+" USE INDEX ()"); err != nil {
		return nil, n, err
	}
	names, err := t.indexes(ctx, q)
	if err != nil {
		return nil, n, err
	}
	for _, name := range names {
		got, err := t.bag(ctx, q, fmt.Sprintf("%s FORCE INDEX (%s)", t.name, name))
		if errorNumber(err) == 1176 {
			continue // published, or dropped, after the transaction began
		}
		if err != nil {
			return nil, n, err
		}
		n++
		if difference := bagDifference(want, got); difference != "" {
			return nil, n, wrongf("table %s: index %s gives other rows than the table: %s", t.name, name, difference)
		}
	}
	return want, n, nil
}

// bag counts rows.
func (t *table) bag(ctx context.Context, q querier, from string) (map[string]int, error) {
	out := make(map[string]int)
	err := t.each(ctx, q, from, func(r row) error {
		out[r.String()]++
		return nil
	})
	return out, err
}

func bagDifference(want, got map[string]int) string {
	var lines []string
	for r, n := range want {
		if got[r] != n {
			lines = append(lines, fmt.Sprintf("%s is there %d times, want %d", r, got[r], n))
		}
	}
	for r, n := range got {
		if want[r] == 0 {
			lines = append(lines, fmt.Sprintf("%s is there %d times, want 0", r, n))
		}
	}
	return strings.Join(lines[:min(3, len(lines))], "; ")
}

// checkRows verifies the workers' rows after a restart, and all indexes.
func (r *run) checkRows(ctx context.Context, db *sql.DB) error {
	for _, w := range r.workers {
		if err := w.resolve(ctx, db); err != nil {
			return err
		}
	}
	for _, t := range r.tables {
		if err := r.compare(ctx, db, t); err != nil {
			return err
		}
		if err := adminCheck(ctx, db, t.name); err != nil {
			return err
		}
	}
	return r.bank.checkAfterRestart(ctx, db)
}

// adminCheck has TiDB compare a table with its indexes, in both its ways: the fast one does
// not look at what entries say of expressions. Its statement reads the indexes by name, one
// after the other, and fails where one is dropped meanwhile.
func adminCheck(ctx context.Context, db *sql.DB, table string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, fast := range []string{"OFF", "ON"} { // it ends as it was
		if _, err := conn.ExecContext(ctx, "SET tidb_enable_fast_table_check = "+fast); err != nil {
			return err
		}
		for begun := time.Now(); ; {
			_, err := conn.ExecContext(ctx, "ADMIN CHECK TABLE "+table)
			if errorNumber(err) == 1176 && time.Since(begun) < hangTimeout {
				continue
			}
			if err != nil {
				return fmt.Errorf("ADMIN CHECK TABLE %s, fast check %s: %w", table, fast, err)
			}
			break
		}
	}
	return nil
}

// hangTimeout is how long jobs may take to end when nothing holds them up.
const hangTimeout = 5 * time.Minute

// awaitJobs lets all jobs end.
func (r *run) awaitJobs(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0"); err != nil {
		return err
	}
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if err := r.resumeAll(ctx, db); err != nil {
			return err
		}
		jobs, err := r.jobs(ctx, db)
		if err != nil || len(jobs) == 0 {
			return err
		}
		if time.Since(start) > hangTimeout {
			return fmt.Errorf("jobs do not end: %+v", jobs)
		}
	}
}

// checkQuiet verifies the state when all jobs are over: every ALTER did all or
// nothing, and nothing is left of any.
func (r *run) checkQuiet(ctx context.Context, db *sql.DB) error {
	for _, a := range r.alterers {
		if err := a.resolve(ctx, db); err != nil {
			return err
		}
	}
	var waiting int
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM mysql.tidb_mdl_view").Scan(&waiting); err != nil {
		return err
	}
	if waiting > 0 {
		return fmt.Errorf("%d waits for the metadata lock are left", waiting)
	}
	return filepath.WalkDir(filepath.Join(r.dir, "tmp"), func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() || strings.HasSuffix(strings.ToUpper(d.Name()), "LOCK") {
			return err // the folder of the server stays, and TiDB's in it
		}
		return fmt.Errorf("left in the temp folder: %s", path)
	})
}

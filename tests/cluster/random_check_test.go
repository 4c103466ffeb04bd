package cluster

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"fastddl/internal/servertest"
)

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// texts returns the rows of an answer; NULL is empty.
func texts(ctx context.Context, q querier, query string, args ...any) ([][]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return servertest.ReadRows(rows, "")
}

// try executes a statement, within the deadline.
func (r *random) try(ctx context.Context, s *server, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, randomDeadline)
	defer cancel()
	_, err := s.db.ExecContext(ctx, statement)
	return err
}

// synced is the state of a job that has done what it was to do.
const synced = "synced"

func isFinal(state string) bool {
	return state == synced || state == "cancelled" || state == "rollback done"
}

// jobState is the state of the job of a statement, empty if there is none.
func (r *random) jobState(ctx context.Context, s *server, query string) (string, error) {
	rows, err := texts(ctx, s.db, "SELECT state FROM mysql.fastddl_ddl_jobs WHERE db_name = DATABASE() AND query = ?", query)
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0][0], nil
}

// unfinished returns the IDs and the statements of the test's jobs that have not ended.
func (r *random) unfinished(ctx context.Context, s *server) ([][]string, error) {
	return texts(ctx, s.db, "SELECT job_id, query FROM mysql.fastddl_ddl_jobs WHERE db_name = DATABASE() AND job_id IN (SELECT job_id FROM mysql.fastddl_ddl_record)")
}

// watch compares indexes and rows again and again.
func (r *random) watch(ctx context.Context, rng *rand.Rand) error {
	for !r.ending.Load() {
		if !pause(ctx, rng, time.Second) {
			return ctx.Err()
		}
		s, began := r.any(rng), time.Now()
		if err := r.compare(ctx, s, pick(rng, r.tables...)); err != nil && !isConflict(err) {
			if err := r.unexpected(s, began, err); err != nil {
				return fmt.Errorf("compare at %s: %w", s.name, err)
			}
		}
	}
	return nil
}

// published verifies a table of which an index was published just now.
func (r *random) published(ctx context.Context, rng *rand.Rand, t *randomTable) error {
	for {
		s, began := r.any(rng), time.Now()
		err := r.compare(ctx, s, t)
		if err == nil {
			s = r.plain
			err = r.check(ctx, t)
		}
		if err == nil {
			return nil
		}
		// The check reads indexes by name, and that of another client may be dropped meanwhile (1176).
		if !isConflict(err) && codeOf(err) != 1176 {
			err = r.unexpected(s, began, err)
			if err != nil {
				return fmt.Errorf("at %s: %w", s.name, err)
			}
		}
		if !pause(ctx, rng, time.Second) {
			return ctx.Err()
		}
	}
}

// check has the plain server check a table, in both its ways: the fast one does not look at
// what entries say of expressions.
func (r *random) check(ctx context.Context, t *randomTable) error {
	ctx, cancel := context.WithTimeout(ctx, randomDeadline)
	defer cancel()
	conn, err := r.plain.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		drop(conn) // with its setting
		_ = conn.Close()
	}()
	for _, statement := range []string{
		"ADMIN CHECK TABLE " + t.name, "SET tidb_enable_fast_table_check = OFF", "ADMIN CHECK TABLE " + t.name,
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	r.counts.checks.Add(1)
	return nil
}

// compare reads a table at one snapshot, by its rows and through each index.
func (r *random) compare(ctx context.Context, s *server, t *randomTable) error {
	ctx, cancel := context.WithTimeout(ctx, randomDeadline)
	defer cancel()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		drop(conn) // with its transaction
		_ = conn.Close()
	}()
	if _, err := conn.ExecContext(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
		return err
	}
	digest := func(how string) (string, error) {
		rows, err := texts(ctx, conn, fmt.Sprintf("SELECT COUNT(*), SUM(CRC32(CONCAT_WS('|', id, IFNULL(u, '-'), a, s, d))) FROM %s %s", t.name, how))
		if err != nil {
			return "", err
		}
		return strings.Join(rows[0], " rows, sum "), nil
	}
	want, err := digest("USE INDEX ()")
	if err != nil {
		return err
	}
	names, err := indexNames(ctx, conn, t)
	if err != nil {
		return err
	}
	for _, name := range names {
		got, err := digest(fmt.Sprintf("FORCE INDEX (%s)", name))
		if codeOf(err) == 1176 {
			continue // published, or dropped, after the transaction began
		}
		if err != nil {
			return err
		}
		if got != want {
			return wrongf("table %s at %s: %s by index %s, %s by the table", t.name, s.name, got, name, want)
		}
		r.counts.comparisons.Add(1)
	}
	return nil
}

// indexNames returns the names of a table's indexes.
func indexNames(ctx context.Context, q querier, t *randomTable) ([]string, error) {
	rows, err := texts(ctx, q, "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = ?", t.name)
	var names []string
	for _, row := range rows {
		if row[0] != "PRIMARY" {
			names = append(names, row[0])
		}
	}
	return names, err
}

// settle lets all jobs end, without disturbances, and verifies what must hold then.
func (r *random) settle(ctx context.Context) error {
	if err := r.awaitJobs(ctx); err != nil {
		return err
	}
	for _, t := range r.tables {
		want := t.rest()
		for _, w := range r.workers {
			if w.t == t {
				maps.Copy(want, w.rows)
			}
		}
		for _, s := range r.servers {
			found, err := readRows(ctx, s.db, t.name+" USE INDEX ()")
			if err != nil {
				return fmt.Errorf("read %s at %s: %w", t.name, s.name, err)
			}
			if diff := want.difference(found); diff != "" {
				return wrongf("table %s at %s does not hold what was committed: %s", t.name, s.name, diff)
			}
			if err := r.compare(ctx, s, t); err != nil {
				return err
			}
		}
		if err := r.check(ctx, t); err != nil {
			return err
		}
	}
	for _, a := range r.alterers {
		if err := a.verify(ctx); err != nil {
			return err
		}
	}
	return r.nothingIsLeft(ctx)
}

// until polls a condition, and returns an error that names it if it never holds.
func until(ctx context.Context, holds func() (missing string, err error)) error {
	for began := time.Now(); ; {
		missing, err := holds()
		if err == nil && missing == "" {
			return nil
		}
		if time.Since(began) > hangTimeout {
			return errors.Join(err, wrongf("%s", missing))
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitJobs resumes the test's jobs that were paused, and waits until no server has one.
func (r *random) awaitJobs(ctx context.Context) error {
	return until(ctx, func() (string, error) {
		s := r.servers[0]
		jobs, err := texts(ctx, s.db, "SELECT j.job_id, j.query, j.state, CONVERT(r.record USING utf8mb4) FROM mysql.fastddl_ddl_jobs j JOIN mysql.fastddl_ddl_record r USING (job_id) WHERE j.db_name = DATABASE()")
		if err != nil {
			return "", err
		}
		for _, j := range jobs {
			if _, err := texts(ctx, s.db, "ADMIN RESUME DDL JOBS "+j[0]); err != nil {
				return "", err
			}
		}
		rows, err := texts(ctx, s.db, "SELECT job_id FROM mysql.tidb_ddl_job WHERE "+notOthers)
		if err != nil || len(jobs)+len(rows) == 0 {
			return "", err
		}
		return fmt.Sprintf("jobs do not end: %v, %v", jobs, rows), nil
	})
}

// verify compares the alterer's indexes with those that there are, and the results of its
// statements with the states of their jobs.
func (a *alterer) verify(ctx context.Context) error {
	want := make(map[string]bool)
	for _, name := range a.present {
		want[name] = true
	}
	for _, b := range a.builds {
		state, err := a.run.jobState(ctx, a.run.servers[0], b.query)
		if err != nil {
			return err
		}
		switch {
		case b.answered && b.done != (state == synced), state != "" && !isFinal(state):
			return wrongf("%s: its client had an answer %v, success %v; the job is %q", b.query, b.answered, b.done, state)
		case !b.answered && state == synced:
			for _, name := range b.names { // those that its client had no time to wait for
				if !slices.Contains(a.maybe, name) && !slices.Contains(a.gone, name) {
					want[name] = true
				}
			}
		}
	}
	found, err := indexNames(ctx, a.run.servers[0].db, a.t)
	if err != nil {
		return err
	}
	for _, name := range found {
		if strings.HasPrefix(name, fmt.Sprintf("i%d_", a.number)) && !want[name] && !slices.Contains(a.maybe, name) {
			return wrongf("table %s: index %s should not be there", a.t.name, name)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		return wrongf("table %s: indexes %v are not there", a.t.name, slices.Sorted(maps.Keys(want)))
	}
	return nil
}

package crash

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// alteration is one ALTER TABLE.
type alteration struct {
	adds  []*indexDef
	drops []string
}

func (a *alteration) sql(table string) string {
	var clauses []string
	for _, name := range a.drops {
		clauses = append(clauses, "DROP INDEX "+name)
	}
	for _, x := range a.adds {
		clauses = append(clauses, x.sql())
	}
	return "ALTER TABLE " + table + " " + strings.Join(clauses, ", ")
}

// alterer changes the indexes of one table.
type alterer struct {
	run     *run
	t       *table
	rng     *rand.Rand
	holders *holders
	n       int

	// present are the indexes that must be there, but for those that an
	// alteration in doubt adds or drops.
	present map[string]*indexDef
	// doubts are the alterations whose end was not seen.
	doubts []*alteration

	done, cancelled, refused, interrupted int
}

const maxIndexes = 5

func (a *alterer) random() *alteration {
	a.n++
	alt := &alteration{}
	var names []string
	for name := range a.present {
		if !a.inDoubt(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > 0 && (len(names) >= maxIndexes || oneIn(a.rng, 3)) {
		alt.drops = append(alt.drops, pick(a.rng, names...))
		if oneIn(a.rng, 2) {
			return alt
		}
	}
	if oneIn(a.rng, 3) {
		alt.adds = append(alt.adds, a.t.randomIndex(a.rng, fmt.Sprintf("u%d", a.n), true))
	}
	for i := range 1 + a.rng.IntN(2) {
		alt.adds = append(alt.adds, a.t.randomIndex(a.rng, fmt.Sprintf("i%d_%d", a.n, i), false))
	}
	return alt
}

func (a *alterer) inDoubt(name string) bool {
	return slices.ContainsFunc(a.doubts, func(alt *alteration) bool { return slices.Contains(alt.drops, name) })
}

func (a *alterer) work(ctx context.Context, db *sql.DB) error {
	return a.run.keepWorking(ctx, db, func(c *connection) error {
		for !a.run.ending.Load() {
			c.begins()
			if err := a.alter(ctx, db, c); err != nil {
				return err
			}
			if oneIn(a.rng, 4) {
				time.Sleep(time.Duration(a.rng.IntN(100)) * time.Millisecond)
			}
		}
		return nil
	}, func() error { return nil })
}

func (a *alterer) alter(ctx context.Context, db *sql.DB, conn *connection) error {
	alt := a.random()
	engine := "fastddl"
	if oneIn(a.rng, 5) {
		engine = "tidb"
	}
	for _, x := range alt.adds {
		if x.unique {
			a.holders.addIndex(x, engine == "tidb")
		}
	}
	for _, setting := range []string{
		"fastddl_ddl_engine = " + engine,
		"tidb_ddl_reorg_priority = " + pick(a.rng, "PRIORITY_LOW", "PRIORITY_NORMAL", "PRIORITY_HIGH"),
	} {
		if _, err := conn.ExecContext(ctx, "SET SESSION "+setting); err != nil {
			return fmt.Errorf("%s: %w", setting, err)
		}
	}
	begun := time.Now()
	query := alt.sql(a.t.name)
	_, err := conn.ExecContext(ctx, query)
	switch code := errorNumber(err); {
	case err == nil:
		a.done++
		a.apply(alt)
		return a.run.compare(ctx, db, a.t)
	case code == 8214:
		a.cancelled++
		return nil
	case code == 1062:
		a.refused++
		return a.refusal(alt, query, err, begun)
	}
	a.interrupted++
	a.doubts = append(a.doubts, alt)
	return fmt.Errorf("%s: %w", query, err)
}

// refusal verifies that a 1062 has a reason.
func (a *alterer) refusal(alt *alteration, query string, err error, begun time.Time) error {
	own := slices.ContainsFunc(alt.adds, func(x *indexDef) bool {
		return x.unique && strings.Contains(err.Error(), fmt.Sprintf("'%s.%s'", a.t.name, x.name))
	})
	if !own {
		return wrongf("%s: the error names no index of the statement: %w", query, err)
	}
	if reason := a.holders.reason(err.Error(), begun, nil); reason != nil {
		return wrongf("%s: %w", query, reason)
	}
	return nil
}

func (a *alterer) apply(alt *alteration) {
	for _, name := range alt.drops {
		delete(a.present, name)
	}
	for _, x := range alt.adds {
		a.present[x.name] = x
	}
}

// resolve compares the indexes that the table has when all jobs are over with
// those it must have: each alteration in doubt was made completely or not at all.
func (a *alterer) resolve(ctx context.Context, db *sql.DB) error {
	there, err := a.t.indexes(ctx, db)
	if err != nil {
		return err
	}
	for _, alt := range a.doubts {
		gone := slices.ContainsFunc(alt.drops, func(name string) bool { return !slices.Contains(there, name) })
		come := slices.ContainsFunc(alt.adds, func(x *indexDef) bool { return slices.Contains(there, x.name) })
		if gone || come {
			a.apply(alt)
		}
	}
	a.doubts = nil
	var want []string
	for name := range a.present {
		want = append(want, name)
	}
	slices.Sort(want)
	if !slices.Equal(want, there) {
		return fmt.Errorf("table %s has the indexes %v, want %v", a.t.name, there, want)
	}
	return nil
}

// control asks things of the running jobs until the server goes away.
func (r *run) control(ctx context.Context, db *sql.DB, rng *rand.Rand) error {
	for since := time.Now(); !r.ending.Load(); {
		begun := time.Now()
		time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
		var err error
		switch rng.IntN(20) {
		case 0:
			err = r.command(ctx, db, rng, "CANCEL DDL JOBS %s")
		case 6, 7, 8, 9:
			err = r.command(ctx, db, rng, "ALTER DDL JOBS %s "+pick(rng, "THREAD = 1", "THREAD = 8", "BATCH_SIZE = 32", "BATCH_SIZE = 1024",
				"MAX_WRITE_SPEED = 0", "MAX_WRITE_SPEED = '256KiB'", "MAX_WRITE_SPEED = '1MiB', THREAD = 2"))
		case 1, 2, 3, 4, 5:
			if err = r.command(ctx, db, rng, "PAUSE DDL JOBS %s"); err == nil {
				time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
				err = r.resumeAll(ctx, db)
			}
		default:
			_, err = db.ExecContext(ctx, "SET GLOBAL "+pick(rng, append(r.settings, variables...)...))
		}
		if err = r.gone(since, err); err != nil && !errors.Is(err, errNodeGone) && !errors.Is(err, errFaultInjected) {
			return fmt.Errorf("control: %w", err)
		}
		since = begun
	}
	return nil
}

// variables are settings that a running job has to follow.
var variables = []string{
	"tidb_ddl_reorg_worker_cnt = 1", "tidb_ddl_reorg_worker_cnt = 8",
	"tidb_ddl_enable_fast_reorg = ON", "tidb_ddl_enable_fast_reorg = OFF",
	"tidb_ddl_reorg_max_write_speed = 0", "tidb_ddl_reorg_max_write_speed = 1048576", "tidb_ddl_reorg_max_write_speed = 262144",
	"tidb_ddl_reorg_batch_size = 32", "tidb_ddl_reorg_batch_size = 256",
	"tidb_ddl_disk_quota = 16777216", "tidb_ddl_disk_quota = 1073741824",
	"fastddl_ddl_checkpoint_interval = '1s'", "fastddl_ddl_checkpoint_interval = '10m'",
	"fastddl_ddl_governor = ON", "fastddl_ddl_governor = OFF",
	"fastddl_ddl_memory_quota = '64MiB'", "fastddl_ddl_memory_quota = DEFAULT",
	"tidb_ddl_error_count_limit = 512", "tidb_ddl_error_count_limit = 5000",
}

type jobRow struct{ id, state string }

// jobs returns the jobs that have not ended.
func (r *run) jobs(ctx context.Context, db *sql.DB) ([]jobRow, error) {
	rows, err := db.QueryContext(ctx, "ADMIN SHOW DDL JOBS 100")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	cells := make([]sql.NullString, len(columns))
	dest := make([]any, len(columns))
	for i := range cells {
		dest[i] = &cells[i]
	}
	var out []jobRow
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		if strings.Contains(cells[slices.Index(columns, "JOB_TYPE")].String, "subjob") {
			continue // a part of the job above
		}
		j := jobRow{cells[slices.Index(columns, "JOB_ID")].String, cells[slices.Index(columns, "STATE")].String}
		if !slices.Contains([]string{"synced", "cancelled", "rollback done", "none"}, j.state) {
			out = append(out, j)
		}
	}
	return out, rows.Err()
}

// command asks something of a random job.
func (r *run) command(ctx context.Context, db *sql.DB, rng *rand.Rand, command string) error {
	jobs, err := r.jobs(ctx, db)
	if err != nil || len(jobs) == 0 {
		return err
	}
	err = admin(ctx, db, fmt.Sprintf(command, pick(rng, jobs...).id))
	if strings.HasPrefix(command, "ALTER") && errorNumber(err) != 0 {
		return nil // it has ended meanwhile, or is not of a kind that can be altered
	}
	return err
}

// admin runs an ADMIN command; that it comes too late is not an error but a row
// of its result.
func admin(ctx context.Context, db *sql.DB, command string) error {
	rows, err := db.QueryContext(ctx, "ADMIN "+command)
	if err != nil {
		return err
	}
	return errors.Join(rows.Err(), rows.Close())
}

func (r *run) resumeAll(ctx context.Context, db *sql.DB) error {
	jobs, err := r.jobs(ctx, db)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j.state == "paused" || j.state == "pausing" {
			if err := admin(ctx, db, "RESUME DDL JOBS "+j.id); err != nil {
				return err
			}
		}
	}
	return nil
}

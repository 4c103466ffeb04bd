package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// alterersOfTable is how many clients build indexes on a table at once.
const alterersOfTable = 2

// alterer adds indexes of its own to a table, through any node of ours, and drops them
// through any server.
type alterer struct {
	run    *random
	t      *randomTable
	number int
	rng    *rand.Rand
	made   int
	// present are its indexes, as far as it knows, and gone those that it has dropped. Those
	// in maybe are there or not, because the client that dropped them was lost.
	present, gone, maybe []string
	// builds are its statements.
	builds []*build
}

// build is a statement that adds indexes.
type build struct {
	query string
	names []string
	// answered says that its client has got its result, done that this was success.
	answered, done bool
}

func (a *alterer) work(ctx context.Context, rng *rand.Rand) error {
	defer a.run.altering.Add(-1)
	a.rng = rng
	// Where servers take long to come back no build may be done before the end.
	for !a.run.ending.Load() || a.run.counts.unique.Load() == 0 {
		var err error
		if len(a.present) > 4 || len(a.present) > 0 && oneIn(a.rng, 4) {
			err = a.drop(ctx)
		} else {
			err = a.add(ctx)
		}
		if err != nil {
			return fmt.Errorf("on %s: %w", a.t.name, err)
		}
		if !pause(ctx, a.rng, 300*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// add adds some indexes in a statement. If one of them cannot be unique, none is added.
func (a *alterer) add(ctx context.Context) error {
	s, began := a.run.ours(a.rng), time.Now()
	var names, parts []string
	bad := oneIn(a.rng, 6)
	for i := range 1 + a.rng.IntN(3) {
		a.made++
		name := fmt.Sprintf("i%d_%d", a.number, a.made)
		names, parts = append(names, name), append(parts, a.t.randomIndex(a.rng, name, bad && i == 0))
	}
	b := &build{query: fmt.Sprintf("ALTER TABLE %s %s", a.t.name, strings.Join(parts, ", ")), names: names}
	a.builds = append(a.builds, b)
	ctx, cancel := context.WithTimeout(ctx, randomDeadline)
	defer cancel()
	_, err := s.db.ExecContext(ctx, b.query)
	code := codeOf(err)
	switch {
	case err == nil && bad:
		return wrongf("%s: it is unique, and rows are not", b.query)
	case err == nil:
		b.answered, b.done = true, true
		a.present = append(a.present, names...)
		a.run.counts.builds.Add(1)
		if strings.Contains(b.query, "ADD UNIQUE INDEX") {
			a.run.counts.unique.Add(1)
		}
		return a.run.published(ctx, a.rng, a.t)
	case code == 1062 && bad:
		b.answered = true
		a.run.counts.failures.Add(1)
		return nil
	case code == 8214 && a.run.cancels.asked(b.query):
		b.answered = true
		a.run.counts.cancelled.Add(1)
		return nil
	}
	if err := a.run.unexpected(s, began, err); err != nil {
		return fmt.Errorf("%s at %s: %w", b.query, s.name, err)
	}
	a.run.counts.lost.Add(1)
	return a.await(ctx, b)
}

// await waits until a build whose client was lost has ended, if there is a job for it.
func (a *alterer) await(ctx context.Context, b *build) error {
	for began := time.Now(); ; {
		s, asked := a.run.any(a.rng), time.Now()
		state, err := a.run.jobState(ctx, s, b.query)
		if err != nil {
			if err := a.run.unexpected(s, asked, err); err != nil {
				return fmt.Errorf("look for %s: %w", b.query, err)
			}
		} else if state == "" || isFinal(state) {
			if state == synced {
				a.present = append(a.present, b.names...)
			}
			return nil // one that is not there may still come, see settle
		}
		if time.Since(began) > randomDeadline {
			return wrongf("%s has not ended: %s", b.query, state)
		}
		if !pause(ctx, a.rng, 500*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// drop drops an index.
func (a *alterer) drop(ctx context.Context) error {
	s, began := a.run.any(a.rng), time.Now()
	i := a.rng.IntN(len(a.present))
	name := a.present[i]
	a.present = slices.Delete(a.present, i, i+1)
	ctx, cancel := context.WithTimeout(ctx, randomDeadline)
	defer cancel()
	if _, err := s.db.ExecContext(ctx, fmt.Sprintf("ALTER TABLE %s DROP INDEX %s", a.t.name, name)); err != nil {
		if codeOf(err) == 1091 { // "can't drop": a server that has missed something, if it is excused
			err = lostError{err}
		}
		a.maybe = append(a.maybe, name)
		return a.run.unexpected(s, began, err)
	}
	a.gone = append(a.gone, name)
	a.run.counts.dropped.Add(1)
	return nil
}

// alterByTiDB has the plain server change tables, those with our indexes among them.
func (r *random) alterByTiDB(ctx context.Context, rng *rand.Rand) error {
	made := 0
	var columns, indexes []string
	for !r.ending.Load() {
		t := pick(rng, r.tables...).name
		made++
		var statement string
		switch n := rng.IntN(6); {
		case n == 0 && len(columns) > 0:
			statement, columns = columns[0], columns[1:]
		case n <= 1:
			statement = fmt.Sprintf("ALTER TABLE %s ADD COLUMN x%d INT DEFAULT 7", t, made)
			columns = append(columns, fmt.Sprintf("ALTER TABLE %s DROP COLUMN x%d", t, made))
		case n == 2 && len(indexes) > 0:
			statement, indexes = indexes[0], indexes[1:]
		case n <= 3 && !r.distributed:
			statement = fmt.Sprintf("ALTER TABLE %s ADD INDEX p%d (s, a)", t, made)
			indexes = append(indexes, fmt.Sprintf("ALTER TABLE %s DROP INDEX p%d", t, made))
		case n == 4:
			statement = fmt.Sprintf("ALTER TABLE other ADD COLUMN y%d INT", made)
		default:
			statement = "TRUNCATE TABLE other"
		}
		began := time.Now()
		if err := r.try(ctx, r.plain, statement); err != nil {
			if code := codeOf(err); code == 1091 || code == 1060 || code == 1061 { // the one before it has not happened, or has happened
				err = lostError{err}
			}
			if err := r.unexpected(r.plain, began, err); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		} else {
			r.counts.tidb.Add(1)
		}
		if !pause(ctx, rng, 2*time.Second) {
			return ctx.Err()
		}
	}
	return nil
}

// cancels are the statements whose jobs a client has cancelled.
type cancels struct {
	mu      sync.Mutex
	queries map[string]bool
}

func (c *cancels) add(query string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queries == nil {
		c.queries = make(map[string]bool)
	}
	c.queries[query] = true
}

func (c *cancels) asked(query string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queries[query]
}

// control pauses, resumes, cancels and alters jobs, through any server. In the end it resumes
// them until no client waits for one any more.
func (r *random) control(ctx context.Context, rng *rand.Rand) error {
	for !r.ending.Load() || r.altering.Load() > 0 {
		// A tenth of the commands cancel a job: where builds are slow none would be left.
		if !pause(ctx, rng, max(600*time.Millisecond, r.pace)) {
			return ctx.Err()
		}
		s, began := r.ours(rng), time.Now()
		jobs, err := r.unfinished(ctx, s)
		if err == nil && len(jobs) > 0 {
			job := pick(rng, jobs...)
			if s, began = r.ours(rng), time.Now(); oneIn(rng, 25) {
				s = r.plain
			}
			err = r.command(ctx, rng, s, job[0], job[1])
		}
		if err == nil {
			continue
		}
		if err := r.unexpected(s, began, err); err != nil {
			return fmt.Errorf("jobs at %s: %w", s.name, err)
		}
	}
	return nil
}

// command gives a job a random command. On the plain server our jobs are paused ones, which
// CANCEL and RESUME cancel.
func (r *random) command(ctx context.Context, rng *rand.Rand, s *server, id, query string) error {
	began := time.Now()
	verb, count := "CANCEL", &r.counts.cancels
	switch n := rng.IntN(20); {
	case r.ending.Load():
		verb, count, s = "RESUME", &r.counts.resumes, r.servers[0]
	case s == r.plain:
		verb = pick(rng, "CANCEL", "RESUME", "PAUSE")
	case n < 4:
		verb, count = "PAUSE", &r.counts.pauses
	case n < 12:
		verb, count = "RESUME", &r.counts.resumes
	case n < 18:
		set := pick(rng, "THREAD = 1", "THREAD = 4", "BATCH_SIZE = 64", "MAX_WRITE_SPEED = 30000", "MAX_WRITE_SPEED = 0")
		err := r.try(ctx, s, fmt.Sprintf("ADMIN ALTER DDL JOBS %s %s", id, set))
		if err == nil {
			r.counts.alterations.Add(1)
		} else if strings.Contains(err.Error(), "is not running") || r.isUnanswered(err.Error(), began) {
			return nil
		}
		return err
	}
	if verb == "CANCEL" || s == r.plain && verb == "RESUME" {
		r.cancels.add(query)
	}
	rows, err := texts(ctx, s.db, fmt.Sprintf("ADMIN %s DDL JOBS %s", verb, id))
	if err != nil {
		return err
	}
	switch result := rows[0][1]; {
	case result == "successful":
		count.Add(1)
	// It has ended, or is not in a state for this, or TiDB has not got it.
	case !strings.HasPrefix(result, "error: [ddl:82") && !r.isUnanswered(result, began):
		if strings.HasPrefix(result, "error: [server:1053]") && s.disturbedSince(began) {
			return nil // the server was shutting down
		}
		return wrongf("ADMIN %s DDL JOBS %s at %s: %s", verb, id, s.name, result)
	}
	return nil
}

// isUnanswered says that a request was taken back because the node that runs the job did
// not answer, while nodes are disturbed.
func (r *random) isUnanswered(message string, began time.Time) bool {
	return strings.Contains(message, "does not answer; the request was taken back") &&
		slices.ContainsFunc(r.servers, func(s *server) bool { return s.disturbedSince(began) })
}

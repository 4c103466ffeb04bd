package sql_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/internal/randtest"
)

// scheduleWatch looks at what jobs do, and when.
type scheduleWatch struct {
	clock *wallClock
	mu    sync.Mutex
	// windowed says that the job has a window, manual that it may not be published, at what is the worst case of a setting that changes.
	windowed, manual bool
	// outside is how many actions of work have begun since the window was closed.
	outside int
	faults  []string
	// die ends the job at its next action.
	die atomic.Bool
}

var errDies = errors.New("died")

// idle are the actions that are no work.
var idle = map[string]bool{
	"await-turn": true, "park": true, "await-window": true, "release-hold": true, "await-publication": true, "finish": true, "sleep": true,
}

func (w *scheduleWatch) set(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
	w.outside = 0
}

func (w *scheduleWatch) hook(_ context.Context, p ddl.HookPoint) error {
	if w.die.Load() {
		return errDies
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	closed := time.Duration(w.clock.ahead.Load())%(24*time.Hour) != 0
	completes := strings.HasPrefix(p.Step, "undo") || strings.HasPrefix(p.Step, "drop") || p.Step == "public" && p.Action != "change-schema" || p.Step == "finished"
	switch {
	case p.When == "before" && w.windowed && closed && !idle[p.Action] && !completes:
		if w.outside++; w.outside > 1 { // one may have been decided before
			w.faults = append(w.faults, "outside the window: "+p.String())
		}
	case p.When == "after" && p.Action == "change-schema" && p.Step == "public" && w.manual:
		w.faults = append(w.faults, "published without permission")
	}
	return nil
}

// TestRandomSchedules: builds with windows and manual publication, in random order, beside DML and deaths. None works outside its window, none
// is read before its publication, all equal their rows, and garbage collection goes on.
func TestRandomSchedules(t *testing.T) {
	randtest.SkipShort(t)
	rng := randtest.Rand(t)
	clock := &wallClock{}
	w := &scheduleWatch{clock: clock}
	dir := t.TempDir()
	e := open(t, dir, clock.use)
	e.setHook(w.hook)
	until := time.Now().Add(randtest.Time(t, 12*time.Second, 10*time.Minute))
	builds, ended := 0, make(map[string]int)
	for ; builds < 1 || time.Now().Before(until); builds++ {
		e = randomSchedule(t, e, w, rng)
		c := e.client()
		ended[c.lastJob("state")]++
		require.Empty(t, w.faults)
		require.Zero(t, e.holds(), "garbage collection is held after the end")
		if state := c.lastJob("state"); state != "synced" {
			require.Contains(t, c.lastJob("error"), "does not fit into its window")
			require.NotContains(t, c.one("SHOW CREATE TABLE t"), "`u`")
		}
		c.check("t")
	}
	e.close()
	t.Logf("%d builds: %v", builds, ended)
}

// randomSchedule makes one build and returns the environment, which may be another one.
func randomSchedule(t *testing.T, e *env, w *scheduleWatch, rng *rand.Rand) *env {
	c := e.client()
	table(c, 100)
	manual, windowed := rng.IntN(2) == 0, rng.IntN(4) > 0
	w.set(func() { w.manual, w.windowed = manual, windowed; w.clock.night() })
	s := e.client()
	if manual {
		s.run("SET fastddl_ddl_publish = 'manual'")
	}
	if windowed {
		s.run("SET fastddl_ddl_window = '" + nights + "'")
	}
	s.run("SET fastddl_ddl_max_hold = '%s'", []string{"20h", "8760h"}[rng.IntN(2)])
	statement := []string{"ADD UNIQUE INDEX u (b)", "ADD INDEX u (c, b)", "ADD COLUMN d INT DEFAULT 7, ADD UNIQUE INDEX u (b), ADD INDEX v ((a + b))"}[rng.IntN(3)]
	result := make(chan error, 1)
	go func() {
		_, err := s.try("ALTER TABLE t " + statement)
		result <- err
	}()
	require.Eventually(t, func() bool { return len(e.DDL().Unfinished()) == 1 || len(result) == 1 }, hangTimeout, time.Millisecond)
	left := 4 + rng.IntN(12) // after these events nothing stands in the way any more
	for {
		jobs := e.DDL().Unfinished()
		if len(jobs) == 0 {
			break
		}
		id := fmt.Sprint(jobs[0].ID)
		if left--; left < 0 {
			w.set(func() { w.manual = false; w.clock.night() })
			_, _ = c.try("ADMIN RESUME DDL JOBS " + id)
			_, _ = c.try("ADMIN ALTER DDL JOBS " + id + " fastddl_ddl_publish = 'now'")
			time.Sleep(50 * time.Millisecond)
			continue
		}
		switch n := rng.IntN(12); n {
		case 0, 1:
			w.set(w.clock.night)
		case 2, 3:
			w.set(w.clock.noon)
		case 4:
			_, _ = c.try("ADMIN PAUSE DDL JOBS " + id)
		case 5, 6:
			_, _ = c.try("ADMIN RESUME DDL JOBS " + id)
		case 7:
			w.die.Store(true)
			e.close()
			<-result
			result <- nil
			w.die.Store(false)
			e = open(t, e.dir, w.clock.use)
			e.setHook(w.hook)
			w.set(func() {})
			c = e.client()
		case 8:
			if manual { // taken back, and given again
				_, _ = c.try("ADMIN ALTER DDL JOBS " + id + " fastddl_ddl_publish = 'manual'")
			}
		default:
			key := rng.IntN(120)
			_, err := c.try([]string{
				"INSERT INTO t (a, b) VALUES (%d, %d) ON DUPLICATE KEY UPDATE b = VALUES(b)", "DELETE FROM t WHERE a = %d AND b <> %d", "UPDATE t SET c = 'x' WHERE a = %d AND b <> %d",
			}[rng.IntN(3)], key, key*7)
			require.NoError(t, err)
			if manual && n == 9 {
				require.NotContains(t, c.one("SHOW CREATE TABLE t"), "`u`")
			}
		}
		time.Sleep(time.Duration(rng.IntN(250)) * time.Millisecond)
	}
	c.awaitNoJob()
	return e
}

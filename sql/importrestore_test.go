package sql_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/kv/backup"
	"fastddl/load/jobs"
)

// A store that was restored from a backup wants nothing of the imports that ran when that was taken: they are undone at its first start, and
// leave nothing. One that is past the swap has ended.
func TestImportsEndInARestoredStore(t *testing.T) {
	for _, at := range []jobs.HookPoint{
		{When: "before", Step: jobs.StepQueued},
		{When: "before", Step: jobs.StepDraining},
		{When: "before", Step: jobs.StepLoading},
		{When: "within", Step: jobs.StepLoading}, // all rows are in the store
		{When: "before", Step: jobs.StepSwapped},
	} {
		t.Run(at.When+" "+string(at.Step), func(t *testing.T) {
			e, dir := openImports(t, t.TempDir()), t.TempDir()
			c := e.client()
			c.run(importTable)
			reached, release := make(chan struct{}), make(chan struct{})
			var once sync.Once
			e.hookImports(func(p jobs.HookPoint) error {
				if p.When == at.When && p.Step == at.Step {
					once.Do(func() { close(reached) })
					<-release
				}
				return nil
			})
			done := e.start("IMPORT INTO t FROM '%s'", e.file("a.csv", 0, 500))
			<-reached
			from, to := filepath.Join(dir, "backup"), filepath.Join(dir, "restored")
			require.NoError(t, os.Mkdir(to, 0o700))
			_, err := backup.NewTaker(e.store, "test", nil).Take(t.Context(), backup.Request{Dir: from})
			require.NoError(t, err)
			_, err = backup.Restore(t.Context(), from, filepath.Join(to, "store"), nil)
			require.NoError(t, err)
			close(release)
			require.NoError(t, <-done, "of the store that the backup was taken of")
			c.Close()
			e.close()

			e = openImports(t, to)
			t.Cleanup(e.close)
			c = e.client()
			require.Eventually(t, func() bool { return c.one("SELECT COUNT(*) FROM mysql.fastddl_import_job") == "0" }, hangTimeout, 10*time.Millisecond)
			e.nothingLeft(c)
			job := c.one("SHOW IMPORT JOBS")
			if at.Step == jobs.StepSwapped {
				require.Contains(t, job, "finished")
				require.Equal(t, "500", c.one("SELECT COUNT(*) FROM t"))
			} else {
				require.Contains(t, job, "failed")
				require.Contains(t, job, "the store was restored from a backup that was taken during the import")
				require.Equal(t, "0", c.one("SELECT COUNT(*) FROM t"))
			}
			require.Equal(t, at.Step != jobs.StepQueued, c.one("SELECT COUNT(*) FROM mysql.gc_delete_range") != "0", "nothing deletes what was written")
			c.run("INSERT INTO t VALUES (1000, 'x', 1); DELETE FROM t")
			c.run("IMPORT INTO t FROM '%s'", e.file("b.csv", 0, 10))
			c.check("t")
		})
	}
}

// The error of an import from a query stays its error, also if the transaction fails that is to note it: the query cannot be read again, and
// that would be another error.
func TestImportKeepsTheErrorOfItsRows(t *testing.T) {
	e := newImports(t)
	c := e.client()
	c.run(importTable + "; CREATE TABLE source LIKE t; INSERT INTO source VALUES (1, 'a', 1), (2, 'b', 2)")
	failures := 0
	e.hookImports(func(p jobs.HookPoint) error {
		if p.When == "settling" && failures < 3 {
			failures++
			return errors.New("the store does not answer")
		}
		return nil
	})
	c.fails(1062, "IMPORT INTO t FROM SELECT 7, s, n FROM source")
	require.Equal(t, 3, failures)
	e.nothingLeft(c)
}

package sql_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/ddl"
	"fastddl/ddl/job"
	"fastddl/ddl/status"
	"fastddl/event"
	"fastddl/sql"
)

// Stores that earlier versions have left, in testdata/left: each has a build that runs and one that is paused, both between two
// checkpoints, and one that is queued behind the paused one. testdata/left/leave.sh makes one of the version that is checked out.

const (
	// leftRows is the number of rows of the tables.
	leftRows = 3000

	buildRunning = "ALTER TABLE running ADD INDEX i (b), ADD INDEX e ((LOWER(c)))"
	buildStopped = "ALTER TABLE stopped ADD UNIQUE INDEX u (a, b)"
	buildQueued  = "ALTER TABLE stopped ADD INDEX q (c, b), DROP INDEX gone"
)

// small is a backfiller of many checkpoints, which calls saved, if that is set, behind each.
type small struct {
	ddl.Backfiller
	saved func(ctx context.Context, table string)
}

func withSmall(s *small) func(o *sql.Options) {
	return func(o *sql.Options) {
		s.Backfiller = ddl.NewBackfiller(backfill.Options{
			Store: o.Builds, Globals: o.Globals, Bus: o.Bus, BatchRows: 32, MaxWorkers: 1, CheckpointInterval: time.Millisecond,
		})
		o.Backfiller = s
	}
}

func (s *small) Backfill(ctx context.Context, t ddl.BackfillTask) (backfill.Result, error) {
	save := t.SaveCheckpoint
	t.SaveCheckpoint = func(ctx context.Context, data []byte) error {
		err := save(ctx, data)
		if err == nil && s.saved != nil {
			s.saved(ctx, t.Table.Name.L)
		}
		return err
	}
	return s.Backfiller.Backfill(ctx, t)
}

// TestLeaveStore makes an archive of a store that this version leaves.
func TestLeaveStore(t *testing.T) {
	archive := os.Getenv("FASTDDL_LEAVE_STORE")
	if archive == "" {
		t.Skip("FASTDDL_LEAVE_STORE names no file")
	}
	dir, arrived := t.TempDir(), make(chan struct{}, 1)
	s := &small{saved: func(ctx context.Context, _ string) {
		arrived <- struct{}{}
		<-ctx.Done()
	}}
	e := open(t, dir, withSmall(s))
	c := e.client()
	var values []string
	for i := range leftRows {
		values = append(values, fmt.Sprintf("(%d,%d,'C%d')", i, i*7, i%100))
	}
	for name, partitions := range map[string]string{"running": "", "stopped": " PARTITION BY HASH (a) PARTITIONS 2"} {
		c.run("CREATE TABLE %s (a INT PRIMARY KEY, b INT, c VARCHAR(20), KEY gone (b))%s", name, partitions)
		c.run("INSERT INTO %s VALUES %s", name, strings.Join(values, ","))
	}

	stopped := e.start(buildStopped)
	reach(t, arrived)
	c.run("ADMIN PAUSE DDL JOBS " + c.one("SELECT job_id FROM mysql.fastddl_ddl_record"))
	queued := e.start(buildQueued)
	require.Eventually(t, func() bool { return len(c.run("SELECT job_id FROM mysql.fastddl_ddl_record")) == 2 }, hangTimeout, time.Millisecond)
	running := e.start(buildRunning)
	reach(t, arrived)
	require.Equal(t, []string{"1", "0", "1"}, c.run("SELECT checkpoint IS NOT NULL FROM mysql.fastddl_ddl_record ORDER BY job_id"))
	e.close()
	for _, end := range []<-chan error{stopped, queued, running} {
		require.Error(t, wait(t, end))
	}
	pack(t, dir+"/store", archive)
}

// pack makes an archive of the files of a folder.
func pack(t *testing.T, dir, archive string) {
	t.Helper()
	f, err := os.Create(archive)
	require.NoError(t, err)
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	require.NoError(t, err)
	w := tar.NewWriter(z)
	require.NoError(t, w.AddFS(os.DirFS(dir)))
	require.NoError(t, errors.Join(w.Close(), z.Close(), f.Close()))
}

// unpack extracts an archive that pack has made.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		name := filepath.Join(dir, filepath.Clean("/"+h.Name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(name, 0o700))
			continue
		}
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, data, 0o600))
	}
}

// leftOn is a file with the day on which a store was left.
const leftOn = "left-on"

// onTheDay sets the clock of jobs to the day on which the store in dir was left: those that have been paused for longer than
// fastddl_ddl_max_hold would begin anew.
func onTheDay(t *testing.T, dir string) func(o *sql.Options) {
	t.Helper()
	text, err := os.ReadFile(dir + "/" + leftOn)
	require.NoError(t, err)
	day, err := time.Parse(time.DateOnly, string(text))
	require.NoError(t, err)
	opened := time.Now()
	return func(o *sql.Options) {
		o.Now = func() time.Time { return day.Add(time.Since(opened)) }
	}
}

// left extracts an archive, and damages what is in the store.
func left(t *testing.T, archive string, damage ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	unpack(t, archive, dir+"/store")
	day, _, _ := strings.Cut(filepath.Base(archive), ".")
	require.NoError(t, os.WriteFile(dir+"/"+leftOn, []byte(day), 0o600))
	if len(damage) > 0 {
		arrived := make(chan struct{}, 1)
		e := open(t, dir, withSmall(&small{saved: func(ctx context.Context, _ string) {
			arrived <- struct{}{}
			<-ctx.Done()
		}}), onTheDay(t, dir))
		c := e.client()
		reach(t, arrived) // the job that runs saves nothing any more
		for _, statement := range damage {
			c.run(statement)
		}
		e.close()
	}
	return dir
}

// archives are those in testdata, newest last.
func archives(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/left/*.tar.gz")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names
}

// leftover is what a store that was left opens as.
type leftover struct {
	*env
	*client
	// rows are those that builds have read, by job.
	rows map[int64]int64
	// dropped are the errors of checkpoints.
	dropped []error
}

func openLeft(t *testing.T, dir string) *leftover {
	t.Helper()
	l := &leftover{rows: make(map[int64]int64)}
	var mu sync.Mutex
	l.env = open(t, dir, func(o *sql.Options) {
		o.Bus.Subscribe(func(e event.Event) {
			mu.Lock()
			defer mu.Unlock()
			switch e := e.(type) {
			case event.RangeDone:
				l.rows[e.ID] += e.Rows
			case event.CheckpointDropped:
				l.dropped = append(l.dropped, e.Err)
			}
		})
	}, onTheDay(t, dir))
	l.client = l.env.client()
	return l
}

// read is how many rows the build of a statement has read since the store was opened.
func (l *leftover) read(query string) int64 {
	id, err := strconv.ParseInt(l.one("SELECT job_id FROM mysql.fastddl_ddl_jobs WHERE query = '%s'", query), 10, 64)
	require.NoError(l.client.t, err)
	return l.rows[id]
}

// finish resumes the paused job, has rows written meanwhile, and expects that all jobs end well.
func (l *leftover) finish(t *testing.T) {
	t.Helper()
	infos, err := l.DDL().AllUnfinished(t.Context())
	require.NoError(t, err)
	paused := slices.IndexFunc(infos, func(i status.JobInfo) bool { return i.Query == buildStopped })
	require.Equal(t, "paused", infos[paused].State)
	for _, table := range []string{"running", "stopped"} {
		l.run("INSERT INTO %s VALUES (-1, -1, 'NEW')", table)
		l.run("UPDATE %s SET b = b + 1 WHERE a < 100", table)
		l.run("DELETE FROM %s WHERE a BETWEEN 2000 AND 2100", table)
	}
	require.Contains(t, l.one("ADMIN RESUME DDL JOBS %d", infos[paused].ID), "successful")
	l.awaitNoJob()
	require.Equal(t, []string{buildStopped + " synced", buildQueued + " synced", buildRunning + " synced"},
		l.run("SELECT query, state FROM mysql.fastddl_ddl_jobs ORDER BY job_id"))
	for table, indexes := range map[string]string{"running": "PRIMARY e gone i", "stopped": "PRIMARY q u"} {
		require.Equal(t, indexes, l.one("SELECT GROUP_CONCAT(DISTINCT key_name ORDER BY key_name SEPARATOR ' ') FROM information_schema.tidb_indexes WHERE table_name = '%s'", table))
		l.check(table)
	}
}

// Jobs that an earlier version has left go on: one that runs and one that is paused from their checkpoints, one that is queued when it
// is its turn.
func TestJobsOfEarlierVersionsGoOn(t *testing.T) {
	for _, archive := range archives(t) {
		t.Run(filepath.Base(archive), func(t *testing.T) {
			l := openLeft(t, left(t, archive))
			defer l.close()
			l.finish(t)
			require.Empty(t, l.dropped)
			for _, query := range []string{buildRunning, buildStopped} {
				require.Less(t, l.read(query), int64(leftRows), "%s: its checkpoint is not used", query)
			}
		})
	}
}

// set is a statement that sets a field of a column of JSON of our table's.
func set(column, field, value string) string {
	return fmt.Sprintf("UPDATE mysql.fastddl_ddl_record SET %s = JSON_SET(CAST(CONVERT(%s USING utf8mb4) AS JSON), '$.%s', %s) WHERE %s IS NOT NULL",
		column, column, field, value, column)
}

// A checkpoint that cannot be read, because a later version has written it or because it is damaged, is dropped: the build begins again.
func TestCheckpointsThatCannotBeReadAreDropped(t *testing.T) {
	newest := archives(t)[len(archives(t))-1]
	for words, damage := range map[string]string{
		"a later version of fastddl has written the checkpoint": set("checkpoint", "format", "2"),
		"is damaged": "UPDATE mysql.fastddl_ddl_record SET checkpoint = 'garbage' WHERE checkpoint IS NOT NULL",
	} {
		t.Run(words, func(t *testing.T) {
			l := openLeft(t, left(t, newest, damage))
			defer l.close()
			l.finish(t)
			require.Len(t, l.dropped, 2)
			for _, err := range l.dropped {
				require.ErrorContains(t, err, words)
			}
			for _, query := range []string{buildRunning, buildStopped} {
				require.GreaterOrEqual(t, l.read(query), int64(leftRows), query)
			}
		})
	}
}

// What this version does not know in a record, settings or a checkpoint of a format that it knows is ignored.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	newest := archives(t)[len(archives(t))-1]
	var damage []string
	for _, column := range []string{"record", "settings", "checkpoint"} {
		damage = append(damage, set(column, "unknown", `CAST('{"a": [1]}' AS JSON)`))
	}
	l := openLeft(t, left(t, newest, damage...))
	defer l.close()
	l.finish(t)
	require.Empty(t, l.dropped)
}

// Jobs that a later version has written are set aside in words, also if their records cannot be decoded, and nothing of them is
// changed: that version goes on with them. Everything else works.
func TestJobsOfALaterFormatAreSetAside(t *testing.T) {
	newest := archives(t)[len(archives(t))-1]
	dir := left(t, newest, "CREATE TABLE kept (job_id BIGINT PRIMARY KEY, record LONGBLOB)", "INSERT INTO kept SELECT job_id, record FROM mysql.fastddl_ddl_record",
		set("record", "protocol", fmt.Sprint(job.Protocol+1)), set("record", "step", `CAST('{"name": "snapshot"}' AS JSON)`),
		set("record", "table", "7"))
	l := openLeft(t, dir)
	stored := func() []string {
		return l.run("SELECT job_id, HEX(record) FROM mysql.fastddl_ddl_record ORDER BY job_id")
	}
	before := stored()
	infos, err := l.DDL().AllUnfinished(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 3)
	words := fmt.Sprintf("its record has format %d, this version reads up to %d", job.Protocol+1, job.Protocol)
	for i, info := range infos {
		require.Equal(t, []string{buildStopped, buildQueued, buildRunning}[i], info.Query)
		require.Equal(t, []string{"stopped", "stopped", "running"}[i], info.Table)
		require.Equal(t, "a later version of fastddl, which has begun it: "+words, info.WaitReason)
		for _, command := range []string{"CANCEL", "PAUSE", "RESUME"} {
			require.Contains(t, l.one("ADMIN %s DDL JOBS %d", command, info.ID), words)
		}
		require.Contains(t, l.one("ADMIN SHOW DDL JOBS WHERE job_id = %d", info.ID), words)
	}
	l.run("CREATE TABLE other (a INT)")
	l.run("ALTER TABLE other ADD INDEX a (a)")
	require.Equal(t, before, stored())
	l.run("UPDATE mysql.fastddl_ddl_record r JOIN kept k USING (job_id) SET r.record = k.record")
	l.close()
	l = openLeft(t, dir)
	defer l.close()
	l.run("DELETE FROM mysql.fastddl_ddl_jobs WHERE query LIKE '%%other%%'")
	l.finish(t)
}

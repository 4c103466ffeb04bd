package sql_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/ddl"
	"fastddl/internal/randtest"
	"fastddl/kv"
	"fastddl/sql"
)

// disk is a store with as much room as the test sets.
type disk struct {
	kv.Store
	state atomic.Int32
}

func (d *disk) Space() (free, reserve uint64, state kv.SpaceState) {
	return 5 << 20, 1 << 20, kv.SpaceState(d.state.Load())
}

func (d *disk) SpaceForBuilds() uint64 { return 9 << 20 }

// filling is a backfiller whose first build fills the disk, and would go on for ever.
type filling struct {
	ddl.Backfiller
	disk  *disk
	begun atomic.Int32
}

func (f *filling) Backfill(ctx context.Context, t ddl.BackfillTask) (backfill.Result, error) {
	if f.begun.Add(1) == 1 {
		f.disk.state.Store(int32(kv.SpaceLow))
		<-ctx.Done()
		return backfill.Result{}, context.Cause(ctx)
	}
	return f.Backfiller.Backfill(ctx, t)
}

// A build that finds the temp folder's disk full waits, with a reason, and that is no error
// of the job's: it would be undone for it after a while.
func TestBuildWaitsForTheTempFolder(t *testing.T) {
	randtest.SkipShort(t)
	var begun atomic.Int32
	e := newEnv(t, withFaults(&faulty{backfill: func() error {
		switch begun.Add(1) {
		case 1:
			return fmt.Errorf("ingest: write run: %w", &os.PathError{Op: "write", Path: "run", Err: syscall.ENOSPC})
		case 2: // the disk has room, but not for this user
			return fmt.Errorf("ingest: write run: %w", &os.PathError{Op: "write", Path: "run", Err: syscall.EDQUOT})
		}
		return nil
	}}))
	c := e.client()
	c.run("SET GLOBAL tidb_ddl_error_count_limit = 0")
	c.run("CREATE TABLE t (id INT PRIMARY KEY, k INT)")
	c.run("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
	done := e.start("ALTER TABLE t ADD INDEX k (k)")
	require.Eventually(t, func() bool {
		jobs, err := e.DDL().Jobs(t.Context())
		return err == nil && len(jobs) > 0 && strings.HasPrefix(jobs[0].WaitReason, "disk space: the temp folder's disk is full")
	}, hangTimeout, 5*time.Millisecond)
	require.NoError(t, wait(t, done))
	require.Equal(t, int32(3), begun.Load())
	require.Equal(t, "0", c.lastJob("error_count"))
	c.check("t")
}

// A build waits, with a reason, before it fills the disk, and goes on by itself when
// there is room. That is no error of the job's.
func TestBuildWaitsForSpace(t *testing.T) {
	d := &disk{}
	f := &filling{disk: d}
	e := newEnv(t, func(o *sql.Options) {
		d.Store, o.Builds = o.Builds, d
		f.Backfiller = ddl.NewBackfiller(backfill.Options{Store: d, Globals: o.Globals, Bus: o.Bus})
		o.Backfiller = f
	})
	c := e.client()
	c.run("CREATE TABLE t (id INT PRIMARY KEY, k INT)")
	c.run("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")

	done := make(chan error, 1)
	go func() {
		_, err := c.try("ALTER TABLE t ADD INDEX k (k)")
		done <- err
	}()
	require.Eventually(t, func() bool {
		jobs, err := e.DDL().Jobs(t.Context())
		return err == nil && len(jobs) > 0 && jobs[0].WaitReason == "disk space: 5 MiB are free on the store's disk, builds need 9 MiB"
	}, hangTimeout, 10*time.Millisecond)
	require.Equal(t, int32(1), f.begun.Load(), "it does not begin again while there is no room")
	jobs, err := e.DDL().Jobs(t.Context())
	require.NoError(t, err)
	require.Zero(t, jobs[0].ErrorCount)

	d.state.Store(int32(kv.SpaceOK))
	require.NoError(t, <-done)
	require.Equal(t, int32(2), f.begun.Load())
	e.client().run("ADMIN CHECK TABLE t")
}

package crash

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/internal/servertest"
	"fastddl/internal/sleep"
)

func init() {
	if order := os.Getenv(launchVar); order != "" {
		fmt.Fprintln(os.Stderr, launch(order)) // it has failed if it returns
		os.Exit(1)
	}
}

const (
	// faultyLife is the longest life of a server with injected faults.
	faultyLife = 6 * time.Second
	// faultyKills is how often such a process of one seed dies at most.
	faultyKills = 5
)

// TestFaultsUnderRandomLoad is TestKillsUnderRandomLoad with more that goes wrong: the
// clock jumps, the disk is full, reads and writes of files fail, file descriptors run
// out, the temp folder is lost, connections are killed.
func TestFaultsUnderRandomLoad(t *testing.T) {
	randtest.SkipShort(t)
	if withOwnMounts(t) {
		return
	}
	l := newFaultBed(t)
	if os.Getenv(ownMountsVar) != "" {
		l.mountDisk(t)
	}
	forSeeds(t, func(t *testing.T, seed uint64, until time.Time) tally { return faultySeed(t, l, seed, until) })
}

func faultySeed(t *testing.T, l *faultBed, seed uint64, until time.Time) tally {
	r := newRun(seed, l.folder(t))
	r.lifetime, r.maxLives = faultyLife, faultyKills
	n := &nemesis{run: r}
	r.start = func() *servertest.Node {
		n.faultyServer = l.start(t, r.dir)
		return n.Node
	}
	r.inject, r.mayEnd = n.inject, mayHaveEnded
	return r.search(t, seed, until)
}

// nemesis injects faults into a server that goes on running.
type nemesis struct {
	*faultyServer
	run *run
}

// inject injects one fault after the other until ctx ends, and leaves the server in good
// order. It fails with errExited if the server has ended, where it may.
func (n *nemesis) inject(ctx context.Context, rng *rand.Rand) error {
	injections := map[kind]func(ctx context.Context, rng *rand.Rand) error{
		killed:      n.kill,
		readErrors:  func(ctx context.Context, rng *rand.Rand) error { return n.failCalls(ctx, rng, failingReads) },
		writeErrors: func(ctx context.Context, rng *rand.Rand) error { return n.failCalls(ctx, rng, failingWrites) },
		noFiles:     n.exhaustFiles,
		tempLost:    n.loseTemp,
	}
	if n.clock != nil {
		injections[clockJump] = n.jump
	}
	if n.bed.disk != "" {
		injections[diskFull] = n.exhaustDisk
	}
	// Most of the time only connections are killed, or the server would have no
	// time to build anything.
	kinds := append(slices.Sorted(maps.Keys(injections)), killed, killed)
	if n.clock != nil {
		kinds = append(kinds, clockJump)
	}
	for sleep.For(ctx, time.Duration(rng.IntN(800))*time.Millisecond) {
		k := pick(rng, kinds...)
		end := n.run.faults.begin(k)
		err := injections[k](ctx, rng)
		if err == nil || ctx.Err() != nil {
			err = n.awaitService(context.WithoutCancel(ctx))
		}
		switch {
		case isClosed(n.calls.done) && n.calls.err != nil:
			return fmt.Errorf("%s: %w", k, n.calls.err)
		case n.run.ending.Load():
			end()
			return nil
		case n.Exited() && (k == readErrors || k == writeErrors || k == noFiles):
			if err := k.ends(n.Wait(), n.Stderr.String()); err != nil {
				return err
			}
			return errExited // the fault goes on
		case n.Exited():
			return fmt.Errorf("%s: the server has ended: %w", k, errors.Join(err, os.ErrProcessDone))
		case err != nil:
			return fmt.Errorf("%s: %w", k, err)
		}
		end()
	}
	return nil
}

// mayHaveEnded says that a server may have ended so by what was done to it, although that was over: it took some time
// to die.
func mayHaveEnded(code int, log string) bool {
	return slices.ContainsFunc([]kind{readErrors, writeErrors, noFiles}, func(k kind) bool { return k.ends(code, log) == nil })
}

// awaitService waits until the server accepts connections and takes writes again, or has
// ended.
func (n *nemesis) awaitService(ctx context.Context) error {
	db := n.Open("test") // with no connection yet
	defer db.Close()
	for begun := time.Now(); !n.Exited() && !n.run.ending.Load() && sleep.For(ctx, time.Millisecond); {
		_, err := db.ExecContext(ctx, "REPLACE INTO probe VALUES (1, NOW(6))")
		if err == nil {
			return nil
		}
		if time.Since(begun) > hangTimeout {
			return fmt.Errorf("the server does not take writes again: %w", err)
		}
	}
	return nil
}

// kill ends a random connection, or its statement.
func (n *nemesis) kill(ctx context.Context, rng *rand.Rand) error {
	db := n.Open("test") // with no connection that was killed before
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var ids []string
	err = each(ctx, conn, "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID()", func(row []string) error {
		ids = append(ids, row[0])
		return nil
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	_, err = conn.ExecContext(ctx, pick(rng, "KILL QUERY ", "KILL QUERY ", "KILL ", "KILL CONNECTION ")+pick(rng, ids...))
	return err
}

// jump sets the server's clock: to a time somewhat before or after the right one, or to
// that.
func (n *nemesis) jump(_ context.Context, rng *rand.Rand) error {
	reach := pick(rng, 3*time.Second, time.Minute, 15*time.Minute, 3*time.Hour)
	sign := pick[time.Duration](rng, 0, 1, 1, -1)
	return n.clock.set(sign * time.Duration(rng.Int64N(int64(reach))))
}

func (n *nemesis) exhaustDisk(ctx context.Context, rng *rand.Rand) error {
	err := n.fillDisk()
	if err == nil {
		sleep.For(ctx, time.Duration(rng.IntN(1500))*time.Millisecond)
	}
	return errors.Join(err, n.clearDisk())
}

func (n *nemesis) failCalls(ctx context.Context, rng *rand.Rand, kinds failing) error {
	n.calls.fail(kinds, pick(rng, 1, 4, 40, 400))
	defer n.calls.fail(0, 1)
	sleep.For(ctx, time.Duration(rng.IntN(500))*time.Millisecond)
	return nil
}

func (n *nemesis) exhaustFiles(ctx context.Context, rng *rand.Rand) error {
	undo, err := n.limitFiles(rng.IntN(4))
	if err != nil {
		return err
	}
	sleep.For(ctx, time.Duration(rng.IntN(500))*time.Millisecond)
	if err := undo(); err != nil && !n.Exited() {
		return err
	}
	return nil
}

// loseTemp removes the temp folder, with what the jobs have in it.
func (n *nemesis) loseTemp(context.Context, *rand.Rand) error {
	return os.RemoveAll(filepath.Join(n.dir, "tmp"))
}

// The search would not notice a fault without effect: each kind has one.
func TestInjectedFaultsExplainErrors(t *testing.T) {
	var ts faults
	begun := time.Now()
	lost := fmt.Errorf("after a while: %w", sql.ErrConnDone)
	require.False(t, ts.explain(begun, lost))
	end := ts.begin(writeErrors)
	require.True(t, ts.explain(time.Now(), lost), "it lasts")
	end()
	require.True(t, ts.explain(begun, lost))
	require.False(t, ts.explain(time.Now().Add(time.Nanosecond), lost), "it is over")
	r := &run{}
	r.faults.begin(writeErrors)
	require.ErrorIs(t, r.gone(begun, lost), errFaultInjected)
	wrong := wrongf("rows are lost")
	require.Equal(t, wrong, r.gone(begun, wrong), "no fault explains a wrong result")
	for _, number := range inconsistencies {
		require.ErrorAs(t, r.gone(begun, &mysql.MySQLError{Number: number}), new(wrongResult))
	}
	require.ErrorIs(t, r.gone(begun, &mysql.MySQLError{Number: 9005}), errFaultInjected)
	r.ending.Store(true)
	require.ErrorIs(t, r.gone(begun, lost), errNodeGone)
}

// Nor does it explain every end of the server.
func TestInjectedFaultsExplainServerEnds(t *testing.T) {
	const manifest = `[2026/01/01 00:00:00.000 +00:00] [FATAL] [health.go:129] ["MANIFEST sync failed: input/output error"]` + "\n"
	require.NoError(t, writeErrors.ends(1, manifest))
	require.NoError(t, writeErrors.ends(2, "panic: fatal: MANIFEST dirsync failed: input/output error\n\ngoroutine 1 [running]:\n"))
	require.NoError(t, noFiles.ends(2, "panic: open 000007.sst: too many open files\n"))
	require.NoError(t, writeErrors.ends(2, "panic: syscall.Errno(5)\n\tfatal error: sync: unlock of unlocked mutex\n"))
	const short = "panic: (*fs.PathError) 0x3e89278f5860\n\tfatal error: sync: unlock of unlocked mutex\n"
	require.NoError(t, writeErrors.ends(2, `["background error"] [error="creating object 000060: input/output error"]`+"\n"+short))
	require.NoError(t, writeErrors.ends(2, short+"\ngoroutine 3022 [running]:\n"+rotating+"0x34da0ea3af08)\n"))
	require.NoError(t, readErrors.ends(1, manifest))
	for _, k := range []kind{readErrors, writeErrors, noFiles} {
		for _, log := range []string{
			"panic: runtime error: index out of range [1] with length 1\n", manifest + "fatal error: concurrent map writes\n",
			"panic: syscall.Errno(28)\n", short, "panic: (*fs.PathError) 0x3e89278f5860\n", "panic: invariant violated: 1 is not 2: input/output error: too many open files\n",
		} {
			require.Error(t, k.ends(2, log), log)
		}
		require.Error(t, k.ends(0, ""))
		require.Error(t, k.ends(-1, manifest), "by a signal")
	}
	require.Error(t, readErrors.ends(2, "panic: input/output error\n"))
}

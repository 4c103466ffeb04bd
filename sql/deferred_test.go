package sql_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/backfilltest"
	"fastddl/backfill/compare"
	"fastddl/ddl"
	"fastddl/internal/randtest"
	fastkv "fastddl/kv"
	"fastddl/sql"
)

// summingBuilds is a store that sums entries up itself, as TiKV does, and cannot list what has changed.
// It forgets entries that lose names.
type summingBuilds struct {
	fastkv.Store
	mu   sync.Mutex
	at   []uint64 // of what was summed up
	lose func(n int) bool
	n    int // pairs that were imported
}

func (s *summingBuilds) Checksum(ctx context.Context, r fastkv.KeyRange, ts uint64) (sum fastkv.Checksum, err error) {
	s.mu.Lock()
	s.at = append(s.at, ts)
	s.mu.Unlock()
	snap, err := s.Snapshot(ctx, ts)
	if err != nil {
		return sum, err
	}
	defer snap.Close()
	iter, err := snap.Iter(r)
	if err != nil {
		return sum, err
	}
	defer iter.Close()
	for iter.Valid() {
		key, value := iter.Key(), iter.Value()
		sum.Add(fastkv.Checksum{
			Pairs: 1, Bytes: int64(len(key) + len(value)), CRC: fastkv.UpdateCRC(fastkv.UpdateCRC(0, key), value),
		})
		if err := iter.Next(); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// CountUnchanged implements kv.UnchangedCounter.
func (s *summingBuilds) CountUnchanged(ctx context.Context, r fastkv.KeyRange, since, upTo uint64) (n int64, unchanged bool, err error) {
	changed := errors.New("changed")
	err = s.Store.(fastkv.ChangeFinder).Changes(ctx, r, since, upTo, func([]byte) error { return changed })
	if errors.Is(err, changed) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	snap, err := s.Snapshot(ctx, since)
	if err != nil {
		return 0, false, err
	}
	defer snap.Close()
	n, err = snap.Count(ctx, r)
	return n, true, err
}

// summedAt says whether anything was summed up at ts, and whether something was at other times.
func (s *summingBuilds) summedAt(ts uint64) (then, otherwise bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.at {
		then, otherwise = then || at == ts, otherwise || at != ts
	}
	return then, otherwise
}

func (s *summingBuilds) NewImportWriter(ctx context.Context, opts fastkv.ImportOptions) (fastkv.ImportWriter, error) {
	w, err := s.Store.NewImportWriter(ctx, opts)
	return &forgetfulWriter{ImportWriter: w, s: s}, err
}

func (s *summingBuilds) Import(ctx context.Context, units []fastkv.ImportUnit) error {
	return s.Store.Import(ctx, backfilltest.Uncounted(units))
}

type forgetfulWriter struct {
	fastkv.ImportWriter
	s     *summingBuilds
	pairs int
}

// Finish implements kv.ImportWriter. What is lost is lost in the store.
func (w *forgetfulWriter) Finish(ctx context.Context) (fastkv.ImportUnit, error) {
	u, err := w.ImportWriter.Finish(ctx)
	return backfilltest.CountedUnit{ImportUnit: u, Pairs: w.pairs}, err
}

func (w *forgetfulWriter) Add(key, value []byte) error {
	w.pairs++
	w.s.mu.Lock()
	w.s.n++
	lost := w.s.lose != nil && w.s.lose(w.s.n)
	w.s.mu.Unlock()
	if lost {
		return nil
	}
	return w.ImportWriter.Add(key, value)
}

// newSummingEnv opens a layer on such a store in dir.
func newSummingEnv(t *testing.T, dir string, s *summingBuilds) *env {
	return open(t, dir, func(o *sql.Options) {
		s.Store = o.Builds
		o.Builds = s
	})
}

// A unique index in a store that sums up itself is summed up once, at T. If that differs from the
// rows, what the build has made is verified at S before anything is repaired: what DML does is
// repaired then, and what the build has lost is built again.
func TestBuildIsVerifiedByTheComparison(t *testing.T) {
	s := new(summingBuilds)
	e := newSummingEnv(t, t.TempDir(), s)
	defer e.close()
	c := e.client()
	for _, test := range []struct {
		name     string
		hole     []int
		lose     func(n int) bool
		atS      bool
		repaired string
		compared string
	}{
		{"equal", nil, nil, false, "0", "1"},
		{"a hole that DML leaves", []int{3}, nil, true, "1", "3"},
		{"an entry that is lost", nil, func(n int) bool { return n == 88 }, true, "0", "2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.run("DROP TABLE IF EXISTS t")
			c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
			c.run("INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT i, i FROM n")
			s.at, s.n, s.lose = nil, 0, test.lose
			e.holes(func() {}, func() {}, test.hole...)
			c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
			e.setHook(nil)
			ts, err := strconv.ParseUint(c.lastJob("snapshot_ts"), 10, 64)
			require.NoError(t, err)
			atS, atT := s.summedAt(ts)
			require.True(t, atT)
			require.Equal(t, test.atS, atS)
			require.Equal(t, test.repaired, c.lastJob("repaired_keys"))
			require.Equal(t, test.compared, c.lastJob("comparisons"))
			c.check("t")
		})
	}
}

// A process that dies after a comparison has found a difference goes on with what is to be verified.
func TestRestartBeforeTheBuildIsVerified(t *testing.T) {
	dir := t.TempDir()
	s := &summingBuilds{lose: func(n int) bool { return n == 88 }}
	e := newSummingEnv(t, dir, s)
	c := e.client()
	table(c, 200)
	died := errors.New("died")
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if p.When == "after" && p.Action == "compare" {
			return died
		}
		return nil
	})
	require.ErrorIs(t, wait(t, e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")), died)
	e.close()
	s.at = nil
	e = newSummingEnv(t, dir, s)
	defer e.close()
	c = e.client()
	c.awaitNoJob()
	require.Equal(t, "synced", c.lastJob("state"))
	require.Equal(t, "0", c.lastJob("repaired_keys"))
	ts, err := strconv.ParseUint(c.lastJob("snapshot_ts"), 10, 64)
	require.NoError(t, err)
	atS, _ := s.summedAt(ts)
	require.True(t, atS)
	c.check("t")
}

// Rows that are not written after S are not read at T, also if the process dies in between; if any is written, all are read.
func TestUnchangedRowsAreNotReadAgain(t *testing.T) {
	randtest.SkipShort(t)
	o, s, dir := &overtaken{}, new(summingBuilds), t.TempDir()
	begin := func() *env {
		return open(t, dir, func(opts *sql.Options) {
			s.Store = opts.Builds
			opts.Builds = s
			o.Backfiller = ddl.NewBackfiller(backfill.Options{Store: s, Globals: opts.Globals, Bus: opts.Bus})
			opts.Backfiller = o
		})
	}
	e := begin()
	defer func() { e.close() }()
	c, writer := e.client(), e.client()
	writer.run("CREATE TABLE other (a INT PRIMARY KEY, b INT)")
	died := errors.New("died")
	for _, test := range []struct {
		name, action, write string
		dies                bool
		unchanged           bool
	}{
		{"nothing", "", "", false, true},
		{"before S", "take-snapshot", "UPDATE t SET b = -1 WHERE a = 1", false, true},
		{"another table", "backfill", "INSERT INTO other VALUES (1, 1)", false, true},
		{"a row before the import", "backfill", "UPDATE t SET b = -1 WHERE a = 1", false, false},
		{"a column that has no index", "backfill", "UPDATE t SET c = 'x' WHERE a = 1", false, false},
		{"a row that comes and goes", "backfill", "INSERT INTO t VALUES (1000, 1000, ''); DELETE FROM t WHERE a = 1000", false, false},
		{"a row after the import", "compare", "DELETE FROM t WHERE a = 1", false, false},
		{"a death", "", "", true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.run("DROP TABLE IF EXISTS t")
			c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c VARCHAR(10))")
			c.run("INSERT INTO t VALUES (1,1,''),(2,2,''),(3,3,'')")
			var unchanged []bool
			o.after = func(result compare.Result) {
				require.True(t, result.Clean())
				unchanged = append(unchanged, result.Unchanged)
			}
			if test.write != "" {
				e.before(test.action, "", func() { writer.run(test.write) })
			}
			if test.dies {
				e.setHook(func(_ context.Context, p ddl.HookPoint) error {
					if p.When == "before" && p.Action == "compare" {
						return died
					}
					return nil
				})
				require.ErrorIs(t, wait(t, e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")), died)
				o.after = func(result compare.Result) { unchanged = append(unchanged, result.Unchanged) }
				e.close()
				e = begin()
				c = e.client()
				c.awaitNoJob()
			} else {
				c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
				e.setHook(nil)
			}
			require.Equal(t, []bool{test.unchanged}, unchanged)
			c.check("t")
		})
	}
}

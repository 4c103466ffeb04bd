package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// randomScript returns a script, and the INSERT statements of each table. The statements of a table may be in several places.
func randomScript(t *testing.T) (script string, rows map[string][]string) {
	rng := randtest.Rand(t)
	var b strings.Builder
	b.WriteString("CREATE DATABASE d; USE d;\n")
	rows = make(map[string][]string)
	tables := 1 + rng.IntN(6)
	for i := range tables {
		fmt.Fprintf(&b, "CREATE TABLE t%d (a INT, b TEXT);\n", i)
	}
	for range rng.IntN(12) {
		table := fmt.Sprintf("t%d", rng.IntN(tables))
		for range 1 + rng.IntN(5) {
			insert := fmt.Sprintf("INSERT INTO `%s` VALUES (%d,'%s')", table, rng.IntN(1000), strings.Repeat("x;", rng.IntN(200)))
			rows[table] = append(rows[table], insert)
			b.WriteString(insert + ";\n")
		}
	}
	return b.String(), rows
}

// loaderOf returns a loader of a script into a fake server, with a quota of bytes.
func loaderOf(t *testing.T, server *fakeServer, script string, way Way, quota int64) (*loader, []action) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.sql")
	require.NoError(t, os.WriteFile(file, []byte(script), 0o600))
	server.spool = t.TempDir()
	opts := Default()
	opts.Source.Paths, opts.Threads, opts.Way, opts.TempQuota = []string{file}, 2, way, quota
	d, err := Open(context.Background(), opts.Source)
	require.NoError(t, err)
	db := server.open()
	t.Cleanup(func() { _ = db.Close() })
	l := &loader{Options: opts, dump: d, db: db, state: &state{db: db}, meter: newMeter(&bytes.Buffer{}, false), catalog: &catalog{}}
	actions, err := planTables(d, l.catalog, nil, where{way: way, local: true, securePath: server.spool, spool: server.spool, quota: quota})
	require.NoError(t, err)
	l.spool, err = newSpool(server.spool, quota)
	require.NoError(t, err)
	return l, actions
}

// TestEveryStatementOfAScriptArrivesOnce: in files or as it is read, beside other tables, under a quota that is smaller than the
// whole, and also where the server refuses some imports.
func TestEveryStatementOfAScriptArrivesOnce(t *testing.T) {
	rng := randtest.Rand(t)
	for range 60 {
		script, want := randomScript(t)
		way, quota := []Way{WayAuto, WayInsert}[rng.IntN(2)], int64(500+rng.IntN(5000))
		server := &fakeServer{}
		var n atomic.Int64
		if some := int64(1 + rng.IntN(4)); rng.IntN(2) == 0 {
			server.fail = func(query string) error {
				if importFrom.MatchString(query) && n.Add(1)%some == 0 {
					return refusal
				}
				return nil
			}
		}
		l, actions := loaderOf(t, server, script, way, quota)
		require.NoError(t, l.rows(context.Background(), actions), script)
		require.Len(t, server.rows, len(want))
		for table, statements := range want {
			require.ElementsMatch(t, statements, server.rows[table], "%s of %s: %v", table, script, l.meter.out)
			require.Equal(t, string(loaded), server.states[table])
		}
		overhead := int64(strings.Count(script, "INSERT") * len(statementEnd))
		require.LessOrEqual(t, server.spooled, quota+overhead)
		requireEmptySpool(t, l)
	}
}

func requireEmptySpool(t *testing.T, l *loader) {
	t.Helper()
	entries, err := os.ReadDir(l.spool.dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// TestFailedStatementEndsTheLoad: with its error, without temporary files, and no table is noted as loaded that has not all its rows.
func TestFailedStatementEndsTheLoad(t *testing.T) {
	rng := randtest.Rand(t)
	for range 60 {
		script, want := randomScript(t)
		way := []Way{WayAuto, WayInsert}[rng.IntN(2)]
		broken := errors.New("broken")
		at := int64(1 + rng.IntN(20))
		var n atomic.Int64
		server := &fakeServer{fail: func(query string) error {
			if n.Add(1) == at {
				return broken
			}
			return nil
		}}
		l, actions := loaderOf(t, server, script, way, 1<<20)
		err := l.rows(context.Background(), actions)
		if n.Load() >= at {
			require.ErrorIs(t, err, broken)
		} else {
			require.NoError(t, err)
		}
		for table, state := range server.states {
			if state == string(loaded) {
				require.ElementsMatch(t, want[table], server.rows[table])
			}
		}
		requireEmptySpool(t, l)
	}
}

// TestCancelledLoadEnds at any moment.
func TestCancelledLoadEnds(t *testing.T) {
	rng := randtest.Rand(t)
	for range 30 {
		script, _ := randomScript(t)
		ctx, cancel := context.WithCancel(context.Background())
		at := int64(1 + rng.IntN(15))
		var n atomic.Int64
		server := &fakeServer{fail: func(string) error {
			if n.Add(1) == at {
				cancel()
			}
			return nil
		}}
		l, actions := loaderOf(t, server, script, WayAuto, 1<<20)
		if err := l.rows(ctx, actions); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		requireEmptySpool(t, l)
		cancel()
	}
}

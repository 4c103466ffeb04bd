package dump

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/stretchr/testify/require"
)

// newTestLoader returns a loader of d into a fake server.
func newTestLoader(t *testing.T, server *fakeServer, d *Dump) *loader {
	t.Helper()
	db := server.open()
	t.Cleanup(func() { _ = db.Close() })
	return &loader{Options: Default(), dump: d, db: db, state: &state{db: db}, meter: newMeter(&bytes.Buffer{}, false), catalog: &catalog{}}
}

// TestInterruptedINSERTsAreGoneBeforeAnImport is noted: a table with the state importing is empty or whole, so part of the
// rows never counts as all of them, wherever the load that imports fails.
func TestInterruptedINSERTsAreGoneBeforeAnImport(t *testing.T) {
	dir := folderOf(t, map[string]string{"d.t-schema.sql": "CREATE TABLE t (a INT);", "d.t.sql": "INSERT INTO t VALUES (1);\nINSERT INTO t VALUES (2);\n"})
	d, err := Open(context.Background(), Source{Paths: []string{dir}})
	require.NoError(t, err)
	lost := errors.New("the connection is lost")
	for at := 1; ; at++ {
		n := 0
		server := &fakeServer{fail: func(string) error {
			if n++; n == at {
				return lost
			}
			return nil
		}}
		l := newTestLoader(t, server, d)
		l.Way = WayImport
		server.rows["t"], server.states["t"] = []string{"INSERT INTO t VALUES (1)"}, string(inserting)
		err := l.table(context.Background(), action{table: d.Tables[0], empty: true, way: WayImport})
		if rows := len(server.rows["t"]); rows == 1 {
			require.Equal(t, string(inserting), server.states["t"], "statement %d", at)
		}
		if n < at {
			require.NoError(t, err)
			require.Len(t, server.rows["t"], 2)
			require.Equal(t, string(loaded), server.states["t"])
			return
		}
		require.ErrorIs(t, err, lost)
	}
}

// TestHalfDefinitionIsMadeAnew wherever a load fails: the next one finds the table with the state defining and drops it, and never takes it
// for whole.
func TestHalfDefinitionIsMadeAnew(t *testing.T) {
	table := []string{"CREATE TABLE t (a INT)", "ALTER TABLE t ADD KEY (a)", "CREATE INDEX i ON t (a)"}
	sequence := []string{"CREATE SEQUENCE s", "DO SETVAL(s, 5)"}
	d := &Dump{Tables: []*Table{{Name: Name{"d", "t"}, SQL: table}}, Sequences: []Object{{Name: Name{"d", "s"}, SQL: sequence}}}
	lost := errors.New("the connection is lost")
	for at := 1; ; at++ {
		n := 0
		server := &fakeServer{fail: func(string) error {
			if n++; n == at {
				return lost
			}
			return nil
		}}
		l := newTestLoader(t, server, d)
		err := l.define(context.Background(), []action{{table: d.Tables[0], create: true}})
		for name, all := range map[string][]string{"t": table, "s": sequence} {
			if made := len(slices.DeleteFunc(slices.Clone(server.made), func(q string) bool { return !slices.Contains(all, q) })); made > 0 && made < len(all) {
				require.Equal(t, string(defining), server.states[name], "statement %d", at)
			}
		}
		if n < at {
			require.NoError(t, err)
			require.Empty(t, server.states)
			break
		}
		require.ErrorIs(t, err, lost)
	}
	server := &fakeServer{}
	l := newTestLoader(t, server, d)
	l.before = map[Name]progress{{"d", "t"}: defining, {"d", "s"}: defining}
	l.catalog.sequences = map[Name]bool{{"d", "s"}: true}
	require.NoError(t, l.define(context.Background(), []action{{table: d.Tables[0], create: true, half: true}}))
	require.Equal(t, slices.Concat([]string{"DROP SEQUENCE `d`.`s`"}, sequence, []string{"DROP TABLE `d`.`t`"}, table), server.made)
	require.Empty(t, server.states)
}

// TestImportThatEndsWhileALoadLooks: the rows that it has written are seen.
func TestImportThatEndsWhileALoadLooks(t *testing.T) {
	d := &Dump{Tables: []*Table{tableOf("t")}}
	ended := false
	server := &fakeServer{answer: func(query string) [][]driver.Value {
		switch {
		case strings.Contains(query, "information_schema.TABLES"):
			return [][]driver.Value{{"d", "t"}, {stateSchema, "tables_v1"}}
		case strings.Contains(query, "secure_file_priv"):
			return [][]driver.Value{{""}}
		case strings.Contains(query, stateTable):
			ended = true // between the look at the table and that at the imports
			return [][]driver.Value{{d.Tables[0].identity(), "d", "t", string(importing)}}
		case strings.HasPrefix(query, "SELECT 1 FROM `d`.`t`") && ended:
			return [][]driver.Value{{int64(1)}}
		}
		return nil
	}}
	l := newTestLoader(t, server, d)
	require.NoError(t, l.look(context.Background()))
	require.True(t, l.catalog.filled[Name{"d", "t"}])
}

// TestViewsAreCreatedInAPlainSession and not in that of a table's rows.
func TestViewsAreCreatedInAPlainSession(t *testing.T) {
	table := tableOf("t")
	table.Files[0].settings = settings{timeZone: "+01:00", binary: true, literalBackslash: true}
	server := &fakeServer{}
	l := newTestLoader(t, server, &Dump{Views: []Object{{Name: Name{"d", "v"}, SQL: []string{"CREATE VIEW v AS SELECT 1"}}}})
	l.db.SetMaxOpenConns(1)
	conn, err := l.conn(context.Background(), table)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NoError(t, l.views(context.Background()))
	require.Len(t, server.viewSession, 6)
	require.Equal(t, plainSession, server.viewSession[3:])
}

// TestStateThatAnotherLoadHasDropped is made again: that one has ended before this one's first table was noted.
func TestStateThatAnotherLoadHasDropped(t *testing.T) {
	dropped := true
	server := &fakeServer{}
	server.fail = func(query string) error {
		if strings.HasPrefix(query, "CREATE TABLE IF NOT EXISTS "+stateTable) {
			dropped = false
		} else if dropped && strings.Contains(query, stateTable) {
			return &mysql.MySQLError{Number: errno.ErrNoSuchTable}
		}
		return nil
	}
	table := tableOf("t")
	l := newTestLoader(t, server, &Dump{Tables: []*Table{table}})
	require.NoError(t, l.state.remove(context.Background(), l.dump.Tables))
	require.NoError(t, l.state.set(context.Background(), table, inserting))
	require.Equal(t, string(inserting), server.states["t"])
}

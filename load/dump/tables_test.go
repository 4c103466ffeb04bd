package dump

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

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

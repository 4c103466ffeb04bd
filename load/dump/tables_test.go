package dump

import (
	"bytes"
	"context"
	"errors"
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

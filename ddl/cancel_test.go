package ddl

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fastddl/table"
)

// hookPoints returns the points in the life of a job of a statement on p.
func hookPoints(t *testing.T, prepare []string, statement string) []string {
	t.Helper()
	e := newKeyEnv(t)
	e.must(prepare...)
	var points []string
	e.restart(func(p HookPoint) error {
		points = append(points, p.String())
		return nil
	})
	e.must(statement)
	return points
}

// definition prints what of a table a job that was undone must leave as it was.
func definition(t testing.TB, info *model.TableInfo) string {
	t.Helper()
	clone := info.Clone()
	// IDs are not used again.
	clone.MaxIndexID, clone.MaxColumnID = 0, 0
	clone.UpdateTS, clone.Revision = 0, 0
	text, err := json.MarshalIndent(clone, "", " ")
	require.NoError(t, err)
	return string(text)
}

// Each kind of job is cancelled at each point of its life. It is undone and
// leaves nothing; or it is too late, and it is done.
func TestCancelEachKindInEachStep(t *testing.T) {
	for _, tc := range []struct {
		name, statement string
		prepare         []string
		// revertible says that there is a way back at all.
		revertible bool
	}{
		{name: "unique index", statement: "alter table p add unique index u (a, b), add index c (c)", revertible: true},
		{name: "add primary key", statement: "alter table p add primary key (a, b)", revertible: true},
		{name: "replace primary key", prepare: []string{"alter table p add primary key (a)"},
			statement: "alter table p drop primary key, add primary key (c, b), add column d int", revertible: true},
		{name: "drop primary key", prepare: []string{"alter table p add primary key (a)"}, statement: "alter table p drop primary key"},
		{name: "drop index", statement: "alter table p drop index b"},
		{name: "drop column", statement: "alter table p drop column b"},
		{name: "add column", statement: "alter table p add column d int not null default 7", revertible: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			undone := 0
			for _, point := range hookPoints(t, tc.prepare, tc.statement) {
				t.Run(point, func(t *testing.T) {
					if cancelAt(t, tc.prepare, tc.statement, point) {
						undone++
					}
				})
			}
			require.Positive(t, undone, "a job that has not begun can be cancelled")
			if tc.revertible {
				require.Greater(t, undone, 2)
			}
		})
	}
}

// cancelAt cancels a statement on p at a point and says whether that undid it.
func cancelAt(t *testing.T, prepare []string, statement, point string) (undone bool) {
	e := newKeyEnv(t)
	e.must(prepare...)
	before := e.table("p").Info
	var refused error
	e.restart(nil)
	cancelled := false
	e.restart(func(p HookPoint) error {
		if p.String() == point && !cancelled {
			cancelled = true
			refused = e.ddl.Cancel(context.Background(), []int64{p.JobID})[0]
		}
		return nil
	})
	err := e.exec(statement)
	assert.True(t, cancelled)
	e.requireConsistent()
	e.requireNoTrace()
	after := e.table("p").Info
	if err == nil {
		require.Error(t, refused, "a job that says it can be cancelled is cancelled")
		require.NotEqual(t, definition(t, before), definition(t, after))
		return false
	}
	e.requireCode(err, 8214, "Cancelled DDL job")
	require.NoError(t, refused)
	require.Equal(t, definition(t, before), definition(t, after))
	for id := before.MaxIndexID + 1; id <= before.MaxIndexID+2; id++ {
		require.Zero(t, e.entries(table.IndexRange(after.ID, id)))
		require.Zero(t, e.entries(table.MarkerRange(after.ID, id)))
	}
	require.Contains(t, []string{"rollback done", "cancelled"}, e.jobs()[0].State)
	// The table is as good as new.
	e.must(statement)
	e.requireConsistent()
	return true
}

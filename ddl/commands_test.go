package ddl

import (
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
)

// A job that adds several indexes is not one for which INDEX on the table is enough.
func TestAddsOneIndex(t *testing.T) {
	for _, c := range []struct {
		kind    model.ActionType
		indexes int
		one     bool
	}{
		{model.ActionAddIndex, 1, true}, {model.ActionAddPrimaryKey, 1, true}, {model.ActionAddIndex, 2, false}, {model.ActionMultiSchemaChange, 1, false},
	} {
		r := &job.Record{Type: c.kind, Indexes: make([]*model.IndexArg, c.indexes)}
		require.Equal(t, c.one, addsOneIndex(r), "%+v", c)
	}
}

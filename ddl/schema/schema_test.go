package schema

import (
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
)

// An index is marked until it is public, and not at all for a job that a node may go on with which
// knows of no marks.
func TestMarkedNames(t *testing.T) {
	for _, protocol := range []int{0, 1, 2, job.Protocol} {
		r := &job.Record{Protocol: protocol, IndexIDs: []int64{1}}
		idx := &model.IndexInfo{ID: 1, Name: pmodel.NewCIStr("Aa"), State: model.StateWriteOnly}
		table := &model.TableInfo{Indices: []*model.IndexInfo{{ID: 2, Name: pmodel.NewCIStr("other")}, idx}}
		nameIndexes(r, table)
		require.Equal(t, protocol < markProtocol, table.FindIndexByName("aa") == idx)
		require.Equal(t, protocol >= markProtocol, BeingBuilt(table, "aa") == idx)
		require.Nil(t, BeingBuilt(table, "other"))
		idx.State = model.StatePublic
		nameIndexes(r, table)
		require.Equal(t, pmodel.NewCIStr("Aa"), idx.Name)
	}
}

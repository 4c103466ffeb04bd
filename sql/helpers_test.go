package sql_test

import (
	"context"

	"github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/sqlexec"

	"fastddl/ddl/job"
)

func fieldTypes(rs sqlexec.RecordSet) []*types.FieldType {
	var out []*types.FieldType
	for _, f := range rs.Fields() {
		out = append(out, &f.Column.FieldType)
	}
	return out
}

// errorCode is the error code that a client would get.
func errorCode(err error) int {
	te := job.FindTerror(err)
	if te == nil {
		return 1105
	}
	return int(terror.ToSQLError(te).Code)
}

// asServer is the context of what a server executes by itself.
func asServer() context.Context {
	return kv.WithInternalSourceType(context.Background(), kv.InternalTxnDDL)
}

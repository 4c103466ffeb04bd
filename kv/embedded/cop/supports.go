package cop

import (
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tipb/go-tipb"
)

// Supports says whether a part of a query can be pushed down: it is what a kv.Client answers IsRequestTypeSupported with.
// tp is one of kv.ReqType..., subTp a tipb.ExprType or one of kv.ReqSubType....
//
// Every scalar function that the planner pushes to TiKV is there, because TiDB's own library evaluates it; a planner that is
// refused functions also loses index ranges. Window functions and the aggregates that only TiFlash has are not there.
func Supports(tp, subTp int64) bool {
	switch tp {
	case tidbkv.ReqTypeSelect, tidbkv.ReqTypeIndex:
		switch subTp {
		case tidbkv.ReqSubTypeGroupBy, tidbkv.ReqSubTypeBasic, tidbkv.ReqSubTypeTopN:
			return true
		}
		return supportsExpr(subTp)
	case tidbkv.ReqTypeDAG:
		return supportsExpr(subTp)
	case tidbkv.ReqTypeAnalyze, tidbkv.ReqTypeChecksum:
		return true
	}
	return false
}

func supportsExpr(subTp int64) bool {
	switch subTp {
	case tidbkv.ReqSubTypeDesc, tidbkv.ReqSubTypeSignature:
		return true
	}
	switch tipb.ExprType(subTp) {
	case tipb.ExprType_Null, tipb.ExprType_Int64, tipb.ExprType_Uint64, tipb.ExprType_String, tipb.ExprType_Bytes,
		tipb.ExprType_MysqlDuration, tipb.ExprType_MysqlTime, tipb.ExprType_MysqlDecimal, tipb.ExprType_MysqlEnum,
		tipb.ExprType_MysqlBit, tipb.ExprType_Float32, tipb.ExprType_Float64, tipb.ExprType_TiDBVectorFloat32,
		tipb.ExprType_ColumnRef:
		return true
	case tipb.ExprType_Count, tipb.ExprType_First, tipb.ExprType_Max, tipb.ExprType_Min, tipb.ExprType_Sum,
		tipb.ExprType_Avg, tipb.ExprType_Agg_BitXor, tipb.ExprType_Agg_BitAnd, tipb.ExprType_Agg_BitOr:
		return true
	}
	return false
}

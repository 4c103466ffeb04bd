package cop

import (
	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/expression/exprstatic"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/pingcap/tipb/go-tipb"
)

// buildExpr makes an expression of what a request has of it. TiDB's library encodes expressions for TiKV and decodes them only
// in its own test store, so that what it loses on the way is put right before; see restore.
func (env *evalEnv) buildExpr(pb *tipb.Expr, fields []*types.FieldType) (expression.Expression, error) {
	exprs, err := env.buildExprs([]*tipb.Expr{pb}, fields)
	if err != nil {
		return nil, err
	}
	return exprs[0], nil
}

// buildExprs is buildExpr for several expressions.
func (env *evalEnv) buildExprs(pbs []*tipb.Expr, fields []*types.FieldType) ([]expression.Expression, error) {
	var own typedConstants
	defer own.giveBack()
	for _, pb := range pbs {
		if err := env.restore(pb); err != nil {
			return nil, err
		}
		if err := own.take(pb, len(fields)); err != nil {
			return nil, err
		}
	}
	exprs, err := expression.PBToExprs(env.expr, pbs, own.columnsAfter(fields))
	if err != nil {
		return nil, err
	}
	for i, e := range exprs {
		exprs[i] = own.substitute(e, len(fields))
	}
	return exprs, nil
}

// restore gives an expression back what encoding or decoding it loses (pkg/expression/expr_to_pb.go, distsql_builtin.go), but for
// the types of constants (typedConstants):
//
//   - A function's type is sent with the collation in which it compares its arguments. A binary string, as of BINARY v, would
//     be grouped and ordered by the connection's, and a text made of numbers, as of IFNULL(time, bit), would be binary data.
//   - UnaryNotJSON cannot be decoded. It says whether its argument equals the JSON number 0.
//   - sql_mode is not sent. NO_UNSIGNED_SUBTRACTION shows in the type of a difference.
func (env *evalEnv) restore(pb *tipb.Expr) error {
	for _, child := range pb.Children {
		if err := env.restore(child); err != nil {
			return err
		}
	}
	if pb.Tp != tipb.ExprType_ScalarFunc {
		return nil
	}
	if ft := pb.FieldType; ft != nil && types.IsString(byte(ft.Tp)) {
		restoreCollation(ft)
	}
	switch pb.Sig {
	case tipb.ScalarFuncSig_UnaryNotJSON:
		return notJSON(pb)
	case tipb.ScalarFuncSig_MinusInt:
		if !isUnsigned(pb) && (isUnsigned(pb.Children[0]) || isUnsigned(pb.Children[1])) {
			env.subtractSigned()
		}
	}
	return nil
}

// restoreCollation makes the collation of a string binary if the string is, and only then.
func restoreCollation(ft *tipb.FieldType) {
	if ft.Charset == charset.CharsetBin {
		ft.Collate = collate.CollationToProto(charset.CollationBin)
	} else if collate.ProtoToCollation(ft.Collate) == charset.CollationBin {
		if text, err := charset.GetDefaultCollation(ft.Charset); err == nil {
			ft.Collate = collate.CollationToProto(text)
		}
	}
}

func isUnsigned(pb *tipb.Expr) bool {
	return pb.FieldType != nil && mysql.HasUnsignedFlag(uint(pb.FieldType.Flag))
}

// subtractSigned makes differences of unsigned integers signed.
func (env *evalEnv) subtractSigned() {
	if mode := env.eval.SQLMode(); !mode.HasNoUnsignedSubtractionMode() {
		env.eval = env.eval.Apply(exprstatic.WithSQLMode(mode | mysql.ModeNoUnsignedSubtraction))
		env.expr = env.expr.Apply(exprstatic.WithEvalCtx(env.eval))
	}
}

// notJSON makes NOT j the comparison of j with 0.
func notJSON(pb *tipb.Expr) error {
	zero, err := codec.EncodeValue(nil, nil, types.NewJSONDatum(types.CreateBinaryJSON(int64(0))))
	if err != nil {
		return err
	}
	pb.Sig = tipb.ScalarFuncSig_EQJson
	pb.Children = append(pb.Children, &tipb.Expr{
		Tp: tipb.ExprType_MysqlJson, Val: zero, FieldType: expression.ToPBFieldType(types.NewFieldType(mysql.TypeJSON)),
	})
	return nil
}

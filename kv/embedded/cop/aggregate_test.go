package cop

import (
	"math/big"
	"math/rand"
	"testing"

	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// TestSumOfIntegers adds up integers whose sum needs more than 64 bits.
func TestSumOfIntegers(t *testing.T) {
	rnd := rand.New(rand.NewSource(int64(randtest.Seed(t))))
	env, err := newEvalEnv(&tipb.DAGRequest{})
	require.NoError(t, err)
	for _, unsigned := range []bool{false, true} {
		ft := types.NewFieldType(mysql.TypeLonglong)
		if unsigned {
			ft.AddFlag(mysql.UnsignedFlag)
		}
		for range 200 {
			arg := &expression.Column{RetType: ft}
			sum, err := newSum(env, arg, types.NewFieldType(mysql.TypeNewDecimal))
			require.NoError(t, err)
			sum.grow(1)
			want := new(big.Int)
			batch := chunk.NewChunkWithCapacity([]*types.FieldType{ft}, 8)
			rows := 1 + rnd.Intn(50)
			for range rows {
				v := rnd.Uint64() >> rnd.Intn(64)
				if rnd.Intn(2) == 0 {
					v = -v
				}
				batch.AppendUint64(0, v)
				if unsigned {
					want.Add(want, new(big.Int).SetUint64(v))
				} else {
					want.Add(want, big.NewInt(int64(v)))
				}
			}
			batch.AppendNull(0)
			require.NoError(t, sum.update(env, batch, make([]int, rows+1)))
			out := chunk.NewChunkWithCapacity([]*types.FieldType{types.NewFieldType(mysql.TypeNewDecimal)}, 1)
			require.NoError(t, sum.result(env, 0, 1, out, 0))
			require.Equal(t, want.String(), out.GetRow(0).GetMyDecimal(0).String())
		}
	}
}

// TestAverage: a partial average is a count and a sum.
func TestAverage(t *testing.T) {
	f := newFixture(t, 100)
	ft := types.NewFieldType(mysql.TypeNewDecimal)
	avg := &tipb.Expr{Tp: tipb.ExprType_Avg, Children: []*tipb.Expr{columnRef(1)}, FieldType: expression.ToPBFieldType(ft)}
	f.then(&tipb.Executor{Tp: tipb.ExecType_TypeAggregation, Aggregation: &tipb.Aggregation{AggFunc: []*tipb.Expr{avg}}})
	f.dag.OutputOffsets = []uint32{0, 1}
	require.Equal(t, []string{"100|450|"}, f.rows(f.run()))
}
